//! Queries about a member's own orders and fills.

use crate::ExplainStatus;
use crate::codec::{Json, RpcError, objects};
use pitwire_projections::AccountBook;

use super::filters;
use super::trading;
use crate::access::{AccessLevel, Area};
use crate::account_objects::order_moment;
use crate::call::{Call, MethodResult};
use crate::long_answer::{FillFilter, FillList, LongWork, OrderList, OrderListFilter};
use crate::order_filter::InstrumentFilter;

/// The criterion of a query. A label may be combined with a currency.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OrderFilter {
    Instrument,
    Currency,
    Label,
}

fn cover_by(call: &Call<'_>, by: OrderFilter) -> Result<InstrumentFilter, RpcError> {
    match by {
        OrderFilter::Instrument => InstrumentFilter::instrument(call),
        OrderFilter::Currency | OrderFilter::Label => InstrumentFilter::currency(call),
    }
}

fn book<'a>(call: &'a Call<'_>) -> Result<Option<&'a AccountBook>, RpcError> {
    Ok(call.venue.views().account(call.account()?))
}

/// Answers with one order of the account.
///
/// # Errors
/// A refusal without a login or if the id is malformed, `unknown_order` if the account has no such
/// order.
pub fn order_state(call: &mut Call<'_>) -> MethodResult {
    let id = trading::order_id(call)?;
    let record = book(call)?.and_then(|book| book.order(id));
    let record = record.ok_or_else(|| RpcError::param("unknown_order", "order_id", format!("no order {id}")))?;
    let market = call.market(record.instrument)?;
    let mut out = Vec::new();
    objects::order(&mut Json::new(&mut out), &market.spec, record, order_moment(call.venue.engine(), record));
    call.out = out;
    Ok(())
}

/// Answers with the notes of the journal on an order or report. A member may ask about its own, an
/// operator about any. `state` is `working` until the look-up is done.
///
/// # Errors
/// `unknown_order` if the order is not the caller's own, a refusal if the venue keeps no log on
/// disk, `internal_error` if the log cannot be read.
pub fn explain(call: &mut Call<'_>) -> MethodResult {
    let id = trading::order_id(call)?;
    let mut member = None;
    if call.operator().is_err() {
        call.require_scope(Area::Trade, AccessLevel::Read)?;
        let account = call.account()?;
        let is_own_order = book(call)?.is_some_and(|book| book.order(id).is_some());
        let is_own_report = || call.venue.views().reports(account).any(|record| record.report.0 == id.0);
        if !is_own_order && !is_own_report() {
            return Err(RpcError::param("unknown_order", "order_id", format!("no order {id}")));
        }
        member = Some(account);
    }
    let (state, notes) = match call.venue.explain(id, member) {
        ExplainStatus::Nowhere => return Err(RpcError::invalid("order_id", "this venue keeps no log on disk")),
        ExplainStatus::Failed(what) => return Err(RpcError::new("internal_error", what)),
        ExplainStatus::Working => ("working", "[]".to_owned()),
        ExplainStatus::Notes(notes) => ("done", notes),
    };
    call.json().object(|j| {
        j.key("order_id").quoted_uint(id.0);
        j.key("state").string(state);
        j.key("notes").raw(notes.as_bytes());
    });
    Ok(())
}

/// Lists the orders with a label, open ones first.
///
/// # Errors
/// A refusal without a login, or if the label or the filter is missing or wrong.
pub fn order_state_by_label(call: &mut Call<'_>) -> MethodResult {
    let (label, instruments) = (call.required_label()?, cover_by(call, OrderFilter::Label)?);
    let filter = OrderListFilter { instruments, label: Some(label), ..OrderListFilter::default() };
    let list = OrderList::of_all(book(call)?, filter);
    call.answer_with(LongWork::Orders(list))
}

/// Lists open orders.
///
/// # Errors
/// A refusal without a login, or if a parameter of the filter is missing or wrong.
pub fn open_orders(call: &mut Call<'_>, by: OrderFilter) -> MethodResult {
    let instruments = cover_by(call, by)?;
    let label = if by == OrderFilter::Label { Some(call.required_label()?) } else { None };
    let types = Some(filters::types(call)?);
    let filter = OrderListFilter { instruments, types, label, ..OrderListFilter::default() };
    let list = OrderList::of_open(book(call)?, filter);
    call.answer_with(LongWork::Orders(list))
}

/// Lists closed orders, newest first. Orders cancelled without a fill are left out unless
/// `include_unfilled`.
///
/// # Errors
/// A refusal without a login, or if a parameter is missing or wrong.
pub fn order_history(call: &mut Call<'_>, by: OrderFilter) -> MethodResult {
    let instruments = cover_by(call, by)?;
    let count = call.count(20)?;
    let offset = usize::try_from(call.params.integer("offset")?.unwrap_or(0).max(0)).unwrap_or(0);
    let has_fills = !call.params.boolean("include_unfilled")?.unwrap_or(false);
    let filter = OrderListFilter { instruments, has_fills, ..OrderListFilter::default() };
    let list = OrderList::of_closed(book(call)?, filter, (offset, count));
    call.answer_with(LongWork::Orders(list))
}

/// Lists the account's trades of the filter, in the order of `sorting`.
///
/// # Errors
/// A refusal without a login, or if a parameter is missing or wrong.
pub fn user_trades(call: &mut Call<'_>, by: OrderFilter) -> MethodResult {
    let instruments = cover_by(call, by)?;
    let count = call.count(10)?;
    let (from_ms, to_ms) = call.time_range()?;
    let is_ascending = call.is_ascending()?;
    let seq = |name| Ok::<_, RpcError>(call.params.integer(name)?.and_then(|value| u64::try_from(value).ok()));
    let trades = seq("start_seq")?.unwrap_or(0)..=seq("end_seq")?.unwrap_or(u64::MAX);
    let filter = FillFilter { instruments, order: None, times_ms: from_ms..=to_ms, trades };
    let endings = [r#"],"has_more":false}"#, r#"],"has_more":true}"#];
    let list = FillList::new(book(call)?, filter, endings).descending(!is_ascending).at_most(count);
    call.out.extend_from_slice(br#"{"trades":["#);
    call.answer_with(LongWork::Fills(list))
}

/// Answers with a bare array, oldest first by default. The dialect's other fill lists are objects.
///
/// # Errors
/// A refusal without a login, or if the id or `sorting` is malformed.
pub fn user_trades_by_order(call: &mut Call<'_>) -> MethodResult {
    let id = trading::order_id(call)?;
    call.is_ascending()?;
    let is_descending = call.params.text("sorting")?.as_deref() == Some("desc");
    let list = FillList::new(book(call)?, FillFilter::of_order(id), ["]", "]"]).descending(is_descending);
    call.out.push(b'[');
    call.answer_with(LongWork::Fills(list))
}
