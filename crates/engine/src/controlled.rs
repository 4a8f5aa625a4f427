//! Matches an order in a market with hidden orders, price controls, stops or pro-rata allocation.
//!
//! Holds       1. orders trade by price, then displayed before hidden, then by time;
//!             2. nothing executes at a price that breaches a tolerance; the references and best
//!                prices are those at the arrival of the order;
//!             3. no hidden order, incoming or resting, trades less than its minimum execution
//!                size, unless the trade completes the order.
//! Costs       the orders that are filled, cancelled or skipped; a logarithm for each hidden order;
//!             twice that for fill or kill. The sweep only moves forward: it meets an order once,
//!             and an iceberg once per displayed part.
//! Start at    [`MarketContext::match_with_controls`].

use std::collections::BTreeMap;

use pitwire_model::{AccountId, Allocation, CancelReason, OrderId, Side, Ticks, Tolerance, TradeSeq};

use crate::account::Account;
use crate::allocation::ProRataAllocation;
use crate::book::{FillEstimate, Maker, MakerAction, OrderOrigin, Owner, RestingOrder, Slot, SweepSink, key_of};
use crate::closing_price::TradeTotals;
use crate::controls::{BestPrices, Breach, ReferencePrices};
use crate::event_sink::EventSink;
use crate::fill_executor::{FillExecutor, FillPrices, TradeCounters};
use crate::incoming::IncomingOrder;
use crate::market::Market;
use crate::market_context::MarketContext;
use crate::position_room::room_of;
use crate::undisplayed::{UndisplayedOrder, UndisplayedOrders};

/// Why a sweep ended although the order and the book have lots left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepEnd {
    /// Self-match prevention.
    SelfMatch,
    /// The next order, or the remainder, is smaller than the minimum execution size of the incoming
    /// order.
    MinimumExecution,
    Breach(Breach),
}

/// The price controls of a sweep, as they stood when the order arrived.
#[derive(Clone, Copy, Debug)]
struct ArrivalControls {
    best: BestPrices,
    references: ReferencePrices,
    tolerance: Tolerance,
    improvement: Ticks,
}

impl ArrivalControls {
    fn test(&self, price: Ticks) -> Option<Breach> {
        self.references.test(self.tolerance, price)
    }

    /// Returns the price at which a hidden order trades with the incoming order.
    fn price_of(&self, hidden: &UndisplayedOrder) -> Ticks {
        self.best.price_of_hidden(hidden.side, hidden.price(), self.improvement)
    }
}

impl Market {
    fn arrival_controls(&self) -> ArrivalControls {
        ArrivalControls {
            best: self.best_prices(),
            references: self.reference_prices(),
            tolerance: self.rules.tolerance(self.phase),
            improvement: self.rules.improvement,
        }
    }

    /// Estimates what an order would trade with now, hidden orders included. Performs the sweep of
    /// [`MarketContext::match_with_controls`] without trading.
    pub(crate) fn estimate_controlled_fill(&self, order: &IncomingOrder, accounts: &[Account]) -> FillEstimate {
        let (controls, found) = (self.arrival_controls(), FillEstimate::default());
        FillEstimator { market: self, accounts, order, controls, found, traded: BTreeMap::new() }.run()
    }
}

/// The sweep of an incoming order, without trades.
struct FillEstimator<'a> {
    market: &'a Market,
    accounts: &'a [Account],
    order: &'a IncomingOrder,
    controls: ArrivalControls,
    found: FillEstimate,
    /// Lots that each account would buy, less those that it would sell. Filled only if the
    /// instrument has reduce-only orders.
    traded: BTreeMap<AccountId, i64>,
}

impl FillEstimator<'_> {
    fn wanted(&self) -> u64 {
        u64::from(self.order.open)
    }

    fn run(mut self) -> FillEstimate {
        let (market, order, other) = (self.market, self.order, self.order.side.opposite());
        let mut hidden = market.undisplayed.hidden(other).filter_map(|slot| market.undisplayed.get(slot)).peekable();
        let mut displayed = market.book.slots(other).map(|slot| (slot, market.book.get(slot))).peekable();
        while self.found.lots < self.wanted() {
            let hidden_price = hidden.peek().map(|order| order.price()).filter(|price| order.accepts(*price));
            let displayed_price = displayed
                .peek()
                .map(|(_, resting)| resting.price)
                .filter(|price| order.accepts(*price))
                .filter(|price| hidden_price.is_none_or(|hidden| key_of(other, *price) <= key_of(other, hidden)));
            let goes_on = match (displayed_price, hidden_price) {
                (Some(price), _) if self.controls.test(price).is_some() || self.stops_shared_level(price) => false,
                (Some(price), _) => {
                    let level = std::iter::from_fn(|| displayed.next_if(|(_, resting)| resting.price == price));
                    self.add_level(price, level.map(|(slot, resting)| (resting, market.book.origin(slot))))
                }
                (None, Some(_)) => hidden.next().is_some_and(|hidden| self.add_hidden(hidden)),
                (None, None) => false,
            };
            if !goes_on {
                break;
            }
        }
        self.found
    }

    /// Returns whether self-match prevention ends the sweep at `price` before any order there
    /// trades. That is so under pro-rata allocation, which asks about all orders of a level first.
    fn stops_shared_level(&self, price: Ticks) -> bool {
        let FillEstimator { market, order, .. } = self;
        let stops = |slot: Slot| {
            let action = order.maker_action(market.book.account_of(slot), market.book.origin(slot).group);
            matches!(action, MakerAction::Stop | MakerAction::CancelBoth)
        };
        market.rules.allocation == Allocation::ProRata && market.book.slots_at(order.side.opposite(), price).any(stops)
    }

    /// Adds the orders of a level, then the hidden parts of its icebergs. Returns whether the sweep
    /// goes on.
    fn add_level(&mut self, price: Ticks, level: impl Iterator<Item = (RestingOrder, OrderOrigin)>) -> bool {
        let wanted = self.wanted();
        let mut undisplayed: Vec<(AccountId, u32)> = Vec::new();
        for (resting, origin) in level {
            let account = resting.owner.account();
            let is_reduce_only = origin.flags.reduce_only();
            let room = if is_reduce_only { self.room(account, resting.owner.side()) } else { u64::MAX };
            if room == 0 {
                continue;
            }
            match self.order.maker_action(account, origin.group) {
                MakerAction::Trade => {
                    if resting.hidden > 0 {
                        undisplayed.push((account, resting.hidden));
                    }
                    self.add(account, price, room.min(u64::from(resting.open)));
                }
                MakerAction::CancelMaker => {}
                MakerAction::CancelBoth | MakerAction::Stop => return false,
            }
            if self.found.lots == wanted {
                return false;
            }
        }
        for (account, lots) in undisplayed {
            self.add(account, price, u64::from(lots));
        }
        true
    }

    /// Adds a fill with a maker of `account`, up to the lots that the order wants.
    fn add(&mut self, account: AccountId, price: Ticks, lots: u64) {
        let (before, wanted) = (self.found.lots, self.wanted());
        self.found.add(price, lots, wanted);
        if !self.market.reduce_only.is_empty() {
            let lots = i64::try_from(self.found.lots - before).unwrap_or(i64::MAX);
            let bought = if self.order.side == Side::Buy { lots } else { -lots };
            *self.traded.entry(self.order.account).or_default() += bought;
            *self.traded.entry(account).or_default() -= bought;
        }
    }

    /// Returns the room of an account after the fills that were added.
    fn room(&self, account: AccountId, side: Side) -> u64 {
        let held = self.accounts[account.0 as usize].position(self.market.spec.id).lots;
        room_of(held + self.traded.get(&account).copied().unwrap_or(0), side)
    }

    /// Adds one hidden order. Returns whether the sweep goes on.
    fn add_hidden(&mut self, hidden: &UndisplayedOrder) -> bool {
        let wanted = self.wanted();
        let price = self.controls.price_of(hidden);
        if u64::from(hidden.minimum_execution()) > wanted - self.found.lots || !self.order.accepts(price) {
            return true;
        }
        if self.controls.test(price).is_some() {
            return false;
        }
        match self.order.maker_action(hidden.account, hidden.origin.group) {
            MakerAction::Trade => self.add(hidden.account, price, u64::from(hidden.open)),
            MakerAction::CancelMaker => {}
            MakerAction::CancelBoth | MakerAction::Stop => return false,
        }
        true
    }
}

impl MarketContext<'_> {
    /// Trades what can be traded, then rests or cancels the remainder. A breach starts the
    /// volatility call, so a caller that loops has to check the session after each order.
    pub fn match_with_controls(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        if order.fill_or_kill && self.market.estimate_controlled_fill(order, self.accounts).lots < u64::from(order.open)
        {
            out.emit(order.cancelled(order.open, CancelReason::FillOrKill));
            return;
        }
        let (open, end) = self.sweep_with_controls(order, out);
        match end {
            _ if open == 0 => {}
            Some(SweepEnd::Breach(breach)) => {
                out.emit(breach.event(order.instrument));
                if order.may_rest {
                    self.add_unmatched(&IncomingOrder { open, ..*order }, out);
                } else {
                    out.emit(order.cancelled(open, CancelReason::Breaker));
                }
                self.start_volatility_call(out);
            }
            Some(SweepEnd::SelfMatch) => out.emit(order.cancelled(open, CancelReason::SelfMatch)),
            _ if open < order.minimum_execution => {
                out.emit(order.cancelled(open, CancelReason::BelowMinimumExecution));
            }
            _ if order.may_rest => self.add_unmatched(&IncomingOrder { open, ..*order }, out),
            _ => out.emit(order.cancelled(open, CancelReason::ImmediateRemainder)),
        }
    }

    /// Returns the lots that are left, and why the sweep ended if both the order and the book have
    /// lots left.
    fn sweep_with_controls(&mut self, order: &IncomingOrder, out: &mut impl EventSink) -> (u32, Option<SweepEnd>) {
        let controls = self.market.arrival_controls();
        let MarketContext { accounts, market, orders, clock } = self;
        let Market {
            book,
            settlement,
            trades,
            last,
            undisplayed,
            reduce_only,
            closing_inputs,
            undisplayed_count,
            rules,
            prices,
            ..
        } = &mut **market;
        let before = *trades;
        let counters = TradeCounters { trades, last, last_priority: &mut clock.last_priority };
        let executor = FillExecutor::new(order, *settlement, clock.now, counters, accounts, orders, out);
        let minimum_execution = order.minimum_execution;
        let has_reduce_only = !reduce_only.is_empty();
        let mut sweep = ControlledSweep {
            executor,
            controls,
            minimum_execution,
            has_reduce_only,
            cancels_reduce_only: false,
            end: None,
            removed: 0,
        };
        let (other, mut open, mut visited) = (order.side.opposite(), order.open, (0, 0));
        while open > 0 && sweep.end.is_none() {
            let next = undisplayed
                .next_hidden(other, visited)
                .filter(|slot| undisplayed.get(*slot).is_some_and(|hidden| order.accepts(hidden.price())));
            let hidden = next.and_then(|slot| undisplayed.get(slot).copied().map(|hidden| (slot, hidden)));
            // Displayed orders trade before the hidden orders of the same price.
            let limit = hidden.map_or(order.limit, |(_, hidden)| hidden.price());
            open = match rules.allocation {
                Allocation::ProRata => book.sweep_shared(order.side, limit, open, &ProRataAllocation, &mut sweep),
                _ => book.sweep(order.side, Some(limit), open, &mut sweep),
            };
            let Some((slot, hidden)) = hidden.filter(|_| open > 0 && sweep.end.is_none()) else { break };
            visited = (key_of(other, hidden.price()), hidden.origin.time);
            open = sweep.meet_hidden(undisplayed, slot, &hidden, open);
        }
        let ControlledSweep { end, removed, executor: FillExecutor { tick_lots, .. }, .. } = sweep;
        *undisplayed_count -= removed;
        if *trades > before {
            let (first, lots) = (TradeSeq(before.0 + 1), u64::from(order.open - open));
            let price = last.unwrap_or(order.price);
            closing_inputs.add_trades(clock.now, TradeTotals { first, last: *trades, lots, tick_lots, price });
            prices.dynamic_reference = None;
        }
        (open, end)
    }
}

/// The sink of a sweep with price controls. It checks more before each maker than [`FillExecutor`]
/// alone.
struct ControlledSweep<'a, S> {
    executor: FillExecutor<'a, S>,
    controls: ArrivalControls,
    /// Minimum execution size of the incoming order in lots; zero unless the order is hidden.
    minimum_execution: u32,
    /// Whether any reduce-only order is displayed.
    has_reduce_only: bool,
    /// Whether the maker that is being cancelled is reduce-only and has no room.
    cancels_reduce_only: bool,
    end: Option<SweepEnd>,
    /// Number of hidden orders that were removed.
    removed: u32,
}

impl<S: EventSink> ControlledSweep<'_, S> {
    /// Returns the room of a reduce-only maker; `None` for any other.
    fn room_of(&self, maker: &Maker<OrderOrigin>) -> Option<u32> {
        let is_reduce_only = self.has_reduce_only && maker.origin().flags.reduce_only();
        is_reduce_only.then(|| self.executor.room(maker.owner.account(), maker.owner.side()))
    }

    /// Lets a hidden order trade if it can. Returns the open lots of the incoming order.
    fn meet_hidden(
        &mut self,
        undisplayed: &mut UndisplayedOrders,
        slot: Slot,
        hidden: &UndisplayedOrder,
        open: u32,
    ) -> u32 {
        let order = self.executor.order;
        let (lots, price) = (open.min(hidden.open), self.controls.price_of(hidden));
        if hidden.minimum_execution() > open {
            return open;
        }
        if lots < self.minimum_execution {
            self.end = Some(SweepEnd::MinimumExecution);
            return open;
        }
        if !order.accepts(price) {
            return open;
        }
        if let Some(breach) = self.controls.test(price) {
            self.end = Some(SweepEnd::Breach(breach));
            return open;
        }
        let action = order.maker_action(hidden.account, hidden.origin.group);
        if matches!(action, MakerAction::Stop | MakerAction::CancelBoth) {
            self.end = Some(SweepEnd::SelfMatch);
        }
        match action {
            MakerAction::Trade => self.trade_with_hidden(undisplayed, slot, hidden, (lots, price)),
            MakerAction::Stop => open,
            MakerAction::CancelMaker | MakerAction::CancelBoth => {
                self.cancel_hidden(undisplayed, slot, CancelReason::SelfMatch);
                open
            }
        }
    }

    fn trade_with_hidden(
        &mut self,
        undisplayed: &mut UndisplayedOrders,
        slot: Slot,
        hidden: &UndisplayedOrder,
        (lots, price): (u32, Ticks),
    ) -> u32 {
        let owner = Owner::new(hidden.account, hidden.side, false);
        let maker_open = undisplayed.fill(slot, lots);
        if maker_open == 0 {
            undisplayed.remove(slot);
            self.removed += 1;
        }
        let prices = FillPrices { of_maker: hidden.price(), of_trade: price };
        self.executor.trade(hidden.id, owner, prices, lots, maker_open, 0);
        if (1..hidden.minimum_execution()).contains(&maker_open) {
            self.cancel_hidden(undisplayed, slot, CancelReason::BelowMinimumExecution);
        }
        let open = self.executor.open;
        if (1..self.minimum_execution).contains(&open) {
            self.end = Some(SweepEnd::MinimumExecution);
        }
        open
    }

    /// Cancels a hidden order. Only its owner gets an event.
    fn cancel_hidden(&mut self, undisplayed: &mut UndisplayedOrders, slot: Slot, reason: CancelReason) {
        if let Some(hidden) = undisplayed.remove(slot) {
            self.removed += 1;
            let party = (hidden.account, hidden.side);
            self.executor.cancel_maker(hidden.id, party, hidden.price(), hidden.open, reason);
        }
    }
}

impl<S: EventSink> SweepSink<OrderOrigin> for ControlledSweep<'_, S> {
    fn maker_action(&mut self, maker: &Maker<OrderOrigin>) -> MakerAction {
        let room = self.room_of(maker);
        self.cancels_reduce_only = room == Some(0) && self.executor.open >= self.minimum_execution;
        if self.cancels_reduce_only {
            return MakerAction::CancelMaker;
        }
        if self.executor.open.min(maker.open).min(room.unwrap_or(u32::MAX)) < self.minimum_execution {
            self.end = Some(SweepEnd::MinimumExecution);
            return MakerAction::Stop;
        }
        if let Some(breach) = self.controls.test(maker.price) {
            self.end = Some(SweepEnd::Breach(breach));
            return MakerAction::Stop;
        }
        let action = self.executor.maker_action(maker);
        if matches!(action, MakerAction::Stop | MakerAction::CancelBoth) {
            self.end = Some(SweepEnd::SelfMatch);
        }
        action
    }

    fn most_lots(&mut self, maker: &Maker<OrderOrigin>) -> u32 {
        self.room_of(maker).unwrap_or(u32::MAX)
    }

    fn allows_round(&mut self, lots: u64) -> bool {
        let is_enough = lots.min(u64::from(self.executor.open)) >= u64::from(self.minimum_execution);
        if !is_enough {
            self.end = Some(SweepEnd::MinimumExecution);
        }
        is_enough
    }

    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32, refreshed: u32) {
        self.executor.fill(maker, owner, price, lots, maker_open, refreshed);
    }

    fn refreshed(&mut self, origin: &mut OrderOrigin) {
        self.executor.refreshed(origin);
    }

    fn cancelled(&mut self, order: &RestingOrder, origin: OrderOrigin) {
        if self.cancels_reduce_only {
            return self.executor.cancel_resting(order, CancelReason::ReduceOnly);
        }
        self.executor.cancelled(order, origin);
    }

    fn level(&mut self, price: Ticks, lots: u64) {
        self.executor.level(price, lots);
    }
}
