//! Amends an order: the order before and after, the checks in the order of the rulebook, and the
//! priority that is kept or lost.

use pitwire_model::{Amend, Event, Expiry, Lots, Phase, PostOnly, Priority, Reject, TimeInForce};

use crate::order::{ReferenceOrder, ReferenceOrderKind, ReferenceOrderState, expiry_of};
use crate::order_checks::{check_expiry, check_limits, check_not_blocked, may_rest};
use crate::rule_tables::permits;
use crate::state::VenueState;
use crate::trading::{act_in_session, elect_stop, publish_conclusion, run_elected, settle_market};
use crate::validity::{is_valid_price, is_valid_quantity};

/// An amend that passed every check.
pub struct CheckedAmend {
    pub at: usize,
    pub before: ReferenceOrder,
    pub after: ReferenceOrder,
    pub keeps: bool,
    /// The amend gives a new stop price.
    pub moves_stop: bool,
}

/// Returns the time in force with a new expiry, or `None` if it has no expiry of this kind.
fn with_expiry(tif: TimeInForce, expiry: Expiry) -> Option<TimeInForce> {
    match (tif, expiry) {
        (TimeInForce::GoodTillDate { .. }, Expiry::Day(day)) => Some(TimeInForce::GoodTillDate { day }),
        (TimeInForce::GoodTillTime { .. }, Expiry::Time(at)) => Some(TimeInForce::GoodTillTime { at }),
        _ => None,
    }
}

fn has_stop(order: &ReferenceOrder) -> bool {
    order.place == ReferenceOrderState::Unelected
}

pub fn amend_order(venue: &mut VenueState, amend: &Amend, out: &mut Vec<Event>) {
    match check_amend(venue, amend) {
        Err(reason) => out.push(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
        Ok(amendment) => apply_amend(venue, amendment, out),
    }
}

fn check_amend(venue: &VenueState, amend: &Amend) -> Result<CheckedAmend, Reject> {
    let (instrument, before) = venue.find_order(amend.order).ok_or(Reject::UnknownOrder)?;
    if before.account != amend.account {
        return Err(Reject::NotOwner);
    }
    let at = instrument.0 as usize;
    let market = &venue.markets[at];
    if !permits(market.session.phase).amend {
        return Err(Reject::NotOpen);
    }
    let mut after = before;
    if amend.stop.is_some() && !has_stop(&before)
        || amend.minimum_execution.is_some() && !before.is_hidden()
        || !before.has_price() && amend.price.0 != 0
    {
        return Err(Reject::NotAmendable);
    }
    if let Some(expiry) = amend.expiry {
        after.tif = with_expiry(before.tif, expiry).ok_or(Reject::NotAmendable)?;
    }
    if before.is_hidden() && !permits(market.session.phase).amend_hidden {
        return Err(Reject::TypeNotAllowedInSession);
    }
    let filled = before.ordered - before.open;
    (after.ordered, after.open) = match amend.priority {
        Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
        Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
    };
    after.price = amend.price;
    after.stop = amend.stop.unwrap_or(before.stop);
    after.minimum = amend.minimum_execution.map_or(before.minimum, |minimum| minimum.0);
    after.peak = amend.display.or(before.peak);
    // A display of zero counts as no display until the display is checked.
    let shows_as_before = after.peak.unwrap_or_default() == before.peak.unwrap_or_default();
    let is_partial_cancel = after.price == before.price
        && shows_as_before
        && after.open <= before.open
        && (after.stop, after.minimum, after.tif) == (before.stop, before.minimum, before.tif);
    if before.reduce_only && before.place == ReferenceOrderState::Active {
        let room = venue.room(before.account, instrument, before.side);
        let cut = after.open.saturating_sub(room);
        (after.ordered, after.open) = (after.ordered - cut, after.open - cut);
    }
    if !is_partial_cancel {
        check_not_blocked(venue, before.account, before.session)?;
    }
    // Both the amended quantity and the total of the order must be valid quantities.
    if !is_valid_quantity(amend.lots.0) || !is_valid_quantity(after.ordered) {
        return Err(Reject::QuantityOutOfRange);
    }
    if after.open == 0 {
        return Err(Reject::AmountAlreadyFilled);
    }
    if before.has_price() && !is_valid_price(after.price) || has_stop(&before) && !is_valid_price(after.stop) {
        return Err(Reject::PriceOutOfRange);
    }
    let rests = may_rest(before.kind, before.tif) && !before.reduce_only;
    let is_small =
        |peak: Lots| !is_partial_cancel && peak.0 * 100 < u64::from(market.rules().min_display_pct) * amend.lots.0;
    if after.peak.is_some_and(is_small) {
        return Err(Reject::DisplayOutOfRange);
    }
    if amend.display.is_some_and(|display| !rests || !(1..=amend.lots.0).contains(&display.0)) {
        return Err(Reject::DisplayOutOfRange);
    }
    if before.is_hidden() {
        market.check_hidden_sizes(after.ordered, after.open, after.minimum)?;
    }
    if amend.expiry.is_some() {
        check_expiry(venue, after.tif)?;
    }
    let moves_stop = amend.stop.is_some();
    if !is_partial_cancel {
        check_changed_terms(venue, at, amend.post_only, &before, &mut after)?;
    }
    let reduces = amend.priority == Priority::KeepWhenReduced && after.open <= before.open;
    let stays = after.price == before.price || has_stop(&before);
    let keeps = reduces && stays && after.peak == before.peak;
    Ok(CheckedAmend { at, before, after, keeps, moves_stop })
}

/// Checks band, post-only, limits and funds. A partial cancel skips these checks.
fn check_changed_terms(
    venue: &VenueState,
    at: usize,
    post_only: PostOnly,
    before: &ReferenceOrder,
    after: &mut ReferenceOrder,
) -> Result<(), Reject> {
    let market = &venue.markets[at];
    if before.has_price() && after.price != before.price && !market.is_in_band(after.price) {
        return Err(Reject::PriceOutsideBand);
    }
    if post_only != PostOnly::No {
        if !market.allows_post_only(before.kind, before.tif) {
            return Err(Reject::PostOnlyNotAllowed);
        }
        after.price = market.post_only_price(before.side, after.price, post_only)?;
    }
    check_limits(venue, market.spec.id, after, false)?;
    if venue.affords_amend(market.spec.id, before, after) { Ok(()) } else { Err(Reject::NotEnoughFunds) }
}

fn apply_amend(venue: &mut VenueState, amendment: CheckedAmend, out: &mut Vec<Event>) {
    let CheckedAmend { at, before, mut after, keeps, moves_stop } = amendment;
    let market = &mut venue.markets[at];
    let since = out.len();
    out.push(Event::Amended {
        order: after.id,
        account: after.account,
        instrument: market.spec.id,
        side: after.side,
        price: after.price,
        lots: Lots(after.ordered),
        open: Lots(after.open),
        kept_priority: keeps,
        display: after.peak,
        stop: has_stop(&after).then_some(after.stop),
        minimum_execution: after.is_hidden().then_some(Lots(after.minimum)),
        expiry: expiry_of(after.tif),
    });
    market.remove(before.id);
    if !keeps {
        after.time = venue.next_priority();
    }
    let market = &mut venue.markets[at];
    if after.place != ReferenceOrderState::Active {
        market.orders.push(after);
    } else if keeps {
        after.shown = before.shown.min(after.open); // A reduction removes the hidden part first.
        market.orders.push(after); // The priority is unchanged.
        market.publish_level_of(&after, out);
    } else {
        market.publish_level_of(&before, out);
        let mode = venue.self_match_mode(after.account);
        act_in_session(venue, at, after, mode, out);
    }
    if moves_stop && venue.markets[at].session.phase == Phase::Continuous && venue.markets[at].has_reached_stop(&after)
    {
        elect_stop(venue, at, after.id, out);
        run_elected(venue, at, out);
    }
    let fresh = (after.kind == ReferenceOrderKind::Hidden).then_some(after.id);
    settle_market(venue, at, fresh, out);
    publish_conclusion(venue, at, since, out);
}
