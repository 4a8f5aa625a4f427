//! Checks of single values of an order.

use pitwire_model::{Lots, Reject, Ticks};

/// Converts a quantity to the type that the book stores.
///
/// # Errors
/// `QuantityOutOfRange` if the quantity is zero or above `u32::MAX`.
#[inline]
pub(crate) fn lots_u32(lots: Lots) -> Result<u32, Reject> {
    u32::try_from(lots.0).ok().filter(|lots| *lots > 0).ok_or(Reject::QuantityOutOfRange)
}

/// Checks a limit or stop price, if there is one.
///
/// # Errors
/// `PriceOutOfRange` if the price lies outside `1..=Ticks::MAX_PRICE`.
#[inline]
pub(crate) fn check_price(price: Option<Ticks>) -> Result<(), Reject> {
    match price {
        Some(price) if !(1..=Ticks::MAX_PRICE.0).contains(&price.0) => Err(Reject::PriceOutOfRange),
        _ => Ok(()),
    }
}

/// Returns the peak of an iceberg; zero if the order has none.
///
/// # Errors
/// `DisplayOutOfRange` if the peak is zero or above `lots`.
pub(crate) fn peak_of(display: Option<Lots>, lots: u32) -> Result<u32, Reject> {
    let Some(display) = display else { return Ok(0) };
    let peak = u32::try_from(display.0).ok().filter(|peak| (1..=lots).contains(peak));
    peak.ok_or(Reject::DisplayOutOfRange)
}
