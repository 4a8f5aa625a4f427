//! One market together with everything else that a command on it may change.
//!
//! Does        insert, remove, park, inject and display live orders; settle trades; number changes.
//! Holds       1. every live order is in the order index, counts as an open order of its account,
//!                and has its money reserved, whether it is displayed or not;
//!             2. a trade moves exactly what one party gains and the other loses.
//! Leaves out  matching: `continuous`, `auction`. Sessions: `session_change`.
//! Start at    [`MarketContext`].

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, OrderId, OrderType, Side, Ticks, TradeKind, VenueNanos,
};

use crate::account::Account;
use crate::book::{Owner, RestingOrder, Slot};
use crate::clock::VenueClock;
use crate::event_sink::EventSink;
use crate::incoming::{IncomingOrder, worst_price};
use crate::index::OrderIndex;
use crate::live_orders::TradeParty;
use crate::market::Market;
use crate::rule_tables::Tif;
use crate::settlement::{reserve, settle_trade};
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

pub(crate) struct MarketContext<'a> {
    pub market: &'a mut Market,
    pub accounts: &'a mut [Account],
    pub orders: &'a mut OrderIndex,
    pub clock: &'a mut VenueClock,
}

/// A trade between two parties at a price that is not necessarily either's own.
pub(crate) struct PartyTrade<'a> {
    pub kind: TradeKind,
    pub price: Ticks,
    pub lots: u32,
    pub maker: &'a mut TradeParty,
    pub taker: &'a mut TradeParty,
}

impl MarketContext<'_> {
    #[inline]
    pub fn instrument(&self) -> InstrumentId {
        self.market.spec.id
    }

    /// Reserves what `lots` of an open order at `price` could cost. Negative lots release a
    /// reserve.
    #[inline]
    pub fn reserve(&mut self, account: AccountId, side: Side, price: Ticks, lots: i128) {
        let holder = &mut self.accounts[account.0 as usize];
        reserve(holder, self.market.settlement, self.market.spec.id, side, price, lots);
    }

    /// Inserts a new order that is not displayed.
    pub fn insert_undisplayed(&mut self, order: UndisplayedOrder) -> Slot {
        let slot = self.market.insert_undisplayed(order);
        self.orders.insert(order.id, self.instrument(), slot);
        self.accounts[order.account.0 as usize].open_orders += 1;
        self.reserve(order.account, order.side, order.reserve_price(), i128::from(order.open));
        slot
    }

    /// Removes an order that is not displayed, without an event. Returns `None` if there is none at
    /// `slot`.
    pub fn remove_undisplayed(&mut self, slot: Slot) -> Option<UndisplayedOrder> {
        let order = self.market.remove_undisplayed(slot)?;
        self.orders.remove(order.id);
        self.accounts[order.account.0 as usize].open_orders -= 1;
        self.reserve(order.account, order.side, order.reserve_price(), -i128::from(order.open));
        Some(order)
    }

    #[cold]
    fn cancel_undisplayed(&mut self, slot: Slot, reason: CancelReason, out: &mut impl EventSink) {
        let Some(order) = self.remove_undisplayed(slot) else { return };
        let UndisplayedOrder { id, account, side, open, .. } = order;
        let (instrument, price, open) = (self.instrument(), order.price(), Lots(u64::from(open)));
        out.emit(Event::Cancelled { order: id, account, instrument, side, price, open, reason });
    }

    /// Removes a displayed order, without an event. Returns the order and the lots that are left on
    /// its level.
    #[inline(always)]
    pub fn remove_displayed(&mut self, slot: Slot) -> (RestingOrder, u64) {
        let (order, lots) = self.market.book.remove(slot);
        let (account, side, open) = (order.owner.account(), order.owner.side(), order.total_open());
        if !self.market.plain {
            self.market.change_curve(side, Some(order.price), -i64::from(open));
            self.market.reduce_only.remove(account, order.id);
        }
        self.orders.remove(order.id);
        self.accounts[account.0 as usize].open_orders -= 1;
        self.reserve(account, side, order.price, -i128::from(open));
        (order, lots)
    }

    /// Cancels a live order, displayed or not.
    #[inline]
    pub fn cancel_live(&mut self, slot: Slot, reason: CancelReason, out: &mut impl EventSink) {
        if slot.is_undisplayed() {
            return self.cancel_undisplayed(slot, reason, out);
        }
        let instrument = self.instrument();
        let (order, lots) = self.remove_displayed(slot);
        let (account, side, open) = (order.owner.account(), order.owner.side(), Lots(u64::from(order.total_open())));
        out.emit(Event::Cancelled { order: order.id, account, instrument, side, price: order.price, open, reason });
        out.emit(Event::Level { instrument, side, price: order.price, lots: Lots(lots) });
    }

    /// HOT. Displays `open` lots of an order, last at its price.
    #[inline]
    pub fn rest(&mut self, order: &IncomingOrder, open: u32, out: &mut impl EventSink) {
        let owner = Owner::new(order.account, order.side, order.is_day);
        let IncomingOrder { id, account, instrument, side, price, ordered, peak, origin, .. } = *order;
        let shown = if peak == 0 { open } else { open.min(peak) };
        let resting = RestingOrder { id, price, open: shown, ordered, owner, hidden: open - shown, display: peak };
        let market = &mut *self.market;
        // A stop may have been elected, and so have an earlier time, before another order joined
        // the queue.
        let (slot, lots) =
            if market.plain { market.book.rest(resting, origin) } else { market.book.rest_by_time(resting, origin) };
        if !market.plain {
            market.change_curve(side, Some(price), i64::from(open));
        }
        if origin.flags.reduce_only() {
            // The end of the command recomputes the flag.
            market.plain = false;
            market.reduce_only.insert(account, id);
        }
        self.orders.insert(id, instrument, slot);
        self.accounts[account.0 as usize].open_orders += 1;
        self.reserve(account, side, price, i128::from(open));
        out.emit(Event::Level { instrument, side, price, lots: Lots(lots) });
    }

    /// Adds an order to the market without matching it. A market order waits unpriced, a hidden
    /// order is not displayed, and every other order rests on its level.
    pub fn add_unmatched(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let IncomingOrder { id, account, side, price, open, ordered, bound, minimum_execution, origin, .. } = *order;
        let (order_type, state) = if minimum_execution > 0 {
            let minimum_execution = Lots(u64::from(minimum_execution));
            (OrderType::Hidden { price, minimum_execution }, UndisplayedState::Hidden)
        } else if order.is_market() {
            (OrderType::Market, UndisplayedState::Unpriced)
        } else {
            return self.rest(order, open, out);
        };
        let (display, self_match) = (0, None);
        self.insert_undisplayed(UndisplayedOrder {
            id,
            account,
            side,
            state,
            order_type,
            open,
            ordered,
            display,
            bound,
            self_match,
            origin,
        });
        if state == UndisplayedState::Hidden {
            self.market.undisplayed.arrivals.push(id);
        }
    }

    /// Parks an active order. It keeps its time.
    pub fn park(&mut self, slot: Slot, out: &mut impl EventSink) {
        let instrument = self.instrument();
        if slot.is_undisplayed() {
            let parked = self.market.update_undisplayed(slot, |order| order.state = UndisplayedState::Parked);
            if let Some(UndisplayedOrder { id: order, account, open, .. }) = parked {
                out.emit(Event::Parked { order, account, instrument, open: Lots(u64::from(open)) });
            }
            return;
        }
        let origin = self.market.book.origin(slot);
        let (order, lots) = self.market.book.remove(slot);
        let (id, account, side, price) = (order.id, order.owner.account(), order.owner.side(), order.price);
        let open = order.total_open();
        self.market.change_curve(side, Some(price), -i64::from(open));
        let slot = self.market.insert_undisplayed(UndisplayedOrder {
            id,
            account,
            side,
            state: UndisplayedState::Parked,
            order_type: OrderType::Limit { price },
            open,
            ordered: order.ordered,
            display: order.display,
            bound: Ticks::ZERO,
            self_match: None,
            origin,
        });
        self.orders.remove(id);
        self.orders.insert(id, instrument, slot);
        out.emit(Event::Parked { order: id, account, instrument, open: Lots(u64::from(open)) });
        out.emit(Event::Level { instrument, side, price, lots: Lots(lots) });
    }

    /// Activates a parked order at its place in time.
    pub fn inject(&mut self, slot: Slot, out: &mut impl EventSink) {
        let instrument = self.instrument();
        let Some(order) = self.market.undisplayed.get(slot).copied() else { return };
        let UndisplayedOrder { id, account, side, order_type, open, ordered, display, origin, .. } = order;
        out.emit(Event::Injected { order: id, account, instrument });
        let Some(price) = order_type.limit_price() else {
            self.market.update_undisplayed(slot, |order| {
                (order.state, order.self_match) = (UndisplayedState::Unpriced, None);
            });
            return;
        };
        self.market.remove_undisplayed(slot);
        let shown = if display == 0 { open } else { open.min(display) };
        let owner = Owner::new(account, side, origin.tif == Tif::Day);
        let resting = RestingOrder { id, price, open: shown, ordered, owner, hidden: open - shown, display };
        let (slot, lots) = self.market.book.rest_by_time(resting, origin);
        self.market.change_curve(side, Some(price), i64::from(open));
        self.orders.remove(id);
        self.orders.insert(id, instrument, slot);
        out.emit(Event::Level { instrument, side, price, lots: Lots(lots) });
    }

    /// Returns an elected stop as an incoming order.
    pub fn as_incoming(&self, order: &UndisplayedOrder) -> IncomingOrder {
        let UndisplayedOrder {
            id, account, side, order_type, open, ordered, display, bound, self_match, origin, ..
        } = *order;
        let limit = match order_type.limit_price() {
            Some(price) => price,
            None if bound == Ticks::ZERO => worst_price(side),
            None => bound,
        };
        let account_default = self.accounts.get(account.0 as usize).map(|holder| holder.spec.settings.self_match);
        IncomingOrder {
            id,
            account,
            instrument: self.instrument(),
            side,
            price: order.price(),
            limit,
            bound,
            open,
            ordered,
            peak: display,
            minimum_execution: order.minimum_execution(),
            is_day: origin.tif == Tif::Day,
            may_rest: order_type.limit_price().is_some() && origin.tif.may_rest(),
            fill_or_kill: origin.tif == Tif::FillOrKill,
            self_match: self_match.or(account_default).unwrap_or_default(),
            origin,
        }
    }

    /// Settles one trade and emits it. The caller counts it for the throttles afterwards, because
    /// other events may have to come first.
    pub fn trade(&mut self, trade: PartyTrade<'_>, out: &mut impl EventSink) {
        let PartyTrade { kind, price, lots, maker, taker } = trade;
        let (instrument, terms) = (self.instrument(), self.market.settlement);
        for party in [&mut *maker, &mut *taker] {
            party.open -= lots;
            if party.has_reserve {
                self.reserve(party.account, party.side, party.limit, -i128::from(lots));
            }
        }
        let parties = [&*taker, &*maker].map(|party| (party.account.0 as usize, party.side));
        settle_trade(self.accounts, instrument, terms, parties, price, lots);
        self.market.trades.0 += 1;
        out.emit(Event::Trade {
            instrument,
            trade_seq: self.market.trades,
            price,
            lots: Lots(u64::from(lots)),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(u64::from(maker.open)),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(u64::from(taker.open)),
            kind,
        });
    }

    /// Counts a trade for the throttles of both accounts, the maker's first.
    pub fn count_trade(&mut self, maker: AccountId, taker: AccountId, out: &mut impl EventSink) {
        for account in [maker, taker] {
            let holder = &mut self.accounts[account.0 as usize];
            if holder.has_throttle && holder.count_execution(self.clock.now) {
                out.emit(Event::ThrottleTripped { account });
            }
        }
    }

    /// Ends a command's changes of public state with the next change number.
    #[inline]
    pub fn emit_book_changed(&mut self, out: &mut impl EventSink) {
        self.market.change_id += 1;
        out.emit(Event::BookChanged { instrument: self.instrument(), change_id: self.market.change_id });
    }

    /// Computes the closing price and emits it if there is one.
    pub fn publish_closing_price(&mut self, out: &mut impl EventSink) {
        self.market.prices.closing = self.market.closing_inputs.closing_price(self.market.prices.previous_close);
        if let Some((price, derivation)) = self.market.prices.closing {
            out.emit(Event::ClosingPriceSet { instrument: self.instrument(), price, derivation });
        }
    }

    /// Sets the expiry time of a GTT order.
    pub fn set_expiry_time(&mut self, order: OrderId, at: VenueNanos) {
        let orders = &*self.orders;
        self.market.expiries.set(order, at, |other| orders.contains(other));
    }
}
