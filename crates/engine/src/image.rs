//! The engine's whole state as plain data, for snapshots and state hashes.
//!
//! Holds       orders are in priority order, so that a restored book has the same queues. Slots and
//!             hash tables, which no result depends on, are not part of an image.
//! Leaves out  capture and restore: `snapshot`.

use pitwire_model::{
    AccountId, AccountSpec, Currency, Derivation, Epoch, FlowSetting, InstrumentId, InstrumentSpec, MatchGroup,
    OrderId, OrderType, Phase, RemainingSessions, SelfMatch, SessionId, Side, Ticks, TimeInForce, TradeSeq, VenueDay,
    VenueNanos,
};

use crate::account::{AccountStatus, Balance, Position};
use crate::closing_price::ClosingPriceInputs;
use crate::reporting::Reporting;
use crate::rule_tables::TifSet;
use crate::session_state::IndicativeUncross;
use crate::undisplayed::UndisplayedState;

/// The whole state of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineImage {
    pub epoch: Epoch,
    pub flow: FlowSetting,
    /// Highest session number of any accepted order.
    pub last_session: SessionId,
    pub venue_killed: bool,
    /// Ascending.
    pub killed_sessions: Vec<SessionId>,
    /// The current venue day; zero before the first day has begun.
    pub day: VenueDay,
    /// When the current venue day closes.
    pub closes: VenueNanos,
    pub currencies: Vec<Currency>,
    pub markets: Vec<MarketImage>,
    pub accounts: Vec<AccountImage>,
}

/// The state of one instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketImage {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    pub trades: TradeSeq,
    pub last: Option<Ticks>,
    pub index: Ticks,
    pub mark: Ticks,
    /// Busted trades, ascending.
    pub busted: Vec<TradeSeq>,
    pub session: SessionImage,
    pub reporting: Reporting,
    /// Bids, then asks, each in priority order; then undisplayed orders by state, then by order id.
    pub orders: Vec<OrderImage>,
}

/// The session of an instrument, and the prices that sessions leave behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionImage {
    pub ends: Option<VenueNanos>,
    pub remaining: RemainingSessions,
    /// Whether the venue was down for the whole of the current call, so that it is only reported.
    pub missed: bool,
    /// The call that a volatility call continues.
    pub continues: Option<Phase>,
    /// Orders that the end of an interrupted call would have cancelled; `None` if no call was
    /// interrupted.
    pub unfinished: Option<TifSet>,
    pub static_reference: Option<Ticks>,
    /// The dynamic reference that was set up, if it differs from the last price and nothing has
    /// traded since.
    pub dynamic_reference: Option<Ticks>,
    pub closing: Option<(Ticks, Derivation)>,
    pub previous_close: Option<Ticks>,
    /// Price of the latest uncross of a call or batch.
    pub uncross_price: Option<Ticks>,
    /// The indicative price that was published last.
    pub indicated: IndicativeUncross,
    /// Number of live orders older than each batch end, for the ends that separate live orders;
    /// ascending.
    pub older_than_batches: Vec<u32>,
    /// Inputs of the closing price.
    pub day: ClosingPriceInputs,
}

/// One live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderImage {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// Why the order is not displayed; `None` for an order on a level of the book.
    pub place: Option<UndisplayedState>,
    /// The current type: an elected stop is a market or limit order, an iceberg is a limit order.
    pub order_type: OrderType,
    pub tif: TimeInForce,
    /// Entry day of a GTC order; zero if it was entered before the first venue day, and for every
    /// other order.
    pub entered: VenueDay,
    /// Open lots, displayed or not.
    pub open: u32,
    pub ordered: u32,
    /// Displayed lots: `open` except for icebergs; zero for an undisplayed order.
    pub shown: u32,
    /// Peak of an iceberg in lots; zero for every other order.
    pub display: u32,
    /// Worst price that a market order or a stop may reach; zero if it has no bound.
    pub bound: Ticks,
    /// Rank by time priority among the live orders of the instrument, from 1.
    pub rank: u32,
    /// Self-match prevention that the order itself asked for, while it is parked, unelected or
    /// elected.
    pub mode: Option<SelfMatch>,
    pub session: SessionId,
    pub group: MatchGroup,
    pub cancel_on_disconnect: bool,
    pub reduce_only: bool,
}

impl OrderImage {
    /// Returns the limit price; zero for market orders and stops.
    pub fn price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or(Ticks::ZERO)
    }
}

/// The state of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountImage {
    pub spec: AccountSpec,
    pub balances: Vec<Balance>,
    pub positions: Vec<(InstrumentId, Position)>,
    pub standing: AccountStatus,
}

/// The reason why an image cannot have been written by an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError(pub &'static str);
