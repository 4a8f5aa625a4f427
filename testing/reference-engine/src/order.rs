//! A live order.

use pitwire_model::{
    AccountId, CancelReason, Event, Expiry, InstrumentId, Lots, MatchGroup, OrderId, SelfMatch, SessionId, Side, Ticks,
    TimeInForce, VenueDay,
};

pub fn cancelled(instrument: InstrumentId, order: &ReferenceOrder, reason: CancelReason) -> Event {
    Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price: order.price,
        open: Lots(order.open),
        reason,
    }
}

pub fn expiry_of(tif: TimeInForce) -> Option<Expiry> {
    match tif {
        TimeInForce::GoodTillDate { day } => Some(Expiry::Day(day)),
        TimeInForce::GoodTillTime { at } => Some(Expiry::Time(at)),
        _ => None,
    }
}

pub fn refreshed(instrument: InstrumentId, order: &ReferenceOrder) -> Event {
    Event::Refreshed {
        order: order.id,
        account: order.account,
        instrument,
        side: order.side,
        price: order.price,
        shown: Lots(order.shown),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceOrderKind {
    Market,
    Limit,
    Hidden,
    Stop,
    StopLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceOrderState {
    /// In the book. Market orders of a call count too.
    Active,
    Parked,
    /// A stop that waits for its price.
    Unelected,
    /// A stop that was elected and has not acted yet.
    Elected,
}

#[derive(Clone, Copy, Debug)]
pub struct ReferenceOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub kind: ReferenceOrderKind,
    pub place: ReferenceOrderState,
    pub tif: TimeInForce,
    /// Limit price; zero without a limit.
    pub price: Ticks,
    pub stop: Ticks,
    /// Minimum execution of a hidden order in lots.
    pub minimum: u64,
    /// Protection price of an order without a limit.
    pub bound: Option<Ticks>,
    /// Open lots, displayed and hidden.
    pub open: u64,
    pub shown: u64,
    pub peak: Option<Lots>,
    pub ordered: u64,
    /// Priority number. A lower number trades first.
    pub time: u64,
    pub entered: VenueDay,
    pub group: MatchGroup,
    /// The order's own self-match prevention mode, until it has acted.
    pub mode: Option<SelfMatch>,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
    pub reduce_only: bool,
}

impl ReferenceOrder {
    /// Whether self-match prevention treats the two orders as one member's.
    pub fn is_same_group(&self, other: &ReferenceOrder) -> bool {
        match (self.group, other.group) {
            (MatchGroup::Key(mine), MatchGroup::Key(theirs)) => mine == theirs,
            (MatchGroup::Account, MatchGroup::Account) => self.account == other.account,
            _ => false,
        }
    }

    pub fn is_active(&self) -> bool {
        self.place == ReferenceOrderState::Active
    }

    pub fn is_hidden(&self) -> bool {
        self.kind == ReferenceOrderKind::Hidden
    }

    pub fn has_price(&self) -> bool {
        !matches!(self.kind, ReferenceOrderKind::Market | ReferenceOrderKind::Stop)
    }

    /// Whether it counts in a visible price level.
    pub fn is_visible(&self) -> bool {
        self.is_active() && self.kind == ReferenceOrderKind::Limit
    }

    pub fn acts_at_once(&self) -> bool {
        matches!(self.tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// Returns the worst price at which it may trade; `None` accepts any price.
    pub fn limit(&self) -> Option<Ticks> {
        if self.has_price() { Some(self.price) } else { self.bound }
    }

    pub fn accepts(&self, price: Ticks) -> bool {
        self.limit().is_none_or(|limit| match self.side {
            Side::Buy => price <= limit,
            Side::Sell => price >= limit,
        })
    }

    /// Returns the lots that it displays when it joins the book.
    pub fn displayed_lots(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }
}
