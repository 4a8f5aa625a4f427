//! Settings of a delivery core, and the vocabulary that its parts share.
//!
//! Start at    [`SubscriberLimits`], [`PassKind`].

use std::sync::Arc;

use pitwire_websocket::MessageLimits;

use crate::counters::Counters;
use crate::handler::DeliveryHandler;
use crate::statistics::SharedStatistics;

/// Most bytes that one connection is sent in a turn. Also the bytes appended to the rings that end
/// the intake from the queue.
pub(crate) const TURN_BYTES: usize = 64 * 1024;

/// Timeouts and limits. Times are in milliseconds, the resolution of the timer wheel.
#[derive(Clone, Debug)]
pub struct SubscriberLimits {
    pub messages: MessageLimits,
    /// Time limit for a handshake or a fragmented message, in milliseconds.
    pub unfinished_ms: u32,
    /// Idle timeout in milliseconds. Any input counts as activity, including a pong.
    pub idle_ms: u32,
    /// Interval between pings to all subscribers, in milliseconds. 0 disables them.
    pub ping_ms: u32,
    /// Lag threshold in milliseconds. A subscriber whose oldest unsent message is older is slow. 0
    /// disables the time check.
    pub lag_ms: u32,
    /// Time that a connection has to finish after its close frame was queued, in milliseconds.
    pub parting_ms: u32,
    /// Whether to accept permessage-deflate. Each message is then compressed once per delivery
    /// thread and frame format. Any client can cause this work, so it is off by default.
    pub deflate: bool,
}

impl Default for SubscriberLimits {
    fn default() -> Self {
        SubscriberLimits {
            messages: MessageLimits::default(),
            unfinished_ms: 5_000,
            idle_ms: 60_000,
            ping_ms: 20_000,
            lag_ms: 0,
            parting_ms: 2_000,
            deflate: false,
        }
    }
}

/// Settings that do not change after the start.
pub struct CoreContext {
    pub handler: Arc<dyn DeliveryHandler>,
    pub statistics: Arc<SharedStatistics>,
    /// Number of this delivery thread.
    pub thread: usize,
    pub limits: SubscriberLimits,
    /// Frames of the prepared answer.
    pub answer: Arc<[u8]>,
}

impl CoreContext {
    pub fn counters(&self) -> &Counters {
        self.statistics.counters(self.thread)
    }
}

/// Selects the subscribers that a delivery pass serves, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Subscribers with individual frames: answers, control frames or catch-up messages.
    Own,
    /// All subscribers with frames to send, in random order.
    First,
    /// The same subscribers, when the previous pass has just ended. They keep their previous order
    /// with small random changes.
    Next,
}

/// The next step in a subscriber's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is nothing to send.
    Idle,
    /// `DeliveryCore::gather` returns bytes to send.
    Send,
    /// Everything is sent: shut the sending side, then call `DeliveryCore::shut`.
    Shut,
}
