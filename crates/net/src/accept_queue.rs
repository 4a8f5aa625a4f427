//! Which connections are on the list of a turn when many come at once.
//!
//! Does        lists connections that something has happened to; of those without a WebSocket
//!             session, a few in each turn.
//! Holds       1. a connection with a session is listed at once: it waits for a few others at
//!                most, however many have come;
//!             2. connections without a session are listed in the order in which they came, some
//!                in every turn;
//!             3. a connection that ends while it waits is removed when its place on the list
//!                comes.
//! Costs       a turn looks at the listed connections only, not at the waiting ones.
//! Start at    [`AcceptQueue::list`].

use std::collections::VecDeque;

use crate::connection::{Connection, ListState};

/// Most connections without a session on the list at a time: a fifth of a millisecond of work.
const LISTED_MAX: usize = 16;

/// Connections without a session that wait for a place on the list.
#[derive(Debug, Default)]
pub(crate) struct AcceptQueue {
    /// Their list state is `Listed`, although they are not on the list yet.
    waiting: VecDeque<usize>,
    listed: usize,
}

impl AcceptQueue {
    /// Says whether connections wait, so that the next turn has to come at once.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lists the connection at index `at`, or makes it wait for a place on the list.
    pub fn list(&mut self, listed: &mut Vec<usize>, connection: &mut Connection, at: usize) {
        if connection.list_state != ListState::Unlisted {
            return;
        }
        connection.list_state = ListState::Listed;
        if connection.has_session() {
            return listed.push(at);
        }
        self.waiting.push_back(at);
        self.fill(listed);
    }

    /// Puts a connection that was served and has more to ask behind the waiting ones.
    pub fn requeue(&mut self, at: usize) {
        self.waiting.push_back(at);
    }

    /// Fills the list for the next turn, for which `staying` connections without a session stay.
    pub fn begin_turn(&mut self, staying: usize, listed: &mut Vec<usize>) {
        self.listed = staying;
        self.fill(listed);
    }

    fn fill(&mut self, listed: &mut Vec<usize>) {
        while self.listed < LISTED_MAX
            && let Some(at) = self.waiting.pop_front()
        {
            self.listed += 1;
            listed.push(at);
        }
    }
}
