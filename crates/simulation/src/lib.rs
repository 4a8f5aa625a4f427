//! A market that runs from a seed, without sockets, as fast as it goes.
//!
//! Does        drive the venue's sequencer with the order flow and the session schedule, measure
//!             the run, and keep it as a data directory on request.
//! Holds       equal plans give equal tape hashes, on every machine and with either number of
//!             threads.
//! Leaves out  arguments and printing, which are in `crates/pitwire`.
//! Start at    [`SimulationPlan::run`], or [`SteppedMarket`] for a market that its caller drives.

mod command_latency;
mod flow_figures;
mod flow_set;
mod instrument_figures;
mod instrument_watch;
mod interval_series;
mod jackknife;
mod market;
mod pacer;
pub mod plots;
mod report_page;
mod run_directory;
mod run_report;
mod simulation;
mod statistics;
mod stepped_market;
mod stylised_facts;

pub use command_latency::{LatencyBar, LatencyFigures};
pub use flow_set::START;
pub use report_page::STYLE as PAGE_STYLE;
pub use run_report::RunFigures;
pub use simulation::{RunProgress, SimulationPlan, SimulationResult};
pub use stepped_market::{MarketStep, SteppedMarket, SteppedPlan};
pub use stylised_facts::{Fact, FactSummary, OverAll, Verdict};
