//! A checked order meets the book: what trades, what self-match prevention takes away, what rests or expires.
//!
//! Holds       an order that is to fill whole either does, or leaves the book as it was.
//! Costs       the orders filled or taken off, and the levels swept; twice that for fill or kill.
//! Start at    `Engine::match_and_rest`.

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, MatchGroup, OrderId, SelfMatch, Side, Ticks, TradeKind,
    TradeSeq, VenueNanos,
};

use crate::account::Account;
use crate::book::{FillEstimate, Maker, MakerAction, OrderOrigin, Owner, RestingOrder, SweepSink};
use crate::day::TradeTotals;
use crate::engine::{Engine, EventSink};
use crate::index::OrderIndex;
use crate::market::{Market, SettlementTerms};
use crate::settle::{exchange, reserve, set_aside};

/// How far an order without a limit may trade.
#[inline]
pub(crate) fn end_of_book(side: Side) -> Ticks {
    match side {
        Side::Buy => Ticks::MAX_PRICE,
        Side::Sell => Ticks(1),
    }
}

/// An order on its way into a book: checked, not yet matched.
#[derive(Clone, Copy)]
pub(crate) struct IncomingOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    /// Zero for a market order.
    pub price: Ticks,
    /// How far it may trade: its price, or for a market order the collar's edge, or the end of the book.
    pub limit: Ticks,
    pub open: u32,
    pub ordered: u32,
    /// The most it shows at a time; zero shows all.
    pub peak: u32,
    pub day: bool,
    pub rests: bool,
    /// The least it may trade at a time; zero but for hidden orders.
    pub minimum: u32,
    /// What bounds a market order; zero where nothing does.
    pub bound: Ticks,
    /// Fill or kill.
    pub whole: bool,
    pub mode: SelfMatch,
    pub origin: OrderOrigin,
}

impl IncomingOrder {
    pub fn is_market(&self) -> bool {
        self.price == Ticks::ZERO
    }

    /// Whether it may trade at `price`.
    pub fn accepts(&self, price: Ticks) -> bool {
        match self.side {
            Side::Buy => price <= self.limit,
            Side::Sell => price >= self.limit,
        }
    }

    /// Whom it may not trade with: its group, or nobody.
    #[inline]
    fn guard(&self) -> MatchGroup {
        if self.mode == SelfMatch::Allow { MatchGroup::Order } else { self.origin.group }
    }

    /// What happens when it meets an order of `account` and `group`.
    pub fn meeting(&self, account: AccountId, group: MatchGroup) -> MakerAction {
        meeting(self.mode, (self.account, self.origin.group), (account, group))
    }

    /// What it would trade with now.
    pub fn reach(&self, market: &Market) -> FillEstimate {
        if !market.plain {
            return market.careful_reach(self);
        }
        market.book.reach(self.side, Some(self.limit), u64::from(self.open), |order, origin| {
            self.meeting(order.owner.account(), origin.group)
        })
    }

    pub(crate) fn cancelled(&self, open: u32, reason: CancelReason) -> Event {
        Event::Cancelled {
            order: self.id,
            account: self.account,
            instrument: self.instrument,
            side: self.side,
            price: self.price,
            open: Lots(u64::from(open)),
            reason,
        }
    }
}

/// What happens when an order that arrives in this mode meets another.
pub(crate) fn meeting(mode: SelfMatch, mine: (AccountId, MatchGroup), other: (AccountId, MatchGroup)) -> MakerAction {
    let own = match (mine.1, other.1) {
        (MatchGroup::Key(mine), MatchGroup::Key(other)) => mine == other,
        (MatchGroup::Account, MatchGroup::Account) => mine.0 == other.0,
        _ => false,
    };
    match mode {
        _ if !own => MakerAction::Trade,
        SelfMatch::Allow => MakerAction::Trade,
        SelfMatch::CancelResting => MakerAction::CancelMaker,
        SelfMatch::CancelIncoming => MakerAction::Stop,
        SelfMatch::CancelBoth => MakerAction::CancelBoth,
    }
}

impl Engine {
    /// HOT. Trades what can be traded; rests or expires the remainder. Says whether the public book changed: an order
    /// that neither trades nor rests leaves no trace.
    #[inline]
    pub(crate) fn match_and_rest(&mut self, order: &IncomingOrder, out: &mut impl EventSink) -> bool {
        if order.whole && !self.fills_whole(order) {
            out.emit(order.cancelled(order.open, CancelReason::FillOrKill));
            return false;
        }
        let Engine { accounts, markets, orders, now, times, .. } = self;
        let market = &mut markets[order.instrument.0 as usize];
        let Market { book, money, trades, last, day, .. } = market;
        let before = *trades;
        let counters = TradeCounters { trades, last, times };
        let mut matching = FillExecutor::new(order, *money, *now, counters, accounts, orders, out);
        let open = book.sweep(order.side, Some(order.limit), order.open, &mut matching);
        let (removed, stopped, tick_lots) = (matching.removed, matching.stopped, matching.tick_lots);
        if open < order.open {
            let (first, lots) = (TradeSeq(before.0 + 1), u64::from(order.open - open));
            day.count(*now, TradeTotals { first, last: *trades, lots, tick_lots, price: last.unwrap_or(order.price) });
        }
        if open == 0 {
            return true;
        }
        if order.rests && !stopped {
            self.rest(order, open, out);
            return true;
        }
        let reason = if stopped { CancelReason::SelfMatch } else { CancelReason::ImmediateRemainder };
        out.emit(order.cancelled(open, reason));
        open < order.open || removed
    }

    #[cold]
    fn fills_whole(&self, order: &IncomingOrder) -> bool {
        let market = self.market(order.instrument);
        market.is_some_and(|market| order.reach(market).lots == u64::from(order.open))
    }

    /// HOT. Into the book, last at its price.
    #[inline]
    pub(crate) fn rest(&mut self, order: &IncomingOrder, open: u32, out: &mut impl EventSink) {
        let Engine { accounts, markets, orders, .. } = self;
        let market = &mut markets[order.instrument.0 as usize];
        let owner = Owner::new(order.account, order.side, order.day);
        let IncomingOrder { id, account, instrument, side, price, ordered, peak, origin, .. } = *order;
        let shown = if peak == 0 { open } else { open.min(peak) };
        let resting = RestingOrder { id, price, open: shown, ordered, owner, hidden: open - shown, display: peak };
        // A stop that was elected before another order came to the back has the earlier time.
        let (slot, lots) =
            if market.plain { market.book.rest(resting, origin) } else { market.book.rest_by_time(resting, origin) };
        if !market.plain {
            market.whole_changed(side, Some(price), i64::from(open));
        }
        orders.insert(id, instrument, slot);
        accounts[account.0 as usize].open_orders += 1;
        set_aside(accounts, market, account, side, price, i128::from(open));
        out.emit(Event::Level { instrument, side, price, lots: Lots(lots) });
    }

    /// Ends a command's changes to one instrument's public state with its new number.
    #[inline]
    pub(crate) fn book_changed(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let market = &mut self.markets[instrument.0 as usize];
        market.change_id += 1;
        out.emit(Event::BookChanged { instrument, change_id: market.change_id });
    }
}

/// What every trade moves on.
pub(crate) struct TradeCounters<'a> {
    pub trades: &'a mut TradeSeq,
    pub last: &'a mut Option<Ticks>,
    pub times: &'a mut u64,
}

/// What a sweep touches beside the book.
pub(crate) struct FillExecutor<'a, S> {
    pub order: &'a IncomingOrder,
    guard: MatchGroup,
    /// What the order still has.
    pub open: u32,
    /// Σ price × lots of its trades: fewer than 2^32 ticks times fewer than 2^32 lots.
    pub tick_lots: u64,
    money: SettlementTerms,
    now: VenueNanos,
    /// A resting order of the own group has left the book.
    removed: bool,
    /// An order of the own group has ended the sweep.
    stopped: bool,
    counters: TradeCounters<'a>,
    accounts: &'a mut [Account],
    orders: &'a mut OrderIndex,
    out: &'a mut S,
}

impl<S: EventSink> SweepSink<OrderOrigin> for FillExecutor<'_, S> {
    #[inline]
    fn meet(&mut self, maker: &Maker<OrderOrigin>) -> MakerAction {
        match self.guard {
            MatchGroup::Order => MakerAction::Trade,
            MatchGroup::Account if maker.owner.account() != self.order.account => MakerAction::Trade,
            MatchGroup::Account | MatchGroup::Key(_) => {
                let meeting = self.order.meeting(maker.owner.account(), maker.origin().group);
                self.stopped = matches!(meeting, MakerAction::Stop | MakerAction::CancelBoth);
                meeting
            }
        }
    }

    #[inline]
    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32, refreshed: u32) {
        self.trade(maker, owner, FillPrices { of_maker: price, of_trade: price }, lots, maker_open, refreshed);
    }

    #[inline]
    fn refreshed(&mut self, origin: &mut OrderOrigin) {
        *self.counters.times += 1;
        origin.time = *self.counters.times;
    }

    #[inline(never)]
    fn cancelled(&mut self, order: &RestingOrder, _: OrderOrigin) {
        let (party, open) = ((order.owner.account(), order.owner.side()), order.total_open());
        self.removed = true;
        self.dropped(order.id, party, order.price, open, CancelReason::SelfMatch);
    }

    #[inline]
    fn level(&mut self, price: Ticks, lots: u64) {
        let side = self.order.side.opposite();
        self.out.emit(Event::Level { instrument: self.order.instrument, side, price, lots: Lots(lots) });
    }
}

/// A hidden maker may trade better than at its limit, at which it has set money aside.
#[derive(Clone, Copy)]
pub(crate) struct FillPrices {
    pub of_maker: Ticks,
    pub of_trade: Ticks,
}

impl<'a, S: EventSink> FillExecutor<'a, S> {
    #[inline(always)]
    pub fn new(
        order: &'a IncomingOrder,
        money: SettlementTerms,
        now: VenueNanos,
        counters: TradeCounters<'a>,
        accounts: &'a mut [Account],
        orders: &'a mut OrderIndex,
        out: &'a mut S,
    ) -> Self {
        let (guard, open) = (order.guard(), order.open);
        let (removed, stopped) = (false, false);
        FillExecutor { order, guard, open, tick_lots: 0, money, now, removed, stopped, counters, accounts, orders, out }
    }

    /// HOT. `lots` change hands between the order and a maker that still has `maker_open`.
    #[inline(always)]
    pub fn trade(
        &mut self,
        maker: OrderId,
        owner: Owner,
        prices: FillPrices,
        lots: u32,
        maker_open: u32,
        refreshed: u32,
    ) {
        let price = prices.of_trade;
        if maker_open == 0 {
            self.orders.remove(maker);
            self.accounts[owner.account().0 as usize].open_orders -= 1;
        }
        self.open -= lots;
        self.tick_lots += price.0.cast_unsigned() * u64::from(lots);
        self.counters.trades.0 += 1;
        *self.counters.last = Some(price);
        self.settle(owner, prices, lots);
        let instrument = self.order.instrument;
        self.out.emit(Event::Trade {
            instrument,
            trade_seq: *self.counters.trades,
            price,
            lots: Lots(u64::from(lots)),
            taker_side: self.order.side,
            maker,
            maker_account: owner.account(),
            maker_open: Lots(u64::from(maker_open)),
            taker: self.order.id,
            taker_account: self.order.account,
            taker_open: Lots(u64::from(self.open)),
            kind: TradeKind::Continuous,
        });
        if refreshed > 0 {
            let (account, side, shown) = (owner.account(), owner.side(), Lots(u64::from(refreshed)));
            self.out.emit(Event::Refreshed { order: maker, account, instrument, side, price, shown });
        }
        for account in [owner.account(), self.order.account] {
            if self.accounts[account.0 as usize].counted {
                self.count_execution(account);
            }
        }
    }

    /// A resting order has left without a trade.
    pub fn dropped(
        &mut self,
        order: OrderId,
        (account, side): (AccountId, Side),
        price: Ticks,
        open: u32,
        reason: CancelReason,
    ) {
        let instrument = self.order.instrument;
        self.orders.remove(order);
        let holder = &mut self.accounts[account.0 as usize];
        holder.open_orders -= 1;
        reserve(holder, self.money, instrument, side, price, -i128::from(open));
        let open = Lots(u64::from(open));
        self.out.emit(Event::Cancelled { order, account, instrument, side, price, open, reason });
    }

    /// Moves money between taker and maker and releases what the maker had set aside.
    #[inline]
    fn settle(&mut self, owner: Owner, prices: FillPrices, lots: u32) {
        let (taker, maker) = (self.order.account.0 as usize, owner.account().0 as usize);
        let instrument = self.order.instrument;
        reserve(&mut self.accounts[maker], self.money, instrument, owner.side(), prices.of_maker, -i128::from(lots));
        let parties = [(taker, self.order.side), (maker, owner.side())];
        exchange(self.accounts, instrument, self.money, parties, prices.of_trade, lots);
    }

    #[cold]
    fn count_execution(&mut self, account: AccountId) {
        if self.accounts[account.0 as usize].count_execution(self.now) {
            self.out.emit(Event::ThrottleTripped { account });
        }
    }
}
