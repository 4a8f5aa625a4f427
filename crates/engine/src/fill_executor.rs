//! Executes the fills of one incoming order during a sweep of the book.
//!
//! Does        apply self-match prevention, settle each fill, count executions, emit the events.
//! Holds       money that one party gains, the other loses; a filled maker's reserve is released.
//! Costs       constant per fill.
//! Start at    [`FillExecutor::trade`].

use pitwire_model::{
    AccountId, CancelReason, Event, Lots, MatchGroup, OrderId, Side, Ticks, TradeKind, TradeSeq, VenueNanos,
};

use crate::account::Account;
use crate::book::{Maker, MakerAction, OrderOrigin, Owner, RestingOrder, SweepSink};
use crate::event_sink::EventSink;
use crate::incoming::IncomingOrder;
use crate::index::OrderIndex;
use crate::settlement::{reserve, settle_trade};
use crate::settlement_terms::SettlementTerms;

/// Counters that every trade advances.
pub(crate) struct TradeCounters<'a> {
    pub trades: &'a mut TradeSeq,
    pub last: &'a mut Option<Ticks>,
    pub last_priority: &'a mut u64,
}

/// The prices of a fill. A hidden maker may trade at a better price than its limit, at which money
/// is reserved.
#[derive(Clone, Copy)]
pub(crate) struct FillPrices {
    pub of_maker: Ticks,
    pub of_trade: Ticks,
}

/// The sink of a sweep, with everything beside the book that a fill changes.
pub(crate) struct FillExecutor<'a, S> {
    pub order: &'a IncomingOrder,
    guarded_group: MatchGroup,
    /// Open lots of the incoming order.
    pub open: u32,
    /// Σ price × lots of its trades. Fits: a price has fewer than 2^32 ticks, an order fewer than
    /// 2^32 lots.
    pub tick_lots: u64,
    terms: SettlementTerms,
    now: VenueNanos,
    /// Whether self-match prevention has cancelled a maker.
    pub cancelled_maker: bool,
    /// Whether self-match prevention has stopped the sweep.
    pub stopped: bool,
    counters: TradeCounters<'a>,
    accounts: &'a mut [Account],
    orders: &'a mut OrderIndex,
    out: &'a mut S,
}

impl<S: EventSink> SweepSink<OrderOrigin> for FillExecutor<'_, S> {
    #[inline]
    fn maker_action(&mut self, maker: &Maker<OrderOrigin>) -> MakerAction {
        match self.guarded_group {
            MatchGroup::Order => MakerAction::Trade,
            MatchGroup::Account if maker.owner.account() != self.order.account => MakerAction::Trade,
            MatchGroup::Account | MatchGroup::Key(_) => {
                let action = self.order.maker_action(maker.owner.account(), maker.origin().group);
                self.stopped = matches!(action, MakerAction::Stop | MakerAction::CancelBoth);
                action
            }
        }
    }

    #[inline]
    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32, refreshed: u32) {
        self.trade(maker, owner, FillPrices { of_maker: price, of_trade: price }, lots, maker_open, refreshed);
    }

    #[inline]
    fn refreshed(&mut self, origin: &mut OrderOrigin) {
        *self.counters.last_priority += 1;
        origin.time = *self.counters.last_priority;
    }

    #[inline(never)]
    fn cancelled(&mut self, order: &RestingOrder, _: OrderOrigin) {
        self.cancelled_maker = true;
        self.cancel_resting(order, CancelReason::SelfMatch);
    }

    #[inline]
    fn level(&mut self, price: Ticks, lots: u64) {
        let side = self.order.side.opposite();
        self.out.emit(Event::Level { instrument: self.order.instrument, side, price, lots: Lots(lots) });
    }
}

impl<'a, S: EventSink> FillExecutor<'a, S> {
    #[inline(always)]
    pub fn new(
        order: &'a IncomingOrder,
        terms: SettlementTerms,
        now: VenueNanos,
        counters: TradeCounters<'a>,
        accounts: &'a mut [Account],
        orders: &'a mut OrderIndex,
        out: &'a mut S,
    ) -> Self {
        FillExecutor {
            order,
            guarded_group: order.guarded_group(),
            open: order.open,
            tick_lots: 0,
            terms,
            now,
            cancelled_maker: false,
            stopped: false,
            counters,
            accounts,
            orders,
            out,
        }
    }

    /// HOT. Executes `lots` between the incoming order and a maker that has `maker_open` lots left
    /// afterwards.
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
            if self.accounts[account.0 as usize].has_throttle {
                self.count_execution(account);
            }
        }
    }

    /// Reports the cancellation of an order that the sweep has removed from the book.
    pub fn cancel_resting(&mut self, order: &RestingOrder, reason: CancelReason) {
        let (party, open) = ((order.owner.account(), order.owner.side()), order.total_open());
        self.cancel_maker(order.id, party, order.price, open, reason);
    }

    /// Returns the room of an account for orders on `side` (rulebook 24).
    pub fn room(&self, account: AccountId, side: Side) -> u32 {
        let room = self.accounts[account.0 as usize].room(self.order.instrument, side);
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// Removes a resting order from the index, releases its reserve and emits its cancellation.
    pub fn cancel_maker(
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
        reserve(holder, self.terms, instrument, side, price, -i128::from(open));
        let open = Lots(u64::from(open));
        self.out.emit(Event::Cancelled { order, account, instrument, side, price, open, reason });
    }

    /// Settles a fill and releases the reserve of the maker.
    #[inline]
    fn settle(&mut self, owner: Owner, prices: FillPrices, lots: u32) {
        let (taker, maker) = (self.order.account.0 as usize, owner.account().0 as usize);
        let instrument = self.order.instrument;
        reserve(&mut self.accounts[maker], self.terms, instrument, owner.side(), prices.of_maker, -i128::from(lots));
        let parties = [(taker, self.order.side), (maker, owner.side())];
        settle_trade(self.accounts, instrument, self.terms, parties, prices.of_trade, lots);
    }

    #[cold]
    fn count_execution(&mut self, account: AccountId) {
        if self.accounts[account.0 as usize].count_execution(self.now) {
            self.out.emit(Event::ThrottleTripped { account });
        }
    }
}
