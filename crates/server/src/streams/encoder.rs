//! Messages that carry a number per socket: the venue thread encodes them once, this thread numbers
//! them for each socket.
//!
//! Does        keeps each socket's next number on a separate thread and sends the socket its
//!             messages.
//! Holds       1. the venue thread hands over a turn's messages at once and never waits: if the
//!                thread is too far behind, its sockets are closed with 1013 and a new thread
//!                starts;
//!             2. the numbers of a socket have no gaps.
//! Start at    [`MessageEncoder::send`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use pitwire_publisher::{CloseCode, Publisher, SubscriberId};
use pitwire_url_streams::{NumberPosition, StreamId};
use tracing::warn;

/// Maximum number of turns of the venue thread that wait for the numbering thread.
const TURNS_MOST: usize = 4_096;

pub enum EncoderTask {
    Join {
        tag: SubscriberId,
        stream: StreamId,
        /// The number of the message after its first one.
        next: u64,
    },
    Leave {
        tag: SubscriberId,
        stream: StreamId,
    },
    Message {
        stream: StreamId,
        payload: Box<[u8]>,
        place: NumberPosition,
    },
}

/// The venue thread's end of the queue.
#[derive(Default)]
pub struct MessageEncoder {
    turns: Option<SyncSender<Vec<EncoderTask>>>,
    /// Sockets that read numbered streams, with the number of first messages that each has been
    /// sent. They are closed if the thread is too slow for them.
    readers: BTreeMap<SubscriberId, u64>,
}

impl MessageEncoder {
    /// Returns the number for the next first message of a socket. A socket with several streams
    /// gets one first message for each, before any other message.
    pub fn take_number(&mut self, tag: SubscriberId) -> u64 {
        let number = self.readers.entry(tag).or_default();
        *number += 1;
        *number - 1
    }

    pub fn forget(&mut self, tag: SubscriberId) {
        self.readers.remove(&tag);
    }

    pub fn send(&mut self, tasks: Vec<EncoderTask>, delivery: &Arc<Publisher>) {
        let turns = self.turns.get_or_insert_with(|| start(Arc::clone(delivery)));
        match turns.try_send(tasks) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                warn!("messages with numbers per socket arrive faster than they are encoded; closing their readers");
                for tag in std::mem::take(&mut self.readers).into_keys() {
                    delivery.close(tag, CloseCode::TryAgainLater, "too slow for this stream: reconnect");
                }
                // The old thread ends after its queue. A new one serves the sockets that join from
                // now on.
                self.turns = None;
            }
        }
    }
}

fn start(delivery: Arc<Publisher>) -> SyncSender<Vec<EncoderTask>> {
    let (turns, received) = sync_channel(TURNS_MOST);
    // If the thread does not start, the channel is closed, and the next send finds that out.
    drop(std::thread::Builder::new().name("encoder".into()).spawn(move || run(&received, &delivery)));
    turns
}

fn run(turns: &Receiver<Vec<EncoderTask>>, delivery: &Publisher) {
    let (mut readers, mut numbers) =
        (BTreeMap::<StreamId, Vec<SubscriberId>>::new(), BTreeMap::<SubscriberId, u64>::new());
    let mut whole = Vec::new();
    for task in turns.iter().flatten() {
        match task {
            EncoderTask::Join { tag, stream, next } => {
                readers.entry(stream).or_default().push(tag);
                let number = numbers.entry(tag).or_default();
                *number = (*number).max(next);
            }
            EncoderTask::Leave { tag, stream } => {
                if let Some(tags) = readers.get_mut(&stream) {
                    tags.retain(|other| *other != tag);
                }
                if !readers.values().any(|tags| tags.contains(&tag)) {
                    numbers.remove(&tag);
                }
            }
            EncoderTask::Message { stream, payload, place } => {
                for tag in readers.get(&stream).into_iter().flatten() {
                    let number = numbers.entry(*tag).or_default();
                    whole.clear();
                    place.fill(&payload, *number, &mut whole);
                    *number += 1;
                    delivery.send_text(*tag, &whole);
                }
            }
        }
    }
}
