//! Delivers private notices: account changes, to the connections that listen to the account.
//!
//! Does        sends the changes of each command, keeps those above the limit of a command for
//!             later turns, and sends merged channels when their window ends.
//! Holds       1. a connection gets the changes of an account in order;
//!             2. a command and a turn cost a bounded number of notices;
//!             3. a connection that does not read its notices in time is closed.
//! Start at    [`PrivateDelivery::distribute`], [`PrivateDelivery::send_waiting`].

use std::collections::BTreeMap;

use pitwire_deribit::{AccountEvent, NoticeTexts, account_events};
use pitwire_model::{AccountId, VenueNanos};
use pitwire_net::{CloseCode, ConnectionId};
use tracing::warn;

use crate::account_listeners::AccountListeners;
use crate::client_connection::TOO_SLOW;
use crate::delivery_context::DeliveryContext;
use crate::private_events::{EventPart, NOTICES_PER_COMMAND, PrivateEvents};
use crate::private_windows::PrivateWindows;
use crate::public_connections::ConnectionOutput;
use crate::service::VenueService;
use crate::window_sends::{RECORDS_AT_A_TIME, RECORDS_PER_TURN, WindowSends};

/// Waiting notices, and the connections that will get them.
pub(crate) struct PrivateDelivery {
    listeners: AccountListeners,
    events: PrivateEvents,
    windows: PrivateWindows,
    window_sends: WindowSends,
    /// Orders and fills that merged channels may still send in this turn.
    turn_records: usize,
}

impl PrivateDelivery {
    pub fn new() -> Self {
        PrivateDelivery {
            listeners: AccountListeners::default(),
            events: PrivateEvents::default(),
            windows: PrivateWindows::default(),
            window_sends: WindowSends::default(),
            turn_records: RECORDS_PER_TURN,
        }
    }

    /// Sets the accounts whose notices a connection gets.
    pub fn set_accounts(&mut self, id: ConnectionId, accounts: impl Iterator<Item = AccountId> + Clone) {
        self.listeners.set(id, accounts);
    }

    /// Returns how many connections get the notices of an account.
    pub fn listeners_of(&self, account: AccountId) -> usize {
        self.listeners.len_of(account)
    }

    /// Notes whether the outbox of a connection has room.
    pub fn set_room(&mut self, id: ConnectionId, has_room: bool) {
        self.window_sends.set_room(id, has_room);
    }

    /// Says whether the outbox of a connection has room.
    pub fn has_room(&self, id: ConnectionId) -> bool {
        self.window_sends.has_room(id)
    }

    /// Forgets a connection that has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.window_sends.forget(id);
        self.listeners.remove(id);
    }

    /// Notes that a merged channel has something to send when its window ends.
    pub fn arm_windows(&mut self, now: VenueNanos) {
        self.windows.arm(now);
    }

    /// Returns the end of the next window that has something to send.
    pub fn next_window(&self) -> Option<VenueNanos> {
        self.windows.next_due()
    }

    /// Returns when [`Self::send_waiting`] next closes a connection, in monotonic nanoseconds.
    pub fn blocked_due_ns(&self) -> Option<u64> {
        self.events.blocked_due_ns()
    }

    /// Says whether something can be sent now. `is_answered_first` is true for a connection that
    /// gets an answer before its waiting notices.
    pub fn has_next(&self, is_answered_first: impl Fn(ConnectionId) -> bool) -> bool {
        let has_room = |id| self.has_room(id) && !is_answered_first(id);
        self.events.has_next(RECORDS_PER_TURN, &self.listeners, has_room) || self.window_sends.has_next()
    }

    /// Begins a turn. Merged channels may send [`RECORDS_PER_TURN`] records in it.
    pub fn begin_turn(&mut self) {
        self.turn_records = RECORDS_PER_TURN;
    }

    /// Sends the changes of the last commands to the sessions of their accounts. Sends at most as
    /// many notices as a command may cost, and the rest in later turns.
    pub fn distribute(&mut self, context: &mut DeliveryContext<'_>) {
        let venue = &context.service.venue;
        if !venue.changes().is_empty() {
            let (listeners, dispatcher, entry) = (&self.listeners, &*context.dispatcher, &*context.entry);
            let is_wanted =
                |account| listeners.len_of(account) > 0 || dispatcher.records(account) || entry.has_account(account);
            let (engine, views, changes) = (venue.engine(), venue.views(), venue.changes());
            let events = account_events(engine, views, changes, is_wanted, listeners.accounts());
            context.service.venue.clear_changes();
            self.send_or_queue(events, context);
        }
        context.end_command();
    }

    fn send_or_queue(&mut self, events: Vec<AccountEvent>, context: &mut DeliveryContext<'_>) {
        let mut by_account: BTreeMap<AccountId, Vec<AccountEvent>> = BTreeMap::new();
        for event in events {
            by_account.entry(event.account()).or_default().push(event);
        }
        // With manual time, a request sends all its notices in its own turn.
        let mut left = if context.service.options.manual_time { usize::MAX } else { NOTICES_PER_COMMAND };
        for (account, mut events) in by_account {
            let listeners = self.listeners.len_of(account).max(1);
            let at_once = if self.events.has(account) { 0 } else { left / listeners };
            let later = events.split_off(at_once.min(events.len()));
            if !events.is_empty() {
                let part = EventPart { account, events, to: self.listeners.of(account).collect(), is_first: true };
                left -= self.send_part(&part, context).min(left);
            }
            if !self.events.push(account, later, context.clock.monotonic_ns()) {
                warn!(account = account.0, "too many changes of an account wait to be sent");
                context.dispatcher.forget_recorded(account);
                context.entry.lose_reports(account, context.notices);
                self.close_listeners(self.listeners.of(account).collect(), context);
            }
        }
    }

    /// Sends waiting changes, about `budget` notices. `is_answered_first` is as in
    /// [`Self::has_next`]. Closes a connection without room if the changes of its account have
    /// waited for it too long.
    pub fn send_waiting(
        &mut self,
        budget: usize,
        now_ns: u64,
        is_answered_first: impl Fn(ConnectionId) -> bool,
        context: &mut DeliveryContext<'_>,
    ) {
        let mut left = budget;
        while left > 0 {
            let has_room = |id| self.window_sends.has_room(id) && !is_answered_first(id);
            let Some(part) = self.events.next(left, now_ns, &self.listeners, has_room) else { break };
            left -= self.send_part(&part, context).min(left);
        }
        for account in self.events.blocked(now_ns) {
            let is_slow = |id: &ConnectionId| !self.has_room(*id);
            self.close_listeners(self.listeners.of(account).filter(is_slow).collect(), context);
        }
    }

    /// Sends changes of one account to some of its connections. Returns the cost in notices.
    fn send_part(&mut self, part: &EventPart, context: &mut DeliveryContext<'_>) -> usize {
        let EventPart { account, events, to, is_first } = part;
        let DeliveryContext { service, dispatcher, clients, entry, notices, .. } = context;
        let VenueService { venue, market_data, .. } = &mut **service;
        let (engine, views) = (venue.engine(), venue.views());
        if *is_first {
            dispatcher.record(engine, events);
            entry.report(*account, events, (engine, views), notices);
        }
        let mut output = ConnectionOutput { notices, public_connections: &mut market_data.public_connections };
        // A merged channel collects each change, and sends nothing yet.
        let (mut sent, cost) = (0, events.len() * (1 + to.len()));
        let mut texts = NoticeTexts::for_sessions(to.len());
        for id in to {
            let Some(client) = clients.get_mut(id) else { continue };
            let mut send = |text: &[u8]| {
                output.notify(*id, text);
                sent += 1;
            };
            client.session.notify((engine, views), events, &mut texts, &mut send);
            dispatcher.send_resumable(&mut client.session, engine, views, &mut send);
            self.windows.arm(venue.now());
        }
        cost.max(sent)
    }

    /// Closes connections with private channels, because they read too slowly.
    fn close_listeners(&mut self, ids: Vec<ConnectionId>, context: &mut DeliveryContext<'_>) {
        for id in ids {
            self.listeners.remove(id);
            context.output().close(id, CloseCode::TryAgainLater, TOO_SLOW);
        }
    }

    /// Sends merged private channels at the same venue-time boundaries as public ones. No command
    /// marks these boundaries, because it would leave a trace of one account's events in the log,
    /// where others could see it.
    pub fn close_windows(&mut self, context: &mut DeliveryContext<'_>) {
        let DeliveryContext { service, clients, notices, .. } = context;
        let VenueService { venue, market_data, .. } = &mut **service;
        let mut output = ConnectionOutput { notices, public_connections: &mut market_data.public_connections };
        while let Some(interval) = self.windows.take(venue.now()) {
            for (id, _) in clients.iter().filter(|(_, client)| client.session.is_due_at(interval)) {
                self.window_sends.add((*id, interval));
            }
        }
        while self.turn_records > 0
            && let Some((id, interval)) = self.window_sends.next()
        {
            let Some(client) = clients.get_mut(&id) else { continue };
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
    pub fn close_slow(&self, context: &mut DeliveryContext<'_>) {
        for id in self.window_sends.waiting() {
            if context.clients.get(&id).is_some_and(|client| client.session.has_collected_too_much()) {
                context.output().close(id, CloseCode::TryAgainLater, TOO_SLOW);
            }
        }
    }
}
