//! An incoming order meets a market that is not plain: hidden orders rest there, or prices are tested, or both.
//!
//! Holds       1. price, then visible before hidden, then time;
//!             2. nothing executes at a price that breaches a tolerance; references and the quote are those of the order's
//!                arrival;
//!             3. no hidden order trades less than its MES, incoming or resting, unless it ends with that trade.
//! Costs       the orders filled, taken off or passed over, a logarithm for each hidden one; twice that for fill or kill.
//!             The walk goes forward alone: no order is met twice but an iceberg with each part it shows.
//! Start at    `Engine::aggress`.

use pitwire_model::{Allocation, CancelReason, OrderId, Side, Ticks, Tolerance, TradeSeq};

use crate::auction::ProRataAllocation;
use crate::book::{FillEstimate, Maker, MakerAction, OrderOrigin, Owner, RestingOrder, Slot, SweepSink, key_of};
use crate::controls::{BestPrices, Breach, ReferencePrices};
use crate::day::TradeTotals;
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::matching::{FillExecutor, FillPrices, IncomingOrder, TradeCounters};
use crate::special::{Special, UndisplayedOrder};

/// Why a walk ended before the order or the book was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepEnd {
    /// An order of its own group.
    Own,
    /// Its MES: the order in front has less, or so little is left.
    Minimum,
    Breach(Breach),
}

/// What an aggression is measured by, as it stood when the order arrived.
#[derive(Clone, Copy, Debug)]
struct ArrivalControls {
    quote: BestPrices,
    references: ReferencePrices,
    tolerance: Tolerance,
    improvement: Ticks,
}

impl ArrivalControls {
    fn test(&self, price: Ticks) -> Option<Breach> {
        self.references.test(self.tolerance, price)
    }

    fn price_of(&self, hidden: &UndisplayedOrder) -> Ticks {
        self.quote.price_of_hidden(hidden.side, hidden.price(), self.improvement)
    }
}

impl Market {
    fn gauge(&self) -> ArrivalControls {
        let quote = BestPrices { bid: self.book.best_price(Side::Buy), offer: self.book.best_price(Side::Sell) };
        let references = self.references();
        let rules = self.rules();
        ArrivalControls { quote, references, tolerance: rules.tolerance(self.phase), improvement: rules.improvement }
    }

    /// What prices of execution are tested against now.
    pub(crate) fn references(&self) -> ReferencePrices {
        ReferencePrices { fixed: self.special.static_reference, dynamic: self.dynamic_reference() }
    }

    /// What an incoming order would trade with now, hidden orders included: the walk of an aggression without trading.
    pub(crate) fn careful_reach(&self, order: &IncomingOrder) -> FillEstimate {
        let (gauge, other, wanted) = (self.gauge(), order.side.opposite(), u64::from(order.open));
        let mut reach = FillEstimate::default();
        let mut hidden = self.special.hidden(other).filter_map(|slot| self.special.get(slot)).peekable();
        let mut visible = self.book.slots(other).map(|slot| (slot, self.book.get(slot))).peekable();
        while reach.lots < wanted {
            let shown = visible.peek().map(|(_, resting)| resting.price).filter(|price| order.accepts(*price));
            let unseen = hidden.peek().map(|kept| kept.price()).filter(|price| order.accepts(*price));
            let shown =
                shown.filter(|shown| unseen.is_none_or(|unseen| key_of(other, *shown) <= key_of(other, unseen)));
            let goes_on = match (shown, unseen) {
                (Some(price), _) if gauge.test(price).is_some() || self.bars_round(order, price) => false,
                (Some(price), _) => {
                    let level = std::iter::from_fn(|| visible.next_if(|(_, resting)| resting.price == price));
                    count_level(
                        &mut reach,
                        order,
                        price,
                        level.map(|(slot, resting)| (resting, self.book.origin(slot))),
                    )
                }
                (None, Some(_)) => hidden.next().is_some_and(|kept| count_hidden(&mut reach, order, &gauge, kept)),
                (None, None) => false,
            };
            if !goes_on {
                break;
            }
        }
        reach
    }
}

impl Market {
    /// Where orders of a price share, one of the incoming order's own ends it before anybody there trades.
    fn bars_round(&self, order: &IncomingOrder, price: Ticks) -> bool {
        let bars = |slot: Slot| {
            let meeting = order.meeting(self.book.account_of(slot), self.book.origin(slot).group);
            matches!(meeting, MakerAction::Stop | MakerAction::CancelBoth)
        };
        self.rules.allocation == Allocation::ProRata && self.book.slots_at(order.side.opposite(), price).any(bars)
    }
}

/// Counts a level's orders, then what its icebergs keep back. Says whether the count goes on.
fn count_level(
    reach: &mut FillEstimate,
    order: &IncomingOrder,
    price: Ticks,
    level: impl Iterator<Item = (RestingOrder, OrderOrigin)>,
) -> bool {
    let (mut kept_back, wanted) = (0, u64::from(order.open));
    for (resting, origin) in level {
        match order.meeting(resting.owner.account(), origin.group) {
            MakerAction::Trade => {
                kept_back += u64::from(resting.hidden);
                reach.take(price, u64::from(resting.open), wanted);
            }
            MakerAction::CancelMaker => {}
            MakerAction::CancelBoth | MakerAction::Stop => return false,
        }
        if reach.lots == wanted {
            return false;
        }
    }
    reach.take(price, kept_back, wanted);
    true
}

/// The same for one hidden order.
fn count_hidden(
    reach: &mut FillEstimate,
    order: &IncomingOrder,
    gauge: &ArrivalControls,
    hidden: &UndisplayedOrder,
) -> bool {
    let wanted = u64::from(order.open);
    let price = gauge.price_of(hidden);
    if u64::from(hidden.minimum()) > wanted - reach.lots || !order.accepts(price) {
        return true;
    }
    if gauge.test(price).is_some() {
        return false;
    }
    match order.meeting(hidden.account, hidden.origin.group) {
        MakerAction::Trade => reach.take(price, u64::from(hidden.open), wanted),
        MakerAction::CancelMaker => {}
        MakerAction::CancelBoth | MakerAction::Stop => return false,
    }
    true
}

impl Engine {
    /// Trades what can be traded; rests or expires the remainder. A breach leads into the volatility call: whoever calls
    /// this in a loop looks at the phase.
    pub(crate) fn aggress(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        if order.whole && self.careful_reach_of(order) < u64::from(order.open) {
            out.emit(order.cancelled(order.open, CancelReason::FillOrKill));
            return;
        }
        let (open, bar) = self.walk(order, out);
        match bar {
            _ if open == 0 => {}
            Some(SweepEnd::Breach(breach)) => {
                out.emit(breach.event(order.instrument));
                if order.rests {
                    self.join(&IncomingOrder { open, ..*order }, out);
                } else {
                    out.emit(order.cancelled(open, CancelReason::Breaker));
                }
                self.breaker_call(order.instrument, out);
            }
            Some(SweepEnd::Own) => out.emit(order.cancelled(open, CancelReason::SelfMatch)),
            _ if open < order.minimum => out.emit(order.cancelled(open, CancelReason::BelowMinimumExecution)),
            _ if order.rests => self.join(&IncomingOrder { open, ..*order }, out),
            _ => out.emit(order.cancelled(open, CancelReason::ImmediateRemainder)),
        }
    }

    fn careful_reach_of(&self, order: &IncomingOrder) -> u64 {
        self.market(order.instrument).map_or(0, |market| market.careful_reach(order).lots)
    }

    /// Returns what is left, and what ended the walk if neither that nor the book did.
    fn walk(&mut self, order: &IncomingOrder, out: &mut impl EventSink) -> (u32, Option<SweepEnd>) {
        let Engine { accounts, markets, orders, now, times, .. } = self;
        let market = &mut markets[order.instrument.0 as usize];
        let gauge = market.gauge();
        let Market { book, money, trades, last, special, day, kept, rules, .. } = market;
        let before = *trades;
        let counters = TradeCounters { trades, last, times };
        let matching = FillExecutor::new(order, *money, *now, counters, accounts, orders, out);
        let mut walk = ControlledSweep { matching, gauge, minimum: order.minimum, bar: None, dropped: 0 };
        let (other, mut open, mut passed) = (order.side.opposite(), order.open, (0, 0));
        while open > 0 && walk.bar.is_none() {
            let next = special
                .next_hidden(other, passed)
                .filter(|slot| special.get(*slot).is_some_and(|hidden| order.accepts(hidden.price())));
            let hidden = next.and_then(|slot| special.get(slot).copied().map(|hidden| (slot, hidden)));
            // Whoever shows stands before whoever hides at the same price.
            let as_far_as = hidden.map_or(order.limit, |(_, hidden)| hidden.price());
            open = match rules.allocation {
                Allocation::ProRata => book.sweep_shared(order.side, as_far_as, open, &ProRataAllocation, &mut walk),
                _ => book.sweep(order.side, Some(as_far_as), open, &mut walk),
            };
            let Some((slot, hidden)) = hidden.filter(|_| open > 0 && walk.bar.is_none()) else { break };
            passed = (key_of(other, hidden.price()), hidden.origin.time);
            open = walk.meet_hidden(special, slot, &hidden, open);
        }
        let ControlledSweep { bar, dropped, matching: FillExecutor { tick_lots, .. }, .. } = walk;
        *kept -= dropped;
        if *trades > before {
            let (first, lots) = (TradeSeq(before.0 + 1), u64::from(order.open - open));
            let price = last.unwrap_or(order.price);
            day.count(*now, TradeTotals { first, last: *trades, lots, tick_lots, price });
            special.dynamic_reference = None;
        }
        (open, bar)
    }
}

/// The sink of a careful sweep: asks more before each maker than a plain one.
struct ControlledSweep<'a, S> {
    matching: FillExecutor<'a, S>,
    gauge: ArrivalControls,
    /// The incoming order's MES; zero unless it is hidden.
    minimum: u32,
    bar: Option<SweepEnd>,
    /// Hidden orders that have left.
    dropped: u32,
}

impl<S: EventSink> ControlledSweep<'_, S> {
    /// A hidden order's turn. Returns what the incoming order still has.
    fn meet_hidden(&mut self, special: &mut Special, slot: Slot, hidden: &UndisplayedOrder, open: u32) -> u32 {
        let order = self.matching.order;
        let (lots, price) = (open.min(hidden.open), self.gauge.price_of(hidden));
        if hidden.minimum() > open {
            return open;
        }
        if lots < self.minimum {
            self.bar = Some(SweepEnd::Minimum);
            return open;
        }
        if !order.accepts(price) {
            return open;
        }
        if let Some(breach) = self.gauge.test(price) {
            self.bar = Some(SweepEnd::Breach(breach));
            return open;
        }
        let meeting = order.meeting(hidden.account, hidden.origin.group);
        if matches!(meeting, MakerAction::Stop | MakerAction::CancelBoth) {
            self.bar = Some(SweepEnd::Own);
        }
        match meeting {
            MakerAction::Trade => self.trade_hidden(special, slot, hidden, (lots, price)),
            MakerAction::Stop => open,
            MakerAction::CancelMaker | MakerAction::CancelBoth => {
                self.drop_hidden(special, slot, CancelReason::SelfMatch);
                open
            }
        }
    }

    fn trade_hidden(
        &mut self,
        special: &mut Special,
        slot: Slot,
        hidden: &UndisplayedOrder,
        (lots, price): (u32, Ticks),
    ) -> u32 {
        let owner = Owner::new(hidden.account, hidden.side, false);
        let maker_open = special.fill(slot, lots);
        if maker_open == 0 {
            special.take(slot);
            self.dropped += 1;
        }
        let prices = FillPrices { of_maker: hidden.price(), of_trade: price };
        self.matching.trade(hidden.id, owner, prices, lots, maker_open, 0);
        if (1..hidden.minimum()).contains(&maker_open) {
            self.drop_hidden(special, slot, CancelReason::BelowMinimumExecution);
        }
        let open = self.matching.open;
        if (1..self.minimum).contains(&open) {
            self.bar = Some(SweepEnd::Minimum);
        }
        open
    }

    /// A hidden order leaves without a trade: nobody is told but its owner.
    fn drop_hidden(&mut self, special: &mut Special, slot: Slot, reason: CancelReason) {
        if let Some(hidden) = special.take(slot) {
            self.dropped += 1;
            self.matching.dropped(hidden.id, (hidden.account, hidden.side), hidden.price(), hidden.open, reason);
        }
    }
}

impl<S: EventSink> SweepSink<OrderOrigin> for ControlledSweep<'_, S> {
    fn meet(&mut self, maker: &Maker<OrderOrigin>) -> MakerAction {
        if self.matching.open.min(maker.open) < self.minimum {
            self.bar = Some(SweepEnd::Minimum);
            return MakerAction::Stop;
        }
        if let Some(breach) = self.gauge.test(maker.price) {
            self.bar = Some(SweepEnd::Breach(breach));
            return MakerAction::Stop;
        }
        let meeting = self.matching.meet(maker);
        if matches!(meeting, MakerAction::Stop | MakerAction::CancelBoth) {
            self.bar = Some(SweepEnd::Own);
        }
        meeting
    }

    fn round(&mut self, lots: u64) -> bool {
        let enough = lots.min(u64::from(self.matching.open)) >= u64::from(self.minimum);
        if !enough {
            self.bar = Some(SweepEnd::Minimum);
        }
        enough
    }

    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32, refreshed: u32) {
        self.matching.fill(maker, owner, price, lots, maker_open, refreshed);
    }

    fn refreshed(&mut self, origin: &mut OrderOrigin) {
        self.matching.refreshed(origin);
    }

    fn cancelled(&mut self, order: &RestingOrder, origin: OrderOrigin) {
        self.matching.cancelled(order, origin);
    }

    fn level(&mut self, price: Ticks, lots: u64) {
        self.matching.level(price, lots);
    }
}
