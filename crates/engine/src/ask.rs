//! What anyone may ask of the engine. Nothing here changes it.

use pitwire_model::{
    AccountId, Currency, CurrencyId, Epoch, FlowSetting, InstrumentId, KillScope, Lots, OrderId, OrderType, SessionId,
    Side, Ticks, TimeInForce, VenueDay, VenueNanos,
};

use crate::account::Account;
use crate::engine::Engine;
use crate::market::Market;
use crate::special::{UndisplayedOrder, UndisplayedState};

/// A live order as anyone inside the venue may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    /// Zero for market orders and stops.
    pub price: Ticks,
    /// What it is by now: an elected stop is a market or limit order.
    pub order_type: OrderType,
    /// Where it waits beside the visible book; `None` for what stands in it.
    pub place: Option<UndisplayedState>,
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

fn kept_view(market: &Market, order: &UndisplayedOrder) -> OrderView {
    OrderView {
        id: order.id,
        account: order.account,
        instrument: market.spec.id,
        side: order.side,
        price: order.price(),
        order_type: order.kind,
        place: Some(order.place),
        open: Lots(u64::from(order.open)),
        ordered: Lots(u64::from(order.ordered)),
        tif: market.tif_with_date(order.id, order.origin),
        display: (order.display > 0).then_some(Lots(u64::from(order.display))),
        shown: Lots::ZERO,
        session: order.origin.session,
    }
}

impl Engine {
    /// The venue day that is; zero before the first has begun.
    pub fn day(&self) -> VenueDay {
        self.day
    }

    /// When the venue day closes.
    pub fn day_closes(&self) -> VenueNanos {
        self.closes
    }

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

    /// Visible quantity that trades before an order of a member's own; `None` when no order in the visible book
    /// has this id.
    /// Costs the orders before it, and nothing worth the name for the last of its level.
    pub fn queue_ahead(&self, id: OrderId) -> Option<Lots> {
        let (instrument, slot) = self.orders.get(id).filter(|(_, slot)| !slot.is_kept())?;
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

    /// Of all sorts: in the visible book, hidden, parked, waiting for a price.
    pub fn live_orders(&self) -> usize {
        self.orders.len()
    }

    /// Those in the visible books, of which market data tells.
    pub fn shown_orders(&self) -> u64 {
        self.markets.iter().map(|market| u64::from(market.book.resting_orders())).sum()
    }

    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        let (instrument, slot) = self.orders.get(id)?;
        let market = self.market(instrument)?;
        if slot.is_kept() {
            return market.special.get(slot).map(|order| kept_view(market, order));
        }
        let (order, origin) = (market.book.get(slot), market.book.origin(slot));
        Some(OrderView {
            id: order.id,
            account: order.owner.account(),
            instrument,
            side: order.owner.side(),
            price: order.price,
            order_type: OrderType::Limit { price: order.price },
            place: None,
            open: Lots(u64::from(order.total_open())),
            ordered: Lots(u64::from(order.ordered)),
            tif: market.tif_with_date(id, origin),
            display: (order.display > 0).then_some(Lots(u64::from(order.display))),
            shown: Lots(u64::from(order.open)),
            session: origin.session,
        })
    }

    /// Live orders of an account in the order in which they were entered. Costs the whole book: not for hot paths.
    pub fn orders_of(&self, account: AccountId) -> Vec<OrderView> {
        let of_one = |at| self.live_slots(at, |owner, _| owner == account);
        let mut ids: Vec<OrderId> = (0..self.markets.len()).flat_map(of_one).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.order(id)).collect()
    }
}
