//! Live orders and the table of all of them.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, Event, Expiry, InstrumentId, Lots, MatchGroup, OrderId, OrderType, SelfMatch, SessionId, Side, Ticks,
    TimeInForce, VenueDay, VenueNanos,
};

/// The order type. An elected stop has become a market or a limit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveOrderKind {
    Limit,
    Market,
    Hidden,
    Stop,
    StopLimit,
}

/// Where a live order waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveOrderState {
    /// In the book. Market orders of a call count too.
    Active,
    /// Parked until a later session.
    Parked,
    /// A stop that waits for its price.
    Unelected,
    /// A stop that was elected and has not acted yet.
    Elected,
}

/// A live order as the events have described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub kind: LiveOrderKind,
    pub place: LiveOrderState,
    pub tif: TimeInForce,
    /// Limit price; zero without a limit.
    pub price: Ticks,
    /// Stop price; zero without one.
    pub stop: Ticks,
    /// Minimum execution of a hidden order in lots; zero for other orders.
    pub minimum: u64,
    /// Protection price of an order without a limit, fixed at entry.
    pub bound: Option<Ticks>,
    /// Open lots, displayed and hidden.
    pub open: u64,
    /// Displayed lots. Less than `open` for icebergs only.
    pub shown: u64,
    pub peak: Option<Lots>,
    /// Total lots ordered, including executed lots.
    pub ordered: u64,
    /// Priority number. A lower number trades first.
    pub arrival: u64,
    /// The venue day of entry, if a day had begun.
    pub entered: Option<VenueDay>,
    /// The order's own self-match prevention mode, until it has acted.
    pub mode: Option<SelfMatch>,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
    pub reduce_only: bool,
}

impl LiveOrder {
    /// Returns the event that an amend to this state must give.
    pub fn amended(&self, kept_priority: bool) -> Event {
        let waits = matches!(self.kind, LiveOrderKind::Stop | LiveOrderKind::StopLimit);
        Event::Amended {
            order: self.id,
            account: self.account,
            instrument: self.instrument,
            side: self.side,
            price: self.price,
            lots: Lots(self.ordered),
            open: Lots(self.open),
            kept_priority,
            display: self.peak,
            stop: waits.then_some(self.stop),
            minimum_execution: self.is_hidden().then_some(Lots(self.minimum)),
            expiry: match self.tif {
                TimeInForce::GoodTillDate { day } => Some(Expiry::Day(day)),
                TimeInForce::GoodTillTime { at } => Some(Expiry::Time(at)),
                _ => None,
            },
        }
    }

    /// Returns the lots that it displays when it joins the end of its queue.
    pub fn displayed_lots(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }

    /// Whether self-match prevention treats the two orders as one member's.
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

    /// Whether it is a market order. Elected stops without a limit count too.
    pub fn is_market(&self) -> bool {
        self.kind == LiveOrderKind::Market
    }

    pub fn is_hidden(&self) -> bool {
        self.kind == LiveOrderKind::Hidden
    }

    /// Whether it counts in a visible price level.
    pub fn is_visible(&self) -> bool {
        self.is_active() && self.kind == LiveOrderKind::Limit
    }

    /// Returns its limit or protection price; `None` accepts any price.
    pub fn reach(&self) -> Option<Ticks> {
        match self.kind {
            LiveOrderKind::Limit | LiveOrderKind::Hidden | LiveOrderKind::StopLimit => Some(self.price),
            LiveOrderKind::Market | LiveOrderKind::Stop => self.bound,
        }
    }

    /// Whether it must trade at once or expire.
    pub fn is_immediate(&self) -> bool {
        matches!(self.tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }
}

/// Returns the kind of a new order.
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
