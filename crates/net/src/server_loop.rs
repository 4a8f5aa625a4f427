//! The loop of a server: sockets in, application, commit, sockets out.
//!
//! One turn of the loop reads whatever has arrived, lets the application act on it, asks the
//! application to make it durable, and only then writes anything to anyone. Requests that arrive
//! together share one commit.
//!
//! Holds       1. nothing that the application sends leaves before its `commit` has returned,
//!                except public data that it releases early;
//!             2. the cost of a turn depends on active connections, not on all connections;
//!             3. a peer that does not read, or sends too much, stops no other connection, and
//!                neither do many that connect at once;
//!             4. a connection that has asked little is answered within about 0.2 ms of writing,
//!                however many others get notices and published messages.
//! Leaves out  bytes: a `Connection` bounds its own memory and speaks its own protocol.
//! Start at    [`ServerLoop::run`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::{IpAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use pitwire_tls::ServerConfig;
use pitwire_websocket::CloseCode;
use tracing::debug;

use crate::admission::{ACCEPTS, Admission, Newcomer, StreamNewcomer};
use crate::application::{Application, Refusal};
use crate::clock::SystemClock;
use crate::connection::{AdmissionClass, Connection, HandoffOutcome, READ_BYTES};
use crate::connection_id::ConnectionId;
use crate::connection_table::ConnectionTable;
use crate::context::{TurnContext, TurnTimes};
use crate::event_loop::{EventLoop, LoopEvent, LoopKind, LoopOptions};
use crate::idle::IdleStrategy;
use crate::limits::Limits;
use crate::notices::Notices;
use crate::origin::OriginPolicy;
use crate::outbox_budget::OutboxBudget;
use crate::outgoing;
use crate::quota::{AddressCounts, ConnectionQuota};
use crate::stream::Stream;
use crate::tls_acceptor::{TlsAcceptor, TlsSettings};
use crate::transport::{MessageTransport, TRANSPORT_LISTENER, TransportLoop};
use crate::turn::TurnScheduler;
use crate::waker::Waker;
use crate::write_lists::{PART_COST, WRITE_COST, WriteLists};

/// How long a stopping server waits for peers that do not read, in nanoseconds.
const DRAIN_NS: u64 = 2_000_000_000;
/// Time between two looks for timeouts, in nanoseconds.
const SWEEP_NS: u64 = 1_000_000_000;
/// Bounds of the time for which a turn goes on acting when it cannot do everything at once, in
/// nanoseconds. Within them it acts as long as its commit is going to take, so that a slow disk is
/// kept busy with large groups and a quick one does not delay answers.
const SHORTEST_TURN_NS: u64 = 25_000;
const LONGEST_TURN_NS: u64 = 2_000_000;

/// The wake sources of the loop.
const SIGNALS: u32 = 0;
const WAKER: u32 = 1;
const TLS_ACCEPTOR: u32 = 2;

/// The settings of a server.
pub(crate) struct ServerSettings {
    pub clock: SystemClock,
    pub limits: Limits,
    pub idle: IdleStrategy,
    pub loop_kind: LoopKind,
}

/// The sockets that a server accepts at.
pub(crate) struct Listeners {
    pub plain: TcpListener,
    pub tls: Option<(TcpListener, Arc<ServerConfig>)>,
    pub streams: Vec<TcpListener>,
}

/// Whether the server has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifecycle {
    Running,
    Stopping { since: u64 },
}

/// Events that are not about a connection and wait for the next turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PendingEvents {
    acceptable: bool,
    signalled: bool,
    woken: bool,
}

impl PendingEvents {
    fn note(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Acceptable(_) | LoopEvent::Woken(TLS_ACCEPTOR) => self.acceptable = true,
            LoopEvent::Woken(SIGNALS) => self.signalled = true,
            LoopEvent::Woken(_) => self.woken = true,
            LoopEvent::Readable(_) | LoopEvent::Writable(_) => {}
        }
    }
}

/// Connections that the application takes or has.
#[derive(Default)]
struct Handoffs {
    /// Connections that leave as soon as everything is written to them.
    leaving: BTreeSet<ConnectionId>,
    /// Connections that have left, with the addresses against which they count.
    away: BTreeMap<ConnectionId, Option<IpAddr>>,
}

/// Which work the last turn put off.
#[derive(Default)]
struct Fairness {
    /// Busy connections were not served.
    put_off: bool,
    /// The answers to busy connections were not written.
    held_back: bool,
}

/// A server that runs.
pub(crate) struct ServerLoop<A> {
    app: A,
    net: Box<dyn EventLoop>,
    signals: UnixStream,
    settings: ServerSettings,
    origins: OriginPolicy,
    table: ConnectionTable,
    admission: Admission,
    budget: OutboxBudget,
    handoffs: Handoffs,
    notices: Notices,
    fairness: Fairness,
    /// Empty between turns.
    write_lists: WriteLists,
    /// Events found between two parts of a flood, or between writes.
    polled: Vec<LoopEvent>,
    pending: PendingEvents,
    lifecycle: Lifecycle,
    /// Whether the last turn received anything.
    had_input: bool,
    last_commit_ns: u64,
    /// The application has acted on something after its last commit.
    is_uncommitted: bool,
    next_sweep_ns: u64,
}

impl<A: Application> ServerLoop<A> {
    /// Opens the event loop and adds the listeners.
    ///
    /// # Errors
    /// Fails if the event loop cannot be opened or the TLS acceptor cannot be started.
    pub fn open(
        app: A,
        settings: ServerSettings,
        listeners: Listeners,
        signals: UnixStream,
        waker: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let Listeners { plain: listener, tls, streams } = listeners;
        let receive_bytes = u32::try_from(READ_BYTES).map_err(io::Error::other)?;
        let mut net = settings.loop_kind.open(LoopOptions { receive_bytes, detaches: true })?;
        let origins = OriginPolicy::new(listener.local_addr()?.ip(), &settings.limits.hosts);
        net.add_wake_source(signals.try_clone()?.into(), SIGNALS)?;
        if let Some(waker) = waker {
            net.add_wake_source(waker, WAKER)?;
        }
        let (addresses, quota) = (AddressCounts::default(), ConnectionQuota::of_process(settings.limits.connections));
        let per_address = settings.limits.connections_per_address;
        let listener = net.add_listener(listener)?;
        let mut admission = Admission::new(listener, addresses.clone(), quota.clone(), per_address);
        if let Some((listener, config)) = tls {
            let unfinished = Duration::from_nanos(settings.limits.unfinished_ns);
            let shared = TlsSettings { config, addresses, per_address, unfinished, quota };
            let waker = Waker::default();
            net.add_wake_source(waker.wake_source()?, TLS_ACCEPTOR)?;
            admission.tls = Some(TlsAcceptor::start(listener, shared, waker)?);
        }
        for listener in streams {
            admission.streams.push(net.add_listener(listener)?);
        }
        let budget = OutboxBudget::new(&settings.limits);
        Ok(ServerLoop {
            app,
            net,
            signals,
            settings,
            origins,
            table: ConnectionTable::default(),
            admission,
            budget,
            handoffs: Handoffs::default(),
            notices: Notices::default(),
            fairness: Fairness::default(),
            write_lists: WriteLists::default(),
            polled: Vec::new(),
            pending: PendingEvents::default(),
            lifecycle: Lifecycle::Running,
            had_input: false,
            last_commit_ns: 0,
            is_uncommitted: false,
            next_sweep_ns: 0,
        })
    }

    /// Serves the byte streams of a transport, too. Must be called before the first turn, because
    /// it changes the tokens of the sockets.
    pub fn with_transport(mut self, transport: Box<dyn MessageTransport>) -> Self {
        self.admission.streams.push(TRANSPORT_LISTENER);
        ServerLoop { net: Box::new(TransportLoop::new(self.net, transport)), ..self }
    }

    /// Serves until the process has to end, and returns the application after its last commit.
    ///
    /// # Errors
    /// Fails if a commit has failed or the kernel refuses to wait.
    pub fn run(mut self) -> io::Result<A> {
        let mut events = Vec::with_capacity(1024);
        loop {
            self.wait(&mut events)?;
            let now = self.settings.clock.monotonic_ns();
            self.app.tick(now, &mut self.notices);
            self.forget_ended();
            if self.admission.tls.is_some() {
                // The TLS acceptor counts by it too; a connection that ends elsewhere wakes the
                // loop.
                self.admission.quota.set_handed_off(self.app.handed_off());
            }
            self.take_events(&events, now);
            self.act(now);
            self.check_timeouts(now);
            self.open_outgoing(now);
            let acted_ns = self.settings.clock.monotonic_ns();
            if self.app.release_early() {
                self.flush_early(now, acted_ns);
            }
            let has_new = self.app.commit()?;
            self.is_uncommitted = false;
            let committed_ns = self.settings.clock.monotonic_ns();
            self.last_commit_ns = committed_ns - acted_ns;
            self.deliver(now);
            self.flush(has_new, now, acted_ns, committed_ns);
            self.enforce_budget();
            self.hand_off();
            self.end_turn();
            if self.is_drained(now) {
                self.disconnect_all();
                self.app.commit()?;
                return Ok(self.app);
            }
        }
    }

    /// Waits for events as the idle strategy says, until the next deadline at the latest.
    fn wait(&mut self, events: &mut Vec<LoopEvent>) -> io::Result<()> {
        let timeout = self.timeout();
        let spin_ns = self.settings.idle.spin_ns(std::mem::take(&mut self.had_input));
        if spin_ns == 0 || timeout == Some(Duration::ZERO) {
            return self.net.wait(timeout, events);
        }
        let timeout_ns = timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let start = self.settings.clock.monotonic_ns();
        while self.settings.clock.monotonic_ns() - start < spin_ns.min(timeout_ns) {
            self.net.wait(Some(Duration::ZERO), events)?;
            if !events.is_empty() {
                return Ok(());
            }
            // A client on the same core can only send once it runs.
            std::thread::yield_now();
        }
        let timeout = self.timeout();
        self.net.wait(timeout, events)
    }

    fn timeout(&self) -> Option<Duration> {
        let has_work = !self.table.listed.is_empty() || self.table.queue.has_waiting() || self.is_uncommitted;
        if has_work || self.pending != PendingEvents::default() {
            return Some(Duration::ZERO);
        }
        let sweep = (!self.table.connections.is_empty()).then_some(self.next_sweep_ns);
        let next = match self.lifecycle {
            // The application starts no timed work any more, even if it is overdue.
            Lifecycle::Stopping { since } => [sweep, Some(since + DRAIN_NS), None],
            Lifecycle::Running => [sweep, self.app.next_due_ns(), self.admission.accept_again_ns],
        };
        let next = next.into_iter().flatten().min().filter(|next| *next != u64::MAX)?;
        Some(Duration::from_nanos(next.saturating_sub(self.settings.clock.monotonic_ns())))
    }

    fn take_events(&mut self, events: &[LoopEvent], now: u64) {
        for event in events {
            self.pending.note(*event);
            self.table.note(*event);
        }
        let PendingEvents { acceptable, signalled, woken: _ } = std::mem::take(&mut self.pending);
        if signalled {
            self.stop(now);
        }
        if acceptable || self.admission.accept_again_ns.is_some_and(|again| now >= again) {
            self.accept(now);
        }
    }

    fn stop(&mut self, now: u64) {
        let mut bytes = [0; 16];
        while matches!(self.signals.read(&mut bytes), Ok(count) if count > 0) {}
        if self.lifecycle != Lifecycle::Running {
            return;
        }
        self.lifecycle = Lifecycle::Stopping { since: now };
        self.app.stopping(&mut self.notices);
        for id in self.table.ids() {
            self.notices.close(id, CloseCode::GoingAway, A::STOPPING);
        }
    }

    fn is_drained(&self, now: u64) -> bool {
        let Lifecycle::Stopping { since } = self.lifecycle else { return false };
        now >= since + DRAIN_NS || self.table.connections.iter().all(|(_, connection)| connection.is_finished())
    }

    fn accept(&mut self, now: u64) {
        self.admission.accept_again_ns = None;
        let (mut accepted, mut secure, mut streams) = (0, 0, 0);
        while accepted < ACCEPTS
            && let Some(newcomer) = self.admission.accept(&mut *self.net, now)
        {
            accepted += 1;
            self.admit(newcomer, now);
        }
        while secure < ACCEPTS
            && let Some(newcomer) = self.admission.accept_secure(&mut *self.net, now)
        {
            secure += 1;
            self.admit(newcomer, now);
        }
        while streams < ACCEPTS
            && let Some(newcomer) = self.admission.accept_stream(&mut *self.net, now)
        {
            streams += 1;
            self.admit_stream(&newcomer, now);
        }
        // No event will tell of connections that still wait.
        self.pending.acceptable |= [accepted, secure, streams].contains(&ACCEPTS);
        self.admission.end_round();
    }

    fn admit(&mut self, newcomer: Newcomer, now: u64) {
        let (token, peer, is_counted) = (newcomer.token, newcomer.peer, newcomer.is_counted);
        let standing = self.admission.standing(&newcomer);
        let (session, received, permit) = match newcomer.secure {
            Some(secure) => (secure.session, secure.received, Some(secure.permit)),
            None => (None, Vec::new(), None),
        };
        let mut stream = Stream::with_session(token, session);
        self.admission.quota.set_handed_off(self.app.handed_off());
        // A TLS connection got its permit before its handshake.
        let permit = match permit {
            Some(permit) => Some(permit).filter(|_| !self.admission.quota.is_exceeded()),
            None => self.admission.quota.acquire(),
        };
        if permit.is_none() || self.lifecycle != Lifecycle::Running {
            if permit.is_none() && self.lifecycle == Lifecycle::Running {
                // Best effort: the kernel's buffer takes this without waiting.
                let mut out = Vec::new();
                self.app.refusal(Refusal::TooManyConnections).write(&mut out, false, false);
                stream.send(&mut *self.net, &[&out]);
            }
            self.net.close(token);
            return self.admission.release(standing);
        }
        let mut connection =
            Connection::new(self.admission.next_id(), stream, standing, permit, self.budget.meter(), now);
        connection.push_input(&received);
        if standing == AdmissionClass::Refused {
            connection.refuse(&self.app.refusal(Refusal::TooManyConnections), now);
        }
        debug_assert_eq!(connection.counted_address(), is_counted.then_some(peer));
        let at = self.table.insert(connection);
        self.table.list(at);
    }

    fn admit_stream(&mut self, newcomer: &StreamNewcomer, now: u64) {
        let StreamNewcomer { token, peer, listener } = *newcomer;
        self.admission.quota.set_handed_off(self.app.handed_off());
        let permit = self.admission.quota.acquire().filter(|_| self.lifecycle == Lifecycle::Running);
        if permit.is_none() {
            return self.net.close(token);
        }
        let (id, stream) = (self.admission.next_id(), Stream::plain(token));
        let (standing, meter) = (AdmissionClass::Stream, self.budget.meter());
        let connection = Connection::new(id, stream, standing, permit, meter, now).into_byte_stream();
        let at = self.table.insert(connection);
        self.app.stream_opened(id, listener, peer, &mut self.notices);
        self.table.list(at);
    }

    /// Opens the connections that the application has asked for.
    fn open_outgoing(&mut self, now: u64) {
        for (id, address) in self.notices.take_outgoing() {
            let permit = self.admission.quota.acquire().filter(|_| self.lifecycle == Lifecycle::Running);
            let opened = outgoing::connect(address).and_then(|socket| self.net.add_socket(socket.into()));
            let (Some(permit), Ok(token)) = (permit, opened.as_ref().copied()) else {
                debug!(?opened, %address, "cannot open a connection");
                opened.into_iter().for_each(|token| self.net.close(token));
                self.app.disconnected(id, &mut self.notices);
                continue;
            };
            let (stream, standing) = (Stream::plain(token), AdmissionClass::Outgoing);
            let connection = Connection::new(id, stream, standing, Some(permit), self.budget.meter(), now);
            let at = self.table.insert(connection.into_byte_stream());
            self.table.list_now(at);
        }
    }

    fn act(&mut self, now: u64) {
        let until = now + self.last_commit_ns.clamp(SHORTEST_TURN_NS, LONGEST_TURN_NS);
        let ServerLoop { app, net, notices, settings, origins, table, polled, pending, .. } = self;
        let mut turn = TurnContext {
            app,
            net: &mut **net,
            notices,
            limits: &settings.limits,
            origins,
            clock: &settings.clock,
            now,
            until,
            had_input: false,
        };
        let mut scheduler = TurnScheduler { turn: &mut turn, table };
        if scheduler.serve_each(&mut self.fairness.put_off) {
            scheduler.serve_more(&mut |table, net| poll(net, polled, pending, table));
        }
        self.had_input = turn.had_input;
    }

    fn check_timeouts(&mut self, now: u64) {
        if now < self.next_sweep_ns {
            return;
        }
        self.next_sweep_ns = now + SWEEP_NS;
        let mut gone = Vec::new();
        for (at, connection) in &mut self.table.connections {
            connection.check_timeouts(&mut self.notices, &self.settings.limits, now);
            if connection.is_gone() {
                gone.push(at);
            }
        }
        gone.into_iter().for_each(|at| self.table.list_now(at));
        self.budget.forget_payers();
    }

    /// Moves the notices of the turn into the outboxes of their connections.
    fn deliver(&mut self, now: u64) {
        let ServerLoop { notices, table, budget, .. } = self;
        for (id, payer) in notices.take_charges() {
            if let Some(connection) = table.index_of(id).and_then(|at| table.connections.get_mut(at)) {
                budget.charge(connection.meter(), payer);
            }
        }
        notices.drain(|to, kind, bytes| {
            let Some(at) = table.index_of(to) else { return };
            if let Some(connection) = table.connections.get_mut(at) {
                connection.take(kind, bytes, now);
            }
            table.list_now(at);
        });
    }

    /// Writes to the subscribers that wait for no answer and no notice of this turn: what these
    /// read has to come in order with their own messages.
    fn flush_early(&mut self, now: u64, acted_ns: u64) {
        let ServerLoop { app, notices, table, .. } = self;
        let waiting = notices.addressees();
        let mut readers = Vec::new();
        app.for_each_subscriber(|id| readers.extend(table.index_of(id).filter(|_| !waiting.contains(&id))));
        let clock = self.settings.clock;
        let times = TurnTimes { clock: &clock, now, acted_ns, committed_ns: acted_ns };
        self.write_in_parts(&readers, &times);
        readers.into_iter().for_each(|at| self.table.list_now(at));
    }

    fn flush(&mut self, has_new: bool, now: u64, acted_ns: u64, committed_ns: u64) {
        if has_new {
            let ServerLoop { app, table, .. } = self;
            app.for_each_subscriber(|id| {
                if let Some(at) = table.index_of(id) {
                    table.list_now(at);
                }
            });
        }
        let clock = self.settings.clock;
        let times = TurnTimes { clock: &clock, now, acted_ns, committed_ns };
        let mut lists = std::mem::take(&mut self.write_lists);
        lists.fill(&self.table);
        // First the connections that have nothing more to ask and wait.
        for at in &lists.asking {
            self.write(*at, &times);
        }
        // Answers to busy connections wait for a part of the notices, not for all of them.
        let begun = self.write_part(&lists.listening, &times);
        let listening = &lists.listening[begun..];
        // They are held back for one turn, never for two in a row.
        let may_hold = !self.fairness.held_back && !lists.busy.is_empty();
        self.fairness.held_back = may_hold && self.has_new_request();
        let is_cut = if self.fairness.held_back {
            self.hold_back(&lists.busy);
            true
        } else {
            self.write_in_parts(&lists.busy, &times)
        };
        let is_behind = if !listening.is_empty() && (is_cut || self.has_new_request()) {
            self.hold_back(listening);
            true
        } else {
            self.write_in_parts(listening, &times)
        };
        self.notices.set_behind(is_behind);
        lists.clear();
        self.write_lists = lists;
    }

    /// Writes to a connection. Returns the cost.
    fn write(&mut self, at: usize, times: &TurnTimes<'_>) -> usize {
        let Some(connection) = self.table.connections.get_mut(at) else { return 0 };
        match connection.flush(&mut self.app, &mut *self.net, times) {
            0 => 0,
            bytes => bytes + WRITE_COST,
        }
    }

    /// Writes to connections, at least one part of them. Looks at the sockets before each further
    /// part: if a light connection has sent a request meanwhile, the others wait for the next turn.
    /// Returns whether they do.
    fn write_in_parts(&mut self, mut list: &[usize], times: &TurnTimes<'_>) -> bool {
        loop {
            list = &list[self.write_part(list, times)..];
            if list.is_empty() {
                return false;
            }
            if self.has_new_request() {
                self.hold_back(list);
                return true;
            }
        }
    }

    /// Writes to the first connections of a list. Returns to how many.
    fn write_part(&mut self, list: &[usize], times: &TurnTimes<'_>) -> usize {
        let (mut cost, mut count) = (0, 0);
        while cost < PART_COST
            && let Some(at) = list.get(count)
        {
            cost += self.write(*at, times);
            count += 1;
        }
        count
    }

    /// Looks at the sockets. Returns whether a connection has sent something that comes next: what
    /// would be written now would delay it.
    fn has_new_request(&mut self) -> bool {
        let ServerLoop { net, polled, pending, table, .. } = self;
        // An error shows again when the loop waits.
        if net.wait(Some(Duration::ZERO), polled).is_err() {
            return false;
        }
        let mut has_request = false;
        for event in &*polled {
            pending.note(*event);
            table.note(*event);
            has_request |= table.is_request(*event);
        }
        has_request
    }

    fn hold_back(&mut self, list: &[usize]) {
        for at in list {
            if let Some(connection) = self.table.connections.get_mut(*at) {
                connection.hold_back();
            }
        }
    }

    /// Ends the connections with the most unread bytes if all of them hold too many, and lists the
    /// connections that waited for their payer's budget and can go on.
    fn enforce_budget(&mut self) {
        let ServerLoop { table, budget, .. } = self;
        let mut excess = budget.excess_bytes();
        if excess > 0 {
            let counted = table.connections.iter_mut().map(|(at, connection)| (connection.meter().counted(), at));
            let mut largest: Vec<(usize, usize)> = counted.filter(|(bytes, _)| *bytes > 0).collect();
            largest.sort_unstable();
            while excess > 0
                && let Some((bytes, at)) = largest.pop()
            {
                excess = excess.saturating_sub(bytes);
                if let Some(connection) = table.connections.get_mut(at) {
                    connection.abandon();
                }
                table.list_now(at);
            }
        }
        if budget.take_freed() {
            let waiting = table.connections.iter().filter(|(_, connection)| connection.wants_turn());
            let waiting: Vec<usize> = waiting.map(|(at, _)| at).collect();
            waiting.into_iter().for_each(|at| table.list_now(at));
        }
    }

    /// Gives the application the sockets that it asked for.
    fn hand_off(&mut self) {
        let ServerLoop { app, net, table, handoffs, lifecycle, notices, .. } = self;
        notices.take_handoffs(&mut handoffs.leaving);
        handoffs.leaving.retain(|id| {
            let Some(at) = table.index_of(*id).filter(|_| *lifecycle == Lifecycle::Running) else { return false };
            let Some(connection) = table.connections.get_mut(at) else { return false };
            let outcome = connection.hand_off(app, &mut **net);
            if outcome == HandoffOutcome::Done {
                table.list_now(at);
            }
            outcome == HandoffOutcome::NotYet
        });
    }

    /// Forgets the connections that were handed off and have ended.
    fn forget_ended(&mut self) {
        for id in self.notices.take_closed_elsewhere() {
            if let Some(Some(address)) = self.handoffs.away.remove(&id) {
                self.admission.addresses.release(address);
            }
        }
    }

    /// Removes ended connections, and lists the ones that can go on at once.
    fn end_turn(&mut self) {
        let ServerLoop { app, net, table, admission, handoffs, notices, is_uncommitted, .. } = self;
        table.end_turn(|table, at| {
            *is_uncommitted |= remove(app, &mut **net, table, admission, handoffs, notices, at);
        });
    }

    fn disconnect_all(&mut self) {
        let ServerLoop { app, net, table, admission, handoffs, notices, .. } = self;
        let indexes: Vec<usize> = table.connections.iter().map(|(at, _)| at).collect();
        for at in indexes {
            remove(app, &mut **net, table, admission, handoffs, notices, at);
        }
        for id in std::mem::take(&mut handoffs.away).into_keys() {
            app.disconnected(id, notices);
        }
    }
}

/// Removes a connection. Returns whether it called the application.
fn remove<A: Application>(
    app: &mut A,
    net: &mut dyn EventLoop,
    table: &mut ConnectionTable,
    admission: &mut Admission,
    handoffs: &mut Handoffs,
    notices: &mut Notices,
    at: usize,
) -> bool {
    let connection = table.remove(at);
    net.close(connection.stream.token());
    if connection.is_handed_off() {
        handoffs.away.insert(connection.id, connection.counted_address());
        return false;
    }
    admission.release(connection.standing);
    if connection.is_full() {
        app.outbox_changed(connection.id, true);
    }
    if connection.has_session() {
        app.disconnected(connection.id, notices);
    }
    connection.has_session()
}

/// Looks at the sockets between two parts of a flood, unless all connections are listed anyway.
/// Returns whether a connection was listed.
fn poll(
    net: &mut dyn EventLoop,
    events: &mut Vec<LoopEvent>,
    pending: &mut PendingEvents,
    table: &mut ConnectionTable,
) -> bool {
    let before = table.listed.len();
    // An error shows again when the loop waits.
    if table.connections.len() == before || net.wait(Some(Duration::ZERO), events).is_err() {
        return false;
    }
    for event in &*events {
        pending.note(*event);
        table.note(*event);
    }
    table.listed.len() > before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_during_a_look_between_parts_is_kept_for_the_next_turn() {
        let mut net = LoopKind::Epoll.open(LoopOptions { receive_bytes: 4096, detaches: true }).unwrap();
        let waker = Waker::default();
        net.add_wake_source(waker.wake_source().unwrap(), WAKER).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let token = net.add_socket(peer.into()).unwrap();
        let mut table = ConnectionTable::default();
        let meter = OutboxBudget::new(&Limits::default()).meter();
        let stream = Stream::plain(token);
        table.insert(Connection::new(ConnectionId(1), stream, AdmissionClass::Refused, None, meter, 0));
        let (mut events, mut pending) = (Vec::new(), PendingEvents::default());
        // The new socket reports that it takes output.
        poll(&mut *net, &mut events, &mut pending, &mut table);
        table.listed.clear();
        assert!(!poll(&mut *net, &mut events, &mut pending, &mut table) && !pending.woken);
        waker.wake();
        assert!(!poll(&mut *net, &mut events, &mut pending, &mut table), "no connection has asked anything");
        assert!(pending.woken, "the next turn has to come at once");
    }
}
