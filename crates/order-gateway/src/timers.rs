//! The timers of the gateway, ordered by their due times.
//!
//! Start at    [`Timers::pop`].

use std::collections::BTreeSet;

use pitwire_net::ConnectionId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Open the connection for logins.
    OpenLogins,
    /// Ping the venue over all connections.
    Ping,
    /// The handshake of this connection to the venue has to be done.
    Handshake(ConnectionId),
    /// The request with this number has to be answered.
    Answer(u64),
    /// The tokens of a client's login have to be renewed.
    Renewal { client: ConnectionId, login: u64 },
}

/// Timers in the order of their time, in nanoseconds. A timer that has lost its reason may stay:
/// it has no effect.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(u64, Timer)>);

impl Timers {
    pub fn set(&mut self, due_ns: u64, timer: Timer) {
        self.0.insert((due_ns, timer));
    }

    pub fn remove(&mut self, due_ns: u64, timer: Timer) {
        self.0.remove(&(due_ns, timer));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn next_due_ns(&self) -> Option<u64> {
        self.0.first().map(|(due_ns, _)| *due_ns)
    }

    /// Removes and returns the timer with the earliest due time, if that is not after `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<Timer> {
        self.0.first().filter(|(due_ns, _)| *due_ns <= now_ns)?;
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
