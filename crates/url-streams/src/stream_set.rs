//! The streams of one connection, and what a request changes about them.

use std::collections::BTreeSet;

use crate::binance::grammar::MOST_STREAMS;
use crate::key::{Kind, MessageForm, StreamKey};
use crate::names::Directory;

/// A connection and its streams.
#[derive(Clone, Debug)]
pub struct StreamSession {
    pub(crate) dialect: Dialect,
    /// In the order in which they were requested.
    pub(crate) keys: Vec<StreamKey>,
    pub(crate) form: MessageForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Binance,
    Bithumb,
    Gemini1,
    Gemini2,
}

/// Consequences of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageOutcome {
    /// Answers to send before the messages of joined streams.
    pub answers: Vec<Vec<u8>>,
    pub join: Vec<StreamKey>,
    pub leave: Vec<StreamKey>,
}

impl StreamSession {
    pub(crate) fn new(dialect: Dialect, form: MessageForm) -> StreamSession {
        StreamSession { dialect, keys: Vec::new(), form }
    }

    pub fn streams(&self) -> &[StreamKey] {
        &self.keys
    }

    /// Adds streams. Returns the new ones.
    pub(crate) fn add(&mut self, keys: impl IntoIterator<Item = StreamKey>) -> Vec<StreamKey> {
        let mut known: BTreeSet<StreamKey> = self.keys.iter().copied().collect();
        let fresh: Vec<StreamKey> = keys.into_iter().filter(|key| known.insert(*key)).collect();
        self.keys.extend(&fresh);
        fresh
    }

    /// Removes streams. Returns the ones that existed.
    pub(crate) fn remove(&mut self, keys: &[StreamKey]) -> Vec<StreamKey> {
        let unwanted: BTreeSet<StreamKey> = keys.iter().copied().collect();
        let (gone, kept) = std::mem::take(&mut self.keys).into_iter().partition(|key| unwanted.contains(key));
        self.keys = kept;
        gone
    }

    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.keys.len().saturating_add(more) > MOST_STREAMS
    }
}

/// Returns the key of a stream by the client's name of its instrument. An empty symbol means all
/// instruments.
pub(crate) fn instrument_key(symbol: &str, kind: Kind, form: MessageForm, directory: &Directory) -> Option<StreamKey> {
    let instrument = match symbol {
        "" => None,
        symbol => Some(directory.find(symbol)?),
    };
    Some(StreamKey { kind, instrument, form })
}
