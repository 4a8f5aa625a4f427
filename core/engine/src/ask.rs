//! What anyone may ask of the engine. Nothing here changes it.

use pitwire_model::{
    AccountId, Currency, CurrencyId, Epoch, FlowSetting, InstrumentId, KillScope, Lots, OrderId, SessionId, Side,
    Ticks, TimeInForce,
};

use crate::account::Account;
use crate::engine::Engine;
use crate::market::Market;

/// A live order as anyone inside the venue may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub price: Ticks,
    /// Shown and hidden together.
    pub open: Lots,
    pub ordered: Lots,
    pub tif: TimeInForce,
    /// The peak of an iceberg; `None` for an order that shows all.
    pub display: Option<Lots>,
    /// What the public sees of it now.
    pub shown: Lots,
    pub session: SessionId,
}

impl Engine {
    pub fn flow(&self) -> FlowSetting {
        self.flow
    }

    /// The highest session number that any order has carried: the next connection's is above it.
    pub fn last_session(&self) -> SessionId {
        self.last_session
    }

    pub fn is_killed(&self, scope: KillScope) -> bool {
        match scope {
            KillScope::Order(_) => false,
            KillScope::Session(session) => self.blocks.has(session),
            KillScope::Account(account) => self.account(account).is_some_and(Account::is_killed),
            KillScope::Venue => self.blocks.venue(),
        }
    }

    /// Ascending.
    pub fn killed_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.blocks.sessions()
    }

    /// Visible quantity that trades before an order of a member's own; `None` when no live order has this id.
    /// Costs the orders before it.
    pub fn queue_ahead(&self, id: OrderId) -> Option<Lots> {
        let (instrument, slot) = self.orders.get(id)?;
        Some(Lots(self.market(instrument)?.book.queue_ahead(slot)))
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn currencies(&self) -> &[Currency] {
        &self.currencies
    }

    pub fn currency(&self, id: CurrencyId) -> Option<&Currency> {
        self.currencies.get(id.0 as usize)
    }

    pub fn currency_named(&self, name: &str) -> Option<&Currency> {
        self.currencies.iter().find(|currency| currency.name == name)
    }

    pub fn markets(&self) -> &[Market] {
        &self.markets
    }

    pub fn market(&self, id: InstrumentId) -> Option<&Market> {
        self.markets.get(id.0 as usize)
    }

    pub fn instrument_named(&self, name: &str) -> Option<&Market> {
        self.markets.iter().find(|market| market.spec.name == name)
    }

    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0 as usize)
    }

    pub fn account_named(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.spec.name == name)
    }

    pub fn live_orders(&self) -> usize {
        self.orders.len()
    }

    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        let (instrument, slot) = self.orders.get(id)?;
        let book = &self.market(instrument)?.book;
        let order = book.get(slot);
        Some(OrderView {
            id: order.id,
            account: order.owner.account(),
            instrument,
            side: order.owner.side(),
            price: order.price,
            open: Lots(u64::from(order.total_open())),
            ordered: Lots(u64::from(order.ordered)),
            tif: if order.owner.is_day() { TimeInForce::Day } else { TimeInForce::GoodTillCancel },
            display: (order.display > 0).then_some(Lots(u64::from(order.display))),
            shown: Lots(u64::from(order.open)),
            session: book.origin(slot).session,
        })
    }

    /// Live orders of an account in the order in which they were entered. Costs the whole book: not for hot paths.
    pub fn orders_of(&self, account: AccountId) -> Vec<OrderView> {
        let mut ids: Vec<OrderId> = self
            .markets
            .iter()
            .flat_map(|market| market.book.slots_of(|order, _| order.owner.account() == account))
            .map(|(id, _)| id)
            .collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.order(id)).collect()
    }
}
