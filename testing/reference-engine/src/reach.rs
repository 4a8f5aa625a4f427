//! The fills that an incoming order would get now, without executing them.

use pitwire_model::{Allocation, Phase, SelfMatch, Side, Ticks};

use crate::market::ReferenceMarket;
use crate::order::ReferenceOrder;
use crate::reducing::PositionChanges;
use crate::state::VenueState;

/// Whether self-match prevention forbids the trade.
pub fn is_self_match(taker: &ReferenceOrder, mode: SelfMatch, resting: &ReferenceOrder) -> bool {
    mode != SelfMatch::Allow && taker.is_same_group(resting)
}

pub fn cancels_resting(mode: SelfMatch) -> bool {
    matches!(mode, SelfMatch::CancelResting | SelfMatch::CancelBoth)
}

pub fn cancels_incoming(mode: SelfMatch) -> bool {
    matches!(mode, SelfMatch::CancelIncoming | SelfMatch::CancelBoth)
}

fn take(fills: &mut Vec<(Ticks, u64)>, left: &mut u64, price: Ticks, there: u64) {
    let taken = there.min(*left);
    if taken > 0 {
        fills.push((price, taken));
    }
    *left -= taken;
}

impl ReferenceMarket {
    /// Returns the lots that an arriving order would trade in the cross. Orders of its own group do
    /// not count.
    pub fn cross_lots(&self, taker: &ReferenceOrder, mode: SelfMatch) -> u64 {
        let market = self;
        let price = market.closing.cross_price();
        if !ReferenceMarket::takes_part(taker, price) {
            return 0;
        }
        let mut there = 0;
        for resting in market.cross_participants(taker.side.opposite(), price) {
            if !is_self_match(taker, mode, &resting) {
                there += resting.open;
            } else if mode != SelfMatch::CancelResting {
                break;
            }
        }
        there.min(taker.open)
    }

    /// Returns the fills of an order if it came in now, price by price.
    pub fn fills_of(&self, venue: &VenueState, taker: &ReferenceOrder, mode: SelfMatch) -> Vec<(Ticks, u64)> {
        let market = self;
        let mut changes = PositionChanges::new(venue, market.spec.id);
        let (bb, bo) = (market.best(Side::Buy), market.best(Side::Sell));
        let mut fills = Vec::new();
        let mut left = taker.open;
        for (price, orders) in market.levels(taker.side.opposite()) {
            if left == 0 || !taker.accepts(price) {
                break;
            }
            let (hidden, shown): (Vec<ReferenceOrder>, Vec<ReferenceOrder>) =
                orders.into_iter().partition(ReferenceOrder::is_hidden);
            if !shown.is_empty() {
                if market.breach(Phase::Continuous, price, market.prices.dynamic).is_some() {
                    break;
                }
                let is_own = |order: &ReferenceOrder| is_self_match(taker, mode, order);
                let stops_at_own = mode != SelfMatch::CancelResting;
                let shares = market.allocation() == Allocation::ProRata;
                let mut stops = shares && stops_at_own && shown.iter().any(is_own);
                let (mut there, mut met) = (0, Vec::new());
                let asked = if stops { &[] } else { shown.as_slice() };
                for order in asked {
                    let most = changes.most_lots(order);
                    if most == 0 || (is_own(order) && !stops_at_own) {
                        continue;
                    }
                    if is_own(order) {
                        stops = true;
                        break;
                    }
                    let lots = order.shown.min(most).min(left - there);
                    changes.trade(taker, order, lots);
                    there += lots;
                    met.push(order);
                }
                // Refilled parts of icebergs queue behind the order that stops the incoming one.
                for order in met.into_iter().filter(|_| !stops) {
                    let lots = (order.open - order.shown).min(left - there);
                    changes.trade(taker, order, lots);
                    there += lots;
                }
                take(&mut fills, &mut left, price, there);
                if stops {
                    break;
                }
            }
            for order in hidden {
                let price = market.meeting_price(&order, bb, bo);
                if left == 0 || order.minimum > left || !taker.accepts(price) {
                    continue;
                }
                if market.breach(Phase::Continuous, price, market.prices.dynamic).is_some() {
                    return fills;
                }
                if !is_self_match(taker, mode, &order) {
                    changes.trade(taker, &order, order.open.min(left));
                    take(&mut fills, &mut left, price, order.open);
                } else if mode != SelfMatch::CancelResting {
                    return fills;
                }
            }
        }
        fills
    }

    pub fn reachable_lots(&self, venue: &VenueState, taker: &ReferenceOrder, mode: SelfMatch) -> u64 {
        self.fills_of(venue, taker, mode).iter().map(|(_, lots)| lots).sum()
    }
    /// Returns the price at which an incoming order trades with a resting one. `bb` and `bo` are
    /// the best visible prices before its first fill.
    pub fn meeting_price(&self, resting: &ReferenceOrder, bb: Option<Ticks>, bo: Option<Ticks>) -> Ticks {
        if !resting.is_hidden() {
            return resting.price;
        }
        let step = self.rules().improvement.0;
        let price = resting.price;
        match resting.side {
            Side::Buy => match bo {
                Some(bo) if price > bo => Ticks((bo.0 - step).max(bb.map_or(1, |bb| bb.0)).max(1)),
                _ => price,
            },
            Side::Sell => match bb {
                Some(bb) if price < bb => {
                    Ticks((bb.0 + step).min(bo.map_or(i64::MAX, |bo| bo.0)).min(Ticks::MAX_PRICE.0))
                }
                _ => price,
            },
        }
    }

    /// Whether an order trades at the closing price.
    pub fn takes_part(order: &ReferenceOrder, price: Option<Ticks>) -> bool {
        !order.is_hidden() && price.is_some_and(|price| order.accepts(price))
    }

    /// Returns the orders of a side that take part in the cross, in order of time.
    pub fn cross_participants(&self, side: Side, price: Option<Ticks>) -> Vec<ReferenceOrder> {
        let here = |order: &&ReferenceOrder| {
            order.side == side && order.is_active() && ReferenceMarket::takes_part(order, price)
        };
        let mut participants: Vec<ReferenceOrder> = self.orders.iter().filter(here).copied().collect();
        participants.sort_by_key(|order| order.time);
        participants
    }
}
