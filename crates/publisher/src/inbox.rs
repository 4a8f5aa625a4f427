//! The bounded queue in front of a delivery thread.
//!
//! Does        Queues published messages and control messages in one order, and wakes the thread if
//!             it sleeps.
//! Holds       1. The sender never waits for the delivery thread.
//!             2. The queue is bounded. Beyond the bound, messages are shed: the queue keeps the
//!                newest of each stream and key, and the thread treats its subscribers as slow.
//!                Frames for single subscribers are bounded too; a subscriber that would get more
//!                is closed.
//! Start at    [`Inbox::put`], [`Inbox::take`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitwire_net::Waker;
use pitwire_websocket::CloseCode;

use crate::handler::{LagAnswer, SubscriberId, SubscriberSetup};
use pitwire_delivery::{StreamId, StreamSpec};

/// One message within the bytes of a batch: its key, then its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedMessage {
    pub stream: StreamId,
    pub seq: u64,
    pub start: usize,
    pub key_len: usize,
    pub len: usize,
    pub is_binary: bool,
}

/// A control message to a delivery thread, queued in order with the messages.
pub(crate) enum ControlMessage {
    Create(StreamSpec),
    Adopt(Box<HandedOffSocket>),
    /// Encoded frames for one subscriber.
    Frames {
        to: SubscriberId,
        frames: Vec<u8>,
    },
    /// The application has processed messages of a subscriber.
    Processed {
        to: SubscriberId,
        weight: u32,
    },
    /// Subscribes to a stream from here on, or behind message `read`.
    Join {
        to: SubscriberId,
        stream: StreamId,
        read: Option<u64>,
    },
    Leave {
        to: SubscriberId,
        stream: StreamId,
    },
    /// The handler's answer for a slow subscriber that received message `read` last.
    LagAnswer {
        to: SubscriberId,
        stream: StreamId,
        read: u64,
        answer: LagAnswer,
    },
    /// Restarts a stream without subscribers behind message `seq`.
    Restart {
        stream: StreamId,
        seq: u64,
    },
    Close {
        to: SubscriberId,
        code: CloseCode,
        reason: String,
    },
    Stop {
        reason: String,
    },
}

impl ControlMessage {
    /// Returns the one subscriber that this concerns, and the bytes for it.
    fn is_for(&self) -> Option<(SubscriberId, usize)> {
        match self {
            ControlMessage::Frames { to, frames } => Some((*to, frames.len())),
            ControlMessage::LagAnswer {
                to,
                answer: LagAnswer::Text { payload: bytes, .. } | LagAnswer::Frames { frames: bytes, .. },
                ..
            } => Some((*to, bytes.len())),
            ControlMessage::LagAnswer { to, .. } => Some((*to, 0)),
            ControlMessage::Close { to, reason, .. } => Some((*to, reason.len())),
            ControlMessage::Processed { to, .. }
            | ControlMessage::Join { to, .. }
            | ControlMessage::Leave { to, .. } => Some((*to, 0)),
            // The number of these is bounded by the connections.
            _ => None,
        }
    }
}

/// A socket that another thread has accepted.
pub(crate) struct HandedOffSocket {
    pub socket: TcpStream,
    /// TLS session of the connection, if it uses TLS.
    pub tls: Option<Box<pitwire_tls::Session>>,
    pub id: SubscriberId,
    /// Bytes that were received and not handled yet.
    pub received: Vec<u8>,
    /// Response to the handshake and setup of the subscriber, if the handshake has been checked.
    /// Otherwise the delivery thread reads the request and calls its handler.
    pub upgraded: Option<(Vec<u8>, SubscriberSetup)>,
}

pub(crate) enum InboxItem {
    /// Placeholder for an item that was taken out of the queue.
    Nothing,
    Message(QueuedMessage),
    ControlMessage(ControlMessage),
}

/// The newest shed message of a key.
pub(crate) struct ShedMessage {
    pub key: Arc<[u8]>,
    pub is_binary: bool,
    pub payload: Vec<u8>,
}

/// The shed messages of a stream: their numbers, and the newest of each key.
#[derive(Default)]
pub(crate) struct ShedRange {
    pub from: u64,
    pub to: u64,
    pub messages: u64,
    /// Newest messages by number.
    pub kept: BTreeMap<u64, ShedMessage>,
    newest: BTreeMap<Arc<[u8]>, u64>,
}

#[derive(Default)]
pub(crate) struct InboxQueue {
    pub bytes: Vec<u8>,
    pub items: Vec<InboxItem>,
    pub shed: BTreeMap<u32, ShedRange>,
    /// Messages among the items; newest shed messages, and their bytes.
    messages: usize,
    kept: usize,
    kept_bytes: usize,
    /// Bytes for single subscribers, and the subscribers whose frames did not fit.
    direct_bytes: usize,
    pub overflowed: BTreeSet<SubscriberId>,
}

impl InboxQueue {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.shed.clear();
        (self.messages, self.kept, self.kept_bytes, self.direct_bytes) = (0, 0, 0, 0);
        self.overflowed.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.shed.is_empty() && self.overflowed.is_empty()
    }
}

pub(crate) struct Inbox {
    waiting: Mutex<InboxQueue>,
    bytes_most: usize,
    is_asleep: AtomicBool,
    waker: Waker,
}

/// Most messages in the queue.
const MESSAGES_MOST: usize = 1 << 16;
/// Most bytes of control messages for single subscribers, including their queue entries.
const DIRECT_BYTES_MOST: usize = 64 << 20;
/// Most shed messages that are kept.
const KEPT_MOST: usize = 1 << 16;

impl Inbox {
    pub fn new(bytes_most: usize) -> Self {
        let (waiting, is_asleep) = (Mutex::default(), AtomicBool::new(false));
        Inbox { waiting, bytes_most, is_asleep, waker: Waker::default() }
    }

    fn lock(&self) -> MutexGuard<'_, InboxQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues messages, whose positions in `bytes` each `QueuedMessage` names.
    pub fn put(&self, messages: &[QueuedMessage], bytes: &[u8]) {
        let mut queue = self.lock();
        let start = queue.bytes.len();
        let fits = start + bytes.len() <= self.bytes_most && queue.messages + messages.len() <= MESSAGES_MOST;
        // A message larger than the queue is accepted alone; its size is limited elsewhere.
        if queue.shed.is_empty() && (fits || queue.messages == 0) {
            queue.messages += messages.len();
            queue.bytes.extend_from_slice(bytes);
            queue.items.extend(
                messages
                    .iter()
                    .map(|message| InboxItem::Message(QueuedMessage { start: start + message.start, ..*message })),
            );
        } else {
            messages.iter().for_each(|message| queue.shed(message, bytes, self.bytes_most));
        }
        drop(queue);
        self.wake();
    }

    pub fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.bytes.len() <= self.bytes_most / 2 && queue.messages <= MESSAGES_MOST / 2
    }

    #[cfg(test)]
    pub fn is_shedding(&self) -> bool {
        !self.lock().shed.is_empty()
    }

    pub fn control(&self, message: ControlMessage) {
        let mut queue = self.lock();
        if let Some((to, bytes)) = message.is_for() {
            let direct_bytes = queue.direct_bytes + bytes + size_of::<InboxItem>();
            // A subscriber that missed one must get none after it.
            if direct_bytes > DIRECT_BYTES_MOST || queue.overflowed.contains(&to) {
                queue.overflowed.insert(to);
                return;
            }
            queue.direct_bytes = direct_bytes;
        }
        queue.items.push(InboxItem::ControlMessage(message));
        drop(queue);
        self.wake();
    }

    /// Takes everything that waits and leaves an empty queue.
    pub fn take(&self, queue: &mut InboxQueue) {
        queue.clear();
        std::mem::swap(&mut *self.lock(), queue);
    }

    /// Announces that the thread will sleep. Returns false if the queue is not empty, so that it
    /// must not.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_empty = self.lock().is_empty();
        if !is_empty {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        is_empty
    }

    /// Announces that the thread is awake and needs no wake-up.
    pub fn is_awake(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    pub fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Returns the descriptor that the event loop of the thread has to watch. It becomes readable
    /// when the thread sleeps and an item was queued.
    ///
    /// # Errors
    /// Fails if another loop watches it or the process is out of file descriptors.
    pub fn wake_source(&self) -> io::Result<OwnedFd> {
        self.waker.wake_source()
    }
}

impl InboxQueue {
    #[cold]
    fn shed(&mut self, message: &QueuedMessage, bytes: &[u8], bytes_most: usize) {
        let payload_at = message.start + message.key_len;
        let (Some(key), Some(payload)) =
            (bytes.get(message.start..payload_at), bytes.get(payload_at..payload_at + message.len))
        else {
            return;
        };
        let shed = self.shed.entry(message.stream.0).or_default();
        if shed.messages == 0 {
            shed.from = message.seq;
        }
        shed.to = message.seq;
        shed.messages += 1;
        let before = shed.newest.get(key).copied();
        let (mut gone, mut gone_bytes) = before.and_then(|seq| shed.take(seq)).map_or((0, 0), |bytes| (1, bytes));
        shed.keep(message.seq, key, message.is_binary, payload);
        self.kept += 1;
        self.kept_bytes += key.len() + payload.len();
        // Drop the oldest beyond the bounds, but never the newest.
        while shed.kept.len() > 1 && (self.kept - gone > KEPT_MOST || self.kept_bytes - gone_bytes > bytes_most) {
            let oldest = shed.kept.first_key_value().map(|(seq, _)| *seq).and_then(|seq| shed.take(seq));
            (gone, gone_bytes) = (gone + 1, gone_bytes + oldest.unwrap_or(0));
        }
        self.kept -= gone;
        self.kept_bytes -= gone_bytes;
    }
}

impl ShedRange {
    fn keep(&mut self, seq: u64, key: &[u8], is_binary: bool, payload: &[u8]) {
        let key: Arc<[u8]> = key.into();
        self.newest.insert(Arc::clone(&key), seq);
        self.kept.insert(seq, ShedMessage { key, is_binary, payload: payload.to_vec() });
    }

    /// Removes a shed message and returns its bytes.
    fn take(&mut self, seq: u64) -> Option<usize> {
        let kept = self.kept.remove(&seq)?;
        self.newest.remove(&kept.key);
        Some(kept.key.len() + kept.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(0);

    /// One message of a key.
    fn put(inbox: &Inbox, seq: u64, key: &str, payload: &str) {
        let (key_len, len) = (key.len(), payload.len());
        let message = QueuedMessage { stream: STREAM, seq, start: 0, key_len, len, is_binary: false };
        inbox.put(&[message], [key, payload].concat().as_bytes());
    }

    fn taken(inbox: &Inbox) -> InboxQueue {
        let mut queue = InboxQueue::default();
        inbox.take(&mut queue);
        queue
    }

    #[test]
    fn kept_shed_messages_are_bounded_for_any_number_of_keys() {
        let inbox = Inbox::new(1_000);
        put(&inbox, 1, "", &"x".repeat(2_000));
        // A message takes 200 bytes with its key, so five of them fit.
        for seq in 2..=5_000 {
            put(&inbox, seq, &format!("{seq:08}"), &"y".repeat(192));
        }
        let queue = taken(&inbox);
        assert_eq!(queue.items.len(), 1);
        let shed = &queue.shed[&0];
        assert_eq!((shed.from, shed.to, shed.messages), (2, 5_000, 4_999));
        assert_eq!(shed.kept.keys().copied().collect::<Vec<u64>>(), [4_996, 4_997, 4_998, 4_999, 5_000]);
        // As many messages of few keys: the newest of each key is kept.
        put(&inbox, 1, "", &"x".repeat(2_000));
        for seq in 2..=5_000 {
            put(&inbox, seq, ["a", "b", "c"][usize::try_from(seq % 3).unwrap()], &"y".repeat(192));
        }
        put(&inbox, 5_001, "b", &"z".repeat(3_000));
        let queue = taken(&inbox);
        let kept: Vec<_> = queue.shed[&0].kept.iter().map(|(seq, kept)| (*seq, kept.payload.len())).collect();
        assert_eq!(kept, [(5_001, 3_000)], "larger than all that may wait, and the newest");
    }

    #[test]
    fn frames_for_single_subscribers_are_bounded_and_nothing_follows_a_lost_one() {
        let inbox = Inbox::new(1_000);
        let send = |to, bytes| inbox.control(ControlMessage::Frames { to: SubscriberId(to), frames: vec![0; bytes] });
        (0..63).for_each(|_| send(1, 1 << 20));
        send(2, 100);
        (0..1_000).for_each(|_| send(1, 1 << 20));
        send(1, 1);
        send(3, 1);
        let queue = taken(&inbox);
        assert_eq!(queue.items.len(), 65);
        assert_eq!(queue.overflowed.iter().map(|id| id.0).collect::<Vec<u64>>(), [1]);
        send(1, 1);
        let queue = taken(&inbox);
        assert_eq!((queue.items.len(), queue.overflowed.len()), (1, 0), "the next begins anew");
        // A control message without bytes counts too, but not towards the bound for messages.
        for n in 0..5_000_000 {
            inbox.control(ControlMessage::Join { to: SubscriberId(n % 2), stream: STREAM, read: None });
        }
        put(&inbox, 1, "k", "is let in all the same");
        let queue = taken(&inbox);
        let most = DIRECT_BYTES_MOST / size_of::<InboxItem>() + 1;
        assert!(queue.items.len() <= most && queue.overflowed.len() == 2, "{}", queue.items.len());
        assert!(queue.shed.is_empty() && matches!(queue.items.last(), Some(InboxItem::Message(_))));
    }

    #[test]
    fn empty_messages_count_towards_the_bound() {
        let inbox = Inbox::new(1_000);
        for seq in 1..=2 * MESSAGES_MOST as u64 {
            put(&inbox, seq, "", "");
        }
        let queue = taken(&inbox);
        assert_eq!(queue.items.len(), MESSAGES_MOST);
        let shed = &queue.shed[&0];
        assert_eq!((shed.from, shed.to), (MESSAGES_MOST as u64 + 1, 2 * MESSAGES_MOST as u64));
        assert_eq!(shed.kept.keys().copied().collect::<Vec<u64>>(), [shed.to]);
    }
}
