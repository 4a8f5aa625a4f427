//! Ranges of quantities, prices and settings that a command may carry.

use pitwire_model::{AccountSettings, InstrumentLimits, Lots, Reject, Ticks, TradingRules};

pub fn are_valid_rules(rules: &TradingRules) -> bool {
    let width = |bps: Option<u32>| bps != Some(0);
    rules.improvement >= Ticks(1)
        && rules.improvement <= Ticks::MAX_PRICE
        && rules.min_display_pct >= 1
        && rules.min_display_pct <= 100
        && rules.minimum_reserve != Some(Lots::ZERO)
        && rules.tolerances.iter().all(|tolerance| width(tolerance.static_bps) && width(tolerance.dynamic_bps))
}

pub fn are_valid_limits(limits: &InstrumentLimits) -> bool {
    limits.max_lots != Some(Lots::ZERO)
        && limits.max_notional_units.unwrap_or(1) > 0
        && limits.collar_bps.unwrap_or(0) < 10_000
}

pub fn are_valid_settings(settings: &AccountSettings) -> bool {
    settings.throttle.is_none_or(|throttle| throttle.executions != 0 && throttle.window_ns != 0)
}

/// Checks the quantity of one order.
///
/// # Errors
/// `QuantityOutOfRange` if it is zero or above [`Lots::MAX_ORDER`].
pub fn legal_lots(lots: Lots) -> Result<(), Reject> {
    if lots.is_zero() || lots > Lots::MAX_ORDER { Err(Reject::QuantityOutOfRange) } else { Ok(()) }
}

/// Checks a price.
///
/// # Errors
/// `PriceOutOfRange` if it is below one tick or above [`Ticks::MAX_PRICE`].
pub fn legal_price(price: Ticks) -> Result<(), Reject> {
    if price < Ticks(1) || price > Ticks::MAX_PRICE { Err(Reject::PriceOutOfRange) } else { Ok(()) }
}
