//! Requests with typed parameters: those of binary order entry.
//!
//! Does        enters, amends and cancels as the methods of the dialect do, without JSON.
//! Holds       a request passes the login, scope, rate limit and order checks of its method.
//! Leaves out  the fields of an answer: the caller reads the order from the views.
//! Start at    [`crate::Dispatcher::execute`].

use pitwire_engine::OrderView;
use pitwire_model::{
    AccountId, Amend, CancelFilter, Decimal, Expiry, InstrumentId, InstrumentSpec, Label, Lots, NewOrder, OrderId,
    OrderType, PostOnly, Priority, Side, Ticks, TimeInForce,
};
use pitwire_projections::{OrderRecord, Place};

use super::{cancel, cancel_on_disconnect, check_access, order_parameters, trading};
use crate::call::Call;
use crate::codec::{RpcError, rules};
use crate::long_answer::{LongAnswer, count};
use crate::session::Session;
use crate::state::SharedState;

/// A request.
#[derive(Clone, Debug)]
pub enum TypedRequest<'a> {
    Enter(OrderRequest<'a>),
    Amend(AmendRequest),
    Cancel(OrderId),
    /// Cancels the open orders of the account, or those in one instrument.
    CancelAll(Option<InstrumentId>),
    /// Asks for public data, which the caller reads itself.
    Query,
}

/// A new order before its numbers become ticks and lots.
#[derive(Clone, Debug)]
pub struct OrderRequest<'a> {
    pub instrument: InstrumentId,
    pub side: Side,
    pub order_type: RequestedType,
    /// `None` leaves the choice to the venue.
    pub tif: Option<RequestedTif>,
    pub expiry: Option<Expiry>,
    pub is_hidden: bool,
    /// The order is refused if it would trade at once.
    pub is_post_only: bool,
    pub quantity: Option<Decimal>,
    pub price: Option<Decimal>,
    pub trigger_price: Option<Decimal>,
    pub display: Option<Decimal>,
    pub minimum_execution: Option<Decimal>,
    pub client_order_id: &'a str,
}

/// Type of an order without its prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedType {
    Market,
    Limit,
    Stop,
    StopLimit,
}

/// Time in force without its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedTif {
    Whole(TimeInForce),
    GoodTillDate,
    GoodTillTime,
}

/// The new values of an order. An absent one stays unchanged.
#[derive(Clone, Copy, Debug)]
pub struct AmendRequest {
    pub order: OrderId,
    pub quantity: Option<Decimal>,
    pub price: Option<Decimal>,
    pub trigger_price: Option<Decimal>,
    pub display: Option<Decimal>,
    pub minimum_execution: Option<Decimal>,
}

/// The answer to a request that was not refused.
#[derive(Debug)]
pub enum TypedAnswer {
    /// The order that was entered, amended or cancelled. For a repeated client order id it is the
    /// first order.
    Order(OrderId),
    /// Number of cancelled orders.
    Cancelled(usize),
    /// A query is allowed.
    Allowed,
    /// The work takes several turns. The session may act on nothing before it is finished.
    Later(Box<LongAnswer>),
}

/// The consequences of a request.
#[derive(Debug)]
pub struct TypedOutcome {
    pub answer: Result<TypedAnswer, RpcError>,
    /// The connection was refused so often that it must be closed.
    pub closes: bool,
    /// Writing the journal failed: nothing of this may be sent, and the venue must stop.
    pub log_failed: bool,
}

impl TypedRequest<'_> {
    /// Returns the method of the dialect whose checks and limits apply.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            TypedRequest::Enter(_) => "private/buy",
            TypedRequest::Amend(_) => "private/edit",
            TypedRequest::Cancel(_) => "private/cancel",
            TypedRequest::CancelAll(_) => "private/cancel_all",
            TypedRequest::Query => "public/get_order_book",
        }
    }
}

/// Prepares a session for its first order.
pub(crate) fn begin_session(state: &SharedState, session: &mut Session, account: AccountId) {
    cancel_on_disconnect::settled(state, session, account);
}

/// Runs a request.
///
/// # Errors
/// The refusals of the request's method.
pub(crate) fn run(call: &mut Call<'_>, request: &TypedRequest<'_>) -> Result<TypedAnswer, RpcError> {
    check_access(request.method(), call)?;
    match request {
        TypedRequest::Enter(order) => enter(call, order).map(TypedAnswer::Order),
        TypedRequest::Amend(change) => {
            trading::amend_order(call, change.order, |call, live, record| amend(call, change, live, record))?;
            Ok(TypedAnswer::Order(change.order))
        }
        TypedRequest::Cancel(order) => {
            let account = call.account()?;
            cancel::cancel_order(call, account, *order)?;
            Ok(TypedAnswer::Order(*order))
        }
        TypedRequest::CancelAll(instrument) => {
            let account = call.account()?;
            let filter = instrument.map_or(CancelFilter::All, CancelFilter::Instrument);
            let cancelled = cancel::cancel_covered(call, account, vec![filter], false)?;
            Ok(TypedAnswer::Cancelled(cancelled.as_ref().map_or(0, count)))
        }
        TypedRequest::Query => Ok(TypedAnswer::Allowed),
    }
}

fn enter(call: &mut Call<'_>, request: &OrderRequest<'_>) -> Result<OrderId, RpcError> {
    let account = call.account()?;
    if let Some(first) = trading::entered_before(call, account, request.client_order_id) {
        return Ok(first);
    }
    let order = request.order(account, call.spec(request.instrument)?)?;
    if let Some(stop) = order.order_type.stop_price() {
        order_parameters::check_trigger_ahead(call, request.instrument, request.side, stop)?;
    }
    trading::submit_order(call, order)
}

fn price(value: Option<Decimal>, spec: &InstrumentSpec) -> Result<Option<Ticks>, RpcError> {
    value.map(|value| order_parameters::whole_ticks(value, spec, "price", "price_wrong_tick")).transpose()
}

fn stop(value: Option<Decimal>, spec: &InstrumentSpec) -> Result<Option<Ticks>, RpcError> {
    let ticks = |value| order_parameters::whole_ticks(value, spec, "trigger_price", "trigger_price_wrong_tick");
    value.map(ticks).transpose()
}

fn display(value: Option<Decimal>, spec: &InstrumentSpec) -> Result<Option<Lots>, RpcError> {
    value.map(|value| order_parameters::displayed_lots(value, spec, "display_amount")).transpose()
}

fn minimum(value: Option<Decimal>, spec: &InstrumentSpec) -> Result<Option<Lots>, RpcError> {
    value.map(|value| order_parameters::minimum_lots(value, spec, "min_execution")).transpose()
}

impl OrderRequest<'_> {
    /// Returns the order, checked in the sequence of [`order_parameters::of_entry`].
    fn order(&self, account: AccountId, spec: &InstrumentSpec) -> Result<NewOrder, RpcError> {
        let quantity = self.quantity.ok_or_else(order_parameters::no_amount)?;
        let lots = order_parameters::steps(quantity, spec.lot, "amount")?;
        let order_type = self.order_type(spec, lots)?;
        let tif = self.time_in_force()?;
        let client_order_id = Label::new(self.client_order_id).unwrap_or_default();
        Ok(NewOrder {
            account,
            instrument: self.instrument,
            side: self.side,
            order_type,
            lots,
            tif,
            display: display(self.display, spec)?.filter(|display| *display != lots),
            post_only: if self.is_post_only { PostOnly::Reject } else { PostOnly::No },
            client_order_id,
            ..NewOrder::PLAIN
        })
    }

    fn order_type(&self, spec: &InstrumentSpec, lots: Lots) -> Result<OrderType, RpcError> {
        let limit = || price(self.price, spec)?.ok_or_else(order_parameters::no_price);
        let trigger = || stop(self.trigger_price, spec)?.ok_or_else(order_parameters::no_stop);
        let order_type = match self.order_type {
            RequestedType::Limit if self.is_hidden => {
                let minimum_execution = minimum(self.minimum_execution, spec)?.unwrap_or(lots);
                OrderType::Hidden { price: limit()?, minimum_execution }
            }
            RequestedType::Limit => OrderType::Limit { price: limit()? },
            RequestedType::Market => OrderType::Market,
            RequestedType::Stop => OrderType::Stop { stop: trigger()? },
            RequestedType::StopLimit => OrderType::StopLimit { stop: trigger()?, price: limit()? },
        };
        let is_hidden = matches!(order_type, OrderType::Hidden { .. });
        if self.is_hidden && !is_hidden {
            return Err(order_parameters::stray("hidden", "limit orders"));
        }
        if self.minimum_execution.is_some() && !is_hidden {
            return Err(order_parameters::stray("min_execution", "hidden orders"));
        }
        if self.trigger_price.is_some() && order_type.stop_price().is_none() {
            return Err(order_parameters::stray("trigger_price", "type stop_market or stop_limit"));
        }
        Ok(order_type)
    }

    fn time_in_force(&self) -> Result<TimeInForce, RpcError> {
        let without_expiry = match self.tif {
            Some(RequestedTif::GoodTillDate) => {
                return match self.expiry {
                    Some(Expiry::Day(day)) => Ok(TimeInForce::GoodTillDate { day }),
                    _ => Err(RpcError::invalid("expires_at", "gtd needs a date")),
                };
            }
            Some(RequestedTif::GoodTillTime) => {
                return match self.expiry {
                    Some(Expiry::Time(at)) => Ok(TimeInForce::GoodTillTime { at }),
                    _ => Err(RpcError::invalid("expires_at", "gtt needs milliseconds of venue time")),
                };
            }
            Some(RequestedTif::Whole(tif)) => tif,
            None if self.order_type == RequestedType::Market => TimeInForce::Day,
            None => TimeInForce::GoodTillCancel,
        };
        if self.expiry.is_some() {
            return Err(order_parameters::stray("expires_at", "gtd or gtt"));
        }
        Ok(without_expiry)
    }
}

/// Returns the amendment, checked in the sequence of [`order_parameters::of_edit`].
fn amend(
    call: &Call<'_>,
    change: &AmendRequest,
    live: &OrderView,
    record: Option<&OrderRecord>,
) -> Result<Amend, RpcError> {
    let market = call.market(live.instrument)?;
    // If the session accepts no amendments, the engine says so first.
    if let Some(record) = record
        && rules::session(market.phase()).is_none_or(|row| row.amend)
    {
        if change.trigger_price.is_some() && record.place != Place::Unelected {
            return Err(order_parameters::not_amendable("trigger_price"));
        }
        if change.minimum_execution.is_some() && record.minimum_execution().is_none() {
            return Err(order_parameters::not_amendable("min_execution"));
        }
    }
    let spec = &market.spec;
    let lots = change.quantity.map(|quantity| order_parameters::steps(quantity, spec.lot, "amount")).transpose()?;
    Ok(Amend {
        account: live.account,
        order: live.id,
        price: price(change.price, spec)?.unwrap_or(live.price),
        lots: lots.unwrap_or(live.ordered),
        priority: Priority::KeepWhenReduced,
        display: display(change.display, spec)?,
        post_only: record.map_or(PostOnly::No, |record| record.post_only),
        stop: stop(change.trigger_price, spec)?,
        minimum_execution: minimum(change.minimum_execution, spec)?,
        expiry: None,
    })
}
