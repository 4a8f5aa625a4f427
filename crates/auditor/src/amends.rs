//! Checks amends: the order before and after, whether the amend is allowed, and its priority
//! (rulebook 9).

use pitwire_model::{Amend, Event, Expiry, Lots, Phase, PostOnly, Priority, Reject, Ticks, TimeInForce};

use crate::conclusion::check_conclusion;
use crate::continuous::{check_matching, incoming_order};
use crate::cross::check_cross_arrival;
use crate::limits::NotionalBasis;
use crate::model::VenueModel;
use crate::order_rules::{check_expiry, check_not_blocked, check_refusal, may_rest};
use crate::order_updates::{add_order, remove_order};
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};
use crate::reader::EventReader;
use crate::rule_tables::tables;
use crate::session_events::check_volatility_call;
use crate::settling::{check_immediate_election, check_settling};
use crate::stops::has_reached_stop;
use crate::validity::{legal_lots, legal_price};
use crate::violation::{CheckResult, fail};

/// The order before and after an amend that the rules allow.
#[derive(Clone, Copy, Debug)]
struct ExpectedAmend {
    before: LiveOrder,
    after: LiveOrder,
    keeps: bool,
}

impl ExpectedAmend {
    /// Whether the amend may raise the cost of the order.
    fn may_cost_more(&self) -> bool {
        self.after.price != self.before.price || self.after.open > self.before.open
    }
}

/// Checks the answer to an amend and everything that follows from it.
///
/// # Errors
/// S1 without exactly one answer, M5 if a rule forbids the amend that was done or the refusal has
/// the wrong reason, M2 if the order kept or lost its priority wrongly, M4 if its published terms
/// are wrong. Also the errors of the matching that follows.
pub fn check_amend(model: &mut VenueModel, reader: &mut EventReader<'_>, amend: &Amend) -> CheckResult {
    let expected = expected_amend(model, amend);
    let actual = match reader.peek(model)? {
        Some(Event::AmendRefused { order, account, reason }) if (*order, *account) == (amend.order, amend.account) => {
            reader.advance();
            check_amend_refusal(model, amend, &expected, *reason)?;
            return reader.expect_end(model);
        }
        Some(actual @ Event::Amended { order, .. }) if *order == amend.order => actual,
        _ => fail!(S1, "an amend of order {} was neither done nor refused, or both", amend.order),
    };
    let change = match expected {
        Ok(expected) => expected,
        Err(reason) => fail!(M5, "order {} was amended, but must be refused: {}", amend.order, reason.name()),
    };
    let expected = change.after.amended(change.keeps);
    if let Event::Amended { kept_priority, .. } = actual
        && *kept_priority != change.keeps
    {
        fail!(
            M2,
            "an amend was published as {actual:?}, but must be {expected:?}: the priority of order {} is wrong",
            amend.order
        );
    }
    if *actual != expected {
        fail!(M4, "an amend was published as {actual:?}, expected {expected:?}");
    }
    reader.advance();
    let before = model.market(change.before.instrument).book.touch();
    check_amended_order(model, reader, amend, &change, before)?;
    reader.expect_end(model)
}

/// Checks a refusal. The reserve of the order counts as free money for its own amend.
fn check_amend_refusal(
    model: &VenueModel,
    amend: &Amend,
    expected: &Result<ExpectedAmend, Reject>,
    actual: Reject,
) -> CheckResult {
    let extra = expected.as_ref().ok().and_then(|ExpectedAmend { before, after, .. }| {
        let ((currency, had), (_, needs)) =
            (model.order_cost(before, before.open)?, model.order_cost(after, after.open)?);
        Some((currency, needs - had))
    });
    if actual == Reject::NotEnoughFunds && expected.as_ref().is_ok_and(|change| !change.may_cost_more()) {
        fail!(S1, "order {} was refused for lack of funds that its amend does not need", amend.order);
    }
    check_refusal(model, expected.as_ref().err().copied(), actual, amend.account, extra)
}

fn check_amended_order(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    amend: &Amend,
    change: &ExpectedAmend,
    touch: crate::book::BestLevels,
) -> CheckResult {
    let ExpectedAmend { before, mut after, keeps } = *change;
    let instrument = before.instrument;
    remove_order(model, reader, &before);
    let cost = model.order_cost(&after, after.open);
    if change.may_cost_more() {
        model.ledger.check_can_spend(after.account, cost)?;
    }
    model.ledger.reserve(after.account, cost);
    if !keeps {
        after.arrival = model.orders.next_priority();
    }
    let market = model.market(instrument);
    let (phase, is_batched) = (market.session.phase, market.is_batched());
    let arrived = after.is_hidden().then_some(after.id);
    if keeps || !after.is_active() {
        // A reduction removes the hidden part of an iceberg first.
        let shown = if after.is_active() { before.shown.min(after.open) } else { after.shown };
        let after = LiveOrder { shown, ..after };
        add_order(model, reader, after);
        let is_asked = after.place == LiveOrderState::Unelected && amend.stop.is_some();
        if is_asked && phase == Phase::Continuous && has_reached_stop(model, &after) {
            return check_immediate_election(model, reader, &after, touch);
        }
    } else if phase == Phase::ClosingPriceCross {
        let taker = incoming_order(model, after, None, true);
        check_cross_arrival(model, reader, taker)?;
    } else if phase == Phase::Continuous && !is_batched {
        let taker = incoming_order(model, LiveOrder { shown: 0, ..after }, None, true);
        if check_matching(model, reader, taker)?.is_some() {
            check_volatility_call(model, reader, instrument, &[])?;
            return check_conclusion(model, reader, instrument);
        }
    } else {
        reader.allow_level_left(model, &before);
        add_order(model, reader, LiveOrder { shown: after.displayed_lots(), ..after });
    }
    check_settling(model, reader, instrument, Some(touch), arrived)?;
    check_conclusion(model, reader, instrument)
}

/// Returns the order before and after, or the first rule that forbids the amend. Funds are not
/// checked here.
fn expected_amend(model: &VenueModel, amend: &Amend) -> Result<ExpectedAmend, Reject> {
    let before = *model.orders.get(&amend.order).ok_or(Reject::UnknownOrder)?;
    if before.account != amend.account {
        return Err(Reject::NotOwner);
    }
    let market = model.market(before.instrument);
    let permits = tables().permits(market.session.phase);
    if !permits.amend {
        return Err(Reject::NotOpen);
    }
    let tif = amended_time_in_force(&before, amend)?;
    if before.is_hidden() && !permits.amend_hidden {
        return Err(Reject::TypeNotAllowedInSession);
    }
    let filled = before.ordered - before.open;
    let (ordered, open) = match amend.priority {
        Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
        Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
    };
    let has_limit = !matches!(before.kind, LiveOrderKind::Market | LiveOrderKind::Stop);
    let (stop, minimum) =
        (amend.stop.unwrap_or(before.stop), amend.minimum_execution.map_or(before.minimum, |lots| lots.0));
    let has_new_peak = amend.display.is_some_and(|display| display != before.peak.unwrap_or_default());
    let most = if before.is_active() { model.most_lots(&before) } else { u64::MAX };
    // A partial cancel passes even if the account or session is blocked.
    let is_partial_cancel = amend.price == before.price
        && !has_new_peak
        && open <= before.open
        && (stop, minimum, tif) == (before.stop, before.minimum, before.tif);
    if !is_partial_cancel {
        check_not_blocked(model, before.account, before.session)?;
    }
    legal_lots(amend.lots)?;
    legal_lots(Lots(ordered))?;
    if open == 0 {
        return Err(Reject::AmountAlreadyFilled);
    }
    if has_limit {
        legal_price(amend.price)?;
    }
    amend.stop.map_or(Ok(()), legal_price)?;
    let may_show = may_rest(before.kind, before.tif) && !before.reduce_only;
    if amend.display.is_some_and(|display| !may_show || display.is_zero() || display > amend.lots) {
        return Err(Reject::DisplayOutOfRange);
    }
    if !is_partial_cancel && !model.ignores_min_display {
        market.check_min_display(amend.display.or(before.peak), amend.lots)?;
    }
    let (ordered, open) = (ordered - open.saturating_sub(most), open.min(most));
    if before.is_hidden() {
        market.check_hidden_sizes(ordered, open, minimum)?;
    }
    if amend.expiry.is_some() {
        check_expiry(model, tif)?;
    }
    let peak = amend.display.or(before.peak);
    let mut after = LiveOrder { price: amend.price, open, ordered, peak, stop, minimum, tif, ..before };
    if !is_partial_cancel {
        if has_limit && amend.price != before.price {
            market.check_band(amend.price)?;
        }
        if amend.post_only != PostOnly::No {
            market.check_post_only_allowed(before.kind == LiveOrderKind::Limit)?;
            after.price = amended_post_only_price(model, &before, amend.price, amend.post_only)?;
        }
        let worth = if has_limit { NotionalBasis::Limit(after.price) } else { NotionalBasis::Waiting(before.bound) };
        market.check_limits(before.side, open, worth)?;
    }
    let is_waiting = before.place == LiveOrderState::Unelected;
    let same_price = before.price == after.price || is_waiting;
    let keeps = amend.priority == Priority::KeepWhenReduced
        && same_price
        && before.peak == after.peak
        && after.open <= before.open;
    Ok(ExpectedAmend { before, after, keeps })
}

/// Returns the price of a post-only amend. Only the other side of the book decides, so the order
/// itself does not count.
fn amended_post_only_price(
    model: &VenueModel,
    before: &LiveOrder,
    price: Ticks,
    post_only: PostOnly,
) -> Result<Ticks, Reject> {
    model.market(before.instrument).post_only_price(before.side, price, post_only)
}

/// Returns the time in force after the amend, or `NotAmendable` if the order has no such field.
fn amended_time_in_force(order: &LiveOrder, amend: &Amend) -> Result<TimeInForce, Reject> {
    let is_stop = matches!(order.kind, LiveOrderKind::Stop | LiveOrderKind::StopLimit);
    let has_limit = !matches!(order.kind, LiveOrderKind::Market | LiveOrderKind::Stop);
    if (amend.stop.is_some() && !is_stop)
        || (amend.minimum_execution.is_some() && !order.is_hidden())
        || (amend.price != Ticks::ZERO && !has_limit)
    {
        return Err(Reject::NotAmendable);
    }
    match (amend.expiry, order.tif) {
        (None, tif) => Ok(tif),
        (Some(Expiry::Day(day)), TimeInForce::GoodTillDate { .. }) => Ok(TimeInForce::GoodTillDate { day }),
        (Some(Expiry::Time(at)), TimeInForce::GoodTillTime { .. }) => Ok(TimeInForce::GoodTillTime { at }),
        _ => Err(Reject::NotAmendable),
    }
}
