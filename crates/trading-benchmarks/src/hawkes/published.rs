//! The published figures of CoinTossX (arXiv 2102.10925). They come from other hardware.
//!
//! The paper prints latencies in nanoseconds. Its code measures nanoseconds inside the matching
//! engine, from the receipt of a message to its publication. It then writes the histogram divided
//! by 1,000, so the numbers are microseconds. `HDRData.java` of its repository has the divisor.

/// A row of table 5.
pub struct PublishedRow {
    pub machine: &'static str,
    pub pairs: u32,
    pub seconds: f64,
    pub orders: u64,
    pub orders_per_second: u64,
}

const WITS: &str = "Wits, Opteron 8356";
const AZURE: &str = "Azure, Xeon E5-2673 v3";

const fn row(
    machine: &'static str,
    pairs: u32,
    time: (u32, u32, f64),
    orders: u64,
    orders_per_second: u64,
) -> PublishedRow {
    let seconds = (time.0 * 3600 + time.1 * 60) as f64 + time.2;
    PublishedRow { machine, pairs, seconds, orders, orders_per_second }
}

/// Table 5: duration, orders and throughput.
pub const TABLE_5: [PublishedRow; 10] = [
    row(WITS, 1, (0, 0, 48.820), 111_646, 2287),
    row(WITS, 2, (0, 4, 23.981), 224_562, 850),
    row(WITS, 4, (0, 12, 2.204), 448_774, 621),
    row(WITS, 6, (0, 15, 12.386), 669_331, 733),
    row(WITS, 8, (0, 20, 27.010), 895_080, 729),
    row(WITS, 10, (0, 18, 52.289), 1_120_514, 989),
    row(AZURE, 1, (0, 6, 44.917), 110_825, 274),
    row(AZURE, 2, (0, 19, 38.576), 222_390, 189),
    row(AZURE, 4, (0, 43, 55.734), 447_878, 170),
    row(AZURE, 6, (2, 1, 27.494), 564_070, 77),
];

/// A latency at the 90th percentile as printed.
pub struct PublishedLatency {
    pub machine: &'static str,
    pub what: &'static str,
    /// The printed number. The paper's unit is ns, and its code implies microseconds.
    pub p90: u32,
}

const fn latency(machine: &'static str, what: &'static str, p90: u32) -> PublishedLatency {
    PublishedLatency { machine, what, p90 }
}

/// Figures 4 and 5, as far as the text states numbers.
pub const FIGURES_4_AND_5: [PublishedLatency; 6] = [
    latency(WITS, "figure 4: lowest of 1 to 10 pairs", 106),
    latency(WITS, "figure 4: highest of 1 to 10 pairs", 248),
    latency(AZURE, "figure 4: lowest of 1 to 6 pairs", 123),
    latency(AZURE, "figure 4: highest of 1 to 6 pairs", 393),
    latency(WITS, "figure 5: one client, 1,000,000 orders", 735),
    latency(AZURE, "figure 5: one client, 1,000,000 orders", 964),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_of_table_5_is_orders_by_duration() {
        for row in &TABLE_5 {
            let rate = row.orders as f64 / row.seconds;
            assert!((rate - row.orders_per_second as f64).abs() <= 1.0, "{} {}: {rate}", row.machine, row.pairs);
        }
    }
}
