//! One subscriber: little more than its cursor.
//!
//! Holds       1. an idle subscriber of one stream is [`Subscriber`]'s bytes and nothing else of ours;
//!             2. whatever is rare (a reply that waits, half a message, a filter) has a box that goes away again.
//! Leaves out  sockets: the loop has them, under the same number.

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
    /// Its place among the stream's listeners.
    pub listed: u32,
}

/// The cursor of one that has fallen behind and waits to be told.
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

    /// Takes one out; the last one takes its number.
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
    /// Its request is not whole yet.
    Asking,
    Open,
    /// It gets what there is for it, then goodbye.
    Parting,
    /// Its last words are in the outbox.
    Closing,
    /// All is said, our side is shut; what still arrives is thrown away.
    Lingering,
    Gone,
}

impl Stage {
    /// Whether it gets what its streams have.
    pub fn is_served(self) -> bool {
        matches!(self, Stage::Open | Stage::Parting)
    }
}

/// A pong or ping that waits for the end of a frame: sixteen bytes, no more than one at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    len: u8,
    bytes: [u8; 15],
}

impl Control {
    pub const MOST: usize = 13;

    /// Puts in a small control frame, instead of the one that is there: only the latest ping must be answered.
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

/// A reader that has to be told what it has missed, or how things stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatchUp {
    pub item: u32,
    /// Told as a gap from this number on, unless it has just come.
    pub missed_from: Option<u64>,
    /// How far the walk through the latest messages has come.
    pub done: u64,
    pub hint: Option<Key>,
    /// Where the walk ends; not known before it begins.
    pub until: Option<u64>,
}

/// A reader of which only the programme knows what it has missed: it is off the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub item: u32,
    /// The last message that it has got.
    pub read: u64,
    pub answer: Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It does not read at present: the programme is asked when it does.
    NotAsked,
    NotYet,
    /// There was nothing to tell it up to this number.
    NothingUntil(u64),
}

/// What few subscribers have at any time.
#[derive(Default)]
pub(crate) struct RareState {
    /// Whole frames, or an HTTP answer, that go before anything of the rings.
    pub outbox: Vec<u8>,
    pub outbox_sent: usize,
    /// Bytes that came in and are not a whole frame or request yet, or wait until the outbox has room.
    pub inbound: Vec<u8>,
    pub decoder: Option<Decoder>,
    /// The keys it wants, ascending; all when there is none.
    pub filter: Option<Arc<[Key]>>,
    pub catch_up: Vec<CatchUp>,
    pub asks: Vec<Ask>,
    pub account: Option<Arc<str>>,
    /// Why it may not stay; it is told when it has asked.
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
    /// The item of which half a frame is sent.
    pub mid_frame: u32,
    /// Answers it has asked for (`--respond`), and how much of the first is sent.
    pub owed: u32,
    pub owed_sent: u32,
    /// What it said and nobody has acted on yet weighs so much.
    pub unheard: u32,
    /// On the floor's clock: since when it is at this stage, was last heard, owes us the rest of something.
    pub since_ms: u32,
    pub heard_ms: u32,
    pub unfinished_ms: u32,
    /// Its place in the wheel.
    pub due_tick: u32,
    pub wheel_before: u32,
    pub wheel_behind: u32,
    pub stage: Stage,
    pub class: u8,
    /// It may compress what it sends.
    pub deflates: bool,
    /// Where it came in the last sweep.
    pub place: u32,
    /// On the list for the next sweep.
    pub is_listed: bool,
    /// Its socket takes nothing at present.
    pub is_blocked: bool,
    /// Its input waits until its outbox has room.
    pub has_left_over: bool,
    /// Half a message has come, or half a frame: since `unfinished_ms`.
    pub is_unfinished: bool,
    /// Its peer sends nothing more; what is being said to it is finished.
    pub is_at_end: bool,
}

// What an idle subscriber costs; see also the hall's table of sockets.
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

    /// Bytes that go before anything else.
    pub fn outbox(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| rare.waiting())
    }

    pub fn filter(&self) -> Option<&[Key]> {
        self.rare.as_ref()?.filter.as_deref()
    }

    /// Gives back what it does not need any more.
    pub fn tidy(&mut self) {
        if self.rare.as_ref().is_some_and(|rare| rare.is_empty()) {
            self.rare = None;
        }
    }

    pub fn wants(&self, key: Key) -> bool {
        key == Key::EVERYONE || self.filter().is_none_or(|keys| keys.binary_search(&key).is_ok())
    }
}
