//! Live orders of one market, displayed or not, found by slot.
//!
//! Holds       the number of undisplayed orders and the auction curve follow every change of an
//!             undisplayed order.

use pitwire_model::{AccountId, CancelReason, Expiry, OrderId, Side, Ticks, TimeInForce, VenueDay};

use crate::book::{OrderOrigin, Slot};
use crate::clock::LONGEST_DAYS;
use crate::market::Market;
use crate::rule_tables::Tif;
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

/// A live order as a party to a trade at a price that is not its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TradeParty {
    pub slot: Slot,
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// The price at which the order has reserved money; zero if it has no limit and no bound.
    pub limit: Ticks,
    /// Open lots; reduced by each trade.
    pub open: u32,
    pub time: u64,
    /// Whether money is reserved for the order. False only for an incoming order.
    pub has_reserve: bool,
}

impl Market {
    pub(crate) fn insert_undisplayed(&mut self, order: UndisplayedOrder) -> Slot {
        if order.state == UndisplayedState::Unpriced {
            self.change_curve(order.side, order.ranking_price(), i64::from(order.open));
        }
        self.undisplayed_count += 1;
        // The end of the command recomputes the flag.
        self.plain = false;
        self.undisplayed.insert(order)
    }

    pub(crate) fn remove_undisplayed(&mut self, slot: Slot) -> Option<UndisplayedOrder> {
        let order = self.undisplayed.remove(slot)?;
        self.undisplayed_count -= 1;
        if order.state == UndisplayedState::Unpriced {
            self.change_curve(order.side, order.ranking_price(), -i64::from(order.open));
        }
        Some(order)
    }

    /// Changes an undisplayed order in its slot. Returns the changed order.
    pub(crate) fn update_undisplayed(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut UndisplayedOrder),
    ) -> Option<UndisplayedOrder> {
        let old = *self.undisplayed.get(slot)?;
        let new = self.undisplayed.update(slot, change)?;
        for (order, sign) in [(old, -1), (new, 1)] {
            if order.state == UndisplayedState::Unpriced {
                self.change_curve(order.side, order.ranking_price(), sign * i64::from(order.open));
            }
        }
        Some(new)
    }

    /// Returns the number of live orders, displayed or not.
    #[inline]
    pub(crate) fn live_orders(&self) -> u32 {
        self.book.resting_orders() + self.undisplayed_count
    }

    /// Returns the account of a live order.
    #[inline]
    pub(crate) fn account_at(&self, slot: Slot) -> Option<AccountId> {
        if slot.is_undisplayed() {
            return self.undisplayed.get(slot).map(|order| order.account);
        }
        Some(self.book.account_of(slot))
    }

    pub(crate) fn side_at(&self, slot: Slot) -> Side {
        self.undisplayed.get(slot).map_or_else(|| self.book.get(slot).owner.side(), |order| order.side)
    }

    pub(crate) fn origin_at(&self, slot: Slot) -> OrderOrigin {
        self.undisplayed.get(slot).map_or_else(|| self.book.origin(slot), |order| order.origin)
    }

    /// Returns the live order at `slot` as a party to a trade.
    pub(crate) fn party_at(&self, slot: Slot) -> Option<TradeParty> {
        if slot.is_undisplayed() {
            let order = self.undisplayed.get(slot)?;
            let (limit, time) = (order.reserve_price(), order.origin.time);
            let (id, account, side, open) = (order.id, order.account, order.side, order.open);
            return Some(TradeParty { slot, id, account, side, limit, open, time, has_reserve: true });
        }
        let (order, time) = (self.book.get(slot), self.book.origin(slot).time);
        let (id, account, side, open) = (order.id, order.owner.account(), order.owner.side(), order.total_open());
        Some(TradeParty { slot, id, account, side, limit: order.price, open, time, has_reserve: true })
    }

    /// Ids and slots of the live orders that `wanted` selects by account and origin, in order of
    /// id. Costs all live orders of the instrument.
    pub(crate) fn live_slots(&self, wanted: impl Fn(AccountId, &OrderOrigin) -> bool) -> Vec<(OrderId, Slot)> {
        let mut found = self.book.slots_of(|order, origin| wanted(order.owner.account(), origin));
        if self.undisplayed.len() > 0 {
            let undisplayed = self.undisplayed.unordered().filter(|(_, order)| wanted(order.account, &order.origin));
            found.extend(undisplayed.map(|(slot, order)| (order.id, slot)));
            found.sort_unstable_by_key(|(id, _)| *id);
        }
        found
    }

    pub(crate) fn tif_at(&self, slot: Slot) -> Tif {
        match self.undisplayed.get(slot) {
            Some(order) => order.origin.tif,
            None if slot.is_undisplayed() => Tif::Day,
            None => self.book.origin(slot).tif,
        }
    }

    /// Returns an order's time in force with its date or time.
    pub(crate) fn time_in_force(&self, order: OrderId, origin: OrderOrigin) -> TimeInForce {
        match origin.tif {
            Tif::Day => TimeInForce::Day,
            Tif::GoodTillCancel => TimeInForce::GoodTillCancel,
            Tif::ImmediateOrCancel => TimeInForce::ImmediateOrCancel,
            Tif::FillOrKill => TimeInForce::FillOrKill,
            Tif::GoodTillDate => TimeInForce::GoodTillDate { day: VenueDay(u32::from(origin.day)) },
            Tif::GoodTillTime => TimeInForce::GoodTillTime { at: self.expiries.of(order).unwrap_or_default() },
            Tif::OpeningCall => TimeInForce::OpeningCall,
            Tif::AnyCall => TimeInForce::AnyCall,
            Tif::IntradayCall => TimeInForce::IntradayCall,
            Tif::ClosingCall => TimeInForce::ClosingCall,
            Tif::ClosingCross => TimeInForce::ClosingCross,
        }
    }

    /// Returns the date of a GTD order or the time of a GTT order.
    pub(crate) fn expiry_of(&self, order: OrderId, origin: &OrderOrigin) -> Option<Expiry> {
        match origin.tif {
            Tif::GoodTillDate => Some(Expiry::Day(VenueDay(u32::from(origin.day)))),
            Tif::GoodTillTime => self.expiries.of(order).map(Expiry::Time),
            _ => None,
        }
    }

    /// Returns whether the order is a GFA order that is not parked.
    pub(crate) fn is_active_gfa(&self, slot: Slot) -> bool {
        match self.undisplayed.get(slot) {
            Some(order) => order.state == UndisplayedState::Unpriced && order.origin.tif == Tif::AnyCall,
            None => !slot.is_undisplayed() && self.book.origin(slot).tif == Tif::AnyCall,
        }
    }

    /// Returns why the end of venue day `today` cancels the order at `slot`. `None` if the order
    /// stays.
    pub(crate) fn day_end_reason(&self, slot: Slot, today: VenueDay) -> Option<CancelReason> {
        let undisplayed = self.undisplayed.get(slot);
        let origin = self.origin_at(slot);
        let is_active_market = undisplayed.is_some_and(|order| {
            order.is_market() && matches!(order.state, UndisplayedState::Unpriced | UndisplayedState::Elected)
        });
        if is_active_market {
            return Some(CancelReason::DayEnded);
        }
        let day = u32::from(origin.day);
        match origin.tif {
            Tif::GoodTillCancel => {
                let has_expired = day > 0 && today.0.saturating_sub(day) >= LONGEST_DAYS;
                has_expired.then_some(CancelReason::NinetyDays)
            }
            Tif::GoodTillDate => (day <= today.0).then_some(CancelReason::DateReached),
            Tif::AnyCall => None,
            Tif::Day
            | Tif::ImmediateOrCancel
            | Tif::FillOrKill
            | Tif::GoodTillTime
            | Tif::OpeningCall
            | Tif::IntradayCall
            | Tif::ClosingCall
            | Tif::ClosingCross => Some(CancelReason::DayEnded),
        }
    }
}
