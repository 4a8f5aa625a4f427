//! Questions to the engine. Nothing here changes it.

use pitwire_model::{
    AccountId, Currency, CurrencyId, Epoch, FlowSetting, InstrumentId, KillScope, Lots, OrderId, OrderType, Seq,
    SessionId, Side, Ticks, TimeInForce, TradeReport, VenueDay, VenueNanos,
};

use crate::account::Account;
use crate::engine::Engine;
use crate::market::Market;
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

/// A live order as the venue itself may see it. The public sees less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    /// Limit price; zero for market orders and stops.
    pub price: Ticks,
    /// The current type: an elected stop is a market or limit order.
    pub order_type: OrderType,
    /// Why the order is not displayed; `None` for an order on a level of the book.
    pub place: Option<UndisplayedState>,
    /// Open lots, including the undisplayed part of an iceberg.
    pub open: Lots,
    /// Total lots, including executed lots.
    pub ordered: Lots,
    pub tif: TimeInForce,
    /// Peak of an iceberg; `None` for an order that displays all its lots.
    pub display: Option<Lots>,
    /// Lots that the public sees now.
    pub shown: Lots,
    pub session: SessionId,
    /// Time priority: lower is earlier.
    pub time: u64,
}

fn undisplayed_view(market: &Market, order: &UndisplayedOrder) -> OrderView {
    OrderView {
        id: order.id,
        account: order.account,
        instrument: market.spec.id,
        side: order.side,
        price: order.price(),
        order_type: order.order_type,
        place: Some(order.state),
        open: Lots(u64::from(order.open)),
        ordered: Lots(u64::from(order.ordered)),
        tif: market.time_in_force(order.id, order.origin),
        display: (order.display > 0).then_some(Lots(u64::from(order.display))),
        shown: Lots::ZERO,
        session: order.origin.session,
        time: order.origin.time,
    }
}

impl Engine {
    /// Returns the current venue day; zero before the first day has begun.
    pub fn day(&self) -> VenueDay {
        self.clock.day
    }

    /// Returns when the current venue day closes.
    pub fn day_closes(&self) -> VenueNanos {
        self.clock.closes
    }

    pub fn flow(&self) -> FlowSetting {
        self.flow
    }

    /// Returns the highest session number of any accepted order. New sessions get higher numbers.
    pub fn last_session(&self) -> SessionId {
        self.last_session
    }

    pub fn is_killed(&self, scope: KillScope) -> bool {
        match scope {
            KillScope::Order(_) => false,
            KillScope::Session(session) => self.blocks.contains(session),
            KillScope::Account(account) => self.account(account).is_some_and(Account::is_killed),
            KillScope::Venue => self.blocks.venue(),
        }
    }

    /// Killed sessions, ascending.
    pub fn killed_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.blocks.sessions()
    }

    /// Returns the displayed lots that trade before this order on its level. `None` if the order is
    /// not displayed, or if more than a thousand orders stand before it and as many behind it.
    pub fn queue_ahead(&self, id: OrderId) -> Option<Lots> {
        let (instrument, slot) = self.orders.get(id).filter(|(_, slot)| !slot.is_undisplayed())?;
        self.market(instrument)?.book.queue_ahead(slot).map(Lots)
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn currencies(&self) -> &[Currency] {
        self.accounts.currencies()
    }

    pub fn currency(&self, id: CurrencyId) -> Option<&Currency> {
        self.accounts.currency(id)
    }

    pub fn currency_named(&self, name: &str) -> Option<&Currency> {
        self.accounts.currency_named(name)
    }

    pub fn markets(&self) -> &[Market] {
        self.markets.as_slice()
    }

    #[inline]
    pub fn market(&self, id: InstrumentId) -> Option<&Market> {
        self.markets.get(id)
    }

    pub fn instrument_named(&self, name: &str) -> Option<&Market> {
        self.markets.named(name)
    }

    pub fn accounts(&self) -> &[Account] {
        self.accounts.as_slice()
    }

    #[inline]
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id)
    }

    pub fn account_named(&self, name: &str) -> Option<&Account> {
        self.accounts.named(name)
    }

    /// Returns what an account may still spend or reserve: its balance and credit line, less
    /// reserves, margin and unrealized losses.
    pub fn available(&self, account: AccountId, currency: CurrencyId) -> i128 {
        self.funds().available(account, currency)
    }

    /// Returns the initial margin that an account's position and orders in one perpetual need, in
    /// settlement units.
    pub fn margin_of(&self, account: AccountId, instrument: InstrumentId) -> i128 {
        self.funds().margin_of(account, instrument)
    }

    /// Returns the profit of an open perpetual position at the mark price, in settlement units.
    pub fn unrealized(&self, account: AccountId, instrument: InstrumentId) -> i128 {
        self.funds().unrealized(account, instrument)
    }

    /// Returns the number of live orders: displayed, hidden, parked, or waiting for a price.
    pub fn live_orders(&self) -> usize {
        self.orders.len()
    }

    /// Returns the number of displayed orders, which are those in the market data.
    pub fn shown_orders(&self) -> u64 {
        self.markets.shown_orders()
    }

    /// Returns the earliest time after `after` at which a live GTT order expires.
    pub fn next_expiry(&self, after: VenueNanos) -> Option<VenueNanos> {
        self.markets.next_expiry(after, |order| self.orders.contains(order))
    }

    /// Returns a trade report that waits for confirmation.
    pub fn report(&self, number: Seq) -> Option<&TradeReport> {
        self.markets.report(number)
    }

    /// Waiting trade reports that `account` has made or has to confirm, by instrument and number.
    pub fn reports_of(&self, account: AccountId) -> impl Iterator<Item = (Seq, &TradeReport)> {
        self.markets.reports_of(account)
    }

    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        let (instrument, slot) = self.orders.get(id)?;
        let market = self.market(instrument)?;
        if slot.is_undisplayed() {
            return market.undisplayed.get(slot).map(|order| undisplayed_view(market, order));
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
            tif: market.time_in_force(id, origin),
            display: (order.display > 0).then_some(Lots(u64::from(order.display))),
            shown: Lots(u64::from(order.open)),
            session: origin.session,
            time: origin.time,
        })
    }

    /// Live orders of an account, by order id. Costs all live orders of the venue.
    pub fn orders_of(&self, account: AccountId) -> Vec<OrderView> {
        let of_market = |market: &Market| market.live_slots(|owner, _| owner == account);
        let mut ids: Vec<OrderId> = self.markets.as_slice().iter().flat_map(of_market).map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.order(id)).collect()
    }
}
