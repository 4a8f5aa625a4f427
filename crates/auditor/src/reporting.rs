//! Checks off-book trades: reported, confirmed by the counterparty, and settled (rulebook 23).
//!
//! Holds       1. M4: a confirmation settles the reported trade exactly once, and no account
//!                confirms its own report;
//!             2. M8: no report is accepted outside the reporting hours, and none stays open after
//!                them.

use pitwire_model::{
    AccountId, Command, Event, InstrumentId, OffBookTrade, Reject, ReportEnd, Seq, SessionReason, Side, TradeReport,
};

use crate::model::VenueModel;
use crate::reader::EventReader;
use crate::settling::check_outside_change;
use crate::validity::{legal_lots, legal_price};
use crate::violation::{CheckResult, fail};

/// Reports that one account may have waiting in one instrument.
const MOST_WAITING: usize = 16;

/// The expected answer to one command.
enum ExpectedAnswer {
    Accepted(Vec<Event>),
    Refused(Reject),
    /// The trade settles, unless a party lacks the funds.
    Trade(Seq, TradeReport),
}

/// Checks the answer to a command of trade reporting.
///
/// # Errors
/// S1 if the answer is missing, wrong or repeated, M4 if an off-book trade differs from its report.
pub fn check_reporting(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    number: Seq,
    command: &Command,
) -> CheckResult {
    match expected_answer(model, number, command).unwrap_or_else(ExpectedAnswer::Refused) {
        ExpectedAnswer::Refused(reason) => reader.expect_event(model, &Event::CommandRefused { reason })?,
        ExpectedAnswer::Accepted(events) => {
            for event in &events {
                reader.expect_event(model, event)?;
            }
        }
        ExpectedAnswer::Trade(report, trade) => check_off_book_trade(model, reader, report, &trade)?,
    }
    reader.expect_end(model)
}

fn expected_answer(model: &mut VenueModel, number: Seq, command: &Command) -> Result<ExpectedAnswer, Reject> {
    match command {
        Command::SetReporting { instrument, open, reason, ends, .. } => {
            let market = model.existing_market(*instrument)?;
            if market.reporting.hours.is_some() == *open {
                return Err(Reject::SessionNotAllowed);
            }
            if !*open {
                return Ok(ExpectedAnswer::Accepted(close_reporting(model, *instrument, *reason)));
            }
            model.market_mut(*instrument).reporting.hours = Some(*ends);
            let (instrument, reason, ends) = (*instrument, *reason, *ends);
            Ok(ExpectedAnswer::Accepted(vec![Event::ReportingChanged { instrument, open: true, reason, ends }]))
        }
        Command::ReportTrade(trade) => {
            check_report_allowed(model, trade)?;
            model.market_mut(trade.instrument).reporting.waiting.insert(number, (**trade).clone());
            Ok(ExpectedAnswer::Accepted(vec![Event::TradeReported { report: number, trade: trade.clone() }]))
        }
        Command::AnswerReport { account, report, confirm } => expected_reply(model, *account, *report, *confirm),
        _ => Ok(ExpectedAnswer::Accepted(Vec::new())),
    }
}

fn check_report_allowed(model: &VenueModel, trade: &TradeReport) -> Result<(), Reject> {
    let market = model.markets.get(trade.instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
    if !(model.ledger.has_account(trade.account) && model.ledger.has_account(trade.counterparty)) {
        return Err(Reject::UnknownAccount);
    }
    model.existing_market(trade.instrument)?;
    check_may_settle(model, &[trade.account])?;
    if market.reporting.hours.is_none() {
        return Err(Reject::ReportingClosed);
    }
    legal_lots(trade.lots)?;
    legal_price(trade.price)?;
    if trade.account == trade.counterparty {
        return Err(Reject::BadDefinition);
    }
    let mine = market.reporting.waiting.values().filter(|other| other.account == trade.account).count();
    if mine < MOST_WAITING { Ok(()) } else { Err(Reject::TooManyReports) }
}

/// Checks that no party is closed, killed or throttled. Reports belong to no session.
fn check_may_settle(model: &VenueModel, parties: &[AccountId]) -> Result<(), Reject> {
    for party in parties {
        let restrictions = model.ledger.accounts[party.0 as usize].restrictions;
        let bars = [
            (restrictions.closed, Reject::AccountClosed),
            (restrictions.killed || model.kills.venue, Reject::Killed),
            (restrictions.throttled, Reject::ExecutionThrottle),
        ];
        if let Some((_, reason)) = bars.into_iter().find(|(is_barred, _)| *is_barred) {
            return Err(reason);
        }
    }
    Ok(())
}

fn expected_reply(
    model: &mut VenueModel,
    account: AccountId,
    report: Seq,
    confirm: bool,
) -> Result<ExpectedAnswer, Reject> {
    if !model.ledger.has_account(account) {
        return Err(Reject::UnknownAccount);
    }
    let waiting = model.markets.iter().find_map(|market| market.reporting.waiting.get(&report));
    let trade = waiting.filter(|trade| account == trade.account || account == trade.counterparty);
    let trade = trade.ok_or(Reject::UnknownReport)?.clone();
    let is_own = account == trade.account;
    if confirm {
        if is_own {
            return Err(Reject::OwnReport);
        }
        let (buyer, seller) = match trade.side {
            Side::Buy => (trade.account, trade.counterparty),
            Side::Sell => (trade.counterparty, trade.account),
        };
        check_may_settle(model, &[buyer, seller])?;
        return Ok(ExpectedAnswer::Trade(report, trade));
    }
    model.market_mut(trade.instrument).reporting.waiting.remove(&report);
    let end = if is_own { ReportEnd::Withdrawn } else { ReportEnd::Declined };
    Ok(ExpectedAnswer::Accepted(vec![report_ended(report, &trade, end)]))
}

/// Checks a confirmed report: it settles, or is refused because a party lacks the funds.
fn check_off_book_trade(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    report: Seq,
    trade: &TradeReport,
) -> CheckResult {
    let TradeReport { instrument, price, lots, .. } = *trade;
    let (buyer, seller) = match trade.side {
        Side::Buy => (trade.account, trade.counterparty),
        Side::Sell => (trade.counterparty, trade.account),
    };
    let parties = [(buyer, Side::Buy), (seller, Side::Sell)];
    let market = model.market(instrument);
    let terms = market.terms;
    if let Some(Event::CommandRefused { reason: Reject::NotEnoughFunds }) = reader.peek(model)? {
        let could = |(party, side): &(AccountId, Side)| {
            !model.ledger.accounts[party.0 as usize].limited
                || terms.cost(*side, price, lots.0).is_some_and(|cost| model.ledger.could_spend(*party, cost))
        };
        if parties.iter().all(could) {
            fail!(S1, "report {report} was refused for lack of money that both parties have");
        }
        reader.advance();
        return Ok(());
    }
    for (party, side) in parties {
        model.ledger.check_can_spend(party, terms.cost(side, price, lots.0))?;
    }
    let reporting = &mut model.market_mut(instrument).reporting;
    reporting.waiting.remove(&report);
    reporting.trades += 1;
    let number = reporting.trades;
    model.ledger.settle(instrument, &terms, parties, price, lots.0);
    let made = OffBookTrade { instrument, number, price, lots, report, buyer, seller };
    reader.expect_event(model, &Event::OffBookTrade(Box::new(made)))?;
    check_outside_change(model, reader, instrument)
}

/// Closes the reporting hours and returns the expected events. Returns none if the hours were
/// closed.
fn close_reporting(model: &mut VenueModel, instrument: InstrumentId, reason: SessionReason) -> Vec<Event> {
    let reporting = &mut model.market_mut(instrument).reporting;
    if reporting.hours.take().is_none() {
        return Vec::new();
    }
    let waiting = std::mem::take(&mut reporting.waiting);
    let mut actual: Vec<Event> =
        waiting.iter().map(|(report, trade)| report_ended(*report, trade, ReportEnd::HoursEnded)).collect();
    actual.push(Event::ReportingChanged { instrument, open: false, reason, ends: None });
    actual
}

/// Checks that waiting reports end when reporting closes.
///
/// # Errors
/// S1 if an event of a report is missing or wrong.
pub fn check_reporting_close(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    reason: SessionReason,
) -> CheckResult {
    for event in close_reporting(model, instrument, reason) {
        reader.expect_event(model, &event)?;
    }
    Ok(())
}

fn report_ended(report: Seq, trade: &TradeReport, end: ReportEnd) -> Event {
    let TradeReport { instrument, account, counterparty, .. } = *trade;
    Event::ReportEnded { report, instrument, account, counterparty, end }
}
