//! Turns the messages of a source into numbered messages of channels.
//!
//! Does        Finds the channel and the key of each message, numbers the messages per channel, and
//!             publishes them in batches.
//! Holds       Numbers start at one and rise by one in each channel, even if messages are dropped
//!             later.
//! Start at    [`Ingest::take`], [`Ingest::flush`].

use std::sync::Arc;

use tracing::warn;

use crate::field::field;
use crate::publisher::{MessageBatch, Publisher};
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
    batch: MessageBatch,
    messages: u64,
    unrouted: u64,
    too_large: u64,
}

/// The field that names a message's channel, if there are several.
pub const CHANNEL_FIELD: &str = "channel";
/// Batch size in bytes from which a batch is published.
const BATCH_BYTES: usize = 256 * 1024;
/// Batch size in messages from which a batch is published. A delivery thread's queue holds sixteen
/// times as many.
const BATCH_MESSAGES: usize = 4096;

impl Ingest {
    /// Creates an ingest for `channels`. With several channels each message must name its own.
    pub fn new(publisher: Arc<Publisher>, channels: Vec<(String, StreamId)>, key_field: Option<String>) -> Self {
        let channels = channels.into_iter().map(|(name, stream)| Channel { name, stream, seq: 0 }).collect();
        Ingest {
            publisher,
            channels,
            key_field,
            batch: MessageBatch::default(),
            messages: 0,
            unrouted: 0,
            too_large: 0,
        }
    }

    /// Takes in one message. `subject` is the name that its source gives it.
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

    /// Takes in one message for every channel.
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

    /// Publishes the collected batch.
    pub fn flush(&mut self) {
        self.publisher.send(&mut self.batch);
    }

    /// Whether the delivery threads have taken most of their messages. A source that can wait
    /// should wait for this.
    pub fn has_room(&self) -> bool {
        self.publisher.has_room()
    }

    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Counts a message that its source refuses because it has more than `most` bytes.
    pub fn refuse_large(&mut self, bytes: usize, most: usize) {
        self.too_large += 1;
        if self.too_large == 1 {
            warn!("a message of {bytes} bytes exceeds the limit of {most}: such messages are dropped and counted");
        }
    }

    /// Returns the number of messages that were refused because of their size.
    pub fn too_large(&self) -> u64 {
        self.too_large
    }

    /// Returns the number of messages without a known channel.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }
}
