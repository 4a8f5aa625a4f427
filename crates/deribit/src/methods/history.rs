//! Queries about a member's own orders and fills.

use crate::ExplainStatus;
use crate::codec::{Json, RpcError, objects};
use pitwire_projections::{AccountBook, OrderRecord, UserTrade};

use super::filters;
use super::trading;
use crate::access::{AccessLevel, Area};
use crate::account_objects::order_moment;
use crate::call::{Call, MethodResult};
use crate::long_answer::{LongWork, OrderList, OrderListFilter};
use crate::order_filter::InstrumentFilter;

/// The criterion of a query. A label may be combined with a currency.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OrderFilter {
    Instrument,
    Currency,
    Label,
}

/// Orders of a list that get their queue position. Each costs one step per order ahead of it.
const MOST_PLACED: usize = 200;

/// Most records that one query visits: as many as an account keeps of either kind. It bounds the
/// work of one call.
const MOST_LOOKED_AT: usize = 50_000;

fn cover_by(call: &Call<'_>, by: OrderFilter) -> Result<InstrumentFilter, RpcError> {
    match by {
        OrderFilter::Instrument => InstrumentFilter::instrument(call),
        OrderFilter::Currency | OrderFilter::Label => InstrumentFilter::currency(call),
    }
}

fn book<'a>(call: &'a Call<'_>) -> Result<Option<&'a AccountBook>, RpcError> {
    Ok(call.venue.views().account(call.account()?))
}

fn write_orders(call: &Call<'_>, orders: &[&OrderRecord]) -> Vec<u8> {
    let mut out = Vec::new();
    let engine = call.venue.engine();
    Json::new(&mut out).array(|j| {
        for (at, order) in orders.iter().enumerate() {
            if let Some(market) = engine.market(order.instrument) {
                let moment = if at < MOST_PLACED { order_moment(engine, order) } else { Default::default() };
                objects::order(j, &market.spec, order, moment);
            }
        }
    });
    out
}

fn write_fills(call: &Call<'_>, j: &mut Json<'_>, fills: &[&UserTrade]) {
    let engine = call.venue.engine();
    j.array(|j| {
        for fill in fills {
            if let Some(market) = engine.market(fill.instrument) {
                objects::user_trade(j, &market.spec, fill, engine.currencies());
            }
        }
    });
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
    let (label, cover) = (call.required_label()?, cover_by(call, OrderFilter::Label)?);
    let Some(book) = book(call)? else { return empty(call) };
    // Open orders first, then the closed ones from the newest.
    let all = book.shared_open_orders().chain(book.shared_closed_orders().rev()).take(MOST_LOOKED_AT);
    let filter = OrderListFilter { instruments: cover, types: None, label: Some(label) };
    list_orders(call, OrderList::new(all, filter));
    Ok(())
}

/// Writes the list, or begins to write it if it is long.
fn list_orders(call: &mut Call<'_>, mut list: OrderList) {
    let Call { venue, out, rest, .. } = call;
    if !list.begin(venue.engine(), MOST_PLACED, out) {
        *rest = Some(LongWork::List(list));
    }
}

fn empty(call: &mut Call<'_>) -> MethodResult {
    call.json().array(|_| {});
    Ok(())
}

/// Lists open orders.
///
/// # Errors
/// A refusal without a login, or if a parameter of the filter is missing or wrong.
pub fn open_orders(call: &mut Call<'_>, by: OrderFilter) -> MethodResult {
    let cover = cover_by(call, by)?;
    let label = if by == OrderFilter::Label { Some(call.required_label()?) } else { None };
    let types = filters::types(call)?;
    let Some(book) = book(call)? else { return empty(call) };
    let filter = OrderListFilter { instruments: cover, types: Some(types), label };
    let list = OrderList::new(book.shared_open_orders(), filter);
    list_orders(call, list);
    Ok(())
}

/// Lists closed orders, newest first. Orders cancelled without a fill are left out unless
/// `include_unfilled`.
///
/// # Errors
/// A refusal without a login, or if a parameter is missing or wrong.
pub fn order_history(call: &mut Call<'_>, by: OrderFilter) -> MethodResult {
    let cover = cover_by(call, by)?;
    let count = call.count(20)?;
    let offset = usize::try_from(call.params.integer("offset")?.unwrap_or(0).max(0)).unwrap_or(0);
    let unfilled = call.params.boolean("include_unfilled")?.unwrap_or(false);
    let Some(book) = book(call)? else { return empty(call) };
    let engine = call.venue.engine();
    let wanted = |order: &&OrderRecord| cover.covers(engine, order.instrument) && (unfilled || !order.filled.is_zero());
    let newest = book.closed_orders().rev().take(MOST_LOOKED_AT);
    let found: Vec<_> = newest.filter(wanted).skip(offset).take(count).collect();
    call.out = write_orders(call, &found);
    Ok(())
}

/// Lists the account's trades of the filter, in the order of `sorting`.
///
/// # Errors
/// A refusal without a login, or if a parameter is missing or wrong.
pub fn user_trades(call: &mut Call<'_>, by: OrderFilter) -> MethodResult {
    let cover = cover_by(call, by)?;
    let count = call.count(10)?;
    let (from_ms, to_ms) = call.time_range()?;
    let ascending = call.is_ascending()?;
    let seq = |name| Ok::<_, RpcError>(call.params.integer(name)?.and_then(|value| u64::try_from(value).ok()));
    let (start_seq, end_seq) = (seq("start_seq")?.unwrap_or(0), seq("end_seq")?.unwrap_or(u64::MAX));
    let fills = book(call)?.map(|book| book.trades());
    let engine = call.venue.engine();
    let wanted = |fill: &&UserTrade| {
        cover.covers(engine, fill.instrument)
            && (from_ms..=to_ms).contains(&fill.trade.at.as_millis())
            && (start_seq..=end_seq).contains(&fill.trade.seq.0)
    };
    let mut found: Vec<&UserTrade> = match fills {
        None => Vec::new(),
        Some(fills) if ascending => fills.iter().take(MOST_LOOKED_AT).filter(wanted).take(count + 1).collect(),
        Some(fills) => fills.iter().rev().take(MOST_LOOKED_AT).filter(wanted).take(count + 1).collect(),
    };
    let has_more = found.len() > count;
    found.truncate(count);
    let mut out = Vec::new();
    Json::new(&mut out).object(|j| {
        j.key("trades");
        write_fills(call, j, &found);
        j.key("has_more").bool(has_more);
    });
    call.out = out;
    Ok(())
}

/// Answers with a bare array, oldest first by default. The dialect's other fill lists are objects.
///
/// # Errors
/// A refusal without a login, or if the id or `sorting` is malformed.
pub fn user_trades_by_order(call: &mut Call<'_>) -> MethodResult {
    let id = trading::order_id(call)?;
    call.is_ascending()?;
    let descending = call.params.text("sorting")?.as_deref() == Some("desc");
    let Some(book) = book(call)? else { return empty(call) };
    let mut found: Vec<&UserTrade> = book.trades().iter().filter(|fill| fill.order == id).collect();
    if descending {
        found.reverse();
    }
    let mut out = Vec::new();
    write_fills(call, &mut Json::new(&mut out), &found);
    call.out = out;
    Ok(())
}
