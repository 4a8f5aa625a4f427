//! Everything that can be asked of the venue. What is not here cannot happen.
//!
//! A timer, a day's end, an operator's halt is a command like any other: the engine reads no clock.

use crate::{
    AccountId, AccountSpec, Currency, CurrencyId, Epoch, InstrumentId, InstrumentSpec, Lots, OrderId, Phase, Seq, Side,
    Ticks, VenueNanos,
};

/// A command as it stands in the log: numbered, timed, and never changed afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    pub seq: Seq,
    pub at: VenueNanos,
    pub command: Command,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The venue has started; what follows belongs to this epoch.
    StartEpoch {
        epoch: Epoch,
    },
    AddCurrency(Currency),
    AddInstrument(Box<InstrumentSpec>),
    AddAccount(AccountSpec),
    /// Adds (or, negative, takes away) units of a currency.
    Deposit {
        account: AccountId,
        currency: CurrencyId,
        units: i128,
    },
    SetPhase {
        instrument: InstrumentId,
        phase: Phase,
    },
    Enter(NewOrder),
    Amend(Amend),
    Cancel {
        account: AccountId,
        order: OrderId,
    },
    /// Cancels an account's orders, in one instrument or in all, in the order in which they were entered.
    CancelAll {
        account: AccountId,
        instrument: Option<InstrumentId>,
    },
    /// A window boundary of the merged public channels.
    CloseWindow,
    /// Samples the index and mark price of every perpetual.
    SampleIndex,
    /// The venue day turns: DAY orders expire.
    EndDay,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Set by the sequencer to the command's own [`Seq`]; must be unique among live orders.
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub order_type: OrderType,
    pub lots: Lots,
    pub tif: TimeInForce,
    pub label: Label,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderType {
    Limit {
        price: Ticks,
    },
    /// Trades at any price; what does not trade at once expires, whatever the time in force.
    Market,
}

impl OrderType {
    pub const fn limit_price(self) -> Option<Ticks> {
        match self {
            OrderType::Limit { price } => Some(price),
            OrderType::Market => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TimeInForce {
    /// Until the venue day turns.
    Day = 0,
    /// Until cancelled.
    GoodTillCancel = 1,
    /// Trades at once; the remainder expires.
    ImmediateOrCancel = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amend {
    pub account: AccountId,
    pub order: OrderId,
    pub price: Ticks,
    pub lots: Lots,
    pub priority: Priority,
}

/// What an amend does to an order's place in its queue, and what its quantity means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Priority {
    /// `lots` is the new total including what has traded; a smaller total at the same price keeps the place.
    KeepWhenReduced = 0,
    /// `lots` is the new open quantity; the place is always lost.
    AlwaysLose = 1,
}

/// What bounds an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Credit {
    /// Orders reserve what they could cost and are refused beyond it.
    Limited = 0,
    /// House accounts: balances move, nothing is refused for want of funds.
    Unlimited = 1,
}

/// A member's own words on an order, at most 64 bytes. The engine never reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(Option<Box<str>>);

impl Label {
    pub const MAX_BYTES: usize = 64;

    /// `None` when the text is longer than [`Self::MAX_BYTES`].
    pub fn new(text: &str) -> Option<Label> {
        match text.len() {
            0 => Some(Label(None)),
            1..=Self::MAX_BYTES => Some(Label(Some(text.into()))),
            _ => None,
        }
    }

    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }
}
