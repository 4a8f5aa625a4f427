//! Matches one incoming order in continuous trading: hidden orders, self-match prevention,
//! icebergs, pro-rata allocation and price controls.

use pitwire_model::{Allocation, CancelReason, Event, OrderId, Phase, SelfMatch, Side, Ticks, TradeKind};

use crate::breach::ReferenceBreach;
use crate::fills::{publish_trade, refill_iceberg, settle_fill};
use crate::order::{ReferenceOrder, cancelled};
use crate::reach::{cancels_incoming, cancels_resting, is_self_match};
use crate::state::VenueState;

/// Why matching of an incoming order ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// Nothing is left to trade, or nothing to trade with.
    Done,
    /// Self-match prevention cancels the incoming order.
    SelfMatchPrevented,
    /// Less than its minimum execution is left of a hidden order.
    BelowMinimum,
    Breached(ReferenceBreach),
}

/// Splits `q` lots in proportion to `of`, rounded down. The rest goes one lot at a time, in order,
/// to the orders that have lots left.
pub fn pro_rata_shares(q: u64, of: &[u64]) -> Vec<u64> {
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

/// The state of one incoming order while it is matched.
pub struct BookWalk {
    pub taker: ReferenceOrder,
    pub mode: SelfMatch,
    pub bb: Option<Ticks>,
    pub bo: Option<Ticks>,
    pub frozen: Option<Ticks>,
    pub passed: Vec<OrderId>,
    /// A visible level that changed and is not published yet.
    pub changed: Option<Ticks>,
}

pub fn match_order(
    venue: &mut VenueState,
    at: usize,
    taker: ReferenceOrder,
    mode: SelfMatch,
    out: &mut Vec<Event>,
) -> (ReferenceOrder, WalkEnd) {
    let market = &venue.markets[at];
    let mut walk = BookWalk {
        taker,
        mode,
        bb: market.best(Side::Buy),
        bo: market.best(Side::Sell),
        frozen: market.prices.dynamic,
        passed: Vec::new(),
        changed: None,
    };
    let other = taker.side.opposite();
    let end = loop {
        if walk.taker.open == 0 {
            break WalkEnd::Done;
        }
        let queue = venue.markets[at].queue(other);
        let next = queue.iter().find(|resting| !walk.passed.contains(&resting.id));
        let next = next.copied().filter(|resting| walk.taker.accepts(resting.price));
        let stays = next.is_some_and(|next| !next.is_hidden() && walk.changed == Some(next.price));
        if !stays && let Some(price) = walk.changed.take() {
            venue.markets[at].publish_level(other, price, out);
        }
        let Some(next) = next else { break WalkEnd::Done };
        let shares = venue.markets[at].allocation() == Allocation::ProRata && !next.is_hidden();
        let met = if shares {
            match_pro_rata(venue, at, &mut walk, next.price, out)
        } else {
            match_resting(venue, at, &mut walk, next, out)
        };
        if let Some(end) = met {
            break end;
        }
    };
    if let Some(price) = walk.changed {
        venue.markets[at].publish_level(other, price, out);
    }
    (walk.taker, end)
}

/// Matches one resting order. Returns why matching ends, if it does.
fn match_resting(
    venue: &mut VenueState,
    at: usize,
    walk: &mut BookWalk,
    next: ReferenceOrder,
    out: &mut Vec<Event>,
) -> Option<WalkEnd> {
    let most = if next.reduce_only { venue.room(next.account, venue.markets[at].spec.id, next.side) } else { u64::MAX };
    let market = &mut venue.markets[at];
    if most == 0 {
        market.remove(next.id);
        out.push(cancelled(market.spec.id, &next, CancelReason::ReduceOnly));
        walk.changed = Some(next.price);
        return None;
    }
    let there = if next.is_hidden() { next.open } else { next.shown };
    let lots = walk.taker.open.min(there).min(most);
    if next.is_hidden() && next.minimum > walk.taker.open {
        walk.passed.push(next.id);
        return None;
    }
    if walk.taker.is_hidden() && lots < walk.taker.minimum {
        return Some(WalkEnd::Done);
    }
    let price = market.meeting_price(&next, walk.bb, walk.bo);
    if next.is_hidden() && !walk.taker.accepts(price) {
        walk.passed.push(next.id);
        return None;
    }
    if let Some(breach) = market.breach(Phase::Continuous, price, walk.frozen) {
        return Some(WalkEnd::Breached(breach));
    }
    if is_self_match(&walk.taker, walk.mode, &next) {
        if cancels_resting(walk.mode) {
            market.remove(next.id);
            out.push(cancelled(market.spec.id, &next, CancelReason::SelfMatch));
            walk.changed = (!next.is_hidden()).then_some(next.price).or(walk.changed);
        }
        return cancels_incoming(walk.mode).then_some(WalkEnd::SelfMatchPrevented);
    }
    fill_resting(venue, at, next.id, &mut walk.taker, lots, price, out);
    walk.changed = (!next.is_hidden()).then_some(next.price).or(walk.changed);
    let rest = venue.markets[at].get(next.id).copied();
    if let Some(rest) = rest.filter(|rest| rest.is_hidden() && rest.open < rest.minimum) {
        venue.markets[at].cancel(rest.id, CancelReason::BelowMinimumExecution, out);
    }
    walk.falls_short()
}

/// Matches all visible orders at one price in proportion to their displayed lots.
fn match_pro_rata(
    venue: &mut VenueState,
    at: usize,
    walk: &mut BookWalk,
    price: Ticks,
    out: &mut Vec<Event>,
) -> Option<WalkEnd> {
    let market = &mut venue.markets[at];
    if let Some(breach) = market.breach(Phase::Continuous, price, walk.frozen) {
        return Some(WalkEnd::Breached(breach));
    }
    let queue = market.visible_queue(walk.taker.side.opposite());
    let there: Vec<ReferenceOrder> = queue.into_iter().filter(|resting| resting.price == price).collect();
    let (own, others): (Vec<ReferenceOrder>, Vec<ReferenceOrder>) =
        there.into_iter().partition(|resting| is_self_match(&walk.taker, walk.mode, resting));
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
            return Some(WalkEnd::SelfMatchPrevented);
        }
    }
    let shown: Vec<u64> = others.iter().map(|resting| resting.shown).collect();
    if others.is_empty() {
        return None;
    }
    if walk.taker.is_hidden() && walk.taker.open.min(shown.iter().sum()) < walk.taker.minimum {
        return Some(WalkEnd::Done);
    }
    for (resting, lots) in others.iter().zip(pro_rata_shares(walk.taker.open, &shown)) {
        if lots > 0 {
            fill_resting(venue, at, resting.id, &mut walk.taker, lots, price, out);
            walk.changed = Some(price);
        }
    }
    walk.falls_short()
}

/// Fills a resting order with at most its displayed lots.
fn fill_resting(
    venue: &mut VenueState,
    at: usize,
    maker: OrderId,
    taker: &mut ReferenceOrder,
    lots: u64,
    price: Ticks,
    out: &mut Vec<Event>,
) {
    taker.open -= lots;
    let mut after = venue.markets[at].remove(maker);
    after.open -= lots;
    after.shown -= lots;
    publish_trade(venue, at, &after, taker, price, lots, TradeKind::Continuous, out);
    venue.markets[at].set_last_price(price);
    if after.open > 0 && after.shown == 0 {
        refill_iceberg(venue, at, &mut after, out);
    }
    if after.open > 0 {
        venue.markets[at].orders.push(after);
    }
    settle_fill(venue, at, &after, taker, price, lots, out);
}

impl BookWalk {
    pub fn falls_short(&self) -> Option<WalkEnd> {
        let taker = &self.taker;
        (taker.is_hidden() && taker.open > 0 && taker.open < taker.minimum).then_some(WalkEnd::BelowMinimum)
    }
}
