//! Which connections are to be opened, when, and until when each may take.
//!
//! Does        hands out slots in order, paced by an arrival process; keeps the deadline of each
//!             opening connection.
//! Leaves out  sockets and handshakes: see `worker`.
//! Start at    [`OpenQueue::next`].

use std::collections::VecDeque;

use crate::schedule::Schedule;

#[derive(Clone, Copy, Debug)]
struct Deadline {
    slot: u32,
    generation: u32,
    until_ns: i64,
}

#[derive(Debug)]
pub struct OpenQueue {
    /// Slots to open, each with the earliest time on the monotonic clock, in nanoseconds.
    waiting: VecDeque<(u32, i64)>,
    /// Arrival process of connections. `None` opens them as fast as the limit allows.
    arrivals: Option<Schedule>,
    arrivals_start_ns: i64,
    timeout_ns: i64,
    /// Ascending by time. An entry stays until then, even if its connection has opened.
    deadlines: VecDeque<Deadline>,
    opening: u32,
}

impl OpenQueue {
    pub fn new(count: u32, arrivals: Option<Schedule>, timeout_ns: i64) -> Self {
        OpenQueue {
            waiting: (0..count).map(|slot| (slot, 0)).collect(),
            arrivals,
            arrivals_start_ns: 0,
            timeout_ns,
            deadlines: VecDeque::new(),
            opening: 0,
        }
    }

    /// Sets the time from which the arrival process counts.
    pub fn start(&mut self, now_ns: i64) {
        self.arrivals_start_ns = now_ns;
    }

    /// Returns the next slot to open, if one is due and fewer than `limit` are opening.
    pub fn next(&mut self, now_ns: i64, limit: u32) -> Option<u32> {
        let (slot, not_before_ns) = *self.waiting.front()?;
        if self.opening >= limit || not_before_ns > now_ns {
            return None;
        }
        if let Some(arrivals) = &mut self.arrivals {
            if self.arrivals_start_ns.saturating_add(arrivals.due_ns()) > now_ns {
                return None;
            }
            arrivals.take();
        }
        self.waiting.pop_front();
        Some(slot)
    }

    /// Notes that a connection began to open.
    pub fn started(&mut self, slot: u32, generation: u32, now_ns: i64) {
        self.opening += 1;
        self.deadlines.push_back(Deadline { slot, generation, until_ns: now_ns.saturating_add(self.timeout_ns) });
    }

    /// Notes that a connection opened, or failed to.
    pub fn finished(&mut self) {
        self.opening = self.opening.saturating_sub(1);
    }

    /// Queues `slot` to be opened at `not_before_ns` or later.
    pub fn push(&mut self, slot: u32, not_before_ns: i64) {
        self.waiting.push_back((slot, not_before_ns));
    }

    /// From now on connections open as fast as the limit allows.
    pub fn ignore_arrivals(&mut self) {
        self.arrivals = None;
    }

    /// Returns a connection that is still opening after its deadline.
    pub fn expired(&mut self, now_ns: i64, is_opening: impl Fn(u32, u32) -> bool) -> Option<u32> {
        while let Some(deadline) = self.deadlines.front().copied() {
            let is_opening = is_opening(deadline.slot, deadline.generation);
            if is_opening && now_ns < deadline.until_ns {
                return None;
            }
            self.deadlines.pop_front();
            if is_opening {
                return Some(deadline.slot);
            }
        }
        None
    }
}
