//! Bars and indicators of every symbol of a shard.
//!
//! Does        reads what `pitwire split` sends, keeps bars of several lengths per symbol, writes
//!             the finished ones and serves the latest. `docs/bars.md` has the rules, the formulas
//!             and the files.
//! Holds       prices, volumes and notionals are exact; only indicators are floats.
//! Leaves out  the command line: see `crates/pitwire`.
//! Start at    [`worker::start`]; [`BarShard::take`] for the way of a trade into its bars.

mod archive;
mod bar;
mod columns;
mod indicator;
mod latest_bars;
mod number;
mod record;
mod rules;
mod server;
mod shard;
mod source;
pub mod worker;

pub use archive::ArchiveError;
pub use rules::{BarRules, RulesError, check_buckets};
pub use shard::{BarRow, BarShard, BarTotals};
pub use source::SourceError;
