//! One turn of the loop: who is served in it, and how long it may take.
//!
//! Holds       1. whoever asks little waits a turn or two, however much others ask: it is served first, and its answers
//!                leave before the others are looked at again;
//!             2. whoever asks a lot is put off by that for one turn, not for two in a row;
//!             3. and is looked up from every few messages, and before its answers are written: somebody else who has asked
//!                meanwhile comes next;
//!             4. of those who have as much to ask, each is served before any is served twice.
//! Costs       a reading of the clock for each connection served; beside a flood a look at the sockets every few messages.
//! Start at    [`Turn::serve_each`].

use slab::Slab;

use crate::application::{Application, Residence};
use crate::clock::SystemClock;
use crate::connection::Connection;
use crate::doors::Doors;
use crate::limits::Limits;
use crate::notices::Notices;

/// Notes what has arrived meanwhile, and lists those it arrived for. Says whether there are any that were not listed.
pub(crate) type Glance<'a> = dyn FnMut(&mut Slab<Connection>, &mut Vec<usize>) -> bool + 'a;

/// What a connection acts with and against in one turn.
pub(crate) struct Turn<'a, A> {
    pub app: &'a mut A,
    pub notices: &'a mut Notices,
    pub limits: &'a Limits,
    pub doors: &'a Doors,
    pub clock: &'a SystemClock,
    /// What a read fills before it belongs to a connection.
    pub buffer: &'a mut [u8],
    pub now: u64,
    /// When it is time to commit, whoever still waits.
    pub until: u64,
    /// Whether anything was received in this turn.
    pub had_input: bool,
}

impl<A: Application> Turn<'_, A> {
    /// Serves those on the list that have not waited, then those that have. Says whether there is time for more.
    pub fn serve_each(&mut self, connections: &mut Slab<Connection>, listed: &[usize], put_off: &mut bool) -> bool {
        let (is_time, was_light) = self.serve_those(connections, listed, false);
        if was_light && !std::mem::replace(put_off, true) {
            return false;
        }
        *put_off = false;
        // At least one of them, also when it is time.
        let (is_time_now, _) = self.serve_those(connections, listed, true);
        !(is_time || is_time_now)
    }

    /// Says whether it is time to commit, and whether somebody was served who has nothing more to ask.
    fn serve_those(&mut self, connections: &mut Slab<Connection>, listed: &[usize], has_waited: bool) -> (bool, bool) {
        let mut was_light = false;
        for at in listed {
            let Some(connection) = connections.get_mut(*at) else { continue };
            let is_next = connection.is_busy() == has_waited && !connection.is_served;
            if !is_next || self.notices.is_ending(connection.id) {
                continue;
            }
            connection.is_served = true;
            connection.read_and_act(self);
            was_light |= connection.is_done_with_little();
            if self.is_time() {
                return (true, was_light);
            }
        }
        (false, was_light)
    }

    /// Round by round what can be done without reading, until it is time or nothing is left.
    pub fn serve_more(&mut self, connections: &mut Slab<Connection>, listed: &mut Vec<usize>, glance: &mut Glance<'_>) {
        let (mut has_more, busy) = (true, listed.len());
        while std::mem::take(&mut has_more) {
            for at in 0..busy {
                let more = connections.get(listed[at]).filter(|c| c.can_go_on() && !self.notices.is_ending(c.id));
                if more.is_none() {
                    continue;
                }
                if glance(connections, listed) {
                    // Next time those come first whose slice this was.
                    listed[..busy].rotate_left(at);
                    self.serve_those(connections, listed, false);
                    return;
                }
                connections[listed[at]].read_and_act(self);
                if self.is_time() {
                    listed[..busy].rotate_left(at + 1);
                    return;
                }
                has_more = true;
            }
        }
    }

    fn is_time(&self) -> bool {
        self.clock.monotonic_ns() >= self.until
    }
}

/// What the turn was doing when, as its connections write.
pub(crate) struct Sending<'a> {
    pub clock: &'a SystemClock,
    pub now: u64,
    pub acted_ns: u64,
    pub committed_ns: u64,
}

impl Sending<'_> {
    pub fn residence(&self, requests: u32, read_ns: u64, sent_ns: u64) -> Residence {
        Residence {
            requests,
            acting_ns: self.acted_ns.saturating_sub(read_ns),
            committing_ns: self.committed_ns.saturating_sub(self.acted_ns),
            sending_ns: sent_ns.saturating_sub(self.committed_ns),
        }
    }
}
