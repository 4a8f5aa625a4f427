//! Order flow from a seed: Hawkes processes and a market maker.
//!
//! Does        generate the commands of the venue's own participants, each with the venue time at
//!             which it is due.
//! Holds       1. equal seeds and equal engines give equal commands, on any machine (test:
//!                `equal_seeds_give_equal_commands_and_others_do_not`);
//!             2. every order that the demo flow leaves in the book is filled or cancelled in the
//!                end (tests: `adoption.rs`);
//!             3. event times follow the stated process: infeasible events are counted, and never
//!                drawn again.
//! Leaves out  clocks, pacing, numbering and catching up, which the caller does; accounts of
//!             members.
//! Costs       half a microsecond per demo command including the engine, two to three per paper
//!             command (it draws up to a thousand candidates); memory for the orders of a few
//!             lifetimes.
//! Known gap   no market orders, stops or hidden orders in calls; no orders for a later session.
//! Start at    [`Flow`], then `instrument_flow`, then `process`.

mod activity;
mod config;
mod error;
mod event_type;
mod fair_value;
mod flow;
mod instrument_flow;
mod interevent;
mod kernel;
mod maker;
mod market_model;
mod market_value;
mod math;
mod metaorders;
mod number;
mod paper;
mod process;
mod random;
mod texture;
mod time_queue;
mod trader;
mod type_volume;

pub use config::{DemoMarket, FlowConfig, FlowStyle, check_parameter};
pub use error::FlowError;
pub use event_type::{Act, EventType, ExpectedRate, FlowModel};
pub use flow::{ExpectedCount, Flow, FlowCounts, TypeTally};
pub use interevent::{IntereventTimes, UnitHistogram};
pub use kernel::{Exponential, Kernel, MOST_PARTS, MOST_TYPES, Matrix, ParameterSet, TYPES, Vector};
pub use paper::{PaperClient, SEEDS, TopOfBook};
pub use process::Process;
pub use random::Random;
pub use trader::Proposal;
pub use type_volume::TypeVolume;
