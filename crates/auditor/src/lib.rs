//! An independent auditor that checks a run of the venue from its commands and events alone.
//!
//! Does        follow the log one command at a time, derive books, sessions and balances from the
//!             events, and report the first event that breaks a promise of the venue.
//! Holds       1. it shares no code with the engine, only the types of the model, and reads the
//!                rule tables with its own parser;
//!             2. memory is bounded by live orders, accounts, instruments, busted trades, ten
//!                minutes of trading in seconds and the newest 100,000 trades. The details of an
//!                older trade are not checked when it is busted;
//!             3. after the first offence its state is undefined and later results mean nothing.
//! Leaves out  margin requirements, index and mark prices, and the reasons for which deposits and
//!             definitions are refused.
//! Costs       a few tree lookups per event; the orders within the limit for a fill-or-kill order;
//!             the levels of the book for each command in a call; all live orders at the end of a
//!             session or a day, at a new epoch, a deletion, and a kill of a session or the venue.
//! Start at    [`Auditor::observe`], then `auditor`, `entries` and `continuous`.
//!
//! `VenueModel` holds the state. Functions named `check_…` compare the next events with the
//! rulebook and update the model. Functions named `expected_…` only read it.

mod amends;
mod auction_prices;
mod auditor;
mod batches;
mod book;
mod cancels;
mod closing;
mod conclusion;
mod continuous;
mod cross;
mod days;
mod departures;
mod entries;
mod limits;
mod market;
mod model;
mod money;
mod operator_rules;
mod operators;
mod order_rules;
mod order_updates;
mod orders;
mod reader;
mod recent_trades;
mod reduce_only;
mod reporting;
mod rule_tables;
mod schedule;
mod session_events;
mod sessions;
mod settling;
mod snapshot;
mod snapshot_check;
mod stops;
mod trades;
mod uncross;
mod validity;
mod violation;

pub use auditor::Auditor;
pub use closing::{ClosingPrices, DayStatistics, WindowRun};
pub use market::ReportingState;
pub use snapshot::{
    AuditSnapshot, SnapshotAccount, SnapshotMarket, SnapshotOrder, SnapshotOrderState, SnapshotPosition,
    SnapshotRestrictions, SnapshotSession,
};
pub use violation::{Offence, Promise};
