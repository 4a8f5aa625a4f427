//! What operators did: refused for the first rule broken, or done exactly as they said.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, Command, CurrencyId, Event, FlowSetting, InstrumentId,
    InstrumentKind, InstrumentLimits, KillScope, Label, Lots, Phase, Reject, Seq, SessionReason, Ticks, TradingRules,
};

use crate::fault::{Judged, offence};
use crate::ledger::Holder;
use crate::sessions::Change;
use crate::tape::Traded;
use crate::turn::Turn;
use crate::{Auditor, Market, legal_lots, legal_price, not_an_answer};

/// More than this in one balance would let sums leave 128 bits.
const MOST_UNITS: i128 = 1 << 100;

impl Auditor {
    pub(crate) fn judge_operator(&mut self, turn: &mut Turn<'_>, command: &Command, events: &[Event]) -> Judged {
        if let Err(due) = self.operator_due(command) {
            if !matches!(self.peek(turn)?, Some(Event::CommandRefused { reason }) if *reason == due) {
                offence!(S1, "{command:?} was to be refused: {}", due.name());
            }
            turn.pass();
            return self.nothing_follows(turn);
        }
        if let Some(Event::CommandRefused { reason }) = self.peek(turn)? {
            offence!(S1, "refused as {}, which was not so: {command:?}", reason.name());
        }
        let done = match command {
            Command::SetPhase { .. }
            | Command::ChangeSession { .. }
            | Command::ExtendSession { .. }
            | Command::FilterHidden { .. }
            | Command::RunBatch { .. }
            | Command::SetClosingPrice { .. } => return self.judge_market_word(turn, command),
            Command::PassTime => return self.judge_passing(turn),
            Command::DeleteInstrument { instrument } => self.judge_deletion(turn, *instrument)?,
            Command::CloseAccount { account } => self.judge_closing(turn, *account)?,
            Command::Kill { scope, reason } => self.judge_kill(turn, *scope, reason)?,
            other => return self.judge_setting(other, events),
        };
        if !done {
            return Err(not_an_answer(command, events));
        }
        self.nothing_follows(turn)
    }

    /// Commands that set something and say so in one word.
    fn judge_setting(&mut self, command: &Command, events: &[Event]) -> Judged {
        let done = match command {
            Command::SetInstrumentLimits { instrument, limits } => self.judge_limits(*instrument, *limits, events),
            Command::SetAccount { account, settings } => self.judge_settings(*account, *settings, events),
            Command::SetCreditLine { account, currency, units } => {
                self.judge_credit((*account, *currency, *units), events)
            }
            Command::Lift { scope } => self.judge_lift(*scope, events),
            Command::BustTrade(bust) => self.judge_bust(bust, events)?,
            Command::SetFlow(flow) => events == [Event::FlowSet(*flow)],
            Command::Quarantine { seq, instrument } => self.judge_quarantine(*seq, *instrument, events),
            Command::SetRemaining { instrument, remaining } => {
                self.market_mut(*instrument).remaining = *remaining;
                events == [Event::RemainingSet { instrument: *instrument }]
            }
            Command::BeginDay { day, closes } => {
                self.today = Some((*day, *closes));
                events == [Event::DayBegun { day: *day }]
            }
            Command::SetTradingRules { instrument, rules } => {
                self.market_mut(*instrument).rules = (**rules).clone();
                self.market_mut(*instrument).spec.rules = Some(rules.clone());
                let (instrument, rules) = (*instrument, rules.clone());
                events == [Event::TradingRulesSet { instrument, rules }]
            }
            _ => false,
        };
        if done { Ok(()) } else { Err(not_an_answer(command, events)) }
    }

    /// What is said to one market about its session, its hidden orders, its batch or its close.
    fn judge_market_word(&mut self, turn: &mut Turn<'_>, command: &Command) -> Judged {
        let instrument = match *command {
            Command::SetPhase { instrument, phase } => {
                let change = Change { to: phase, reason: SessionReason::Operator, ends: None, is_old: true };
                if phase == self.market_of(instrument).phase {
                    self.expect(turn, &Event::PhaseChanged { instrument, phase })?;
                    return self.nothing_follows(turn);
                }
                self.judge_session(turn, instrument, change)?;
                instrument
            }
            Command::ChangeSession { instrument, to, reason, ends, .. } => {
                self.judge_session(turn, instrument, Change { to, reason, ends, is_old: false })?;
                instrument
            }
            Command::ExtendSession { instrument, ends } => {
                self.judge_extension(turn, instrument, ends)?;
                instrument
            }
            Command::FilterHidden { instrument } => {
                self.settle_book(turn, instrument, None, None)?;
                instrument
            }
            Command::RunBatch { instrument } => {
                self.judge_batch(turn, instrument)?;
                instrument
            }
            Command::SetClosingPrice { instrument, price } => {
                let derivation = pitwire_model::Derivation::Manual;
                self.expect(turn, &Event::ClosingPriceSet { instrument, price, derivation })?;
                self.market_mut(instrument).close.closing = Some((price, derivation));
                instrument
            }
            _ => return Ok(()),
        };
        self.conclude(turn, instrument)?;
        self.nothing_follows(turn)
    }

    /// A batch of continuous trading ends.
    fn judge_batch(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged {
        let market = self.market_of(instrument);
        if market.phase != Phase::Continuous || !market.is_batched() {
            return Ok(());
        }
        let end = self.arrivals;
        self.market_mut(instrument).batch_ends.push(end);
        self.forget_batches(instrument);
        let has_breached = self.follow_uncross(turn, instrument, Phase::Continuous)?;
        let reason = if has_breached { CancelReason::Breaker } else { CancelReason::ImmediateRemainder };
        let leaves = self.live_where(|live| {
            live.instrument == instrument && live.is_active() && (live.is_market() || live.is_immediate())
        });
        for (_, order) in leaves {
            self.see_leaving(turn, order, reason)?;
        }
        if has_breached {
            return self.follow_breach(turn, instrument, &[]);
        }
        self.settle_book(turn, instrument, None, None)
    }

    /// Ends of batches between which no order is left need not be remembered.
    fn forget_batches(&mut self, instrument: InstrumentId) {
        const MANY: usize = 64;
        if self.market_of(instrument).batch_ends.len() < MANY {
            return;
        }
        let mine = self.orders.values().filter(|order| order.instrument == instrument);
        let arrivals: std::collections::BTreeSet<u64> = mine.map(|order| order.arrival).collect();
        let mut before = 0;
        self.market_mut(instrument).batch_ends.retain(|end| {
            let is_needed = *end > before && arrivals.range(before + 1..=*end).next().is_some();
            before = if is_needed { *end } else { before };
            is_needed
        });
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
            Command::ChangeSession { instrument, to, reason, .. } => {
                self.market(*instrument)?.session_due(*to, *reason)
            }
            Command::ExtendSession { instrument, ends } => {
                let market = self.undeleted(*instrument)?;
                require(market.phase.is_call() && *ends >= self.at, Reject::SessionNotAllowed)
            }
            Command::SetRemaining { instrument, .. } | Command::FilterHidden { instrument } => {
                self.undeleted(*instrument).map(|_| ())
            }
            Command::RunBatch { instrument } => self.undeleted(*instrument).map(|_| ()),
            Command::SetTradingRules { instrument, rules } => {
                let market = self.undeleted(*instrument)?;
                require(sensible_rules(rules), Reject::BadDefinition)?;
                let is_at_work =
                    market.phase.is_call() || matches!(market.phase, Phase::Continuous | Phase::ClosingPriceCross);
                require(rules.allocation == market.rules.allocation || !is_at_work, Reject::SessionNotAllowed)
            }
            Command::SetClosingPrice { instrument, price } => {
                let market = self.undeleted(*instrument)?;
                let is_over = matches!(market.phase, Phase::ClosingPriceCross | Phase::PostClose | Phase::Closed);
                require(!is_over, Reject::SessionNotAllowed)?;
                legal_price(*price)
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

    fn undeleted(&self, instrument: InstrumentId) -> Result<&Market, Reject> {
        let market = self.market(instrument)?;
        if market.phase == Phase::Deleted { Err(Reject::InstrumentDeleted) } else { Ok(market) }
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

    fn judge_limits(&mut self, instrument: InstrumentId, limits: InstrumentLimits, events: &[Event]) -> bool {
        self.markets[instrument.0 as usize].spec.limits = limits;
        events == [Event::InstrumentLimitsSet { instrument, limits }]
    }

    fn judge_deletion(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged<bool> {
        let phase = Phase::Deleted;
        let leaves = self.live_where(|live| live.instrument == instrument);
        self.follow_leaving(turn, leaves, CancelReason::InstrumentDeleted)?;
        self.see_hours_end(turn, instrument, SessionReason::Operator)?;
        self.expect(turn, &Event::PhaseChanged { instrument, phase })?;
        self.markets[instrument.0 as usize].phase = phase;
        Ok(true)
    }

    fn judge_settings(&mut self, account: AccountId, settings: AccountSettings, events: &[Event]) -> bool {
        self.names.accounts[account.0 as usize].settings = settings;
        let standing = &mut self.ledger.accounts[account.0 as usize].standing;
        (standing.window, standing.executions) = (0, 0);
        events == [Event::AccountSet { account, settings }]
    }

    fn judge_credit(&mut self, line: (AccountId, CurrencyId, i128), events: &[Event]) -> bool {
        let (account, currency, units) = line;
        self.ledger.accounts[account.0 as usize].credit[currency.0 as usize] = units;
        events == [Event::CreditLineSet { account, currency, units }]
    }

    fn judge_closing(&mut self, turn: &mut Turn<'_>, account: AccountId) -> Judged<bool> {
        let leaves = self.live_of(account, |_| true);
        self.follow_leaving(turn, leaves, CancelReason::AccountClosed)?;
        self.expect(turn, &Event::AccountClosed { account })?;
        self.ledger.accounts[account.0 as usize].standing.closed = true;
        Ok(true)
    }

    /// Everything in the scope goes, is counted, and is kept out from then on.
    fn judge_kill(&mut self, turn: &mut Turn<'_>, scope: KillScope, why: &Label) -> Judged<bool> {
        let leaves = match scope {
            KillScope::Order(order) => self.live_where(|live| live.id == order),
            KillScope::Session(session) => self.live_where(|live| live.session == session),
            KillScope::Account(account) => self.live_of(account, |_| true),
            KillScope::Venue => self.live_where(|_| true),
        };
        let due = leaves.len();
        self.follow_leaving(turn, leaves, CancelReason::Killed)?;
        let Some(Event::Killed { scope: told, cancelled, reason }) = self.peek(turn)? else {
            return Ok(false);
        };
        turn.pass();
        if *cancelled as usize != due {
            offence!(M4, "a kill of {scope:?} took {due} orders and says {cancelled}");
        }
        match scope {
            KillScope::Order(_) => {}
            KillScope::Session(session) => _ = self.killed_sessions.insert(session),
            KillScope::Account(account) => self.ledger.accounts[account.0 as usize].standing.killed = true,
            KillScope::Venue => self.venue_killed = true,
        }
        Ok((*told, reason) == (scope, why))
    }

    fn judge_lift(&mut self, scope: KillScope, events: &[Event]) -> bool {
        match scope {
            KillScope::Order(_) => {}
            KillScope::Session(session) => _ = self.killed_sessions.remove(&session),
            KillScope::Account(account) => {
                let standing = &mut self.ledger.accounts[account.0 as usize].standing;
                *standing = crate::ledger::Standing { closed: standing.closed, ..Default::default() };
            }
            KillScope::Venue => self.venue_killed = false,
        }
        events == [Event::Lifted { scope }]
    }

    fn judge_bust(&mut self, bust: &Bust, events: &[Event]) -> Judged<bool> {
        if let Some(traded) = self.tape.otherwise(bust) {
            offence!(M4, "trade {} was busted as {bust:?}, and it was {traded:?}", bust.trade_seq);
        }
        let Bust { instrument, trade_seq, price, lots, buyer, seller, .. } = *bust;
        self.markets[instrument.0 as usize].busted.insert(trade_seq);
        self.give_back(instrument, &Traded { price, lots, buyer, seller });
        self.market_mut(instrument).close.take_out(bust);
        self.market_mut(instrument).day.take_out(price, lots);
        Ok(matches!(events, [Event::TradeBusted(told)] if **told == *bust))
    }

    fn judge_quarantine(&mut self, seq: Seq, instrument: Option<InstrumentId>, events: &[Event]) -> bool {
        let now = self.at;
        let market = instrument.and_then(|instrument| self.markets.get_mut(instrument.0 as usize));
        let Some(market) = market.filter(|market| market.phase != Phase::Deleted) else {
            return events == [Event::Quarantined { seq }];
        };
        market.halt(now);
        let halted = Event::PhaseChanged { instrument: market.spec.id, phase: Phase::Halted };
        events == [Event::Quarantined { seq }, halted]
    }
}

fn sensible_rules(rules: &TradingRules) -> bool {
    let width = |bps: Option<u32>| bps != Some(0);
    rules.improvement >= Ticks(1)
        && rules.improvement <= Ticks::MAX_PRICE
        && rules.minimum_reserve != Some(Lots::ZERO)
        && rules.tolerances.iter().all(|tolerance| width(tolerance.static_bps) && width(tolerance.dynamic_bps))
}

fn sensible_limits(limits: &InstrumentLimits) -> bool {
    limits.max_lots != Some(Lots::ZERO)
        && limits.max_notional_units.unwrap_or(1) > 0
        && limits.collar_bps.unwrap_or(0) < 10_000
}

fn sensible_settings(settings: &AccountSettings) -> bool {
    settings.throttle.is_none_or(|throttle| throttle.executions != 0 && throttle.window_ns != 0)
}
