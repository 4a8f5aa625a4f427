//! The objects that connections use during one turn of the loop.
//!
//! Start at    [`TurnContext`].

use crate::application::ServerLatency;
use crate::clock::SystemClock;
use crate::event_loop::EventLoop;
use crate::limits::Limits;
use crate::notices::Notices;
use crate::origin::OriginPolicy;

/// Everything that a connection needs to read and act.
pub(crate) struct TurnContext<'a, A> {
    pub app: &'a mut A,
    pub net: &'a mut dyn EventLoop,
    pub notices: &'a mut Notices,
    pub limits: &'a Limits,
    pub origins: &'a OriginPolicy,
    pub clock: &'a SystemClock,
    /// When the turn began, in monotonic nanoseconds.
    pub now: u64,
    /// When it is time to commit, in monotonic nanoseconds.
    pub until: u64,
    /// Whether anything was received in this turn.
    pub had_input: bool,
}

impl<A> TurnContext<'_, A> {
    /// Says whether it is time to commit.
    pub fn is_over(&self) -> bool {
        self.clock.monotonic_ns() >= self.until
    }
}

/// When the steps of a turn ended, for the connections that write at its end.
pub(crate) struct TurnTimes<'a> {
    pub clock: &'a SystemClock,
    /// When the turn began.
    pub now: u64,
    pub acted_ns: u64,
    pub committed_ns: u64,
}

impl TurnTimes<'_> {
    /// Returns how long `requests`, the last of which was read at `read_ns`, have been in the
    /// process when their answers are sent.
    pub fn server_latency(&self, requests: u32, read_ns: u64, sent_ns: u64) -> ServerLatency {
        ServerLatency {
            requests,
            acting_ns: self.acted_ns.saturating_sub(read_ns),
            committing_ns: self.committed_ns.saturating_sub(self.acted_ns),
            sending_ns: sent_ns.saturating_sub(self.committed_ns),
        }
    }
}
