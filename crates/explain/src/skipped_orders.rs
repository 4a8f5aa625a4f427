//! Explains why incoming orders passed a resting hidden order without a trade.

use std::collections::BTreeMap;

use pitwire_model::{Event, Lots, OrderId, Phase, SequencedCommand, Ticks};

use crate::note::Note;
use crate::venue_view::{VenueView, ViewedOrder, ViewedState};
use crate::viewer::Viewer;

/// The incoming orders of one command, each with the open lots it had when it met the target.
#[derive(Debug, Default)]
pub(crate) struct SkippedOrders {
    arrivals: BTreeMap<OrderId, ViewedOrder>,
}

impl SkippedOrders {
    /// Notes an event before the view follows it.
    pub fn note(&mut self, venue: &VenueView, event: &Event) {
        let order = match *event {
            Event::Cancelled { order, .. } => order,
            // A trade states the remainder of the incoming order.
            Event::Trade { taker, taker_open, .. } => {
                if let Some(arrival) = self.arrivals.get_mut(&taker) {
                    arrival.open = taker_open;
                }
                return;
            }
            _ => return,
        };
        // An immediate order that is cancelled had these lots when matching ended.
        if let (Some(arrival), Some(known)) = (self.arrivals.get_mut(&order), venue.orders.get(&order)) {
            arrival.open = known.open;
        }
    }

    /// Notes an event after the view followed it.
    pub fn arrived(&mut self, venue: &VenueView, event: &Event) {
        let id = match *event {
            Event::Accepted { order, .. } | Event::Triggered { order, .. } => order,
            Event::Amended { order, kept_priority: false, .. } => order,
            _ => return,
        };
        if let Some(order) = venue.orders.get(&id).filter(|order| order.stop().is_none()) {
            self.arrivals.insert(id, *order);
        }
    }

    /// Explains which order skipped `target`, once the command is done and the target still rests
    /// without a trade. A member learns of visible orders of others only, and never their id, size
    /// or limit.
    pub fn over(
        &self,
        venue: &VenueView,
        target: &ViewedOrder,
        stamped: &SequencedCommand,
        viewer: Viewer,
    ) -> Option<Note> {
        let market = venue.market(target.instrument)?;
        let price = target.price()?;
        if market.phase != Phase::Continuous || !target.is_hidden() || target.place != ViewedState::Active {
            return None;
        }
        let reaches = |order: &&ViewedOrder| {
            order.instrument == target.instrument
                && order.side != target.side
                && order.id != target.id
                && order.accepts(price)
                && !order.open.is_zero()
                && viewer.knows_of(order)
        };
        let skipping = self.arrivals.values().find(reaches)?;
        let (rule, text, unnamed) = why(venue, target, skipping);
        let note = Note::new(stamped.seq, venue, "passed over", rule, "");
        let note = note.with("mes", target.minimum_execution().0).with("price", price.0);
        if !viewer.owns(skipping.account) {
            return Some(Note { text: unnamed, ..note });
        }
        let note = note.with("by", skipping.id.0).with("available", skipping.open.0);
        Some(Note { text, ..note.with("limit", skipping.price().map(Ticks::get)) })
    }
}

/// Returns the rule, the text for viewers that may know the other order, and the text for others.
fn why(venue: &VenueView, target: &ViewedOrder, skipping: &ViewedOrder) -> (&'static str, String, String) {
    let (left, mes) = (skipping.open, target.minimum_execution());
    let fill = left.0.min(target.open.0);
    let amount = |lots: Lots| venue.amount(target.instrument, lots);
    if mes > left {
        (
            "rulebook: 7.2, step 2",
            format!(
                "order {} had {} left when it arrived, less than this order's minimum execution size of {}",
                skipping.id,
                amount(left),
                amount(mes)
            ),
            format!("an order arrived with less than this order's minimum execution size of {}", amount(mes)),
        )
    } else if skipping.is_hidden() && fill < skipping.minimum_execution().0 {
        let theirs = skipping.minimum_execution();
        (
            "rulebook: 7.2, step 3",
            format!(
                "order {} is hidden with a minimum execution size of {}, and {} could trade",
                skipping.id,
                amount(theirs),
                amount(Lots(fill))
            ),
            String::new(),
        )
    } else {
        (
            "rulebook: 7.2, step 4",
            format!(
                "order {} arrived with {} at a limit that the improved price did not satisfy, or stopped before",
                skipping.id,
                amount(left)
            ),
            "an order arrived at a limit that the improved price did not satisfy, or stopped before".to_owned(),
        )
    }
}
