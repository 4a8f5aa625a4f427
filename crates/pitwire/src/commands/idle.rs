//! The argument of `--idle`.
//!
//! Does        names the idle strategies of [`pitwire_net::IdleStrategy`] on the command line.
//! Start at    [`Idle`].

use clap::ValueEnum;
use pitwire_net::IdleStrategy;

/// How the thread that serves requests waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// Sleep at once: the least CPU time, and 5 to 50 microseconds to wake up.
    Block,
    /// Poll for 50 microseconds after a request, then sleep.
    Spin,
    /// Never sleep: the lowest latency, and one core in full use.
    Busy,
}

impl Idle {
    /// Returns the strategy that this argument names.
    pub fn strategy(self) -> IdleStrategy {
        match self {
            Idle::Block => IdleStrategy::Block,
            Idle::Spin => IdleStrategy::SpinThenBlock,
            Idle::Busy => IdleStrategy::BusySpin,
        }
    }
}
