//! Every command of the venue. Nothing changes the venue's state except a command.
//!
//! Timers, the end of a day and operators' halts are commands too: the engine reads no clock.

use crate::{
    AccountId, AccountSettings, AccountSpec, Bust, CancelReason, Currency, CurrencyId, Epoch, Expiry, FlowSetting,
    InstrumentId, InstrumentLimits, InstrumentSpec, KillScope, Label, Lots, MatchGroup, OrderId, OrderType, Phase,
    PostOnly, RemainingSessions, SelfMatch, Seq, SessionId, SessionReason, Side, SpentSignature, Ticks, TimeInForce,
    TradeReport, TradingRules, VenueDay, VenueNanos,
};

/// A command as it is in the journal: numbered, timed, and never changed afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencedCommand {
    pub seq: Seq,
    pub at: VenueNanos,
    pub command: Command,
}

/// A command to the venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The venue has started. The commands that follow belong to this epoch.
    StartEpoch {
        epoch: Epoch,
    },
    AddCurrency(Currency),
    AddInstrument(Box<InstrumentSpec>),
    AddAccount(AccountSpec),
    /// Deposits units of a currency. Negative units withdraw.
    Deposit {
        account: AccountId,
        currency: CurrencyId,
        units: i128,
    },
    /// Changes the phase. Journals of the first release contain this instead of
    /// [`Command::ChangeSession`].
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
    /// Cancels the orders of an account that the filter selects, by order id.
    CancelAll {
        account: AccountId,
        which: CancelFilter,
        reason: CancelReason,
    },
    /// A window boundary of the merged public channels.
    CloseWindow,
    /// Samples the index and mark price of every perpetual.
    SampleIndex,
    /// Ends the venue day: DAY orders expire.
    EndDay,
    SetInstrumentLimits {
        instrument: InstrumentId,
        limits: InstrumentLimits,
    },
    /// Cancels all orders of an instrument and deletes it. Its name and id are not used again.
    DeleteInstrument {
        instrument: InstrumentId,
    },
    SetAccount {
        account: AccountId,
        settings: AccountSettings,
    },
    /// Sets how far below zero the available amount of a currency may fall, in units.
    SetCreditLine {
        account: AccountId,
        currency: CurrencyId,
        units: i128,
    },
    /// Cancels the orders of an account and closes it permanently. Balances stay as they are.
    CloseAccount {
        account: AccountId,
    },
    /// Cancels all orders of the scope and refuses new ones until the kill is lifted.
    Kill {
        scope: KillScope,
        reason: Label,
    },
    /// Lifts a kill or a tripped execution throttle.
    Lift {
        scope: KillScope,
    },
    BustTrade(Box<Bust>),
    /// Starts, stops or scales the generated order flow. The engine only stores the setting.
    SetFlow(FlowSetting),
    /// Defines the flow that the next [`Command::SetFlow`] starts: the name of a built-in flow
    /// or the text of a flow file, at most [`FlowSetting::MOST_TEXT_BYTES`]. The engine only checks
    /// its length.
    DefineFlow {
        text: Box<str>,
    },
    /// Command `seq` made the engine panic. Every replay skips it, and its instrument is halted.
    Quarantine {
        seq: Seq,
        instrument: Option<InstrumentId>,
    },
    /// Ends the current session and begins another, in the order of operations of rulebook 5.2.
    ChangeSession {
        instrument: InstrumentId,
        to: Phase,
        reason: SessionReason,
        /// When the change was scheduled; the time of the command if it was not.
        due: VenueNanos,
        /// When the new session is expected to end.
        ends: Option<VenueNanos>,
    },
    /// Moves the expected end of the current session.
    ExtendSession {
        instrument: InstrumentId,
        ends: VenueNanos,
    },
    /// Sets the sessions that are still to come today. The session scheduler sends it after
    /// [`Command::BeginDay`].
    SetRemaining {
        instrument: InstrumentId,
        remaining: RemainingSessions,
    },
    /// Begins a venue day. `closes` is the latest expiry time of a GTT order.
    BeginDay {
        day: VenueDay,
        closes: VenueNanos,
    },
    /// Cancels GTT orders whose time has come.
    PassTime,
    /// Runs a filter of hidden orders whether or not the best prices have changed.
    FilterHidden {
        instrument: InstrumentId,
    },
    /// Ends the current batch of an instrument that trades in frequent batches.
    RunBatch {
        instrument: InstrumentId,
    },
    SetTradingRules {
        instrument: InstrumentId,
        rules: Box<TradingRules>,
    },
    /// Sets a closing price by an operator. Refused after the closing price cross has begun.
    SetClosingPrice {
        instrument: InstrumentId,
        price: Ticks,
    },
    /// Opens or closes the hours of trade reporting, whatever the session.
    SetReporting {
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        /// When the change was scheduled.
        due: VenueNanos,
        /// When the hours are expected to end, if they open.
        ends: Option<VenueNanos>,
    },
    /// Reports a trade made outside the book. The sequence number of the command is the number of
    /// the report.
    ReportTrade(Box<TradeReport>),
    /// Confirms or declines a report. The reporter itself may withdraw it.
    AnswerReport {
        account: AccountId,
        report: Seq,
        confirm: bool,
    },
    /// Records the use of a signature, so that it is refused after a restart too. The engine does
    /// nothing, and there is no event.
    SpendSignature(SpentSignature),
}

/// A new order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Order id. The sequencer sets it to the [`Seq`] of the command. Must be unique among live
    /// orders.
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub order_type: OrderType,
    pub lots: Lots,
    pub tif: TimeInForce,
    /// Lots that an iceberg displays at a time; `None` displays all lots.
    pub display: Option<Lots>,
    pub post_only: PostOnly,
    /// Whether the order may only bring a position nearer to zero (rulebook 24). Rule versions
    /// before 3 do not read it.
    pub reduce_only: bool,
    /// Self-match prevention for this order; `None` uses the setting of the account.
    pub self_match: Option<SelfMatch>,
    pub match_group: MatchGroup,
    pub session: SessionId,
    /// Whether the order is cancelled when its session or the epoch ends.
    pub cancel_on_disconnect: bool,
    pub label: Label,
    /// The client's own id for this order, used to recognise a resend. The engine does not read it.
    pub client_order_id: Label,
}

impl NewOrder {
    /// An order without special terms, for `NewOrder { id, …, ..PLAIN }`.
    pub const PLAIN: NewOrder = NewOrder {
        id: OrderId::ZERO,
        account: AccountId::ZERO,
        instrument: InstrumentId::ZERO,
        side: Side::Buy,
        order_type: OrderType::Market,
        lots: Lots::ZERO,
        tif: TimeInForce::Day,
        display: None,
        post_only: PostOnly::No,
        reduce_only: false,
        self_match: None,
        match_group: MatchGroup::Account,
        session: SessionId::ZERO,
        cancel_on_disconnect: false,
        label: Label::NONE,
        client_order_id: Label::NONE,
    };
}

/// The orders of an account that a mass cancel selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelFilter {
    All,
    Instrument(InstrumentId),
    Session(SessionId),
    /// Orders by id. Ids without a live order are skipped.
    Listed(Box<[OrderId]>),
}

/// An amend of a live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amend {
    pub account: AccountId,
    pub order: OrderId,
    pub price: Ticks,
    pub lots: Lots,
    pub priority: Priority,
    /// New peak, which may turn an order into an iceberg; `None` keeps the old one.
    pub display: Option<Lots>,
    pub post_only: PostOnly,
    /// New stop price of a stop that is not elected yet.
    pub stop: Option<Ticks>,
    /// New minimum execution size of a hidden order.
    pub minimum_execution: Option<Lots>,
    pub expiry: Option<Expiry>,
}

impl Amend {
    /// An amend without special terms, for `Amend { account, order, price, lots, ..PLAIN }`.
    pub const PLAIN: Amend = Amend {
        account: AccountId::ZERO,
        order: OrderId::ZERO,
        price: Ticks::ZERO,
        lots: Lots::ZERO,
        priority: Priority::KeepWhenReduced,
        display: None,
        post_only: PostOnly::No,
        stop: None,
        minimum_execution: None,
        expiry: None,
    };
}

/// Whether an amended order can keep its place in the queue, and what the quantity of the amend
/// means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Priority {
    /// `lots` is the new total, including executed lots. A smaller total at the same price keeps
    /// the place.
    KeepWhenReduced = 0,
    /// `lots` is the new open quantity. The place is always lost.
    AlwaysLose = 1,
}
