//! Everything the venue can say. State can be rebuilt from these alone.

use crate::{
    AccountId, AccountSettings, AccountSpec, Bust, Currency, CurrencyId, Epoch, FlowSetting, InstrumentId,
    InstrumentLimits, InstrumentSpec, KillScope, Label, Lots, OrderId, OrderType, Phase, Reject, Seq, Side, Ticks,
    TimeInForce, TradeSeq,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    EpochStarted {
        epoch: Epoch,
    },
    CurrencyAdded(Currency),
    InstrumentAdded(Box<InstrumentSpec>),
    AccountAdded(AccountSpec),
    Deposited {
        account: AccountId,
        currency: CurrencyId,
        units: i128,
    },
    /// PUBLIC.
    PhaseChanged {
        instrument: InstrumentId,
        phase: Phase,
    },
    Accepted {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        /// With the price at which it will rest: a post-only order may have been moved.
        order_type: OrderType,
        lots: Lots,
        tif: TimeInForce,
        display: Option<Lots>,
    },
    /// An entry was refused; nothing changed.
    Rejected {
        order: OrderId,
        account: AccountId,
        reason: Reject,
    },
    /// PUBLIC but for the orders and accounts. Always at the maker's price.
    Trade {
        instrument: InstrumentId,
        trade_seq: TradeSeq,
        price: Ticks,
        lots: Lots,
        taker_side: Side,
        maker: OrderId,
        maker_account: AccountId,
        maker_open: Lots,
        taker: OrderId,
        taker_account: AccountId,
        taker_open: Lots,
    },
    /// An order is gone without having filled: cancelled, or expired by its time in force.
    Cancelled {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        /// The resting price; zero for a market order.
        price: Ticks,
        /// What was still open.
        open: Lots,
        reason: CancelReason,
    },
    Amended {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        price: Ticks,
        /// New total quantity, what has traded included.
        lots: Lots,
        /// What is open before any trade the amend causes.
        open: Lots,
        kept_priority: bool,
        display: Option<Lots>,
    },
    /// An iceberg shows its next part, last in the queue of its price.
    Refreshed {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        price: Ticks,
        shown: Lots,
    },
    AmendRefused {
        order: OrderId,
        account: AccountId,
        reason: Reject,
    },
    CancelRefused {
        order: OrderId,
        account: AccountId,
        reason: Reject,
    },
    /// A mass cancel, a deposit or an operator's command was refused.
    CommandRefused {
        reason: Reject,
    },
    /// PUBLIC. The visible quantity at one price is now this; zero means the level is gone.
    Level {
        instrument: InstrumentId,
        side: Side,
        price: Ticks,
        lots: Lots,
    },
    /// PUBLIC. The last word of a command that changed this instrument's public state.
    BookChanged {
        instrument: InstrumentId,
        change_id: u64,
    },
    /// PUBLIC.
    WindowClosed,
    /// PUBLIC. The prices by which a perpetual is valued until the next sample.
    IndexSampled {
        instrument: InstrumentId,
        index: Ticks,
        mark: Ticks,
    },
    DayEnded,
    InstrumentLimitsSet {
        instrument: InstrumentId,
        limits: InstrumentLimits,
    },
    AccountSet {
        account: AccountId,
        settings: AccountSettings,
    },
    CreditLineSet {
        account: AccountId,
        currency: CurrencyId,
        units: i128,
    },
    AccountClosed {
        account: AccountId,
    },
    Killed {
        scope: KillScope,
        /// How many orders went with it.
        cancelled: u32,
        reason: Label,
    },
    Lifted {
        scope: KillScope,
    },
    /// The account traded more often than its throttle allows: it takes no new order until lifted.
    ThrottleTripped {
        account: AccountId,
    },
    /// PUBLIC but for the accounts and the reason.
    TradeBusted(Box<Bust>),
    FlowSet(FlowSetting),
    Quarantined {
        seq: Seq,
    },
}

impl Event {
    /// Whether the event, or the public part of it, belongs to the tape.
    pub const fn is_public(&self) -> bool {
        matches!(
            self,
            Event::PhaseChanged { .. }
                | Event::Trade { .. }
                | Event::Level { .. }
                | Event::BookChanged { .. }
                | Event::WindowClosed
                | Event::IndexSampled { .. }
                | Event::TradeBusted(_)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CancelReason {
    /// The member asked, for this order or for all.
    Requested = 0,
    /// An immediate or market order found no more to trade with.
    ImmediateRemainder = 1,
    /// A DAY order at the turn of the venue day.
    DayEnded = 2,
    /// A fill-or-kill order that could not be filled whole.
    FillOrKill = 3,
    /// It would have traded with its own group.
    SelfMatch = 4,
    /// Its session ended with cancel on disconnect enabled.
    Disconnected = 5,
    /// An operator's kill.
    Killed = 6,
    InstrumentDeleted = 7,
    AccountClosed = 8,
}

impl CancelReason {
    pub const ALL: [CancelReason; 9] = [
        CancelReason::Requested,
        CancelReason::ImmediateRemainder,
        CancelReason::DayEnded,
        CancelReason::FillOrKill,
        CancelReason::SelfMatch,
        CancelReason::Disconnected,
        CancelReason::Killed,
        CancelReason::InstrumentDeleted,
        CancelReason::AccountClosed,
    ];
}
