//! Checks the end of a frequent batch (rulebook 15.3).

use pitwire_model::{CancelReason, InstrumentId, Phase};

use crate::departures::check_departure;
use crate::model::VenueModel;
use crate::reader::EventReader;
use crate::session_events::check_volatility_call;
use crate::settling::check_settling;
use crate::uncross::check_uncross;
use crate::violation::CheckResult;

/// Checks the end of a batch: its trades, then the expiry of its market and immediate orders.
///
/// # Errors
/// M6 if the batch trades wrongly, M4 or M5 if a market or immediate order stays, M8 if a breach or
/// its call is wrong.
pub fn check_batch(model: &mut VenueModel, reader: &mut EventReader<'_>, instrument: InstrumentId) -> CheckResult {
    let market = model.market(instrument);
    if market.session.phase != Phase::Continuous || !market.is_batched() {
        return Ok(());
    }
    let end = model.orders.last_priority();
    model.market_mut(instrument).call.batch_ends.push(end);
    prune_batch_ends(model, instrument);
    let has_breached = check_uncross(model, reader, instrument, Phase::Continuous)?;
    let reason = if has_breached { CancelReason::Breaker } else { CancelReason::ImmediateRemainder };
    let leaves = model.orders_where(|live| {
        live.instrument == instrument && live.is_active() && (live.is_market() || live.is_immediate())
    });
    for (_, order) in leaves {
        check_departure(model, reader, order, reason)?;
    }
    if has_breached {
        return check_volatility_call(model, reader, instrument, &[]);
    }
    check_settling(model, reader, instrument, None, None)
}

/// Drops batch ends that no longer separate two live orders.
fn prune_batch_ends(model: &mut VenueModel, instrument: InstrumentId) {
    const MANY: usize = 64;
    if model.market(instrument).call.batch_ends.len() < MANY {
        return;
    }
    let mine = model.orders.of_instrument(instrument);
    let arrivals: std::collections::BTreeSet<u64> = mine.map(|order| order.arrival).collect();
    let mut before = 0;
    model.market_mut(instrument).call.batch_ends.retain(|end| {
        let is_needed = *end > before && arrivals.range(before + 1..=*end).next().is_some();
        before = if is_needed { *end } else { before };
        is_needed
    });
}
