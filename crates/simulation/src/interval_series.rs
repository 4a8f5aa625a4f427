//! Figures of consecutive intervals of a run, in bounded memory.
//!
//! Holds       there are at most 512 intervals of equal length. When a run outgrows them, two
//!             neighbours become one, and the length doubles.
//! Start at    [`IntervalSeries::at`].

use pitwire_model::VenueNanos;

/// Most intervals of a series.
const INTERVALS_MAX: usize = 512;
const SECOND_NS: u64 = 1_000_000_000;

/// Trades and samples of the book in one interval. Prices are in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub trades: u64,
    pub lots: u64,
    /// Lowest, highest and last price; `None` without trades.
    pub prices: Option<[i64; 3]>,
    /// Number of samples with two sides, one each second.
    pub samples: u64,
    /// Sum of the spread over the samples.
    pub spread_ticks: u64,
    /// Sums of the lots at the best bid and at the best offer over the samples.
    pub touch_lots: [u64; 2],
}

impl Interval {
    pub fn trade(&mut self, price: i64, lots: u64) {
        self.trades += 1;
        self.lots += lots;
        let [low, high, _] = self.prices.unwrap_or([price; 3]);
        self.prices = Some([low.min(price), high.max(price), price]);
    }

    /// Adds the interval behind this one.
    fn append(&mut self, next: &Interval) {
        self.trades += next.trades;
        self.lots += next.lots;
        self.prices = match (self.prices, next.prices) {
            (Some(one), Some(other)) => Some([one[0].min(other[0]), one[1].max(other[1]), other[2]]),
            (one, other) => other.or(one),
        };
        self.samples += next.samples;
        self.spread_ticks += next.spread_ticks;
        for (sum, more) in self.touch_lots.iter_mut().zip(next.touch_lots) {
            *sum += more;
        }
    }
}

/// The intervals of a run from its start, one second long at first.
#[derive(Clone, Debug)]
pub struct IntervalSeries {
    start: VenueNanos,
    /// Length of an interval.
    pub seconds: u64,
    pub intervals: Vec<Interval>,
}

impl IntervalSeries {
    pub fn new(start: VenueNanos) -> Self {
        IntervalSeries { start, seconds: 1, intervals: Vec::new() }
    }

    /// Returns the interval that contains a time. Times before the start belong to the first one.
    pub fn at(&mut self, at: VenueNanos) -> &mut Interval {
        let second = at.0.saturating_sub(self.start.0) / SECOND_NS;
        while second / self.seconds >= INTERVALS_MAX as u64 {
            self.halve();
        }
        // Below 512.
        let index = usize::try_from(second / self.seconds).unwrap_or(0);
        if index >= self.intervals.len() {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }

    fn halve(&mut self) {
        self.intervals = self
            .intervals
            .chunks(2)
            .map(|pair| {
                let mut whole = pair[0];
                pair[1..].iter().for_each(|next| whole.append(next));
                whole
            })
            .collect();
        self.seconds *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> VenueNanos {
        VenueNanos(n * SECOND_NS + 7)
    }

    #[test]
    fn a_long_run_keeps_its_sums_in_longer_intervals() {
        let mut series = IntervalSeries::new(VenueNanos(7));
        for n in 0..2_000 {
            series.at(second(n)).trade(100 + i64::try_from(n).unwrap(), 3);
        }
        assert_eq!((series.seconds, series.intervals.len()), (4, 500));
        assert_eq!(series.intervals.iter().map(|one| one.lots).sum::<u64>(), 6_000);
        assert_eq!(series.intervals[1].prices, Some([104, 107, 107]));
        assert_eq!(series.at(VenueNanos(0)).trades, 4, "the start itself");
    }

    #[test]
    fn an_interval_without_trades_takes_the_prices_of_its_neighbour() {
        let mut series = IntervalSeries::new(VenueNanos(7));
        series.at(second(1)).trade(50, 1);
        series.at(second(2)).trade(40, 1);
        series.at(second(600));
        assert_eq!(
            series.intervals[..2].iter().map(|one| one.prices).collect::<Vec<_>>(),
            [Some([50, 50, 50]), Some([40, 40, 40])]
        );
        assert_eq!(series.intervals[2], Interval::default());
    }
}
