//! The connections of a server, and which of them have something to do.
//!
//! Start at    [`ConnectionTable::list`].

use std::collections::BTreeMap;

use slab::Slab;

use crate::accept_queue::AcceptQueue;
use crate::connection::{Connection, ListState};
use crate::connection_id::ConnectionId;
use crate::event_loop::{LoopEvent, Token};

/// Connections by index, by name and by token.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    pub connections: Slab<Connection>,
    by_id: BTreeMap<ConnectionId, usize>,
    /// Index of each token's connection; `None` for a token without one.
    by_token: Vec<Option<usize>>,
    /// Connections that something has happened to in this turn, or that can go on in the next.
    pub listed: Vec<usize>,
    pub queue: AcceptQueue,
    /// Empty between turns.
    served: Vec<usize>,
}

impl ConnectionTable {
    /// Adds a connection and returns its index.
    pub fn insert(&mut self, connection: Connection) -> usize {
        let (id, token) = (connection.id, connection.stream.token());
        let at = self.connections.insert(connection);
        self.by_id.insert(id, at);
        if self.by_token.len() <= token.index() {
            self.by_token.resize(token.index() + 1, None);
        }
        self.by_token[token.index()] = Some(at);
        at
    }

    /// Removes the connection at index `at`.
    pub fn remove(&mut self, at: usize) -> Connection {
        let connection = self.connections.remove(at);
        self.by_id.remove(&connection.id);
        if let Some(entry) = self.by_token.get_mut(connection.stream.token().index()) {
            *entry = None;
        }
        connection
    }

    /// Returns the index of a connection.
    pub fn index_of(&self, id: ConnectionId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Returns the names of all connections, in the order in which they came.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.by_id.keys().copied()
    }

    /// Lists a connection whose session, or whose answer, is concerned: at once.
    pub fn list_now(&mut self, at: usize) {
        if let Some(connection) = self.connections.get_mut(at)
            && connection.list_state == ListState::Unlisted
        {
            connection.list_state = ListState::Listed;
            self.listed.push(at);
        }
    }

    /// Lists a connection whose socket has reported something, or makes it wait for its place.
    pub fn list(&mut self, at: usize) {
        if let Some(connection) = self.connections.get_mut(at) {
            self.queue.list(&mut self.listed, connection, at);
        }
    }

    /// Notes a report of the loop about a socket, and lists its connection.
    pub fn note(&mut self, event: LoopEvent) {
        let token = match event {
            LoopEvent::Readable(token) | LoopEvent::Writable(token) => token,
            LoopEvent::Acceptable(_) | LoopEvent::Woken(_) => return,
        };
        let Some(at) = self.index_of_token(token) else { return };
        if let Some(connection) = self.connections.get_mut(at) {
            match event {
                LoopEvent::Writable(_) => connection.note_writable(),
                _ => connection.note_readable(),
            }
        }
        self.list(at);
    }

    /// Says whether an event is input of a connection that asks little and may go on.
    pub fn is_request(&self, event: LoopEvent) -> bool {
        let LoopEvent::Readable(token) = event else { return false };
        let connection = self.index_of_token(token).and_then(|at| self.connections.get(at));
        connection.is_some_and(Connection::may_ask)
    }

    fn index_of_token(&self, token: Token) -> Option<usize> {
        self.by_token.get(token.index()).copied().flatten()
    }

    /// Ends a turn: keeps the connections on the list that need not wait for their sockets, first
    /// the connections that were not served. Passes the connections that are gone to `remove`.
    pub fn end_turn(&mut self, mut remove: impl FnMut(&mut ConnectionTable, usize)) {
        let mut listed = std::mem::take(&mut self.listed);
        let mut served = std::mem::take(&mut self.served);
        let others_wait = self.queue.has_waiting();
        let mut staying = 0;
        listed.retain(|at| {
            let Some(connection) = self.connections.get_mut(*at) else { return false };
            let was_served = connection.list_state == ListState::Served;
            if connection.is_gone() {
                remove(self, *at);
                return false;
            }
            if !connection.wants_turn() {
                connection.list_state = ListState::Unlisted;
                return false;
            }
            connection.list_state = ListState::Listed;
            let has_session = connection.has_session();
            if !has_session && others_wait && was_served {
                // It has had its turn: the connections that wait come first.
                self.queue.requeue(*at);
                return false;
            }
            staying += usize::from(!has_session);
            if was_served {
                served.push(*at);
            }
            !was_served
        });
        listed.append(&mut served);
        self.queue.begin_turn(staying, &mut listed);
        (self.listed, self.served) = (listed, served);
    }
}
