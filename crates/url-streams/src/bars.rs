//! One instrument's minutes, with what Binance candles need: the number of trades, their ids and
//! the volume taken by buyers.
//!
//! Does        Adds each public trade to its minute. Sums minutes to buckets and to the last 24
//!             hours.
//! Holds       1. At most [`Tape::CANDLES`] minutes with trades are stored, the newest.
//!             2. Trades of the closing price cross count in volume and set no price, as in the
//!                venue's own candles.
//! Leaves out  Trades before the start that the tape no longer has: the number of trades in those
//!             minutes is unknown, and ids are -1, the dialect's value for "none".
//! Costs       Constant per trade. A query costs the minutes that it sums.
//! Start at    [`Bars::add`], [`Bars::buckets`].

use std::collections::VecDeque;

use pitwire_model::{Side, Ticks};
use pitwire_projections::{Candle, MINUTE_MS, PublicTrade, Tape};

use crate::key::KlineInterval;

pub(crate) const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// A candle with the counts that the candles of the venue do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub candle: Candle,
    /// Lots of the candle that buyers took.
    pub bought_lots: u64,
    pub bought_tick_lots: u128,
    pub trades: u64,
    /// Ids of the first and the last trade, if known.
    pub ids: Option<(u64, u64)>,
}

impl Bar {
    pub fn new(candle: Candle) -> Bar {
        Bar { candle, bought_lots: 0, bought_tick_lots: 0, trades: 0, ids: None }
    }

    fn add(&mut self, trade: &PublicTrade) {
        self.candle.add(trade);
        if trade.taker_side == Side::Buy {
            let value = u128::from(trade.price.0.unsigned_abs()) * u128::from(trade.lots.0);
            self.bought_lots = self.bought_lots.saturating_add(trade.lots.0);
            self.bought_tick_lots = self.bought_tick_lots.saturating_add(value);
        }
        self.trades += 1;
        let first = self.ids.map_or(trade.seq.0, |(first, _)| first);
        self.ids = Some((first, trade.seq.0));
    }

    fn absorb(&mut self, later: &Bar) {
        self.candle.absorb(&later.candle);
        self.bought_lots = self.bought_lots.saturating_add(later.bought_lots);
        self.bought_tick_lots = self.bought_tick_lots.saturating_add(later.bought_tick_lots);
        self.trades += later.trades;
        self.ids = match (self.ids, later.ids) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (one, other) => one.or(other),
        };
    }
}

#[derive(Debug, Default)]
pub(crate) struct Bars {
    minutes: VecDeque<Bar>,
}

impl Bars {
    /// Rebuilds the minutes at the venue's start: prices from its candles, counts from the trades
    /// that the tape has.
    pub fn of(tape: &Tape) -> Bars {
        let mut bars = Bars::default();
        let Some(oldest) = tape.trades().front() else { return bars };
        let mut known_from = 0;
        if oldest.seq.0 > 1 {
            // The minute of the oldest stored trade may have had earlier trades, so it comes from
            // the candles too.
            let minute = oldest.at.as_millis() / MINUTE_MS * MINUTE_MS;
            known_from = minute + MINUTE_MS;
            for candle in tape.candles(0, minute, 1, Tape::CANDLES).into_iter().filter(|candle| candle.lots > 0) {
                bars.push(Bar::new(candle));
            }
        }
        tape.trades().iter().filter(|trade| trade.at.as_millis() >= known_from).for_each(|trade| bars.add(trade));
        bars
    }

    pub fn add(&mut self, trade: &PublicTrade) {
        if let Some(candle) = Candle::begin(self.minutes.back().map(|bar| &bar.candle), trade) {
            self.push(Bar::new(candle));
        }
        if let Some(bar) = self.minutes.back_mut() {
            bar.add(trade);
        }
    }

    fn push(&mut self, bar: Bar) {
        if self.minutes.len() == Tape::CANDLES {
            self.minutes.pop_front();
        }
        self.minutes.push_back(bar);
    }

    /// Returns the bucket that begins at `start_ms`. Without trades it is flat at the last close
    /// before it. Returns `None` before the first trade.
    pub fn bucket(&self, interval: KlineInterval, start_ms: u64) -> Option<Bar> {
        let end_ms = start_ms.saturating_add(interval.width_ms());
        let from = self.minutes.partition_point(|bar| bar.candle.start_ms < start_ms);
        let before = from.checked_sub(1).and_then(|at| self.minutes.get(at)).map(|bar| bar.candle.close);
        let mut within = self.minutes.range(from..).take_while(|bar| bar.candle.start_ms < end_ms);
        match within.next() {
            Some(first) => {
                let mut sum = *first;
                sum.candle.start_ms = start_ms;
                within.for_each(|bar| sum.absorb(bar));
                Some(sum)
            }
            None => before.map(|close| Bar::new(Candle::flat(start_ms, close))),
        }
    }

    /// Returns at most `most` buckets that begin in the range, oldest first, without holes.
    pub fn buckets(&self, interval: KlineInterval, from_ms: u64, to_ms: u64, most: usize, newest: bool) -> Vec<Bar> {
        let Some(oldest) = self.minutes.front() else { return Vec::new() };
        let width = interval.width_ms();
        let last = interval.start_ms(to_ms);
        let mut first = interval.start_ms(from_ms.max(oldest.candle.start_ms));
        if first < from_ms {
            first = first.saturating_add(width);
        }
        let span = width.saturating_mul(u64::try_from(most.saturating_sub(1)).unwrap_or(u64::MAX));
        if newest {
            first = first.max(last.saturating_sub(span));
        }
        let mut out = Vec::new();
        while first <= last && out.len() < most {
            out.extend(self.bucket(interval, first));
            first = first.saturating_add(width);
        }
        out
    }

    /// Returns the last 24 hours up to `now_ms`, and the last close before them.
    pub fn day(&self, now_ms: u64) -> Option<(Bar, Option<Ticks>)> {
        let since = now_ms.saturating_sub(DAY_MS);
        let from = self.minutes.partition_point(|bar| bar.candle.start_ms < since);
        let before = from.checked_sub(1).and_then(|at| self.minutes.get(at)).map(|bar| bar.candle.close);
        let mut within = self.minutes.range(from..);
        let mut day = *within.next()?;
        within.for_each(|bar| day.absorb(bar));
        Some((day, before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::VenueNanos;

    fn trade(seq: u64, at_ms: u64, price: i64, lots: u64, taker_side: Side) -> PublicTrade {
        crate::market::tests::trade_of(seq, VenueNanos(at_ms * 1_000_000), price, lots, taker_side)
    }

    fn bars() -> Bars {
        let mut bars = Bars::default();
        for (seq, at_ms, price, lots, side) in [
            (1, 1_000, 10, 5, Side::Buy),
            (2, 59_999, 12, 1, Side::Sell),
            (3, 60_000, 9, 2, Side::Buy),
            (4, 300_000, 11, 4, Side::Sell),
        ] {
            bars.add(&trade(seq, at_ms, price, lots, side));
        }
        bars
    }

    #[test]
    fn buckets_sum_minutes_and_are_flat_without_trades() {
        let bars = bars();
        let named = |name| KlineInterval::named(name).unwrap();
        let fields = |bar: Bar| {
            let Candle { start_ms, open, high, low, close, lots, .. } = bar.candle;
            (start_ms, [open.0, high.0, low.0, close.0], lots, bar.bought_lots, bar.trades, bar.ids)
        };
        let first = bars.bucket(named("1m"), 0).map(fields);
        assert_eq!(first, Some((0, [10, 12, 10, 12], 6, 5, 2, Some((1, 2)))));
        let flat = bars.bucket(named("1m"), 120_000).map(fields);
        assert_eq!(flat, Some((120_000, [9, 9, 9, 9], 0, 0, 0, None)));
        let three = bars.bucket(named("3m"), 0).unwrap();
        assert_eq!(fields(three), (0, [10, 12, 9, 9], 8, 7, 3, Some((1, 3))));
        assert_eq!((three.candle.tick_lots, three.bought_tick_lots), (50 + 12 + 18, 50 + 18));
        let starts = |from, to, most, newest| {
            let buckets = bars.buckets(named("1m"), from, to, most, newest);
            buckets.iter().map(|bar| bar.candle.start_ms / 1000).collect::<Vec<_>>()
        };
        assert_eq!(starts(0, 310_000, 100, true), [0, 60, 120, 180, 240, 300]);
        assert_eq!(starts(0, 310_000, 2, true), [240, 300]);
        assert_eq!(starts(1, 310_000, 2, false), [60, 120]);
        assert_eq!(starts(400_000, 310_000, 2, false), [0; 0]);
        let (day, before) = bars.day(300_000 + DAY_MS).unwrap();
        assert_eq!((day.candle.open.0, day.trades, before), (11, 1, Some(Ticks(9))));
    }
}
