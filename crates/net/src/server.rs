//! The event loop: sockets in, application, commit, sockets out.
//!
//! One turn of the loop reads whatever has arrived, lets the application act on it, asks the application to make it
//! durable, and only then writes anything to anyone. Requests that arrive together share one commit.
//!
//! Holds       1. nothing the application says leaves before its `commit` has returned, but what it releases early;
//!             2. a turn costs what is active in it, not what is connected;
//!             3. a peer that does not read, or sends too much, stops nobody else, and neither do many who come at once.
//! Leaves out  bytes: a [`Connection`] bounds its own memory and speaks its own protocol.
//! Start at    [`Server::run`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use pitwire_tls::ServerConfig;
use pitwire_websocket::CloseCode;
use slab::Slab;
use socket2::SockRef;
use tracing::{debug, warn};

use crate::application::{Application, ConnectionId, Refusal};
use crate::clock::SystemClock;
use crate::connection::{Connection, Parting, READ_BYTES};
use crate::crowd::{Crowd, list};
use crate::doorkeeper::{Doorkeeper, House};
use crate::doors::Doors;
use crate::idle::IdleStrategy;
use crate::limits::{Addresses, Limits, Places};
use crate::link::Link;
use crate::notices::Notices;
use crate::turn::{Sending, Turn};
use crate::waker::Waker;

const DRAIN_NS: u64 = 2_000_000_000;
const SWEEP_NS: u64 = 1_000_000_000;
/// Of each socket, in the kernel: some hundreds of orders.
const RECEIVE_BYTES: usize = 128 * 1024;
/// Let in at each door in one turn: a tenth of a millisecond.
const ACCEPTS: usize = 16;
/// Connections beyond what their addresses may have that are heard before they are refused.
const EXTRAS_MOST: usize = 32;
/// Come and not let in: a storm's readers shall not have to knock again, a second later.
const BACKLOG: i32 = 4_096;
const ACCEPT_AGAIN_NS: u64 = 100_000_000;
/// How long a turn goes on acting when it cannot do everything at once: as long as its commit is going to take, so that
/// a slow disk is kept busy with large groups and a quick one makes nobody wait for them; between these.
const SHORTEST_TURN_NS: u64 = 25_000;
const LONGEST_TURN_NS: u64 = 2_000_000;

pub struct Server<A> {
    app: A,
    poll: Poll,
    listener: TcpListener,
    /// Who keeps the door for TLS, if there is one.
    secure: Option<Doorkeeper>,
    signals: mio::net::UnixStream,
    connections: Slab<Connection>,
    by_id: BTreeMap<ConnectionId, usize>,
    /// Places of those that something has happened to in this turn, or that can go on in the next.
    listed: Vec<usize>,
    crowd: Crowd,
    /// Empty between turns.
    served: Vec<usize>,
    /// Those whose sockets the application wants, and those that it has, with the addresses they count for.
    leaving: BTreeSet<ConnectionId>,
    away: BTreeMap<ConnectionId, Option<IpAddr>>,
    /// Those with much to ask were passed over in the last turn.
    put_off: bool,
    /// And so were their answers.
    held_back: bool,
    /// What a look between two pieces of a flood found, and what of it must wait for the next turn.
    glanced: Events,
    deferred: Deferred,
    next_id: u64,
    clock: SystemClock,
    notices: Notices,
    limits: Limits,
    doors: Doors,
    addresses: Addresses,
    idle: IdleStrategy,
    /// Whether the last turn received anything.
    had_input: bool,
    last_commit_ns: u64,
    buffer: Box<[u8]>,
    /// The application was told of something after its last commit.
    is_uncommitted: bool,
    places: Places,
    next_sweep_ns: u64,
    /// When to try again to accept what could not be; no event will remind us.
    accept_again_ns: Option<u64>,
    /// And that has been said.
    cannot_accept: bool,
    /// Connections beyond what their addresses may have, that may still ask how the server is.
    extras: usize,
    stopping_since: Option<u64>,
}

/// What is told once and is not a connection's.
#[derive(Clone, Copy, Default)]
struct Deferred {
    at_the_door: bool,
    signal: bool,
    /// Whoever woke the loop is heard in the next turn.
    is_woken: bool,
}

const LISTENER: Token = Token(usize::MAX);
const SIGNALS: Token = Token(usize::MAX - 1);
/// No connection's: an event of it is a turn, and nothing else.
const WAKER: Token = Token(usize::MAX - 2);
const SECURE: Token = Token(usize::MAX - 3);

impl<A: Application> Server<A> {
    /// `signals` becomes readable when the process is asked to end.
    pub fn new(app: A, listener: std::net::TcpListener, signals: UnixStream, clock: SystemClock) -> io::Result<Self> {
        prepare(&listener)?;
        signals.set_nonblocking(true)?;
        let (poll, limits) = (Poll::new()?, Limits::default());
        let doors = Doors::new(listener.local_addr()?, &limits.hosts);
        let mut listener = TcpListener::from_std(listener);
        let mut signals = mio::net::UnixStream::from_std(signals);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        Ok(Server {
            app,
            poll,
            listener,
            secure: None,
            signals,
            connections: Slab::new(),
            by_id: BTreeMap::new(),
            listed: Vec::new(),
            crowd: Crowd::default(),
            served: Vec::new(),
            leaving: BTreeSet::new(),
            away: BTreeMap::new(),
            put_off: false,
            held_back: false,
            glanced: Events::with_capacity(64),
            deferred: Deferred::default(),
            next_id: 1,
            clock,
            notices: Notices::default(),
            limits,
            doors,
            addresses: Addresses::default(),
            idle: IdleStrategy::default(),
            had_input: false,
            last_commit_ns: 0,
            buffer: vec![0; READ_BYTES].into(),
            is_uncommitted: false,
            places: Places::new(max_open_files()),
            next_sweep_ns: 0,
            accept_again_ns: None,
            cannot_accept: false,
            extras: 0,
            stopping_since: None,
        })
    }

    /// Instead of the default limits.
    pub fn with_limits(mut self, limits: Limits) -> io::Result<Self> {
        self.doors = Doors::new(self.local_address()?, &limits.hosts);
        self.limits = limits;
        Ok(self)
    }

    /// Sets how the loop waits for events. The default is [`IdleStrategy::Block`].
    pub fn with_idle_strategy(mut self, idle: IdleStrategy) -> Self {
        self.idle = idle;
        self
    }

    /// A second door, behind which everything is the same and goes through TLS. After limits are set.
    pub fn with_tls(mut self, listener: std::net::TcpListener, config: Arc<ServerConfig>) -> io::Result<Self> {
        prepare(&listener)?;
        let house = House {
            config,
            addresses: self.addresses.clone(),
            per_address: self.limits.connections_per_address,
            unfinished: Duration::from_nanos(self.limits.unfinished_ns),
            places: self.places.clone(),
        };
        let mut keeper = Doorkeeper::start(listener, house)?;
        self.poll.registry().register(&mut keeper.bell, SECURE, Interest::READABLE)?;
        self.secure = Some(keeper);
        Ok(self)
    }

    /// Lets other threads make the loop take a turn.
    pub fn with_waker(self, waker: &Waker) -> io::Result<Self> {
        waker.arm(self.poll.registry(), WAKER)?;
        Ok(self)
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until asked to end; gives the application back after its last commit. An error is the commit's: the
    /// caller must not say that anything uncommitted has happened.
    pub fn run(mut self) -> io::Result<A> {
        let mut events = Events::with_capacity(1024);
        loop {
            self.wait(&mut events)?;
            let now = self.clock.monotonic_ns();
            self.app.tick(now, &mut self.notices);
            self.forget_ended();
            if self.secure.is_some() {
                // The other door goes by it too; who leaves there wakes the loop.
                self.places.are_elsewhere(self.app.still_taken());
            }
            self.take_events(&events, now);
            self.act(now);
            self.sweep(now);
            let acted_ns = self.clock.monotonic_ns();
            if self.app.release_early() {
                self.flush_early(now, acted_ns);
            }
            let fresh = self.app.commit()?;
            self.is_uncommitted = false;
            let committed_ns = self.clock.monotonic_ns();
            self.last_commit_ns = committed_ns - acted_ns;
            self.deliver(now);
            self.flush(fresh, now, acted_ns, committed_ns);
            self.give_away();
            self.settle();
            if self.is_drained(now) {
                self.disconnect_all();
                self.app.commit()?;
                return Ok(self.app);
            }
        }
    }

    /// Waits for events as the idle strategy says, until the next deadline at the latest.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let timeout = self.timeout();
        let spin_ns = self.idle.spin_ns(std::mem::take(&mut self.had_input));
        if spin_ns == 0 || timeout == Some(Duration::ZERO) {
            return self.look(events, timeout);
        }
        let timeout_ns = timeout.map_or(u64::MAX, nanoseconds);
        let start = self.clock.monotonic_ns();
        while self.clock.monotonic_ns() - start < spin_ns.min(timeout_ns) {
            self.look(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(());
            }
            // A client on the same core can only send once it runs.
            std::thread::yield_now();
        }
        let timeout = self.timeout();
        self.look(events, timeout)
    }

    fn look(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let Deferred { at_the_door, signal, is_woken } = self.deferred;
        if !self.listed.is_empty() || self.crowd.waits() || self.is_uncommitted || at_the_door || signal || is_woken {
            return Some(Duration::ZERO);
        }
        let sweep = (!self.connections.is_empty()).then_some(self.next_sweep_ns);
        let next = match self.stopping_since {
            // The application starts nothing of its own any more, however long it has been due.
            Some(since) => [sweep, Some(since + DRAIN_NS), None],
            None => [sweep, self.app.next_due_ns(), self.accept_again_ns],
        };
        let next = next.into_iter().flatten().min().filter(|next| *next != u64::MAX)?;
        Some(Duration::from_nanos(next.saturating_sub(self.clock.monotonic_ns())))
    }

    fn take_events(&mut self, events: &Events, now: u64) {
        for event in events {
            match event.token() {
                LISTENER | SECURE => self.deferred.at_the_door = true,
                SIGNALS => self.deferred.signal = true,
                Token(at) => self.crowd.note(event, at, &mut self.connections, &mut self.listed),
            }
        }
        let Deferred { at_the_door, signal, is_woken: _ } = std::mem::take(&mut self.deferred);
        if signal {
            self.stop(now);
        }
        if at_the_door {
            self.accept(now);
        }
        if self.accept_again_ns.is_some_and(|again| now >= again) {
            self.accept(now);
        }
    }

    fn stop(&mut self, now: u64) {
        let mut byte = [0; 16];
        while matches!(self.signals.read(&mut byte), Ok(n) if n > 0) {}
        if self.stopping_since.is_some() {
            return;
        }
        self.stopping_since = Some(now);
        self.app.stopping(&mut self.notices);
        for id in self.by_id.keys() {
            self.notices.close(*id, CloseCode::GoingAway, A::STOPPING);
        }
    }

    fn is_drained(&self, now: u64) -> bool {
        self.stopping_since.is_some_and(|since| {
            now >= since + DRAIN_NS || self.connections.iter().all(|(_, connection)| connection.is_finished())
        })
    }

    fn accept(&mut self, now: u64) {
        self.accept_again_ns = None;
        let mut accepted = 0;
        while accepted < ACCEPTS
            && let Some((stream, from)) = self.accept_one(now)
        {
            accepted += 1;
            let is_counted = self.addresses.enter(from, self.limits.connections_per_address);
            self.admit(Link::plain(stream), from, is_counted, now);
        }
        let opened = self.let_in(now);
        // No event will tell of those who are still there.
        self.deferred.at_the_door |= accepted == ACCEPTS || opened == ACCEPTS;
        self.cannot_accept &= self.accept_again_ns.is_some();
    }

    /// Those whose handshakes are over.
    fn let_in(&mut self, now: u64) -> usize {
        self.secure.iter_mut().for_each(Doorkeeper::answer_bell);
        for count in 0..ACCEPTS {
            let Some((link, from)) = self.secure.as_ref().and_then(Doorkeeper::next) else { return count };
            self.admit(link, from, true, now);
        }
        ACCEPTS
    }

    /// Who is at the door; `None` when nobody is, or nobody can come in now.
    fn accept_one(&mut self, now: u64) -> Option<(TcpStream, IpAddr)> {
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => return Some((stream, from.ip())),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    // A peer that gave up while it waited says nothing about the next one.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        // Out of descriptors, most likely: those who are in must go on being served.
                        if !std::mem::replace(&mut self.cannot_accept, true) {
                            warn!(%error, "cannot accept connections; trying again until it works");
                        }
                        self.accept_again_ns = Some(now + ACCEPT_AGAIN_NS);
                        return None;
                    }
                },
            }
        }
    }

    /// `is_counted`: it is one of those that its address may have.
    fn admit(&mut self, mut link: Link, from: IpAddr, is_counted: bool, now: u64) {
        let at = self.connections.vacant_key();
        if !self.takes(&mut link) || !self.watch(&mut link, at) {
            if is_counted {
                self.addresses.leave(from);
            }
            return;
        }
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.by_id.insert(id, at);
        let connection = if is_counted {
            Connection::new(id, link, Some(from), now)
        } else if self.extras < EXTRAS_MOST {
            self.extras += 1;
            Connection::extra(id, link, now)
        } else {
            Connection::refused(id, link, &self.app.refusal(Refusal::TooManyConnections), now)
        };
        self.connections.insert(connection);
        self.crowd.list(&mut self.listed, &mut self.connections[at], at);
    }

    /// Whether one more may come in at all; it is told why not.
    fn takes(&mut self, link: &mut Link) -> bool {
        if self.stopping_since.is_some() {
            return false;
        }
        self.places.are_elsewhere(self.app.still_taken());
        // Whoever comes through the other door has one.
        let has_room = if link.place.is_some() {
            !self.places.are_exceeded()
        } else {
            link.place = self.places.enter();
            link.place.is_some()
        };
        if !has_room {
            // Best effort: the kernel's buffer takes this without waiting.
            let mut out = Vec::new();
            self.app.refusal(Refusal::TooManyConnections).write(&mut out, false, false);
            drop(link.write(&out));
        }
        has_room
    }

    fn watch(&self, link: &mut Link, at: usize) -> bool {
        if let Err(error) = link.stream.set_nodelay(true) {
            debug!(%error, "no TCP_NODELAY");
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watched = self.poll.registry().register(&mut link.stream, Token(at), interest);
        watched.inspect_err(|error| warn!(%error, "cannot watch a connection")).is_ok()
    }

    fn act(&mut self, now: u64) {
        let until = now + self.last_commit_ns.clamp(SHORTEST_TURN_NS, LONGEST_TURN_NS);
        let Server { app, notices, limits, doors, clock, buffer, connections, listed, put_off, .. } = self;
        let (poll, glanced, deferred) = (&mut self.poll, &mut self.glanced, &mut self.deferred);
        let crowd = &mut self.crowd;
        let mut turn = Turn { app, notices, limits, doors, clock, buffer, now, until, had_input: false };
        if turn.serve_each(connections, listed, put_off) {
            let mut glance = |connections: &mut Slab<Connection>, listed: &mut Vec<usize>| {
                glance(poll, glanced, (deferred, crowd), connections, listed)
            };
            turn.serve_more(connections, listed, &mut glance);
        }
        self.had_input = turn.had_input;
    }

    fn sweep(&mut self, now: u64) {
        if now < self.next_sweep_ns {
            return;
        }
        self.next_sweep_ns = now + SWEEP_NS;
        for (at, connection) in &mut self.connections {
            connection.sweep(&mut self.notices, &self.limits, now);
            if connection.is_gone() {
                list(&mut self.listed, connection, at);
            }
        }
    }

    /// Moves what the application said into the outboxes it is for.
    fn deliver(&mut self, now: u64) {
        let Server { notices, connections, by_id, listed, .. } = self;
        notices.drain(|to, kind, bytes| {
            let Some(at) = by_id.get(&to) else { return };
            if let Some(connection) = connections.get_mut(*at) {
                connection.take(kind, bytes, now);
                list(listed, connection, *at);
            }
        });
    }

    /// To those subscribers that wait for no answer and no notice of this turn: their own news come in order with these.
    fn flush_early(&mut self, now: u64, acted_ns: u64) {
        let Server { app, notices, connections, by_id, listed, clock, .. } = self;
        let waiting = notices.addressees();
        let mut readers = Vec::new();
        app.for_each_subscriber(|id| readers.extend(by_id.get(&id).filter(|_| !waiting.contains(&id))));
        let sending = Sending { clock, now, acted_ns, committed_ns: acted_ns };
        for at in readers {
            if let Some(connection) = connections.get_mut(at) {
                connection.flush(app, &sending);
                list(listed, connection, at);
            }
        }
    }

    fn flush(&mut self, fresh: bool, now: u64, acted_ns: u64, committed_ns: u64) {
        if fresh {
            let Server { app, connections, by_id, listed, .. } = self;
            app.for_each_subscriber(|id| {
                let Some(at) = by_id.get(&id) else { return };
                if let Some(connection) = connections.get_mut(*at) {
                    list(listed, connection, *at);
                }
            });
        }
        let (clock, all) = (self.clock, self.listed.len());
        let sending = Sending { clock: &clock, now, acted_ns, committed_ns };
        // First those who have nothing more to ask and wait.
        self.flush_those(all, false, &sending);
        self.held_back = !self.held_back && self.hold_back(all);
        if !self.held_back {
            self.flush_those(all, true, &sending);
        }
    }

    /// Of the first `all` on the list.
    fn flush_those(&mut self, all: usize, is_busy: bool, sending: &Sending<'_>) {
        for at in self.listed.iter().take(all) {
            if let Some(connection) = self.connections.get_mut(*at).filter(|found| found.is_busy() == is_busy) {
                connection.flush(&mut self.app, sending);
            }
        }
    }

    /// Whether answers to those with more to ask leave a turn later: writing to them would keep waiting whoever has come
    /// while the others were written to.
    fn hold_back(&mut self, all: usize) -> bool {
        let Server { poll, glanced, deferred, crowd, connections, listed, .. } = self;
        let has_busy = listed.iter().any(|at| connections.get(*at).is_some_and(Connection::is_busy));
        if !has_busy || !glance(poll, glanced, (deferred, crowd), connections, listed) {
            return false;
        }
        for at in listed.iter().take(all) {
            if let Some(connection) = connections.get_mut(*at).filter(|found| found.is_busy()) {
                connection.hold_back();
            }
        }
        true
    }

    /// Gives away the sockets that the application wants.
    fn give_away(&mut self) {
        self.notices.take_given_away(&mut self.leaving);
        let Server { app, connections, by_id, listed, leaving, stopping_since, .. } = self;
        leaving.retain(|id| {
            let Some(at) = by_id.get(id).filter(|_| stopping_since.is_none()) else { return false };
            let Some(connection) = connections.get_mut(*at) else { return false };
            let parting = connection.give_away(app);
            if parting == Parting::Gone {
                list(listed, connection, *at);
            }
            parting == Parting::NotYet
        });
    }

    /// Frees the places of connections that were given away and have ended.
    fn forget_ended(&mut self) {
        for id in self.notices.take_left() {
            if let Some(Some(address)) = self.away.remove(&id) {
                self.addresses.leave(address);
            }
        }
    }

    /// Lets go of those that are gone; keeps on the list those that need not wait for their sockets, those first whose
    /// turn has not come.
    fn settle(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        let mut served = std::mem::take(&mut self.served);
        let mut strangers = 0;
        let others_wait = self.crowd.waits();
        listed.retain(|at| {
            let Some(connection) = self.connections.get_mut(*at) else { return false };
            connection.is_listed = !connection.is_gone() && connection.wants_turn();
            let is_stranger = connection.is_listed && !connection.is_websocket();
            let (stays, was_served) = (connection.is_listed, std::mem::take(&mut connection.is_served));
            if connection.is_gone() {
                self.remove(*at);
            }
            if is_stranger && others_wait && was_served {
                // It has had its turn: those who wait come first.
                self.crowd.wait_again(*at);
                return false;
            }
            strangers += usize::from(is_stranger);
            if stays && was_served {
                served.push(*at);
            }
            stays && !was_served
        });
        listed.append(&mut served);
        self.crowd.begin(strangers, &mut listed);
        (self.listed, self.served) = (listed, served);
    }

    fn remove(&mut self, at: usize) {
        let mut connection = self.connections.remove(at);
        drop(self.poll.registry().deregister(&mut connection.link.stream));
        self.by_id.remove(&connection.id);
        self.extras -= usize::from(connection.is_extra);
        if connection.is_given_away {
            self.away.insert(connection.id, connection.counted);
            return;
        }
        if let Some(address) = connection.counted {
            self.addresses.leave(address);
        }
        if connection.is_websocket() {
            self.app.disconnected(connection.id, &mut self.notices);
            self.is_uncommitted = true;
        }
    }

    fn disconnect_all(&mut self) {
        let places: Vec<usize> = self.connections.iter().map(|(at, _)| at).collect();
        for at in places {
            self.remove(at);
        }
        for id in std::mem::take(&mut self.away).into_keys() {
            self.app.disconnected(id, &mut self.notices);
        }
    }
}

/// Looks at the sockets between two pieces of a flood. Not if all there are wait for their turn anyway.
fn glance(
    poll: &mut Poll,
    events: &mut Events,
    (deferred, crowd): (&mut Deferred, &mut Crowd),
    connections: &mut Slab<Connection>,
    listed: &mut Vec<usize>,
) -> bool {
    let before = listed.len();
    // An error here the loop's own look meets as well.
    if connections.len() == before || poll.poll(events, Some(Duration::ZERO)).is_err() {
        return false;
    }
    for event in events.iter() {
        match event.token() {
            LISTENER | SECURE => deferred.at_the_door = true,
            SIGNALS => deferred.signal = true,
            WAKER => deferred.is_woken = true,
            Token(at) => crowd.note(event, at, connections, listed),
        }
    }
    listed.len() > before
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn prepare(listener: &std::net::TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    SockRef::from(listener).listen(BACKLOG)?;
    // Connections inherit it. What waits in the kernel is late when it is read, and nobody's to count.
    SockRef::from(listener).set_recv_buffer_size(RECEIVE_BYTES)
}

/// Leaves descriptors for the journal, snapshots and the process itself.
fn max_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
    usize::try_from(limit).unwrap_or(1024).saturating_sub(64).max(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_woken_during_a_look_between_pieces_is_kept_for_the_next_turn() {
        let (mut poll, mut events, mut deferred) =
            (Poll::new().unwrap(), Events::with_capacity(4), Deferred::default());
        let waker = Waker::default();
        waker.arm(poll.registry(), WAKER).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connection = Connection::new(ConnectionId(1), Link::plain(mio::net::TcpStream::from_std(peer)), None, 0);
        let (mut connections, mut listed) = (Slab::new(), Vec::new());
        connections.insert(connection);
        let mut crowd = Crowd::default();
        let mut look = |deferred: &mut Deferred| {
            glance(&mut poll, &mut events, (deferred, &mut crowd), &mut connections, &mut listed)
        };
        assert!(!look(&mut deferred) && !deferred.is_woken);
        waker.wake();
        assert!(!look(&mut deferred), "nobody has asked anything");
        assert!(deferred.is_woken, "but somebody wants a turn");
    }
}
