//! Order flow from a seed: Hawkes processes and a market maker.
//!
//! Does        propose the venue's resident commands, each with the venue time it is meant for.
//! Holds       1. equal seeds and equal engines give equal commands, on any machine (test:
//!                `equal_seeds_give_equal_commands_and_others_do_not`);
//!             2. every order the demo flow rests is cancelled or filled in the end (tests: `adoption.rs`);
//!             3. event times are the stated process's: infeasible events are counted, never redrawn in time.
//! Leaves out  clocks, pacing, numbering, catching up: the host asks when it likes. Other people's accounts.
//! Costs       half a microsecond per demo command with the engine's part, two to three per paper command (it draws up
//!             to a thousand candidates); memory for the orders of a few lifetimes.
//! Known gap   no market orders, stops or hidden orders in calls; no orders for a session to come.
//! Start at    [`Flow`], then `desk`, then `process`.

mod config;
mod desk;
mod error;
mod flow;
mod kernel;
mod maker;
mod math;
mod number;
mod paper;
mod process;
mod random;
mod reference;
mod schedule;
mod trader;

pub use config::{DemoMarket, FlowConfig, Style};
pub use error::FlowError;
pub use flow::{Flow, FlowCounts, TypeTally};
pub use kernel::{Kernel, Matrix, Reading, TYPES, Vector};
pub use process::Process;
pub use random::Random;
