//! Checks what must end each command: indicative values of a call, levels, the change number, and
//! a book that is not crossed.
//!
//! Start at    [`check_conclusion`].

use pitwire_model::{Event, InstrumentId, Lots, Phase, Side};

use crate::auction_prices::{AuctionCurves, PricePoint, call_price};
use crate::model::VenueModel;
use crate::reader::{EventReader, unexpected_event};
use crate::violation::{CheckResult, fail};

/// Checks the last events of an instrument: indicative values if they changed, and a change number
/// after any public event.
///
/// # Errors
/// M6 if the indicative values are missing or wrong, F1 if the change number is missing, repeated
/// or superfluous, F2 if the published book differs, M3 if the visible book is crossed.
pub fn check_conclusion(model: &mut VenueModel, reader: &mut EventReader<'_>, instrument: InstrumentId) -> CheckResult {
    check_indicative(model, reader, instrument, false)?;
    let next = reader.peek(model)?;
    if let Some(event @ Event::Level { .. }) = next {
        return Err(unexpected_event(model, event));
    }
    reader.check_levels(model)?;
    let actual = match next {
        Some(Event::BookChanged { instrument: actual, change_id }) if *actual == instrument => Some(*change_id),
        _ => None,
    };
    let market = &mut model.markets[instrument.0 as usize];
    match (actual, reader.needs_change_number(instrument)) {
        (Some(change), true) if change == market.change_id + 1 => {
            reader.advance();
            market.change_id = change;
        }
        (Some(change), true) => {
            fail!(F1, "change {change} of instrument {instrument} follows change {}", market.change_id)
        }
        (Some(change), false) => {
            fail!(F1, "instrument {instrument} got change number {change} without a change")
        }
        (None, true) => match next {
            Some(event) if order_of(event) == Some(instrument) => return Err(unexpected_event(model, event)),
            _ => fail!(F1, "instrument {instrument} changed without a change number"),
        },
        (None, false) => {}
    }
    reader.finish_instrument();
    check_not_crossed(model, instrument)
}

/// Continuous trading must not end a command with a crossed book.
fn check_not_crossed(model: &VenueModel, instrument: InstrumentId) -> CheckResult {
    let market = &model.markets[instrument.0 as usize];
    if market.session.phase == Phase::Continuous
        && !market.is_batched()
        && let Some((bid, ask)) = market.book.is_crossed()
    {
        fail!(M3, "instrument {instrument} is left with a bid of {bid} and an offer of {ask}");
    }
    Ok(())
}

/// Returns price, volume and surplus of a call that would end now, from its visible orders.
fn indicative_point(model: &VenueModel, instrument: InstrumentId) -> Option<PricePoint> {
    let market = &model.markets[instrument.0 as usize];
    let [bids, offers] = [Side::Buy, Side::Sell].map(|side| market.book.open_by_price(side));
    let unpriced = [Side::Buy, Side::Sell].map(|side| market.book.unpriced(side));
    call_price(&AuctionCurves::new(bids, offers, unpriced), market.reference())
}

/// Checks the `Indicative` event. It must come when the values changed, and `in_any_case` after a
/// breach.
///
/// # Errors
/// M6 if changed values are missing or wrong, F1 if unchanged values were published again.
pub fn check_indicative(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    instrument: InstrumentId,
    in_any_case: bool,
) -> CheckResult {
    let market = &model.markets[instrument.0 as usize];
    let is_published =
        market.session.phase.is_call() || (market.session.phase == Phase::Continuous && market.is_batched());
    if !is_published || market.session.missed {
        return Ok(());
    }
    let found = indicative_point(model, instrument);
    let (price, volume, imbalance) = match found {
        Some(found) => (Some(found.price), Lots(found.volume), found.surplus),
        None => (None, Lots::ZERO, 0),
    };
    let now = (price, volume, imbalance);
    let actual = match reader.peek(model)? {
        Some(Event::Indicative { instrument: actual, price, volume, imbalance }) if *actual == instrument => {
            Some((*price, *volume, *imbalance))
        }
        _ => None,
    };
    let before = model.markets[instrument.0 as usize].call.indicated;
    match actual {
        Some(actual) if actual != now => {
            fail!(M6, "the indicative values were published as {actual:?}, but are {now:?}");
        }
        Some(_) if now == before && !in_any_case => {
            fail!(F1, "the indicative values {now:?} were published again without a change")
        }
        Some(_) => reader.advance(),
        None if now != before || in_any_case => fail!(M6, "the indicative values are {now:?} and were not published"),
        None => {}
    }
    model.markets[instrument.0 as usize].call.indicated = now;
    Ok(())
}

/// Returns the instrument of an event about one or two orders.
const fn order_of(event: &Event) -> Option<InstrumentId> {
    match event {
        Event::Trade { instrument, .. }
        | Event::Cancelled { instrument, .. }
        | Event::Parked { instrument, .. }
        | Event::Injected { instrument, .. }
        | Event::Triggered { instrument, .. } => Some(*instrument),
        _ => None,
    }
}
