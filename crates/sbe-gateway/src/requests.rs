//! Requests of a client as typed requests of the dispatcher, and refusals as rejects.

use std::fmt::Display;

use pitwire_deribit::codec::RpcError;
use pitwire_deribit::{AmendRequest, OrderRequest, RequestedTif, RequestedType, TypedRequest};
use pitwire_engine::{Engine, Market};
use pitwire_model::{Decimal, Expiry, InstrumentId, OrderId, Side, TimeInForce, VenueNanos, parse_date};

use crate::codec::FixedDecimal;
use crate::messages::*;

/// Why a request is refused, in the words of a [`Reject`].
#[derive(Debug)]
pub(crate) struct Rejection {
    pub code: i32,
    pub name: String,
    pub reason: String,
    pub remedy: String,
}

impl Rejection {
    /// Code of an unknown instrument.
    pub const NOT_FOUND: i32 = 13020;

    /// A message that cannot be decoded or that a client must not send.
    pub fn invalid(reason: impl Into<String>, remedy: &str) -> Self {
        Rejection { code: -32602, name: "invalid_params".into(), reason: reason.into(), remedy: remedy.into() }
    }

    pub fn unknown_instrument(id: impl Display) -> Self {
        Rejection {
            code: Self::NOT_FOUND,
            name: "not_found".into(),
            reason: format!("no instrument has the number {id}"),
            remedy: "Take instrument_id from public/get_instruments.".into(),
        }
    }

    pub fn reject(self, request_id: u64, template_id: u16) -> SbeMessage {
        let Rejection { code, name, reason, remedy } = self;
        Reject { sequence: 0, request_id, template_id, code, name, reason, remedy }.into()
    }
}

impl From<RpcError> for Rejection {
    fn from(error: RpcError) -> Self {
        const INTERNAL_ERROR: i32 = 11094;
        let (code, name, remedy) = match error.entry() {
            Some(entry) => (entry.code, entry.wire.clone(), entry.remedy.clone()),
            None => (INTERNAL_ERROR, "internal_server_error".into(), String::new()),
        };
        Rejection { code, name, reason: error.reason, remedy }
    }
}

/// Returns the market of an instrument by its number in messages.
///
/// # Errors
///
/// `not_found` if no instrument has the number.
pub(crate) fn market_of(engine: &Engine, instrument_id: u32) -> Result<&Market, Rejection> {
    let market = instrument_id.checked_sub(1).and_then(|id| engine.market(InstrumentId(id)));
    market.ok_or_else(|| Rejection::unknown_instrument(instrument_id))
}

/// Returns the number of an instrument in messages.
pub(crate) const fn number_of(instrument: InstrumentId) -> u32 {
    instrument.0.saturating_add(1)
}

/// Returns the engine's id of an instrument. The caller has checked that it exists.
const fn id_of(instrument_id: u32) -> InstrumentId {
    InstrumentId(instrument_id.saturating_sub(1))
}

fn decimal(value: Option<FixedDecimal>) -> Option<Decimal> {
    value.map(FixedDecimal::decimal)
}

impl EntryTimeInForce {
    const fn requested(self) -> Option<RequestedTif> {
        let whole = match self {
            EntryTimeInForce::Default => return None,
            EntryTimeInForce::Gtd => return Some(RequestedTif::GoodTillDate),
            EntryTimeInForce::Gtt => return Some(RequestedTif::GoodTillTime),
            EntryTimeInForce::Day => TimeInForce::Day,
            EntryTimeInForce::Gtc => TimeInForce::GoodTillCancel,
            EntryTimeInForce::Ioc => TimeInForce::ImmediateOrCancel,
            EntryTimeInForce::Fok => TimeInForce::FillOrKill,
            EntryTimeInForce::Opg => TimeInForce::OpeningCall,
            EntryTimeInForce::Gfa => TimeInForce::AnyCall,
            EntryTimeInForce::Gfx => TimeInForce::IntradayCall,
            EntryTimeInForce::Atc => TimeInForce::ClosingCall,
            EntryTimeInForce::Cpx => TimeInForce::ClosingCross,
        };
        Some(RequestedTif::Whole(whole))
    }
}

fn expiry(order: &NewOrder) -> Result<Option<Expiry>, Rejection> {
    let expires = order.expires;
    if expires == 0 {
        return Ok(None);
    }
    let (expiry, expected) = if order.time_in_force == EntryTimeInForce::Gtd {
        let text = format!("{:04}-{:02}-{:02}", expires / 10_000, expires / 100 % 100, expires % 100);
        (parse_date(&text).map(Expiry::Day), "a date as 20260131")
    } else {
        let time = expires.checked_mul(1_000_000).map(VenueNanos);
        (time.map(Expiry::Time), "milliseconds since 1970")
    };
    let wrong = || Rejection::invalid(format!("expires {expires}: expected {expected}"), "Send a valid expiry.");
    expiry.map(Some).ok_or_else(wrong)
}

fn new_order(order: &NewOrder) -> Result<OrderRequest<'_>, Rejection> {
    Ok(OrderRequest {
        instrument: id_of(order.instrument_id),
        side: match order.side {
            OrderSide::Buy => Side::Buy,
            OrderSide::Sell => Side::Sell,
        },
        order_type: match order.order_type {
            EntryType::Market => RequestedType::Market,
            EntryType::Limit => RequestedType::Limit,
            EntryType::StopMarket => RequestedType::Stop,
            EntryType::StopLimit => RequestedType::StopLimit,
        },
        tif: order.time_in_force.requested(),
        expiry: expiry(order)?,
        is_hidden: order.hidden == Flag::Yes,
        is_post_only: order.post_only == Flag::Yes,
        quantity: decimal(order.quantity),
        price: decimal(order.price),
        trigger_price: decimal(order.trigger_price),
        display: decimal(order.display_quantity),
        minimum_execution: decimal(order.minimum_quantity),
        client_order_id: order.client_order_id.as_str(),
    })
}

/// Translates a request whose instrument exists. Returns `None` for any other message.
///
/// # Errors
///
/// Fails if a field has no meaning.
pub(crate) fn typed_request(request: &SbeMessage) -> Result<Option<TypedRequest<'_>>, Rejection> {
    Ok(Some(match request {
        SbeMessage::NewOrder(order) => TypedRequest::Enter(new_order(order)?),
        SbeMessage::AmendOrder(order) => TypedRequest::Amend(AmendRequest {
            order: OrderId(order.order_id),
            quantity: decimal(order.quantity),
            price: decimal(order.price),
            trigger_price: decimal(order.trigger_price),
            display: decimal(order.display_quantity),
            minimum_execution: decimal(order.minimum_quantity),
        }),
        SbeMessage::CancelOrder(order) => TypedRequest::Cancel(OrderId(order.order_id)),
        SbeMessage::MassCancel(cancel) => TypedRequest::CancelAll(match cancel.scope {
            MassCancelScope::All => None,
            MassCancelScope::Instrument => Some(id_of(cancel.instrument_id)),
        }),
        SbeMessage::MarketQuery(_) => TypedRequest::Query,
        _ => return Ok(None),
    }))
}
