//! Sends private channels.

use pitwire_net::{CloseCode, Notices};

use crate::application::{TOO_SLOW, VenueApplication};
use crate::public_connections::ConnectionOutput;
use crate::window_sends::RECORDS_AT_A_TIME;

impl VenueApplication {
    /// Sends the changes of the last commands to the sessions of their accounts.
    pub(super) fn distribute(&mut self, notices: &mut Notices) {
        let venue = &self.service.venue;
        let (engine, views, changes) = (venue.engine(), venue.views(), venue.changes());
        if changes.is_empty() {
            return self.service.market_data.public_connections.end_command();
        }
        let mut output =
            ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections };
        self.dispatcher.record(engine, views, changes);
        for id in self.listeners.affected_by(changes) {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let mut send = |text: &[u8]| output.notify(id, text);
            client.session.notify(engine, views, changes, &mut send);
            self.dispatcher.send_resumable(&mut client.session, engine, views, &mut send);
            self.private_windows.arm(venue.now());
        }
        self.service.venue.clear_changes();
        self.service.market_data.public_connections.end_command();
    }

    /// Sends merged private channels at the same venue-time boundaries as public ones. No command
    /// does this, because one account's events must leave no trace in the log that others can read.
    pub(super) fn close_private_windows(&mut self, notices: &mut Notices) {
        let venue = &self.service.venue;
        let mut output =
            ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections };
        while let Some(interval) = self.private_windows.take(venue.now()) {
            for (id, _) in self.clients.iter().filter(|(_, client)| client.session.is_due_at(interval)) {
                self.window_sends.add((*id, interval));
            }
        }
        while self.turn_records > 0
            && let Some((id, interval)) = self.window_sends.next()
        {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let share = self.turn_records.min(RECORDS_AT_A_TIME);
            let mut left = share;
            let mut send = |text: &[u8]| output.notify(id, text);
            if !client.session.send_window(interval, venue.engine(), venue.views(), &mut left, &mut send) {
                self.window_sends.add((id, interval));
            }
            self.turn_records -= (share - left).max(1);
        }
    }

    /// Closes connections that leave too much of their merged channels unread.
    pub(super) fn close_slow_windows(&mut self, notices: &mut Notices) {
        let public_connections = &mut self.service.market_data.public_connections;
        let mut output = ConnectionOutput { notices, public_connections };
        for id in self.window_sends.waiting() {
            if self.clients.get(&id).is_some_and(|client| client.session.has_collected_too_much()) {
                output.close(id, CloseCode::TryAgainLater, TOO_SLOW);
            }
        }
    }
}
