//! State of one subscriber.
//!
//! Holds       1. An idle subscriber of one stream takes the bytes of a [`Subscriber`] and no heap
//!                memory.
//!             2. Rare state (a pending answer, an incomplete message, a filter) is in a box that
//!                is freed when it is empty.
//! Leaves out  Sockets, which the event loop keeps under the same slot.

use std::sync::Arc;

use pitwire_net::HttpResponse;
use pitwire_websocket::Decoder;

use pitwire_delivery::{Cursor, Key};

use crate::handler::SubscriberId;

/// No slot, and no index of a subscription.
pub(crate) const NO_INDEX: u32 = u32::MAX;

/// Outbound queue size in bytes from which the connection is not read.
pub(crate) const OUTBOX_FULL: usize = 64 * 1024;
/// Prepared answers that a connection may be owed before it is not read.
pub(crate) const OWED_MOST: u32 = 64;
/// Weight of the unprocessed messages of a connection from which it is not read.
pub(crate) const WAITING_WEIGHT_MOST: u32 = 64;

/// One stream that a subscriber reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubscribedStream {
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
    One(SubscribedStream),
    Many(Vec<SubscribedStream>),
}

impl Subscriptions {
    pub fn as_slice(&self) -> &[SubscribedStream] {
        match self {
            Subscriptions::None => &[],
            Subscriptions::One(item) => std::slice::from_ref(item),
            Subscriptions::Many(items) => items,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [SubscribedStream] {
        match self {
            Subscriptions::None => &mut [],
            Subscriptions::One(item) => std::slice::from_mut(item),
            Subscriptions::Many(items) => items,
        }
    }

    pub fn push(&mut self, item: SubscribedStream) {
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
    pub fn swap_remove(&mut self, at: usize) -> Option<SubscribedStream> {
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
    Handshake,
    Open,
    /// It gets its pending messages, then a close frame.
    Draining,
    /// Its last frame is in the outbound queue.
    Closing,
    /// Everything is sent and our side is shut. Further input is discarded.
    Lingering,
    Gone,
}

impl Stage {
    /// Whether it gets messages of its streams.
    pub fn is_served(self) -> bool {
        matches!(self, Stage::Open | Stage::Draining)
    }
}

/// A pong or ping that waits for the end of a frame. There is at most one, in 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingControl {
    len: u8,
    bytes: [u8; 15],
}

impl PendingControl {
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

/// A subscription that is off the ring until the handler provides the missed messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LagRequest {
    pub item: u32,
    /// Number of the last message that it received.
    pub read: u64,
    pub state: LagRequestState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LagRequestState {
    /// The subscriber does not read. The request is sent when it reads again.
    NotSent,
    /// The handler has not answered yet.
    Sent,
    /// Nothing has changed for the subscriber up to this number.
    UnchangedUntil(u64),
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
    pub lag_requests: Vec<LagRequest>,
    pub account: Option<Arc<str>>,
    /// The refusal that it gets after its request.
    pub refusal: Option<Box<HttpResponse>>,
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
            && self.lag_requests.is_empty()
            && self.refusal.is_none()
    }
}

/// Prepared answers (`--respond`) that a subscriber is owed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwedAnswers {
    pub count: u32,
    /// Bytes sent of the first one.
    pub sent_bytes: u32,
}

/// Input of a subscriber.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InputState {
    /// Time of the last input, in milliseconds on the clock of the core.
    pub last_ms: u32,
    /// Start of the unfinished item, in milliseconds.
    pub unfinished_ms: u32,
    /// Weight of its messages that the application has not processed yet.
    pub waiting_weight: u32,
    /// Whether a partial message or frame is pending, since `unfinished_ms`.
    pub is_unfinished: bool,
    /// Whether input waits for room in the outbound queue.
    pub has_left_over: bool,
    /// Whether the input has ended. Pending output is still sent.
    pub is_at_end: bool,
    /// Whether its messages may be compressed.
    pub deflates: bool,
}

/// Whether a delivery pass has to serve a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Service {
    #[default]
    Idle,
    /// It is listed for the next pass, or for the rest of the current one.
    Listed,
    /// Its socket accepts no bytes.
    Blocked,
}

/// Position in the timer wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerLink {
    /// Tick at which the timer expires, or 0 without a timer.
    pub tick: u32,
    /// Neighbours in the list of the tick.
    pub before: u32,
    pub behind: u32,
}

pub(crate) struct Subscriber {
    pub id: SubscriberId,
    pub items: Subscriptions,
    pub rare: Option<Box<RareState>>,
    pub control: PendingControl,
    /// Index of the subscription with a partly sent frame, or [`NO_INDEX`].
    pub mid_frame: u32,
    pub owed: OwedAnswers,
    pub input: InputState,
    pub timer: TimerLink,
    /// Start of the stage, in milliseconds on the clock of the core.
    pub since_ms: u32,
    /// Bytes of frames that were sent to it alone: see
    /// [`OutboxReport::taken`](crate::handler::OutboxReport).
    pub taken_bytes: u32,
    /// How many of them had been sent at the last report.
    pub reported_bytes: u32,
    /// Its position in the last delivery pass.
    pub rank: u32,
    pub service: Service,
    pub stage: Stage,
    /// Frame format of its messages.
    pub class: u8,
}

// Memory of an idle subscriber. The table of connections adds to it.
const _: () = assert!(size_of::<Subscriber>() <= 128);
const _: () = assert!(size_of::<PendingControl>() == 16);

impl Subscriber {
    pub fn new(id: SubscriberId, now_ms: u32) -> Self {
        Subscriber {
            id,
            items: Subscriptions::None,
            rare: None,
            control: PendingControl::default(),
            mid_frame: NO_INDEX,
            owed: OwedAnswers::default(),
            input: InputState { last_ms: now_ms, unfinished_ms: now_ms, ..InputState::default() },
            timer: TimerLink { tick: 0, before: NO_INDEX, behind: NO_INDEX },
            since_ms: now_ms,
            taken_bytes: 0,
            reported_bytes: 0,
            rank: 0,
            service: Service::Idle,
            stage: Stage::Handshake,
            class: 0,
        }
    }

    /// Whether it gets messages of its streams.
    pub fn is_served(&self) -> bool {
        self.stage.is_served()
    }

    /// Whether more input of this client may be handled.
    pub fn has_room(&self) -> bool {
        self.outbox().len() < OUTBOX_FULL
            && self.owed.count < OWED_MOST
            && self.input.waiting_weight < WAITING_WEIGHT_MOST
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
