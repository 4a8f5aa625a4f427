//! One instrument of a run, as it is watched: its book from public events, its mid each second, who hit whom.
//!
//! Holds       1. only what public events tell, and only while trading is continuous: a call's crossed book has no spread;
//!             2. times are the venue's.
//! Costs       an event: a few lookups; memory: a mid a second, a hit for each order that traded on arrival.

use std::collections::BTreeMap;

use pitwire_model::{Event, InstrumentId, Lots, OrderId, Phase, Side, Ticks, TradeKind, VenueNanos};

use super::statistics::Hit;

const SECOND_NS: u64 = 1_000_000_000;
/// Depth is told for so many ticks behind the touch, the touch included.
pub const DEPTH_TICKS: usize = 20;

pub struct Watch {
    pub instrument: InstrumentId,
    pub name: String,
    bids: BTreeMap<i64, u64>,
    asks: BTreeMap<i64, u64>,
    is_continuous: bool,
    now: VenueNanos,
    next_look: VenueNanos,
    pub trades: u64,
    pub lots: u64,
    pub hits: Vec<Hit>,
    /// Each second, in half ticks.
    pub mids: Vec<Option<i64>>,
    /// How long the spread was so many ticks.
    pub spread_ns: BTreeMap<i64, u64>,
    /// Lots by distance from the own side's touch, summed over looks: bids, then asks.
    pub depth: [[u64; DEPTH_TICKS]; 2],
    pub looks: u64,
}

impl Watch {
    pub fn new(instrument: InstrumentId, name: &str, phase: Phase, start: VenueNanos) -> Self {
        Watch {
            instrument,
            name: name.to_owned(),
            bids: BTreeMap::new(),
            asks: BTreeMap::new(),
            is_continuous: phase == Phase::Continuous,
            now: start,
            next_look: start,
            trades: 0,
            lots: 0,
            hits: Vec::new(),
            mids: Vec::new(),
            spread_ns: BTreeMap::new(),
            depth: [[0; DEPTH_TICKS]; 2],
            looks: 0,
        }
    }

    /// Best bid and offer in ticks, while there is trading between them.
    fn touch(&self) -> Option<(i64, i64)> {
        let (bid, _) = self.bids.last_key_value()?;
        let (ask, _) = self.asks.first_key_value()?;
        (self.is_continuous && bid < ask).then_some((*bid, *ask))
    }

    fn mid(&self) -> Option<i64> {
        self.touch().map(|(bid, ask)| bid + ask)
    }

    /// Lets time pass: what stood until now has stood so long.
    pub fn pass(&mut self, until: VenueNanos) {
        if let Some((bid, ask)) = self.touch() {
            *self.spread_ns.entry(ask - bid).or_default() += until.0.saturating_sub(self.now.0);
        }
        while self.next_look <= until {
            self.look();
            self.next_look = VenueNanos(self.next_look.0 + SECOND_NS);
        }
        self.now = self.now.max(until);
    }

    fn look(&mut self) {
        self.mids.push(self.mid());
        let Some((bid, ask)) = self.touch() else { return };
        self.looks += 1;
        let [bids, asks] = &mut self.depth;
        for (away, sum) in (0..).zip(bids) {
            *sum += self.bids.get(&(bid - away)).copied().unwrap_or(0);
        }
        for (away, sum) in (0..).zip(asks) {
            *sum += self.asks.get(&(ask + away)).copied().unwrap_or(0);
        }
    }

    /// Takes in the events of one command, once time has passed up to it.
    pub fn observe(&mut self, events: &[Event]) {
        let before = self.mid();
        let mut last_taker = None;
        for event in events {
            match event {
                Event::Level { instrument, side, price, lots } if *instrument == self.instrument => {
                    self.level(*side, *price, *lots);
                }
                Event::Trade { instrument, lots, taker, taker_side, kind, .. } if *instrument == self.instrument => {
                    self.trades += 1;
                    self.lots += lots.0;
                    if *kind == TradeKind::Continuous {
                        self.hit(*taker, *taker_side, before, &mut last_taker);
                    }
                }
                Event::SessionChanged { instrument, to, .. } if *instrument == self.instrument => {
                    self.is_continuous = *to == Phase::Continuous;
                }
                Event::PhaseChanged { instrument, phase, .. } if *instrument == self.instrument => {
                    self.is_continuous = *phase == Phase::Continuous;
                }
                _ => {}
            }
        }
    }

    /// However many orders it met, an order hits once.
    fn hit(&mut self, taker: OrderId, side: Side, before: Option<i64>, last: &mut Option<OrderId>) {
        if last.replace(taker) == Some(taker) {
            return;
        }
        let Some(mid) = before else { return };
        self.hits.push(Hit { sign: if side == Side::Buy { 1 } else { -1 }, mid });
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

    fn level(side: Side, price: i64, lots: u64) -> Event {
        Event::Level { instrument: AT, side, price: Ticks(price), lots: Lots(lots) }
    }

    fn second(n: u64) -> VenueNanos {
        VenueNanos(n * SECOND_NS)
    }

    #[test]
    fn a_spread_counts_for_as_long_as_it_stood_and_depth_by_distance_from_the_touch() {
        let mut watch = Watch::new(AT, "X", Phase::Continuous, second(0));
        watch.pass(second(0));
        watch.observe(&[level(Side::Buy, 100, 5), level(Side::Buy, 98, 7), level(Side::Sell, 103, 2)]);
        watch.pass(second(4));
        watch.observe(&[level(Side::Sell, 101, 1)]);
        watch.pass(second(5));
        watch.observe(&[Event::Level {
            instrument: InstrumentId(4),
            side: Side::Buy,
            price: Ticks(100),
            lots: Lots(0),
        }]);
        watch.pass(second(6));
        assert_eq!(watch.spread_ns, BTreeMap::from([(1, 2 * SECOND_NS), (3, 4 * SECOND_NS)]));
        // Looks at 0 s (nothing there yet) and at each second up to the sixth, just before what happens then.
        assert_eq!(watch.mids, [None, Some(203), Some(203), Some(203), Some(203), Some(201), Some(201)]);
        assert_eq!(watch.looks, 6);
        assert_eq!(watch.depth[0][..3], [30, 0, 42]);
        assert_eq!(watch.depth[1][..3], [4 * 2 + 2, 0, 2 * 2]);
    }

    #[test]
    fn nothing_is_measured_while_there_is_no_continuous_trading() {
        let mut watch = Watch::new(AT, "X", Phase::OpeningCall, second(0));
        watch.observe(&[level(Side::Buy, 105, 5), level(Side::Sell, 103, 2)]);
        watch.pass(second(2));
        assert!(watch.spread_ns.is_empty() && watch.mids == [None; 3]);
    }
}
