//! Live orders and the table of all of them.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, InstrumentId, Lots, MatchGroup, OrderId, OrderType, SelfMatch, SessionId, Side, Ticks, TimeInForce,
    VenueDay, VenueNanos,
};

/// What an order is by now: an elected stop is a market or a limit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveOrderKind {
    Limit,
    Market,
    Hidden,
    Stop,
    StopLimit,
}

/// Where a live order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveOrderState {
    /// In the book; market orders of a call too.
    Active,
    /// Set aside until a session.
    Parked,
    /// A stop that waits for a price.
    Unelected,
    /// A stop that has been elected and has not acted yet.
    Elected,
}

/// A live order as the events have told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub kind: LiveOrderKind,
    pub place: LiveOrderState,
    pub tif: TimeInForce,
    /// The limit; zero for an order that has none.
    pub price: Ticks,
    /// Of a stop; zero for others.
    pub stop: Ticks,
    /// MES of a hidden order; zero for others.
    pub minimum: u64,
    /// The worst price of an order without limit, fixed when it was entered.
    pub bound: Option<Ticks>,
    /// Shown and hidden together.
    pub open: u64,
    /// What the level counts; less than `open` for icebergs alone.
    pub shown: u64,
    pub peak: Option<Lots>,
    /// All that was ever asked for, what has traded included.
    pub ordered: u64,
    /// Its priority number.
    pub arrival: u64,
    /// The venue day of its entry, if one had begun.
    pub entered: Option<VenueDay>,
    /// Its own word on self-match prevention, until it has acted.
    pub mode: Option<SelfMatch>,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

impl LiveOrder {
    /// What it shows when it joins the end of its queue.
    pub fn displayed_lots(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }

    /// Whether self-match prevention takes the two for one member's.
    pub fn is_same_group(&self, other: &LiveOrder) -> bool {
        match self.group {
            MatchGroup::Order => false,
            MatchGroup::Account => other.group == MatchGroup::Account && self.account == other.account,
            MatchGroup::Key(_) => self.group == other.group,
        }
    }

    pub fn is_active(&self) -> bool {
        self.place == LiveOrderState::Active
    }

    /// An active order without a limit.
    pub fn is_market(&self) -> bool {
        self.kind == LiveOrderKind::Market
    }

    pub fn is_hidden(&self) -> bool {
        self.kind == LiveOrderKind::Hidden
    }

    /// Whether it counts in a level.
    pub fn is_visible(&self) -> bool {
        self.is_active() && self.kind == LiveOrderKind::Limit
    }

    /// The worst price at which it trades: its limit, or what bounds it; none: any price.
    pub fn reach(&self) -> Option<Ticks> {
        match self.kind {
            LiveOrderKind::Limit | LiveOrderKind::Hidden | LiveOrderKind::StopLimit => Some(self.price),
            LiveOrderKind::Market | LiveOrderKind::Stop => self.bound,
        }
    }

    /// Whether it is at once or never.
    pub fn is_immediate(&self) -> bool {
        matches!(self.tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }
}

/// What an order is when it is entered.
pub const fn kind_of(order_type: OrderType) -> LiveOrderKind {
    match order_type {
        OrderType::Limit { .. } => LiveOrderKind::Limit,
        OrderType::Market => LiveOrderKind::Market,
        OrderType::Hidden { .. } => LiveOrderKind::Hidden,
        OrderType::Stop { .. } => LiveOrderKind::Stop,
        OrderType::StopLimit { .. } => LiveOrderKind::StopLimit,
    }
}

/// All live orders, wherever they wait.
#[derive(Debug, Default)]
pub struct OrderTable {
    live: BTreeMap<OrderId, LiveOrder>,
    /// Orders that are good till a time.
    timed: BTreeSet<(InstrumentId, VenueNanos, OrderId)>,
    /// The last priority number.
    priorities: u64,
}

impl OrderTable {
    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn get(&self, id: &OrderId) -> Option<&LiveOrder> {
        self.live.get(id)
    }

    pub fn contains_key(&self, id: &OrderId) -> bool {
        self.live.contains_key(id)
    }

    /// Returns the live orders by ascending id.
    pub fn values(&self) -> impl Iterator<Item = &LiveOrder> {
        self.live.values()
    }

    /// Returns the live orders of one instrument by ascending id.
    pub fn of_instrument(&self, instrument: InstrumentId) -> impl Iterator<Item = &LiveOrder> {
        self.live.values().filter(move |order| order.instrument == instrument)
    }

    /// Returns the orders with an expiry time, by instrument and then by time.
    pub fn timed(&self) -> impl Iterator<Item = &(InstrumentId, VenueNanos, OrderId)> {
        self.timed.iter()
    }

    /// Adds an order, or replaces the order with this id.
    pub fn insert(&mut self, order: LiveOrder) {
        if let TimeInForce::GoodTillTime { at } = order.tif {
            self.timed.insert((order.instrument, at, order.id));
        }
        self.live.insert(order.id, order);
    }

    pub fn remove(&mut self, order: &LiveOrder) {
        if let TimeInForce::GoodTillTime { at } = order.tif {
            self.timed.remove(&(order.instrument, at, order.id));
        }
        self.live.remove(&order.id);
    }

    /// Takes the next priority number. A lower number trades first.
    pub fn next_priority(&mut self) -> u64 {
        self.priorities += 1;
        self.priorities
    }

    /// Returns the last priority number that was given out.
    pub fn last_priority(&self) -> u64 {
        self.priorities
    }
}
