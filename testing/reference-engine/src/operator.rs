//! What operators do: limits, credit, closing, deleting, kills, busts, the flow, quarantine.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, Command, CurrencyId, Event, FlowSetting, InstrumentId,
    InstrumentKind, InstrumentLimits, KillScope, Label, Phase, Reject, Seq, SessionReason, Side,
};

use super::define::{legal_limits, legal_settings};
use super::entering::{legal_lots, legal_price};
use super::{Account, MOST_UNITS, ReferenceEngine};

impl ReferenceEngine {
    pub(super) fn operate(&mut self, command: &Command, out: &mut Vec<Event>) -> Result<(), Reject> {
        match command {
            Command::SetInstrumentLimits { instrument, limits } => self.set_limits(*instrument, *limits, out),
            Command::DeleteInstrument { instrument } => self.delete(*instrument, out),
            Command::SetAccount { account, settings } => self.set_account(*account, *settings, out),
            Command::SetCreditLine { account, currency, units } => {
                self.set_credit_line(*account, *currency, *units, out)
            }
            Command::CloseAccount { account } => self.close(*account, out),
            Command::Kill { scope, reason } => self.kill(*scope, reason, out),
            Command::Lift { scope } => self.lift(*scope, out),
            Command::BustTrade(bust) => self.bust(bust, out),
            Command::SetFlow(flow) => self.set_flow(*flow, out),
            Command::Quarantine { seq, instrument } => {
                self.quarantine(*seq, *instrument, out);
                Ok(())
            }
            other => unreachable!("{other:?} is dispatched elsewhere"),
        }
    }

    fn known(&mut self, account: AccountId) -> Result<&mut Account, Reject> {
        self.accounts.get_mut(account.0 as usize).ok_or(Reject::UnknownAccount)
    }

    fn set_limits(
        &mut self,
        instrument: InstrumentId,
        limits: InstrumentLimits,
        out: &mut Vec<Event>,
    ) -> Result<(), Reject> {
        let market = self.markets.get_mut(instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if !legal_limits(&limits) {
            return Err(Reject::BadDefinition);
        }
        market.spec.limits = limits;
        out.push(Event::InstrumentLimitsSet { instrument, limits });
        Ok(())
    }

    fn delete(&mut self, instrument: InstrumentId, out: &mut Vec<Event>) -> Result<(), Reject> {
        let market = self.market(instrument).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        let is_index = self.markets.iter().any(|other| {
            let of = match other.spec.kind {
                InstrumentKind::InversePerpetual { index, .. } => Some(index),
                InstrumentKind::Spot { .. } => None,
            };
            other.phase != Phase::Deleted && of == Some(instrument)
        });
        let mut holdings = self.accounts.iter().filter_map(|account| account.holdings.get(&instrument));
        if is_index || holdings.any(|holding| holding.lots != 0) {
            return Err(Reject::BadDefinition);
        }
        self.expel_all(|market, _| market.spec.id == instrument, CancelReason::InstrumentDeleted, out);
        self.shut_reporting(instrument, SessionReason::Operator, out);
        self.markets[instrument.0 as usize].phase = Phase::Deleted;
        out.push(Event::PhaseChanged { instrument, phase: Phase::Deleted });
        Ok(())
    }

    fn set_account(
        &mut self,
        account: AccountId,
        settings: AccountSettings,
        out: &mut Vec<Event>,
    ) -> Result<(), Reject> {
        let holder = self.known(account)?;
        if !legal_settings(&settings) {
            return Err(Reject::BadDefinition);
        }
        holder.spec.settings = settings;
        (holder.window, holder.executions) = (0, 0);
        out.push(Event::AccountSet { account, settings });
        Ok(())
    }

    fn set_credit_line(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut Vec<Event>,
    ) -> Result<(), Reject> {
        let currencies = self.currencies.len();
        let holder = self.known(account)?;
        if currency.0 as usize >= currencies {
            return Err(Reject::UnknownCurrency);
        }
        if units < 0 {
            return Err(Reject::BadDefinition);
        }
        if units > MOST_UNITS {
            return Err(Reject::AmountOverflow);
        }
        holder.credit_lines.insert(currency, units);
        out.push(Event::CreditLineSet { account, currency, units });
        Ok(())
    }

    fn close(&mut self, account: AccountId, out: &mut Vec<Event>) -> Result<(), Reject> {
        if self.known(account)?.closed {
            return Err(Reject::AccountClosed);
        }
        self.expel_all(|_, order| order.account == account, CancelReason::AccountClosed, out);
        self.known(account)?.closed = true;
        out.push(Event::AccountClosed { account });
        Ok(())
    }

    fn kill(&mut self, scope: KillScope, reason: &Label, out: &mut Vec<Event>) -> Result<(), Reject> {
        match scope {
            KillScope::Order(order) => _ = self.find(order).ok_or(Reject::UnknownOrder)?,
            KillScope::Session(session) => _ = self.killed_sessions.insert(session),
            KillScope::Account(account) => self.known(account)?.killed = true,
            KillScope::Venue => self.venue_killed = true,
        }
        let cancelled = self.expel_all(
            |_, order| match scope {
                KillScope::Order(only) => order.id == only,
                KillScope::Session(session) => order.session == session,
                KillScope::Account(account) => order.account == account,
                KillScope::Venue => true,
            },
            CancelReason::Killed,
            out,
        );
        out.push(Event::Killed { scope, cancelled, reason: reason.clone() });
        Ok(())
    }

    fn lift(&mut self, scope: KillScope, out: &mut Vec<Event>) -> Result<(), Reject> {
        match scope {
            KillScope::Order(_) => return Err(Reject::BadDefinition),
            KillScope::Session(session) => _ = self.killed_sessions.remove(&session),
            KillScope::Account(account) => {
                let holder = self.known(account)?;
                (holder.killed, holder.throttled) = (false, false);
                (holder.window, holder.executions) = (0, 0);
            }
            KillScope::Venue => self.venue_killed = false,
        }
        out.push(Event::Lifted { scope });
        Ok(())
    }

    fn bust(&mut self, bust: &Bust, out: &mut Vec<Event>) -> Result<(), Reject> {
        let market = self.market(bust.instrument).ok_or(Reject::UnknownInstrument)?;
        self.account(bust.buyer).ok_or(Reject::UnknownAccount)?;
        self.account(bust.seller).ok_or(Reject::UnknownAccount)?;
        if !(1..=market.trades).contains(&bust.trade_seq.0) {
            return Err(Reject::UnknownTrade);
        }
        if market.busted.contains(&bust.trade_seq) {
            return Err(Reject::AlreadyBusted);
        }
        if !legal_lots(bust.lots.0) || !legal_price(bust.price) {
            return Err(Reject::BadDefinition);
        }
        let market = &mut self.markets[bust.instrument.0 as usize];
        market.busted.insert(bust.trade_seq);
        market.unprint(bust.trade_seq.0, bust.price, bust.lots.0);
        // The other way round: who bought sells.
        let parties = [(bust.buyer, Side::Sell), (bust.seller, Side::Buy)];
        self.settle_money(bust.instrument, parties, bust.price, bust.lots.0);
        out.push(Event::TradeBusted(Box::new(bust.clone())));
        Ok(())
    }

    fn set_flow(&mut self, flow: FlowSetting, out: &mut Vec<Event>) -> Result<(), Reject> {
        if !(1..=FlowSetting::MOST_RATE_PERCENT).contains(&flow.rate_percent) {
            return Err(Reject::BadDefinition);
        }
        self.flow = flow;
        out.push(Event::FlowSet(flow));
        Ok(())
    }

    fn quarantine(&mut self, seq: Seq, instrument: Option<InstrumentId>, out: &mut Vec<Event>) {
        out.push(Event::Quarantined { seq });
        let Some(instrument) = instrument else { return };
        let Some(market) = self.markets.get_mut(instrument.0 as usize) else { return };
        if market.phase != Phase::Deleted {
            market.be_quarantined(self.now);
            out.push(Event::PhaseChanged { instrument, phase: Phase::Halted });
        }
    }
}
