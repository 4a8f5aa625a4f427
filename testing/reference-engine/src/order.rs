//! A live order.

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, MatchGroup, OrderId, SelfMatch, SessionId, Side, Ticks,
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
    /// In the book, market orders of a call included.
    Active,
    Parked,
    /// A stop whose price has not come.
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
    /// Zero for what has no limit price.
    pub price: Ticks,
    pub stop: Ticks,
    /// The least that a hidden order executes.
    pub minimum: u64,
    /// How far an order without a limit price goes.
    pub bound: Option<Ticks>,
    /// Shown and hidden together.
    pub open: u64,
    pub shown: u64,
    pub peak: Option<Lots>,
    pub ordered: u64,
    /// Priority number: less came first.
    pub time: u64,
    pub entered: VenueDay,
    pub group: MatchGroup,
    /// Its own word on meeting its own, until it acts.
    pub mode: Option<SelfMatch>,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

impl ReferenceOrder {
    /// Whether self-match prevention takes the two for one member's.
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

    /// Whether it stands in the book that everybody sees, at a price.
    pub fn is_visible(&self) -> bool {
        self.is_active() && self.kind == ReferenceOrderKind::Limit
    }

    pub fn acts_at_once(&self) -> bool {
        matches!(self.tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// The worst price at which it trades; none is any.
    pub fn limit(&self) -> Option<Ticks> {
        if self.has_price() { Some(self.price) } else { self.bound }
    }

    pub fn accepts(&self, price: Ticks) -> bool {
        self.limit().is_none_or(|limit| match self.side {
            Side::Buy => price <= limit,
            Side::Sell => price >= limit,
        })
    }

    /// What it shows when it comes to the book.
    pub fn displayed_lots(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }
}
