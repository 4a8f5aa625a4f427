//! Executes an uncross: a call, a batch or a filter ends in trades at one price (rulebook 8.2, 11).
//!
//! Does        test the price, trade buyers and sellers in pairs, emit what changed.
//! Holds       1. every order trades at one price that it accepts;
//!             2. no hidden order gets less than its minimum execution size;
//!             3. a price that breaches a tolerance changes nothing.
//! Costs       the plan, and the orders that trade once.
//! Start at    [`MarketContext::uncross`], [`MarketContext::filter`], then `UncrossExecution`.

use pitwire_model::{CancelReason, Event, Lots, OrderId, Phase, Side, Ticks, Tolerance, TradeKind, TradeSeq};

use super::curve::{AuctionCurve, ClearingResult};
use super::plan::PlannedFill;
use super::planner::{UncrossPlan, UncrossPlanner};
use crate::book::{OrderOrigin, QueuedOrder, Slot};
use crate::closing_price::TradeTotals;
use crate::controls::Breach;
use crate::event_sink::EventSink;
use crate::live_orders::TradeParty;
use crate::market::Market;
use crate::market_context::{MarketContext, PartyTrade};
use crate::session_state::IndicativeUncross;

/// In debug builds, an indicative price is recomputed from all orders if the book has at most this
/// many.
const RECHECKED_ORDERS: u32 = 64;

/// Orders ahead of the pairing whose cache lines are prefetched.
const PREFETCH_DISTANCE: usize = 8;

impl Market {
    /// Returns what the call or batch would do now, by its displayed and market orders. Costs the
    /// prices between the last result and this one.
    pub(crate) fn indicative_uncross(&mut self) -> IndicativeUncross {
        let reference = self.reference();
        let Some(curve) = &mut self.auction.curve else { return IndicativeUncross::default() };
        let result = indicative(curve.clearing(reference));
        debug_assert!(
            self.book.resting_orders() > RECHECKED_ORDERS
                || result == indicative(self.collected_orders().clearing(reference)),
            "the curve contains every displayed order of a call"
        );
        result
    }

    fn keep_curve(&mut self, curve: AuctionCurve) {
        self.auction.curve = Some(curve).filter(|_| self.collects_orders());
    }
}

fn indicative(clearing: Option<ClearingResult>) -> IndicativeUncross {
    clearing.map_or(IndicativeUncross::default(), |clearing| IndicativeUncross {
        price: Some(clearing.price),
        volume: clearing.volume,
        imbalance: clearing.imbalance,
    })
}

impl MarketContext<'_> {
    /// Performs the uncross that ends a call or batch (rulebook 11). Returns its price; `None` if
    /// there is none.
    ///
    /// # Errors
    /// The breach if the price reaches `tolerance`. Then nothing has changed.
    pub fn uncross(
        &mut self,
        call: Phase,
        tolerance: Tolerance,
        out: &mut impl EventSink,
    ) -> Result<Option<Ticks>, Breach> {
        let instrument = self.instrument();
        let market = &mut *self.market;
        let mut curve = market.auction.curve.take().unwrap_or_else(|| market.collected_orders());
        let planner = UncrossPlanner { market };
        let cleared = planner.clear_call(&mut curve);
        let breach = cleared.as_ref().and_then(|(clearing, _)| market.breach(tolerance, clearing.price));
        let Some(cleared) = cleared.filter(|_| breach.is_none()) else {
            market.keep_curve(curve);
            return breach.map_or(Ok(None), Err);
        };
        let plan = UncrossPlanner { market }.plan_call(&cleared);
        let price = plan.price;
        let event = Event::Uncrossed { instrument, call, price, volume: Lots(plan.volume) };
        self.execute_plan(&plan, TradeKind::Call(call), Some((event, &mut curve)), out);
        self.market.keep_curve(curve);
        self.market.prices.static_reference = Some(price);
        self.market.prices.uncross_price = Some(price);
        Ok(Some(price))
    }

    /// Performs one uncross of hidden orders with whatever they can trade with (rulebook 8.2). With
    /// `only_if`, nothing happens unless that order trades. Returns whether anything traded.
    ///
    /// # Errors
    /// The breach if the price reaches the tolerance of continuous trading. Then nothing has
    /// changed.
    pub fn filter(&mut self, only_if: Option<OrderId>, out: &mut impl EventSink) -> Result<bool, Breach> {
        let market = &*self.market;
        if !market.undisplayed.has_hidden() {
            return Ok(false);
        }
        let Some(plan) = (UncrossPlanner { market }).plan_filter() else { return Ok(false) };
        if let Some(only) = only_if {
            let is_it =
                |fill: &PlannedFill| market.undisplayed.get(fill.order.slot).is_some_and(|order| order.id == only);
            if !plan.sides.iter().flatten().any(is_it) {
                return Ok(false);
            }
        }
        if let Some(breach) = market.breach(market.rules.tolerance(Phase::Continuous), plan.price) {
            return Err(breach);
        }
        self.execute_plan(&plan, TradeKind::Filter, None, out);
        Ok(true)
    }

    /// Executes all trades of a plan. `call` holds the event that follows the trades, and the curve
    /// to update.
    fn execute_plan(
        &mut self,
        plan: &UncrossPlan,
        kind: TradeKind,
        call: Option<(Event, &mut AuctionCurve)>,
        out: &mut impl EventSink,
    ) {
        let first = TradeSeq(self.market.trades.0 + 1);
        let mut execution = UncrossExecution { context: self, plan, next: [0, 0], work: PostUncrossWork::default() };
        execution.trade_pairs(kind, out);
        let work = execution.work;
        let market = &mut *self.market;
        market.set_last_price(plan.price);
        match kind {
            // Batches and filters are part of continuous trading.
            TradeKind::Filter | TradeKind::Call(Phase::Continuous) => {
                let (lots, price) = (plan.volume, plan.price);
                let tick_lots = price.0.cast_unsigned().saturating_mul(lots);
                let totals = TradeTotals { first, last: market.trades, lots, tick_lots, price };
                market.closing_inputs.add_trades(self.clock.now, totals);
            }
            _ => market.closing_inputs.set_last(plan.price),
        }
        if let Some((event, curve)) = call {
            out.emit(event);
            work.update_curve(curve);
        }
        self.finish_uncross(&work, out);
    }

    /// Cancels hidden orders that are left with less than their minimum execution size, displays
    /// the next parts of icebergs, and emits the changed levels.
    fn finish_uncross(&mut self, work: &PostUncrossWork, out: &mut impl EventSink) {
        for slot in work.below_minimum.iter().flatten() {
            self.cancel_live(*slot, CancelReason::BelowMinimumExecution, out);
        }
        for (slot, traded) in work.icebergs.iter().flatten() {
            self.refresh_iceberg(*slot, *traded, out);
        }
        let (instrument, book) = (self.instrument(), &self.market.book);
        for (side, levels) in Side::BOTH.into_iter().zip(&work.levels) {
            for (price, _) in levels {
                out.emit(Event::Level { instrument, side, price: *price, lots: book.lots_at(side, *price) });
            }
        }
    }

    /// Deducts the executed lots of an iceberg that stays open. If the displayed part is used up,
    /// the next part is displayed, last at its price.
    fn refresh_iceberg(&mut self, slot: Slot, traded: u32, out: &mut impl EventSink) {
        let instrument = self.instrument();
        let book = &mut self.market.book;
        let shown = book.deduct(slot, traded).refreshed;
        if shown == 0 {
            return;
        }
        let time = self.clock.next_priority();
        book.set_origin(slot, OrderOrigin { time, ..book.origin(slot) });
        let order = book.get(slot);
        let (account, side, shown) = (order.owner.account(), order.owner.side(), Lots(u64::from(shown)));
        out.emit(Event::Refreshed { order: order.id, account, instrument, side, price: order.price, shown });
    }
}

/// An uncross while its orders trade.
struct UncrossExecution<'c, 'a, 'p> {
    context: &'c mut MarketContext<'a>,
    plan: &'p UncrossPlan,
    /// Index of the next planned fill of each side.
    next: [usize; 2],
    work: PostUncrossWork,
}

/// The order of one side whose turn it is.
struct TradingOrder {
    party: TradeParty,
    /// Lots that it still has to trade.
    lots: u32,
    /// Lots that it trades in all.
    planned: u32,
}

impl TradingOrder {
    fn of(side: Side, fill: &PlannedFill) -> TradingOrder {
        let QueuedOrder { id, time, slot, account, open } = fill.order;
        let party = TradeParty { slot, id, account, side, limit: fill.limit, open, time, has_reserve: true };
        TradingOrder { party, lots: fill.lots, planned: fill.lots }
    }
}

impl UncrossExecution<'_, '_, '_> {
    fn next_order(&mut self, side: Side) -> Option<TradingOrder> {
        let (at, fills) = (&mut self.next[side as usize & 1], &self.plan.sides[side as usize & 1]);
        let order = fills.get(*at).map(|fill| TradingOrder::of(side, fill));
        *at += 1;
        if let Some(later) = fills.get(*at + PREFETCH_DISTANCE) {
            self.context.orders.prefetch(later.order.id);
            self.context.market.book.prefetch_order(later.order.slot);
        }
        order
    }

    /// Trades the first buyer with the first seller, for the smaller of their remaining lots, until
    /// one side is done.
    fn trade_pairs(&mut self, kind: TradeKind, out: &mut impl EventSink) {
        let mut buyer = self.next_order(Side::Buy);
        let mut seller = self.next_order(Side::Sell);
        while let (Some(buy), Some(sell)) = (&mut buyer, &mut seller) {
            let lots = buy.lots.min(sell.lots);
            buy.lots -= lots;
            sell.lots -= lots;
            let buy_is_earlier = buy.party.time < sell.party.time;
            let [maker, taker] =
                if buy_is_earlier { [&mut buy.party, &mut sell.party] } else { [&mut sell.party, &mut buy.party] };
            let accounts = (maker.account, taker.account);
            let price = self.plan.price;
            self.context.trade(PartyTrade { kind, price, lots, maker, taker }, out);
            self.context.count_trade(accounts.0, accounts.1, out);
            if let Some(done) = buyer.take_if(|order| order.lots == 0) {
                self.complete(&done);
                buyer = self.next_order(Side::Buy);
            }
            if let Some(done) = seller.take_if(|order| order.lots == 0) {
                self.complete(&done);
                seller = self.next_order(Side::Sell);
            }
        }
    }

    /// Records an order that has traded all its planned lots. Removes the order, without an event,
    /// if it is filled.
    fn complete(&mut self, order: &TradingOrder) {
        let TradingOrder { party: TradeParty { slot, id, account, side, limit, open, .. }, planned, .. } = *order;
        let market = &mut *self.context.market;
        if slot.is_undisplayed() {
            market.undisplayed.fill(slot, planned);
            let Some(order) = market.undisplayed.get(slot) else { return };
            if order.minimum_execution() == 0 {
                self.work.unpriced.push((side, order.ranking_price(), planned));
            } else if open > 0 && open < order.minimum_execution() {
                self.work.below_minimum[side as usize & 1].push(slot);
            }
            if open == 0 {
                self.context.remove_undisplayed(slot);
            }
            return;
        }
        self.work.add_level(side, limit, planned);
        if open == 0 {
            market.book.remove(slot);
            self.context.orders.remove(id);
            self.context.accounts[account.0 as usize].open_orders -= 1;
        } else if market.book.get(slot).owner.is_iceberg() {
            self.work.icebergs[side as usize & 1].push((slot, planned));
        } else {
            market.book.deduct(slot, planned);
        }
    }
}

/// Work that remains after the trades of an uncross.
#[derive(Default)]
struct PostUncrossWork {
    /// Prices at which orders of the book have traded, best first, with the executed lots.
    levels: [Vec<(Ticks, u64)>; 2],
    /// Icebergs that stay open, with their executed lots.
    icebergs: [Vec<(Slot, u32)>; 2],
    /// Hidden orders that are left with less than their minimum execution size.
    below_minimum: [Vec<Slot>; 2],
    /// Market orders with their bounds and executed lots.
    unpriced: Vec<(Side, Option<Ticks>, u32)>,
}

impl PostUncrossWork {
    fn add_level(&mut self, side: Side, price: Ticks, traded: u32) {
        let levels = &mut self.levels[side as usize & 1];
        match levels.last_mut() {
            Some((last, lots)) if *last == price => *lots += u64::from(traded),
            _ => levels.push((price, u64::from(traded))),
        }
    }

    /// Deducts the executed lots from the curve.
    fn update_curve(&self, curve: &mut AuctionCurve) {
        for (side, levels) in Side::BOTH.into_iter().zip(&self.levels) {
            for (price, lots) in levels {
                curve.change(side, Some(*price), -i64::try_from(*lots).unwrap_or(i64::MAX));
            }
        }
        for (side, bound, lots) in &self.unpriced {
            curve.change(*side, *bound, -i64::from(*lots));
        }
    }
}
