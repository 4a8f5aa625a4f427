//! Acts on the requests of connections on delivery threads.

use pitwire_net::{Application, ConnectionId, Notices};

use crate::application::VenueApplication;
use crate::delivery_threads::TurnBudget;
use crate::public_connections::HandoffEvent;

/// Time in nanoseconds after which these requests wait for the next turn, so that the connections
/// of the venue thread have their share.
const SHARE_NS: u64 = 250_000;

impl VenueApplication {
    /// Notes what connections on delivery threads have read.
    pub(super) fn take_outbox_reports(&mut self, now_ns: u64) {
        let public_connections = &mut self.service.market_data.public_connections;
        public_connections.take_outbox_reports(now_ns);
        for (id, has_room) in public_connections.unread.take_room_changes() {
            self.private.set_room(id, has_room);
        }
    }

    /// Handles the requests and disconnects of connections on delivery threads.
    pub(super) fn take_thread_events(&mut self, notices: &mut Notices) {
        let mut budget = TurnBudget::default();
        let deadline_ns = self.clock.monotonic_ns() + SHARE_NS;
        self.act_on_resumable_texts(deadline_ns, notices);
        while let Some((id, done)) = self.service.market_data.public_connections.next_event(&mut budget) {
            match done {
                HandoffEvent::Text(text) => {
                    self.answers.push_text(id, text);
                    self.act_on_waiting_text(id, notices);
                    if self.clock.monotonic_ns() > deadline_ns {
                        budget.spend();
                    }
                }
                HandoffEvent::Left => {
                    notices.closed_elsewhere(id);
                    self.disconnected(id, notices);
                }
            }
        }
        self.service.market_data.public_connections.bring_up_to_date(&self.service.market_data.publisher);
    }

    /// Acts on texts of connections on delivery threads that have waited and need not wait any
    /// more. Returns when there are none, or at `deadline_ns`.
    fn act_on_resumable_texts(&mut self, deadline_ns: u64, notices: &mut Notices) {
        loop {
            let unread = &mut self.service.market_data.public_connections.unread;
            let Some(id) = self.answers.next_resumable(|| unread.take_freed()) else { return };
            self.act_on_waiting_text(id, notices);
            if self.clock.monotonic_ns() > deadline_ns {
                return;
            }
        }
    }

    /// Acts on the next text of a connection on a delivery thread, unless it has to wait: for a
    /// long answer, or until its account has read more.
    fn act_on_waiting_text(&mut self, id: ConnectionId, notices: &mut Notices) {
        if !self.service.market_data.public_connections.unread.has_room(id) {
            return;
        }
        if let Some(text) = self.answers.take_text(id) {
            self.text(id, &text, notices);
            self.service.market_data.public_connections.acknowledge(id, text.len());
        }
    }
}
