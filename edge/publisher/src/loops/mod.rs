//! What drives a floor: sockets, readiness, clocks.
//!
//! Start at    [`Kind`], then [`epoll`].

pub(crate) mod epoll;
pub(crate) mod uring;
pub(crate) mod wire;

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use crate::board::Board;
use crate::floor::Floor;
use crate::inbox::Inbox;

/// How a hall's thread waits for its sockets and writes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Epoll,
    /// Sends in batches, and more connections than the process may have files open. Not on every machine.
    Uring,
}

/// What a loop is given.
pub(crate) struct Task {
    pub floor: Floor,
    pub inbox: Arc<Inbox>,
    pub board: Arc<Board>,
    pub hall: usize,
    /// Nothing is accepted without one: sockets come through the inbox.
    pub listener: Option<std::net::TcpListener>,
    /// Connections beyond this are answered 503.
    pub connections_most: usize,
    pub pace: Pace,
}

/// How long messages wait for company.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// After a sweep that took `t` the next one waits until `t * rest / 100` has passed ...
    pub rest_percent: u32,
    /// ... but no longer than this.
    pub most_us: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { rest_percent: 100, most_us: 5_000 }
    }
}

impl Pace {
    /// When the next sweep may begin.
    pub fn next_ns(&self, began_ns: u64, ended_ns: u64) -> u64 {
        let rest = ended_ns.saturating_sub(began_ns) * u64::from(self.rest_percent) / 100;
        ended_ns + rest.min(u64::from(self.most_us) * 1_000)
    }
}

/// Nanoseconds of a clock that never goes back.
pub fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
