//! Everything that can be asked of the venue. What is not here cannot happen.
//!
//! A timer, a day's end, an operator's halt is a command like any other: the engine reads no clock.

use crate::{
    AccountId, AccountSettings, AccountSpec, CancelReason, Currency, CurrencyId, Epoch, InstrumentId, InstrumentLimits,
    InstrumentSpec, Lots, OrderId, Phase, RemainingSessions, SelfMatch, Seq, SessionId, SessionReason, Side, Ticks,
    TradeReport, TradeSeq, TradingRules, VenueDay, VenueNanos,
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
    /// What journals of the first release hold in place of [`Command::ChangeSession`]; changes the phase and nothing else.
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
    /// Cancels those of an account's orders that the filter names, in the order in which they were entered.
    CancelAll {
        account: AccountId,
        which: CancelFilter,
        reason: CancelReason,
    },
    /// A window boundary of the merged public channels.
    CloseWindow,
    /// Samples the index and mark price of every perpetual.
    SampleIndex,
    /// The venue day turns: DAY orders expire.
    EndDay,
    SetInstrumentLimits {
        instrument: InstrumentId,
        limits: InstrumentLimits,
    },
    /// Cancels what rests and ends trading for good; the name and number stay taken.
    DeleteInstrument {
        instrument: InstrumentId,
    },
    SetAccount {
        account: AccountId,
        settings: AccountSettings,
    },
    /// How far below zero what an account has free of a currency may fall.
    SetCreditLine {
        account: AccountId,
        currency: CurrencyId,
        units: i128,
    },
    /// Cancels the account's orders and takes no more of them, for good; balances stay as they are.
    CloseAccount {
        account: AccountId,
    },
    /// Cancels everything in the scope and takes no new order from it until the scope is lifted.
    Kill {
        scope: KillScope,
        reason: Label,
    },
    /// Takes a kill or a tripped execution throttle back.
    Lift {
        scope: KillScope,
    },
    BustTrade(Box<Bust>),
    /// Starts, stops or scales the resident order flow. The engine only remembers it.
    SetFlow(FlowSetting),
    /// Command `seq` made the engine fail: it is skipped in every replay, and its instrument is halted.
    Quarantine {
        seq: Seq,
        instrument: Option<InstrumentId>,
    },
    /// Ends the session that runs and begins another, in the order of operations of rulebook 5.2.
    ChangeSession {
        instrument: InstrumentId,
        to: Phase,
        reason: SessionReason,
        /// When the schedule wanted it; the time of the command where no schedule did.
        due: VenueNanos,
        /// When it is expected to end.
        ends: Option<VenueNanos>,
    },
    /// A later end for the session that runs.
    ExtendSession {
        instrument: InstrumentId,
        ends: VenueNanos,
    },
    /// Which sessions the day's schedule still holds. From the timetable, after [`Command::BeginDay`].
    SetRemaining {
        instrument: InstrumentId,
        remaining: RemainingSessions,
    },
    /// The venue day that now is, and when it closes: the latest time an order may be good till.
    BeginDay {
        day: VenueDay,
        closes: VenueNanos,
    },
    /// Orders that are good till a time at or before now expire.
    PassTime,
    /// Forgets the remembered touch, so that hidden orders are looked at again.
    FilterHidden {
        instrument: InstrumentId,
    },
    /// A batch boundary of an instrument that trades in frequent batches.
    RunBatch {
        instrument: InstrumentId,
    },
    SetTradingRules {
        instrument: InstrumentId,
        rules: Box<TradingRules>,
    },
    /// An operator's closing price, until the closing price cross has begun.
    SetClosingPrice {
        instrument: InstrumentId,
        price: Ticks,
    },
    /// The hours of trade reporting begin or end, whatever session runs.
    SetReporting {
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        /// When the schedule wanted it.
        due: VenueNanos,
        /// When hours that begin are expected to end.
        ends: Option<VenueNanos>,
    },
    /// One party's word on a trade made beside the book. Its number is the report's.
    ReportTrade(Box<TradeReport>),
    /// The other party's word on a report, or the reporter's own, who may take it back.
    AnswerReport {
        account: AccountId,
        report: Seq,
        confirm: bool,
    },
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
    /// An iceberg shows at most this much at a time; `None` shows all.
    pub display: Option<Lots>,
    pub post_only: PostOnly,
    /// Sent as one that may only bring a position nearer to zero; whoever sends it sees to that, the engine never reads it.
    pub reduce_only: bool,
    /// In place of the account's own setting.
    pub self_match: Option<SelfMatch>,
    pub match_group: MatchGroup,
    pub session: SessionId,
    /// Goes when its session does, and does not outlive the epoch.
    pub cancel_on_disconnect: bool,
    pub label: Label,
    /// The member's own number for this order, by which a resend is recognised. The engine never reads it.
    pub client_order_id: Label,
}

impl NewOrder {
    /// An order with nothing special about it, and nothing filled in: the rest of `NewOrder { id, …, ..PLAIN }`.
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

/// Whether an order may only add to the visible book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PostOnly {
    #[default]
    No = 0,
    /// A price that would trade is moved to one tick short of the visible best price of the other side.
    Reprice = 1,
    /// An order that would trade is refused.
    Reject = 2,
}

/// Which orders are one member's to self-match prevention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatchGroup {
    /// All orders of the account that name no key.
    #[default]
    Account,
    /// This order alone: it never meets its own.
    Order,
    /// All orders with this key, whatever their account.
    Key(u32),
}

/// Which of an account's orders a mass cancel takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelFilter {
    All,
    Instrument(InstrumentId),
    Session(SessionId),
    /// By number: how the desk spells labels, currencies and kinds. Numbers of no live order are passed over.
    Listed(Box<[OrderId]>),
}

/// What a kill stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KillScope {
    /// One order: nothing stays blocked.
    Order(OrderId),
    Session(SessionId),
    Account(AccountId),
    Venue,
}

/// A trade to be taken back, as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bust {
    pub instrument: InstrumentId,
    pub trade_seq: TradeSeq,
    pub price: Ticks,
    pub lots: Lots,
    pub buyer: AccountId,
    pub seller: AccountId,
    pub reason: Label,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowSetting {
    pub running: bool,
    /// Events per second in hundredths of what the flow's parameters give; 1 to [`Self::MOST_RATE_PERCENT`].
    pub rate_percent: u32,
}

impl FlowSetting {
    pub const MOST_RATE_PERCENT: u32 = 100_000;
}

impl Default for FlowSetting {
    fn default() -> Self {
        FlowSetting { running: true, rate_percent: 100 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderType {
    Limit {
        price: Ticks,
    },
    /// Trades at any price; what does not trade at once expires, but for what waits for a call.
    Market,
    /// A limit order that no public channel shows, and that trades at least `minimum_execution` lots at a time.
    Hidden {
        price: Ticks,
        minimum_execution: Lots,
    },
    /// Becomes a market order when the last price reaches `stop`.
    Stop {
        stop: Ticks,
    },
    /// Becomes a limit order when the last price reaches `stop`.
    StopLimit {
        stop: Ticks,
        price: Ticks,
    },
}

impl OrderType {
    pub const fn limit_price(self) -> Option<Ticks> {
        match self {
            OrderType::Limit { price } | OrderType::Hidden { price, .. } | OrderType::StopLimit { price, .. } => {
                Some(price)
            }
            OrderType::Market | OrderType::Stop { .. } => None,
        }
    }

    pub const fn stop_price(self) -> Option<Ticks> {
        match self {
            OrderType::Stop { stop } | OrderType::StopLimit { stop, .. } => Some(stop),
            _ => None,
        }
    }

    /// What an amend that was taken makes of it: `None` keeps what it has.
    #[must_use]
    pub fn amended(self, price: Ticks, new_stop: Option<Ticks>, new_minimum: Option<Lots>) -> OrderType {
        match self {
            OrderType::Limit { .. } => OrderType::Limit { price },
            OrderType::Market => OrderType::Market,
            OrderType::Hidden { minimum_execution, .. } => {
                OrderType::Hidden { price, minimum_execution: new_minimum.unwrap_or(minimum_execution) }
            }
            OrderType::Stop { stop } => OrderType::Stop { stop: new_stop.unwrap_or(stop) },
            OrderType::StopLimit { stop, .. } => OrderType::StopLimit { stop: new_stop.unwrap_or(stop), price },
        }
    }
}

/// How long an order lives, or which session it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeInForce {
    /// Until the venue day turns.
    Day,
    /// Until cancelled, at most ninety days.
    GoodTillCancel,
    /// Trades at once; the remainder expires.
    ImmediateOrCancel,
    /// Trades at once and whole, or not at all.
    FillOrKill,
    /// Through a venue day.
    GoodTillDate { day: VenueDay },
    /// Until a time of the same venue day.
    GoodTillTime { at: VenueNanos },
    /// OPG: the opening call alone.
    OpeningCall,
    /// GFA: every call, set aside in between.
    AnyCall,
    /// GFX: the next intraday call.
    IntradayCall,
    /// ATC: the closing call.
    ClosingCall,
    /// CPX: the closing price cross.
    ClosingCross,
}

impl TimeInForce {
    /// What an amend that was taken makes of it: another day or time, never another time in force.
    #[must_use]
    pub fn amended(self, expiry: Option<Expiry>) -> TimeInForce {
        match (self, expiry) {
            (TimeInForce::GoodTillDate { .. }, Some(Expiry::Day(day))) => TimeInForce::GoodTillDate { day },
            (TimeInForce::GoodTillTime { .. }, Some(Expiry::Time(at))) => TimeInForce::GoodTillTime { at },
            _ => self,
        }
    }

    /// Whether a remainder may rest in continuous trading.
    pub const fn rests(self) -> bool {
        !matches!(self, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// The number under which journals know it.
    pub const fn code(self) -> u8 {
        match self {
            TimeInForce::Day => 0,
            TimeInForce::GoodTillCancel => 1,
            TimeInForce::ImmediateOrCancel => 2,
            TimeInForce::FillOrKill => 3,
            TimeInForce::GoodTillDate { .. } => 4,
            TimeInForce::GoodTillTime { .. } => 5,
            TimeInForce::OpeningCall => 6,
            TimeInForce::AnyCall => 7,
            TimeInForce::IntradayCall => 8,
            TimeInForce::ClosingCall => 9,
            TimeInForce::ClosingCross => 10,
        }
    }

    /// As the rulebook and `contracts/rules` write it.
    pub const fn name(self) -> &'static str {
        match self {
            TimeInForce::Day => "day",
            TimeInForce::GoodTillCancel => "gtc",
            TimeInForce::ImmediateOrCancel => "ioc",
            TimeInForce::FillOrKill => "fok",
            TimeInForce::GoodTillDate { .. } => "gtd",
            TimeInForce::GoodTillTime { .. } => "gtt",
            TimeInForce::OpeningCall => "opg",
            TimeInForce::AnyCall => "gfa",
            TimeInForce::IntradayCall => "gfx",
            TimeInForce::ClosingCall => "atc",
            TimeInForce::ClosingCross => "cpx",
        }
    }
}

/// A new end for an order that is good till a date or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    Day(VenueDay),
    Time(VenueNanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amend {
    pub account: AccountId,
    pub order: OrderId,
    pub price: Ticks,
    pub lots: Lots,
    pub priority: Priority,
    /// A new peak for an iceberg, or for an order that was none; `None` leaves what is shown as it was.
    pub display: Option<Lots>,
    pub post_only: PostOnly,
    /// A new stop price of an order that is not elected yet.
    pub stop: Option<Ticks>,
    /// A new minimum execution size of a hidden order.
    pub minimum_execution: Option<Lots>,
    pub expiry: Option<Expiry>,
}

impl Amend {
    /// The rest of `Amend { account, order, price, lots, ..PLAIN }`.
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
    pub const NONE: Label = Label(None);

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
