//! Begins a session and moves parked orders into the book.

use pitwire_model::{Event, Phase, SessionReason, VenueNanos};

use crate::market::IndicativeValues;
use crate::order::{ReferenceOrder, ReferenceOrderState};
use crate::rule_tables::permits;
use crate::state::VenueState;

/// Begins a session: publishes the event and resets the state of the previous session (step 7).
pub fn begin_session(
    venue: &mut VenueState,
    at: usize,
    to: Phase,
    reason: Option<SessionReason>,
    ends: Option<VenueNanos>,
    out: &mut Vec<Event>,
) {
    let now = venue.now;
    let market = &mut venue.markets[at];
    let (instrument, from) = (market.spec.id, market.session.phase);
    if from == Phase::Continuous {
        market.closing.continuous_ended = Some(now);
    }
    market.session.phase = to;
    market.session.ends = ends;
    market.session.missed = false;
    market.session.continues = None;
    market.filtered_touch = None;
    market.call.published = IndicativeValues::default();
    market.session.remaining.take_one(to);
    out.push(match reason {
        Some(reason) => Event::SessionChanged { instrument, from, to, reason, ends },
        None => Event::PhaseChanged { instrument, phase: to },
    });
}

/// Moves the parked orders of the new session into the book.
pub fn inject_parked(venue: &mut VenueState, at: usize, out: &mut Vec<Event>) {
    let market = &mut venue.markets[at];
    let takes = &permits(market.session.phase).inject;
    let waits = |order: &ReferenceOrder| {
        order.place == ReferenceOrderState::Parked && takes.iter().any(|tif| tif == order.tif.name())
    };
    for id in market.order_ids(waits) {
        let instrument = market.spec.id;
        let order = market.get_mut(id);
        order.place = ReferenceOrderState::Active;
        order.mode = None;
        order.shown = order.displayed_lots();
        let order = *order;
        out.push(Event::Injected { order: id, account: order.account, instrument });
        market.publish_level_of(&order, out);
    }
}

pub fn volatility_call_end(venue: &VenueState, at: usize) -> VenueNanos {
    VenueNanos(venue.now.0.saturating_add(venue.markets[at].rules().volatility_call_ns))
}
