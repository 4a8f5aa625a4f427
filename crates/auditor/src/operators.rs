//! Checks commands of operators: each is refused for the first rule that it breaks, or done exactly
//! as requested.

use pitwire_model::{
    AccountId, AccountSettings, Bust, CancelReason, Command, CurrencyId, Event, InstrumentId, InstrumentLimits,
    KillScope, Label, Phase, Seq, SessionReason,
};

use crate::batches::check_batch;
use crate::cancels::check_cancellations;
use crate::conclusion::check_conclusion;
use crate::days::check_time_passed;
use crate::model::VenueModel;
use crate::money::AccountRestrictions;
use crate::operator_rules::operator_rejection;
use crate::reader::EventReader;
use crate::recent_trades::RecentTrade;
use crate::reporting::check_reporting_close;
use crate::sessions::{SessionChange, check_extension, check_session_change};
use crate::settling::{check_outside_change, check_settling};
use crate::trades::reverse_trade;
use crate::violation::{CheckResult, fail, wrong_answer};

/// Checks the answer to a command of the operator or the scheduler, and its effects.
///
/// # Errors
/// S1 if the command must be refused and was not, if it was refused without a rule that forbids it,
/// or if its event is missing or wrong. Also the errors of its effects.
pub fn check_operator_command(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    command: &Command,
    events: &[Event],
) -> CheckResult {
    if let Err(expected) = operator_rejection(model, command) {
        if !matches!(reader.peek(model)?, Some(Event::CommandRefused { reason }) if *reason == expected) {
            fail!(S1, "{command:?} must be refused: {}", expected.name());
        }
        reader.advance();
        return reader.expect_end(model);
    }
    if let Some(Event::CommandRefused { reason }) = reader.peek(model)? {
        fail!(S1, "refused as {}, but that reason does not apply: {command:?}", reason.name());
    }
    let done = match command {
        Command::SetPhase { .. }
        | Command::ChangeSession { .. }
        | Command::ExtendSession { .. }
        | Command::FilterHidden { .. }
        | Command::RunBatch { .. }
        | Command::SetClosingPrice { .. } => return check_market_command(model, reader, command),
        Command::PassTime => return check_time_passed(model, reader),
        Command::BustTrade(bust) => check_bust(model, reader, bust)?,
        Command::DeleteInstrument { instrument } => check_deletion(model, reader, *instrument)?,
        Command::CloseAccount { account } => check_account_closing(model, reader, *account)?,
        Command::Kill { scope, reason } => check_kill(model, reader, *scope, reason)?,
        other => return check_setting(model, other, events),
    };
    if !done {
        return Err(wrong_answer(command, events));
    }
    reader.expect_end(model)
}

/// Checks commands that change a setting and publish one event.
fn check_setting(model: &mut VenueModel, command: &Command, events: &[Event]) -> CheckResult {
    let done = match command {
        Command::SetInstrumentLimits { instrument, limits } => set_limits(model, *instrument, *limits, events),
        Command::SetAccount { account, settings } => set_account(model, *account, *settings, events),
        Command::SetCreditLine { account, currency, units } => {
            set_credit_line(model, (*account, *currency, *units), events)
        }
        Command::Lift { scope } => lift(model, *scope, events),
        Command::SetFlow(flow) => events == [Event::FlowSet(*flow)],
        Command::DefineFlow { .. } => events == [Event::FlowDefined],
        Command::Quarantine { seq, instrument } => quarantine(model, *seq, *instrument, events),
        Command::SetRemaining { instrument, remaining } => {
            model.market_mut(*instrument).session.remaining = *remaining;
            events == [Event::RemainingSet { instrument: *instrument }]
        }
        Command::BeginDay { day, closes } => {
            model.venue_day = Some((*day, *closes));
            events == [Event::DayBegun { day: *day }]
        }
        Command::SetTradingRules { instrument, rules } => {
            model.market_mut(*instrument).rules = (**rules).clone();
            model.market_mut(*instrument).spec.rules = Some(rules.clone());
            let (instrument, rules) = (*instrument, rules.clone());
            events == [Event::TradingRulesSet { instrument, rules }]
        }
        _ => false,
    };
    if done { Ok(()) } else { Err(wrong_answer(command, events)) }
}

/// Checks commands about the session, the hidden orders, the batch or the closing price of one
/// instrument.
fn check_market_command(model: &mut VenueModel, reader: &mut EventReader<'_>, command: &Command) -> CheckResult {
    let instrument = match *command {
        Command::SetPhase { instrument, phase } => {
            let change = SessionChange { to: phase, reason: SessionReason::Operator, ends: None, is_old: true };
            if phase == model.market(instrument).session.phase {
                reader.expect_event(model, &Event::PhaseChanged { instrument, phase })?;
                return reader.expect_end(model);
            }
            check_session_change(model, reader, instrument, change)?;
            instrument
        }
        Command::ChangeSession { instrument, to, reason, ends, .. } => {
            check_session_change(model, reader, instrument, SessionChange { to, reason, ends, is_old: false })?;
            instrument
        }
        Command::ExtendSession { instrument, ends } => {
            check_extension(model, reader, instrument, ends)?;
            instrument
        }
        Command::FilterHidden { instrument } => {
            check_settling(model, reader, instrument, None, None)?;
            instrument
        }
        Command::RunBatch { instrument } => {
            check_batch(model, reader, instrument)?;
            instrument
        }
        Command::SetClosingPrice { instrument, price } => {
            let derivation = pitwire_model::Derivation::Manual;
            reader.expect_event(model, &Event::ClosingPriceSet { instrument, price, derivation })?;
            model.market_mut(instrument).closing.closing = Some((price, derivation));
            instrument
        }
        _ => return Ok(()),
    };
    check_conclusion(model, reader, instrument)?;
    reader.expect_end(model)
}

fn set_limits(model: &mut VenueModel, instrument: InstrumentId, limits: InstrumentLimits, events: &[Event]) -> bool {
    model.markets[instrument.0 as usize].spec.limits = limits;
    events == [Event::InstrumentLimitsSet { instrument, limits }]
}

fn check_deletion(model: &mut VenueModel, reader: &mut EventReader<'_>, instrument: InstrumentId) -> CheckResult<bool> {
    let phase = Phase::Deleted;
    let leaves = model.orders_where(|live| live.instrument == instrument);
    check_cancellations(model, reader, leaves, CancelReason::InstrumentDeleted)?;
    check_reporting_close(model, reader, instrument, SessionReason::Operator)?;
    reader.expect_event(model, &Event::PhaseChanged { instrument, phase })?;
    model.markets[instrument.0 as usize].session.phase = phase;
    Ok(true)
}

fn set_account(model: &mut VenueModel, account: AccountId, settings: AccountSettings, events: &[Event]) -> bool {
    model.definitions.accounts[account.0 as usize].settings = settings;
    let restrictions = &mut model.ledger.accounts[account.0 as usize].restrictions;
    (restrictions.window, restrictions.executions) = (0, 0);
    events == [Event::AccountSet { account, settings }]
}

fn set_credit_line(model: &mut VenueModel, line: (AccountId, CurrencyId, i128), events: &[Event]) -> bool {
    let (account, currency, units) = line;
    model.ledger.accounts[account.0 as usize].credit[currency.0 as usize] = units;
    events == [Event::CreditLineSet { account, currency, units }]
}

fn check_account_closing(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    account: AccountId,
) -> CheckResult<bool> {
    let leaves = model.orders_of_account(account, |_| true);
    check_cancellations(model, reader, leaves, CancelReason::AccountClosed)?;
    reader.expect_event(model, &Event::AccountClosed { account })?;
    model.ledger.accounts[account.0 as usize].restrictions.closed = true;
    Ok(true)
}

/// Checks a kill: all orders in its scope leave and are counted, and new ones are refused from then
/// on.
fn check_kill(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    scope: KillScope,
    why: &Label,
) -> CheckResult<bool> {
    let leaves = match scope {
        KillScope::Order(order) => model.orders_where(|live| live.id == order),
        KillScope::Session(session) => model.orders_where(|live| live.session == session),
        KillScope::Account(account) => model.orders_of_account(account, |_| true),
        KillScope::Venue => model.orders_where(|_| true),
    };
    let expected = leaves.len();
    check_cancellations(model, reader, leaves, CancelReason::Killed)?;
    let Some(Event::Killed { scope: actual, cancelled, reason }) = reader.peek(model)? else {
        return Ok(false);
    };
    reader.advance();
    if *cancelled as usize != expected {
        fail!(M4, "a kill of {scope:?} cancelled {expected} orders, but reports {cancelled}");
    }
    match scope {
        KillScope::Order(_) => {}
        KillScope::Session(session) => _ = model.kills.sessions.insert(session),
        KillScope::Account(account) => model.ledger.accounts[account.0 as usize].restrictions.killed = true,
        KillScope::Venue => model.kills.venue = true,
    }
    Ok((*actual, reason) == (scope, why))
}

fn lift(model: &mut VenueModel, scope: KillScope, events: &[Event]) -> bool {
    match scope {
        KillScope::Order(_) => {}
        KillScope::Session(session) => _ = model.kills.sessions.remove(&session),
        KillScope::Account(account) => {
            let restrictions = &mut model.ledger.accounts[account.0 as usize].restrictions;
            *restrictions = AccountRestrictions { closed: restrictions.closed, ..Default::default() };
        }
        KillScope::Venue => model.kills.venue = false,
    }
    events == [Event::Lifted { scope }]
}

fn check_bust(model: &mut VenueModel, reader: &mut EventReader<'_>, bust: &Bust) -> CheckResult<bool> {
    if let Some(traded) = model.recent_trades.contradicts(bust) {
        fail!(M4, "trade {} was busted as {bust:?}, but it was {traded:?}", bust.trade_seq);
    }
    let Bust { instrument, trade_seq, price, lots, buyer, seller, .. } = *bust;
    model.markets[instrument.0 as usize].busted.insert(trade_seq);
    reverse_trade(model, instrument, &RecentTrade { price, lots, buyer, seller });
    model.market_mut(instrument).closing.remove_busted(bust);
    model.market_mut(instrument).day.remove_busted(price, lots);
    if !matches!(reader.peek(model)?, Some(Event::TradeBusted(actual)) if **actual == *bust) {
        return Ok(false);
    }
    reader.advance();
    check_outside_change(model, reader, instrument)?;
    Ok(true)
}

fn quarantine(model: &mut VenueModel, seq: Seq, instrument: Option<InstrumentId>, events: &[Event]) -> bool {
    let now = model.at;
    let market = instrument.and_then(|instrument| model.markets.get_mut(instrument.0 as usize));
    let Some(market) = market.filter(|market| market.session.phase != Phase::Deleted) else {
        return events == [Event::Quarantined { seq }];
    };
    market.halt(now);
    let halted = Event::PhaseChanged { instrument: market.spec.id, phase: Phase::Halted };
    events == [Event::Quarantined { seq }, halted]
}
