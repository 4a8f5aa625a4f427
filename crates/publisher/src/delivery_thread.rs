//! A delivery thread: drives a delivery core with an event loop and a clock.
//!
//! Holds       1. A turn serves, accepts and reads a bounded amount. A delivery pass over many
//!                subscribers takes several turns, so that handshakes and input need not wait for
//!                its end, and a connection storm does not delay existing subscribers.
//!             2. A turn reads a limited number of bytes per connection, so that a flooding client
//!                does not delay others.
//!             3. Existing subscribers are served while the process has no free file descriptors.
//! Start at    [`run`].

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use pitwire_net::event_loop::{
    AcceptedSocket, BatchedSend, EventLoop, ListenerId, LoopEvent, LoopKind, LoopOptions, PARTS_MAX, SendOutcome, Token,
};
use pitwire_net::{HttpResponse, Receipt, ServerConfig, Session, Stream, monotonic_ns};
use socket2::SockRef;
use tracing::warn;

use crate::counters::add;
use crate::delivery_core::{DeliveryCore, Next, PIECES, PassKind, Pieces};
use crate::inbox::Inbox;
use crate::pass_timer::{BatchingPolicy, PassTimer};
use crate::statistics::SharedStatistics;

/// Options of the event loop. No socket leaves a delivery thread.
pub(crate) const LOOP_OPTIONS: LoopOptions = LoopOptions { receive_bytes: 16 * 1024, detaches: false };

/// Most sends in one batch. The inbox is checked after each batch of a pass; a batch takes less
/// than half a millisecond.
const BATCH: usize = 64;
/// Most subscribers that a pass serves in one turn, and the bytes that end the turn of a pass.
const TURN_SUBSCRIBERS: usize = 4 * BATCH;
const TURN_BYTES: usize = 1 << 20;
/// Most connections accepted in one turn.
const ACCEPTS: usize = 64;
/// Connections above the limit that may wait for their refusal.
const REFUSED_MOST: usize = 32;
/// Most bytes read from one connection in one turn.
const READ_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, in nanoseconds.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;
/// Longest sleep of a thread with connections, in nanoseconds. Equals the tick of the timer wheel.
const TICK_NS: u64 = 250_000_000;
/// Time limit for closing all connections at shutdown, in nanoseconds.
const DRAIN_NS: u64 = 2_500_000_000;

const _: () = assert!(PIECES <= PARTS_MAX);

/// Arguments of a delivery thread.
pub(crate) struct ThreadSetup {
    pub core: DeliveryCore,
    pub inbox: Arc<Inbox>,
    pub statistics: Arc<SharedStatistics>,
    /// Number of this delivery thread.
    pub thread: usize,
    /// Listening socket. Without one, sockets come through the inbox only.
    pub listener: Option<TcpListener>,
    /// TLS settings of the listening socket.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connection limit across all threads. Further clients get status 503.
    pub connections_most: usize,
    pub batching: BatchingPolicy,
}

/// Socket state of one slot.
struct SubscriberSocket {
    stream: Stream,
    /// The client's address, if it is counted.
    counted_peer: Option<IpAddr>,
    input: Input,
    /// Whether the slot is in [`DeliveryThread::unread`].
    is_unread: bool,
}

/// Whether a socket may have bytes to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    /// It may have bytes.
    Readable,
    /// The peer has ended its side, or the connection is broken. The core knows it.
    Ended,
}

/// The accepting side of a thread.
struct Acceptor {
    listener: Option<ListenerId>,
    tls: Option<Arc<ServerConfig>>,
    connections_most: usize,
    /// Whether connections may wait to be accepted.
    is_ready: bool,
    /// The time of the next attempt, after an accept has failed.
    again_ns: Option<u64>,
    has_reported_full: bool,
}

/// A delivery pass over streams that is under way.
#[derive(Default)]
struct Pass {
    is_under_way: bool,
    slots: Vec<u32>,
    /// Number of slots that have been served.
    served: usize,
}

/// One subscriber's turn in a batch.
struct Turn {
    slot: u32,
    /// Bytes sent in this turn.
    bytes: usize,
    /// Bytes offered with the current send, and its result.
    offered: usize,
    sent: Option<SendOutcome>,
}

/// Lists that are reused, so that a batch allocates nothing.
#[derive(Default)]
struct BatchBuffers {
    turns: Vec<Turn>,
    pieces: Vec<Pieces<'static>>,
    outgoing: Vec<BatchedSend<'static>>,
    results: Vec<SendOutcome>,
}

impl SubscriberSocket {
    /// Notes that something has arrived. After the end of the input nothing counts.
    fn arrived(&mut self) {
        if self.input == Input::Nothing {
            self.input = Input::Readable;
        }
    }
}

pub(crate) struct DeliveryThread {
    core: DeliveryCore,
    net: Box<dyn EventLoop>,
    inbox: Arc<Inbox>,
    statistics: Arc<SharedStatistics>,
    thread: usize,
    acceptor: Acceptor,
    /// Connections by slot of the core.
    connections: Vec<Option<SubscriberSocket>>,
    /// Slots by token of the event loop.
    slots: Vec<u32>,
    timer: PassTimer,
    pass: Pass,
    buffers: BatchBuffers,
    /// Slots with individual frames to send.
    own: Vec<u32>,
    finished: Vec<u32>,
    /// Slots with more input than one turn reads.
    unread: Vec<u32>,
    arrivals: Vec<(u32, std::net::TcpStream)>,
    stopping_ns: Option<u64>,
}

/// Opens the event loop of a thread, on this thread.
///
/// # Errors
/// Fails if the event loop cannot be opened.
pub(crate) fn open(setup: ThreadSetup, kind: LoopKind) -> io::Result<DeliveryThread> {
    let mut net = kind.open(LOOP_OPTIONS)?;
    net.add_wake_source(setup.inbox.wake_source()?, 0)?;
    let listener = setup.listener.map(|listener| net.add_listener(listener)).transpose()?;
    Ok(DeliveryThread {
        core: setup.core,
        net,
        inbox: setup.inbox,
        statistics: setup.statistics,
        thread: setup.thread,
        acceptor: Acceptor {
            listener,
            tls: setup.tls,
            connections_most: setup.connections_most,
            is_ready: false,
            again_ns: None,
            has_reported_full: false,
        },
        connections: Vec::new(),
        slots: Vec::new(),
        timer: PassTimer::new(setup.batching),
        pass: Pass::default(),
        buffers: BatchBuffers::default(),
        own: Vec::new(),
        finished: Vec::new(),
        unread: Vec::new(),
        arrivals: Vec::new(),
        stopping_ns: None,
    })
}

impl DeliveryThread {
    /// Serves connections until a stop was requested and all have closed.
    ///
    /// # Errors
    /// Fails if the event loop cannot go on.
    pub fn serve_all(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            let now_ns = monotonic_ns();
            self.core.set_now(now_ns);
            let has_more = self.take_inbox();
            self.deliver(now_ns);
            self.close_finished();
            if self.is_over(now_ns) {
                return Ok(());
            }
            self.wait(&mut events, has_more)?;
            self.core.has_waited(monotonic_ns());
            self.read_unread();
            for event in &events {
                self.note(*event);
            }
            self.accept();
            self.close_finished();
        }
    }

    /// Takes in messages and adopts the sockets among them. Returns whether more may wait.
    fn take_inbox(&mut self) -> bool {
        let has_more =
            if self.pass.is_under_way { self.core.take_meanwhile(&self.inbox) } else { self.core.take(&self.inbox) };
        self.adopt_arrivals();
        has_more
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        if !self.core.is_stopping() {
            return false;
        }
        let since_ns = *self.stopping_ns.get_or_insert(now_ns);
        if self.acceptor.listener.take().is_some() {
            self.net.close_listeners();
        }
        self.core.is_empty() || now_ns >= since_ns + DRAIN_NS
    }

    fn wait(&mut self, events: &mut Vec<LoopEvent>, has_more: bool) -> io::Result<()> {
        let (has_own, has_streams) = self.core.has_due();
        let is_busy = self.pass.is_under_way || has_more || has_own;
        let now_ns = monotonic_ns();
        let mut may_sleep = false;
        let wait_ns = if is_busy || self.acceptor.is_ready || !self.unread.is_empty() {
            Some(0)
        } else if has_streams {
            // The batching policy delays the pass; a new message need not wake this thread.
            Some(self.timer.wait_ns(now_ns))
        } else {
            may_sleep = self.inbox.may_sleep();
            match (may_sleep, self.acceptor.again_ns) {
                (false, _) => Some(0),
                (true, Some(again_ns)) => Some(again_ns.saturating_sub(now_ns).min(TICK_NS)),
                (true, None) if self.core.is_empty() && !self.core.is_stopping() => None,
                (true, None) => Some(TICK_NS),
            }
        };
        let waited = self.net.wait(wait_ns.map(Duration::from_nanos), events);
        if may_sleep {
            self.inbox.is_awake();
        }
        waited
    }

    fn note(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Woken(_) => {}
            LoopEvent::Acceptable(_) => self.acceptor.is_ready = true,
            LoopEvent::Readable(token) => {
                let Some(slot) = self.slot_of(token) else { return };
                if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
                    connection.arrived();
                }
                self.read(slot);
            }
            LoopEvent::Writable(token) => {
                let Some(slot) = self.slot_of(token) else { return };
                let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
                match connection.stream.flush(self.net.as_mut()) {
                    SendOutcome::Bytes(_) => self.core.writable(slot),
                    SendOutcome::Blocked => {}
                    SendOutcome::Failed => self.core.finish(slot),
                }
            }
        }
    }

    fn slot_of(&self, token: Token) -> Option<u32> {
        self.slots.get(token.index()).copied()
    }

    fn accept(&mut self) {
        if self.acceptor.again_ns.is_some_and(|again_ns| monotonic_ns() >= again_ns) {
            (self.acceptor.again_ns, self.acceptor.is_ready) = (None, true);
        }
        let Some(listener) = self.acceptor.listener.filter(|_| self.acceptor.is_ready) else {
            self.acceptor.is_ready = false;
            return;
        };
        for _ in 0..ACCEPTS {
            match self.net.accept(listener) {
                Ok(Some(accepted)) => self.admit(accepted),
                Ok(None) => {
                    self.acceptor.is_ready = false;
                    return;
                }
                Err(error) => {
                    // Probably out of file descriptors. Stop accepting for a while, or poll would
                    // spin.
                    self.acceptor.is_ready = false;
                    if self.acceptor.again_ns.replace(monotonic_ns() + ACCEPT_AGAIN_NS).is_none() {
                        warn!(%error, "cannot accept connections; trying again until it works");
                    }
                    return;
                }
            }
        }
    }

    fn admit(&mut self, AcceptedSocket { token, peer }: AcceptedSocket) {
        let most = self.acceptor.connections_most;
        let places = self.net.capacity().saturating_sub(REFUSED_MOST).max(1);
        let (here, all) = (self.core.len(), self.statistics.connections());
        let is_full = here >= places || all >= most;
        let counted_peer = peer.filter(|_| self.statistics.counts_addresses() && !is_full);
        let is_one_too_many = counted_peer.is_some_and(|peer| !self.statistics.enter_address(peer));
        let counted_peer = counted_peer.filter(|_| !is_one_too_many);
        if is_full || is_one_too_many {
            // A refused connection stays open until its refusal is sent, so their number is limited
            // too.
            if all >= most.saturating_add(REFUSED_MOST) || here >= places.saturating_add(REFUSED_MOST) {
                add(&self.statistics.counters(self.thread).refused_total, 1);
                return self.net.close(token);
            }
        }
        if here >= places && !std::mem::replace(&mut self.acceptor.has_reported_full, true) {
            warn!(
                places,
                "a thread is full: each holds as many connections as the process may open files; start with more --threads, \
                 or raise the limit (ulimit -n)"
            );
        }
        let session = match self.acceptor.tls.as_ref().map(Session::new).transpose() {
            Ok(session) => session,
            Err(error) => {
                counted_peer.into_iter().for_each(|peer| self.statistics.leave_address(peer));
                self.net.close(token);
                return warn!(%error, "cannot start TLS on a connection; closing it");
            }
        };
        let slot = self.core.insert();
        if is_full {
            // An extra delay of 0 to 3 seconds, so that refused clients do not all return in the
            // same second.
            let spread_s = u32::try_from(monotonic_ns() / 1_000 % 4).unwrap_or(0);
            let answer = HttpResponse::text(503, "too many connections; try again later");
            self.core.refuse(slot, answer.retry_after(1 + spread_s));
        } else if is_one_too_many {
            let answer = HttpResponse::text(429, "too many connections from this address");
            self.core.refuse(slot, answer.retry_after(5));
        }
        self.connect(slot, Stream::with_session(token, session), counted_peer);
    }

    fn connect(&mut self, slot: u32, stream: Stream, counted_peer: Option<IpAddr>) {
        let (at, token) = (slot as usize, stream.token().index());
        if self.connections.len() <= at {
            self.connections.resize_with(at + 1, || None);
        }
        if self.slots.len() <= token {
            self.slots.resize(token + 1, u32::MAX);
        }
        self.slots[token] = slot;
        self.connections[at] = Some(SubscriberSocket { stream, counted_peer, input: Input::Readable, is_unread: true });
        // The first read follows in the next turn, after the inbox. A request thus finds every
        // stream that was created before the client connected.
        self.unread.push(slot);
    }

    fn adopt_arrivals(&mut self) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.core.take_arrivals(&mut arrivals);
        for (slot, socket) in arrivals.drain(..) {
            prepare_socket(SockRef::from(&socket));
            let session = self.core.take_session(slot);
            match self.net.add_socket(socket.into()) {
                Ok(token) => self.connect(slot, Stream::with_session(token, session.map(|session| *session)), None),
                Err(error) => {
                    warn!(%error, "cannot take over a connection");
                    self.core.finish(slot);
                }
            }
        }
        self.arrivals = arrivals;
    }

    /// Reads the input that the last turn left.
    fn read_unread(&mut self) {
        for slot in std::mem::take(&mut self.unread) {
            if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
                connection.is_unread = false;
                self.read(slot);
            }
        }
    }

    fn read(&mut self, slot: u32) {
        let DeliveryThread { core, net, connections, unread, .. } = self;
        let Some(Some(connection)) = connections.get_mut(slot as usize) else { return };
        let mut taken = 0;
        while connection.input == Input::Readable && core.wants_input(slot) {
            if taken >= READ_BYTES {
                if !std::mem::replace(&mut connection.is_unread, true) {
                    unread.push(slot);
                }
                return;
            }
            let was_open = connection.stream.is_open();
            let receipt = connection.stream.receive(net.as_mut(), &mut |bytes| core.received(slot, bytes));
            if !was_open && connection.stream.is_open() {
                // A send may have been tried before the handshake was complete.
                core.writable(slot);
            }
            match receipt {
                Receipt::Bytes(bytes) => taken += bytes,
                Receipt::Pending => connection.input = Input::Nothing,
                Receipt::Ended => {
                    connection.input = Input::Ended;
                    core.input_ended(slot);
                }
                Receipt::Failed => {
                    connection.input = Input::Ended;
                    core.finish(slot);
                }
            }
        }
    }

    /// Serves subscribers with individual frames, and a part of the pass over streams.
    fn deliver(&mut self, now_ns: u64) {
        let (has_own, has_streams) = self.core.has_due();
        let may_begin = has_streams && (self.timer.may_begin(now_ns) || self.core.must_serve());
        if !self.pass.is_under_way && may_begin {
            let kind = self.timer.begin(now_ns);
            self.core.due(&mut self.pass.slots, kind);
            (self.pass.is_under_way, self.pass.served) = (true, 0);
        } else if has_own {
            let mut own = std::mem::take(&mut self.own);
            self.core.due(&mut own, PassKind::Own);
            for batch in own.chunks(BATCH) {
                self.serve(batch);
            }
            self.own = own;
        }
        if self.pass.is_under_way {
            self.advance_pass();
        }
    }

    /// Serves the next subscribers of the pass.
    fn advance_pass(&mut self) {
        let slots = std::mem::take(&mut self.pass.slots);
        let end = slots.len().min(self.pass.served + TURN_SUBSCRIBERS);
        let mut bytes = 0;
        while self.pass.served < end && bytes < TURN_BYTES {
            let batch = &slots[self.pass.served..end.min(self.pass.served + BATCH)];
            self.pass.served += batch.len();
            bytes += self.serve(batch);
            // Subscribers later in the pass get new messages at once.
            self.take_inbox();
        }
        if self.pass.served >= slots.len() {
            self.pass.is_under_way = false;
            add(&self.statistics.counters(self.thread).sweeps_total, 1);
            self.timer.end(monotonic_ns());
        }
        self.pass.slots = slots;
    }

    /// Gives a batch of subscribers their turns. Returns the bytes that were sent.
    fn serve(&mut self, batch: &[u32]) -> usize {
        let mut turns = std::mem::take(&mut self.buffers.turns);
        turns.extend(batch.iter().map(|slot| Turn { slot: *slot, bytes: 0, offered: 0, sent: None }));
        let mut bytes = 0;
        // Most subscribers get everything with their first send.
        loop {
            turns.retain(|turn| self.prepare(turn));
            if turns.is_empty() {
                break;
            }
            self.send(&mut turns);
            turns.retain_mut(|turn| {
                let sent = turn.bytes;
                let goes_on = self.note_sent(turn);
                bytes += turn.bytes - sent;
                goes_on
            });
        }
        self.buffers.turns = turns;
        for slot in batch {
            self.read(*slot);
        }
        bytes
    }

    /// Returns whether a subscriber has bytes to send.
    fn prepare(&mut self, turn: &Turn) -> bool {
        let DeliveryThread { core, net, connections, .. } = self;
        let slot = turn.slot;
        let Some(Some(connection)) = connections.get_mut(slot as usize) else { return false };
        match connection.stream.flush(net.as_mut()) {
            SendOutcome::Bytes(_) => {}
            SendOutcome::Blocked => {
                core.blocked(slot);
                return false;
            }
            SendOutcome::Failed => {
                core.finish(slot);
                return false;
            }
        }
        match core.prepare(slot) {
            Next::Idle => false,
            Next::Shut => {
                connection.stream.end(net.as_mut());
                core.shut(slot);
                false
            }
            Next::Send if turn.bytes >= core.turn_bytes() => {
                core.list(slot);
                false
            }
            Next::Send => true,
        }
    }

    /// Sends what each subscriber gets next. Plain sends go to the kernel in one batch.
    fn send(&mut self, turns: &mut [Turn]) {
        let DeliveryThread { core, net, connections, buffers, .. } = self;
        let mut pieces = recycle(std::mem::take(&mut buffers.pieces), |_| Pieces::new());
        let mut outgoing =
            recycle(std::mem::take(&mut buffers.outgoing), |_| BatchedSend { token: Token(0), parts: &[] });
        pieces.extend(turns.iter().map(|turn| core.gather(turn.slot)));
        for (turn, pieces) in turns.iter_mut().zip(&pieces) {
            turn.offered = pieces.bytes();
            turn.sent = match connections.get_mut(turn.slot as usize).and_then(Option::as_mut) {
                Some(connection) if connection.stream.is_secure() => {
                    Some(connection.stream.send(net.as_mut(), pieces.as_slice()))
                }
                Some(connection) => {
                    outgoing.push(BatchedSend { token: connection.stream.token(), parts: pieces.as_slice() });
                    None
                }
                None => Some(SendOutcome::Failed),
            };
        }
        net.send_batch(&outgoing, &mut buffers.results);
        let results = buffers.results.iter().copied();
        turns
            .iter_mut()
            .filter(|turn| turn.sent.is_none())
            .zip(results)
            .for_each(|(turn, sent)| turn.sent = Some(sent));
        buffers.outgoing = recycle(outgoing, |_| BatchedSend { token: Token(0), parts: &[] });
        buffers.pieces = recycle(pieces, |_| Pieces::new());
    }

    /// Records the result of a send. Returns whether the socket may take more.
    fn note_sent(&mut self, turn: &mut Turn) -> bool {
        let DeliveryThread { core, connections, .. } = self;
        let slot = turn.slot;
        match turn.sent.take() {
            Some(SendOutcome::Bytes(bytes)) => {
                turn.bytes += bytes;
                core.sent(slot, bytes);
                add(&core.counters().sends_total, 1);
                let Some(Some(connection)) = connections.get(slot as usize) else { return false };
                let stream = &connection.stream;
                // Stored encrypted bytes count as sent. The socket is not shut before they have
                // gone.
                let is_full = if stream.is_secure() { !stream.is_flushed() } else { bytes < turn.offered };
                if is_full {
                    core.blocked(slot);
                }
                !is_full
            }
            Some(SendOutcome::Blocked) => {
                core.blocked(slot);
                false
            }
            Some(SendOutcome::Failed) | None => {
                core.finish(slot);
                false
            }
        }
    }

    /// Closes finished connections.
    fn close_finished(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        self.core.take_finished(&mut finished);
        for slot in finished.drain(..) {
            if let Some(Some(connection)) = self.connections.get_mut(slot as usize).map(Option::take) {
                self.net.close(connection.stream.token());
                connection.counted_peer.into_iter().for_each(|peer| self.statistics.leave_address(peer));
            }
            self.core.remove(slot);
        }
        self.finished = finished;
    }
}

/// Empties a list and returns it for items with another lifetime. The list keeps its memory,
/// because the standard library collects in place.
fn recycle<A, B>(mut list: Vec<A>, never: impl FnMut(A) -> B) -> Vec<B> {
    list.clear();
    list.into_iter().map(never).collect()
}

/// Disables delayed sends, and selects the congestion control `cubic`, which does not collapse when
/// CPU is scarce. Errors are ignored: a kernel without it uses its default.
pub(crate) fn prepare_socket(socket: SockRef<'_>) {
    let _ = socket.set_tcp_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_congestion(&*socket, "cubic");
}
