//! Operators' commands on instruments, accounts and the generated order flow.
//!
//! Holds       a change of limits changes no resting order; only a deletion or closing does, and it
//!             is final.
//! Leaves out  kills: `kills`. Sessions: `instrument_commands`.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, CurrencyId, Event, FlowSetting, InstrumentId, InstrumentLimits,
    Phase, Reject, Seq, SessionReason, Side,
};

use crate::account::Account;
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::settlement::settle_trade;

impl Engine {
    pub(crate) fn set_limits(
        &mut self,
        instrument: InstrumentId,
        limits: InstrumentLimits,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.markets.existing(instrument)?.set_limits(limits)?;
        out.emit(Event::InstrumentLimitsSet { instrument, limits });
        Ok(())
    }

    pub(crate) fn delete_instrument(
        &mut self,
        instrument: InstrumentId,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.markets.existing(instrument)?;
        let has_position = |account: &Account| account.position(instrument).lots != 0;
        if self.markets.is_index(instrument) || self.accounts.as_slice().iter().any(has_position) {
            return Err(Reject::BadDefinition);
        }
        self.cancel_where(Some(instrument), CancelReason::InstrumentDeleted, |_, _| true, out);
        let market = self.markets.existing(instrument)?;
        market.reporting.close(instrument, SessionReason::Operator, out);
        market.phase = Phase::Deleted;
        market.update_plain();
        out.emit(Event::PhaseChanged { instrument, phase: Phase::Deleted });
        Ok(())
    }

    pub(crate) fn set_account(
        &mut self,
        account: AccountId,
        settings: AccountSettings,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.accounts.set_settings(account, settings)?;
        out.emit(Event::AccountSet { account, settings });
        Ok(())
    }

    pub(crate) fn set_credit_line(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.accounts.set_credit_line(account, currency, units)?;
        out.emit(Event::CreditLineSet { account, currency, units });
        Ok(())
    }

    /// Checks the text of a flow, which only the venue reads.
    pub(crate) fn define_flow(text: &str, out: &mut impl EventSink) -> Result<(), Reject> {
        if text.is_empty() || text.len() > FlowSetting::MOST_TEXT_BYTES {
            return Err(Reject::BadDefinition);
        }
        out.emit(Event::FlowDefined);
        Ok(())
    }

    pub(crate) fn close_account(&mut self, account: AccountId, out: &mut impl EventSink) -> Result<(), Reject> {
        self.accounts.close(account)?;
        self.cancel_where(None, CancelReason::AccountClosed, |owner, _| owner == account, out);
        out.emit(Event::AccountClosed { account });
        Ok(())
    }

    pub(crate) fn set_flow(&mut self, flow: FlowSetting, out: &mut impl EventSink) -> Result<(), Reject> {
        if !(1..=FlowSetting::MOST_RATE_PERCENT).contains(&flow.rate_percent) {
            return Err(Reject::BadDefinition);
        }
        self.flow = flow;
        out.emit(Event::FlowSet(flow));
        Ok(())
    }

    /// Reverses the money of a trade; orders stay as they are. The caller supplies the details of
    /// the trade, because the engine stores no trades. A trade can be busted once.
    pub(crate) fn bust_trade(&mut self, bust: &Bust, out: &mut impl EventSink) -> Result<(), Reject> {
        let market = self.markets.get_mut(bust.instrument).ok_or(Reject::UnknownInstrument)?;
        for account in [bust.buyer, bust.seller] {
            self.accounts.get(account).ok_or(Reject::UnknownAccount)?;
        }
        let lots = market.record_bust(bust)?;
        let (buyer, seller) = (bust.buyer.0 as usize, bust.seller.0 as usize);
        let reversed = [(buyer, Side::Sell), (seller, Side::Buy)];
        settle_trade(self.accounts.as_mut_slice(), bust.instrument, market.settlement, reversed, bust.price, lots);
        out.emit(Event::TradeBusted(Box::new(bust.clone())));
        self.follow_positions(bust.instrument, [bust.buyer, bust.seller], out);
        Ok(())
    }

    /// Halts the instrument of a command that made the engine panic. This command is never refused.
    pub(crate) fn quarantine(&mut self, seq: Seq, instrument: Option<InstrumentId>, out: &mut impl EventSink) {
        out.emit(Event::Quarantined { seq });
        let market = instrument.and_then(|instrument| self.markets.get_mut(instrument));
        if let Some(market) = market.filter(|market| market.phase != Phase::Deleted) {
            if market.phase == Phase::Continuous {
                market.closing_inputs.end_continuous(self.clock.now);
            }
            market.halt_immediately();
            out.emit(Event::PhaseChanged { instrument: market.spec.id, phase: Phase::Halted });
        }
    }
}
