//! Every event of the venue. State can be rebuilt from events alone.

use crate::{
    AccountId, AccountSettings, AccountSpec, Bust, CancelReason, Currency, CurrencyId, Derivation, Epoch, Expiry,
    FlowSetting, InstrumentId, InstrumentLimits, InstrumentSpec, KillScope, Label, Lots, OffBookTrade, OrderId,
    OrderType, Phase, Reference, Reject, ReportEnd, Seq, SessionReason, Side, Ticks, TimeInForce, TradeReport,
    TradeSeq, TradingRules, VenueDay, VenueNanos,
};

/// An event. `PUBLIC` marks events that belong to the market data.
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
        /// Contains the price at which the order will rest: a post-only order may have been
        /// repriced.
        order_type: OrderType,
        lots: Lots,
        tif: TimeInForce,
        display: Option<Lots>,
    },
    /// An order was refused; nothing changed.
    Rejected {
        order: OrderId,
        account: AccountId,
        reason: Reject,
    },
    /// PUBLIC except the orders and accounts. The maker is the order with the earlier time
    /// priority. In continuous trading the price is that of the maker, unless a hidden maker
    /// improves it.
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
    /// An order was cancelled, or expired by its time in force.
    Cancelled {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        /// Limit price; zero for a market order.
        price: Ticks,
        /// Lots that were still open.
        open: Lots,
        reason: CancelReason,
    },
    Amended {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        price: Ticks,
        /// New total quantity, including executed lots.
        lots: Lots,
        /// Open lots before any trade that the amend causes.
        open: Lots,
        kept_priority: bool,
        display: Option<Lots>,
        /// New stop price; `None` if the order has none.
        stop: Option<Ticks>,
        minimum_execution: Option<Lots>,
        expiry: Option<Expiry>,
    },
    /// An iceberg displays its next part, last in the queue of its price.
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
    /// PUBLIC. The displayed quantity at one price has changed; zero means that the level is empty.
    Level {
        instrument: InstrumentId,
        side: Side,
        price: Ticks,
        lots: Lots,
    },
    /// PUBLIC. The last event of a command that changed this instrument's public state.
    BookChanged {
        instrument: InstrumentId,
        change_id: u64,
    },
    /// PUBLIC.
    WindowClosed,
    /// PUBLIC. The index and mark prices of a perpetual until the next sample.
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
        /// Number of cancelled orders.
        cancelled: u32,
        reason: Label,
    },
    Lifted {
        scope: KillScope,
    },
    /// The account has traded more often than its throttle allows. Its new orders are refused until
    /// the throttle is lifted.
    ThrottleTripped {
        account: AccountId,
    },
    /// PUBLIC except the accounts and the reason.
    TradeBusted(Box<Bust>),
    FlowSet(FlowSetting),
    /// The next flow is the one of the command.
    FlowDefined,
    Quarantined {
        seq: Seq,
    },
    /// PUBLIC. A session began, or its expected end moved if `from` equals `to`.
    SessionChanged {
        instrument: InstrumentId,
        from: Phase,
        to: Phase,
        reason: SessionReason,
        ends: Option<VenueNanos>,
    },
    /// An order was parked until a session that it is for.
    Parked {
        order: OrderId,
        account: AccountId,
        instrument: InstrumentId,
        open: Lots,
    },
    /// A parked order became active.
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
    /// PUBLIC. The result that the call would have if it ended now, by displayed and market orders.
    Indicative {
        instrument: InstrumentId,
        price: Option<Ticks>,
        volume: Lots,
        /// Lots that would buy at the price, less lots that would sell there.
        imbalance: i64,
    },
    /// PUBLIC. A call or batch has uncrossed. Follows its trades.
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
        /// The tolerance in basis points.
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
    /// A report of a trade made outside the book waits for confirmation by the counterparty.
    TradeReported {
        report: Seq,
        trade: Box<TradeReport>,
    },
    /// A report has ended without a trade.
    ReportEnded {
        report: Seq,
        instrument: InstrumentId,
        account: AccountId,
        counterparty: AccountId,
        end: ReportEnd,
    },
    /// PUBLIC except the report and the accounts. Both parties have agreed to the trade.
    OffBookTrade(Box<OffBookTrade>),
}

/// How a trade came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TradeKind {
    /// An incoming order met a resting one.
    #[default]
    Continuous,
    /// An uncross of hidden orders.
    Filter,
    /// The uncross of a call, or of a batch for [`Phase::Continuous`].
    Call(Phase),
    /// The closing price cross.
    Cross,
}

impl Event {
    /// Returns whether the event, or part of it, is public.
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
