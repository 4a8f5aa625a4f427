//! The engine state that the session scheduler reads, as a trait so that its tests need no engine.

use pitwire_engine::{Engine, Market};
use pitwire_model::{InstrumentId, Phase, RemainingSessions, TradingRules, VenueDay, VenueNanos};

pub trait InstrumentView {
    /// Returns the day that the last `BeginDay` began.
    fn venue_day(&self) -> Option<VenueDay>;
    fn instruments(&self) -> usize;
    fn name(&self, instrument: InstrumentId) -> &str;
    fn phase(&self, instrument: InstrumentId) -> Phase;
    fn ends(&self, instrument: InstrumentId) -> Option<VenueNanos>;
    fn remaining(&self, instrument: InstrumentId) -> RemainingSessions;
    fn rules(&self, instrument: InstrumentId) -> Option<&TradingRules>;
    /// Returns whether hidden orders rest in the instrument's book.
    fn rests_hidden(&self, instrument: InstrumentId) -> bool;
    /// Returns whether trade reporting is open.
    fn reports(&self, _instrument: InstrumentId) -> bool {
        false
    }
    /// Returns the earliest good-till time of a live order that is later than `after`.
    fn next_expiry(&self, after: VenueNanos) -> Option<VenueNanos>;
}

impl InstrumentView for Engine {
    fn venue_day(&self) -> Option<VenueDay> {
        Some(self.day()).filter(|day| *day != VenueDay::ZERO)
    }

    fn instruments(&self) -> usize {
        self.markets().len()
    }

    fn name(&self, instrument: InstrumentId) -> &str {
        self.market(instrument).map_or("", |market| market.spec.name.as_str())
    }

    fn phase(&self, instrument: InstrumentId) -> Phase {
        self.market(instrument).map_or(Phase::Deleted, Market::phase)
    }

    fn ends(&self, instrument: InstrumentId) -> Option<VenueNanos> {
        self.market(instrument)?.ends()
    }

    fn remaining(&self, instrument: InstrumentId) -> RemainingSessions {
        self.market(instrument).map_or(RemainingSessions::default(), Market::remaining)
    }

    fn rules(&self, instrument: InstrumentId) -> Option<&TradingRules> {
        self.market(instrument)?.spec.rules.as_deref()
    }

    fn rests_hidden(&self, instrument: InstrumentId) -> bool {
        self.market(instrument).is_some_and(Market::has_hidden_orders)
    }

    fn reports(&self, instrument: InstrumentId) -> bool {
        self.market(instrument).is_some_and(|market| market.reporting().open)
    }

    fn next_expiry(&self, after: VenueNanos) -> Option<VenueNanos> {
        Engine::next_expiry(self, after)
    }
}
