//! The measurements of one instrument: its book from public events, its mid each second, its
//! aggressive orders.
//!
//! Holds       1. it uses public events only, and only while trading is continuous: the book of a
//!                call is crossed and has no spread;
//!             2. times are venue times.
//! Costs       a few lookups per event; a mid per second, a record per aggressive order, and a sum
//!             per traded price in memory.

use std::collections::BTreeMap;

use pitwire_model::{Decimal, Event, InstrumentId, Lots, OrderId, Phase, Side, Ticks, TradeKind, VenueNanos};

use crate::interval_series::IntervalSeries;
use crate::statistics::AggressiveOrder;

const SECOND_NS: u64 = 1_000_000_000;
/// Number of price levels with a depth figure, from the best price on.
pub const DEPTH_TICKS: usize = 20;

/// The price of an uncross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionPrint {
    pub at: VenueNanos,
    pub call: Phase,
    pub price: Ticks,
    pub lots: Lots,
}

/// The measurements of one instrument.
pub struct InstrumentWatch {
    pub instrument: InstrumentId,
    pub name: String,
    /// Price of one tick, in quote currency.
    pub tick: Decimal,
    bids: BTreeMap<i64, u64>,
    asks: BTreeMap<i64, u64>,
    is_continuous: bool,
    now: VenueNanos,
    /// Time of the next sample of mid and depth.
    next_sample: VenueNanos,
    pub trades: u64,
    pub lots: u64,
    /// Lots of trades with an aggressor: an incoming order met a resting one.
    pub continuous_lots: u64,
    /// Orders that traded on arrival.
    pub hits: Vec<AggressiveOrder>,
    /// Times of these orders.
    pub hit_times: Vec<VenueNanos>,
    /// The mid of each second in half ticks, or `None` without two sides.
    pub mids: Vec<Option<i64>>,
    /// Time at each spread: ticks to nanoseconds.
    pub spread_ns: BTreeMap<i64, u64>,
    /// Lots by distance from the best price of the same side, summed over all samples: bids, then
    /// asks.
    pub depth: [[u64; DEPTH_TICKS]; 2],
    /// Number of samples with two sides.
    pub samples: u64,
    /// Sessions with their starts, from the session at the start of the run on.
    pub sessions: Vec<(VenueNanos, Phase)>,
    /// The prices of calls.
    pub auctions: Vec<AuctionPrint>,
    pub series: IntervalSeries,
    /// Traded lots by price in ticks.
    pub volume_by_price: BTreeMap<i64, u64>,
}

impl InstrumentWatch {
    /// Starts the measurements of an instrument in session `phase` with an empty book.
    pub fn new(instrument: InstrumentId, name: &str, tick: Decimal, phase: Phase, start: VenueNanos) -> Self {
        InstrumentWatch {
            instrument,
            name: name.to_owned(),
            tick,
            bids: BTreeMap::new(),
            asks: BTreeMap::new(),
            is_continuous: phase == Phase::Continuous,
            now: start,
            next_sample: start,
            trades: 0,
            lots: 0,
            continuous_lots: 0,
            hits: Vec::new(),
            hit_times: Vec::new(),
            mids: Vec::new(),
            spread_ns: BTreeMap::new(),
            depth: [[0; DEPTH_TICKS]; 2],
            samples: 0,
            sessions: vec![(start, phase)],
            auctions: Vec::new(),
            series: IntervalSeries::new(start),
            volume_by_price: BTreeMap::new(),
        }
    }

    /// Returns the best bid and offer in ticks during continuous trading.
    fn best_prices(&self) -> Option<(i64, i64)> {
        let (bid, _) = self.bids.last_key_value()?;
        let (ask, _) = self.asks.first_key_value()?;
        (self.is_continuous && bid < ask).then_some((*bid, *ask))
    }

    fn mid(&self) -> Option<i64> {
        self.best_prices().map(|(bid, ask)| bid + ask)
    }

    /// Advances time: adds the time at the current spread and takes the samples that are due.
    pub fn advance_to(&mut self, until: VenueNanos) {
        if let Some((bid, ask)) = self.best_prices() {
            *self.spread_ns.entry(ask - bid).or_default() += until.0.saturating_sub(self.now.0);
        }
        while self.next_sample <= until {
            self.sample();
            self.next_sample = VenueNanos(self.next_sample.0 + SECOND_NS);
        }
        self.now = self.now.max(until);
    }

    fn sample(&mut self) {
        self.mids.push(self.mid());
        let Some((bid, ask)) = self.best_prices() else { return };
        self.samples += 1;
        let at_touch = [self.bids.get(&bid), self.asks.get(&ask)].map(|lots| lots.copied().unwrap_or(0));
        let interval = self.series.at(self.next_sample);
        interval.samples += 1;
        interval.spread_ticks += ask.abs_diff(bid);
        interval.touch_lots = [0, 1].map(|side| interval.touch_lots[side] + at_touch[side]);
        let [bids, asks] = &mut self.depth;
        for (away, sum) in (0..).zip(bids) {
            *sum += self.bids.get(&(bid - away)).copied().unwrap_or(0);
        }
        for (away, sum) in (0..).zip(asks) {
            *sum += self.asks.get(&(ask + away)).copied().unwrap_or(0);
        }
    }

    /// Takes the events of one command. Call [`advance_to`](Self::advance_to) first.
    pub fn observe(&mut self, events: &[Event]) {
        let before = self.mid();
        let mut last_taker = None;
        for event in events {
            match event {
                Event::Level { instrument, side, price, lots } if *instrument == self.instrument => {
                    self.level(*side, *price, *lots);
                }
                Event::Trade { instrument, price, lots, taker, taker_side, kind, .. }
                    if *instrument == self.instrument =>
                {
                    self.trades += 1;
                    self.lots += lots.0;
                    self.series.at(self.now).trade(price.0, lots.0);
                    *self.volume_by_price.entry(price.0).or_default() += lots.0;
                    if *kind == TradeKind::Continuous {
                        self.continuous_lots += lots.0;
                        self.record_aggressive(*taker, *taker_side, before, &mut last_taker);
                    }
                }
                Event::SessionChanged { instrument, to: phase, .. } | Event::PhaseChanged { instrument, phase }
                    if *instrument == self.instrument =>
                {
                    self.is_continuous = *phase == Phase::Continuous;
                    self.sessions.push((self.now, *phase));
                }
                Event::Uncrossed { instrument, call, price, volume }
                    if *instrument == self.instrument && call.is_call() =>
                {
                    self.auctions.push(AuctionPrint { at: self.now, call: *call, price: *price, lots: *volume });
                }
                _ => {}
            }
        }
    }

    /// Records an aggressive order once, whatever number of trades it made.
    fn record_aggressive(&mut self, taker: OrderId, side: Side, before: Option<i64>, last: &mut Option<OrderId>) {
        if last.replace(taker) == Some(taker) {
            return;
        }
        let Some(mid) = before else { return };
        self.hits.push(AggressiveOrder { sign: if side == Side::Buy { 1 } else { -1 }, mid });
        self.hit_times.push(self.now);
    }

    fn level(&mut self, side: Side, price: Ticks, lots: Lots) {
        let levels = if side == Side::Buy { &mut self.bids } else { &mut self.asks };
        if lots.is_zero() {
            levels.remove(&price.0);
        } else {
            levels.insert(price.0, lots.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: InstrumentId = InstrumentId(3);
    const TICK: Decimal = Decimal { mantissa: 1, scale: 2 };

    fn level(side: Side, price: i64, lots: u64) -> Event {
        Event::Level { instrument: AT, side, price: Ticks(price), lots: Lots(lots) }
    }

    fn second(n: u64) -> VenueNanos {
        VenueNanos(n * SECOND_NS)
    }

    #[test]
    fn spread_is_weighted_by_time_and_depth_by_distance_from_the_best_price() {
        let mut watch = InstrumentWatch::new(AT, "X", TICK, Phase::Continuous, second(0));
        watch.advance_to(second(0));
        watch.observe(&[level(Side::Buy, 100, 5), level(Side::Buy, 98, 7), level(Side::Sell, 103, 2)]);
        watch.advance_to(second(4));
        watch.observe(&[level(Side::Sell, 101, 1)]);
        watch.advance_to(second(5));
        watch.observe(&[Event::Level {
            instrument: InstrumentId(4),
            side: Side::Buy,
            price: Ticks(100),
            lots: Lots(0),
        }]);
        watch.advance_to(second(6));
        assert_eq!(watch.spread_ns, BTreeMap::from([(1, 2 * SECOND_NS), (3, 4 * SECOND_NS)]));
        // Samples at 0 s, when the book is empty, and at each second up to the sixth, just before
        // its events.
        assert_eq!(watch.mids, [None, Some(203), Some(203), Some(203), Some(203), Some(201), Some(201)]);
        assert_eq!(watch.samples, 6);
        assert_eq!(watch.depth[0][..3], [30, 0, 42]);
        assert_eq!(watch.depth[1][..3], [4 * 2 + 2, 0, 2 * 2]);
    }

    #[test]
    fn a_call_is_not_measured() {
        let mut watch = InstrumentWatch::new(AT, "X", TICK, Phase::OpeningCall, second(0));
        watch.observe(&[level(Side::Buy, 105, 5), level(Side::Sell, 103, 2)]);
        watch.advance_to(second(2));
        assert!(watch.spread_ns.is_empty() && watch.mids == [None; 3]);
    }

    #[test]
    fn sessions_and_auction_prices_have_their_times() {
        let mut watch = InstrumentWatch::new(AT, "X", TICK, Phase::OpeningCall, second(0));
        let uncrossed = |call| Event::Uncrossed { instrument: AT, call, price: Ticks(101), volume: Lots(9) };
        watch.advance_to(second(3));
        watch.observe(&[
            uncrossed(Phase::OpeningCall),
            Event::PhaseChanged { instrument: AT, phase: Phase::Continuous },
        ]);
        watch.advance_to(second(5));
        // A batch of continuous trading is no auction.
        watch.observe(&[uncrossed(Phase::Continuous)]);
        assert_eq!(watch.sessions, [(second(0), Phase::OpeningCall), (second(3), Phase::Continuous)]);
        let print = AuctionPrint { at: second(3), call: Phase::OpeningCall, price: Ticks(101), lots: Lots(9) };
        assert_eq!(watch.auctions, [print]);
    }
}
