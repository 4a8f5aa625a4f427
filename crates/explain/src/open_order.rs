//! Explains a live order: the session or price that it waits for, and the orders ahead of it.

use pitwire_model::{Phase, Seq, Ticks};

use crate::note::Note;
use crate::refusal::waits_for;
use crate::venue_view::{VenueView, ViewedOrder, ViewedState};
use crate::viewer::Viewer;

pub(crate) fn open_order_note(venue: &VenueView, seq: Seq, order: &ViewedOrder, viewer: Viewer) -> Note {
    let market = venue.market(order.instrument);
    let session = market.map_or(Phase::Closed, |market| market.phase).name();
    let note = |what, rule: &str, text: String| {
        Note::new(seq, venue.now, what, rule, text).with("open", order.open.0).with("session", session)
    };
    match (order.place, market) {
        (ViewedState::Parked, Some(market)) => {
            let (wanted, left) = waits_for(market, order.tif);
            let text = format!("{} waits for {wanted}, which is to come {left} more times today", order.tif.name());
            note("waits", "rulebook: 6", text).with("waits_for", wanted).with("remaining", left)
        }
        (ViewedState::Unelected, Some(market)) => {
            let (last, stop) = (market.last.map(Ticks::get), order.stop().unwrap_or_default().0);
            let text = match last {
                Some(last) => format!("the last price is {last}; this stop waits for {stop}"),
                None => format!("nothing has traded; this stop waits for {stop}"),
            };
            note("waits", "rulebook: 14, 1", text).with("last", last).with("stop", stop)
        }
        _ => resting(venue, order, viewer, &note),
    }
}

fn resting(
    venue: &VenueView,
    order: &ViewedOrder,
    viewer: Viewer,
    note: &impl Fn(&'static str, &str, String) -> Note,
) -> Note {
    let queue = venue.side(order.instrument, order.side);
    let before = queue.iter().take_while(|other| other.rank() < order.rank());
    let before: Vec<&ViewedOrder> = before.filter(|other| viewer.knows_of(other)).collect();
    let better = before.iter().filter(|other| other.price() != order.price()).count();
    let seen = before.iter().filter(|other| other.price() == order.price() && !other.is_hidden()).count();
    let same = before.len() - better;
    let lots: u64 = before.iter().map(|other| viewer.lots_of(other).0).sum();
    let best = venue.best_visible(order.instrument, order.side.opposite()).map(Ticks::get);
    let price = order.price().map(Ticks::get);
    let reason = match (price, best) {
        (_, None) => "nobody visible stands on the other side".to_owned(),
        (Some(price), Some(best)) if !order.accepts(Ticks(best)) => {
            format!("the other side's best, {best}, does not reach {price}")
        }
        (_, Some(best)) => format!("the other side's best is {best}"),
    };
    let text = match before.len() {
        0 => format!("rests first in its side's priority; {reason}"),
        count => format!(
            "{count} orders with {lots} lots stand before it: {better} at better prices, {seen} visible at its price, {} \
             of its kind and older or hidden; {reason}",
            same - seen
        ),
    };
    note("rests", "rulebook: 7.1", text)
        .with("price", price)
        .with("before", before.len())
        .with("before_lots", lots)
        .with("before_at_better_prices", better)
        .with("before_visible_at_its_price", seen)
        .with("best", best)
        .with("hidden", order.is_hidden())
}
