//! The connections and sessions of binary order entry.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use pitwire_deribit::codec::RpcError;
use pitwire_deribit::{AccountEvent, EndedLogins, RequestContext, Session, Transport};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, InstrumentId};
use pitwire_net::{ConnectionId, Notices};
use pitwire_projections::Views;
use tracing::warn;

use crate::codec::{FRAME_HEADER_BYTES, frame_length};
use crate::cointossx::{CoinTossXProfile, CtxMembers};
use crate::entry_context::{EntryContext, EntryRecipient, SessionKey};
use crate::entry_session::{Cause, EntrySession};
use crate::execution_reports::execution_reports;
use crate::messages::{Heartbeat, LogonAccepted, Logout, ReportsLost, SbeMessage};
use crate::profile::{ALREADY_LOGGED_ON, ClientMessage, EntryRefusal, PitwireProfile, Profile};
use crate::requests::Rejection;

/// Longest frame of a client, in bytes.
const MAX_FRAME_BYTES: usize = 1024;
/// Connections of one listener at the same time. Above it, a new connection is closed.
const MAX_CONNECTIONS: usize = 256;
const NANOS_PER_S: u64 = 1_000_000_000;
/// Time in which a new connection must send its logon, in seconds.
const LOGON_PATIENCE_S: u64 = 5;
/// A client that is silent for this many heartbeat intervals counts as dead.
const SILENT_INTERVALS: u64 = 3;
/// Code of a logout because the venue ended the login.
const LOGIN_ENDED: i32 = 13009;

/// Message schema of a listener.
#[derive(Clone, Debug)]
pub enum EntrySchema {
    /// `contracts/pitwire-order-entry.xml`.
    Pitwire,
    /// `contracts/cointossx-*.xml`, for these members.
    CoinTossX(CtxMembers),
}

struct EntryConnection {
    /// Number of its listener.
    listener: usize,
    from: IpAddr,
    /// `None` before the logon.
    session: Option<SessionKey>,
    /// Interval of heartbeats in nanoseconds; zero for none.
    heartbeat_ns: u64,
    beat_due_ns: u64,
    /// The connection ends unless the client sends a message before.
    silent_due_ns: u64,
}

impl EntryConnection {
    fn due_ns(&self) -> u64 {
        self.beat_due_ns.min(self.silent_due_ns)
    }
}

/// Binary order entry of one venue.
pub struct BinaryEntry {
    epoch: u64,
    /// By the numbers of the listeners.
    profiles: Vec<Box<dyn Profile>>,
    connections: BTreeMap<ConnectionId, EntryConnection>,
    sessions: BTreeMap<SessionKey, EntrySession>,
    by_client: BTreeMap<(usize, String), SessionKey>,
    by_account: BTreeMap<AccountId, BTreeSet<SessionKey>>,
    last_key: SessionKey,
    /// No connection is due earlier.
    next_due_ns: u64,
}

fn logout(code: i32, reason: impl Into<String>) -> Logout {
    Logout { code, reason: reason.into() }
}

fn invalid(reason: impl Into<String>) -> Logout {
    logout_of(Rejection::invalid(reason, ""))
}

fn logout_of(rejection: Rejection) -> Logout {
    logout(rejection.code, rejection.reason)
}

impl BinaryEntry {
    /// Makes binary order entry without listeners. `epoch` identifies the numbering of this start.
    pub fn new(epoch: u64) -> Self {
        BinaryEntry {
            epoch,
            profiles: Vec::new(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            by_client: BTreeMap::new(),
            by_account: BTreeMap::new(),
            last_key: SessionKey(0),
            next_due_ns: u64::MAX,
        }
    }

    /// Sets the schema of the next listener of byte streams.
    #[must_use]
    pub fn with_listener(mut self, schema: EntrySchema) -> Self {
        self.profiles.push(match schema {
            EntrySchema::Pitwire => Box::new(PitwireProfile),
            EntrySchema::CoinTossX(members) => Box::new(CoinTossXProfile::new(members)),
        });
        self
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Takes a new connection.
    pub fn opened(&mut self, id: ConnectionId, listener: usize, from: IpAddr, now_ns: u64, notices: &mut Notices) {
        let of_listener = self.connections.values().filter(|connection| connection.listener == listener).count();
        if of_listener >= MAX_CONNECTIONS {
            warn!(%from, MAX_CONNECTIONS, "too many connections of binary order entry; closing one");
            return notices.end(id);
        }
        let connection = EntryConnection {
            listener,
            from,
            session: None,
            heartbeat_ns: 0,
            beat_due_ns: u64::MAX,
            silent_due_ns: now_ns + LOGON_PATIENCE_S * NANOS_PER_S,
        };
        self.next_due_ns = self.next_due_ns.min(connection.due_ns());
        self.connections.insert(id, connection);
    }

    /// HOT. Acts on the message at the front of the bytes that a client has sent. Returns its
    /// length, or `None` if it is not complete.
    pub fn message(&mut self, id: ConnectionId, bytes: &[u8], context: &mut EntryContext<'_>) -> Option<usize> {
        let Some(connection) = self.connections.get_mut(&id) else { return Some(bytes.len()) };
        let length = match frame_length(*bytes.first_chunk::<FRAME_HEADER_BYTES>()?, MAX_FRAME_BYTES) {
            Ok(length) => length,
            Err(error) => {
                // The next frame cannot be found.
                self.end(id, Some(invalid(error.to_string())), context);
                return Some(bytes.len());
            }
        };
        let frame = bytes.get(..length)?;
        match connection.session {
            Some(session) => {
                if connection.heartbeat_ns > 0 {
                    connection.silent_due_ns = context.clock.steady_ns + SILENT_INTERVALS * connection.heartbeat_ns;
                }
                self.act(id, session, frame, context);
            }
            None => self.log_on(id, frame, context),
        }
        Some(length)
    }

    fn act(&mut self, id: ConnectionId, session: SessionKey, frame: &[u8], context: &mut EntryContext<'_>) {
        let Some(session) = self.sessions.get_mut(&session) else { return };
        match session.profile.decode(frame, session.log.next()) {
            Ok(ClientMessage::Message(message)) => match *message {
                SbeMessage::Heartbeat(_) => {}
                SbeMessage::Logout(_) => self.end(id, Some(logout(0, "")), context),
                SbeMessage::RetransmitRequest(request) => session.retransmit(&request, context.notices),
                request => {
                    session.execute(request, context);
                    if std::mem::take(&mut session.is_refused_too_often) {
                        self.end(id, Some(invalid("too many requests, refused too often")), context);
                    }
                }
            },
            Ok(ClientMessage::Answer(frames)) => session.send(&frames, Cause::Request, context.notices),
            Ok(ClientMessage::Public { instrument_id, is_wanted, answer }) => {
                match session.follow(instrument_id, is_wanted, context) {
                    Ok(()) => session.send(&answer, Cause::Request, context.notices),
                    Err(rejection) => {
                        session.refuse(EntryRefusal { request_id: 0, template_id: 0, rejection }, context.notices);
                    }
                }
            }
            Err(refusal) => session.refuse(refusal, context.notices),
        }
    }

    fn log_on(&mut self, id: ConnectionId, frame: &[u8], context: &mut EntryContext<'_>) {
        if let Err(refusal) = self.try_log_on(id, frame, context) {
            self.end(id, Some(refusal), context);
        }
    }

    fn try_log_on(&mut self, id: ConnectionId, frame: &[u8], context: &mut EntryContext<'_>) -> Result<(), Logout> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let (listener, from) = (connection.listener, connection.from);
        let Some(profile) = self.profiles.get(listener) else { return Ok(()) };
        let logon = profile.decode_logon(frame).map_err(invalid)?;
        let login = (logon.client_id.as_str(), logon.secret.as_str());
        let key = self.session_of(listener, login, from, context)?;
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if session.connection.is_some() {
            return Err(invalid(ALREADY_LOGGED_ON));
        }
        let (next, oldest) = (session.log.next(), session.log.oldest());
        if logon.next_sequence > next {
            let reason = format!("next_sequence {}: expected at most {next}; compare the epoch", logon.next_sequence);
            return Err(invalid(reason));
        }
        session.connection = Some(id);
        let accepted = LogonAccepted { epoch: self.epoch, next_sequence: next, oldest_sequence: oldest };
        session.send(&session.encode(accepted), Cause::Request, context.notices);
        let first = if logon.next_sequence == 0 { next } else { logon.next_sequence.max(oldest) };
        for frames in (first..next).filter_map(|sequence| session.log.get(sequence)) {
            session.send(frames, Cause::Request, context.notices);
        }
        context.notices.charge(id, session.account.0.into());
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = Some(key);
            connection.silent_due_ns = u64::MAX;
            connection.heartbeat_ns = u64::from(logon.heartbeat_s) * NANOS_PER_S;
            if connection.heartbeat_ns > 0 {
                connection.beat_due_ns = context.clock.steady_ns + connection.heartbeat_ns;
                connection.silent_due_ns = context.clock.steady_ns + SILENT_INTERVALS * connection.heartbeat_ns;
            }
            self.next_due_ns = self.next_due_ns.min(connection.due_ns());
        }
        Ok(())
    }

    /// Logs a client in, and returns its session.
    fn session_of(
        &mut self,
        listener: usize,
        (client_id, secret): (&str, &str),
        from: IpAddr,
        context: &mut EntryContext<'_>,
    ) -> Result<SessionKey, Logout> {
        let client = (listener, client_id.to_owned());
        let known = self.by_client.get(&client).copied();
        if let Some(session) = known.and_then(|key| self.sessions.get_mut(&key)) {
            log_in(&mut session.dialect, client_id, secret, context)?;
            return Ok(session.key);
        }
        let mut dialect = context.dispatcher.connect(context.venue.engine()).coming_from(Some(from));
        let account = log_in(&mut dialect, client_id, secret, context)?;
        let profile = self.profiles[listener].open(client_id);
        if profile.wants_open_orders() {
            let book = context.venue.views().account(account);
            book.into_iter().flat_map(|book| book.open_orders()).for_each(|order| profile.observe_open_order(order));
        }
        self.last_key.0 += 1;
        let key = self.last_key;
        self.sessions.insert(key, EntrySession::new(key, account, dialect, profile));
        self.by_client.insert(client, key);
        self.by_account.entry(account).or_default().insert(key);
        Ok(key)
    }

    /// Sends the logout, if there is one, and ends a connection. Its session stays.
    fn end(&mut self, id: ConnectionId, logout: Option<Logout>, context: &mut EntryContext<'_>) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let session = connection.session.and_then(|key| self.sessions.get_mut(&key));
        if let Some(logout) = logout {
            let frames = match (&session, self.profiles.get(connection.listener)) {
                (Some(session), _) => session.encode(logout),
                (None, Some(profile)) => profile.refuse_logon(logout),
                (None, None) => Vec::new(),
            };
            context.notices.reply_bytes(id, &frames);
            context.notices.end(id);
        }
        if let Some(session) = session {
            session.connection = None;
            session.following.clear();
            for request in session.profile.end_connection() {
                session.execute(request, context);
            }
            session.is_refused_too_often = false;
        }
    }

    /// The client has ended its connection.
    pub fn disconnected(&mut self, id: ConnectionId, context: &mut EntryContext<'_>) {
        self.end(id, None, context);
    }

    /// Ends all connections, because the venue stops.
    pub fn stop(&mut self, context: &mut EntryContext<'_>) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.end(id, Some(logout(0, "the venue stops")), context);
        }
    }

    /// Ends the sessions whose logins the venue has ended.
    pub fn end_logins(&mut self, ended: &EndedLogins, context: &mut EntryContext<'_>) {
        let concerned = self.sessions.values().filter(|session| session.dialect.has_ended_login(ended));
        for key in concerned.map(|session| session.key).collect::<Vec<_>>() {
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            session.dialect.end_login();
            let (account, connection) = (session.account, session.connection);
            if let Some(id) = connection {
                self.end(id, Some(logout(LOGIN_ENDED, "the venue ended the login")), context);
            }
            self.sessions.remove(&key);
            self.by_client.retain(|_, of_client| *of_client != key);
            if let Some(keys) = self.by_account.get_mut(&account) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.by_account.remove(&account);
                }
            }
        }
    }

    /// Returns when [`Self::tick`] has something to do, in monotonic nanoseconds.
    pub fn next_due_ns(&self) -> u64 {
        self.next_due_ns
    }

    /// Sends the heartbeats that are due, and ends the connections of silent clients.
    pub fn tick(&mut self, now_ns: u64, context: &mut EntryContext<'_>) {
        if now_ns < self.next_due_ns {
            return;
        }
        let mut silent = Vec::new();
        for (id, connection) in &mut self.connections {
            if now_ns >= connection.silent_due_ns {
                let reason = match connection.session {
                    None => format!("no logon within {LOGON_PATIENCE_S} s"),
                    Some(_) => {
                        format!("no message within {} s", SILENT_INTERVALS * connection.heartbeat_ns / NANOS_PER_S)
                    }
                };
                silent.push((*id, reason));
            } else if now_ns >= connection.beat_due_ns {
                connection.beat_due_ns = now_ns + connection.heartbeat_ns;
                if let Some(session) = connection.session.and_then(|key| self.sessions.get(&key)) {
                    let heartbeat = Heartbeat { next_sequence: session.log.next() };
                    session.send(&session.encode(heartbeat), Cause::Event, context.notices);
                }
            }
        }
        for (id, reason) in silent {
            self.end(id, Some(invalid(reason)), context);
        }
        self.next_due_ns = self.connections.values().map(EntryConnection::due_ns).min().unwrap_or(u64::MAX);
    }

    /// Whether an account has a session, connected or not.
    pub fn has_account(&self, account: AccountId) -> bool {
        self.by_account.contains_key(&account)
    }

    /// HOT. Publishes the changes of one account to its sessions.
    pub fn report(
        &mut self,
        account: AccountId,
        events: &[AccountEvent],
        (engine, views): (&Engine, &Views),
        notices: &mut Notices,
    ) {
        let Some(keys) = self.by_account.get(&account) else { return };
        let (reports, lost) = execution_reports(account, events, engine, views);
        for key in keys {
            let Some(session) = self.sessions.get_mut(key) else { continue };
            for report in &reports {
                session.publish(report.clone(), Cause::Event, notices);
            }
            if lost > 0 {
                session.publish(ReportsLost { sequence: 0, count: lost }, Cause::Event, notices);
            }
        }
    }

    /// Tells the sessions of an account that an unknown number of its reports is missing.
    pub fn lose_reports(&mut self, account: AccountId, notices: &mut Notices) {
        for key in self.by_account.get(&account).into_iter().flatten() {
            if let Some(session) = self.sessions.get_mut(key) {
                session.publish(ReportsLost { sequence: 0, count: 0 }, Cause::Event, notices);
            }
        }
    }

    /// Publishes the number of orders that [`crate::EntryEffects::long_answer`] has cancelled.
    pub fn finish(&mut self, to: EntryRecipient, result: Result<usize, RpcError>, notices: &mut Notices) {
        if let Some(session) = self.sessions.get_mut(&to.session) {
            session.finish(to, result, notices);
        }
    }

    /// Sends public data of an instrument to the one session, or to all that follow it.
    pub fn send_public(
        &self,
        instrument: InstrumentId,
        only: Option<SessionKey>,
        frames: &[u8],
        notices: &mut Notices,
    ) {
        let is_meant = |session: &&EntrySession| only.is_none_or(|key| session.key == key);
        for session in self.sessions.values().filter(is_meant) {
            if session.following.contains(&instrument) {
                session.send(frames, Cause::Event, notices);
            }
        }
    }

    /// Whether a client follows public data.
    pub fn has_followers(&self) -> bool {
        self.sessions.values().any(|session| !session.following.is_empty())
    }
}

fn log_in(
    session: &mut Session,
    client_id: &str,
    secret: &str,
    context: &mut EntryContext<'_>,
) -> Result<AccountId, Logout> {
    let call =
        RequestContext { venue: &mut *context.venue, session, transport: Transport::WebSocket, clock: context.clock };
    context.dispatcher.log_in(call, client_id, secret).map_err(|error| logout_of(error.into()))
}
