//! Filters of a request: instruments by name, kind and currency, and types of order.
//!
//! Holds       1. for a member's own orders and fills, an instrument belongs to its settlement
//!                currency only, because clients ask currency by currency and add up (a spot
//!                instrument settles in its quote currency);
//!             2. for public lists and channels, it is found by its base and by its quote currency;
//!             3. a word that the dialect does not have is refused, because a guess could cover
//!                more or less than intended.

use crate::call::Call;
use crate::codec::{RpcError, objects};
use crate::order_filter::{InstrumentFilter, OrderTypeFilter};

const KINDS: &[&str] = &["any", "spot", "future", "option", "future_combo", "option_combo", "combo"];

/// Types of triggered orders in the dialect. This version has only stops, so the others match
/// nothing.
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

/// Reads `kind`; `None` if it is absent or `any`.
///
/// # Errors
/// A refusal if it is a kind that the dialect does not have.
pub fn kind(call: &Call<'_>) -> Result<Option<String>, RpcError> {
    match call.params.text("kind")?.as_deref() {
        None | Some("" | "any") => Ok(None),
        Some(word) if is_kind(word) => Ok(Some(word.into())),
        Some(_) => Err(RpcError::invalid("kind", format!("kind is one of {}", KINDS.join(", ")))),
    }
}

/// Reads `type`; all orders if it is absent.
///
/// # Errors
/// A refusal if it is a type that the dialect does not have.
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

impl InstrumentFilter {
    /// Reads `instrument_name` as a filter.
    ///
    /// # Errors
    /// A refusal if it is missing or unknown.
    pub fn instrument(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        Ok(InstrumentFilter { instrument: Some(call.instrument_id()?), ..InstrumentFilter::default() })
    }

    /// Reads `currency`, which may be a list, and `kind`. Absent means any.
    ///
    /// # Errors
    /// A refusal if a currency or the kind is unknown.
    pub fn currency(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        let currencies = currencies(call)?.unwrap_or_default();
        Ok(InstrumentFilter { currencies, kind: kind(call)?, ..InstrumentFilter::default() })
    }

    /// Reads `currency` and `kind` where `currency` is required, because a default would cancel too
    /// much.
    ///
    /// # Errors
    /// A refusal if `currency` is missing, or if a currency or the kind is unknown.
    pub fn named_currency(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        let named = currencies(call)?.ok_or_else(|| RpcError::invalid("currency", "currency is required"))?;
        Ok(InstrumentFilter { currencies: named, kind: kind(call)?, ..InstrumentFilter::default() })
    }

    /// Reads `currency_pair`, such as `btc_usdc`, and `kind`. A pair without an instrument is
    /// refused, because the caller would take its orders for cancelled.
    ///
    /// # Errors
    /// A refusal if the pair is missing or unknown, or if the kind is unknown.
    pub fn named_pair(call: &Call<'_>) -> Result<InstrumentFilter, RpcError> {
        let pair = call.params.required("currency_pair")?.to_lowercase();
        let engine = call.venue.engine();
        let is_known = engine.markets().iter().any(|m| objects::index_name(&m.spec, engine.currencies()) == pair);
        if !is_known {
            return Err(RpcError::invalid("currency_pair", "public/get_index_price_names lists the pairs"));
        }
        Ok(InstrumentFilter { pair: Some(pair), kind: kind(call)?, ..InstrumentFilter::default() })
    }
}

/// Reads `currency`: `None` if absent, an empty list for any.
fn currencies(call: &Call<'_>) -> Result<Option<Vec<String>>, RpcError> {
    let Some(names) = call.params.list("currency")? else { return Ok(None) };
    match names.as_slice() {
        // Some clients always send an empty `currency=` in the query.
        [name] if name.is_empty() => Ok(None),
        [] => Err(RpcError::invalid("currency", "an empty list names no currency; send any for all")),
        names if names.iter().any(|name| name.eq_ignore_ascii_case("any")) => Ok(Some(Vec::new())),
        _ => Ok(Some(names)),
    }
}
