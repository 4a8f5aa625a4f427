//! One account's orders, open and past, and its fills.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_model::{
    AccountId, Amend, CancelReason, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, PostOnly, SessionId, Side,
    Ticks, TimeInForce, TradeSeq, VenueNanos,
};

use crate::tape::{PublicTrade, push_capped};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OrderState {
    Open = 0,
    Filled = 1,
    Cancelled = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRecord {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub is_market: bool,
    /// Zero for a market order.
    pub price: Ticks,
    pub lots: Lots,
    pub filled: Lots,
    /// Σ price × lots of its fills.
    pub tick_lots: u128,
    pub tif: TimeInForce,
    pub state: OrderState,
    pub cancel_reason: Option<CancelReason>,
    /// An amend has cost it its place in the queue.
    pub replaced: bool,
    pub created: VenueNanos,
    pub updated: VenueNanos,
    /// The peak of an iceberg.
    pub display: Option<Lots>,
    pub post_only: PostOnly,
    pub session: SessionId,
    pub label: Label,
    pub client_order_id: Label,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Liquidity {
    Maker = 0,
    Taker = 1,
}

/// A fill as its account sees it: self-contained, for the order may be forgotten first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTrade {
    pub instrument: InstrumentId,
    pub trade: PublicTrade,
    pub order: OrderId,
    pub side: Side,
    pub liquidity: Liquidity,
    pub is_market: bool,
    /// The order's state after this fill.
    pub state: OrderState,
    pub self_trade: bool,
    /// Taken back by an operator.
    pub busted: bool,
    pub label: Label,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountBook {
    /// Open orders and the newest [`Self::CLOSED_ORDERS`] closed ones, by id: that is, by time of entry.
    pub(crate) orders: BTreeMap<OrderId, OrderRecord>,
    pub(crate) open: BTreeSet<OrderId>,
    /// In order of closing.
    pub(crate) closed: VecDeque<OrderId>,
    /// Newest last.
    pub(crate) trades: VecDeque<UserTrade>,
    /// Of the orders above, by the member's own number; the first order keeps it.
    pub(crate) by_client_order_id: BTreeMap<Box<str>, OrderId>,
}

impl AccountBook {
    pub const CLOSED_ORDERS: usize = 50_000;
    pub const TRADES: usize = 50_000;

    pub fn order(&self, id: OrderId) -> Option<&OrderRecord> {
        self.orders.get(&id)
    }

    /// In order of entry.
    pub fn open_orders(&self) -> impl DoubleEndedIterator<Item = &OrderRecord> {
        self.open.iter().filter_map(|id| self.orders.get(id))
    }

    /// In order of closing.
    pub fn closed_orders(&self) -> impl DoubleEndedIterator<Item = &OrderRecord> {
        self.closed.iter().filter_map(|id| self.orders.get(id))
    }

    /// Newest last.
    pub fn trades(&self) -> &VecDeque<UserTrade> {
        &self.trades
    }

    /// The order that a member has given this number, as long as it is remembered.
    pub fn by_client_order_id(&self, text: &str) -> Option<OrderId> {
        self.by_client_order_id.get(text).copied()
    }

    /// `price` is the one at which the order may rest: a post-only order may have been moved.
    pub(crate) fn entered(&mut self, order: &NewOrder, price: Ticks, at: VenueNanos) {
        self.open.insert(order.id);
        self.remember_number(order.client_order_id.as_str(), order.id);
        self.orders.insert(
            order.id,
            OrderRecord {
                id: order.id,
                account: order.account,
                instrument: order.instrument,
                side: order.side,
                is_market: order.order_type == OrderType::Market,
                price,
                lots: order.lots,
                filled: Lots::ZERO,
                tick_lots: 0,
                tif: order.tif,
                state: OrderState::Open,
                cancel_reason: None,
                replaced: false,
                created: at,
                updated: at,
                display: order.display,
                post_only: order.post_only,
                session: order.session,
                label: order.label.clone(),
                client_order_id: order.client_order_id.clone(),
            },
        );
    }

    pub(crate) fn remember_number(&mut self, text: &str, id: OrderId) {
        if !text.is_empty() {
            self.by_client_order_id.entry(text.into()).or_insert(id);
        }
    }

    pub(crate) fn busted(&mut self, instrument: InstrumentId, seq: TradeSeq) {
        let is_it = |fill: &&mut UserTrade| fill.instrument == instrument && fill.trade.seq == seq;
        self.trades.iter_mut().filter(is_it).for_each(|fill| fill.busted = true);
    }

    pub(crate) fn amended(
        &mut self,
        amend: &Amend,
        (price, lots, display): (Ticks, Lots, Option<Lots>),
        kept_priority: bool,
        at: VenueNanos,
    ) {
        if let Some(order) = self.orders.get_mut(&amend.order) {
            order.price = price;
            order.lots = lots;
            order.display = display;
            // No event tells it: the engine keeps no such property of a resting order.
            order.post_only = amend.post_only;
            order.replaced |= !kept_priority;
            order.updated = at;
        }
    }

    pub(crate) fn filled(
        &mut self,
        id: OrderId,
        instrument: InstrumentId,
        trade: PublicTrade,
        liquidity: Liquidity,
        self_trade: bool,
    ) {
        let Some(order) = self.orders.get_mut(&id) else { return };
        // Saturating throughout: an image may name any sum, and a sum that is off is better than no venue.
        order.filled.0 = order.filled.0.saturating_add(trade.lots.0);
        order.tick_lots =
            order.tick_lots.saturating_add(u128::from(trade.price.0.unsigned_abs()) * u128::from(trade.lots.0));
        order.updated = trade.at;
        if order.filled >= order.lots {
            order.state = OrderState::Filled;
        }
        let record = UserTrade {
            instrument,
            trade,
            order: id,
            side: order.side,
            liquidity,
            is_market: order.is_market,
            state: order.state,
            self_trade,
            busted: false,
            label: order.label.clone(),
        };
        let is_done = order.state == OrderState::Filled;
        push_capped(&mut self.trades, record, Self::TRADES);
        if is_done {
            self.close(id);
        }
    }

    pub(crate) fn cancelled(&mut self, id: OrderId, reason: CancelReason, at: VenueNanos) {
        let Some(order) = self.orders.get_mut(&id) else { return };
        order.state = OrderState::Cancelled;
        order.cancel_reason = Some(reason);
        order.updated = at;
        self.close(id);
    }

    fn close(&mut self, id: OrderId) {
        if !self.open.remove(&id) {
            return;
        }
        if self.closed.len() == Self::CLOSED_ORDERS
            && let Some(oldest) = self.closed.pop_front()
            && let Some(forgotten) = self.orders.remove(&oldest)
            && self.by_client_order_id(forgotten.client_order_id.as_str()) == Some(oldest)
        {
            self.by_client_order_id.remove(forgotten.client_order_id.as_str());
        }
        self.closed.push_back(id);
    }
}
