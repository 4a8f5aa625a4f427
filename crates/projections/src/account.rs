//! The order and trade history of one account.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, PostOnly, SessionId, Side,
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

/// The place of a live order, or the last place of a closed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Place {
    /// In the book. Market orders in a call are included.
    #[default]
    Active = 0,
    /// Parked until its session begins.
    Parked = 1,
    /// A stop order that waits for its trigger price.
    Unelected = 2,
}

impl Place {
    pub const ALL: [Place; 3] = [Place::Active, Place::Parked, Place::Unelected];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRecord {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    /// The order type as sent and amended. Its price is the one at which the order may rest.
    pub order_type: OrderType,
    pub place: Place,
    /// The trade price that elected the stop.
    pub elected_at: Option<Ticks>,
    pub lots: Lots,
    pub filled: Lots,
    /// Sum of price × lots over its fills.
    pub tick_lots: u128,
    pub tif: TimeInForce,
    pub state: OrderState,
    pub cancel_reason: Option<CancelReason>,
    /// An amend has cost it its queue priority.
    pub replaced: bool,
    pub created: VenueNanos,
    pub updated: VenueNanos,
    /// Displayed quantity of an iceberg.
    pub display: Option<Lots>,
    pub post_only: PostOnly,
    /// The order may only reduce a position: see [`NewOrder::reduce_only`].
    pub reduce_only: bool,
    pub session: SessionId,
    pub label: Label,
    pub client_order_id: Label,
}

impl OrderRecord {
    /// Returns how often the order can trade with one other order: see [`parts`].
    pub fn parts(&self) -> u64 {
        parts(self.lots, self.display)
    }

    /// Returns whether the order has no limit price: a market order, or a stop that becomes one.
    pub fn is_market(&self) -> bool {
        self.order_type.limit_price().is_none()
    }

    /// Returns the limit price, or zero without one.
    pub fn price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or_default()
    }

    pub const fn stop(&self) -> Option<Ticks> {
        self.order_type.stop_price()
    }

    /// Returns whether the order is a stop that no trade has elected yet.
    pub const fn is_waiting_stop(&self) -> bool {
        self.stop().is_some() && self.elected_at.is_none()
    }

    pub const fn minimum_execution(&self) -> Option<Lots> {
        match self.order_type {
            OrderType::Hidden { minimum_execution, .. } => Some(minimum_execution),
            _ => None,
        }
    }
}

/// Returns the number of parts that an order displays one after the other. An order without a
/// displayed quantity has one part.
pub fn parts(lots: Lots, display: Option<Lots>) -> u64 {
    display.map_or(1, |display| lots.0.div_ceil(display.0.max(1)).max(1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Liquidity {
    Maker = 0,
    Taker = 1,
}

/// A fill as its account sees it. It repeats the order's data, because the order may be forgotten
/// first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTrade {
    pub instrument: InstrumentId,
    pub trade: PublicTrade,
    pub order: OrderId,
    pub side: Side,
    pub liquidity: Liquidity,
    pub is_market: bool,
    pub reduce_only: bool,
    /// The order's state after this fill.
    pub state: OrderState,
    pub self_trade: bool,
    /// Cancelled by an operator.
    pub busted: bool,
    pub label: Label,
}

#[derive(Clone, Debug, Default)]
pub struct AccountBook {
    /// Open orders by id, which is the order of entry. They have their own map because many
    /// requests look at all of them.
    ///
    /// Shared with the answers that still have to show an order as it was.
    pub(crate) open: BTreeMap<OrderId, Arc<OrderRecord>>,
    /// The newest [`Self::CLOSED_ORDERS`] closed orders.
    pub(crate) closed_by_id: BTreeMap<OrderId, Arc<OrderRecord>>,
    /// Sum of the parts of the open orders.
    pub(crate) open_parts: u64,
    /// Number of open stop orders that no trade has elected yet.
    pub(crate) waiting_stops: u64,
    /// In order of closing.
    pub(crate) closed: VecDeque<OrderId>,
    /// Closed orders and trades that this process has forgotten. The next one has this number.
    pub(crate) forgotten_orders: u64,
    pub(crate) forgotten_trades: u64,
    /// Oldest first.
    pub(crate) trades: VecDeque<UserTrade>,
    /// Orders by the client's own number. The first order with a number keeps it.
    pub(crate) by_client_order_id: BTreeMap<Box<str>, OrderId>,
}

impl AccountBook {
    pub const CLOSED_ORDERS: usize = 50_000;
    pub const TRADES: usize = 50_000;

    pub fn order(&self, id: OrderId) -> Option<&OrderRecord> {
        self.record(id).map(Arc::as_ref)
    }

    fn record(&self, id: OrderId) -> Option<&Arc<OrderRecord>> {
        self.open.get(&id).or_else(|| self.closed_by_id.get(&id))
    }

    /// Returns an order, which keeps its present state.
    pub fn shared_order(&self, id: OrderId) -> Option<Arc<OrderRecord>> {
        self.record(id).cloned()
    }

    /// Returns the open orders in order of entry. They keep their present state, whatever happens
    /// to the orders later.
    pub fn shared_open_orders(&self) -> impl DoubleEndedIterator<Item = Arc<OrderRecord>> {
        self.open.values().cloned()
    }

    /// Returns the numbers of the remembered closed orders. They count orders in order of closing,
    /// and stay the same while the process runs.
    pub fn closed_numbers(&self) -> Range<u64> {
        self.forgotten_orders..self.forgotten_orders + self.closed.len() as u64
    }

    /// Returns a closed order by its number, unless it is forgotten.
    pub fn closed_order(&self, number: u64) -> Option<&Arc<OrderRecord>> {
        let at = usize::try_from(number.checked_sub(self.forgotten_orders)?).ok()?;
        self.closed_by_id.get(self.closed.get(at)?)
    }

    /// Returns the numbers of the remembered trades, as [`Self::closed_numbers`] does.
    pub fn trade_numbers(&self) -> Range<u64> {
        self.forgotten_trades..self.forgotten_trades + self.trades.len() as u64
    }

    /// Returns a trade by its number, unless it is forgotten.
    pub fn trade(&self, number: u64) -> Option<&UserTrade> {
        self.trades.get(usize::try_from(number.checked_sub(self.forgotten_trades)?).ok()?)
    }

    /// Returns the open orders in order of entry.
    pub fn open_orders(&self) -> impl DoubleEndedIterator<Item = &OrderRecord> {
        self.open.values().map(Arc::as_ref)
    }

    /// Returns the number of open orders, where an iceberg counts as its parts.
    pub fn open_parts(&self) -> u64 {
        self.open_parts
    }

    /// Returns the number of open stop orders that no trade has elected yet.
    pub fn waiting_stops(&self) -> u64 {
        self.waiting_stops
    }

    /// Returns the remembered closed orders in order of closing.
    pub fn closed_orders(&self) -> impl DoubleEndedIterator<Item = &OrderRecord> {
        self.closed.iter().filter_map(|id| self.closed_by_id.get(id)).map(Arc::as_ref)
    }

    /// Returns the number of remembered closed orders. At [`Self::CLOSED_ORDERS`], older ones may
    /// be missing.
    pub fn closed_orders_len(&self) -> usize {
        self.closed.len()
    }

    /// Returns the remembered trades, oldest first.
    pub fn trades(&self) -> &VecDeque<UserTrade> {
        &self.trades
    }

    /// Returns the order with this client order id, if it is remembered.
    pub fn by_client_order_id(&self, text: &str) -> Option<OrderId> {
        self.by_client_order_id.get(text).copied()
    }

    /// Records an accepted order. `order_type` has the price at which the order may rest, because a
    /// post-only order may have been moved. `lots` is the accepted quantity, because a reduce-only
    /// order may have been reduced.
    pub(crate) fn entered(&mut self, order: &NewOrder, order_type: OrderType, lots: Lots, at: VenueNanos) {
        let waits = order_type.stop_price().is_some();
        // Sums saturate, because a decoded image may contain any value.
        self.open_parts = self.open_parts.saturating_add(parts(lots, order.display));
        self.waiting_stops += u64::from(waits);
        self.remember_number(order.client_order_id.as_str(), order.id);
        self.open.insert(
            order.id,
            Arc::new(OrderRecord {
                id: order.id,
                account: order.account,
                instrument: order.instrument,
                side: order.side,
                order_type,
                place: if waits { Place::Unelected } else { Place::Active },
                elected_at: None,
                lots,
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
                reduce_only: order.reduce_only,
                session: order.session,
                label: order.label.clone(),
                client_order_id: order.client_order_id.clone(),
            }),
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

    /// Records an amend. `post_only` is what the amend command says about it, if there is one.
    pub(crate) fn amended(&mut self, event: &Event, post_only: Option<PostOnly>, at: VenueNanos) {
        let Event::Amended { order, price, lots, kept_priority, display, stop, minimum_execution, expiry, .. } = *event
        else {
            return;
        };
        if let Some(order) = self.open.get_mut(&order).map(Arc::make_mut) {
            let before = order.parts();
            order.order_type = order.order_type.amended(price, stop, minimum_execution);
            order.tif = order.tif.amended(expiry);
            order.lots = lots;
            order.display = display;
            // No event carries it: the engine does not store this property of a resting order.
            order.post_only = post_only.unwrap_or(order.post_only);
            order.replaced |= !kept_priority;
            order.updated = at;
            self.open_parts = self.open_parts.saturating_sub(before).saturating_add(order.parts());
        }
    }

    pub(crate) fn placed(&mut self, id: OrderId, place: Place, at: VenueNanos) {
        if let Some(order) = self.open.get_mut(&id).map(Arc::make_mut) {
            order.place = place;
            order.updated = at;
        }
    }

    pub(crate) fn elected(&mut self, id: OrderId, last: Ticks, at: VenueNanos) {
        self.placed(id, Place::Active, at);
        if let Some(order) = self.open.get_mut(&id).map(Arc::make_mut) {
            self.waiting_stops = self.waiting_stops.saturating_sub(u64::from(order.is_waiting_stop()));
            order.elected_at = Some(last);
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
        let Some(order) = self.open.get_mut(&id).map(Arc::make_mut) else { return };
        // Sums saturate, because a decoded image may contain any value.
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
            is_market: order.is_market(),
            reduce_only: order.reduce_only,
            state: order.state,
            self_trade,
            busted: false,
            label: order.label.clone(),
        };
        let is_done = order.state == OrderState::Filled;
        self.forgotten_trades += u64::from(self.trades.len() == Self::TRADES);
        push_capped(&mut self.trades, record, Self::TRADES);
        if is_done {
            self.close(id);
        }
    }

    pub(crate) fn cancelled(&mut self, id: OrderId, reason: CancelReason, at: VenueNanos) {
        let Some(order) = self.open.get_mut(&id).map(Arc::make_mut) else { return };
        order.state = OrderState::Cancelled;
        order.cancel_reason = Some(reason);
        order.updated = at;
        self.close(id);
    }

    fn close(&mut self, id: OrderId) {
        let Some(order) = self.open.remove(&id) else { return };
        self.open_parts = self.open_parts.saturating_sub(order.parts());
        self.waiting_stops = self.waiting_stops.saturating_sub(u64::from(order.is_waiting_stop()));
        if self.closed.len() == Self::CLOSED_ORDERS
            && let Some(oldest) = self.closed.pop_front()
        {
            self.forgotten_orders += 1;
            if let Some(forgotten) = self.closed_by_id.remove(&oldest)
                && self.by_client_order_id(forgotten.client_order_id.as_str()) == Some(oldest)
            {
                self.by_client_order_id.remove(forgotten.client_order_id.as_str());
            }
        }
        self.closed.push_back(id);
        self.closed_by_id.insert(id, order);
    }
}
