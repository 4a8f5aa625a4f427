//! One price for many: the filter over hidden orders, the price by trying all, the allocation, the execution.

use pitwire_model::{Allocation, CancelReason, Event, Lots, OrderId, Phase, Side, Ticks, TradeKind};

use super::closing::Breach;
use super::matching::share;
use super::{Kind, Market, Order, ReferenceEngine};

/// A settling has no more side passes, however many hidden orders there are.
const MOST_PASSES: usize = 64;

/// What an order brings to an uncross.
#[derive(Clone, Copy, Debug)]
struct Interest {
    order: Order,
    /// How much of it can execute.
    e: u64,
}

/// Both sides, each first to trade first.
#[derive(Clone, Debug)]
struct Interests {
    bids: Vec<Interest>,
    offers: Vec<Interest>,
}

/// What the public hears of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Indicated {
    pub price: Option<Ticks>,
    pub volume: u64,
    pub imbalance: i64,
}

/// Trades to be, and where.
struct Plan {
    price: Ticks,
    pairs: Vec<(OrderId, OrderId, u64)>,
}

/// What became of a try to filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filtered {
    Traded,
    Nothing,
    Breached,
}

fn sum<'a>(interests: impl IntoIterator<Item = &'a Interest>) -> u64 {
    interests.into_iter().map(|interest| interest.e).sum()
}

impl Interests {
    fn of(market: &Market, takes_part: impl Fn(&Order) -> bool) -> Interests {
        let side = |side: Side| {
            let here = |order: &&Order| order.side == side && order.is_active() && takes_part(order);
            let mut orders: Vec<Order> = market.orders.iter().filter(here).copied().collect();
            orders.sort_by_key(|order| {
                let price = order.limit().map(|limit| if side == Side::Buy { -limit.0 } else { limit.0 });
                (price, order.is_hidden(), order.time) // no limit comes first
            });
            orders.into_iter().map(|order| Interest { order, e: order.open }).collect()
        };
        Interests { bids: side(Side::Buy), offers: side(Side::Sell) }
    }

    fn side(&self, side: Side) -> &[Interest] {
        if side == Side::Buy { &self.bids } else { &self.offers }
    }

    /// Works the minimum executions out, each side in turn until two in a row change nothing.
    fn settle_minimums(&mut self) {
        let hidden = self.bids.iter().chain(&self.offers).filter(|interest| interest.order.is_hidden()).count();
        let mut side = if sum(&self.bids) >= sum(&self.offers) { Side::Buy } else { Side::Sell };
        let mut quiet = 0;
        for _ in 0..(4 + 2 * hidden).min(MOST_PASSES) {
            quiet = if self.pass(side) { 0 } else { quiet + 1 };
            if quiet == 2 {
                return;
            }
            side = side.opposite();
        }
        for interest in self.bids.iter_mut().chain(&mut self.offers).filter(|i| i.order.is_hidden()) {
            interest.e = 0;
        }
    }

    /// Whether it changed anything.
    fn pass(&mut self, side: Side) -> bool {
        let contra = self.side(side.opposite()).to_vec();
        let walked = if side == Side::Buy { &mut self.bids } else { &mut self.offers };
        let (mut ahead, mut changed) = (0_i128, false);
        for interest in walked {
            if interest.order.is_hidden() {
                let meets = |other: &&Interest| other.order.limit().is_none_or(|limit| interest.order.accepts(limit));
                let avail = i128::from(sum(contra.iter().filter(meets))) - ahead;
                let enough = avail >= i128::from(interest.order.minimum);
                let e = if enough { avail.min(i128::from(interest.order.open)) } else { 0 };
                let e = u64::try_from(e).expect("a minimum is at least one lot");
                changed |= e != interest.e;
                interest.e = e;
            }
            ahead += i128::from(interest.e);
        }
        changed
    }

    /// What executes at a price.
    fn at(&self, side: Side, price: Ticks) -> u64 {
        sum(self.side(side).iter().filter(|interest| interest.order.accepts(price)))
    }

    fn volume(&self, price: Ticks) -> u64 {
        self.at(Side::Buy, price).min(self.at(Side::Sell, price))
    }

    fn surplus(&self, price: Ticks) -> i128 {
        i128::from(self.at(Side::Buy, price)) - i128::from(self.at(Side::Sell, price))
    }

    /// Every limit that something can execute at, ascending.
    fn candidates(&self) -> Vec<Ticks> {
        let all = self.bids.iter().chain(&self.offers).filter(|interest| interest.e > 0);
        let mut prices: Vec<Ticks> = all.filter_map(|interest| interest.order.limit()).collect();
        prices.sort();
        prices.dedup();
        prices
    }

    /// The price of a call.
    fn call_price(&self, reference: Option<Ticks>) -> Option<Ticks> {
        let all = self.candidates();
        if all.is_empty() {
            return reference.filter(|_| sum(&self.bids) > 0 && sum(&self.offers) > 0);
        }
        let most = all.iter().map(|price| self.volume(*price)).max().filter(|most| *most > 0)?;
        let kept: Vec<Ticks> = all.into_iter().filter(|price| self.volume(*price) == most).collect();
        let least = kept.iter().map(|price| self.surplus(*price).abs()).min()?;
        let kept: Vec<Ticks> = kept.into_iter().filter(|price| self.surplus(*price).abs() == least).collect();
        let (lowest, highest) = (*kept.first()?, *kept.last()?);
        if kept.iter().all(|price| self.surplus(*price) > 0) {
            return Some(highest);
        }
        if kept.iter().all(|price| self.surplus(*price) < 0) {
            return Some(lowest);
        }
        Some(reference.map_or(Ticks((lowest.0 + highest.0) / 2), |reference| reference.clamp(lowest, highest)))
    }

    /// Who gets how much of a side, first to trade first.
    fn allocate(&self, market: &Market, side: Side, price: Ticks, volume: u64, shares: bool) -> Vec<(OrderId, u64)> {
        let takers: Vec<Interest> =
            self.side(side).iter().filter(|i| i.e > 0 && i.order.accepts(price)).copied().collect();
        let mut left = volume;
        let mut allocated = Vec::new();
        let mut give = |interest: &Interest, lots: u64| {
            allocated.push((interest.order.id, lots));
            lots
        };
        let at_price = |i: &Interest| shares && i.order.limit() == Some(price) && !i.order.is_hidden();
        let rounds: Vec<Vec<Interest>> = takers.iter().filter(|i| at_price(i)).fold(Vec::new(), |mut rounds, i| {
            let batch = |i: &Interest| market.batch_of(&i.order);
            match rounds.last_mut() {
                Some(round) if market.allocation() == Allocation::ProRata || batch(&round[0]) == batch(i) => {
                    round.push(*i);
                }
                _ => rounds.push(vec![*i]),
            }
            rounds
        });
        for interest in takers.iter().filter(|i| !(at_price(i) || shares && is_hidden_at(i, price))) {
            left -= give(interest, interest.e.min(left));
        }
        for round in rounds {
            let of: Vec<u64> = round.iter().map(|interest| interest.e).collect();
            for (interest, lots) in round.iter().zip(share(left, &of)) {
                left -= give(interest, lots);
            }
        }
        for interest in takers.iter().filter(|i| shares && is_hidden_at(i, price)) {
            left -= give(interest, interest.e.min(left));
        }
        allocated.into_iter().filter(|(_, lots)| *lots > 0).collect()
    }

    /// `shares`: the side with too much shares at the price, where priority would serve it in turn.
    fn plan(&self, market: &Market, price: Ticks, shares: bool) -> Plan {
        let volume = self.volume(price);
        let side = |side: Side| {
            let shares = shares && self.at(side, price) > volume;
            self.allocate(market, side, price, volume, shares)
        };
        let (mut buys, mut sells) = (side(Side::Buy), side(Side::Sell));
        let mut pairs = Vec::new();
        while let (Some(buy), Some(sell)) = (buys.first_mut(), sells.first_mut()) {
            let lots = buy.1.min(sell.1);
            pairs.push((buy.0, sell.0, lots));
            (buy.1, sell.1) = (buy.1 - lots, sell.1 - lots);
            buys.retain(|(_, left)| *left > 0);
            sells.retain(|(_, left)| *left > 0);
        }
        Plan { price, pairs }
    }
}

fn is_hidden_at(interest: &Interest, price: Ticks) -> bool {
    interest.order.is_hidden() && interest.order.price == price
}

impl Market {
    /// How many batches had ended when the order got its time.
    fn batch_of(&self, order: &Order) -> usize {
        self.batch_ends.iter().filter(|end| **end < order.time).count()
    }

    /// What a call would come to now, by what everybody may know.
    pub(super) fn indicated(&self) -> Indicated {
        let interests = Interests::of(self, |order| !order.is_hidden());
        let Some(price) = interests.call_price(self.reference()) else { return Indicated::default() };
        let imbalance = i64::try_from(interests.surplus(price)).expect("orders of 32 bits");
        Indicated { price: Some(price), volume: interests.volume(price), imbalance }
    }
}

impl ReferenceEngine {
    /// Ends a call at its price, if it has one. A breach leaves everything as it is.
    pub(super) fn uncross(&mut self, at: usize, call: Phase, out: &mut Vec<Event>) -> Result<Option<Ticks>, Breach> {
        let market = &self.markets[at];
        let mut interests = Interests::of(market, |_| true);
        interests.settle_minimums();
        let Some(price) = interests.call_price(market.reference()) else { return Ok(None) };
        if interests.volume(price) == 0 {
            return Ok(None);
        }
        if call != Phase::VolatilityCall
            && let Some(breach) = market.breach(call, price, market.dynamic)
        {
            return Err(breach);
        }
        let shares = match market.allocation() {
            Allocation::PriceTime => false,
            Allocation::ProRata => true,
            Allocation::FrequentBatch => call == Phase::Continuous,
        };
        let plan = interests.plan(market, price, shares);
        self.execute(at, &plan, TradeKind::Call(call), out);
        Ok(Some(price))
    }

    /// Filter and uncross; with `only`, not unless that order gets something.
    pub(super) fn filter(&mut self, at: usize, only: Option<OrderId>, out: &mut Vec<Event>) -> Filtered {
        let market = &self.markets[at];
        let (bids, offers) = (market.queue(Side::Buy), market.queue(Side::Sell));
        let (Some(bid), Some(offer)) = (bids.first(), offers.first()) else { return Filtered::Nothing };
        if bid.price < offer.price {
            return Filtered::Nothing;
        }
        let (bid, offer) = (bid.price, offer.price);
        let mut interests = Interests::of(market, |order| {
            order.has_price() && if order.side == Side::Buy { order.price >= offer } else { order.price <= bid }
        });
        interests.settle_minimums();
        let candidates = interests.candidates();
        let most = candidates.iter().map(|price| interests.volume(*price)).max().unwrap_or(0);
        if most == 0 {
            return Filtered::Nothing;
        }
        let kept: Vec<Ticks> = candidates.into_iter().filter(|price| interests.volume(*price) == most).collect();
        let (lo, hi) = (kept[0], kept[kept.len() - 1]);
        let wanted = match (market.best(Side::Buy), market.best(Side::Sell)) {
            (Some(bb), Some(bo)) => Some(Ticks((bb.0 + bo.0) / 2)),
            (one, other) => one.or(other).or_else(|| market.reference()),
        };
        let price = wanted.map_or(Ticks((lo.0 + hi.0) / 2), |wanted| wanted.clamp(lo, hi));
        let plan = interests.plan(market, price, false);
        if only.is_some_and(|only| plan.pairs.iter().all(|(buy, sell, _)| *buy != only && *sell != only)) {
            return Filtered::Nothing;
        }
        if let Some(breach) = market.breach(Phase::Continuous, price, market.dynamic) {
            out.push(breach.event(market.spec.id));
            self.begin_breaker_call(at, out);
            return Filtered::Breached;
        }
        self.execute(at, &plan, TradeKind::Filter, out);
        Filtered::Traded
    }

    fn execute(&mut self, at: usize, plan: &Plan, kind: TradeKind, out: &mut Vec<Event>) {
        let instrument = self.markets[at].spec.id;
        let in_order = Interests::of(&self.markets[at], |_| true);
        let before: Vec<Order> = in_order.bids.iter().chain(&in_order.offers).map(|i| i.order).collect();
        for (buy, sell, lots) in &plan.pairs {
            for id in [buy, sell] {
                self.markets[at].get_mut(*id).open -= lots;
            }
            let (buyer, seller) = (*self.markets[at].get_mut(*buy), *self.markets[at].get_mut(*sell));
            let (maker, taker) = if buyer.time < seller.time { (buyer, seller) } else { (seller, buyer) };
            self.tell_trade(at, &maker, &taker, plan.price, *lots, kind, out);
            self.book_fill(at, &maker, &taker, plan.price, *lots, out);
        }
        let market = &mut self.markets[at];
        market.moves(plan.price);
        if let TradeKind::Call(call) = kind {
            market.fixed = Some(plan.price);
            market.uncross_price = Some(plan.price);
            let volume = Lots(plan.pairs.iter().map(|(_, _, lots)| lots).sum());
            out.push(Event::Uncrossed { instrument, call, price: plan.price, volume });
        }
        market.orders.retain(|order| order.open > 0);
        let traded: Vec<Order> = before
            .into_iter()
            .filter(|order| plan.pairs.iter().any(|(buy, sell, _)| *buy == order.id || *sell == order.id))
            .collect();
        self.tidy_up(at, &traded, out);
        self.markets[at].tell_levels(traded.iter(), out);
    }

    /// Hidden remainders that are too small, then icebergs. The orders are as they were before they traded.
    fn tidy_up(&mut self, at: usize, traded: &[Order], out: &mut Vec<Event>) {
        for order in traded.iter().filter(|order| order.is_hidden()) {
            if self.markets[at].get(order.id).is_some_and(|left| left.open < left.minimum) {
                self.markets[at].expel(order.id, CancelReason::BelowMinimumExecution, out);
            }
        }
        for order in traded.iter().filter(|order| order.kind == Kind::Limit) {
            let Some(mut left) = self.markets[at].get(order.id).copied() else { continue };
            let lots = order.open - left.open;
            if lots < order.shown {
                left.shown -= lots;
            } else {
                self.refresh(at, &mut left, out);
            }
            *self.markets[at].get_mut(order.id) = left;
        }
        for order in traded.iter().filter(|order| matches!(order.kind, Kind::Hidden | Kind::Market)) {
            if let Some(left) = self.markets[at].orders.iter_mut().find(|left| left.id == order.id) {
                left.shown = left.open;
            }
        }
    }
}

impl Market {
    /// The levels of these orders, bids best first, then offers best first, each once.
    pub(super) fn tell_levels<'a>(&self, orders: impl Iterator<Item = &'a Order>, out: &mut Vec<Event>) {
        let on_show = orders.filter(|order| order.kind == Kind::Limit);
        let mut levels: Vec<(Side, i64)> = on_show
            .map(|order| (order.side, if order.side == Side::Buy { -order.price.0 } else { order.price.0 }))
            .collect();
        levels.sort();
        levels.dedup();
        for (side, price) in levels {
            self.tell_level(side, Ticks(price.abs()), out);
        }
    }
}
