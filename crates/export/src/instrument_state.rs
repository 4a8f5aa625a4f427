//! The public state of an instrument, from its events: visible levels, best prices and session.

use std::collections::BTreeMap;

use pitwire_engine::Market;
use pitwire_model::{InstrumentSpec, Lots, Phase, Side, Ticks};

/// Price and visible volume of a level.
pub type Level = (Ticks, Lots);

/// The best visible level of each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    pub bid: Option<Level>,
    pub ask: Option<Level>,
}

impl Quote {
    /// Returns the best price of a side.
    pub fn price(&self, side: Side) -> Option<Ticks> {
        let level = match side {
            Side::Buy => self.bid,
            Side::Sell => self.ask,
        };
        level.map(|(price, _)| price)
    }
}

/// An instrument between two commands.
pub struct InstrumentState {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    /// The quote and the session of the newest row of `quotes`.
    pub quoted: (Quote, Phase),
    /// Surplus of the newest indicative result, in lots. Positive if buyers exceed sellers.
    pub imbalance: Option<i64>,
    bids: BTreeMap<Ticks, Lots>,
    asks: BTreeMap<Ticks, Lots>,
}

impl InstrumentState {
    /// Returns a new instrument, which is closed and has an empty book.
    pub fn new(spec: InstrumentSpec) -> Self {
        InstrumentState {
            spec,
            phase: Phase::Closed,
            change_id: 0,
            quoted: (Quote::default(), Phase::Closed),
            imbalance: None,
            bids: BTreeMap::new(),
            asks: BTreeMap::new(),
        }
    }

    /// Returns the state of an instrument of the engine.
    pub fn of(market: &Market) -> Self {
        let mut state = InstrumentState::new(market.spec.clone());
        state.phase = market.phase();
        state.change_id = market.change_id();
        state.bids = market.book().levels(Side::Buy).collect();
        state.asks = market.book().levels(Side::Sell).collect();
        state.quoted = (state.quote(), state.phase);
        state
    }

    /// Sets the volume of a level. Zero removes the level.
    pub fn set_level(&mut self, side: Side, price: Ticks, lots: Lots) {
        let levels = match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        };
        if lots.is_zero() {
            levels.remove(&price);
        } else {
            levels.insert(price, lots);
        }
    }

    /// Returns the best visible level of each side.
    pub fn quote(&self) -> Quote {
        let level = |(price, lots): (&Ticks, &Lots)| (*price, *lots);
        Quote { bid: self.bids.last_key_value().map(level), ask: self.asks.first_key_value().map(level) }
    }

    /// Returns all levels: bids, then asks, best price first.
    pub fn levels(&self) -> impl Iterator<Item = (Side, Ticks, Lots)> {
        let bids = self.bids.iter().rev().map(|(price, lots)| (Side::Buy, *price, *lots));
        bids.chain(self.asks.iter().map(|(price, lots)| (Side::Sell, *price, *lots)))
    }
}
