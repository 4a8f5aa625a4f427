//! From floats to whole units, with the range checked first: nothing wraps, and not-a-number becomes the least value.

use pitwire_model::{Decimal, Lots, Ticks, VenueNanos};

pub const NANOS_PER_SECOND: f64 = 1e9;

/// The nearest price that a book can hold, rounding down.
#[allow(clippy::cast_possible_truncation)] // saturates, and the clamp is well inside
pub fn price_below(ticks: f64) -> Ticks {
    Ticks((ticks.floor() as i64).clamp(1, Ticks::MAX_PRICE.0))
}

/// As [`price_below`], rounding up.
pub fn price_above(ticks: f64) -> Ticks {
    price_below(ticks.ceil())
}

/// A whole number of ticks from a non-negative distance, rounding down.
#[allow(clippy::cast_possible_truncation)] // saturates, and the clamp is well inside
pub fn distance(ticks: f64) -> i64 {
    (ticks as i64).clamp(0, Ticks::MAX_PRICE.0)
}

/// A quantity that one order may carry, rounding up, so never zero.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, and the clamp is well inside
pub fn quantity(lots: f64) -> Lots {
    Lots((lots.ceil() as u64).clamp(1, Lots::MAX_ORDER.0))
}

/// Whole nanoseconds in a span of seconds; a span too long for the clock is the longest there is.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates on purpose
pub fn nanos(seconds: f64) -> u64 {
    (seconds * NANOS_PER_SECOND + 0.5) as u64
}

/// Later by so many seconds.
pub fn later(at: VenueNanos, seconds: f64) -> VenueNanos {
    VenueNanos(at.0.saturating_add(nanos(seconds)))
}

/// Seconds from one time to a later one; zero if it is not later.
pub fn seconds_between(from: VenueNanos, to: VenueNanos) -> f64 {
    to.0.saturating_sub(from.0) as f64 / NANOS_PER_SECOND
}

/// A decimal as a float, for ratios of ticks and the like.
pub fn float(value: Decimal) -> f64 {
    (0..value.scale).fold(value.mantissa as f64, |so_far, _| so_far / 10.0)
}
