//! Counts of reads and routed trades, and the statistics line.
//!
//! Does        counts; formats a line after every N trades of a connection, exactly; keeps totals
//!             over all connections.
//! Holds       counting reads no clock, except for a line.
//! Leaves out  printing: see `line_printer`.
//! Start at    [`FeedMeter::routed`].

use std::io::Write as _;

use hdrhistogram::Histogram;

/// Longest recorded hand-over, in nanoseconds. A longer one counts as this.
const LONGEST_LAG_NS: u64 = 60_000_000_000;

/// Totals since the start, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedTotals {
    pub trades: u64,
    pub bytes: u64,
    pub reads: u64,
    pub frames: u64,
    /// Connections that were opened, including the first.
    pub connections: u64,
    /// Connections that were lost.
    pub gaps: u64,
}

/// A time on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub mono_ns: u64,
    pub epoch_ns: u64,
}

pub struct FeedMeter {
    /// Trades per line; `u64::MAX` without lines.
    every: u64,
    to_line: u64,
    pub totals: FeedTotals,
    /// Trades of this connection.
    here: u64,
    last: LineMark,
    lines: Vec<u8>,
    lag: Histogram<u64>,
}

/// The totals at the last line.
#[derive(Clone, Copy, Default)]
struct LineMark {
    mono_ns: u64,
    reads: u64,
    frames: u64,
    bytes: u64,
}

/// Time from a read to the hand-over of its objects, one sample per read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandOverLag {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub reads: u64,
}

impl FeedMeter {
    /// `every` 0 disables lines.
    pub fn new(every: u64) -> Self {
        let every = if every == 0 { u64::MAX } else { every };
        // The bounds are valid constants.
        let lag = Histogram::new_with_bounds(1, LONGEST_LAG_NS, 2).or_else(|_| Histogram::new(2));
        let lag = lag.unwrap_or_else(|_| unreachable!("two digits are allowed"));
        FeedMeter {
            every,
            to_line: every,
            totals: FeedTotals::default(),
            here: 0,
            last: LineMark::default(),
            lines: Vec::new(),
            lag,
        }
    }

    pub fn connected(&mut self, now: Moment) {
        self.totals.connections += 1;
        (self.here, self.to_line) = (0, self.every);
        self.mark(now);
    }

    pub fn lost(&mut self) {
        self.totals.gaps += 1;
    }

    #[inline]
    pub fn read(&mut self) {
        self.totals.reads += 1;
    }

    #[inline]
    pub fn received(&mut self, bytes: usize) {
        self.totals.bytes += bytes as u64;
    }

    /// Returns how many trades may be routed before a line is due.
    #[inline]
    pub fn room(&self) -> u64 {
        self.to_line
    }

    /// Returns the trades of this connection.
    pub fn here(&self) -> u64 {
        self.here
    }

    /// HOT. Counts `trades` more, at most [`FeedMeter::room`].
    #[inline]
    pub fn routed(&mut self, trades: u64, now: impl FnOnce() -> Moment) {
        debug_assert!(trades <= self.to_line, "a line falls between two trades");
        self.totals.trades += trades;
        self.here += trades;
        self.to_line -= trades;
        if self.to_line == 0 {
            self.line(now());
        }
    }

    #[inline]
    pub fn handed_over(&mut self, lag_ns: u64) {
        self.lag.saturating_record(lag_ns.clamp(1, LONGEST_LAG_NS));
    }

    pub fn lag(&self) -> HandOverLag {
        let at = |quantile| self.lag.value_at_quantile(quantile);
        HandOverLag { p50_ns: at(0.5), p99_ns: at(0.99), max_ns: self.lag.max(), reads: self.lag.len() }
    }

    /// Counts reads by the octave of their lag in microseconds; the last bucket takes everything
    /// above.
    pub fn lag_by_octave(&self, octaves: &mut [u64]) {
        octaves.fill(0);
        let Some(last) = octaves.len().checked_sub(1) else { return };
        for value in self.lag.iter_recorded() {
            let us = value.value_iterated_to() / 1_000;
            let octave = (u64::BITS - us.leading_zeros()) as usize;
            octaves[octave.min(last)] += value.count_at_value();
        }
    }

    /// Returns the lines since they were last taken.
    pub fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    fn mark(&mut self, now: Moment) {
        let FeedTotals { reads, frames, bytes, .. } = self.totals;
        self.last = LineMark { mono_ns: now.mono_ns, reads, frames, bytes };
    }

    /// Formats a line exactly as the original program did, so that existing readers of its lines
    /// keep working.
    #[cold]
    #[allow(clippy::cast_precision_loss)]
    fn line(&mut self, now: Moment) {
        self.to_line = self.every;
        let (totals, last) = (self.totals, self.last);
        let (reads, frames) = (totals.reads - last.reads, totals.frames - last.frames);
        let ratio = |above: u64, below: u64| if below == 0 { 0.0 } else { above as f64 / below as f64 };
        let rate = self.every as f64 * 1e9 / now.mono_ns.saturating_sub(last.mono_ns).max(1) as f64;
        let (seconds, tens_of_us) = (now.epoch_ns / 1_000_000_000, now.epoch_ns % 1_000_000_000 / 10_000);
        // Writing to memory cannot fail.
        let _ = writeln!(
            self.lines,
            "[{seconds}.{tens_of_us:05}] Rate {{r {reads:4}}} {{f {frames:4}}} {{f/r {:6.2}}} {{t/f {:6.2}}} {{tt {}}} {{ttt {}}} \
             {{br {:7}}} {{bt {:13}}}: {rate:10.2} t/s",
            ratio(frames, reads),
            ratio(self.every, frames),
            self.here,
            totals.trades,
            totals.bytes - last.bytes,
            totals.bytes,
        );
        self.mark(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(mono_ns: u64) -> Moment {
        Moment { mono_ns, epoch_ns: 1_606_487_400_123_456_789 + mono_ns }
    }

    fn deal(meter: &mut FeedMeter, mut trades: u64, mono_ns: u64) {
        while trades > 0 {
            let now = trades.min(meter.room());
            meter.routed(now, || moment(mono_ns));
            trades -= now;
        }
    }

    fn taken(meter: &mut FeedMeter) -> String {
        String::from_utf8(std::mem::take(meter.lines())).unwrap()
    }

    #[test]
    fn the_line_matches_the_original_column_by_column() {
        // Computed by hand from the original's format: %.5f, %4lu, %6.2f, %lu, %7lu, %13lu, %10.2f.
        let mut meter = FeedMeter::new(8192);
        meter.connected(moment(0));
        for _ in 0..4 {
            meter.read();
            meter.received(250_000);
        }
        meter.totals.frames = 64;
        deal(&mut meter, 8191, 1);
        assert_eq!(taken(&mut meter), "", "not before the last of them");
        deal(&mut meter, 1, 4_096_000);
        assert_eq!(
            taken(&mut meter),
            "[1606487400.12755] Rate {r    4} {f   64} {f/r  16.00} {t/f 128.00} {tt 8192} {ttt 8192} {br 1000000} \
             {bt       1000000}: 2000000.00 t/s\n"
        );
        // Objects left in the buffer are routed without a read: r, br and f/r are 0.
        meter.totals.frames += 1;
        deal(&mut meter, 8192, 12_288_000);
        assert_eq!(
            taken(&mut meter),
            "[1606487400.13574] Rate {r    0} {f    1} {f/r   0.00} {t/f 8192.00} {tt 16384} {ttt 16384} {br       0} \
             {bt       1000000}: 1000000.00 t/s\n"
        );
    }

    #[test]
    fn a_new_connection_restarts_the_line_but_not_the_totals() {
        let mut meter = FeedMeter::new(10);
        meter.connected(moment(0));
        deal(&mut meter, 25, 1_000);
        assert_eq!(taken(&mut meter).lines().count(), 2);
        meter.lost();
        meter.connected(moment(5_000_000_000));
        deal(&mut meter, 9, 5_000_001_000);
        assert_eq!(taken(&mut meter), "");
        deal(&mut meter, 1, 5_000_001_000);
        let line = taken(&mut meter);
        assert!(line.contains("{tt 10} {ttt 35}") && line.contains(": 10000000.00 t/s"), "{line}");
        assert_eq!(meter.totals, FeedTotals { trades: 35, connections: 2, gaps: 1, ..FeedTotals::default() });
    }

    #[test]
    fn lines_can_be_disabled() {
        let mut meter = FeedMeter::new(0);
        meter.connected(moment(0));
        deal(&mut meter, 1_000_000, 9);
        assert_eq!((taken(&mut meter), meter.totals.trades), (String::new(), 1_000_000));
    }

    #[test]
    fn lag_is_recorded_per_read() {
        let mut meter = FeedMeter::new(0);
        for lag_us in [1, 1, 1, 100, 70_000_000] {
            meter.handed_over(lag_us * 1_000);
        }
        let lag = meter.lag();
        assert!((900..=1_100).contains(&lag.p50_ns) && lag.reads == 5, "{lag:?}");
        assert!((LONGEST_LAG_NS..LONGEST_LAG_NS + LONGEST_LAG_NS / 50).contains(&lag.max_ns), "{lag:?}");
        let mut octaves = [9; 9];
        meter.lag_by_octave(&mut octaves);
        assert_eq!(octaves, [0, 3, 0, 0, 0, 0, 0, 1, 1]);
    }
}
