//! A snapshot of the venue in the auditor's own types.

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, InstrumentId, InstrumentSpec, Lots, MatchGroup, OrderId, OrderType,
    Phase, RemainingSessions, SelfMatch, Seq, SessionId, Side, Ticks, TimeInForce, TradeSeq, VenueDay, VenueNanos,
};

use crate::closing::ClosingPrices;
use crate::market::ReportingState;
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};

/// The state of the venue after the command numbered `seq`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditSnapshot {
    pub seq: Seq,
    pub at: VenueNanos,
    pub currencies: Vec<Currency>,
    pub markets: Vec<SnapshotMarket>,
    pub accounts: Vec<SnapshotAccount>,
    pub venue_killed: bool,
    /// Ascending.
    pub killed_sessions: Vec<SessionId>,
    /// The venue day and its closing time, once a day has begun.
    pub today: Option<(VenueDay, VenueNanos)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMarket {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    /// The number of the last trade.
    pub trades: TradeSeq,
    /// The price of the last trade. Collars refer to it.
    pub last: Option<Ticks>,
    /// Busted trades, ascending.
    pub busted: Vec<TradeSeq>,
    /// All live orders, in the book or not.
    pub orders: Vec<SnapshotOrder>,
    pub sessions: SnapshotSession,
    pub reporting: ReportingState,
}

/// The session of an instrument, its reference prices and its closing inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSession {
    pub ends: Option<VenueNanos>,
    pub missed: bool,
    pub remaining: RemainingSessions,
    /// Times in force, and `market`, that an interrupted call still has to expire. `None` if no
    /// call was interrupted.
    pub unfinished: Option<BTreeSet<String>>,
    pub continues: Option<Phase>,
    pub static_reference: Option<Ticks>,
    pub dynamic: Option<Ticks>,
    /// The last published indicative price, volume and imbalance.
    pub indicated: (Option<Ticks>, Lots, i64),
    /// For each batch end, the number of live orders that are older. Zeros and repetitions are left
    /// out.
    pub batch_ends: Vec<u64>,
    pub close: ClosingPrices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// The order type. An elected stop has become a market or a limit order.
    pub order_type: OrderType,
    pub place: SnapshotOrderState,
    pub tif: TimeInForce,
    /// The venue day of entry of a good-till-cancelled order, else zero.
    pub entered: VenueDay,
    /// Open lots, displayed and hidden.
    pub open: Lots,
    /// Lots that a visible level counts; zero outside of levels.
    pub shown: Lots,
    /// The peak of an iceberg.
    pub display: Option<Lots>,
    /// Total lots ordered, including executed lots.
    pub ordered: Lots,
    /// Protection price of an order without a limit.
    pub bound: Option<Ticks>,
    /// Priority. Only its order among the orders of the instrument matters.
    pub time: u64,
    /// The order's own self-match prevention mode, if it has not acted yet.
    pub self_match: Option<SelfMatch>,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
    pub reduce_only: bool,
}

/// Where a live order waits.
pub type SnapshotOrderState = LiveOrderState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotAccount {
    pub spec: AccountSpec,
    /// Balance in units, by currency.
    pub totals: Vec<i128>,
    /// Units that open spot orders reserve, by currency.
    pub reserved: Vec<i128>,
    /// Credit lines above zero.
    pub credit: Vec<(CurrencyId, i128)>,
    pub positions: Vec<(InstrumentId, SnapshotPosition)>,
    pub restrictions: SnapshotRestrictions,
}

/// Restrictions that an operator or the execution throttle has set on an account.
pub type SnapshotRestrictions = crate::money::AccountRestrictions;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotPosition {
    pub lots: i64,
    pub entry_value: i128,
}

pub fn snapshot_order(live: &LiveOrder) -> SnapshotOrder {
    let (price, stop) = (live.price, live.stop);
    SnapshotOrder {
        id: live.id,
        account: live.account,
        side: live.side,
        order_type: match live.kind {
            LiveOrderKind::Limit => OrderType::Limit { price },
            LiveOrderKind::Market => OrderType::Market,
            LiveOrderKind::Hidden => OrderType::Hidden { price, minimum_execution: Lots(live.minimum) },
            LiveOrderKind::Stop => OrderType::Stop { stop },
            LiveOrderKind::StopLimit => OrderType::StopLimit { stop, price },
        },
        place: live.place,
        tif: live.tif,
        entered: match live.tif {
            TimeInForce::GoodTillCancel => live.entered.unwrap_or_default(),
            _ => VenueDay::ZERO,
        },
        open: Lots(live.open),
        shown: Lots(if live.is_visible() { live.shown } else { 0 }),
        display: live.peak,
        ordered: Lots(live.ordered),
        bound: live.bound,
        time: live.arrival,
        self_match: live.mode.filter(|_| !live.is_active()),
        group: live.group,
        session: live.session,
        cancel_on_disconnect: live.cancel_on_disconnect,
        reduce_only: live.reduce_only,
    }
}
