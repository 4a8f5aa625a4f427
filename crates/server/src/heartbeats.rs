//! Due times of heartbeats.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_net::ConnectionId;

/// Connections that requested heartbeats, by due time in monotonic nanoseconds. Other connections
/// cost nothing.
#[derive(Default)]
pub struct Heartbeats {
    due: BTreeSet<(u64, ConnectionId)>,
    of: BTreeMap<ConnectionId, u64>,
}

impl Heartbeats {
    pub fn set(&mut self, id: ConnectionId, due_ns: Option<u64>) {
        let before = match due_ns {
            Some(due_ns) => self.of.insert(id, due_ns),
            None => self.of.remove(&id),
        };
        if before == due_ns {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, id));
        }
        if let Some(due_ns) = due_ns {
            self.due.insert((due_ns, id));
        }
    }

    pub fn next_due_ns(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, _)| *due_ns)
    }

    /// Returns the next connection whose heartbeat is due. It is not due again until it is set
    /// again.
    pub fn take(&mut self, now_ns: u64) -> Option<ConnectionId> {
        let (due_ns, id) = *self.due.first()?;
        if due_ns > now_ns {
            return None;
        }
        self.set(id, None);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_due_once_and_in_order() {
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        let mut heartbeats = Heartbeats::default();
        heartbeats.set(one, Some(20));
        heartbeats.set(two, Some(10));
        heartbeats.set(one, Some(5));
        heartbeats.set(one, Some(5));
        assert_eq!((heartbeats.next_due_ns(), heartbeats.take(4)), (Some(5), None));
        assert_eq!((heartbeats.take(10), heartbeats.take(10), heartbeats.take(10)), (Some(one), Some(two), None));
        heartbeats.set(one, Some(30));
        heartbeats.set(one, None);
        assert_eq!((heartbeats.next_due_ns(), heartbeats.take(u64::MAX)), (None, None));
    }
}
