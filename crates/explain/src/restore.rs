//! Loads a snapshot into the view.

use pitwire_engine::{EngineImage, MarketImage, OrderImage, UndisplayedState};
use pitwire_model::Lots;

use crate::venue_view::{InstrumentView, VenueView, ViewedOrder, ViewedState};

pub(crate) fn restore(venue: &mut VenueView, image: &EngineImage) {
    venue.day = (image.day.0 > 0).then_some((image.day.0, image.closes));
    venue.currencies = image.currencies.iter().map(|currency| (currency.id, currency.name.clone())).collect();
    venue.self_match =
        image.accounts.iter().map(|account| (account.spec.id, account.spec.settings.self_match)).collect();
    venue.names = image.accounts.iter().map(|account| (account.spec.id, account.spec.name.clone())).collect();
    for market in &image.markets {
        venue.reports.extend(market.reporting.waiting.clone());
        venue.markets.push(restored(market));
        for order in &market.orders {
            venue.restore(open_order_note(market, order));
        }
    }
}

fn restored(image: &MarketImage) -> InstrumentView {
    let session = &image.session;
    InstrumentView {
        phase: image.phase,
        last: image.last,
        static_reference: session.static_reference,
        dynamic_reference: session.dynamic_reference.or(image.last),
        closing: session.closing.map(|(price, _)| price),
        previous_close: session.previous_close,
        remaining: session.remaining,
        reporting: image.reporting.open,
        reporting_ends: image.reporting.ends,
        ..InstrumentView::new(image.spec.clone())
    }
}

fn open_order_note(market: &MarketImage, order: &OrderImage) -> ViewedOrder {
    ViewedOrder {
        id: order.id,
        account: order.account,
        instrument: market.spec.id,
        side: order.side,
        order_type: order.order_type,
        tif: order.tif,
        lots: Lots(order.ordered.into()),
        open: Lots(order.open.into()),
        display: (order.display > 0).then(|| Lots(order.display.into())),
        shown: Lots(order.shown.into()),
        time: order.rank.into(),
        place: match order.place {
            Some(UndisplayedState::Parked) => ViewedState::Parked,
            Some(UndisplayedState::Unelected) => ViewedState::Unelected,
            _ => ViewedState::Active,
        },
        self_match: order.mode,
        group: order.group,
    }
}
