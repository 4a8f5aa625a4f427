//! Texts of connections on delivery threads that wait for a long answer, or until answers are read.
//!
//! Start at    [`WaitingTexts`].

use std::collections::{BTreeMap, VecDeque};

use pitwire_net::ConnectionId;

/// Texts that wait, in order for each connection. A text leaves by [`WaitingTexts::take`].
#[derive(Default)]
pub struct WaitingTexts {
    texts: BTreeMap<ConnectionId, VecDeque<String>>,
    /// Connections whose texts perhaps need not wait any more, in turn.
    resumable: VecDeque<ConnectionId>,
}

impl WaitingTexts {
    pub fn push(&mut self, id: ConnectionId, text: String) {
        self.texts.entry(id).or_default().push_back(text);
    }

    /// Takes the first text of a connection. If others wait behind it, the connection is resumable
    /// again.
    pub fn take(&mut self, id: ConnectionId) -> Option<String> {
        let texts = self.texts.get_mut(&id)?;
        let text = texts.pop_front();
        if texts.is_empty() {
            self.texts.remove(&id);
        } else {
            self.resumable.push_back(id);
        }
        text
    }

    /// Notes that the reason for which a connection waits may have ended.
    pub fn resume(&mut self, id: ConnectionId) {
        self.resumable.push_back(id);
    }

    /// As [`WaitingTexts::resume`], for each connection that waits.
    pub fn resume_all(&mut self) {
        self.resumable.extend(self.texts.keys());
    }

    pub fn has_resumable(&self) -> bool {
        !self.resumable.is_empty()
    }

    pub fn next_resumable(&mut self) -> Option<ConnectionId> {
        self.resumable.pop_front()
    }

    /// Drops the texts of a connection that has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.texts.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_leave_in_order_and_keep_their_connection_resumable() {
        let (one, other) = (ConnectionId(1), ConnectionId(2));
        let mut waiting = WaitingTexts::default();
        for (id, text) in [(one, "a"), (one, "b"), (other, "c")] {
            waiting.push(id, text.to_owned());
        }
        assert!(!waiting.has_resumable());
        assert_eq!(waiting.take(one).as_deref(), Some("a"));
        assert_eq!(waiting.next_resumable(), Some(one));
        assert_eq!(waiting.take(one).as_deref(), Some("b"));
        assert!(waiting.take(one).is_none() && !waiting.has_resumable());
        waiting.resume_all();
        assert_eq!((waiting.next_resumable(), waiting.next_resumable()), (Some(other), None));
        waiting.forget(other);
        assert!(waiting.take(other).is_none());
    }
}
