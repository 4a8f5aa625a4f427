//! What the timetable and operators say of an instrument besides which session runs.
//!
//! Holds       rules that no order could be judged by are refused.
//! Start at    `Engine::extend_session`.

use pitwire_model::{
    Derivation, Event, InstrumentId, Lots, Phase, Reject, RemainingSessions, SessionReason, Ticks, TradingRules,
    VenueNanos,
};

use crate::engine::{Engine, EventSink};
use crate::enter::check_price;
use crate::live::PublicEventTracker;
use crate::market::Market;

pub(crate) fn check_rules(rules: &TradingRules) -> Result<(), Reject> {
    let tolerances = rules.tolerances.iter().flat_map(|tolerance| [tolerance.static_bps, tolerance.dynamic_bps]);
    let sane = (1..=Ticks::MAX_PRICE.0).contains(&rules.improvement.0)
        && rules.minimum_reserve.is_none_or(|lots| lots > Lots::ZERO)
        && tolerances.flatten().all(|bps| bps > 0);
    if sane { Ok(()) } else { Err(Reject::BadDefinition) }
}

impl Engine {
    /// An instrument that is there and not deleted.
    pub(crate) fn standing_market(&mut self, instrument: InstrumentId) -> Result<&mut Market, Reject> {
        let market = self.markets.get_mut(instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted { Err(Reject::InstrumentDeleted) } else { Ok(market) }
    }

    pub(crate) fn extend_session(
        &mut self,
        instrument: InstrumentId,
        ends: VenueNanos,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let now = self.now;
        let market = self.standing_market(instrument)?;
        if !market.phase.is_call() || ends < now {
            return Err(Reject::SessionNotAllowed);
        }
        let (phase, ends) = (market.phase, Some(ends));
        market.special.ends = ends;
        let reason = SessionReason::Extended;
        out.emit(Event::SessionChanged { instrument, from: phase, to: phase, reason, ends });
        self.book_changed(instrument, out);
        Ok(())
    }

    pub(crate) fn set_remaining(
        &mut self,
        instrument: InstrumentId,
        remaining: RemainingSessions,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.standing_market(instrument)?.special.remaining = remaining;
        out.emit(Event::RemainingSet { instrument });
        Ok(())
    }

    /// New rules; resting orders stay as they are. How volume is shared changes only while nothing is to be shared.
    pub(crate) fn set_trading_rules(
        &mut self,
        instrument: InstrumentId,
        rules: &TradingRules,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let market = self.standing_market(instrument)?;
        check_rules(rules)?;
        if rules.allocation != market.rules.allocation && !market.phase.is_quiet() {
            return Err(Reject::SessionNotAllowed);
        }
        (*market.rules).clone_from(rules);
        market.spec.rules = Some(market.rules.clone());
        market.judge();
        out.emit(Event::TradingRulesSet { instrument, rules: market.rules.clone() });
        Ok(())
    }

    /// An operator's closing price, until the cross has begun.
    pub(crate) fn set_closing_price(
        &mut self,
        instrument: InstrumentId,
        price: Ticks,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let market = self.standing_market(instrument)?;
        if matches!(market.phase, Phase::ClosingPriceCross | Phase::PostClose | Phase::Closed) {
            return Err(Reject::SessionNotAllowed);
        }
        check_price(Some(price))?;
        let derivation = Derivation::Manual;
        market.special.closing = Some((price, derivation));
        out.emit(Event::ClosingPriceSet { instrument, price, derivation });
        self.book_changed(instrument, out);
        Ok(())
    }

    /// Hidden orders are looked at again, whether or not anything visible has changed.
    pub(crate) fn filter_hidden(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> Result<(), Reject> {
        self.standing_market(instrument)?;
        self.conclude(instrument, None, &mut PublicEventTracker::new(out));
        Ok(())
    }

    /// The orders of a batch meet; on an instrument that does not trade by batches nothing happens.
    pub(crate) fn end_batch(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> Result<(), Reject> {
        let batches = self.standing_market(instrument)?.batches();
        if batches {
            let (touch, mut out) = (self.touch_of(instrument), PublicEventTracker::new(out));
            self.run_batch(instrument, &mut out);
            self.conclude(instrument, touch, &mut out);
        }
        Ok(())
    }
}
