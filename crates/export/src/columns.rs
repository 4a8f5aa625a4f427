//! The columns of each table. `docs/export.md` describes them; change both together.

use crate::table::Column;
use crate::table::ColumnKind::{Bool, DistinctText, I64, Number, Text, Time, U32, U64};

/// The first seven columns are those of CoinTossX.
pub const ORDERS: &[Column] = &[
    ("SecurityId", U32),
    ("OrderId", U64),
    ("ClientOrderId", Text),
    ("DateTime", Time),
    ("Price", Number),
    ("Volume", Number),
    ("Side", Text),
    ("Instrument", Text),
    ("PriceTicks", I64),
    ("VolumeLots", U64),
    ("Type", Text),
    ("TimeInForce", Text),
    ("Display", Number),
    ("DisplayLots", U64),
    ("AccountId", U32),
    ("Label", Text),
    ("Outcome", Text),
    ("EventType", Text),
    ("TimeNs", U64),
    ("Seq", U64),
];

/// The first six columns are those of CoinTossX. As there, the order id is that of the resting
/// order.
pub const TRADES: &[Column] = &[
    ("SecurityId", U32),
    ("OrderId", U64),
    ("ClientOrderId", Text),
    ("Price", Number),
    ("Volume", Number),
    ("DateTime", Time),
    ("Instrument", Text),
    ("PriceTicks", I64),
    ("VolumeLots", U64),
    ("TradeId", DistinctText),
    ("TradeSeq", U64),
    ("AggressorSide", Text),
    ("AggressorOrderId", U64),
    ("AggressorClientOrderId", Text),
    ("AccountId", U32),
    ("AggressorAccountId", U32),
    ("TimeNs", U64),
    ("Seq", U64),
];

/// The first seven columns are those of CoinTossX.
pub const BOOK: &[Column] = &[
    ("SecurityId", U32),
    ("OrderId", U64),
    ("ClientOrderId", Text),
    ("DateTime", Time),
    ("Price", Number),
    ("Volume", Number),
    ("Side", Text),
    ("Instrument", Text),
    ("PriceTicks", I64),
    ("VolumeLots", U64),
    ("AccountId", U32),
    ("TimeNs", U64),
];

pub const LEVELS: &[Column] = &[
    ("SecurityId", U32),
    ("DateTime", Time),
    ("Side", Text),
    ("Price", Number),
    ("Volume", Number),
    ("Instrument", Text),
    ("PriceTicks", I64),
    ("VolumeLots", U64),
    ("ChangeId", U64),
    ("TimeNs", U64),
    ("Seq", U64),
];

pub const QUOTES: &[Column] = &[
    ("SecurityId", U32),
    ("DateTime", Time),
    ("Instrument", Text),
    ("BidPrice", Number),
    ("BidVolume", Number),
    ("AskPrice", Number),
    ("AskVolume", Number),
    ("BidPriceTicks", I64),
    ("BidVolumeLots", U64),
    ("AskPriceTicks", I64),
    ("AskVolumeLots", U64),
    ("Session", Text),
    ("TimeNs", U64),
    ("Seq", U64),
];

pub const AUCTIONS: &[Column] = &[
    ("SecurityId", U32),
    ("DateTime", Time),
    ("Instrument", Text),
    ("Auction", Text),
    ("Price", Number),
    ("Volume", Number),
    ("PriceTicks", I64),
    ("VolumeLots", U64),
    ("Trades", U64),
    ("Imbalance", Number),
    ("ImbalanceLots", I64),
    ("TimeNs", U64),
    ("Seq", U64),
];

pub const EVENTS: &[Column] = &[
    ("Seq", U64),
    ("Index", U32),
    ("TimeNs", U64),
    ("DateTime", Time),
    ("Type", Text),
    ("Public", Bool),
    ("SecurityId", U32),
    ("OrderId", U64),
    ("AccountId", U32),
    ("Fields", DistinctText),
];

pub const INSTRUMENTS: &[Column] = &[
    ("SecurityId", U32),
    ("Name", Text),
    ("Kind", Text),
    ("Base", Text),
    ("Quote", Text),
    ("Tick", Number),
    ("Lot", Number),
];
