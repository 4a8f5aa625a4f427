//! Commands that run or describe a market without sockets: their options and output.
//!
//! Does        parse the options of `pitwire sim` and `pitwire flow`, call the crates of the
//!             simulation, and print lines or JSON.
//! Start at    [`sim::Sim::run`] and [`flow::Flow::run`].

pub mod flow;
pub mod sim;
mod sim_replay;
