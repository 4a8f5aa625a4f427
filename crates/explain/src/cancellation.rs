//! Explains why an order left: the session, the time or the price that caused it.

use pitwire_model::{CancelReason, Event, Lots, Phase, Seq, Ticks, TimeInForce};
use pitwire_scenario::{date_text, reason_of_leaving, time_text};

use crate::note::Note;
use crate::venue_view::{VenueView, ViewedOrder};
use crate::viewer::Viewer;

/// Explains one cancellation. `venue` is the state before it, and `events` are all events of its
/// command.
pub(crate) fn left(
    venue: &VenueView,
    seq: Seq,
    order: &ViewedOrder,
    open: Lots,
    reason: CancelReason,
    events: &[Event],
    viewer: Viewer,
) -> Note {
    let market = venue.market(order.instrument);
    let session = market.map_or(Phase::Closed, |market| market.phase).name();
    let to = events.iter().find_map(|event| match event {
        Event::SessionChanged { instrument, to, .. } if *instrument == order.instrument => Some(to.name()),
        _ => None,
    });
    let word = reason_of_leaving(reason);
    let what = if word.is_some() { "expired" } else { "cancelled" };
    let note = |rule: &str, text: String| {
        let note = Note::new(seq, venue.now, what, rule, text);
        let note = note.with("reason", word.unwrap_or_else(|| cancelled_by(reason))).with("open", open.0);
        note.with("session", session)
    };
    let report_end_note = |what: &str| {
        let to = to.unwrap_or("another session");
        format!("{what}: {session} ended (then {to}), with {open} lots open")
    };
    match reason {
        CancelReason::ImmediateRemainder => immediate(venue, order, open, &note),
        CancelReason::FillOrKill => {
            let within = reachable(venue, order, viewer);
            let which = if viewer == Viewer::Operator { "" } else { " that are shown" };
            let text =
                format!("fill_or_kill: {} lots were wanted at once, {within}{which} were within reach", order.lots);
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
            let text = format!("good till {}, and venue time was {}", time_text(at.0), time_text(venue.now.0));
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
            let text = format!("{open} lots were left, fewer than its MES of {mes}");
            note("rulebook: 7.2, step 7", text).with("mes", mes.0)
        }
        CancelReason::Breaker => {
            let price = events.iter().find_map(|event| match event {
                Event::Breached { price, .. } => Some(price.0),
                _ => None,
            });
            let text = format!("an execution at {} would have breached a tolerance", price.unwrap_or_default());
            note("rulebook: 10.3", text).with("price", price)
        }
        CancelReason::NothingExecutes => {
            note("rulebook: 5.2, step 10", format!("elected, but {session} executes nothing at once"))
        }
        CancelReason::SelfMatch => {
            note("order-rules: self-match prevention", "it would have met an order of its own group".to_owned())
        }
        other => note("order-rules: cancelling", format!("{} with {open} lots open", cancelled_by(other))),
    }
}

fn immediate(venue: &VenueView, order: &ViewedOrder, open: Lots, note: &impl Fn(&str, String) -> Note) -> Note {
    let best = venue.best_visible(order.instrument, order.side.opposite());
    let limit = order.price().map(Ticks::get);
    let text = match (best, limit) {
        (None, _) => format!("{open} lots were left and nobody visible stood on the other side"),
        (Some(best), Some(limit)) => {
            format!("{open} lots were left; its limit is {limit}, the other side's best {best}")
        }
        (Some(best), None) => format!("{open} lots were left; the other side's best was {best}"),
    };
    note("rulebook: 7.2", text).with("limit", limit).with("best", best.map(Ticks::get))
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
