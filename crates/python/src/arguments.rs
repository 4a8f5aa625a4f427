//! Conversion of Python arguments.

use std::path::PathBuf;

use pitwire_configuration::{Preset, PresetName};
use pitwire_engine::Engine;
use pitwire_flow_models::FlowSource;
use pitwire_model::{AccountId, InstrumentId, Lots, OrderType, PostOnly, Side, Ticks, TimeInForce, VenueNanos};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use crate::errors::{ErrorType, error, invalid};

/// Reads a whole number that is not negative.
///
/// # Errors
///
/// Raises `InvalidValue` for every other value, such as a fraction, NaN or infinity.
pub fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let wrong = || {
        let what = format!("{name} is {}: expected a whole number from 0 to {}", shown(value), i64::MAX);
        let remedy = "convert prices by Instrument.ticks and amounts by Instrument.lots";
        invalid(value.py(), what, remedy)
    };
    if value.is_instance_of::<PyFloat>() {
        return Err(wrong());
    }
    let number = value.extract::<i64>().map_err(|_| wrong())?;
    u64::try_from(number).map_err(|_| wrong())
}

/// Reads a price in ticks.
///
/// # Errors
///
/// As [`count`].
pub fn ticks(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Ticks> {
    // Counts are at most i64::MAX.
    Ok(Ticks(i64::try_from(count(name, value)?).unwrap_or(i64::MAX)))
}

/// Reads a text.
///
/// # Errors
///
/// Raises `InvalidValue` for every other type, and for a text that UTF-8 cannot encode.
pub fn text<'a>(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    let found = value.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
    found.ok_or_else(|| invalid(value.py(), format!("{name} is {}", shown(value)), "use a text"))
}

/// Reads `True` or `False`; also those of NumPy.
///
/// # Errors
///
/// Raises `InvalidValue` for every other value.
pub fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| invalid(value.py(), format!("{name} is {}", shown(value)), "use True or False"))
}

/// Reads a path: a text or an object such as `pathlib.Path`.
///
/// # Errors
///
/// Raises `InvalidValue` for every other type.
pub fn path(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    value.extract().map_err(|_| invalid(value.py(), format!("{name} is {}", shown(value)), "use a text or a path"))
}

/// Returns a value as Python prints it.
fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "a value".into(), |text| text.to_string_lossy().into_owned())
}

/// Finds an instrument by name or id.
///
/// # Errors
///
/// Raises `UnknownName`.
pub fn instrument(engine: &Engine, value: &Bound<'_, PyAny>) -> PyResult<InstrumentId> {
    let found = match value.cast::<PyString>() {
        Ok(name) => name.to_str().ok().and_then(|name| engine.instrument_named(name)),
        Err(_) => value.extract::<u32>().ok().and_then(|id| engine.market(InstrumentId(id))),
    };
    found.map(|market| market.spec.id).ok_or_else(|| unknown(value, "instrument", "instruments"))
}

/// Finds an account by name or id.
///
/// # Errors
///
/// Raises `UnknownName`.
pub fn account(engine: &Engine, value: &Bound<'_, PyAny>) -> PyResult<AccountId> {
    let found = match value.cast::<PyString>() {
        Ok(name) => name.to_str().ok().and_then(|name| engine.account_named(name)),
        Err(_) => value.extract::<u32>().ok().and_then(|id| engine.account(AccountId(id))),
    };
    found.map(|account| account.spec.id).ok_or_else(|| unknown(value, "account", "accounts"))
}

fn unknown(value: &Bound<'_, PyAny>, what: &str, list: &str) -> PyErr {
    let what = format!("there is no {what} {}", shown(value));
    error(value.py(), ErrorType::UnknownName, what, &format!("use a name or an id of Venue.{list}"))
}

/// Reads a side: "buy" or 1, "sell" or -1.
///
/// # Errors
///
/// Raises `InvalidValue`.
pub fn side(value: &Bound<'_, PyAny>) -> PyResult<Side> {
    let found = match value.cast::<PyString>() {
        Ok(name) => match name.to_str() {
            Ok("buy") => Some(Side::Buy),
            Ok("sell") => Some(Side::Sell),
            _ => None,
        },
        Err(_) if value.is_instance_of::<PyInt>() => value.extract::<i64>().ok().and_then(side_of_sign),
        Err(_) => value.extract::<i8>().ok().and_then(|sign| side_of_sign(i64::from(sign))),
    };
    found.ok_or_else(|| invalid(value.py(), format!("side is {}", shown(value)), "use \"buy\" or 1, or \"sell\" or -1"))
}

pub fn side_of_sign(sign: i64) -> Option<Side> {
    match sign {
        1 => Some(Side::Buy),
        -1 => Some(Side::Sell),
        _ => None,
    }
}

/// Returns a preset by name.
///
/// # Errors
///
/// Raises `InvalidValue` with the known names.
pub fn preset(value: &Bound<'_, PyAny>) -> PyResult<Preset> {
    let name = match text("preset", value)? {
        "demo" => PresetName::Demo,
        "jse" => PresetName::Jse,
        "crypto24x7" => PresetName::Crypto,
        other => {
            let what = format!("preset is {other:?}");
            return Err(invalid(value.py(), what, "use \"demo\", \"jse\" or \"crypto24x7\""));
        }
    };
    Ok(name.preset())
}

/// Returns a flow by name or from a file, or none for `None`.
///
/// # Errors
///
/// Raises `InvalidValue` if the name is unknown, or if the file cannot be read or is not a valid
/// flow.
pub fn flow(value: &Bound<'_, PyAny>) -> PyResult<Option<FlowSource>> {
    if value.is_none() {
        return Ok(None);
    }
    let name = path("flow", value)?;
    FlowSource::named(&name.to_string_lossy()).map(Some).map_err(|failure| {
        let (what, remedy) = failure.into_parts();
        invalid(value.py(), what, &remedy.unwrap_or_default())
    })
}

/// Reads a time in force. Without one, a market order is immediate and another order rests until
/// it is cancelled.
///
/// # Errors
///
/// Raises `InvalidValue` for an unknown word, or if `gtt` and `expires_ns` are not given together.
pub fn time_in_force(
    py: Python<'_>,
    word: Option<&str>,
    expires_ns: Option<u64>,
    is_market: bool,
) -> PyResult<TimeInForce> {
    Ok(match (word, expires_ns) {
        (Some("gtt"), Some(at)) => return Ok(TimeInForce::GoodTillTime { at: VenueNanos(at) }),
        (Some("gtt"), None) | (_, Some(_)) => {
            return Err(invalid(py, "only one of tif=\"gtt\" and expires_ns is given", "give both"));
        }
        (None, None) if is_market => TimeInForce::ImmediateOrCancel,
        (None | Some("gtc"), None) => TimeInForce::GoodTillCancel,
        (Some("day"), None) => TimeInForce::Day,
        (Some("ioc"), None) => TimeInForce::ImmediateOrCancel,
        (Some("fok"), None) => TimeInForce::FillOrKill,
        (Some("opg"), None) => TimeInForce::OpeningCall,
        (Some("gfa"), None) => TimeInForce::AnyCall,
        (Some("gfx"), None) => TimeInForce::IntradayCall,
        (Some("atc"), None) => TimeInForce::ClosingCall,
        (Some("cpx"), None) => TimeInForce::ClosingCross,
        (Some(other), None) => {
            let remedy = "use gtc, day, ioc, fok, gtt, opg, gfa, gfx, atc or cpx";
            return Err(invalid(py, format!("tif is {other:?}"), remedy));
        }
    })
}

/// Reads the rule for an order that would trade on arrival.
///
/// # Errors
///
/// Raises `InvalidValue` for an unknown word.
pub fn post_only(py: Python<'_>, word: Option<&str>) -> PyResult<PostOnly> {
    match word {
        None => Ok(PostOnly::No),
        Some("reprice") => Ok(PostOnly::Reprice),
        Some("reject") => Ok(PostOnly::Reject),
        Some(other) => {
            Err(invalid(py, format!("post_only is {other:?}"), "use \"reprice\" or \"reject\", or leave it out"))
        }
    }
}

/// The arguments that together are the type of an order.
pub struct OrderTypeArguments {
    pub price: Option<Ticks>,
    pub stop: Option<Ticks>,
    pub is_hidden: bool,
    pub min_execution: Option<Lots>,
}

impl OrderTypeArguments {
    /// Returns the type of the order.
    ///
    /// # Errors
    ///
    /// Raises `InvalidValue` for arguments that contradict each other.
    pub fn order_type(&self, py: Python<'_>) -> PyResult<OrderType> {
        let min_execution = self.min_execution;
        if min_execution.is_some() && !self.is_hidden {
            return Err(invalid(py, "min_execution_lots is given for a displayed order", "set hidden=True too"));
        }
        match (self.price, self.stop, self.is_hidden) {
            (Some(price), None, true) => {
                Ok(OrderType::Hidden { price, minimum_execution: min_execution.unwrap_or(Lots(1)) })
            }
            (_, _, true) => {
                Err(invalid(py, "hidden is set without price_ticks, or with stop_ticks", "give price_ticks only"))
            }
            (Some(price), None, false) => Ok(OrderType::Limit { price }),
            (None, None, false) => Ok(OrderType::Market),
            (Some(price), Some(stop), false) => Ok(OrderType::StopLimit { stop, price }),
            (None, Some(stop), false) => Ok(OrderType::Stop { stop }),
        }
    }
}
