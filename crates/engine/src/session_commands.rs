//! Commands of the session scheduler and of operators about sessions, days and the rules of an
//! instrument.
//!
//! Costs       passing time: the orders that expire; the end of a day: the live orders of all
//!             books.
//! Start at    [`Engine::change_session`].

use pitwire_model::{
    CancelReason, Event, InstrumentId, OrderId, Phase, Reject, RemainingSessions, SessionReason, Ticks, TradingRules,
    VenueDay, VenueNanos,
};

use crate::closing_price::ClosingPriceInputs;
use crate::command_end::MarketCommand;
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::market_context::MarketContext;
use crate::rule_tables::Tif;
use crate::session_change::{SessionChange, SessionEvent, operator_may_change};

impl Engine {
    pub(crate) fn change_session(
        &mut self,
        instrument: InstrumentId,
        to: Phase,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let from = self.market(instrument).ok_or(Reject::UnknownInstrument)?.phase;
        let is_change = from != to && from != Phase::Deleted && to != Phase::Deleted;
        if !is_change || (reason == SessionReason::Operator && !operator_may_change(from, to)) {
            return Err(Reject::SessionNotAllowed);
        }
        let event = SessionEvent::SessionChanged;
        SessionChange { from, to, reason, ends, event }.run(&mut self.context(instrument), out);
        Ok(())
    }

    /// Changes the session by a command of the first release.
    pub(crate) fn set_phase(
        &mut self,
        instrument: InstrumentId,
        to: Phase,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let from = self.market(instrument).ok_or(Reject::UnknownInstrument)?.phase;
        if to == Phase::Deleted {
            return Err(Reject::BadDefinition);
        }
        if from == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if from == to {
            out.emit(Event::PhaseChanged { instrument, phase: to });
            return Ok(());
        }
        let (reason, event) = (SessionReason::Operator, SessionEvent::PhaseChanged);
        SessionChange { from, to, reason, ends: None, event }.run(&mut self.context(instrument), out);
        Ok(())
    }

    /// Moves the expected end of a call.
    pub(crate) fn extend_session(
        &mut self,
        instrument: InstrumentId,
        ends: VenueNanos,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let now = self.clock.now;
        let phase = self.markets.existing(instrument)?.extend_call(ends, now)?;
        let (reason, ends) = (SessionReason::Extended, Some(ends));
        out.emit(Event::SessionChanged { instrument, from: phase, to: phase, reason, ends });
        self.context(instrument).emit_book_changed(out);
        Ok(())
    }

    pub(crate) fn set_remaining(
        &mut self,
        instrument: InstrumentId,
        remaining: RemainingSessions,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.markets.existing(instrument)?.session.remaining = remaining;
        out.emit(Event::RemainingSet { instrument });
        Ok(())
    }

    pub(crate) fn set_trading_rules(
        &mut self,
        instrument: InstrumentId,
        rules: &TradingRules,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.markets.existing(instrument)?.set_trading_rules(rules)?;
        out.emit(Event::TradingRulesSet { instrument, rules: Box::new(rules.clone()) });
        Ok(())
    }

    pub(crate) fn set_closing_price(
        &mut self,
        instrument: InstrumentId,
        price: Ticks,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let derivation = self.markets.existing(instrument)?.set_closing_price(price)?;
        out.emit(Event::ClosingPriceSet { instrument, price, derivation });
        self.context(instrument).emit_book_changed(out);
        Ok(())
    }

    /// Runs filters of hidden orders whether or not the displayed book has changed.
    pub(crate) fn filter_hidden(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> Result<(), Reject> {
        self.markets.existing(instrument)?;
        MarketCommand::begin_with_filter(&mut self.context(instrument), out).finish();
        Ok(())
    }

    /// Ends the current batch. Does nothing on an instrument that does not trade in batches.
    pub(crate) fn end_batch(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> Result<(), Reject> {
        if self.markets.existing(instrument)?.trades_in_batches() {
            let mut context = self.context(instrument);
            let mut command = MarketCommand::begin(&mut context, out);
            command.context.run_batch(&mut command.out);
            command.finish();
        }
        Ok(())
    }

    pub(crate) fn begin_day(&mut self, day: VenueDay, closes: VenueNanos, out: &mut impl EventSink) {
        self.clock.set_day(day, closes);
        out.emit(Event::DayBegun { day });
    }

    /// Cancels GTT orders whose time has come. Orders of a call stay until its uncross.
    pub(crate) fn pass_time(&mut self, out: &mut impl EventSink) {
        for instrument in self.markets.ids() {
            let mut context = self.context(instrument);
            let next = context.market.expiries.next();
            if !context.market.phase.is_call() && next.is_some_and(|next| next <= context.clock.now) {
                context.cancel_expired(out);
            }
        }
    }

    pub(crate) fn end_day(&mut self, out: &mut impl EventSink) {
        for instrument in self.markets.ids() {
            let mut context = self.context(instrument);
            context.market.reporting.close(instrument, SessionReason::Scheduled, out);
            context.end_day(out);
        }
        out.emit(Event::DayEnded);
    }
}

impl MarketContext<'_> {
    fn cancel_expired(&mut self, out: &mut impl EventSink) {
        let instrument = self.instrument();
        let due: Vec<OrderId> = self.market.expiries.due(self.clock.now).collect();
        let mut command = MarketCommand::begin(self, out);
        for order in due {
            let MarketContext { market, orders, .. } = &*command.context;
            let slot = orders.get(order).filter(|(of, _)| *of == instrument).map(|(_, slot)| slot);
            if let Some(slot) = slot.filter(|slot| market.tif_at(*slot) == Tif::GoodTillTime) {
                command.cancel(slot, CancelReason::TimeReached);
            }
            command.context.market.expiries.remove(order);
        }
        command.finish();
    }

    /// Ends the venue day of one instrument: parks active GFA orders and cancels those that do not
    /// outlive the day.
    fn end_day(&mut self, out: &mut impl EventSink) {
        let mut command = MarketCommand::begin(self, out);
        let mut has_acted = false;
        for (_, slot) in command.context.market.live_slots(|_, _| true) {
            let MarketContext { market, clock, .. } = &*command.context;
            if market.is_active_gfa(slot) {
                command.context.park(slot, &mut command.out);
            } else if let Some(reason) = market.day_end_reason(slot, clock.day) {
                command.cancel(slot, reason);
            } else {
                continue;
            }
            has_acted = true;
        }
        if has_acted {
            command.finish();
        }
        let prices = &mut self.market.prices;
        prices.previous_close = prices.closing.take().map(|(price, _)| price).or(prices.previous_close);
        self.market.session.remaining = RemainingSessions::default();
        self.market.closing_inputs = ClosingPriceInputs::default();
    }
}
