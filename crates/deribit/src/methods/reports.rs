//! Off-book trades: one member reports, the other confirms (rulebook 23).

use crate::codec::{Json, RpcError, objects};

use pitwire_model::{AccountId, Command, Event, Seq, Side, TradeReport};
use pitwire_projections::{ReportRecord, ReportState};

use super::order_parameters;
use crate::access::{AccessLevel, Area};
use crate::account_objects::write_report;
use crate::call::{Call, MethodResult};

/// Reports a trade. `direction` is the caller's own side.
///
/// # Errors
/// A refusal without the scope, if a parameter is missing or wrong, or if the engine refuses the
/// report.
pub fn report(call: &mut Call<'_>) -> MethodResult {
    call.require_scope(Area::Trade, AccessLevel::ReadWrite)?;
    let account = call.account()?;
    let instrument = call.instrument_id()?;
    let side = match call.params.required("direction")?.as_ref() {
        "buy" => Side::Buy,
        "sell" => Side::Sell,
        _ => return Err(RpcError::invalid("direction", "direction is buy or sell: what this account did")),
    };
    let spec = call.spec(instrument)?;
    let (price, lots) = (order_parameters::required_price(call, spec)?, order_parameters::required_lots(call, spec)?);
    let (counterparty, label) = (counterparty(call)?, call.label()?);
    let trade = TradeReport { instrument, account, counterparty, side, price, lots, label };
    let number = submit(call, Command::ReportTrade(Box::new(trade)))?;
    answer(call, account, number)
}

fn counterparty(call: &Call<'_>) -> Result<AccountId, RpcError> {
    let name = call.params.required("counterparty")?;
    let found = call.venue.engine().account_named(&name).map(|account| account.spec.id);
    let shown = || name.chars().take(40).collect::<String>();
    found.ok_or_else(|| RpcError::param("unknown_account", "counterparty", format!("no account {:?}", shown())))
}

/// Confirms a report as the counterparty, which makes it a trade.
///
/// # Errors
/// A refusal without the scope, or if no such report waits for the caller.
pub fn confirm(call: &mut Call<'_>) -> MethodResult {
    answer_report(call, true)
}

/// Declines a report, as either party. No trade follows.
///
/// # Errors
/// A refusal without the scope, or if the caller has no such waiting report.
pub fn decline(call: &mut Call<'_>) -> MethodResult {
    answer_report(call, false)
}

fn answer_report(call: &mut Call<'_>, confirm: bool) -> MethodResult {
    call.require_scope(Area::Trade, AccessLevel::ReadWrite)?;
    let (account, report) = (call.account()?, report_id(call)?);
    submit(call, Command::AnswerReport { account, report, confirm })?;
    answer(call, account, report)
}

fn report_id(call: &Call<'_>) -> Result<Seq, RpcError> {
    let text = call.params.required("report_id")?;
    let shown = || text.chars().take(40).collect::<String>();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RpcError::invalid("report_id", format!("{:?} is no number", shown())));
    }
    // A number too long for 64 bits is well-formed and belongs to no report.
    let parsed = text.parse().map(Seq);
    parsed.map_err(|_| RpcError::param("unknown_report", "report_id", format!("no report {:?}", shown())))
}

fn submit(call: &mut Call<'_>, command: Command) -> Result<Seq, RpcError> {
    let number = call.submit(command)?;
    match call.venue.events().last() {
        Some(Event::CommandRefused { reason }) => Err(RpcError::from(*reason)),
        _ => Ok(Seq(number.0)),
    }
}

/// Answers with the report as it now stands. House accounts keep no reports and get the number
/// only.
fn answer(call: &mut Call<'_>, account: AccountId, number: Seq) -> MethodResult {
    let Call { venue, out, .. } = call;
    let found = venue.views().reports(account).rev().find(|record| record.report == number);
    let mut j = Json::new(out);
    match found {
        Some(record) => write_report(&mut j, venue.engine(), record, account),
        None => {
            j.object(|j| {
                j.key("report_id").string(&number.to_string());
            });
        }
    }
    Ok(())
}

/// Lists the caller's reports, newest first: all, those still `waiting`, or those of one
/// instrument.
///
/// # Errors
/// A refusal without the scope, or if a parameter is wrong.
pub fn list(call: &mut Call<'_>) -> MethodResult {
    call.require_scope(Area::Trade, AccessLevel::Read)?;
    let account = call.account()?;
    let only = if call.params.has("instrument_name") { Some(call.instrument_id()?) } else { None };
    let waiting = call.params.boolean("waiting")?.unwrap_or(false);
    let count = call.count(100)?;
    let Call { venue, out, .. } = call;
    let wanted = |record: &&ReportRecord| {
        only.is_none_or(|only| only == record.trade.instrument) && (!waiting || record.state == ReportState::Waiting)
    };
    Json::new(out).array(|j| {
        let found = venue.views().reports(account).rev().filter(wanted).take(count);
        found.for_each(|record| write_report(j, venue.engine(), record, account));
    });
    Ok(())
}

/// Answers with the public off-book data: hours, figures of the day, newest trades.
///
/// # Errors
/// A refusal if the instrument is missing or unknown, or if `count` is out of range.
pub fn off_book(call: &mut Call<'_>) -> MethodResult {
    let (id, count) = (call.instrument_id()?, call.count(20)?);
    let Call { venue, out, .. } = call;
    if let Some(market) = venue.engine().market(id) {
        let view = venue.views().off_book(id);
        objects::off_book_trades(&mut Json::new(out), &market.spec, venue.now(), view, count);
    }
    Ok(())
}
