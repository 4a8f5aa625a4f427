//! Symbols of the synthetic market, and how often each trades.

use std::collections::BTreeSet;

use pitwire_random::SplitMix64;

pub const MOST: usize = 100_000;

/// The most traded symbols, roughly in order. The others are generated.
const KNOWN: &[&str] = &[
    "SPY", "TSLA", "NVDA", "AAPL", "QQQ", "AMD", "AMZN", "MSFT", "META", "PLTR", "INTC", "BAC", "SOFI", "F", "TQQQ",
    "SQQQ", "GOOGL", "GOOG", "NFLX", "IWM", "COIN", "MU", "BABA", "T", "C", "GE", "UBER", "XOM", "PFE", "WFC", "DIS",
    "JPM", "CSCO", "VZ", "KO", "BA", "AVGO", "CRM", "ORCL", "HYG", "GLD", "SLV", "EEM", "XLF", "TLT", "XLE", "V", "MA",
    "WMT", "HD", "JNJ", "PG", "CVX", "MRK", "ABBV", "PEP", "COST", "ADBE", "QCOM", "TXN", "BRK.B", "BRK.A", "BF.B",
];

/// Returns `count` different symbols, the same for the same seed.
pub fn names(count: usize, seed: u64) -> Vec<String> {
    let mut random = SplitMix64::new(seed ^ 0x005A_4D42_0001);
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = Vec::with_capacity(count);
    for known in KNOWN.iter().take(count) {
        taken.insert((*known).to_owned());
        names.push((*known).to_owned());
    }
    while names.len() < count {
        let name = made(&mut random);
        if taken.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

/// Generates three or four letters, sometimes five, rarely with a share class.
fn made(random: &mut SplitMix64) -> String {
    let letters = match random.below(20) {
        0..=7 => 3,
        8..=17 => 4,
        _ => 5,
    };
    let mut letter = || char::from(b'A' + u8::try_from(random.below(26)).unwrap_or(0));
    let mut name: String = (0..letters).map(|_| letter()).collect();
    if random.one_in(100) {
        name.truncate(3);
        name.push_str(".A");
    }
    name
}

/// Distributes `trades` over the symbols by Zipf's law (rank k in proportion to 1/k), at least one
/// each.
pub fn shares(symbols: usize, trades: usize) -> Vec<usize> {
    let harmonic: f64 = (1..=symbols).map(|rank| 1.0 / to_f64(rank)).sum();
    let spare = to_f64(trades - symbols);
    // Positive and far below 2^52.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let more = |rank: usize| (spare / (to_f64(rank) * harmonic)) as usize;
    let mut shares: Vec<usize> = (1..=symbols).map(|rank| 1 + more(rank)).collect();
    let given: usize = shares.iter().sum();
    shares[0] += trades - given;
    shares
}

#[allow(clippy::cast_precision_loss)] // Counts far below 2^52.
fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{MOST, names, shares};

    #[test]
    fn symbols_are_unique_and_repeat_with_their_seed() {
        let first = names(6_000, 7);
        assert_eq!(first, names(6_000, 7));
        assert_ne!(first, names(6_000, 8));
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 6_000);
        assert!(first.iter().all(|name| (1..=5).contains(&name.len())));
        assert_eq!(names(1, 7), ["SPY"]);
        assert_eq!(names(MOST, 7).len(), MOST);
    }

    #[test]
    fn shares_follow_zipfs_law_and_include_every_symbol() {
        let given = shares(6_000, 65_536);
        assert_eq!(given.iter().sum::<usize>(), 65_536);
        assert!(given.iter().all(|share| *share >= 1));
        assert!(given.is_sorted_by(|a, b| a >= b));
        // 59,536 to distribute; the harmonic number of 6,000 is 9.277, so the tenth gets about 642,
        // the hundredth 64.
        assert!((600..=700).contains(&given[9]), "{}", given[9]);
        assert!((60..=70).contains(&given[99]), "{}", given[99]);
        assert_eq!(shares(1, 1), [1]);
    }
}
