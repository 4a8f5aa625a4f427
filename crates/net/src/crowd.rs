//! Who is on the loop's list, when many come at once.
//!
//! Does        list those that something has happened to; of those without a session, a few in a turn.
//! Holds       1. whoever has a session is listed at once: it waits for a few strangers at most, however many have come;
//!             2. strangers are let on in the order in which they came, some in every turn;
//!             3. whoever waits keeps its place among the connections: one that ends meanwhile is let go of from the list.
//! Costs       a turn looks at those on the list only, not at those who wait.
//! Start at    [`Crowd::list`].

use std::collections::VecDeque;

use mio::event::Event;
use slab::Slab;

use crate::connection::Connection;

/// Handshakes, and requests of connections that are no WebSockets, on the list at a time: a fifth of a millisecond.
const STRANGERS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Counted as listed, and not on the list.
    waiting: VecDeque<usize>,
    listed: usize,
}

impl Crowd {
    /// Whether somebody waits: the next turn is to come at once.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Something of a connection's socket is to be noted.
    pub fn note(&mut self, event: &Event, at: usize, connections: &mut Slab<Connection>, listed: &mut Vec<usize>) {
        if let Some(connection) = connections.get_mut(at) {
            connection.note(event);
            self.list(listed, connection, at);
        }
    }

    /// Lists one that something has happened to, or has it wait for its place on the list.
    pub fn list(&mut self, listed: &mut Vec<usize>, connection: &mut Connection, at: usize) {
        if std::mem::replace(&mut connection.is_listed, true) {
            return;
        }
        if connection.is_websocket() {
            return listed.push(at);
        }
        self.waiting.push_back(at);
        self.let_on(listed);
    }

    /// One that is on the list, and has more to ask, goes behind those who wait.
    pub fn wait_again(&mut self, at: usize) {
        self.waiting.push_back(at);
    }

    /// As many strangers stay on the list from the last turn.
    pub fn begin(&mut self, staying: usize, listed: &mut Vec<usize>) {
        self.listed = staying;
        self.let_on(listed);
    }

    fn let_on(&mut self, listed: &mut Vec<usize>) {
        while self.listed < STRANGERS
            && let Some(at) = self.waiting.pop_front()
        {
            self.listed += 1;
            listed.push(at);
        }
    }
}

/// Lists one whose session, or whose answer, is what it is about: at once.
pub(crate) fn list(listed: &mut Vec<usize>, connection: &mut Connection, at: usize) {
    if !std::mem::replace(&mut connection.is_listed, true) {
        listed.push(at);
    }
}
