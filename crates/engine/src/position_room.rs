//! How far a reduce-only order may go, and which of them are displayed (rulebook 24).

use std::collections::BTreeSet;

use pitwire_model::{AccountId, InstrumentId, OrderId, Side};

use crate::account::Account;

/// The displayed reduce-only orders of an instrument, by account. An order that was filled stays
/// listed until the end of its command.
#[derive(Debug, Default)]
pub(crate) struct ReduceOnlyOrders {
    displayed: BTreeSet<(AccountId, OrderId)>,
}

impl ReduceOnlyOrders {
    pub fn is_empty(&self) -> bool {
        self.displayed.is_empty()
    }

    pub fn insert(&mut self, account: AccountId, order: OrderId) {
        self.displayed.insert((account, order));
    }

    pub fn remove(&mut self, account: AccountId, order: OrderId) {
        self.displayed.remove(&(account, order));
    }

    /// Removes all orders and returns them by order id.
    pub fn take_all(&mut self) -> Vec<OrderId> {
        let mut orders: Vec<OrderId> = std::mem::take(&mut self.displayed).into_iter().map(|(_, id)| id).collect();
        orders.sort_unstable();
        orders
    }

    /// The orders of one account, by order id.
    pub fn of(&self, account: AccountId) -> impl Iterator<Item = OrderId> {
        self.displayed.range((account, OrderId::ZERO)..=(account, OrderId(u64::MAX))).map(|(_, order)| *order)
    }
}

impl Account {
    /// Returns the room of a side: how many lots of an order on `side` reduce the position.
    pub(crate) fn room(&self, instrument: InstrumentId, side: Side) -> u64 {
        room_of(self.position(instrument).lots, side)
    }
}

/// Returns how many lots of an order on `side` reduce a position of `lots`.
pub(crate) fn room_of(lots: i64, side: Side) -> u64 {
    match side {
        Side::Buy if lots < 0 => lots.unsigned_abs(),
        Side::Sell if lots > 0 => lots.unsigned_abs(),
        Side::Buy | Side::Sell => 0,
    }
}
