//! Checks of values that operators set: limits, account settings, trading rules.

use pitwire_model::{AccountSettings, InstrumentLimits, Lots, Reject, Ticks, TradingRules};

/// Largest balance or deposit in units. Keeps products of prices, quantities and balances in 128
/// bits.
pub(crate) const MOST_UNITS: i128 = 1 << 100;

/// A collar of 100 % or more would not bound a sale.
const WHOLE_BPS: u32 = 10_000;

/// # Errors
/// `BadDefinition` if a limit is zero or the collar is 100 % or wider.
pub(crate) fn check_limits(limits: InstrumentLimits) -> Result<(), Reject> {
    let is_valid = limits.max_lots.is_none_or(|lots| lots > Lots::ZERO)
        && limits.max_notional_units.is_none_or(|units| units > 0)
        && limits.collar_bps.is_none_or(|bps| bps < WHOLE_BPS);
    if is_valid { Ok(()) } else { Err(Reject::BadDefinition) }
}

/// # Errors
/// `BadDefinition` if a throttle allows no execution or has an empty window.
pub(crate) fn check_settings(settings: AccountSettings) -> Result<(), Reject> {
    let is_valid = settings.throttle.is_none_or(|throttle| throttle.executions > 0 && throttle.window_ns > 0);
    if is_valid { Ok(()) } else { Err(Reject::BadDefinition) }
}

/// # Errors
/// `BadDefinition` if the price improvement is not a price, a tolerance or minimum is zero, or the
/// smallest display is not 1 to 100 %.
pub(crate) fn check_rules(rules: &TradingRules) -> Result<(), Reject> {
    let tolerances = rules.tolerances.iter().flat_map(|tolerance| [tolerance.static_bps, tolerance.dynamic_bps]);
    let is_valid = (1..=Ticks::MAX_PRICE.0).contains(&rules.improvement.0)
        && (1..=100).contains(&rules.min_display_pct)
        && rules.minimum_reserve.is_none_or(|lots| lots > Lots::ZERO)
        && tolerances.flatten().all(|bps| bps > 0);
    if is_valid { Ok(()) } else { Err(Reject::BadDefinition) }
}
