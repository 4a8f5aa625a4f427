//! The bounded queue between a connection and the reader of one subscription.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::Notify;

/// A message of a channel with the venue's JSON unchanged.
#[derive(Debug)]
pub struct Notice {
    pub data: Box<RawValue>,
    /// Time at which the message was read from the socket.
    pub received_at: Instant,
}

/// A message or a state change of a subscription.
#[derive(Debug)]
pub enum SubscriptionEvent {
    Notice(Notice),
    /// The queue was full, and this many of the oldest messages were discarded.
    Lost {
        messages: u64,
    },
    /// The subscription began again, after a new connection or on request. Messages may be missing
    /// before this point.
    Restarted,
    /// The subscription has ended. No event follows.
    Ended {
        reason: String,
    },
}

/// Memory per queued message besides its text, in bytes.
const OVERHEAD_BYTES: usize = 64;

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<SubscriptionEvent>,
    bytes: usize,
    lost: u64,
    end: Option<String>,
    has_reader: bool,
}

/// A queue of one channel. The connection writes and never waits.
#[derive(Debug)]
pub(crate) struct NoticeQueue {
    state: Mutex<QueueState>,
    filled: Notify,
    bound_bytes: usize,
}

fn size(event: &SubscriptionEvent) -> usize {
    match event {
        SubscriptionEvent::Notice(notice) => OVERHEAD_BYTES + notice.data.get().len(),
        _ => OVERHEAD_BYTES,
    }
}

impl NoticeQueue {
    pub fn new(bound_bytes: usize) -> Self {
        let state = Mutex::new(QueueState { has_reader: true, ..QueueState::default() });
        NoticeQueue { state, filled: Notify::new(), bound_bytes }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a message. Discards the oldest ones if the bound is exceeded. One message always
    /// fits.
    pub fn push(&self, event: SubscriptionEvent) {
        let mut state = self.state();
        if !state.has_reader {
            return;
        }
        let size_bytes = size(&event);
        while state.bytes + size_bytes > self.bound_bytes
            && let Some(oldest) = state.events.pop_front()
        {
            state.bytes -= size(&oldest);
            state.lost += u64::from(matches!(oldest, SubscriptionEvent::Notice(_)));
        }
        state.bytes += size_bytes;
        state.events.push_back(event);
        self.filled.notify_one();
    }

    pub fn end(&self, reason: String) {
        self.state().end.get_or_insert(reason);
        self.filled.notify_one();
    }

    /// Marks that the reader is gone.
    pub fn leave(&self) {
        let mut state = self.state();
        state.has_reader = false;
        state.events.clear();
    }

    pub fn has_reader(&self) -> bool {
        self.state().has_reader
    }

    fn pop(&self) -> Option<SubscriptionEvent> {
        let mut state = self.state();
        if state.lost > 0 {
            return Some(SubscriptionEvent::Lost { messages: std::mem::take(&mut state.lost) });
        }
        if let Some(event) = state.events.pop_front() {
            state.bytes -= size(&event);
            return Some(event);
        }
        state.end.clone().map(|reason| SubscriptionEvent::Ended { reason })
    }

    pub async fn next(&self) -> SubscriptionEvent {
        loop {
            if let Some(event) = self.pop() {
                return event;
            }
            self.filled.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: &str) -> SubscriptionEvent {
        let data = RawValue::from_string(text.into()).unwrap();
        SubscriptionEvent::Notice(Notice { data, received_at: Instant::now() })
    }

    #[test]
    fn full_queue_discards_its_oldest_messages_and_counts_them() {
        let queue = NoticeQueue::new(2 * (OVERHEAD_BYTES + 1));
        for text in ["1", "2", "3", "4"] {
            queue.push(notice(text));
        }
        assert!(matches!(queue.pop(), Some(SubscriptionEvent::Lost { messages: 2 })));
        for expected in ["3", "4"] {
            let Some(SubscriptionEvent::Notice(notice)) = queue.pop() else { panic!("no message") };
            assert_eq!(notice.data.get(), expected);
        }
        assert!(queue.pop().is_none());
        queue.end("over".into());
        assert!(matches!(queue.pop(), Some(SubscriptionEvent::Ended { reason }) if reason == "over"));
    }

    #[test]
    fn one_message_above_the_bound_still_fits() {
        let queue = NoticeQueue::new(1);
        queue.push(notice("1"));
        assert!(matches!(queue.pop(), Some(SubscriptionEvent::Notice(_))));
    }
}
