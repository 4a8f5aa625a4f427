//! Trading an incoming order against the book: price, then time, self-match prevention, icebergs, the throttle.

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, OrderId, SelfMatch, Side, Ticks, TradeKind, TradeSeq,
};

use super::{Market, Order, ReferenceEngine};

/// An order on its way into the book.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub order: Order,
    /// The worst price at which it trades; none is any.
    pub limit: Option<Ticks>,
    pub mode: SelfMatch,
    /// It was stopped by an order of its own group.
    pub met_its_own: bool,
}

impl Incoming {
    fn reaches(&self, price: Ticks) -> bool {
        self.limit.is_none_or(|limit| match self.order.side {
            Side::Buy => price <= limit,
            Side::Sell => price >= limit,
        })
    }

    fn must_not_meet(&self, resting: &Order) -> bool {
        self.mode != SelfMatch::Allow && self.order.is_own(resting)
    }
}

impl Market {
    pub(super) fn tell_level(&self, side: Side, price: Ticks, out: &mut Vec<Event>) {
        let at_price = self.orders.iter().filter(|order| order.side == side && order.price == price);
        let lots = Lots(at_price.map(|order| order.shown).sum());
        out.push(Event::Level { instrument: self.spec.id, side, price, lots });
    }

    pub(super) fn tell_change(&mut self, out: &mut Vec<Event>) {
        self.change_id += 1;
        out.push(Event::BookChanged { instrument: self.spec.id, change_id: self.change_id });
    }

    pub(super) fn remove(&mut self, id: OrderId) -> Order {
        let at = self.orders.iter().position(|order| order.id == id).expect("the caller has seen it");
        self.orders.remove(at)
    }
}

pub(super) fn cancelled(instrument: InstrumentId, order: &Order, price: Ticks, reason: CancelReason) -> Event {
    Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price,
        open: Lots(order.open),
        reason,
    }
}

impl ReferenceEngine {
    /// Trades an order as far as its limit and its quantity go; returns it as it is then.
    pub(super) fn trade(&mut self, instrument: InstrumentId, mut taker: Incoming, out: &mut Vec<Event>) -> Incoming {
        let other = taker.order.side.opposite();
        while taker.order.open > 0 && !taker.met_its_own {
            let best = self.markets[instrument.0 as usize].best(other);
            let Some(price) = best.filter(|price| taker.reaches(*price)) else { break };
            if self.trade_at(instrument, price, &mut taker, out) {
                self.markets[instrument.0 as usize].tell_level(other, price, out);
            }
        }
        taker
    }

    /// One level, order after order; says whether anything changed there.
    fn trade_at(&mut self, instrument: InstrumentId, price: Ticks, taker: &mut Incoming, out: &mut Vec<Event>) -> bool {
        let mut changed = false;
        while taker.order.open > 0 {
            let market = &mut self.markets[instrument.0 as usize];
            let Some(maker) = market.first_at(taker.order.side.opposite(), price) else { break };
            if taker.must_not_meet(&maker) {
                if matches!(taker.mode, SelfMatch::CancelResting | SelfMatch::CancelBoth) {
                    market.remove(maker.id);
                    out.push(cancelled(instrument, &maker, maker.price, CancelReason::SelfMatch));
                    changed = true;
                }
                if matches!(taker.mode, SelfMatch::CancelIncoming | SelfMatch::CancelBoth) {
                    taker.met_its_own = true;
                    break;
                }
            } else {
                self.fill(instrument, &maker, &mut taker.order, out);
                changed = true;
            }
        }
        changed
    }

    fn fill(&mut self, instrument: InstrumentId, maker: &Order, taker: &mut Order, out: &mut Vec<Event>) {
        let lots = maker.shown.min(taker.open);
        taker.open -= lots;
        let mut after = *maker;
        after.open -= lots;
        after.shown -= lots;
        let market = &mut self.markets[instrument.0 as usize];
        market.trades += 1;
        market.last = Some(maker.price);
        market.remove(maker.id);
        out.push(Event::Trade {
            instrument,
            trade_seq: TradeSeq(market.trades),
            price: maker.price,
            lots: Lots(lots),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(after.open),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(taker.open),
            kind: TradeKind::Continuous,
        });
        if after.open > 0 && after.shown == 0 {
            self.arrivals += 1;
            after.arrival = self.arrivals;
            after.shown = after.peak.map_or(after.open, |peak| peak.0.min(after.open));
            out.push(Event::Refreshed {
                order: after.id,
                account: after.account,
                instrument,
                side: after.side,
                price: after.price,
                shown: Lots(after.shown),
            });
        }
        if after.open > 0 {
            self.markets[instrument.0 as usize].orders.push(after);
        }
        let parties = [(taker.account, taker.side), (maker.account, maker.side)];
        self.settle(instrument, parties, maker.price, lots);
        self.count_execution(maker.account, out);
        self.count_execution(taker.account, out);
    }

    fn count_execution(&mut self, account: AccountId, out: &mut Vec<Event>) {
        let now = self.now.0;
        let holder = &mut self.accounts[account.0 as usize];
        let Some(throttle) = holder.spec.settings.throttle else { return };
        let window = now / throttle.window_ns;
        if window != holder.window {
            (holder.window, holder.executions) = (window, 0);
        }
        holder.executions += 1;
        if holder.executions > throttle.executions && !holder.throttled {
            holder.throttled = true;
            out.push(Event::ThrottleTripped { account });
        }
    }

    /// Joins the end of its queue.
    pub(super) fn rest(&mut self, instrument: InstrumentId, mut order: Order, out: &mut Vec<Event>) {
        self.arrivals += 1;
        order.arrival = self.arrivals;
        order.shown = order.peak.map_or(order.open, |peak| peak.0.min(order.open));
        let market = &mut self.markets[instrument.0 as usize];
        market.orders.push(order);
        market.tell_level(order.side, order.price, out);
        if !market.spec.is_spot() {
            self.accounts[order.account.0 as usize].holdings.entry(instrument).or_default();
        }
    }

    /// What the order would trade with, price by price, if it came in now.
    pub(super) fn would_trade(&self, instrument: InstrumentId, taker: &Incoming) -> Vec<(Ticks, u64)> {
        let mut fills = Vec::new();
        let mut left = taker.order.open;
        for (price, orders) in self.markets[instrument.0 as usize].levels(taker.order.side.opposite()) {
            if left == 0 || !taker.reaches(price) {
                break;
            }
            let own = orders.iter().position(|order| taker.must_not_meet(order));
            let stops = own.filter(|_| taker.mode != SelfMatch::CancelResting);
            let there: u64 = match stops {
                // Each part that follows a shown one stands behind the order that stops the incoming one.
                Some(own) => orders[..own].iter().map(|order| order.shown).sum(),
                None => orders.iter().filter(|order| !taker.must_not_meet(order)).map(|order| order.open).sum(),
            };
            let taken = left.min(there);
            if taken > 0 {
                fills.push((price, taken));
            }
            left -= taken;
            if stops.is_some() {
                break;
            }
        }
        fills
    }

    pub(super) fn reachable_lots(&self, instrument: InstrumentId, taker: &Incoming) -> u64 {
        self.would_trade(instrument, taker).iter().map(|(_, lots)| lots).sum()
    }
}
