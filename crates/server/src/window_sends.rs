//! Merged private channels whose window has ended: they are sent in parts over the turns of the
//! venue thread.
//!
//! Holds       1. a turn sends about [`RECORDS_PER_TURN`] orders and fills, however many channels
//!                have however many of them;
//!             2. connections take turns, each with [`RECORDS_AT_A_TIME`];
//!             3. a connection whose outbox is full waits until its peer has read.
//! Start at    [`WindowSends::add`], [`WindowSends::next`].

use std::collections::{BTreeSet, VecDeque};

use pitwire_deribit::codec::Interval;
use pitwire_net::ConnectionId;

/// Most orders and fills of one turn. Writing them takes one to two milliseconds.
pub const RECORDS_PER_TURN: usize = 200;
/// Most orders and fills of a connection before the next one has its share.
pub const RECORDS_AT_A_TIME: usize = 100;

/// A window of a connection that has something to send.
pub type DueWindow = (ConnectionId, Interval);

/// Windows that wait to be sent, in turn.
#[derive(Debug, Default)]
pub struct WindowSends {
    due: VecDeque<DueWindow>,
    /// The elements of `due`.
    queued: BTreeSet<DueWindow>,
    /// Connections whose outbox is full.
    full: BTreeSet<ConnectionId>,
}

impl WindowSends {
    /// Adds a window that has ended, unless it still waits to be sent.
    pub fn add(&mut self, window: DueWindow) {
        if self.queued.insert(window) {
            self.due.push_back(window);
        }
    }

    /// Takes the next window whose connection has room.
    pub fn next(&mut self) -> Option<DueWindow> {
        let at = self.due.iter().position(|(id, _)| !self.full.contains(id))?;
        self.due.remove(at).inspect(|window| {
            self.queued.remove(window);
        })
    }

    /// Says whether a window can be sent now.
    pub fn has_next(&self) -> bool {
        self.due.iter().any(|(id, _)| !self.full.contains(id))
    }

    /// Returns the connections that have something to send and no room.
    pub fn waiting(&self) -> BTreeSet<ConnectionId> {
        self.due.iter().map(|(id, _)| *id).filter(|id| self.full.contains(id)).collect()
    }

    /// Notes whether the outbox of a connection has room.
    pub fn set_room(&mut self, id: ConnectionId, has_room: bool) {
        if has_room {
            self.full.remove(&id);
        } else {
            self.full.insert(id);
        }
    }

    /// Says whether the outbox of a connection has room.
    pub fn has_room(&self, id: ConnectionId) -> bool {
        !self.full.contains(&id)
    }

    /// Forgets a connection that has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.full.remove(&id);
        self.due.retain(|(other, _)| *other != id);
        self.queued.retain(|(other, _)| *other != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns_and_wait_while_their_outbox_is_full() {
        let [one, two] = [1, 2].map(|id| (ConnectionId(id), Interval::Ms100));
        let mut sends = WindowSends::default();
        for window in [one, two, one] {
            sends.add(window);
        }
        assert_eq!(sends.next(), Some(one));
        sends.add(one);
        assert_eq!(sends.next(), Some(two));
        sends.set_room(one.0, false);
        assert!(!sends.has_next() && sends.next().is_none());
        assert_eq!(sends.waiting(), [one.0].into());
        sends.set_room(one.0, true);
        assert_eq!((sends.next(), sends.next()), (Some(one), None), "a window is queued once");
        sends.add(two);
        sends.forget(two.0);
        assert_eq!(sends.next(), None);
    }
}
