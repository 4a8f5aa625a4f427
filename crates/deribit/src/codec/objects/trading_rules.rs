//! The trading rules of one instrument: a part of the answer to `public/get_instrument` that the
//! dialect does not have.

use pitwire_model::{Decimal, InstrumentSpec, Phase, Tolerance, TradingRules};

use super::{amount, price};
use crate::codec::json::Json;

/// Writes the rules into the open object of an instrument.
pub(super) fn trading_rules(j: &mut Json<'_>, spec: &InstrumentSpec, rules: &TradingRules) {
    if !rules.segment.as_str().is_empty() {
        j.key("segment").string(rules.segment.as_str());
    }
    j.key("allocation").string(rules.allocation.name());
    if let Some(lots) = rules.minimum_reserve {
        amount(j, "minimum_reserve", spec, lots);
    }
    price(j, "price_improvement", spec, rules.improvement);
    if let Some(percent) = rules.band_pct {
        j.key("price_band_percent").uint(u64::from(percent));
    }
    j.key("min_display_percent").uint(u64::from(rules.min_display_pct));
    if rules.tolerances.iter().any(|tolerance| *tolerance != Tolerance::default()) {
        j.key("tolerances")
            .object(|j| Phase::ALL.into_iter().for_each(|phase| write_tolerance(j, phase, rules.tolerance(phase))));
    }
}

fn write_tolerance(j: &mut Json<'_>, phase: Phase, tolerance: Tolerance) {
    if tolerance.static_bps.or(tolerance.dynamic_bps).is_none() {
        return;
    }
    j.key(phase.name()).object(|j| {
        for (key, bps) in [("static_percent", tolerance.static_bps), ("dynamic_percent", tolerance.dynamic_bps)] {
            if let Some(bps) = bps {
                j.key(key).decimal(Decimal::new(i128::from(bps), 2));
            }
        }
    });
}
