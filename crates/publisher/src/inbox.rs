//! The bounded queue in front of a hall: one order after another, whoever they are from.
//!
//! Does        take what is published, and errands (a socket to adopt, a word to one subscriber), in one order, and wake the
//!             hall if it sleeps.
//! Holds       1. whoever puts something in never waits for the hall;
//!             2. what is queued is bounded: beyond that, messages are shed, of each stream and key the newest is kept (as far
//!                as that is bounded too, the newest of them), and the hall's readers are told, or closed, as if they had
//!                fallen behind; what is told to single readers is bounded too: who is told more is closed.
//! Start at    [`Inbox::put`], [`Inbox::take`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitwire_websocket::CloseCode;
use rustix::event::{EventfdFlags, eventfd};

use crate::programme::{GoOn, Opening, Tag};
use pitwire_delivery::{StreamId, StreamSpec};

/// One message among the bytes of a batch: its key, then its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub stream: StreamId,
    pub seq: u64,
    pub start: usize,
    pub key_len: usize,
    pub len: usize,
    pub is_binary: bool,
}

/// Something else to be done, in its place among the messages.
pub(crate) enum Errand {
    /// It has been done.
    Nothing,
    Create(StreamSpec),
    Adopt(Box<Arrival>),
    Tell {
        to: Tag,
        frames: Vec<u8>,
    },
    Heard {
        to: Tag,
        weight: u32,
    },
    /// From here on; with `read` behind that message.
    Join {
        to: Tag,
        stream: StreamId,
        read: Option<u64>,
    },
    Leave {
        to: Tag,
        stream: StreamId,
    },
    /// What a reader that had read up to a message, and has fallen behind, is to go on with.
    GoOn {
        to: Tag,
        stream: StreamId,
        read: u64,
        how: GoOn,
    },
    /// Nobody reads a stream: it goes on behind this message.
    Begin {
        stream: StreamId,
        seq: u64,
    },
    Close {
        to: Tag,
        code: CloseCode,
        reason: String,
    },
    Stop {
        reason: String,
    },
}

impl Errand {
    /// To which single reader something is told or done, and the bytes of that.
    fn is_for(&self) -> Option<(Tag, usize)> {
        match self {
            Errand::Tell { to, frames } => Some((*to, frames.len())),
            Errand::GoOn { to, how: GoOn::Told { payload: told, .. } | GoOn::Frames { frames: told, .. }, .. } => {
                Some((*to, told.len()))
            }
            Errand::GoOn { to, .. } => Some((*to, 0)),
            Errand::Close { to, reason, .. } => Some((*to, reason.len())),
            Errand::Heard { to, .. } | Errand::Join { to, .. } | Errand::Leave { to, .. } => Some((*to, 0)),
            // Each of these is one of few, or bounded as connections are.
            _ => None,
        }
    }
}

/// A socket that somebody else has accepted.
pub(crate) struct Arrival {
    pub socket: TcpStream,
    /// In which all that is sent and received goes.
    pub tls: Option<Box<pitwire_tls::Session>>,
    pub tag: Tag,
    /// Bytes already read, and not acted on.
    pub received: Vec<u8>,
    /// When the handshake has been answered already or the answer is known: that, and what it gets. Otherwise the hall
    /// reads the request and asks its programme.
    pub upgraded: Option<(Vec<u8>, Opening)>,
}

pub(crate) enum Order {
    Message(Posted),
    Errand(Errand),
}

/// The newest message of a key that was shed.
pub(crate) struct Kept {
    pub key: Arc<[u8]>,
    pub is_binary: bool,
    pub payload: Vec<u8>,
}

/// What of a stream did not fit: numbers, and of each key the newest.
#[derive(Default)]
pub(crate) struct Shed {
    pub from: u64,
    pub to: u64,
    pub messages: u64,
    /// By number; whose number it is, by key.
    pub kept: BTreeMap<u64, Kept>,
    newest: BTreeMap<Arc<[u8]>, u64>,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub bytes: Vec<u8>,
    pub orders: Vec<Order>,
    pub shed: BTreeMap<u32, Shed>,
    /// Of the orders, and of those kept of what was shed: how many, and the bytes of these.
    messages: usize,
    kept: usize,
    kept_bytes: usize,
    /// What is told to single readers, and who was to be told more than waits.
    told_bytes: usize,
    pub untold: BTreeSet<Tag>,
}

impl Queue {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.orders.clear();
        self.shed.clear();
        (self.messages, self.kept, self.kept_bytes, self.told_bytes) = (0, 0, 0, 0);
        self.untold.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.shed.is_empty() && self.untold.is_empty()
    }
}

pub(crate) struct Inbox {
    waiting: Mutex<Queue>,
    bytes_most: usize,
    is_asleep: AtomicBool,
    bell: OwnedFd,
}

/// Of messages, beside their bytes: so many wait at most.
const MESSAGES_MOST: usize = 1 << 16;
/// Of what is told to single readers or done for them, with the room that it takes here: a hall that comes has had it within milliseconds.
const TOLD_MOST: usize = 64 << 20;
/// Of what was shed, beside its bytes: so much is kept at most.
const KEPT_MOST: usize = 1 << 16;

impl Inbox {
    pub fn new(bytes_most: usize) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { waiting: Mutex::default(), bytes_most, is_asleep: AtomicBool::new(false), bell })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in messages; their bytes are where `Posted` says in `bytes`.
    pub fn put(&self, messages: &[Posted], bytes: &[u8]) {
        let mut queue = self.lock();
        let start = queue.bytes.len();
        let fits = start + bytes.len() <= self.bytes_most && queue.messages + messages.len() <= MESSAGES_MOST;
        // A message larger than the queue is let in alone: how large one may be is not decided here.
        if queue.shed.is_empty() && (fits || queue.messages == 0) {
            queue.messages += messages.len();
            queue.bytes.extend_from_slice(bytes);
            queue.orders.extend(
                messages.iter().map(|message| Order::Message(Posted { start: start + message.start, ..*message })),
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

    pub fn run(&self, errand: Errand) {
        let mut queue = self.lock();
        if let Some((to, bytes)) = errand.is_for() {
            let told_bytes = queue.told_bytes + bytes + size_of::<Order>();
            // Who has missed one must get none behind it.
            if told_bytes > TOLD_MOST || queue.untold.contains(&to) {
                queue.untold.insert(to);
                return;
            }
            queue.told_bytes = told_bytes;
        }
        queue.orders.push(Order::Errand(errand));
        drop(queue);
        self.wake();
    }

    /// Exchanges what waits for an empty queue.
    pub fn take(&self, queue: &mut Queue) {
        queue.clear();
        std::mem::swap(&mut *self.lock(), queue);
    }

    /// The hall is about to sleep, unless there is something: then it must not.
    pub fn may_sleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_empty = self.lock().is_empty();
        if !is_empty {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        is_empty
    }

    /// The hall is awake: nobody needs to ring.
    pub fn is_awake(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
        let mut count = [0; 8];
        // Nothing to read is fine: the bell had not been rung.
        let _ = rustix::io::read(&self.bell, &mut count);
    }

    pub fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // It can only fail when it has been rung 2^64 times.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Becomes readable when the hall sleeps and there is something.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Queue {
    #[cold]
    fn shed(&mut self, message: &Posted, bytes: &[u8], bytes_most: usize) {
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
        // Of very many keys, or large messages, the newest; always the very newest.
        while shed.kept.len() > 1 && (self.kept - gone > KEPT_MOST || self.kept_bytes - gone_bytes > bytes_most) {
            let oldest = shed.kept.first_key_value().map(|(seq, _)| *seq).and_then(|seq| shed.take(seq));
            (gone, gone_bytes) = (gone + 1, gone_bytes + oldest.unwrap_or(0));
        }
        self.kept -= gone;
        self.kept_bytes -= gone_bytes;
    }
}

impl Shed {
    fn keep(&mut self, seq: u64, key: &[u8], is_binary: bool, payload: &[u8]) {
        let key: Arc<[u8]> = key.into();
        self.newest.insert(Arc::clone(&key), seq);
        self.kept.insert(seq, Kept { key, is_binary, payload: payload.to_vec() });
    }

    /// Says how many bytes it had.
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
        let message = Posted { stream: STREAM, seq, start: 0, key_len, len, is_binary: false };
        inbox.put(&[message], [key, payload].concat().as_bytes());
    }

    fn taken(inbox: &Inbox) -> Queue {
        let mut queue = Queue::default();
        inbox.take(&mut queue);
        queue
    }

    #[test]
    fn what_is_kept_of_what_was_shed_is_bounded_however_many_keys_there_are() {
        let inbox = Inbox::new(1_000).unwrap();
        put(&inbox, 1, "", &"x".repeat(2_000));
        // 200 bytes with its key: five of them are as many as may wait.
        for seq in 2..=5_000 {
            put(&inbox, seq, &format!("{seq:08}"), &"y".repeat(192));
        }
        let queue = taken(&inbox);
        assert_eq!(queue.orders.len(), 1);
        let shed = &queue.shed[&0];
        assert_eq!((shed.from, shed.to, shed.messages), (2, 5_000, 4_999));
        assert_eq!(shed.kept.keys().copied().collect::<Vec<u64>>(), [4_996, 4_997, 4_998, 4_999, 5_000]);
        // The same number of messages of few keys: of each the newest.
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
    fn what_is_told_to_single_readers_is_bounded_and_who_is_told_more_gets_nothing_behind_it() {
        let inbox = Inbox::new(1_000).unwrap();
        let tell = |to, bytes| inbox.run(Errand::Tell { to: Tag(to), frames: vec![0; bytes] });
        (0..63).for_each(|_| tell(1, 1 << 20));
        tell(2, 100);
        (0..1_000).for_each(|_| tell(1, 1 << 20));
        tell(1, 1);
        tell(3, 1);
        let queue = taken(&inbox);
        assert_eq!(queue.orders.len(), 65);
        assert_eq!(queue.untold.iter().map(|tag| tag.0).collect::<Vec<u64>>(), [1]);
        tell(1, 1);
        let queue = taken(&inbox);
        assert_eq!((queue.orders.len(), queue.untold.len()), (1, 0), "the next begins anew");
        // What is done for one takes room too, though it has no bytes; and none of it from everybody's messages.
        for n in 0..5_000_000 {
            inbox.run(Errand::Join { to: Tag(n % 2), stream: STREAM, read: None });
        }
        put(&inbox, 1, "k", "is let in all the same");
        let queue = taken(&inbox);
        let most = TOLD_MOST / size_of::<Order>() + 1;
        assert!(queue.orders.len() <= most && queue.untold.len() == 2, "{}", queue.orders.len());
        assert!(queue.shed.is_empty() && matches!(queue.orders.last(), Some(Order::Message(_))));
    }

    #[test]
    fn messages_without_a_byte_are_counted() {
        let inbox = Inbox::new(1_000).unwrap();
        for seq in 1..=2 * MESSAGES_MOST as u64 {
            put(&inbox, seq, "", "");
        }
        let queue = taken(&inbox);
        assert_eq!(queue.orders.len(), MESSAGES_MOST);
        let shed = &queue.shed[&0];
        assert_eq!((shed.from, shed.to), (MESSAGES_MOST as u64 + 1, 2 * MESSAGES_MOST as u64));
        assert_eq!(shed.kept.keys().copied().collect::<Vec<u64>>(), [shed.to]);
    }
}
