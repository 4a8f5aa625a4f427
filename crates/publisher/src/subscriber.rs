//! State of one subscriber.
//!
//! Holds       1. An idle subscriber of one stream takes the bytes of a [`Subscriber`] and no heap
//!                memory.
//!             2. Rare state (a pending answer, an incomplete message, a filter) is in a box that
//!                is freed when it is empty.
//! Leaves out  Sockets, which the event loop keeps under the same slot.

use std::sync::Arc;

use pitwire_websocket::Decoder;

use crate::handler::Answer;
use pitwire_delivery::{Cursor, Key};

pub(crate) const NOBODY: u32 = u32::MAX;

/// One stream that a subscriber reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscription {
    pub cursor: Cursor,
    pub stream: u32,
    /// Index among the listeners of the stream.
    pub listed: u32,
}

/// Cursor of a slow subscriber that waits for a notice or an answer.
pub(crate) const PARKED: Cursor = Cursor(u64::MAX);

#[derive(Debug, Default)]
pub(crate) enum Subscriptions {
    #[default]
    None,
    One(Subscription),
    Many(Vec<Subscription>),
}

impl Subscriptions {
    pub fn as_slice(&self) -> &[Subscription] {
        match self {
            Subscriptions::None => &[],
            Subscriptions::One(item) => std::slice::from_ref(item),
            Subscriptions::Many(items) => items,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [Subscription] {
        match self {
            Subscriptions::None => &mut [],
            Subscriptions::One(item) => std::slice::from_mut(item),
            Subscriptions::Many(items) => items,
        }
    }

    pub fn push(&mut self, item: Subscription) {
        *self = match std::mem::take(self) {
            Subscriptions::None => Subscriptions::One(item),
            Subscriptions::One(first) => Subscriptions::Many(vec![first, item]),
            Subscriptions::Many(mut items) => {
                items.push(item);
                Subscriptions::Many(items)
            }
        };
    }

    /// Removes the subscription at an index. The last subscription takes that index.
    pub fn swap_remove(&mut self, at: usize) -> Option<Subscription> {
        match self {
            Subscriptions::One(item) if at == 0 => {
                let item = *item;
                *self = Subscriptions::None;
                Some(item)
            }
            Subscriptions::Many(items) if at < items.len() => Some(items.swap_remove(at)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The request is incomplete.
    Asking,
    Open,
    /// It gets its pending messages, then a close frame.
    Parting,
    /// Its last frame is in the outbound queue.
    Closing,
    /// Everything is sent and our side is shut. Further input is discarded.
    Lingering,
    Gone,
}

impl Stage {
    /// Whether it gets messages of its streams.
    pub fn is_served(self) -> bool {
        matches!(self, Stage::Open | Stage::Parting)
    }
}

/// A pong or ping that waits for the end of a frame. There is at most one, in 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    len: u8,
    bytes: [u8; 15],
}

impl Control {
    pub const MOST: usize = 13;

    /// Sets a small control frame and replaces the pending one, because only the latest ping must
    /// be answered. Returns false if the payload exceeds [`Self::MOST`] bytes.
    pub fn set(&mut self, opcode: u8, payload: &[u8]) -> bool {
        let Ok(len) = u8::try_from(payload.len()) else { return false };
        if payload.len() > Self::MOST {
            return false;
        }
        self.bytes[0] = 0x80 | opcode;
        self.bytes[1] = len;
        self.bytes[2..2 + payload.len()].copy_from_slice(payload);
        self.len = len + 2;
        true
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// A walk through the latest messages of a stream, for a slow or new subscriber.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatchUp {
    pub item: u32,
    /// First number of the gap to declare. None for a new subscriber.
    pub missed_from: Option<u64>,
    /// Last sequence number that the walk has handled.
    pub done: u64,
    pub hint: Option<Key>,
    /// Last sequence number of the walk. None until it begins.
    pub until: Option<u64>,
}

/// A subscription that is off the ring until the handler answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub item: u32,
    /// Number of the last message that it received.
    pub read: u64,
    pub answer: Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The subscriber does not read. The handler is asked when it reads again.
    NotAsked,
    NotYet,
    /// Nothing has changed for it up to this number.
    NothingUntil(u64),
}

/// State that few subscribers have at a time.
#[derive(Default)]
pub(crate) struct RareState {
    /// Whole frames, or an HTTP answer, that go before the rings.
    pub outbox: Vec<u8>,
    pub outbox_sent: usize,
    /// Input that is not a whole frame or request yet, or waits for room in the outbound queue.
    pub inbound: Vec<u8>,
    pub decoder: Option<Decoder>,
    /// Wanted keys in ascending order. None selects all keys.
    pub filter: Option<Arc<[Key]>>,
    pub catch_up: Vec<CatchUp>,
    pub asks: Vec<Ask>,
    pub account: Option<Arc<str>>,
    /// The refusal that it gets after its request.
    pub refusal: Option<Box<Answer>>,
}

impl RareState {
    pub fn waiting(&self) -> &[u8] {
        self.outbox.get(self.outbox_sent..).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.filter.is_none()
            && self.account.is_none()
            && self.outbox.is_empty()
            && self.inbound.is_empty()
            && self.decoder.is_none()
            && self.catch_up.is_empty()
            && self.asks.is_empty()
            && self.refusal.is_none()
    }
}

pub(crate) struct Subscriber {
    pub tag: u64,
    pub items: Subscriptions,
    pub rare: Option<Box<RareState>>,
    pub control: Control,
    /// Index of the subscription with a partly sent frame, or [`NOBODY`].
    pub mid_frame: u32,
    /// Number of prepared answers to send (`--respond`), and the bytes sent of the first one.
    pub owed: u32,
    pub owed_sent: u32,
    /// Weight of its messages that the application has not processed yet.
    pub unheard: u32,
    /// Times on the clock of the core, in milliseconds: start of the stage, last input, start of
    /// the unfinished item.
    pub since_ms: u32,
    pub heard_ms: u32,
    pub unfinished_ms: u32,
    /// Position in the timer wheel.
    pub due_tick: u32,
    pub wheel_before: u32,
    pub wheel_behind: u32,
    pub stage: Stage,
    pub class: u8,
    /// Whether it may compress its messages.
    pub deflates: bool,
    /// Its rank in the last delivery pass.
    pub place: u32,
    /// Whether it is listed for the next pass.
    pub is_listed: bool,
    /// Whether its socket accepts no bytes.
    pub is_blocked: bool,
    /// Whether input waits for room in the outbound queue.
    pub has_left_over: bool,
    /// Whether a partial message or frame is pending, since `unfinished_ms`.
    pub is_unfinished: bool,
    /// Whether its input has ended. Pending output is still sent.
    pub is_at_end: bool,
}

// Memory of an idle subscriber. The event loop's table of sockets adds to it.
const _: () = assert!(size_of::<Subscriber>() <= 128);
const _: () = assert!(size_of::<Control>() == 16);

impl Subscriber {
    pub fn new(tag: u64, now_ms: u32) -> Self {
        Subscriber {
            tag,
            items: Subscriptions::None,
            rare: None,
            control: Control::default(),
            mid_frame: NOBODY,
            owed: 0,
            owed_sent: 0,
            unheard: 0,
            since_ms: now_ms,
            heard_ms: now_ms,
            unfinished_ms: now_ms,
            due_tick: 0,
            wheel_before: NOBODY,
            wheel_behind: NOBODY,
            stage: Stage::Asking,
            class: 0,
            deflates: false,
            place: 0,
            is_listed: false,
            is_blocked: false,
            has_left_over: false,
            is_unfinished: false,
            is_at_end: false,
        }
    }

    pub fn rare(&mut self) -> &mut RareState {
        self.rare.get_or_insert_with(Box::default)
    }

    /// Returns the bytes that go before everything else.
    pub fn outbox(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| rare.waiting())
    }

    pub fn filter(&self) -> Option<&[Key]> {
        self.rare.as_ref()?.filter.as_deref()
    }

    /// Frees the rare state if it is empty.
    pub fn tidy(&mut self) {
        if self.rare.as_ref().is_some_and(|rare| rare.is_empty()) {
            self.rare = None;
        }
    }

    pub fn wants(&self, key: Key) -> bool {
        key == Key::EVERYONE || self.filter().is_none_or(|keys| keys.binary_search(&key).is_ok())
    }
}
