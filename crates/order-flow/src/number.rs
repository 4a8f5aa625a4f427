//! Conversions from floats to integer units. Values are clamped first, so nothing wraps; NaN
//! becomes the least value.

use pitwire_engine::Market;
use pitwire_model::{Decimal, Lots, Ticks, VenueNanos};

pub const NANOS_PER_SECOND: f64 = 1e9;

/// Converts to a price, rounding down, within the range of a book.
#[allow(clippy::cast_possible_truncation)] // saturates, and the clamp is well inside
pub fn price_below(ticks: f64) -> Ticks {
    Ticks((ticks.floor() as i64).clamp(1, Ticks::MAX_PRICE.0))
}

/// Converts to a price like [`price_below`], rounding up.
pub fn price_above(ticks: f64) -> Ticks {
    price_below(ticks.ceil())
}

/// Converts a non-negative distance to ticks, rounding down.
#[allow(clippy::cast_possible_truncation)] // saturates, and the clamp is well inside
pub fn distance(ticks: f64) -> i64 {
    (ticks as i64).clamp(0, Ticks::MAX_PRICE.0)
}

/// Converts to a quantity of one order, rounding up, so never zero.
// The conversion saturates, and the clamp is well inside the range.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn quantity(lots: f64) -> Lots {
    Lots((lots.ceil() as u64).clamp(1, Lots::MAX_ORDER.0))
}

/// Converts seconds to nanoseconds, at most `u64::MAX`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates on purpose
pub fn nanos(seconds: f64) -> u64 {
    (seconds * NANOS_PER_SECOND + 0.5) as u64
}

/// Returns the time `seconds` later.
pub fn later(at: VenueNanos, seconds: f64) -> VenueNanos {
    VenueNanos(at.0.saturating_add(nanos(seconds)))
}

/// Returns the seconds from one time to a later one, or zero if it is not later.
pub fn seconds_between(from: VenueNanos, to: VenueNanos) -> f64 {
    to.0.saturating_sub(from.0) as f64 / NANOS_PER_SECOND
}

/// Returns the ticks of one instrument in one tick of another.
pub fn tick_ratio(market: &Market, other: &Market) -> f64 {
    float(other.spec.tick) / float(market.spec.tick)
}

/// Converts a decimal to a float, for ratios.
pub fn float(value: Decimal) -> f64 {
    (0..value.scale).fold(value.mantissa as f64, |so_far, _| so_far / 10.0)
}
