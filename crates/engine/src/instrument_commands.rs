//! Commands of the session scheduler and of operators about one instrument.
//!
//! Leaves out  commands that concern every instrument, such as the end of a day: `venue_day`.
//! Start at    [`InstrumentCommands`].

use pitwire_model::{Event, Phase, Reject, RemainingSessions, SessionReason, Ticks, TradingRules, VenueNanos};

use crate::command_end::MarketCommand;
use crate::event_sink::EventSink;
use crate::market::Market;
use crate::market_context::MarketContext;
use crate::session_change::{SessionChange, SessionEvent, operator_may_change};

/// Commands about the sessions and rules of one instrument. Each one checks whether the instrument
/// is deleted.
pub(crate) struct InstrumentCommands<'a> {
    pub context: MarketContext<'a>,
}

impl InstrumentCommands<'_> {
    /// # Errors
    /// `InstrumentDeleted`.
    fn existing(&mut self) -> Result<&mut Market, Reject> {
        if self.context.market.phase == Phase::Deleted {
            Err(Reject::InstrumentDeleted)
        } else {
            Ok(self.context.market)
        }
    }

    /// Begins another session.
    ///
    /// # Errors
    ///
    /// Returns `SessionNotAllowed` if the session is the current one, if one of both is `Deleted`,
    /// or if an operator may not ask for the change.
    pub fn change_session(
        mut self,
        to: Phase,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let from = self.context.market.phase;
        let is_change = from != to && from != Phase::Deleted && to != Phase::Deleted;
        if !is_change || (reason == SessionReason::Operator && !operator_may_change(from, to)) {
            return Err(Reject::SessionNotAllowed);
        }
        let event = SessionEvent::SessionChanged;
        SessionChange { from, to, reason, ends, event }.run(&mut self.context, out);
        Ok(())
    }

    /// Changes the session by a command of the first release.
    ///
    /// # Errors
    ///
    /// Returns `BadDefinition` or `InstrumentDeleted`.
    pub fn set_phase(mut self, to: Phase, out: &mut impl EventSink) -> Result<(), Reject> {
        let from = self.context.market.phase;
        if to == Phase::Deleted {
            return Err(Reject::BadDefinition);
        }
        if from == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if from == to {
            out.emit(Event::PhaseChanged { instrument: self.context.instrument(), phase: to });
            return Ok(());
        }
        let (reason, event) = (SessionReason::Operator, SessionEvent::PhaseChanged);
        SessionChange { from, to, reason, ends: None, event }.run(&mut self.context, out);
        Ok(())
    }

    /// Moves the expected end of a call.
    ///
    /// # Errors
    ///
    /// Returns `InstrumentDeleted` or `SessionNotAllowed`.
    pub fn extend_session(mut self, ends: VenueNanos, out: &mut impl EventSink) -> Result<(), Reject> {
        let now = self.context.clock.now;
        let phase = self.existing()?.extend_call(ends, now)?;
        let (reason, ends) = (SessionReason::Extended, Some(ends));
        out.emit(Event::SessionChanged { instrument: self.context.instrument(), from: phase, to: phase, reason, ends });
        self.context.emit_book_changed(out);
        Ok(())
    }

    /// Sets the sessions that are still to come today.
    ///
    /// # Errors
    ///
    /// Returns `InstrumentDeleted`.
    pub fn set_remaining(mut self, remaining: RemainingSessions, out: &mut impl EventSink) -> Result<(), Reject> {
        self.existing()?.session.remaining = remaining;
        out.emit(Event::RemainingSet { instrument: self.context.instrument() });
        Ok(())
    }

    /// Replaces the trading rules.
    ///
    /// # Errors
    ///
    /// Returns `InstrumentDeleted`, `BadDefinition`, or `SessionNotAllowed` for another allocation.
    pub fn set_trading_rules(mut self, rules: &TradingRules, out: &mut impl EventSink) -> Result<(), Reject> {
        self.existing()?.set_trading_rules(rules)?;
        out.emit(Event::TradingRulesSet { instrument: self.context.instrument(), rules: Box::new(rules.clone()) });
        Ok(())
    }

    /// Sets the closing price of the day.
    ///
    /// # Errors
    ///
    /// Returns `InstrumentDeleted`, `SessionNotAllowed` or `PriceOutOfRange`.
    pub fn set_closing_price(mut self, price: Ticks, out: &mut impl EventSink) -> Result<(), Reject> {
        let derivation = self.existing()?.set_closing_price(price)?;
        out.emit(Event::ClosingPriceSet { instrument: self.context.instrument(), price, derivation });
        self.context.emit_book_changed(out);
        Ok(())
    }

    /// Runs filters of hidden orders whether or not the displayed book has changed.
    ///
    /// # Errors
    ///
    /// Returns `InstrumentDeleted`.
    pub fn filter_hidden(mut self, out: &mut impl EventSink) -> Result<(), Reject> {
        self.existing()?;
        MarketCommand::begin_with_filter(&mut self.context, out).finish();
        Ok(())
    }

    /// Ends the current batch. Does nothing on an instrument that does not trade in batches.
    ///
    /// # Errors
    ///
    /// Returns `InstrumentDeleted`.
    pub fn end_batch(mut self, out: &mut impl EventSink) -> Result<(), Reject> {
        if self.existing()?.trades_in_batches() {
            let mut command = MarketCommand::begin(&mut self.context, out);
            command.context.run_batch(&mut command.out);
            command.finish();
        }
        Ok(())
    }
}
