//! What operators did: refused for the first rule broken, or done exactly as they said.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, Command, CurrencyId, Event, FlowSetting, InstrumentId,
    InstrumentKind, InstrumentLimits, KillScope, Label, Lots, Phase, Reject, Seq,
};

use crate::ledger::Holder;
use crate::tape::Traded;
use crate::{Auditor, Judged, Market, legal_lots, legal_price, not_an_answer, offence};

/// More than this in one balance would let sums leave 128 bits.
const MOST_UNITS: i128 = 1 << 100;

impl Auditor {
    pub(crate) fn judge_operator(&mut self, command: &Command, events: &[Event]) -> Judged {
        if let Err(due) = self.operator_due(command) {
            return match events {
                [Event::CommandRefused { reason }] if *reason == due => Ok(()),
                _ => Err(format!("{command:?} was to be refused: {}", due.name())),
            };
        }
        let done = match command {
            Command::SetPhase { instrument, phase } => self.judge_phase(*instrument, *phase, events)?,
            Command::SetInstrumentLimits { instrument, limits } => self.judge_limits(*instrument, *limits, events)?,
            Command::DeleteInstrument { instrument } => self.judge_deletion(*instrument, events)?,
            Command::SetAccount { account, settings } => self.judge_settings(*account, *settings, events)?,
            Command::SetCreditLine { account, currency, units } => {
                self.judge_credit((*account, *currency, *units), events)?
            }
            Command::CloseAccount { account } => self.judge_closing(*account, events)?,
            Command::Kill { scope, reason } => self.judge_kill(*scope, reason, events)?,
            Command::Lift { scope } => self.judge_lift(*scope, events)?,
            Command::BustTrade(bust) => self.judge_bust(bust, events)?,
            Command::SetFlow(flow) => events == [Event::FlowSet(*flow)],
            Command::Quarantine { seq, instrument } => self.judge_quarantine(*seq, *instrument, events)?,
            _ => false,
        };
        if done { Ok(()) } else { Err(not_an_answer(command, events)) }
    }

    /// The first rule that forbids it.
    fn operator_due(&self, command: &Command) -> Result<(), Reject> {
        let require = |is_so: bool, reason: Reject| if is_so { Ok(()) } else { Err(reason) };
        match command {
            Command::SetPhase { instrument, phase } => {
                let market = self.market(*instrument)?;
                require(*phase != Phase::Deleted, Reject::BadDefinition)?;
                require(market.phase != Phase::Deleted, Reject::InstrumentDeleted)
            }
            Command::SetInstrumentLimits { instrument, limits } => {
                require(self.market(*instrument)?.phase != Phase::Deleted, Reject::InstrumentDeleted)?;
                require(sensible_limits(limits), Reject::BadDefinition)
            }
            Command::DeleteInstrument { instrument } => {
                require(self.market(*instrument)?.phase != Phase::Deleted, Reject::InstrumentDeleted)?;
                require(!self.is_needed(*instrument), Reject::BadDefinition)
            }
            Command::SetAccount { account, settings } => {
                self.holder(*account)?;
                require(sensible_settings(settings), Reject::BadDefinition)
            }
            Command::SetCreditLine { account, currency, units } => {
                let holder = self.holder(*account)?;
                require((currency.0 as usize) < holder.totals.len(), Reject::UnknownCurrency)?;
                require(*units >= 0, Reject::BadDefinition)?;
                require(*units <= MOST_UNITS, Reject::AmountOverflow)
            }
            Command::CloseAccount { account } => {
                require(!self.holder(*account)?.standing.closed, Reject::AccountClosed)
            }
            Command::Kill { scope: KillScope::Order(order), .. } => {
                require(self.orders.contains_key(order), Reject::UnknownOrder)
            }
            Command::Lift { scope: KillScope::Order(_) } => Err(Reject::BadDefinition),
            Command::Kill { scope: KillScope::Account(account), .. }
            | Command::Lift { scope: KillScope::Account(account) } => self.holder(*account).map(|_| ()),
            Command::BustTrade(bust) => self.bust_due(bust),
            Command::SetFlow(flow) => {
                require((1..=FlowSetting::MOST_RATE_PERCENT).contains(&flow.rate_percent), Reject::BadDefinition)
            }
            _ => Ok(()),
        }
    }

    fn bust_due(&self, bust: &Bust) -> Result<(), Reject> {
        let market = self.market(bust.instrument)?;
        self.holder(bust.buyer).and(self.holder(bust.seller))?;
        if bust.trade_seq.0 == 0 || bust.trade_seq.0 > market.trades {
            return Err(Reject::UnknownTrade);
        }
        if market.busted.contains(&bust.trade_seq) {
            return Err(Reject::AlreadyBusted);
        }
        legal_lots(bust.lots).and(legal_price(bust.price)).map_err(|_| Reject::BadDefinition)
    }

    fn market(&self, instrument: InstrumentId) -> Result<&Market, Reject> {
        self.markets.get(instrument.0 as usize).ok_or(Reject::UnknownInstrument)
    }

    fn holder(&self, account: AccountId) -> Result<&Holder, Reject> {
        self.ledger.accounts.get(account.0 as usize).ok_or(Reject::UnknownAccount)
    }

    /// Whether another instrument's index or somebody's position hangs on it.
    fn is_needed(&self, instrument: InstrumentId) -> bool {
        let indexes = self.markets.iter().filter(|market| market.phase != Phase::Deleted).any(
            |market| matches!(market.spec.kind, InstrumentKind::InversePerpetual { index, .. } if index == instrument),
        );
        let held = |holder: &Holder| holder.positions.get(&instrument).is_some_and(|held| held.lots != 0);
        indexes || self.ledger.accounts.iter().any(held)
    }

    fn judge_phase(&mut self, instrument: InstrumentId, phase: Phase, events: &[Event]) -> Judged<bool> {
        self.markets[instrument.0 as usize].phase = phase;
        Ok(events == [Event::PhaseChanged { instrument, phase }])
    }

    fn judge_limits(&mut self, instrument: InstrumentId, limits: InstrumentLimits, events: &[Event]) -> Judged<bool> {
        self.markets[instrument.0 as usize].spec.limits = limits;
        Ok(events == [Event::InstrumentLimitsSet { instrument, limits }])
    }

    fn judge_deletion(&mut self, instrument: InstrumentId, events: &[Event]) -> Judged<bool> {
        let phase = Phase::Deleted;
        let Some((last, rest)) = events.split_last() else { return Ok(false) };
        let leaves = self.live_where(|live| live.instrument == instrument);
        self.follow_leaving(leaves, CancelReason::InstrumentDeleted, rest)?;
        self.markets[instrument.0 as usize].phase = phase;
        Ok(*last == Event::PhaseChanged { instrument, phase })
    }

    fn judge_settings(&mut self, account: AccountId, settings: AccountSettings, events: &[Event]) -> Judged<bool> {
        self.names.accounts[account.0 as usize].settings = settings;
        let standing = &mut self.ledger.accounts[account.0 as usize].standing;
        (standing.window, standing.executions) = (0, 0);
        Ok(events == [Event::AccountSet { account, settings }])
    }

    fn judge_credit(&mut self, line: (AccountId, CurrencyId, i128), events: &[Event]) -> Judged<bool> {
        let (account, currency, units) = line;
        self.ledger.accounts[account.0 as usize].credit[currency.0 as usize] = units;
        Ok(events == [Event::CreditLineSet { account, currency, units }])
    }

    fn judge_closing(&mut self, account: AccountId, events: &[Event]) -> Judged<bool> {
        let Some((last, rest)) = events.split_last() else { return Ok(false) };
        let leaves = self.live_of(account, |_| true);
        self.follow_leaving(leaves, CancelReason::AccountClosed, rest)?;
        self.ledger.accounts[account.0 as usize].standing.closed = true;
        Ok(*last == Event::AccountClosed { account })
    }

    /// Everything in the scope goes, is counted, and is kept out from then on.
    fn judge_kill(&mut self, scope: KillScope, why: &Label, events: &[Event]) -> Judged<bool> {
        let Some((Event::Killed { scope: told, cancelled, reason }, rest)) = events.split_last() else {
            return Ok(false);
        };
        let leaves = match scope {
            KillScope::Order(order) => self.live_where(|live| live.id == order),
            KillScope::Session(session) => self.live_where(|live| live.session == session),
            KillScope::Account(account) => self.live_of(account, |_| true),
            KillScope::Venue => self.live_where(|_| true),
        };
        let due = leaves.len();
        self.follow_leaving(leaves, CancelReason::Killed, rest)?;
        if *cancelled as usize != due {
            offence!("a kill of {scope:?} took {due} orders and says {cancelled}");
        }
        match scope {
            KillScope::Order(_) => {}
            KillScope::Session(session) => _ = self.killed_sessions.insert(session),
            KillScope::Account(account) => self.ledger.accounts[account.0 as usize].standing.killed = true,
            KillScope::Venue => self.venue_killed = true,
        }
        Ok((*told, reason) == (scope, why))
    }

    fn judge_lift(&mut self, scope: KillScope, events: &[Event]) -> Judged<bool> {
        match scope {
            KillScope::Order(_) => {}
            KillScope::Session(session) => _ = self.killed_sessions.remove(&session),
            KillScope::Account(account) => {
                let standing = &mut self.ledger.accounts[account.0 as usize].standing;
                *standing = crate::ledger::Standing { closed: standing.closed, ..Default::default() };
            }
            KillScope::Venue => self.venue_killed = false,
        }
        Ok(events == [Event::Lifted { scope }])
    }

    fn judge_bust(&mut self, bust: &Bust, events: &[Event]) -> Judged<bool> {
        if let Some(traded) = self.tape.otherwise(bust) {
            offence!("trade {} was busted as {bust:?}, and it was {traded:?}", bust.trade_seq);
        }
        let Bust { instrument, trade_seq, price, lots, buyer, seller, .. } = *bust;
        self.markets[instrument.0 as usize].busted.insert(trade_seq);
        self.give_back(instrument, &Traded { price, lots, buyer, seller });
        Ok(matches!(events, [Event::TradeBusted(told)] if **told == *bust))
    }

    fn judge_quarantine(&mut self, seq: Seq, instrument: Option<InstrumentId>, events: &[Event]) -> Judged<bool> {
        let market = instrument.and_then(|instrument| self.markets.get_mut(instrument.0 as usize));
        let Some(market) = market.filter(|market| market.phase != Phase::Deleted) else {
            return Ok(events == [Event::Quarantined { seq }]);
        };
        market.phase = Phase::Halted;
        let halted = Event::PhaseChanged { instrument: market.spec.id, phase: Phase::Halted };
        Ok(events == [Event::Quarantined { seq }, halted])
    }
}

fn sensible_limits(limits: &InstrumentLimits) -> bool {
    limits.max_lots != Some(Lots::ZERO)
        && limits.max_notional_units.unwrap_or(1) > 0
        && limits.collar_bps.unwrap_or(0) < 10_000
}

fn sensible_settings(settings: &AccountSettings) -> bool {
    settings.throttle.is_none_or(|throttle| throttle.executions != 0 && throttle.window_ns != 0)
}
