//! Where a source's messages become numbered messages of channels.
//!
//! Does        number each channel's messages, find each message's key and channel, hand over what has come together.
//! Holds       numbers go up by one in each channel, from one, whatever is dropped on the way.
//! Start at    [`Ingest::take`], [`Ingest::flush`].

use std::sync::Arc;

use tracing::warn;

use crate::field::field;
use crate::publisher::{Batch, Publisher};
use pitwire_delivery::StreamId;

struct Channel {
    name: String,
    stream: StreamId,
    seq: u64,
}

pub struct Ingest {
    publisher: Arc<Publisher>,
    channels: Vec<Channel>,
    key_field: Option<String>,
    batch: Batch,
    messages: u64,
    unrouted: u64,
}

/// The field that says which channel a message is for, where there are several.
pub const CHANNEL_FIELD: &str = "channel";
/// So much is handed over at once.
const BATCH_BYTES: usize = 256 * 1024;
/// ... or so many messages, however small: a hall's queue has places for sixteen times as many.
const BATCH_MESSAGES: usize = 4096;

impl Ingest {
    /// Of several channels each message names its own; of one it need not.
    pub fn new(publisher: Arc<Publisher>, channels: Vec<(String, StreamId)>, key_field: Option<String>) -> Self {
        let channels = channels.into_iter().map(|(name, stream)| Channel { name, stream, seq: 0 }).collect();
        Ingest { publisher, channels, key_field, batch: Batch::default(), messages: 0, unrouted: 0 }
    }

    /// Takes in one message; `subject` is what its source calls it.
    pub fn take(&mut self, subject: Option<&str>, payload: &[u8], is_binary: bool) {
        let at = match self.channels.len() {
            1 => Some(0),
            _ => {
                let named = field(payload, CHANNEL_FIELD).and_then(|name| std::str::from_utf8(name).ok());
                let is_it =
                    |channel: &Channel| Some(channel.name.as_str()) == named || Some(channel.name.as_str()) == subject;
                self.channels.iter().position(is_it)
            }
        };
        let Some(channel) = at.and_then(|at| self.channels.get_mut(at)) else {
            self.unrouted += 1;
            if self.unrouted == 1 {
                warn!(
                    "a message names none of the channels in its field \"channel\": such messages are dropped and counted"
                );
            }
            return;
        };
        let key = self.key_field.as_deref().and_then(|name| field(payload, name)).unwrap_or_default();
        channel.seq += 1;
        self.messages += 1;
        if is_binary {
            self.batch.binary(channel.stream, key, channel.seq, payload);
        } else {
            self.batch.text(channel.stream, key, channel.seq, payload);
        }
        self.flush_full();
    }

    /// The same message for every channel.
    pub fn take_for_all(&mut self, payload: &[u8]) {
        let key = self.key_field.as_deref().and_then(|name| field(payload, name)).unwrap_or_default();
        for channel in &mut self.channels {
            channel.seq += 1;
            self.batch.text(channel.stream, key, channel.seq, payload);
        }
        self.messages += 1;
        self.flush_full();
    }

    fn flush_full(&mut self) {
        if self.batch.bytes() >= BATCH_BYTES || self.batch.messages() >= BATCH_MESSAGES {
            self.flush();
        }
    }

    /// Hands over what has come together.
    pub fn flush(&mut self) {
        self.publisher.send(&mut self.batch);
    }

    /// Whether the halls have taken most of what they were given. A source that can wait does.
    pub fn has_room(&self) -> bool {
        self.publisher.has_room()
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Messages that named no channel that there is.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }
}
