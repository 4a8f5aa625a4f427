//! Reduce-only orders follow the position of their account (rulebook 24).
//!
//! Holds       1. after every command, a displayed reduce-only order has at most as many open lots
//!                as it could reduce the position of its account by;
//!             2. every displayed reduce-only order of the instrument is in [`ReduceOnlyOrders`].
//! Costs       a command: the reduce-only orders of the accounts that have traded in it.
//! Start at    [`ReduceOnlyLimiter::follow_positions`].

use pitwire_model::{AccountId, Allocation, CancelReason, Event, Lots, OrderId, Phase};

use crate::book::Slot;
use crate::event_sink::EventSink;
use crate::incoming::IncomingOrder;
use crate::market::Market;
use crate::market_context::MarketContext;

impl Market {
    /// Returns whether the instrument matches reduce-only orders in session `phase`.
    pub(crate) fn matches_reduce_only(&self, phase: Phase) -> bool {
        phase == Phase::Continuous && self.rules.allocation == Allocation::PriceTime
    }

    /// Returns whether displayed reduce-only orders may stay when `phase` begins. In a halt nothing
    /// executes, and no order can make the book cross.
    pub(crate) fn keeps_reduce_only(&self, phase: Phase) -> bool {
        self.matches_reduce_only(phase) || matches!(phase, Phase::Halted | Phase::HaltAndClose)
    }
}

/// Limits the reduce-only orders of one market to the positions of their accounts.
pub(crate) struct ReduceOnlyLimiter<'a, 'b> {
    pub context: &'a mut MarketContext<'b>,
}

impl ReduceOnlyLimiter<'_, '_> {
    /// Reduces the displayed reduce-only orders of `accounts` to the room of their positions, by
    /// order id. Cancels an order that has no room.
    pub fn follow_positions(&mut self, mut accounts: Vec<AccountId>, out: &mut impl EventSink) {
        if self.context.market.reduce_only.is_empty() {
            return;
        }
        accounts.sort_unstable();
        accounts.dedup();
        let mut orders: Vec<(OrderId, AccountId)> = Vec::new();
        for account in accounts {
            orders.extend(self.context.market.reduce_only.of(account).map(|order| (order, account)));
        }
        orders.sort_unstable();
        for (order, account) in orders {
            match self.displayed_slot(order) {
                Some(slot) => self.reduce_to_room(slot, out),
                None => self.context.market.reduce_only.remove(account, order),
            }
        }
    }

    /// Cancels all displayed reduce-only orders, by order id.
    pub fn cancel_reduce_only(&mut self, out: &mut impl EventSink) {
        for order in self.context.market.reduce_only.take_all() {
            if let Some(slot) = self.displayed_slot(order) {
                self.context.cancel_live(slot, CancelReason::ReduceOnly, out);
            }
        }
    }

    /// Reduces an elected stop that is about to act to its room. Returns `None` if it has none, or
    /// if the session matches no reduce-only orders; then it is cancelled.
    pub fn reduce_elected(&self, mut order: IncomingOrder, out: &mut impl EventSink) -> Option<IncomingOrder> {
        if !order.origin.flags.reduce_only() {
            return Some(order);
        }
        let room = self.context.accounts[order.account.0 as usize].room(order.instrument, order.side);
        if room == 0 || !self.context.market.matches_reduce_only(self.context.market.phase) {
            out.emit(order.cancelled(order.open, CancelReason::ReduceOnly));
            return None;
        }
        let cut = u32::try_from(u64::from(order.open).saturating_sub(room)).unwrap_or(0);
        if cut > 0 {
            (order.open, order.ordered) = (order.open - cut, order.ordered - cut);
            out.emit(Event::Amended {
                order: order.id,
                account: order.account,
                instrument: order.instrument,
                side: order.side,
                price: order.price,
                lots: Lots(u64::from(order.ordered)),
                open: Lots(u64::from(order.open)),
                kept_priority: true,
                display: None,
                stop: None,
                minimum_execution: None,
                expiry: self.context.market.expiry_of(order.id, &order.origin),
            });
        }
        Some(order)
    }

    fn displayed_slot(&self, order: OrderId) -> Option<Slot> {
        let (instrument, slot) = self.context.orders.get(order)?;
        Some(slot).filter(|slot| instrument == self.context.instrument() && !slot.is_undisplayed())
    }

    fn reduce_to_room(&mut self, slot: Slot, out: &mut impl EventSink) {
        let instrument = self.context.instrument();
        let (order, origin) = (self.context.market.book.get(slot), self.context.market.book.origin(slot));
        let (account, side, price) = (order.owner.account(), order.owner.side(), order.price);
        let room = self.context.accounts[account.0 as usize].room(instrument, side);
        let Some(open) = u32::try_from(room).ok().filter(|room| *room < order.total_open()) else { return };
        if open == 0 {
            return self.context.cancel_live(slot, CancelReason::ReduceOnly, out);
        }
        let cut = order.total_open() - open;
        let ordered = order.ordered - cut;
        let lots = Lots(self.context.market.book.reduce(slot, open, ordered));
        self.context.market.change_curve(side, Some(price), -i64::from(cut));
        self.context.reserve(account, side, price, -i128::from(cut));
        out.emit(Event::Amended {
            order: order.id,
            account,
            instrument,
            side,
            price,
            lots: Lots(u64::from(ordered)),
            open: Lots(u64::from(open)),
            kept_priority: true,
            display: (order.display > 0).then_some(Lots(u64::from(order.display))),
            stop: None,
            minimum_execution: None,
            expiry: self.context.market.expiry_of(order.id, &origin),
        });
        out.emit(Event::Level { instrument, side, price, lots });
    }
}
