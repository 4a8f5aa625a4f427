//! Explains why an order left: the session, the time or the price that caused it.

use pitwire_model::{CancelReason, Command, Event, Lots, Phase, SelfMatch, SequencedCommand, Ticks, TimeInForce};
use pitwire_scenario::{date_text, reason_of_leaving};

use crate::note::Note;
use crate::venue_view::{VenueView, ViewedOrder};
use crate::viewer::Viewer;

/// Explains one cancellation. `venue` is the state before it, and `events` are all events of its
/// command.
pub(crate) fn left(
    venue: &VenueView,
    stamped: &SequencedCommand,
    order: &ViewedOrder,
    open: Lots,
    reason: CancelReason,
    events: &[Event],
    viewer: Viewer,
) -> Note {
    let (seq, market) = (stamped.seq, venue.market(order.instrument));
    let amount = |lots: Lots| venue.amount(order.instrument, lots);
    let session = market.map_or(Phase::Closed, |market| market.phase).name();
    let to = events.iter().find_map(|event| match event {
        Event::SessionChanged { instrument, to, .. } if *instrument == order.instrument => Some(to.name()),
        _ => None,
    });
    let word = reason_of_leaving(reason);
    let what = if word.is_some() { "expired" } else { "cancelled" };
    let note = |rule: &str, text: String| {
        let note = Note::new(seq, venue, what, rule, text);
        let note = note.with("reason", word.unwrap_or_else(|| cancelled_by(reason))).with("open", open.0);
        note.with("session", session)
    };
    let report_end_note = |what: &str| {
        let to = to.unwrap_or("another session");
        format!("{what}: {session} ended (then {to}) with {} open", amount(open))
    };
    match reason {
        CancelReason::ImmediateRemainder => immediate(venue, order, open, &note),
        CancelReason::FillOrKill => {
            let within = reachable(venue, order, viewer);
            let which = if viewer == Viewer::Operator { "" } else { "visible " };
            let text = format!(
                "fill_or_kill: {} had to trade at once, and the {which}orders within its limit held {}",
                amount(order.lots),
                amount(within)
            );
            note("rulebook: 7.4", text).with("wanted", order.lots.0).with("within_reach", within.0)
        }
        CancelReason::DayEnded => {
            note("rulebook: 6", format!("the venue day ended; {} orders end with it", order.tif.name()))
        }
        CancelReason::TimeReached => {
            let at = match order.tif {
                TimeInForce::GoodTillTime { at } => at,
                _ => venue.now,
            };
            let text = format!("good till {}, and venue time was {}", venue.time(at), venue.time(venue.now));
            note("rulebook: 6", text).with("expires_ns", at.0).with("now_ns", venue.now.0)
        }
        CancelReason::DateReached => {
            let day = match order.tif {
                TimeInForce::GoodTillDate { day } => day.0,
                _ => 0,
            };
            let today = venue.day.map_or(0, |(today, _)| today);
            let text = format!("good till {}, and {} ended", date_text(day), date_text(today));
            note("rulebook: 6", text).with("expires", date_text(day)).with("ended", date_text(today))
        }
        CancelReason::NinetyDays => note("rulebook: 6", "a GTC order's ninetieth day ended".to_owned()),
        CancelReason::CallEnded => note("rulebook: 5.2, step 5", report_end_note("what is left after a call")),
        CancelReason::PauseEnded => note("rulebook: 5.2, step 5", report_end_note("a market order of a pause")),
        CancelReason::CrossEnded => note("rulebook: 5.2, step 5", report_end_note("CPX")),
        CancelReason::BelowMinimumExecution => {
            let mes = order.minimum_execution();
            let text = format!("{} left, less than its minimum execution size of {}", amount(open), amount(mes));
            note("rulebook: 7.2, step 7", text).with("mes", mes.0)
        }
        CancelReason::Breaker => {
            let price = events.iter().find_map(|event| match event {
                Event::Breached { price, .. } => Some(*price),
                _ => None,
            });
            let at = venue.price_or_none(order.instrument, price);
            let text = format!("an execution at {at} would have breached a tolerance");
            note("rulebook: 10.3", text).with("price", price.map(Ticks::get))
        }
        CancelReason::NothingExecutes => {
            note("rulebook: 5.2, step 10", format!("elected, but {session} executes nothing at once"))
        }
        CancelReason::ReduceOnly => {
            let text = "reduce-only: no position was left to reduce, or its continuous trading ended".to_owned();
            note("rulebook: 24", text)
        }
        CancelReason::SelfMatch => self_match(venue, stamped, order, events, viewer, &note),
        other => note("order-rules: cancelling", format!("{} with {} open", cancelled_by(other), amount(open))),
    }
}

fn immediate(venue: &VenueView, order: &ViewedOrder, open: Lots, note: &impl Fn(&str, String) -> Note) -> Note {
    let best = venue.best_visible(order.instrument, order.side.opposite());
    let left = venue.amount(order.instrument, open);
    let [limit_text, best_text] = [order.price(), best].map(|price| venue.price_or_none(order.instrument, price));
    let text = match (best, order.price()) {
        (None, _) => format!("{left} did not trade: the other side had no visible order left"),
        (Some(_), Some(_)) => {
            format!("{left} did not trade: its limit is {limit_text}, and the other side's best was {best_text}")
        }
        (Some(_), None) => format!("{left} did not trade: the other side's best was {best_text}"),
    };
    let limit = order.price().map(Ticks::get);
    note("rulebook: 7.2", text).with("limit", limit).with("best", best.map(Ticks::get))
}

/// Explains a cancellation by self-match prevention: the mode, and the other order if the viewer
/// may know it.
fn self_match(
    venue: &VenueView,
    stamped: &SequencedCommand,
    order: &ViewedOrder,
    events: &[Event],
    viewer: Viewer,
    note: &impl Fn(&str, String) -> Note,
) -> Note {
    const RULE: &str = "order-rules: self-match prevention";
    let is_contra = |other: &&ViewedOrder| {
        other.instrument == order.instrument && other.side != order.side && other.is_in_group_of(order)
    };
    // The incoming order: of the command, or the stop that was elected last.
    let entered = match &stamped.command {
        Command::Enter(entered) => Some(entered.id),
        Command::Amend(amend) => Some(amend.order),
        _ => None,
    };
    let elected = events.iter().rev().filter_map(|event| match event {
        Event::Triggered { order, .. } => Some(*order),
        _ => None,
    });
    let incoming = entered.into_iter().chain(elected).filter_map(|id| venue.orders.get(&id)).find(is_contra);
    let (mode, other) = match incoming {
        Some(incoming) => (venue.self_match_of(incoming), Some(*incoming)),
        None => {
            // This order is the incoming one. The resting order may have been cancelled just
            // before.
            let queue = venue.side(order.instrument, order.side.opposite());
            let resting = queue.iter().find(|other| is_contra(other)).copied();
            (venue.self_match_of(order), resting.or_else(|| venue.cancelled_for_self_match(order)))
        }
    };
    let how = match mode {
        SelfMatch::CancelResting => "cancels the resting order",
        SelfMatch::CancelIncoming => "cancels the incoming order",
        SelfMatch::CancelBoth => "cancels both orders",
        SelfMatch::Allow => "is off",
    };
    let known = other.filter(|other| viewer.owns(other.account));
    let with = known.map_or_else(|| "an order of its group".to_owned(), |other| format!("order {}", other.id));
    let text = format!("it would have traded with {with}, and self-match prevention ({}) {how}", mode.name());
    note(RULE, text).with("mode", mode.name()).with("with", known.map(|other| other.id.0))
}

/// Returns the lots that a fill-or-kill order could have traded within its limit, with minimum
/// executions but without self-match prevention. A member's result counts only visible lots of
/// other accounts.
fn reachable(venue: &VenueView, order: &ViewedOrder, viewer: Viewer) -> Lots {
    let mut left = order.lots.0;
    let contras = venue.side(order.instrument, order.side.opposite());
    for contra in contras.iter().filter(|contra| viewer.knows_of(contra)) {
        let Some(price) = contra.price() else { continue };
        if !order.accepts(price) {
            break;
        }
        if contra.minimum_execution().0 <= left {
            left -= left.min(viewer.lots_of(contra).0);
        }
    }
    Lots(order.lots.0 - left)
}

const fn cancelled_by(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Requested => "cancelled by its owner",
        CancelReason::SelfMatch => "self_match",
        CancelReason::Disconnected => "its connection ended with cancel on disconnect",
        CancelReason::Killed => "killed by an operator",
        CancelReason::InstrumentDeleted => "its instrument was deleted",
        CancelReason::AccountClosed => "its account was closed",
        _ => "expired",
    }
}
