//! Sends private channels.

use std::collections::BTreeMap;

use pitwire_deribit::{AccountEvent, NoticeTexts, account_events};
use pitwire_model::AccountId;
use pitwire_net::{CloseCode, ConnectionId, Notices};
use tracing::warn;

use crate::application::{TOO_SLOW, VenueApplication};
use crate::long_answers::LongAnswers;
use crate::private_events::{EventPart, NOTICES_PER_COMMAND};
use crate::public_connections::ConnectionOutput;
use crate::window_sends::{RECORDS_AT_A_TIME, RECORDS_PER_TURN, WindowSends};

impl VenueApplication {
    /// Sends the changes of the last commands to the sessions of their accounts: as many notices as
    /// a command may cost, and the rest in later turns.
    pub(super) fn distribute(&mut self, notices: &mut Notices) {
        let venue = &self.service.venue;
        if !venue.changes().is_empty() {
            let (listeners, dispatcher, entry) = (&self.listeners, &self.dispatcher, &self.entry);
            let is_wanted =
                |account| listeners.len_of(account) > 0 || dispatcher.records(account) || entry.has_account(account);
            let (engine, views, changes) = (venue.engine(), venue.views(), venue.changes());
            let events = account_events(engine, views, changes, is_wanted, listeners.accounts());
            self.service.venue.clear_changes();
            self.send_or_queue(events, notices);
        }
        self.service.market_data.public_connections.end_command();
        self.send_entry_data(notices);
    }

    fn send_or_queue(&mut self, events: Vec<AccountEvent>, notices: &mut Notices) {
        let mut by_account: BTreeMap<AccountId, Vec<AccountEvent>> = BTreeMap::new();
        for event in events {
            by_account.entry(event.account()).or_default().push(event);
        }
        // The notices of a driven run belong to its requests.
        let mut left = if self.service.options.manual_time { usize::MAX } else { NOTICES_PER_COMMAND };
        for (account, mut events) in by_account {
            let listeners = self.listeners.len_of(account).max(1);
            let at_once = if self.private_events.has(account) { 0 } else { left / listeners };
            let later = events.split_off(at_once.min(events.len()));
            if !events.is_empty() {
                let part = EventPart { account, events, to: self.listeners.of(account).collect(), is_first: true };
                left -= self.send_private_events(&part, notices).min(left);
            }
            if !self.private_events.push(account, later, self.clock.monotonic_ns()) {
                warn!(account = account.0, "too many changes of an account wait to be sent");
                self.dispatcher.forget_recorded(account);
                self.entry.lose_reports(account, notices);
                self.end_listeners(account, |_, _| true, notices);
            }
        }
    }

    /// Sends changes of accounts that wait: about as many notices as `budget` says. Closes
    /// connections that others of their account have waited for too long.
    pub(super) fn send_waiting_events(&mut self, budget: usize, now_ns: u64, notices: &mut Notices) {
        let mut left = budget;
        while left > 0
            && let Some(part) = self
                .private_events
                .next(left, now_ns, &self.listeners, |id| has_room(&self.window_sends, &self.long_answers, id))
        {
            left -= self.send_private_events(&part, notices).min(left);
        }
        for account in self.private_events.blocked(now_ns) {
            self.end_listeners(account, |app, id| !app.window_sends.has_room(id), notices);
        }
    }

    /// Says whether changes of accounts can be sent now.
    pub(super) fn has_waiting_events(&self) -> bool {
        let has_room = |id| has_room(&self.window_sends, &self.long_answers, id);
        self.private_events.has_next(RECORDS_PER_TURN, &self.listeners, has_room)
    }

    /// Sends changes of one account to connections of it. Returns the cost in notices.
    fn send_private_events(&mut self, part: &EventPart, notices: &mut Notices) -> usize {
        let EventPart { account, events, to, is_first } = part;
        let venue = &self.service.venue;
        let (engine, views) = (venue.engine(), venue.views());
        let mut output =
            ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections };
        if *is_first {
            self.dispatcher.record(engine, events);
            self.entry.report(*account, events, (engine, views), output.notices);
        }
        // A merged channel collects each change, and sends nothing yet.
        let (mut sent, cost) = (0, events.len() * (1 + to.len()));
        let mut texts = NoticeTexts::for_sessions(to.len());
        for id in to {
            let Some(client) = self.clients.get_mut(id) else { continue };
            let mut send = |text: &[u8]| {
                output.notify(*id, text);
                sent += 1;
            };
            client.session.notify((engine, views), events, &mut texts, &mut send);
            self.dispatcher.send_resumable(&mut client.session, engine, views, &mut send);
            self.private_windows.arm(venue.now());
        }
        cost.max(sent)
    }

    /// Closes connections with private channels of an account, because they read too slowly.
    fn end_listeners(
        &mut self,
        account: AccountId,
        is_slow: impl Fn(&Self, ConnectionId) -> bool,
        notices: &mut Notices,
    ) {
        for id in self.listeners.of(account).filter(|id| is_slow(self, *id)).collect::<Vec<_>>() {
            self.listeners.remove(id);
            let public_connections = &mut self.service.market_data.public_connections;
            ConnectionOutput { notices, public_connections }.close(id, CloseCode::TryAgainLater, TOO_SLOW);
        }
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

/// Says whether a connection can get notices that have waited. Its next answer goes before them.
fn has_room(sends: &WindowSends, answers: &LongAnswers, id: ConnectionId) -> bool {
    sends.has_room(id) && !answers.is_waiting(id)
}
