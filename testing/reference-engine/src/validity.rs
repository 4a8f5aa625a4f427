//! Ranges of quantities, prices and settings that a command may carry.

use pitwire_model::{AccountSettings, InstrumentLimits, Lots, Ticks, TradingRules};

pub fn is_valid_quantity(lots: u64) -> bool {
    (1..=Lots::MAX_ORDER.0).contains(&lots)
}

pub fn is_valid_price(price: Ticks) -> bool {
    (1..=Ticks::MAX_PRICE.0).contains(&price.0)
}

pub fn are_valid_limits(limits: &InstrumentLimits) -> bool {
    limits.max_lots.is_none_or(|lots| lots.0 > 0)
        && limits.max_notional_units.is_none_or(|units| units > 0)
        && limits.collar_bps.is_none_or(|bps| bps < 10_000)
}

pub fn are_valid_settings(settings: &AccountSettings) -> bool {
    settings.throttle.is_none_or(|throttle| throttle.executions > 0 && throttle.window_ns > 0)
}

pub fn are_valid_rules(rules: &TradingRules) -> bool {
    let tolerances = rules.tolerances.iter().flat_map(|both| [both.static_bps, both.dynamic_bps]);
    is_valid_price(rules.improvement)
        && rules.minimum_reserve != Some(Lots(0))
        && (1..=100).contains(&rules.min_display_pct)
        && tolerances.flatten().all(|bps| bps > 0)
}
