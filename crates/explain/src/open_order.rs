//! Explains a live order: the session or price that it waits for, and the orders ahead of it.

use pitwire_model::{Lots, Phase, Seq, Ticks};

use crate::note::Note;
use crate::refusal::{comes_again, waits_for};
use crate::text_style::counted;
use crate::venue_view::{VenueView, ViewedOrder, ViewedState};
use crate::viewer::Viewer;

pub(crate) fn open_order_note(venue: &VenueView, seq: Seq, order: &ViewedOrder, viewer: Viewer) -> Note {
    let market = venue.market(order.instrument);
    let session = market.map_or(Phase::Closed, |market| market.phase).name();
    let note = |what, rule: &str, text: String| {
        Note::new(seq, venue, what, rule, text).with("open", order.open.0).with("session", session)
    };
    match (order.place, market) {
        (ViewedState::Parked, Some(market)) => {
            let (wanted, left) = waits_for(market, order.tif);
            let text = format!("{} waits for {wanted}, which {}", order.tif.name(), comes_again(left));
            note("waits", "rulebook: 6", text).with("waits_for", wanted).with("remaining", left)
        }
        (ViewedState::Unelected, Some(market)) => {
            let stop = order.stop().unwrap_or_default();
            let wanted = venue.price(order.instrument, stop);
            let text = match market.last {
                Some(last) => {
                    format!("the last price is {}; this stop waits for {wanted}", venue.price(order.instrument, last))
                }
                None => format!("nothing has traded; this stop waits for {wanted}"),
            };
            note("waits", "rulebook: 14, 1", text).with("last", market.last.map(Ticks::get)).with("stop", stop.0)
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
    let [price_text, best_text] = [price, best].map(|price| venue.price_or_none(order.instrument, price.map(Ticks)));
    let reason = match best {
        None => "the other side has no visible order".to_owned(),
        Some(best) if price.is_some() && !order.accepts(Ticks(best)) => {
            format!("the other side's best, {best_text}, does not reach {price_text}")
        }
        Some(_) => format!("the other side's best is {best_text}"),
    };
    let text = match before.len() {
        0 => format!("rests first in its side's priority; {reason}"),
        count => format!(
            "before it: {} with {} ({better} at better prices, {seen} visible at its price, {} hidden at its price); \
             {reason}",
            counted(count as u64, "order"),
            venue.amount(order.instrument, Lots(lots)),
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
