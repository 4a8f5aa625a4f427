//! A live feed whose messages come from another server: one upstream connection, many readers.
//!
//! Does        keeps the latest messages of the upstream connection for the connections of the
//!             feed.
//! Holds       1. message numbers are consecutive, and equal on every connection;
//!             2. memory is bounded: at most [`MESSAGES_MOST`] messages and [`BYTES_MOST`] bytes
//!                are kept.
//! Leaves out  reconnecting. The feed ends when the upstream connection does.
//! Start at    [`RelayLog::wait_for`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pitwire_net::monotonic_ns;

use crate::recorder::{MessageSink, RecordOptions, follow};

const MESSAGES_MOST: usize = 65_536;
/// Messages of 16 MiB fit, and the newest one always stays.
const BYTES_MOST: usize = 256 << 20;

pub(super) struct RelayMessage {
    /// When the relay received it.
    pub at_ns: u64,
    pub is_binary: bool,
    pub body: Vec<u8>,
}

/// The next message for a connection, or why there is none.
pub(super) enum RelayNext {
    Message(Arc<RelayMessage>),
    /// No message arrived in time.
    Nothing,
    /// The connection is too slow: its next message has been discarded.
    Dropped,
    Ended,
}

#[derive(Default)]
struct RelayState {
    /// Number of the oldest kept message; the first message of the relay has 1.
    oldest: u64,
    kept: VecDeque<Arc<RelayMessage>>,
    bytes: usize,
    is_ended: bool,
}

impl RelayState {
    fn next_number(&self) -> u64 {
        self.oldest + self.kept.len() as u64
    }
}

/// The latest messages of the upstream connection.
pub(super) struct RelayLog {
    state: Mutex<RelayState>,
    grown: Condvar,
}

impl RelayLog {
    pub fn new() -> Self {
        RelayLog { state: Mutex::new(RelayState { oldest: 1, ..RelayState::default() }), grown: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the next message that will arrive.
    pub fn next_number(&self) -> u64 {
        self.lock().next_number()
    }

    /// Waits for a message, at most for `patience`.
    pub fn wait_for(&self, number: u64, patience: Duration) -> RelayNext {
        let mut state = self.lock();
        if number >= state.next_number() && !state.is_ended {
            state = self.grown.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        let Some(at) = number.checked_sub(state.oldest) else { return RelayNext::Dropped };
        match usize::try_from(at).ok().and_then(|at| state.kept.get(at)) {
            Some(message) => RelayNext::Message(Arc::clone(message)),
            None if state.is_ended => RelayNext::Ended,
            None => RelayNext::Nothing,
        }
    }

    fn push(&self, message: RelayMessage) {
        let mut state = self.lock();
        state.bytes += message.body.len();
        state.kept.push_back(Arc::new(message));
        while state.kept.len() > MESSAGES_MOST || (state.bytes > BYTES_MOST && state.kept.len() > 1) {
            if let Some(oldest) = state.kept.pop_front() {
                state.bytes -= oldest.body.len();
                state.oldest += 1;
            }
        }
        drop(state);
        self.grown.notify_all();
    }

    fn end(&self) {
        self.lock().is_ended = true;
        self.grown.notify_all();
    }
}

/// Puts what the upstream connection sends into the log.
struct RelaySink<'a> {
    log: &'a RelayLog,
    messages: u64,
}

impl MessageSink for RelaySink<'_> {
    fn add(&mut self, _since_ns: u64, is_binary: bool, body: &[u8]) -> io::Result<()> {
        self.messages += 1;
        self.log.push(RelayMessage { at_ns: monotonic_ns(), is_binary, body: body.to_vec() });
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.messages
    }
}

/// Relays until the upstream connection ends, a limit of `wanted` is reached, or `stop` becomes
/// readable. Returns why the connection failed, if it did.
pub(super) fn relay(log: &RelayLog, wanted: &RecordOptions, stop: &OwnedFd) -> Option<String> {
    let result = follow(wanted, RelaySink { log, messages: 0 }, stop);
    log.end();
    match result {
        Ok((_, failure)) => failure,
        Err(what) => Some(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> RelayMessage {
        RelayMessage { at_ns: 1, is_binary: false, body: body.to_vec() }
    }

    #[test]
    fn readers_get_every_message_from_the_place_where_they_joined() {
        let log = RelayLog::new();
        log.push(message(b"a"));
        let joined = log.next_number();
        assert_eq!(joined, 2);
        assert!(matches!(log.wait_for(joined, Duration::ZERO), RelayNext::Nothing));
        log.push(message(b"b"));
        let RelayNext::Message(found) = log.wait_for(joined, Duration::ZERO) else { panic!("no message") };
        assert_eq!(found.body, b"b");
        log.end();
        assert!(matches!(log.wait_for(joined + 1, Duration::ZERO), RelayNext::Ended));
    }

    #[test]
    fn a_reader_that_is_too_slow_gets_an_error() {
        let log = RelayLog::new();
        for _ in 0..=MESSAGES_MOST {
            log.push(message(b"x"));
        }
        assert!(matches!(log.wait_for(1, Duration::ZERO), RelayNext::Dropped));
        assert!(matches!(log.wait_for(2, Duration::ZERO), RelayNext::Message(_)));
        let state = log.lock();
        assert_eq!((state.kept.len(), state.bytes), (MESSAGES_MOST, MESSAGES_MOST));
    }
}
