//! A snapshot of the venue in the auditor's own types.

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, InstrumentId, InstrumentSpec, Lots, MatchGroup, OrderId, OrderType,
    Phase, RemainingSessions, SelfMatch, Seq, SessionId, Side, Ticks, TimeInForce, TradeSeq, VenueDay, VenueNanos,
};

use crate::closing::ClosingPrices;
use crate::market::ReportingState;
use crate::orders::{LiveOrder, LiveOrderKind, LiveOrderState};

/// The venue as a snapshot tells it, after the command numbered `seq`.
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
    /// The venue day and when it closes, once one has begun.
    pub today: Option<(VenueDay, VenueNanos)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMarket {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    /// The last trade's number.
    pub trades: TradeSeq,
    /// The last trade's price, by which a collar is reckoned.
    pub last: Option<Ticks>,
    /// Trades taken back, ascending.
    pub busted: Vec<TradeSeq>,
    /// Every live order, wherever it is.
    pub orders: Vec<SnapshotOrder>,
    pub sessions: SnapshotSession,
    pub reporting: ReportingState,
}

/// What sessions, calls and prices leave behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSession {
    pub ends: Option<VenueNanos>,
    pub missed: bool,
    pub remaining: RemainingSessions,
    /// What an interrupted call would have ended, times in force and `market`; none: nothing was interrupted.
    pub unfinished: Option<BTreeSet<String>>,
    pub continues: Option<Phase>,
    pub static_reference: Option<Ticks>,
    pub dynamic: Option<Ticks>,
    /// What was told last of a call: price, volume, imbalance.
    pub indicated: (Option<Ticks>, Lots, i64),
    /// For each batch that ended, how many live orders are older; without zeros and repetitions.
    pub batch_ends: Vec<u64>,
    pub close: ClosingPrices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// What it is by now: an elected stop is a market or a limit order.
    pub order_type: OrderType,
    pub place: SnapshotOrderState,
    pub tif: TimeInForce,
    /// The venue day of its entry where that matters (good till cancelled), else zero.
    pub entered: VenueDay,
    /// Shown and hidden together.
    pub open: Lots,
    /// What a level counts of it: zero for what stands in none.
    pub shown: Lots,
    /// The peak of an iceberg.
    pub display: Option<Lots>,
    /// All that was asked for, what has traded included.
    pub ordered: Lots,
    /// The worst price of an order without limit.
    pub bound: Option<Ticks>,
    /// By which orders of the instrument are older or younger.
    pub time: u64,
    /// The order's own word on self-match prevention, where it has not acted yet.
    pub self_match: Option<SelfMatch>,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

/// Where a live order is.
pub type SnapshotOrderState = LiveOrderState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotAccount {
    pub spec: AccountSpec,
    /// Units owned, by currency.
    pub totals: Vec<i128>,
    /// Units that the account's open spot orders could cost, by currency.
    pub reserved: Vec<i128>,
    /// Lines above zero.
    pub credit: Vec<(CurrencyId, i128)>,
    pub positions: Vec<(InstrumentId, SnapshotPosition)>,
    pub restrictions: SnapshotRestrictions,
}

/// What an operator or the throttle has made of an account.
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
    }
}
