//! Off-book trades (rulebook 23). Waiting reports are a list that every question searches.

use pitwire_model::{
    AccountId, Command, Event, InstrumentId, OffBookTrade, Phase, Reject, ReportEnd, Seq, SessionReason, Side,
    TradeReport,
};

use crate::account::ReferenceAccount;
use crate::market::ReportingHours;
use crate::state::VenueState;
use crate::trading::settle_positions;
use crate::validity::{is_valid_price, is_valid_quantity};

/// Executes a command of trade reporting.
///
/// # Errors
/// The first rule that forbids the command.
pub fn run_report_command(
    venue: &mut VenueState,
    number: Seq,
    command: &Command,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    match command {
        Command::SetReporting { instrument, open, reason, ends, .. } => {
            let at = venue.existing_market(*instrument)?;
            if venue.markets[at].reporting_hours.is_some() == *open {
                return Err(Reject::SessionNotAllowed);
            }
            if *open {
                venue.markets[at].reporting_hours = Some(ReportingHours { ends: *ends });
                let (instrument, reason, ends) = (*instrument, *reason, *ends);
                out.push(Event::ReportingChanged { instrument, open: true, reason, ends });
            } else {
                close_reporting(venue, *instrument, *reason, out);
            }
            Ok(())
        }
        Command::ReportTrade(trade) => report_trade(venue, number, trade, out),
        Command::AnswerReport { account, report, confirm: true } => confirm_report(venue, *account, *report, out),
        Command::AnswerReport { account, report, confirm: false } => drop_report(venue, *account, *report, out),
        other => unreachable!("{other:?} is dispatched elsewhere"),
    }
}

/// Closes the reporting hours of an instrument and ends its waiting reports.
pub fn close_reporting(venue: &mut VenueState, instrument: InstrumentId, reason: SessionReason, out: &mut Vec<Event>) {
    if venue.markets[instrument.0 as usize].reporting_hours.take().is_none() {
        return;
    }
    let mut over: Vec<Seq> = Vec::new();
    for (number, trade) in &venue.reports {
        if trade.instrument == instrument {
            over.push(*number);
        }
    }
    over.sort();
    for number in over {
        end_report(venue, number, ReportEnd::HoursEnded, out);
    }
    out.push(Event::ReportingChanged { instrument, open: false, reason, ends: None });
}

fn end_report(venue: &mut VenueState, number: Seq, end: ReportEnd, out: &mut Vec<Event>) {
    let at = venue.reports.iter().position(|(of, _)| *of == number).expect("the caller has seen it");
    let (report, TradeReport { instrument, account, counterparty, .. }) = venue.reports.swap_remove(at);
    out.push(Event::ReportEnded { report, instrument, account, counterparty, end });
}

fn report_trade(venue: &mut VenueState, number: Seq, trade: &TradeReport, out: &mut Vec<Event>) -> Result<(), Reject> {
    if venue.market(trade.instrument).is_none() {
        return Err(Reject::UnknownInstrument);
    }
    if venue.account(trade.account).is_none() || venue.account(trade.counterparty).is_none() {
        return Err(Reject::UnknownAccount);
    }
    let market = &venue.markets[venue.existing_market(trade.instrument)?];
    debug_assert_ne!(market.session.phase, Phase::Deleted);
    check_may_settle(venue, [trade.account])?;
    if market.reporting_hours.is_none() {
        return Err(Reject::ReportingClosed);
    }
    if !is_valid_quantity(trade.lots.0) {
        return Err(Reject::QuantityOutOfRange);
    }
    if !is_valid_price(trade.price) {
        return Err(Reject::PriceOutOfRange);
    }
    if trade.account == trade.counterparty {
        return Err(Reject::BadDefinition);
    }
    let mut waiting = 0;
    for (_, other) in &venue.reports {
        waiting += usize::from((other.instrument, other.account) == (trade.instrument, trade.account));
    }
    if waiting == 16 {
        return Err(Reject::TooManyReports);
    }
    venue.reports.push((number, trade.clone()));
    out.push(Event::TradeReported { report: number, trade: Box::new(trade.clone()) });
    Ok(())
}

fn check_may_settle(venue: &VenueState, parties: impl IntoIterator<Item = AccountId>) -> Result<(), Reject> {
    for account in parties {
        let ReferenceAccount { closed, killed, throttled, .. } = venue.accounts[account.0 as usize];
        if closed {
            return Err(Reject::AccountClosed);
        }
        if killed || venue.venue_killed {
            return Err(Reject::Killed);
        }
        if throttled {
            return Err(Reject::ExecutionThrottle);
        }
    }
    Ok(())
}

/// Returns a waiting report of which the account is a party.
fn find_report(venue: &VenueState, account: AccountId, number: Seq) -> Result<TradeReport, Reject> {
    if venue.account(account).is_none() {
        return Err(Reject::UnknownAccount);
    }
    let found = venue.reports.iter().find(|(of, _)| *of == number).map(|(_, trade)| trade);
    match found {
        Some(trade) if [trade.account, trade.counterparty].contains(&account) => Ok(trade.clone()),
        _ => Err(Reject::UnknownReport),
    }
}

fn drop_report(venue: &mut VenueState, account: AccountId, number: Seq, out: &mut Vec<Event>) -> Result<(), Reject> {
    let trade = find_report(venue, account, number)?;
    let end = if trade.counterparty == account { ReportEnd::Declined } else { ReportEnd::Withdrawn };
    end_report(venue, number, end, out);
    Ok(())
}

fn confirm_report(venue: &mut VenueState, account: AccountId, number: Seq, out: &mut Vec<Event>) -> Result<(), Reject> {
    let trade = find_report(venue, account, number)?;
    if trade.account == account {
        return Err(Reject::OwnReport);
    }
    check_may_settle(venue, buyer_and_seller(&trade))?;
    let TradeReport { instrument, price, lots, .. } = trade;
    let [buyer, seller] = buyer_and_seller(&trade);
    for (party, side) in [(buyer, Side::Buy), (seller, Side::Sell)] {
        if !venue.affords_trade(instrument, party, side, price, lots.0) {
            return Err(Reject::NotEnoughFunds);
        }
    }
    venue.reports.retain(|(of, _)| *of != number);
    venue.markets[instrument.0 as usize].off_book_trades += 1;
    venue.settle_money(instrument, [(seller, Side::Sell), (buyer, Side::Buy)], price, lots.0);
    let of_trades = venue.markets[instrument.0 as usize].off_book_trades;
    let made = OffBookTrade { instrument, number: of_trades, price, lots, report: number, buyer, seller };
    out.push(Event::OffBookTrade(Box::new(made)));
    settle_positions(venue, instrument, out);
    Ok(())
}

fn buyer_and_seller(trade: &TradeReport) -> [AccountId; 2] {
    if trade.side == Side::Buy { [trade.account, trade.counterparty] } else { [trade.counterparty, trade.account] }
}
