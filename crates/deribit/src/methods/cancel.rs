//! Cancels: of one order, or of all orders that a request covers.
//!
//! Holds       a mass cancel removes the requested orders and no others. An ambiguous word is
//!             refused. A cancel of many orders takes effect in parts, oldest orders first.

use std::collections::BTreeMap;

use crate::codec::objects::OrderMoment;
use crate::codec::{Json, RpcError, objects};
use pitwire_model::{AccountId, CancelFilter, CancelReason, Command, Event, InstrumentId, OrderId, SessionId};
use pitwire_projections::OrderRecord;

use super::filters;
use super::trading::{no_history, not_live, order_id};
use crate::call::{Call, MethodResult};
use crate::long_answer::{
    CancelList, CancelledOrders, LongWork, RECORDS_AT_ONCE, collect_cancelled, write_count, write_details,
};
use crate::order_filter::{InstrumentFilter, OrderTypeFilter};

/// Cancels one order and answers with it.
///
/// # Errors
/// A refusal without a login, if the id is malformed, if the account has no such open order, or if
/// the command cannot be submitted.
pub fn cancel(call: &mut Call<'_>) -> MethodResult {
    let (account, id) = (call.account()?, order_id(call)?);
    cancel_order(call, account, id)?;
    let Call { venue, out, .. } = call;
    let record = venue.views().account(account).and_then(|book| book.order(id)).ok_or_else(no_history)?;
    let market = venue.engine().market(record.instrument).ok_or_else(no_history)?;
    objects::order(&mut Json::new(out), &market.spec, record, OrderMoment::default());
    Ok(())
}

/// Cancels one order.
///
/// # Errors
/// A refusal if the account has no such open order, or if the command cannot be submitted.
pub(super) fn cancel_order(call: &mut Call<'_>, account: AccountId, id: OrderId) -> MethodResult {
    call.submit(Command::Cancel { account, order: id })?;
    match call.venue.events().first() {
        Some(Event::CancelRefused { .. }) => Err(not_live(call, account, id, "already_closed")),
        _ => Ok(()),
    }
}

/// The criterion of a mass cancel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MassCancel {
    All,
    Instrument,
    Segment,
    Currency,
    CurrencyPair,
    KindOrType,
    Label,
}

/// Whose orders a mass cancel covers: all of the account (the firm), or those entered over this
/// connection (the client).
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderOwner {
    Firm,
    Client(SessionId),
}

fn whose(call: &Call<'_>) -> Result<OrderOwner, RpcError> {
    match call.params.text("pitwire_scope")?.as_deref() {
        None | Some("" | "firm") => Ok(OrderOwner::Firm),
        Some("client") if call.session.id == SessionId::ZERO => {
            Err(RpcError::param("must_be_websocket", "pitwire_scope", "only a connection has orders of its own"))
        }
        Some("client") => Ok(OrderOwner::Client(call.session.id)),
        Some(_) => Err(RpcError::invalid("pitwire_scope", "pitwire_scope is firm or client")),
    }
}

/// Answers with the number of cancelled orders or, with `detailed`, with the orders by instrument.
///
/// # Errors
/// A refusal without a login, if a parameter of the filter is missing or wrong, or if a command
/// cannot be submitted.
pub fn cancel_where(call: &mut Call<'_>, which: MassCancel) -> MethodResult {
    let account = call.account()?;
    let detailed = call.params.boolean("detailed")?.unwrap_or(false);
    let filters = filters(call, account, which)?;
    let Some(cancelled) = cancel_covered(call, account, filters, detailed)? else { return Ok(()) };
    let Call { venue, out, .. } = call;
    if detailed {
        write_details(venue.engine(), venue.views().account(account), cancelled, out);
    } else {
        write_count(&mut Json::new(out), &cancelled);
    }
    Ok(())
}

/// Cancels the open orders that filters cover. With too many of them for one turn, sets
/// [`Call::rest`] and returns `None`.
///
/// # Errors
/// A refusal if a command cannot be submitted.
pub(super) fn cancel_covered(
    call: &mut Call<'_>,
    account: AccountId,
    filters: Vec<CancelFilter>,
    detailed: bool,
) -> Result<Option<CancelledOrders>, RpcError> {
    let open = call.venue.engine().account(account).map_or(0, |holder| holder.open_orders() as usize);
    if open > RECORDS_AT_ONCE {
        let orders = covered(call, account, &filters);
        call.rest = Some(LongWork::Cancel(CancelList::new(orders, detailed)));
        return Ok(None);
    }
    let mut cancelled = CancelledOrders::new();
    for which in filters {
        call.submit(Command::CancelAll { account, which, reason: CancelReason::Requested })?;
        collect_cancelled(call.venue.events(), &mut cancelled);
    }
    Ok(Some(cancelled))
}

/// Returns the open orders that filters cover: filter by filter, each in order of entry.
fn covered(call: &Call<'_>, account: AccountId, filters: &[CancelFilter]) -> Vec<OrderId> {
    let covers = |filter: &CancelFilter, order: &OrderRecord| match filter {
        CancelFilter::Instrument(instrument) => order.instrument == *instrument,
        CancelFilter::Session(session) => order.session == *session,
        _ => true,
    };
    let lists = filters.iter().map(|filter| match filter {
        CancelFilter::Listed(orders) => Some(&**orders),
        _ => None,
    });
    if let Some(lists) = lists.collect::<Option<Vec<&[OrderId]>>>() {
        return lists.concat();
    }
    let open = call.venue.views().account(account).into_iter().flat_map(|book| book.open_orders());
    let place = |order: &OrderRecord| filters.iter().position(|filter| covers(filter, order));
    let mut found: Vec<(usize, OrderId)> = open.filter_map(|order| Some((place(order)?, order.id))).collect();
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, order)| order).collect()
}

/// Translates a request into filters of the engine, one command each: by instrument for a segment,
/// by order ids where the engine has no such filter.
fn filters(call: &Call<'_>, account: AccountId, which: MassCancel) -> Result<Vec<CancelFilter>, RpcError> {
    let (types, whose) = (filters::types(call)?, whose(call)?);
    let given = |name| Ok::<_, RpcError>(call.params.text(name)?.is_some_and(|text| !text.is_empty()));
    let (filter, label) = match which {
        MassCancel::All => (InstrumentFilter::default(), None),
        MassCancel::Instrument => (InstrumentFilter::instrument(call)?, None),
        MassCancel::Segment => return segment_filters(call, account, types, whose),
        MassCancel::Currency => (InstrumentFilter::named_currency(call)?, None),
        MassCancel::CurrencyPair => (InstrumentFilter::named_pair(call)?, None),
        MassCancel::KindOrType if !given("kind")? && !given("type")? => {
            return Err(RpcError::invalid("kind", "kind or type is required"));
        }
        MassCancel::KindOrType => (InstrumentFilter::currency(call)?, None),
        MassCancel::Label => (InstrumentFilter::currency(call)?, Some(call.required_label()?)),
    };
    let whole = match (which, whose) {
        _ if !types.is_all() => None,
        (MassCancel::All, OrderOwner::Firm) => Some(CancelFilter::All),
        (MassCancel::All, OrderOwner::Client(session)) => Some(CancelFilter::Session(session)),
        (MassCancel::Instrument, OrderOwner::Firm) => Some(CancelFilter::Instrument(call.instrument_id()?)),
        _ => None,
    };
    let wanted = |order: &OrderRecord| label.as_ref().is_none_or(|label| order.label == *label);
    Ok(vec![whole.unwrap_or_else(|| {
        listed(call, account, (types, whose), |order| {
            filter.covers(call.venue.engine(), order.instrument) && wanted(order)
        })
    })])
}

/// Returns one filter per instrument of the segment, in order of instrument numbers.
fn segment_filters(
    call: &Call<'_>,
    account: AccountId,
    types: OrderTypeFilter,
    whose: OrderOwner,
) -> Result<Vec<CancelFilter>, RpcError> {
    let instruments = call.segment()?.into_iter();
    if whose == OrderOwner::Firm && types.is_all() {
        return Ok(instruments.map(CancelFilter::Instrument).collect());
    }
    let mut orders: BTreeMap<InstrumentId, Vec<OrderId>> = instruments.map(|id| (id, Vec::new())).collect();
    for order in open_orders(call, account, (types, whose)) {
        if let Some(of_instrument) = orders.get_mut(&order.instrument) {
            of_instrument.push(order.id);
        }
    }
    Ok(orders.into_values().map(|orders| CancelFilter::Listed(orders.into())).collect())
}

/// Returns an account's open orders of some types and of one owner, in order of entry.
fn open_orders<'a>(
    call: &'a Call<'_>,
    account: AccountId,
    (types, whose): (OrderTypeFilter, OrderOwner),
) -> impl Iterator<Item = &'a OrderRecord> {
    let is_theirs = move |order: &&OrderRecord| match whose {
        OrderOwner::Firm => true,
        OrderOwner::Client(session) => order.session == session,
    };
    let open = call.venue.views().account(account).into_iter().flat_map(|book| book.open_orders());
    open.filter(is_theirs).filter(move |order| types.covers(order))
}

/// Returns a filter with the ids of an account's open orders, in order of entry.
fn listed(
    call: &Call<'_>,
    account: AccountId,
    (types, whose): (OrderTypeFilter, OrderOwner),
    wanted: impl Fn(&OrderRecord) -> bool,
) -> CancelFilter {
    let found = open_orders(call, account, (types, whose)).filter(|order| wanted(order));
    CancelFilter::Listed(found.map(|order| order.id).collect())
}
