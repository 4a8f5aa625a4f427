//! Checks one incoming order against the book in continuous trading (rulebook 7, 15.2).
//!
//! Does        compute the next step of the incoming order and compare the next event with it.
//! Holds       best prices and the dynamic reference are those from before its first fill.
//! Start at    [`check_matching`], then `next_match_step`.

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{
    AccountId, Allocation, CancelReason, Event, OrderId, Phase, SelfMatch, Side, Ticks, TimeInForce, TradeKind,
};

use crate::auction_prices::shares_of;
use crate::departures::{check_cancelled, check_departure};
use crate::limits::{ToleranceBreach, is_worse};
use crate::market::MarketState;
use crate::model::VenueModel;
use crate::order_updates::add_order;
use crate::orders::{LiveOrder, LiveOrderState};
use crate::reader::EventReader;
use crate::session_events::check_breach;
use crate::trades::{ExpectedTrade, check_after_fill, check_trade};
use crate::violation::{CheckResult, fail};

/// An incoming order with the market data from before its first fill.
#[derive(Clone, Copy, Debug)]
pub struct IncomingOrder {
    pub order: LiveOrder,
    /// The worst price at which it may trade: its limit, or its protection price.
    pub limit: Option<Ticks>,
    pub mode: SelfMatch,
    /// Whether its cost is already reserved.
    pub reserves: bool,
    /// Best visible prices before its first fill, without the order itself.
    pub bid: Option<Ticks>,
    pub offer: Option<Ticks>,
    pub dynamic: Option<Ticks>,
}

impl IncomingOrder {
    pub fn reaches(&self, price: Ticks) -> bool {
        self.limit.is_none_or(|limit| !is_worse(self.order.side, price, limit))
    }

    pub fn must_not_meet(&self, resting: &LiveOrder) -> bool {
        self.mode != SelfMatch::Allow && self.order.is_same_group(resting)
    }
}

/// The next step that the rules require of the incoming order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MatchStep {
    Trade {
        with: OrderId,
        price: Ticks,
        lots: u64,
    },
    /// Cancel a resting order of the same group, and continue.
    Remove(OrderId),
    /// Cancel a resting reduce-only order without room, and continue.
    Leave(OrderId),
    End(MatchEnd),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum MatchEnd {
    /// Nothing is left to trade, or nothing to trade with.
    Walked,
    /// Self-match prevention cancels the remainder. The resting order, if given, is cancelled
    /// first.
    Own(Option<OrderId>),
    Breach(ToleranceBreach),
}

pub fn incoming_order(model: &VenueModel, order: LiveOrder, mode: Option<SelfMatch>, reserves: bool) -> IncomingOrder {
    let market = &model.markets[order.instrument.0 as usize];
    IncomingOrder {
        order,
        limit: order.reach(),
        mode: mode.unwrap_or(model.definitions.accounts[order.account.0 as usize].settings.self_match),
        reserves,
        bid: market.book.best(Side::Buy),
        offer: market.book.best(Side::Sell),
        dynamic: market.prices.dynamic,
    }
}

/// Checks all trades of an incoming order and its remainder. Returns a breach after checking its
/// event. The caller then checks the volatility call.
///
/// # Errors
/// M2, M3 or M1 if the next trade is another one, missing or at another price, M5 if the remainder
/// is treated wrongly, M8 if a breach is missing or wrong.
pub fn check_matching(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    mut taker: IncomingOrder,
) -> CheckResult<Option<ToleranceBreach>> {
    reader.peek(model)?;
    if taker.order.tif == TimeInForce::FillOrKill {
        let there = reachable_lots(model, &taker);
        if there < taker.order.open {
            return check_fill_or_kill(model, reader, &taker, there).map(|()| None);
        }
    }
    let mut round = VecDeque::new();
    let end = loop {
        let step = round.pop_front().unwrap_or_else(|| next_match_step(model, &taker, &mut round));
        match step {
            MatchStep::Trade { with, price, lots } => {
                check_fill(model, reader, &mut taker, with, price, lots)?;
                if taker.order.open == 0 || (taker.order.open < taker.order.minimum && round.is_empty()) {
                    break MatchEnd::Walked;
                }
            }
            MatchStep::Remove(order) => check_self_match_cancel(model, reader, order, &taker)?,
            MatchStep::Leave(order) => check_departure(model, reader, order, CancelReason::ReduceOnly)?,
            MatchStep::End(end) => break end,
        }
    };
    if let MatchEnd::Own(Some(met)) = end {
        check_self_match_cancel(model, reader, met, &taker)?;
    }
    if let MatchEnd::Breach(breach) = end {
        check_breach(model, reader, taker.order.instrument, &breach)?;
    }
    check_remainder(model, reader, &taker, end)?;
    Ok(if let MatchEnd::Breach(breach) = end { Some(breach) } else { None })
}

fn check_fill(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    taker: &mut IncomingOrder,
    with: OrderId,
    price: Ticks,
    lots: u64,
) -> CheckResult {
    let Some(maker) = model.orders.get(&with).copied() else { return Ok(()) };
    let kind = TradeKind::Continuous;
    let deal = ExpectedTrade { maker, taker: taker.order, price, lots, kind, taker_reserves: taker.reserves };
    check_trade(model, reader, &deal)?;
    taker.order.open -= lots;
    check_after_fill(model, reader, &maker, lots)
}

/// Checks that self-match prevention cancels a resting order.
fn check_self_match_cancel(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    order: OrderId,
    taker: &IncomingOrder,
) -> CheckResult {
    if let Some(Event::Trade { trade_seq, maker, .. }) = reader.peek(model)?
        && *maker == order
    {
        fail!(M11, "trade {trade_seq} is with order {order}, of the same member as order {}", taker.order.id);
    }
    check_departure(model, reader, order, CancelReason::SelfMatch)
}

/// Checks the remainder of an order that has acted: it rests, or expires with the expected reason.
fn check_remainder(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    taker: &IncomingOrder,
    end: MatchEnd,
) -> CheckResult {
    let order = LiveOrder { mode: None, ..taker.order };
    if order.open == 0 {
        return Ok(());
    }
    let reason = match end {
        MatchEnd::Own(_) => Some(CancelReason::SelfMatch),
        _ if order.is_hidden() && order.open < order.minimum => Some(CancelReason::BelowMinimumExecution),
        MatchEnd::Breach(_) if order.is_market() || order.is_immediate() => Some(CancelReason::Breaker),
        _ if order.is_market() || order.is_immediate() => Some(CancelReason::ImmediateRemainder),
        _ => None,
    };
    check_no_further_trade(model, reader, taker, end)?;
    let Some(reason) = reason else {
        let order = LiveOrder { place: LiveOrderState::Active, shown: order.displayed_lots(), ..order };
        if let Some(Event::Cancelled { order: actual, reason, .. }) = reader.peek(model)?
            && *actual == order.id
        {
            fail!(M5, "order {actual} expired ({reason:?}) and should rest or be filled");
        }
        add_order(model, reader, order);
        return Ok(());
    };
    check_cancelled(model, reader, &order, reason)?;
    if taker.reserves {
        model.ledger.release(order.account, model.order_cost(&order, order.open));
    }
    Ok(())
}

/// Checks that an order whose matching has ended does not trade again.
fn check_no_further_trade(
    model: &VenueModel,
    reader: &mut EventReader<'_>,
    taker: &IncomingOrder,
    end: MatchEnd,
) -> CheckResult {
    let Some(Event::Trade { trade_seq, price, maker, taker: actual, kind, .. }) = reader.peek(model)? else {
        return Ok(());
    };
    let (order, resting) = (&taker.order, model.orders.get(maker));
    if *actual != order.id || *kind != TradeKind::Continuous {
        return Ok(());
    }
    if matches!(end, MatchEnd::Own(_)) {
        fail!(M11, "trade {trade_seq} of order {actual}, after it met an order of the same member");
    }
    if let MatchEnd::Breach(breach) = end {
        fail!(M8, "trade {trade_seq} at {price}, after a breach: {breach:?}");
    }
    if !taker.reaches(*price) {
        fail!(M1, "trade {trade_seq} at {price} is worse than the limit of order {actual}");
    }
    let least = resting.map_or(0, |resting| resting.minimum).max(order.minimum);
    fail!(
        M5,
        "trade {trade_seq} at {price} of order {actual}, which had no more to trade with: {} left, minimum {least}",
        order.open
    )
}

/// Checks that a fill-or-kill order that finds only `there` lots is cancelled without a trade.
///
/// # Errors
/// M5 if it trades, or if its cancellation is missing or has another reason.
pub fn check_fill_or_kill(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    taker: &IncomingOrder,
    there: u64,
) -> CheckResult {
    let order = &taker.order;
    if let Some(Event::Trade { trade_seq, .. }) = reader.peek(model)? {
        fail!(
            M5,
            "order {} finds {there} of {} and must be cancelled as a whole: trade {trade_seq}",
            order.id,
            order.open
        );
    }
    check_cancelled(model, reader, order, CancelReason::FillOrKill)?;
    if taker.reserves {
        model.ledger.release(order.account, model.order_cost(order, order.open));
    }
    Ok(())
}

/// Returns the next step against the first resting order that the incoming order can trade with. In
/// pro-rata markets, `round` receives the further trades at the same price.
fn next_match_step(model: &VenueModel, taker: &IncomingOrder, round: &mut VecDeque<MatchStep>) -> MatchStep {
    let market = &model.markets[taker.order.instrument.0 as usize];
    let (order, contra) = (&taker.order, taker.order.side.opposite());
    for resting in market.book.orders(contra).filter_map(|id| model.orders.get(&id)) {
        if resting.is_market() {
            continue; // Left in the book by a missed call.
        }
        if !taker.reaches(resting.price) {
            break;
        }
        if market.rules.allocation == Allocation::ProRata && !resting.is_hidden() {
            return pro_rata_round(model, market, taker, resting.price, round);
        }
        let most = model.most_lots(resting);
        if most == 0 {
            return MatchStep::Leave(resting.id);
        }
        let there = if resting.is_hidden() { resting.open } else { resting.shown };
        let lots = order.open.min(there).min(most);
        if resting.minimum > order.open {
            continue;
        }
        if lots < order.minimum {
            return MatchStep::End(MatchEnd::Walked);
        }
        let price = market.trade_price_against(resting, taker.bid, taker.offer);
        if !taker.reaches(price) {
            continue;
        }
        if let Some(breach) = continuous_breach(market, taker, price) {
            return MatchStep::End(MatchEnd::Breach(breach));
        }
        if taker.must_not_meet(resting) {
            return self_match_step(taker.mode, resting.id);
        }
        return MatchStep::Trade { with: resting.id, price, lots };
    }
    MatchStep::End(MatchEnd::Walked)
}

/// Whether a pro-rata round stops before its first trade, because an order of the same group rests
/// at the price.
fn ends_pro_rata_round(model: &VenueModel, market: &MarketState, taker: &IncomingOrder, resting: &LiveOrder) -> bool {
    market.rules.allocation == Allocation::ProRata
        && !resting.is_hidden()
        && taker.mode != SelfMatch::CancelResting
        && visible_orders_at(model, market, resting.side, resting.price).any(|other| taker.must_not_meet(other))
}

/// Returns the visible limit orders at one price, oldest first.
fn visible_orders_at<'a>(
    model: &'a VenueModel,
    market: &'a MarketState,
    side: Side,
    price: Ticks,
) -> impl Iterator<Item = &'a LiveOrder> {
    let there = market.book.shown_at(side, price).filter_map(|id| model.orders.get(&id));
    there.filter(|resting| resting.is_visible())
}

fn continuous_breach(market: &MarketState, taker: &IncomingOrder, price: Ticks) -> Option<ToleranceBreach> {
    market.breach(market.rules.tolerance(Phase::Continuous), price, taker.dynamic)
}

/// Allocates the incoming order to the visible orders at one price in proportion to their displayed
/// lots.
fn pro_rata_round(
    model: &VenueModel,
    market: &MarketState,
    taker: &IncomingOrder,
    price: Ticks,
    round: &mut VecDeque<MatchStep>,
) -> MatchStep {
    let contra = taker.order.side.opposite();
    let resting = visible_orders_at(model, market, contra, price);
    let (own, others): (Vec<&LiveOrder>, Vec<&LiveOrder>) = resting.partition(|resting| taker.must_not_meet(resting));
    if let Some(breach) = continuous_breach(market, taker, price) {
        return MatchStep::End(MatchEnd::Breach(breach));
    }
    if let Some(first) = own.first() {
        return self_match_step(taker.mode, first.id);
    }
    let shown: Vec<u64> = others.iter().map(|resting| resting.shown).collect();
    let lots = taker.order.open.min(shown.iter().sum());
    if lots < taker.order.minimum {
        return MatchStep::End(MatchEnd::Walked);
    }
    let given = shares_of(&shown, lots);
    let trades = others.iter().zip(given).filter(|(_, lots)| *lots > 0);
    round.extend(trades.map(|(resting, lots)| MatchStep::Trade { with: resting.id, price, lots }));
    round.pop_front().unwrap_or(MatchStep::End(MatchEnd::Walked))
}

/// Returns how many lots an order could trade, as fill-or-kill counts them (rulebook 7.4).
fn reachable_lots(model: &VenueModel, taker: &IncomingOrder) -> u64 {
    reachable_fills(model, taker).iter().map(|(_, lots)| lots).sum()
}

/// Returns the fills of an order if it came in now, price by price.
pub fn reachable_fills(model: &VenueModel, taker: &IncomingOrder) -> Vec<(Ticks, u64)> {
    let market = &model.markets[taker.order.instrument.0 as usize];
    let contra = taker.order.side.opposite();
    let mut left = taker.order.open;
    let mut fills: Vec<(Ticks, u64)> = Vec::new();
    let there = market.book.orders(contra).filter_map(|id| model.orders.get(&id));
    let mut resting = there.filter(|resting| !resting.is_market()).peekable();
    // The hidden parts of icebergs at one price come after everything displayed there.
    let mut later: (Option<Ticks>, Vec<(AccountId, u64)>) = (None, Vec::new());
    let mut changes: BTreeMap<AccountId, i64> = BTreeMap::new();
    let note = |changes: &mut BTreeMap<AccountId, i64>, maker: AccountId, lots: u64| {
        let bought = if contra == Side::Sell { lots.cast_signed() } else { -lots.cast_signed() };
        *changes.entry(taker.order.account).or_default() += bought;
        *changes.entry(maker).or_default() -= bought;
    };
    loop {
        let next = resting.peek().filter(|next| taker.reaches(next.price)).copied();
        let ends_level = next.is_none_or(|next| next.is_hidden() || Some(next.price) != later.0);
        if let (Some(price), true) = (later.0, ends_level) {
            for (maker, hidden) in std::mem::take(&mut later.1) {
                let lots = left.min(hidden);
                fills.push((price, lots));
                left -= lots;
                note(&mut changes, maker, lots);
            }
            later.0 = None;
        }
        let Some(next) = next.filter(|_| left > 0) else { return fills };
        resting.next();
        let most = match next.reduce_only {
            true => model.pending_room(next.account, next.instrument, next.side, &changes),
            false => u64::MAX,
        };
        if next.minimum > left || most == 0 {
            continue;
        }
        let price = market.trade_price_against(next, taker.bid, taker.offer);
        if !taker.reaches(price) {
            continue;
        }
        if continuous_breach(market, taker, price).is_some() {
            return fills;
        }
        if taker.must_not_meet(next) {
            if taker.mode == SelfMatch::CancelResting {
                continue;
            }
            return fills;
        }
        if ends_pro_rata_round(model, market, taker, next) {
            return fills;
        }
        let there = if next.is_hidden() { next.open } else { next.shown };
        let lots = left.min(there).min(most);
        fills.push((price, lots));
        left -= lots;
        note(&mut changes, next.account, lots);
        if !next.is_hidden() {
            later.0 = Some(price);
            later.1.push((next.account, next.open - next.shown));
        }
    }
}

fn self_match_step(mode: SelfMatch, resting: OrderId) -> MatchStep {
    match mode {
        SelfMatch::CancelResting => MatchStep::Remove(resting),
        SelfMatch::CancelBoth => MatchStep::End(MatchEnd::Own(Some(resting))),
        SelfMatch::CancelIncoming | SelfMatch::Allow => MatchStep::End(MatchEnd::Own(None)),
    }
}
