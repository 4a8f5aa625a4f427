//! A call, a batch or a filter ends in trades at one price (rulebook 8.2, 11).
//!
//! Does        find the price, test it, let both sides trade in pairs, and tell what is left.
//! Holds       1. everybody trades at one price, which everybody accepts;
//!             2. no hidden order gets less than its minimum;
//!             3. a price that breaches leaves all as it was.
//! Costs       the prices of both sides once, the orders that trade once; with hidden orders, the passes of `filter`.
//! Start at    [`Engine::uncross`], [`Engine::filter`], then `Engine::execute`.

use pitwire_model::{
    Allocation, CancelReason, Event, InstrumentId, Lots, OrderId, Phase, Side, Ticks, Tolerance, TradeKind, TradeSeq,
};

use super::SIDES;
use super::curve::{AuctionCurve, Clearing};
use super::filter::{self, AuctionInterest};
use super::plan::{ExtraParticipant, PlannedFill, SharedPrice, SidePlanner};
use super::share::{AllocationRule, BatchAllocation, ProRataAllocation};
use super::trade::{PartyTrade, TradeParty};
use crate::book::{OrderOrigin, QueuedOrder, Slot, key_of};
use crate::controls::{Breach, ReferencePrices};
use crate::day::TradeTotals;
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::special::IndicativeUncross;

/// Who trades how much, buyers and sellers each in the order in which they do.
struct UncrossPlan {
    price: Ticks,
    volume: u64,
    sides: [Vec<PlannedFill>; 2],
}

impl Engine {
    /// What the call, or the batch, would do now by its visible orders. Costs the prices between where that was and
    /// where it is.
    pub(crate) fn indicative(&mut self, instrument: InstrumentId) -> IndicativeUncross {
        let market = &mut self.markets[instrument.0 as usize];
        let reference = market.reference();
        let Some(curve) = &mut market.special.curve else { return IndicativeUncross::default() };
        let indicated = indicated(curve.clearing(reference));
        debug_assert!(
            market.book.resting_orders() > CHECKED || indicated == market.indicated_by_all(),
            "the curve knows every visible order of a call"
        );
        indicated
    }

    /// The uncross that ends a call (rulebook 11), if there is a price. One that breaches the tolerance changes nothing.
    pub(crate) fn uncross(
        &mut self,
        instrument: InstrumentId,
        call: Phase,
        tolerance: Tolerance,
        out: &mut impl EventSink,
    ) -> Result<Option<Ticks>, Breach> {
        let at = instrument.0 as usize;
        let market = &mut self.markets[at];
        let mut curve = market.special.curve.take().unwrap_or_else(|| market.gathered());
        let cleared = market.clear(&mut curve);
        let breach = cleared.as_ref().and_then(|(clearing, _)| market.breach(tolerance, clearing.price));
        let Some((clearing, outsiders)) = cleared.filter(|_| breach.is_none()) else {
            market.keep_curve(curve);
            return breach.map_or(Ok(None), Err);
        };
        let (price, volume) = (clearing.price, Lots(clearing.volume));
        let plan = market.plan_call(&clearing, outsiders);
        let told = Event::Uncrossed { instrument, call, price, volume };
        self.execute(instrument, &plan, TradeKind::Call(call), Some((told, &mut curve)), out);
        let market = &mut self.markets[at];
        market.keep_curve(curve);
        market.special.static_reference = Some(price);
        market.special.uncross_price = Some(price);
        Ok(Some(price))
    }

    /// Hidden orders and whatever they can trade with uncross (rulebook 8.2): once. With `only_if`, nothing happens
    /// unless that order gets something. Says whether anything traded.
    pub(crate) fn filter(
        &mut self,
        instrument: InstrumentId,
        only_if: Option<OrderId>,
        out: &mut impl EventSink,
    ) -> Result<bool, Breach> {
        let market = &self.markets[instrument.0 as usize];
        if !market.special.has_hidden() {
            return Ok(false);
        }
        let Some(plan) = market.plan_filter() else { return Ok(false) };
        if let Some(only) = only_if {
            let is_it = |part: &PlannedFill| market.special.get(part.order.slot).is_some_and(|order| order.id == only);
            if !plan.sides.iter().flatten().any(is_it) {
                return Ok(false);
            }
        }
        if let Some(breach) = market.breach(market.rules.tolerance(Phase::Continuous), plan.price) {
            return Err(breach);
        }
        self.execute(instrument, &plan, TradeKind::Filter, None, out);
        Ok(true)
    }

    /// Everybody in the plan trades. `call`: what to say after the trades, and the curve that is to know of them.
    fn execute(
        &mut self,
        instrument: InstrumentId,
        plan: &UncrossPlan,
        kind: TradeKind,
        call: Option<(Event, &mut AuctionCurve)>,
        out: &mut impl EventSink,
    ) {
        let at = instrument.0 as usize;
        let first = self.markets[at].trades.0 + 1;
        let mut left = PostUncrossWork::default();
        self.pair(instrument, plan, kind, &mut left, out);
        let market = &mut self.markets[at];
        market.traded(plan.price);
        match kind {
            // A batch and a filter are continuous trading.
            TradeKind::Filter | TradeKind::Call(Phase::Continuous) => {
                let (lots, price) = (plan.volume, plan.price);
                let tick_lots = price.0.cast_unsigned().saturating_mul(lots);
                let first = TradeSeq(first);
                market.day.count(self.now, TradeTotals { first, last: market.trades, lots, tick_lots, price });
            }
            _ => market.day.uncrossed(plan.price),
        }
        if let Some((told, curve)) = call {
            out.emit(told);
            left.note(curve);
        }
        self.tell_leftovers(instrument, &left, out);
    }

    /// Trades from both heads, the smaller of what two parties have left.
    fn pair(
        &mut self,
        instrument: InstrumentId,
        plan: &UncrossPlan,
        kind: TradeKind,
        left: &mut PostUncrossWork,
        out: &mut impl EventSink,
    ) {
        let mut at = [0, 0];
        let mut next = |side: Side, engine: &Engine| {
            let (at, parts) = (&mut at[side as usize & 1], &plan.sides[side as usize & 1]);
            let head = parts.get(*at).map(|part| PairingHead::of(side, part));
            *at += 1;
            if let Some(later) = parts.get(*at + AHEAD) {
                engine.orders.expect(later.order.id);
                engine.markets[instrument.0 as usize].book.expect_order(later.order.slot);
            }
            head
        };
        let mut buyer = next(Side::Buy, self);
        let mut seller = next(Side::Sell, self);
        while let (Some(buy), Some(sell)) = (&mut buyer, &mut seller) {
            let lots = buy.lots.min(sell.lots);
            buy.lots -= lots;
            sell.lots -= lots;
            let buy_is_earlier = buy.party.time < sell.party.time;
            let [maker, taker] =
                if buy_is_earlier { [&mut buy.party, &mut sell.party] } else { [&mut sell.party, &mut buy.party] };
            let accounts = (maker.account, taker.account);
            let price = plan.price;
            self.trade(PartyTrade { instrument, kind, price, lots, maker, taker }, out);
            self.count_trade(accounts.0, accounts.1, out);
            if let Some(done) = buyer.take_if(|head| head.lots == 0) {
                self.leave(instrument, &done, left);
                buyer = next(Side::Buy, self);
            }
            if let Some(done) = seller.take_if(|head| head.lots == 0) {
                self.leave(instrument, &done, left);
                seller = next(Side::Sell, self);
            }
        }
    }

    /// A party has traded all that it was to trade. What has nothing left goes, without a word: it has filled.
    fn leave(&mut self, instrument: InstrumentId, head: &PairingHead, left: &mut PostUncrossWork) {
        let PairingHead { party: TradeParty { slot, id, account, side, limit, open, .. }, traded, .. } = *head;
        let Engine { accounts, markets, orders, .. } = self;
        let market = &mut markets[instrument.0 as usize];
        if slot.is_kept() {
            market.special.fill(slot, traded);
            let Some(order) = market.special.get(slot) else { return };
            if order.minimum() == 0 {
                left.unpriced.push((side, order.bounded_price(), traded));
            } else if open > 0 && open < order.minimum() {
                left.below_minimum[side as usize & 1].push(slot);
            }
            if open == 0 {
                self.drop_kept(instrument, slot);
            }
            return;
        }
        left.touch(side, limit, traded);
        if open == 0 {
            market.book.remove(slot);
            orders.remove(id);
            accounts[account.0 as usize].open_orders -= 1;
        } else if market.book.get(slot).owner.is_iceberg() {
            left.icebergs[side as usize & 1].push((slot, traded));
        } else {
            market.book.deduct(slot, traded);
        }
    }

    /// Hidden orders left with less than their minimum go; icebergs show their next part; levels are told.
    fn tell_leftovers(&mut self, instrument: InstrumentId, left: &PostUncrossWork, out: &mut impl EventSink) {
        for slot in left.below_minimum.iter().flatten() {
            self.take_off(instrument, *slot, CancelReason::BelowMinimumExecution, out);
        }
        for (slot, traded) in left.icebergs.iter().flatten() {
            self.show_next(instrument, *slot, *traded, out);
        }
        let book = &self.markets[instrument.0 as usize].book;
        for (side, levels) in SIDES.into_iter().zip(&left.levels) {
            for (price, _) in levels {
                out.emit(Event::Level { instrument, side, price: *price, lots: book.lots_at(side, *price) });
            }
        }
    }

    /// An iceberg has traded and lives on: with its next part at the back when it has traded what it showed.
    fn show_next(&mut self, instrument: InstrumentId, slot: Slot, traded: u32, out: &mut impl EventSink) {
        let time = self.times + 1;
        let book = &mut self.markets[instrument.0 as usize].book;
        let shown = book.deduct(slot, traded).refreshed;
        if shown == 0 {
            return;
        }
        book.set_origin(slot, OrderOrigin { time, ..book.origin(slot) });
        self.times = time;
        let order = book.get(slot);
        let (account, side, shown) = (order.owner.account(), order.owner.side(), Lots(u64::from(shown)));
        out.emit(Event::Refreshed { order: order.id, account, instrument, side, price: order.price, shown });
    }
}

/// The order whose turn it is on its side.
struct PairingHead {
    party: TradeParty,
    /// What it still is to trade, and what it was to in all.
    lots: u32,
    traded: u32,
}

/// So many parties ahead, what is asked of them is fetched.
const AHEAD: usize = 8;

impl PairingHead {
    fn of(side: Side, part: &PlannedFill) -> PairingHead {
        let QueuedOrder { id, time, slot, account, whole: open } = part.order;
        let party = TradeParty { slot, id, account, side, limit: part.limit, open, time, reserves: true };
        PairingHead { party, lots: part.lots, traded: part.lots }
    }
}

/// What is to be done once everybody has traded.
#[derive(Default)]
struct PostUncrossWork {
    /// Prices at which orders of the book have traded, best first, and how much.
    levels: [Vec<(Ticks, u64)>; 2],
    /// Icebergs that live on, and what they traded.
    icebergs: [Vec<(Slot, u32)>; 2],
    below_minimum: [Vec<Slot>; 2],
    /// Market orders, with their bounds, and what they traded.
    unpriced: Vec<(Side, Option<Ticks>, u32)>,
}

impl PostUncrossWork {
    fn touch(&mut self, side: Side, price: Ticks, traded: u32) {
        let levels = &mut self.levels[side as usize & 1];
        match levels.last_mut() {
            Some((last, lots)) if *last == price => *lots += u64::from(traded),
            _ => levels.push((price, u64::from(traded))),
        }
    }

    /// What has traded is gone from the curve.
    fn note(&self, curve: &mut AuctionCurve) {
        for (side, levels) in SIDES.into_iter().zip(&self.levels) {
            for (price, lots) in levels {
                curve.note(side, Some(*price), -i64::try_from(*lots).unwrap_or(i64::MAX));
            }
        }
        for (side, bound, lots) in &self.unpriced {
            curve.note(*side, *bound, -i64::from(*lots));
        }
    }
}

/// So many orders are counted again in debug builds, each time a price is told.
const CHECKED: u32 = 64;

fn indicated(clearing: Option<Clearing>) -> IndicativeUncross {
    clearing.map_or(IndicativeUncross::default(), |at| IndicativeUncross {
        price: Some(at.price),
        volume: at.volume,
        imbalance: at.imbalance,
    })
}

impl Market {
    /// A session has begun, or an image was restored: what gathers in it is counted from now on.
    pub(crate) fn phase_changed(&mut self) {
        self.special.curve = if self.gathers() { Some(self.gathered()) } else { None };
        self.special.cross = None;
    }

    /// All visible orders by price, icebergs whole. Costs all of them.
    fn gathered(&self) -> AuctionCurve {
        let mut curve = AuctionCurve::default();
        for side in SIDES {
            for (price, lots) in self.book.whole_levels(side) {
                curve.note(side, Some(price), i64::try_from(lots).unwrap_or(i64::MAX));
            }
            for slot in self.special.unpriced(side) {
                if let Some(order) = self.special.get(slot) {
                    curve.note(side, order.bounded_price(), i64::from(order.open));
                }
            }
        }
        curve
    }

    fn indicated_by_all(&self) -> IndicativeUncross {
        indicated(self.gathered().clearing(self.reference()))
    }

    fn keep_curve(&mut self, curve: AuctionCurve) {
        self.special.curve = Some(curve).filter(|_| self.gathers());
    }

    /// Whether an execution at `price` would be too far away.
    fn breach(&self, tolerance: Tolerance, price: Ticks) -> Option<Breach> {
        let fixed = self.special.static_reference;
        ReferencePrices { fixed, dynamic: self.dynamic_reference() }.test(tolerance, price)
    }

    /// The price of the call with the hidden orders that can have their minimum, and who trades beside the book.
    fn clear(&self, curve: &mut AuctionCurve) -> Option<(Clearing, [Vec<ExtraParticipant>; 2])> {
        let mut hidden = SIDES.map(|side| self.hidden_of(side, None));
        if hidden.iter().any(|side| !side.is_empty()) {
            let whole = |side: Side| -> Vec<AuctionInterest> {
                let any = Some(curve.market_lots(side)).filter(|lots| *lots > 0);
                let any = any.map(|lots| AuctionInterest::any(side, lots));
                any.into_iter().chain(interests(side, curve.levels(side), &hidden[side as usize & 1])).collect()
            };
            let [mut bids, mut asks] = SIDES.map(whole);
            filter::settle(&mut bids, &mut asks);
            keep_counted(&mut hidden, [&bids, &asks]);
        }
        let note = |curve: &mut AuctionCurve, sign: i64| {
            for (side, orders) in SIDES.into_iter().zip(&hidden) {
                orders.iter().for_each(|order| curve.note(side, order.price, sign * i64::from(order.lots)));
            }
        };
        note(curve, 1);
        let clearing = curve.clearing(self.reference());
        note(curve, -1);
        let clearing = clearing?;
        for (side, orders) in SIDES.into_iter().zip(&mut hidden) {
            orders.extend(self.special.unpriced(side).filter_map(|slot| self.outsider(slot)));
            SidePlanner::sort(side, orders);
        }
        Some((clearing, hidden))
    }

    fn plan_call(&self, clearing: &Clearing, outsiders: [Vec<ExtraParticipant>; 2]) -> UncrossPlan {
        let Clearing { price, volume, imbalance } = *clearing;
        let batches = BatchAllocation(&self.special.batch_ends);
        let way: Option<&dyn AllocationRule> = match self.rules.allocation {
            Allocation::PriceTime => None,
            Allocation::ProRata => Some(&ProRataAllocation),
            Allocation::FrequentBatch => {
                Some(&batches).filter(|_| self.batches()).map(|batches| batches as &dyn AllocationRule)
            }
        };
        let large = if imbalance > 0 { Side::Buy } else { Side::Sell };
        let sides = SIDES.map(|side| {
            let shared = way.filter(|_| imbalance != 0 && side == large).map(|way| SharedPrice { price, way });
            let outsiders = &outsiders[side as usize & 1];
            SidePlanner { book: &self.book, side, outsiders, shared }.side(volume)
        });
        UncrossPlan { price, volume, sides }
    }

    /// What a filter would do now: nothing unless the book is crossed, hidden orders counted.
    fn plan_filter(&self) -> Option<UncrossPlan> {
        let best = |side: Side| {
            let hidden = self.hidden_at_best(side);
            let visible = self.book.best_price(side);
            hidden.into_iter().chain(visible).min_by_key(|price| key_of(side, *price))
        };
        let (bid, offer) = (best(Side::Buy)?, best(Side::Sell)?);
        if bid < offer {
            return None;
        }
        let region = [offer, bid];
        let mut hidden = [0, 1].map(|at| self.hidden_of(SIDES[at], Some(region[at])));
        let interests = |at: usize| -> Vec<AuctionInterest> {
            let (side, last) = (SIDES[at], key_of(SIDES[at], region[at]));
            let levels = self.book.whole_levels(side).take_while(|(price, _)| key_of(side, *price) <= last);
            interests(side, levels, &hidden[at]).collect()
        };
        let [mut bids, mut asks] = [0, 1].map(interests);
        filter::settle(&mut bids, &mut asks);
        let crossing = filter::crossing(&bids, &asks)?;
        keep_counted(&mut hidden, [&bids, &asks]);
        let bests = SIDES.map(|side| self.book.best_price(side));
        let price = filter::price(crossing, bests, self.reference());
        let sides = [0, 1].map(|at| {
            let planner = SidePlanner { book: &self.book, side: SIDES[at], outsiders: &hidden[at], shared: None };
            planner.side(crossing.volume)
        });
        Some(UncrossPlan { price, volume: crossing.volume, sides })
    }

    fn hidden_at_best(&self, side: Side) -> Option<Ticks> {
        self.special.hidden(side).next().and_then(|slot| self.special.get(slot)).map(|order| order.price())
    }

    /// Hidden orders of one side in priority order, as far as `last`.
    fn hidden_of(&self, side: Side, last: Option<Ticks>) -> Vec<ExtraParticipant> {
        let last = last.map_or(u32::MAX, |last| key_of(side, last));
        let within = |order: &ExtraParticipant| order.price.is_some_and(|price| key_of(side, price) <= last);
        self.special.hidden(side).filter_map(|slot| self.outsider(slot)).take_while(within).collect()
    }

    fn outsider(&self, slot: Slot) -> Option<ExtraParticipant> {
        let order = self.special.get(slot)?;
        let (id, time, account, whole) = (order.id, order.origin.time, order.account, order.open);
        let (price, minimum) = (order.bounded_price(), order.minimum());
        Some(ExtraParticipant { order: QueuedOrder { id, time, slot, account, whole }, price, minimum, lots: whole })
    }
}

/// One side in priority order: prices of visible orders, and at each the hidden ones behind them.
fn interests<'a>(
    side: Side,
    levels: impl Iterator<Item = (Ticks, u64)> + 'a,
    hidden: &'a [ExtraParticipant],
) -> impl Iterator<Item = AuctionInterest> + 'a {
    let mut levels = levels.peekable();
    let mut hidden = hidden.iter().peekable();
    std::iter::from_fn(move || {
        let behind = hidden.peek().map(|order| order.rank(side));
        let level = levels.next_if(|(price, _)| behind.is_none_or(|key| Some(key_of(side, *price)) <= key));
        match level {
            Some((price, lots)) => Some(AuctionInterest::visible(price, lots)),
            None => hidden.next().map(ExtraParticipant::interest),
        }
    })
}

/// Of hidden orders only those that count, as much as counts of them. `settled` has each of them, in the same order.
fn keep_counted(hidden: &mut [Vec<ExtraParticipant>; 2], settled: [&[AuctionInterest]; 2]) {
    for (orders, settled) in hidden.iter_mut().zip(settled) {
        let counted = settled.iter().filter(|interest| interest.minimum > 0);
        for (order, interest) in orders.iter_mut().zip(counted) {
            order.lots = u32::try_from(interest.lots).unwrap_or(u32::MAX);
        }
        orders.retain(|order| order.lots > 0);
    }
}
