//! The closing price cross: one price, time alone.

use pitwire_model::{CancelReason, Event, SelfMatch, Side, Ticks, TimeInForce, TradeKind};

use super::matching::{cancelled, cancels_incoming, cancels_resting, must_not_meet, refreshed};
use super::{Kind, Market, Order, ReferenceEngine};

impl Market {
    /// Whether an order trades at the closing price.
    fn takes_part(order: &Order, price: Option<Ticks>) -> bool {
        !order.is_hidden() && price.is_some_and(|price| order.accepts(price))
    }

    /// Who stands in the cross on a side, first come first.
    fn crowd(&self, side: Side, price: Option<Ticks>) -> Vec<Order> {
        let here = |order: &&Order| order.side == side && order.is_active() && Market::takes_part(order, price);
        let mut crowd: Vec<Order> = self.orders.iter().filter(here).copied().collect();
        crowd.sort_by_key(|order| order.time);
        crowd
    }
}

impl ReferenceEngine {
    /// What an arriving order would trade, with whom in mind it would not.
    pub(super) fn cross_lots(&self, at: usize, taker: &Order, mode: SelfMatch) -> u64 {
        let market = &self.markets[at];
        let price = market.cross_price();
        if !Market::takes_part(taker, price) {
            return 0;
        }
        let mut there = 0;
        for resting in market.crowd(taker.side.opposite(), price) {
            if !must_not_meet(taker, mode, &resting) {
                there += resting.open;
            } else if mode != SelfMatch::CancelResting {
                break;
            }
        }
        there.min(taker.open)
    }

    /// Those who stand there already arrive one after another.
    pub(super) fn open_cross(&mut self, at: usize, out: &mut Vec<Event>) {
        let market = &mut self.markets[at];
        let price = market.cross_price();
        let mut crowd = market.crowd(Side::Buy, price);
        crowd.extend(market.crowd(Side::Sell, price));
        crowd.sort_by_key(|order| order.time);
        market.orders.retain(|order| crowd.iter().all(|arriving| arriving.id != order.id));
        let mut touched: Vec<Order> = Vec::new();
        for order in crowd {
            let mode = self.self_match_of(order.account);
            let (left, met_its_own) = self.cross_with(at, order, mode, true, &mut touched, out);
            if left.open > 0 && met_its_own {
                out.push(cancelled(self.markets[at].spec.id, &left, CancelReason::SelfMatch));
                touched.push(left);
            } else if left.open > 0 {
                self.markets[at].orders.push(left);
            }
            if left.open < order.open {
                touched.push(left);
            }
        }
        self.markets[at].tell_levels(touched.iter(), out);
    }

    /// An order that comes while the cross runs.
    pub(super) fn arrive(&mut self, at: usize, order: Order, mode: SelfMatch, out: &mut Vec<Event>) {
        let instrument = self.markets[at].spec.id;
        if order.tif == TimeInForce::FillOrKill && self.cross_lots(at, &order, mode) < order.open {
            out.push(cancelled(instrument, &order, CancelReason::FillOrKill));
            return;
        }
        let mut touched = Vec::new();
        let (left, met_its_own) = self.cross_with(at, order, mode, false, &mut touched, out);
        self.markets[at].tell_levels(touched.iter(), out);
        let waits_for_price = left.kind == Kind::Market && left.tif == TimeInForce::ClosingCross;
        if left.open == 0 {
        } else if met_its_own {
            out.push(cancelled(instrument, &left, CancelReason::SelfMatch));
        } else if left.acts_at_once() || (left.kind == Kind::Market && !waits_for_price) {
            out.push(cancelled(instrument, &left, CancelReason::ImmediateRemainder));
        } else {
            self.join(at, left, out);
        }
    }

    /// Trades an order with those who came before it; says what is left and whether it met its own.
    fn cross_with(
        &mut self,
        at: usize,
        mut taker: Order,
        mode: SelfMatch,
        stood: bool,
        touched: &mut Vec<Order>,
        out: &mut Vec<Event>,
    ) -> (Order, bool) {
        let instrument = self.markets[at].spec.id;
        let Some(price) = self.markets[at].cross_price().filter(|price| Market::takes_part(&taker, Some(*price)))
        else {
            return (taker, false);
        };
        for resting in self.markets[at].crowd(taker.side.opposite(), Some(price)) {
            if taker.open == 0 {
                break;
            }
            if must_not_meet(&taker, mode, &resting) {
                if cancels_resting(mode) {
                    self.markets[at].remove(resting.id);
                    out.push(cancelled(instrument, &resting, CancelReason::SelfMatch));
                    touched.push(resting);
                }
                if cancels_incoming(mode) {
                    return (taker, true);
                }
                continue;
            }
            let lots = taker.open.min(resting.open);
            let mut maker = self.markets[at].remove(resting.id);
            maker.open -= lots;
            taker.open -= lots;
            self.tell_trade(at, &maker, &taker, price, lots, TradeKind::Cross, out);
            shows_again(instrument, &mut maker, lots, out);
            if stood {
                shows_again(instrument, &mut taker, lots, out);
            }
            if maker.open > 0 {
                self.markets[at].orders.push(maker);
            }
            touched.push(maker);
            self.book_fill(at, &maker, &taker, price, lots, out);
        }
        (taker, false)
    }
}

/// What is left of an order shows as much as it may, without losing its time.
fn shows_again(instrument: pitwire_model::InstrumentId, order: &mut Order, traded: u64, out: &mut Vec<Event>) {
    let less = order.shown.saturating_sub(traded);
    order.shown = order.first_show();
    if order.open > 0 && order.shown > less && order.peak.is_some() {
        out.push(refreshed(instrument, order));
    }
}
