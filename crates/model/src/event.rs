//! Everything the venue can say. State can be rebuilt from these alone.

use crate::{
    AccountId, AccountSettings, AccountSpec, Bust, Currency, CurrencyId, Derivation, Epoch, Expiry, FlowSetting,
    InstrumentId, InstrumentLimits, InstrumentSpec, KillScope, Label, Lots, OffBookTrade, OrderId, OrderType, Phase,
    Reference, Reject, ReportEnd, Seq, SessionReason, Side, Ticks, TimeInForce, TradeReport, TradeSeq, TradingRules,
    VenueDay, VenueNanos,
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
    /// PUBLIC. By [`Command::SetPhase`](crate::Command::SetPhase), a deletion or a quarantine.
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
    /// PUBLIC but for the orders and accounts. The maker is the order of the earlier priority number. In continuous
    /// trading at the maker's price, but for what a hidden maker improves.
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
        kind: TradeKind,
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
        /// What the order now has of these; `None` where its type or time in force knows none.
        stop: Option<Ticks>,
        minimum_execution: Option<Lots>,
        expiry: Option<Expiry>,
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
    /// PUBLIC. A session began, or (`from` is `to`) its end moved.
    SessionChanged {
        instrument: InstrumentId,
        from: Phase,
        to: Phase,
        reason: SessionReason,
        ends: Option<VenueNanos>,
    },
    /// Set aside until a session that it is for.
    Parked {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        open: Lots,
    },
    /// From aside into the book.
    Injected {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
    },
    /// A stop was elected by `last`.
    Triggered {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        last: Ticks,
    },
    /// PUBLIC. What the call would do if it ended now, by the visible orders.
    Indicative {
        instrument: InstrumentId,
        price: Option<Ticks>,
        volume: Lots,
        /// Buys less sells at the price, in lots.
        imbalance: i64,
    },
    /// PUBLIC. After the trades of a call or a batch.
    Uncrossed {
        instrument: InstrumentId,
        call: Phase,
        price: Ticks,
        volume: Lots,
    },
    /// PUBLIC. An execution at `price` would have been `bps` or more away from `reference`.
    Breached {
        instrument: InstrumentId,
        price: Ticks,
        reference: Ticks,
        against: Reference,
        /// The tolerance, in hundredths of a percent.
        bps: u32,
    },
    /// PUBLIC.
    ClosingPriceSet {
        instrument: InstrumentId,
        price: Ticks,
        derivation: Derivation,
    },
    DayBegun {
        day: VenueDay,
    },
    RemainingSet {
        instrument: InstrumentId,
    },
    TradingRulesSet {
        instrument: InstrumentId,
        rules: Box<TradingRules>,
    },
    /// PUBLIC. The hours of trade reporting began or ended.
    ReportingChanged {
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        ends: Option<VenueNanos>,
    },
    /// A trade made beside the book waits for the other party's word.
    TradeReported {
        report: Seq,
        trade: Box<TradeReport>,
    },
    /// A report that no trade has come of, and none will.
    ReportEnded {
        report: Seq,
        instrument: InstrumentId,
        account: AccountId,
        counterparty: AccountId,
        end: ReportEnd,
    },
    /// PUBLIC but for the report and the accounts. Both parties have said so.
    OffBookTrade(Box<OffBookTrade>),
}

/// What made a trade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TradeKind {
    /// An order met another.
    #[default]
    Continuous,
    /// Hidden orders were filtered and uncrossed.
    Filter,
    /// The uncross of a call; of a batch: [`Phase::Continuous`].
    Call(Phase),
    /// The closing price cross.
    Cross,
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
                | Event::SessionChanged { .. }
                | Event::Indicative { .. }
                | Event::Uncrossed { .. }
                | Event::Breached { .. }
                | Event::ClosingPriceSet { .. }
                | Event::ReportingChanged { .. }
                | Event::OffBookTrade(_)
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
    /// Good till a time that has come.
    TimeReached = 9,
    /// Good till a date that has passed.
    DateReached = 10,
    /// Good till cancelled, and ninety days old.
    NinetyDays = 11,
    CallEnded = 12,
    PauseEnded = 13,
    CrossEnded = 14,
    /// What is left of a hidden order is less than it may trade.
    BelowMinimumExecution = 15,
    /// The price it would have traded at breached a tolerance.
    Breaker = 16,
    /// An elected order that acts at once, in a session that executes nothing at once.
    NothingExecutes = 17,
}

impl CancelReason {
    pub const ALL: [CancelReason; 18] = [
        CancelReason::Requested,
        CancelReason::ImmediateRemainder,
        CancelReason::DayEnded,
        CancelReason::FillOrKill,
        CancelReason::SelfMatch,
        CancelReason::Disconnected,
        CancelReason::Killed,
        CancelReason::InstrumentDeleted,
        CancelReason::AccountClosed,
        CancelReason::TimeReached,
        CancelReason::DateReached,
        CancelReason::NinetyDays,
        CancelReason::CallEnded,
        CancelReason::PauseEnded,
        CancelReason::CrossEnded,
        CancelReason::BelowMinimumExecution,
        CancelReason::Breaker,
        CancelReason::NothingExecutes,
    ];
}
