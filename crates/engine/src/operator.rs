//! Operators' commands on instruments, accounts and the generated order flow.
//!
//! Holds       a change of limits changes no resting order; only a deletion or closing does, and it
//!             is final.
//! Leaves out  kills: `kills`. Sessions: `session_commands`.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, CurrencyId, Event, FlowSetting, InstrumentId, InstrumentKind,
    InstrumentLimits, Lots, Phase, Reject, Seq, SessionReason, Side, Ticks,
};

use crate::definition_checks::{MOST_UNITS, check_limits, check_settings};
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
        let market = self.existing_market(instrument)?;
        check_limits(limits)?;
        market.spec.limits = limits;
        market.limited = limits != InstrumentLimits::default();
        out.emit(Event::InstrumentLimitsSet { instrument, limits });
        Ok(())
    }

    pub(crate) fn delete_instrument(
        &mut self,
        instrument: InstrumentId,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.existing_market(instrument)?;
        let is_index = self.markets.iter().any(|other| {
            let uses = matches!(other.spec.kind, InstrumentKind::InversePerpetual { index, .. } if index == instrument);
            uses && other.phase != Phase::Deleted
        });
        if is_index || self.accounts.iter().any(|account| account.position(instrument).lots != 0) {
            return Err(Reject::BadDefinition);
        }
        self.cancel_where(Some(instrument), CancelReason::InstrumentDeleted, |_, _| true, out);
        let market = &mut self.markets[instrument.0 as usize];
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
        let holder = self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)?;
        check_settings(settings)?;
        holder.spec.settings = settings;
        holder.reset_executions();
        holder.update_flags();
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
        self.account(account).ok_or(Reject::UnknownAccount)?;
        self.currency(currency).ok_or(Reject::UnknownCurrency)?;
        match units {
            ..0 => return Err(Reject::BadDefinition),
            0..=MOST_UNITS => {}
            _ => return Err(Reject::AmountOverflow),
        }
        let lines = &mut self.accounts[account.0 as usize].status.credit_lines;
        if units == 0 {
            lines.remove(&currency)
        } else {
            lines.insert(currency, units)
        };
        out.emit(Event::CreditLineSet { account, currency, units });
        Ok(())
    }

    pub(crate) fn close_account(&mut self, account: AccountId, out: &mut impl EventSink) -> Result<(), Reject> {
        let holder = self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)?;
        if holder.is_closed() {
            return Err(Reject::AccountClosed);
        }
        holder.status.closed = true;
        holder.update_flags();
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
        let lots = self.check_bust(bust)?;
        let market = &mut self.markets[bust.instrument.0 as usize];
        market.busted.insert(bust.trade_seq);
        market.closing_inputs.remove_busted(bust);
        let (buyer, seller) = (bust.buyer.0 as usize, bust.seller.0 as usize);
        let reversed = [(buyer, Side::Sell), (seller, Side::Buy)];
        settle_trade(&mut self.accounts, bust.instrument, market.settlement, reversed, bust.price, lots);
        out.emit(Event::TradeBusted(Box::new(bust.clone())));
        Ok(())
    }

    fn check_bust(&self, bust: &Bust) -> Result<u32, Reject> {
        let market = self.market(bust.instrument).ok_or(Reject::UnknownInstrument)?;
        for account in [bust.buyer, bust.seller] {
            self.account(account).ok_or(Reject::UnknownAccount)?;
        }
        if !(1..=market.trades.0).contains(&bust.trade_seq.0) {
            return Err(Reject::UnknownTrade);
        }
        if market.busted.contains(&bust.trade_seq) {
            return Err(Reject::AlreadyBusted);
        }
        let has_price = (1..=Ticks::MAX_PRICE.0).contains(&bust.price.0);
        let lots = u32::try_from(bust.lots.0).ok().filter(|_| has_price && bust.lots > Lots::ZERO);
        lots.ok_or(Reject::BadDefinition)
    }

    /// Halts the instrument of a command that made the engine panic. This command is never refused.
    pub(crate) fn quarantine(&mut self, seq: Seq, instrument: Option<InstrumentId>, out: &mut impl EventSink) {
        out.emit(Event::Quarantined { seq });
        let market = instrument.and_then(|instrument| self.markets.get_mut(instrument.0 as usize));
        if let Some(market) = market.filter(|market| market.phase != Phase::Deleted) {
            if market.phase == Phase::Continuous {
                market.closing_inputs.end_continuous(self.clock.now);
            }
            market.halt_immediately();
            out.emit(Event::PhaseChanged { instrument: market.spec.id, phase: Phase::Halted });
        }
    }
}
