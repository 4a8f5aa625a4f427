//! Classifies an order as one of the eight event types of the order flow.
//!
//! The types describe how an order changes the best prices (`docs/export.md`). The visible book
//! before and after an order determines its type, for orders of members and of the flow.

use pitwire_model::{Event, NewOrder, OrderType, Phase, Side, TradeKind};

use crate::instrument_state::Quote;

/// Names of the types for buys and sells, in the order in which the flow numbers the types.
const WORDS: [[&str; 2]; 4] = [
    ["market_buy_empties_touch", "market_sell_empties_touch"],
    ["limit_buy_inside_spread", "limit_sell_inside_spread"],
    ["market_buy_leaves_touch", "market_sell_leaves_touch"],
    ["limit_buy_behind_touch", "limit_sell_behind_touch"],
];

/// Returns the event type of an order. `before` and `after` are the quotes around its command.
///
/// Returns `None` outside continuous trading, for a refused order, and for an order that neither
/// traded nor rests in the visible book.
pub fn event_type(
    phase: Phase,
    order: &NewOrder,
    events: &[Event],
    before: Quote,
    after: Quote,
) -> Option<&'static str> {
    let Some(Event::Accepted { order_type, side, .. }) = events.first() else { return None };
    if phase != Phase::Continuous {
        return None;
    }
    let has_traded = events
        .iter()
        .any(|event| matches!(event, Event::Trade { taker, kind: TradeKind::Continuous, .. } if *taker == order.id));
    let row = if has_traded {
        let opposite = side.opposite();
        if before.price(opposite) == after.price(opposite) { 2 } else { 0 }
    } else {
        let OrderType::Limit { price } = order_type else { return None };
        let left = |event: &Event| matches!(event, Event::Cancelled { order: left, .. } if *left == order.id);
        if events.iter().any(left) {
            return None;
        }
        let is_inside = before.price(*side).is_none_or(|best| match side {
            Side::Buy => *price > best,
            Side::Sell => *price < best,
        });
        if is_inside { 1 } else { 3 }
    };
    let column = match side {
        Side::Buy => 0,
        Side::Sell => 1,
    };
    Some(WORDS[row][column])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::{AccountId, CancelReason, InstrumentId, Lots, OrderId, Ticks, TimeInForce, TradeSeq};

    const BEFORE: Quote = Quote { bid: Some((Ticks(98), Lots(5))), ask: Some((Ticks(101), Lots(5))) };

    fn accepted(side: Side, order_type: OrderType) -> Event {
        Event::Accepted {
            order: OrderId(7),
            account: AccountId(1),
            instrument: InstrumentId(0),
            side,
            order_type,
            lots: Lots(3),
            tif: TimeInForce::Day,
            display: None,
        }
    }

    fn trade(taker: u64) -> Event {
        Event::Trade {
            instrument: InstrumentId(0),
            trade_seq: TradeSeq(1),
            price: Ticks(101),
            lots: Lots(3),
            taker_side: Side::Buy,
            maker: OrderId(1),
            maker_account: AccountId(2),
            maker_open: Lots(2),
            taker: OrderId(taker),
            taker_account: AccountId(1),
            taker_open: Lots(0),
            kind: TradeKind::Continuous,
        }
    }

    fn cancelled() -> Event {
        Event::Cancelled {
            order: OrderId(7),
            account: AccountId(1),
            instrument: InstrumentId(0),
            side: Side::Buy,
            price: Ticks(0),
            open: Lots(3),
            reason: CancelReason::ImmediateRemainder,
        }
    }

    #[test]
    fn the_type_follows_from_the_best_prices_before_and_after() {
        let limit = |price| OrderType::Limit { price: Ticks(price) };
        let higher = Quote { ask: Some((Ticks(102), Lots(5))), ..BEFORE };
        let table = [
            (vec![accepted(Side::Buy, OrderType::Market), trade(7)], higher, Some("market_buy_empties_touch")),
            (vec![accepted(Side::Buy, limit(101)), trade(7)], BEFORE, Some("market_buy_leaves_touch")),
            (vec![accepted(Side::Buy, limit(99))], BEFORE, Some("limit_buy_inside_spread")),
            (vec![accepted(Side::Buy, limit(98))], BEFORE, Some("limit_buy_behind_touch")),
            (vec![accepted(Side::Sell, limit(100))], BEFORE, Some("limit_sell_inside_spread")),
            (vec![accepted(Side::Sell, limit(101))], BEFORE, Some("limit_sell_behind_touch")),
            (vec![accepted(Side::Buy, OrderType::Market), cancelled()], BEFORE, None),
            (vec![accepted(Side::Buy, limit(97)), cancelled()], BEFORE, None),
            (vec![], BEFORE, None),
        ];
        let order = NewOrder { id: OrderId(7), ..NewOrder::PLAIN };
        for (events, after, expected) in table {
            assert_eq!(event_type(Phase::Continuous, &order, &events, BEFORE, after), expected, "{events:?}");
            assert_eq!(event_type(Phase::OpeningCall, &order, &events, BEFORE, after), None);
        }
    }
}
