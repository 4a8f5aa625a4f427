//! Continuous trading of one incoming order: hidden orders, self-match prevention, icebergs, pro-rata, the breaker.

use pitwire_model::{
    AccountId, Allocation, CancelReason, Event, InstrumentId, Lots, OrderId, Phase, SelfMatch, Side, Ticks,
    TimeInForce, TradeKind, TradeSeq,
};

use super::closing::Breach;
use super::{Kind, Market, Order, Place, ReferenceEngine};

/// Why an incoming order trades no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing more to trade with, or nothing left.
    Done,
    /// An order of its own group stood before it.
    MetItsOwn,
    /// It is hidden, and less is left than it executes.
    BelowMinimum,
    Breached(Breach),
}

/// Who keeps whom from trading.
pub(super) fn must_not_meet(taker: &Order, mode: SelfMatch, resting: &Order) -> bool {
    mode != SelfMatch::Allow && taker.is_own(resting)
}

pub(super) fn cancels_resting(mode: SelfMatch) -> bool {
    matches!(mode, SelfMatch::CancelResting | SelfMatch::CancelBoth)
}

pub(super) fn cancels_incoming(mode: SelfMatch) -> bool {
    matches!(mode, SelfMatch::CancelIncoming | SelfMatch::CancelBoth)
}

pub(super) fn cancelled(instrument: InstrumentId, order: &Order, reason: CancelReason) -> Event {
    Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price: order.price,
        open: Lots(order.open),
        reason,
    }
}

/// Shares of `q` in proportion to what each has, rounded down; what is left over goes one lot each, in order, to those
/// not yet full.
pub(super) fn share(q: u64, of: &[u64]) -> Vec<u64> {
    let total: u64 = of.iter().sum();
    if q >= total {
        return of.to_vec();
    }
    let part = |has: &u64| u128::from(q) * u128::from(*has) / u128::from(total);
    let mut shares: Vec<u64> = of.iter().map(|has| u64::try_from(part(has)).expect("less than q")).collect();
    let mut left = q - shares.iter().sum::<u64>();
    while left > 0 {
        for (share, has) in shares.iter_mut().zip(of) {
            if left > 0 && *share < *has {
                *share += 1;
                left -= 1;
            }
        }
    }
    shares
}

impl Market {
    pub(super) fn tell_level(&self, side: Side, price: Ticks, out: &mut Vec<Event>) {
        let at_price = self.orders.iter().filter(|o| o.side == side && o.price == price && o.is_on_show());
        let lots = Lots(at_price.map(|order| order.shown).sum());
        out.push(Event::Level { instrument: self.spec.id, side, price, lots });
    }

    /// The level of an order that is, or was, on show.
    pub(super) fn tell_level_of(&self, order: &Order, out: &mut Vec<Event>) {
        if order.is_on_show() {
            self.tell_level(order.side, order.price, out);
        }
    }

    pub(super) fn remove(&mut self, id: OrderId) -> Order {
        let at = self.orders.iter().position(|order| order.id == id).expect("the caller has seen it");
        self.orders.remove(at)
    }

    /// At what price an incoming order meets a resting one, when these were the best prices before its first fill.
    pub(super) fn meeting_price(&self, resting: &Order, bb: Option<Ticks>, bo: Option<Ticks>) -> Ticks {
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
}

/// A walk of an incoming order through the other side.
struct Walk {
    taker: Order,
    mode: SelfMatch,
    bb: Option<Ticks>,
    bo: Option<Ticks>,
    frozen: Option<Ticks>,
    passed: Vec<OrderId>,
    /// A visible level that changed and was not told yet.
    changed: Option<Ticks>,
}

impl ReferenceEngine {
    /// Lets an order act in continuous trading; says whether the breaker ended it all.
    pub(super) fn act(&mut self, at: usize, order: Order, mode: SelfMatch, out: &mut Vec<Event>) -> bool {
        let instrument = self.markets[at].spec.id;
        if order.tif == TimeInForce::FillOrKill && self.reachable_lots(at, &order, mode) < order.open {
            out.push(cancelled(instrument, &order, CancelReason::FillOrKill));
            return false;
        }
        let (left, end) = self.aggress(at, order, mode, out);
        if let End::Breached(breach) = end {
            out.push(breach.event(instrument));
            self.leave_or_rest(at, left, CancelReason::Breaker, out);
            self.begin_breaker_call(at, out);
            return true;
        }
        match end {
            _ if left.open == 0 => {}
            End::MetItsOwn => out.push(cancelled(instrument, &left, CancelReason::SelfMatch)),
            End::BelowMinimum => out.push(cancelled(instrument, &left, CancelReason::BelowMinimumExecution)),
            _ => self.leave_or_rest(at, left, CancelReason::ImmediateRemainder, out),
        }
        false
    }

    fn leave_or_rest(&mut self, at: usize, left: Order, reason: CancelReason, out: &mut Vec<Event>) {
        if left.open == 0 {
        } else if left.kind == Kind::Market || left.acts_at_once() {
            out.push(cancelled(self.markets[at].spec.id, &left, reason));
        } else {
            self.join(at, left, out);
        }
    }

    /// Comes to the book without trading.
    pub(super) fn join(&mut self, at: usize, mut order: Order, out: &mut Vec<Event>) {
        order.place = Place::Active;
        order.shown = order.first_show();
        self.keep(at, order);
        self.markets[at].tell_level_of(&order, out);
    }

    /// Lives from now on, wherever it is.
    pub(super) fn keep(&mut self, at: usize, order: Order) {
        let market = &mut self.markets[at];
        market.orders.push(order);
        if !market.spec.is_spot() {
            let instrument = market.spec.id;
            self.accounts[order.account.0 as usize].holdings.entry(instrument).or_default();
        }
    }

    fn aggress(&mut self, at: usize, taker: Order, mode: SelfMatch, out: &mut Vec<Event>) -> (Order, End) {
        let market = &self.markets[at];
        let mut walk = Walk {
            taker,
            mode,
            bb: market.best(Side::Buy),
            bo: market.best(Side::Sell),
            frozen: market.dynamic,
            passed: Vec::new(),
            changed: None,
        };
        let other = taker.side.opposite();
        let end = loop {
            if walk.taker.open == 0 {
                break End::Done;
            }
            let queue = self.markets[at].queue(other);
            let next = queue.iter().find(|resting| !walk.passed.contains(&resting.id));
            let next = next.copied().filter(|resting| walk.taker.accepts(resting.price));
            let stays = next.is_some_and(|next| !next.is_hidden() && walk.changed == Some(next.price));
            if !stays && let Some(price) = walk.changed.take() {
                self.markets[at].tell_level(other, price, out);
            }
            let Some(next) = next else { break End::Done };
            let shares = self.markets[at].allocation() == Allocation::ProRata && !next.is_hidden();
            let met = if shares {
                self.meet_round(at, &mut walk, next.price, out)
            } else {
                self.meet(at, &mut walk, next, out)
            };
            if let Some(end) = met {
                break end;
            }
        };
        if let Some(price) = walk.changed {
            self.markets[at].tell_level(other, price, out);
        }
        (walk.taker, end)
    }

    /// One resting order; says why the walk ends, if it does.
    fn meet(&mut self, at: usize, walk: &mut Walk, next: Order, out: &mut Vec<Event>) -> Option<End> {
        let market = &mut self.markets[at];
        let there = if next.is_hidden() { next.open } else { next.shown };
        let lots = walk.taker.open.min(there);
        if next.is_hidden() && next.minimum > walk.taker.open {
            walk.passed.push(next.id);
            return None;
        }
        if walk.taker.is_hidden() && lots < walk.taker.minimum {
            return Some(End::Done);
        }
        let price = market.meeting_price(&next, walk.bb, walk.bo);
        if next.is_hidden() && !walk.taker.accepts(price) {
            walk.passed.push(next.id);
            return None;
        }
        if let Some(breach) = market.breach(Phase::Continuous, price, walk.frozen) {
            return Some(End::Breached(breach));
        }
        if must_not_meet(&walk.taker, walk.mode, &next) {
            if cancels_resting(walk.mode) {
                market.remove(next.id);
                out.push(cancelled(market.spec.id, &next, CancelReason::SelfMatch));
                walk.changed = (!next.is_hidden()).then_some(next.price).or(walk.changed);
            }
            return cancels_incoming(walk.mode).then_some(End::MetItsOwn);
        }
        self.fill(at, next.id, &mut walk.taker, lots, price, out);
        walk.changed = (!next.is_hidden()).then_some(next.price).or(walk.changed);
        let rest = self.markets[at].get(next.id).copied();
        if let Some(rest) = rest.filter(|rest| rest.is_hidden() && rest.open < rest.minimum) {
            self.markets[at].expel(rest.id, CancelReason::BelowMinimumExecution, out);
        }
        walk.falls_short()
    }

    /// What is on show at one price, in proportion.
    fn meet_round(&mut self, at: usize, walk: &mut Walk, price: Ticks, out: &mut Vec<Event>) -> Option<End> {
        let market = &mut self.markets[at];
        if let Some(breach) = market.breach(Phase::Continuous, price, walk.frozen) {
            return Some(End::Breached(breach));
        }
        let queue = market.visible_queue(walk.taker.side.opposite());
        let there: Vec<Order> = queue.into_iter().filter(|resting| resting.price == price).collect();
        let (own, others): (Vec<Order>, Vec<Order>) =
            there.into_iter().partition(|resting| must_not_meet(&walk.taker, walk.mode, resting));
        if !own.is_empty() {
            let leave = match walk.mode {
                SelfMatch::CancelResting => own.len(),
                SelfMatch::CancelBoth => 1,
                _ => 0,
            };
            for resting in &own[..leave] {
                market.remove(resting.id);
                out.push(cancelled(market.spec.id, resting, CancelReason::SelfMatch));
                walk.changed = Some(price);
            }
            if cancels_incoming(walk.mode) {
                return Some(End::MetItsOwn);
            }
        }
        let shown: Vec<u64> = others.iter().map(|resting| resting.shown).collect();
        if others.is_empty() {
            return None;
        }
        if walk.taker.is_hidden() && walk.taker.open.min(shown.iter().sum()) < walk.taker.minimum {
            return Some(End::Done);
        }
        for (resting, lots) in others.iter().zip(share(walk.taker.open, &shown)) {
            if lots > 0 {
                self.fill(at, resting.id, &mut walk.taker, lots, price, out);
                walk.changed = Some(price);
            }
        }
        walk.falls_short()
    }

    /// One fill of an aggression, at most what the maker shows.
    fn fill(&mut self, at: usize, maker: OrderId, taker: &mut Order, lots: u64, price: Ticks, out: &mut Vec<Event>) {
        taker.open -= lots;
        let mut after = self.markets[at].remove(maker);
        after.open -= lots;
        after.shown -= lots;
        self.tell_trade(at, &after, taker, price, lots, TradeKind::Continuous, out);
        self.markets[at].moves(price);
        if after.open > 0 && after.shown == 0 {
            self.refresh(at, &mut after, out);
        }
        if after.open > 0 {
            self.markets[at].orders.push(after);
        }
        self.book_fill(at, &after, taker, price, lots, out);
    }

    /// An iceberg's next part, last in the queue of its price.
    pub(super) fn refresh(&mut self, at: usize, order: &mut Order, out: &mut Vec<Event>) {
        order.time = self.next_time();
        order.shown = order.first_show();
        out.push(refreshed(self.markets[at].spec.id, order));
    }

    #[allow(clippy::too_many_arguments, reason = "a trade has that many sides")]
    pub(super) fn tell_trade(
        &mut self,
        at: usize,
        maker: &Order,
        taker: &Order,
        price: Ticks,
        lots: u64,
        kind: TradeKind,
        out: &mut Vec<Event>,
    ) {
        let now = self.now;
        let market = &mut self.markets[at];
        market.trades += 1;
        market.print(now, price, lots, kind);
        out.push(Event::Trade {
            instrument: market.spec.id,
            trade_seq: TradeSeq(market.trades),
            price,
            lots: Lots(lots),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(maker.open),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(taker.open),
            kind,
        });
    }

    /// Moves what the fill moves and counts it for both.
    pub(super) fn book_fill(
        &mut self,
        at: usize,
        maker: &Order,
        taker: &Order,
        price: Ticks,
        lots: u64,
        out: &mut Vec<Event>,
    ) {
        let instrument = self.markets[at].spec.id;
        self.settle_money(instrument, [(taker.account, taker.side), (maker.account, maker.side)], price, lots);
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

    /// What the order would trade with, price by price, if it came in now.
    pub(super) fn would_trade(&self, at: usize, taker: &Order, mode: SelfMatch) -> Vec<(Ticks, u64)> {
        let market = &self.markets[at];
        let (bb, bo) = (market.best(Side::Buy), market.best(Side::Sell));
        let mut fills = Vec::new();
        let mut left = taker.open;
        for (price, orders) in market.levels(taker.side.opposite()) {
            if left == 0 || !taker.accepts(price) {
                break;
            }
            let (hidden, shown): (Vec<Order>, Vec<Order>) = orders.into_iter().partition(Order::is_hidden);
            if !shown.is_empty() {
                if market.breach(Phase::Continuous, price, market.dynamic).is_some() {
                    break;
                }
                let own = shown.iter().position(|order| must_not_meet(taker, mode, order));
                let stops = own.filter(|_| mode != SelfMatch::CancelResting);
                let there: u64 = match stops {
                    Some(_) if market.allocation() == Allocation::ProRata => 0,
                    // Each part that follows a shown one stands behind the order that stops the incoming one.
                    Some(own) => shown[..own].iter().map(|order| order.shown).sum(),
                    None => shown.iter().filter(|o| !must_not_meet(taker, mode, o)).map(|o| o.open).sum(),
                };
                take(&mut fills, &mut left, price, there);
                if stops.is_some() {
                    break;
                }
            }
            for order in hidden {
                let price = market.meeting_price(&order, bb, bo);
                if left == 0 || order.minimum > left || !taker.accepts(price) {
                    continue;
                }
                if market.breach(Phase::Continuous, price, market.dynamic).is_some() {
                    return fills;
                }
                if !must_not_meet(taker, mode, &order) {
                    take(&mut fills, &mut left, price, order.open);
                } else if mode != SelfMatch::CancelResting {
                    return fills;
                }
            }
        }
        fills
    }

    pub(super) fn reachable_lots(&self, at: usize, taker: &Order, mode: SelfMatch) -> u64 {
        self.would_trade(at, taker, mode).iter().map(|(_, lots)| lots).sum()
    }
}

impl Walk {
    fn falls_short(&self) -> Option<End> {
        let taker = &self.taker;
        (taker.is_hidden() && taker.open > 0 && taker.open < taker.minimum).then_some(End::BelowMinimum)
    }
}

pub(super) fn refreshed(instrument: InstrumentId, order: &Order) -> Event {
    Event::Refreshed {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price: order.price,
        shown: Lots(order.shown),
    }
}

fn take(fills: &mut Vec<(Ticks, u64)>, left: &mut u64, price: Ticks, there: u64) {
    let taken = there.min(*left);
    if taken > 0 {
        fills.push((price, taken));
    }
    *left -= taken;
}
