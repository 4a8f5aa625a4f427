//! What a request covers: which instruments by name, kind and currency, and which types of order.
//!
//! Holds       1. of one's own orders and fills, an instrument belongs to the one currency it settles in, for clients
//!                ask currency by currency and add up (a spot instrument settles in its quote);
//!             2. of public lists and channels, it is found by its base and by its quote;
//!             3. a word outside the dialect's list is refused, for guessing at it would cover more, or less, than
//!                was asked.

use crate::codec::{RpcError, objects};
use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, OrderType};
use pitwire_projections::{OrderRecord, Place};

use crate::call::Call;

const KINDS: &[&str] = &["any", "spot", "future", "option", "future_combo", "option_combo", "combo"];

/// Types of orders that wait for a trigger. This version takes stops alone, so there are no others to cover.
const TRIGGERS: &[&str] = &[
    "trigger_all",
    "stop",
    "stop_all",
    "stop_limit",
    "stop_market",
    "take",
    "take_all",
    "take_limit",
    "take_market",
    "trailing_all",
    "trailing_stop",
];

pub fn is_kind(word: &str) -> bool {
    KINDS.contains(&word)
}

/// `kind`; nothing when it is not given or is `any`.
pub fn kind(call: &Call<'_>) -> Result<Option<String>, RpcError> {
    match call.params.text("kind")?.as_deref() {
        None | Some("" | "any") => Ok(None),
        Some(word) if is_kind(word) => Ok(Some(word.into())),
        Some(_) => Err(RpcError::invalid("kind", format!("kind is one of {}", KINDS.join(", ")))),
    }
}

/// Which sorts of orders `type` covers: those that wait for a trigger, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTypeFilter {
    pub plain: bool,
    pub stop_limit: bool,
    pub stop_market: bool,
}

impl OrderTypeFilter {
    const ALL: OrderTypeFilter = OrderTypeFilter { plain: true, stop_limit: true, stop_market: true };
    const NONE: OrderTypeFilter = OrderTypeFilter { plain: false, stop_limit: false, stop_market: false };

    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// A stop that has been elected waits for nothing any more.
    pub fn covers(self, order: &OrderRecord) -> bool {
        match order.order_type {
            OrderType::Stop { .. } if order.place == Place::Unelected => self.stop_market,
            OrderType::StopLimit { .. } if order.place == Place::Unelected => self.stop_limit,
            _ => self.plain,
        }
    }
}

/// By `type`; all when it is not given.
pub fn types(call: &Call<'_>) -> Result<OrderTypeFilter, RpcError> {
    match call.params.text("type")?.as_deref() {
        None | Some("" | "all") => Ok(OrderTypeFilter::ALL),
        Some("limit") => Ok(OrderTypeFilter { plain: true, ..OrderTypeFilter::NONE }),
        Some("trigger_all" | "stop" | "stop_all") => Ok(OrderTypeFilter { plain: false, ..OrderTypeFilter::ALL }),
        Some("stop_limit") => Ok(OrderTypeFilter { stop_limit: true, ..OrderTypeFilter::NONE }),
        Some("stop_market") => Ok(OrderTypeFilter { stop_market: true, ..OrderTypeFilter::NONE }),
        Some(word) if TRIGGERS.contains(&word) => Ok(OrderTypeFilter::NONE),
        Some(_) => Err(RpcError::invalid("type", format!("type is all, limit, or one of {}", TRIGGERS.join(", ")))),
    }
}

/// Of one's own orders and fills.
#[derive(Default)]
pub struct InstrumentFilter {
    instrument: Option<InstrumentId>,
    /// Empty for any.
    currencies: Vec<String>,
    kind: Option<String>,
}

impl InstrumentFilter {
    pub fn instrument(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        Ok(InstrumentFilter { instrument: Some(call.instrument_id()?), ..InstrumentFilter::default() })
    }

    /// By `currency`, which may be several, and `kind`: any where they are not given.
    pub fn currency(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        Ok(InstrumentFilter { instrument: None, currencies: currencies(call)?.unwrap_or_default(), kind: kind(call)? })
    }

    /// The same where guessing would be dangerous.
    pub fn named_currency(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        let named = currencies(call)?.ok_or_else(|| RpcError::invalid("currency", "currency is required"))?;
        Ok(InstrumentFilter { instrument: None, currencies: named, kind: kind(call)? })
    }

    pub fn covers(&self, engine: &Engine, id: InstrumentId) -> bool {
        if let Some(instrument) = self.instrument {
            return instrument == id;
        }
        engine.market(id).is_some_and(|market| {
            let settled = objects::settlement_name(&market.spec, engine.currencies());
            (self.currencies.is_empty() || self.currencies.iter().any(|name| name.eq_ignore_ascii_case(settled)))
                && self.kind.as_deref().is_none_or(|kind| kind == objects::instrument_kind(&market.spec))
        })
    }
}

/// `None` when not given, empty for any.
fn currencies(call: &Call<'_>) -> Result<Option<Vec<String>>, RpcError> {
    let Some(names) = call.params.list("currency")? else { return Ok(None) };
    match names.as_slice() {
        // `currency=` of a query that somebody's client always sends.
        [name] if name.is_empty() => Ok(None),
        [] => Err(RpcError::invalid("currency", "an empty list names no currency; send any for all")),
        names if names.iter().any(|name| name.eq_ignore_ascii_case("any")) => Ok(Some(Vec::new())),
        _ => Ok(Some(names)),
    }
}
