//! Bars and indicators of every symbol of a shard.
//!
//! Does        read what `pitwire split` deals out, keep bars of several lengths a symbol, write the finished ones, show the
//!             latest. `docs/bars.md` has the rules, the formulas and the files.
//! Holds       prices, volumes and notionals are exact; indicators are floats and nothing else is.
//! Leaves out  the command line: `crates/pitwire`.
//! Start at    [`worker::start`]; [`BarShard::take`] for one trade's way into its bars.

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
