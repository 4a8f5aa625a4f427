//! A snapshot as the beginning of what is followed.

use pitwire_engine::{EngineImage, MarketImage, OrderImage, UndisplayedState};
use pitwire_model::Lots;

use crate::floor::{Floor, Market, Order, Place};

pub(crate) fn restore(floor: &mut Floor, image: &EngineImage) {
    floor.day = (image.day.0 > 0).then_some((image.day.0, image.closes));
    floor.names = image.accounts.iter().map(|account| (account.spec.id, account.spec.name.clone())).collect();
    for market in &image.markets {
        floor.reports.extend(market.reporting.waiting.clone());
        floor.markets.push(restored(market));
        for order in &market.orders {
            floor.restore(standing(market, order));
        }
    }
}

fn restored(image: &MarketImage) -> Market {
    let session = &image.session;
    Market {
        phase: image.phase,
        last: image.last,
        static_reference: session.static_reference,
        dynamic_reference: session.dynamic_reference.or(image.last),
        closing: session.closing.map(|(price, _)| price),
        previous_close: session.previous_close,
        remaining: session.remaining,
        reporting: image.reporting.open,
        reporting_ends: image.reporting.ends,
        ..Market::new(image.spec.clone())
    }
}

fn standing(market: &MarketImage, order: &OrderImage) -> Order {
    Order {
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
            Some(UndisplayedState::Parked) => Place::Parked,
            Some(UndisplayedState::Unelected) => Place::Unelected,
            _ => Place::Active,
        },
    }
}
