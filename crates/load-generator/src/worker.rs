//! One thread with its connections and its event loop.
//!
//! Does        opens connections, reads messages, sends those that are due, cuts all
//!             connections in a storm.
//! Holds       1. all connections share one receive buffer;
//!             2. a message is sent when it is due, whether or not earlier ones were answered.
//! Costs       64 bytes a connection; no allocation per message.
//! Start at    [`Worker::run`].

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use pitwire_random::SplitMix64;
use pitwire_websocket::{ClientHandshake, Offer, Opcode, write_masked};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use crate::clock::{CpuTime, mono_ns, wall_ns};
use crate::connection::{ConnectionPhase, GeneratorConnection, keep_partial};
use crate::messages::{MessageReader, Replies};
use crate::meter::Meter;
use crate::open_failure::OpenFailure;
use crate::open_queue::OpenQueue;
use crate::plan::{ConnectionShare, LoadPlan, ReaderKind, Traffic};
use crate::poller::{HANGUP, PollEvent, Poller, READABLE};
use crate::report::{GeneratorLoad, LoadReport};
use crate::run_control::{NEVER, RunControl};
use crate::schedule::Schedule;
use crate::socket::{self, SourceAddresses};
use crate::storm::Storm;
use crate::tls::TlsState;
use crate::transport::{self, SharedBuffers};
use crate::{echo, kernel_time};

/// Without context takeover, so that one inflater serves every connection.
const DEFLATE: Offer = Offer { keeps_context: false };
/// Longest wait for an event. Bounds the delay of everything that no event announces.
const TICK_NS: i64 = 20_000_000;
/// After the end of measuring, outstanding answers are awaited this long.
const GRACE_NS: i64 = 2_000_000_000;
/// Messages sent in one pass, before the sockets are read again.
const MOST_SENDS: usize = 256;
/// Reads of one connection in one pass, before the others have their turn.
const MOST_READS: usize = 16;
/// A slow reader reads this many bytes at this interval.
const SLOW_BYTES: usize = 4 * 1024;
const SLOW_INTERVAL_NS: i64 = 500_000_000;
/// Mean delay before a connection that failed during a storm is tried again.
const RETRY_NS: i64 = 100_000_000;
const HEARTBEAT: &[u8] = b"heartbeat";
/// The close code that we send.
const NORMAL: u16 = 1000;
/// Reported close code for a connection that ended without a close frame.
const NO_CLOSE: u16 = 1006;

pub struct Worker<'a> {
    plan: &'a LoadPlan,
    share: ConnectionShare,
    control: &'a RunControl,
    /// The first worker opens one connection before any other is tried.
    is_first: bool,
    poller: Poller,
    connections: Vec<GeneratorConnection>,
    handshake: ClientHandshake,
    sources: SourceAddresses,
    queue: OpenQueue,
    storm: Storm,
    buffers: SharedBuffers,
    messages: MessageReader,
    meter: Meter,
    random: SplitMix64,
    /// When the next message of ours is due; `None` if we only listen.
    sending: Option<Schedule>,
    slow_readers: SlowReaders,
    progress: WorkerProgress,
    cpu_at_start: CpuTime,
    began_ns: i64,
    now_ns: i64,
}

/// Slots of the slow readers, and when they read next.
struct SlowReaders {
    slots: Vec<u32>,
    next_ns: i64,
}

/// The counters that were last added to [`RunControl`], and when that is done next.
#[derive(Default)]
struct WorkerProgress {
    deliveries: u64,
    late: u64,
    lost: u64,
    next_ns: i64,
}

/// The measurements of one worker.
pub struct WorkerResult {
    pub report: LoadReport,
    /// The first and the last sequence number that every connection should have received.
    pub expected: Option<(u64, u64)>,
    /// The last sequence number of each healthy connection that was open at the end; 0 if it
    /// received none.
    pub last_sequences: Vec<u64>,
}

impl<'a> Worker<'a> {
    /// # Errors
    /// The kernel refuses an epoll instance, a timer or random bytes.
    pub fn new(
        plan: &'a LoadPlan,
        share: ConnectionShare,
        control: &'a RunControl,
        index: usize,
    ) -> Result<Self, String> {
        let poller = Poller::new().map_err(|error| format!("cannot set up an event loop: {error}"))?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let offer = plan.deflate.then_some(DEFLATE);
        let connections: Vec<GeneratorConnection> = (0..share.count)
            .map(|slot| GeneratorConnection::new(plan.faulty_readers.of(share.first + slot, share.total)))
            .collect();
        let is_slow = |slot: &u32| connections[*slot as usize].reader == ReaderKind::Slow;
        let slots = (0..share.count).filter(is_slow).collect();
        let period_ns = match plan.traffic {
            Traffic::Heartbeat { period, .. } => period.as_nanos() as f64,
            Traffic::Echo { .. } | Traffic::Listen => 1e9,
        };
        let schedule = |arrivals| Schedule::new(share, period_ns, arrivals, plan.seed);
        let listens = plan.traffic == Traffic::Listen;
        let arrivals = plan.arrivals.filter(|_| listens).map(|arrivals| schedule(Some(arrivals)));
        let after_ns = plan.storm.map(|after| i64::try_from(after.as_nanos()).unwrap_or(NEVER));
        let [a, b, c, d, e, f, g, h, ..] = nonce;
        Ok(Worker {
            plan,
            share,
            control,
            is_first: index == 0,
            poller,
            connections,
            handshake: ClientHandshake::new(&plan.address, nonce, plan.subprotocol.as_deref(), offer),
            sources: SourceAddresses::new(plan.server, share.total, plan.sources),
            queue: OpenQueue::new(share.count, arrivals, i64::try_from(plan.open_timeout.as_nanos()).unwrap_or(NEVER)),
            storm: after_ns.map_or(Storm::Inactive, |after_ns| Storm::Scheduled { after_ns }),
            buffers: SharedBuffers::new(),
            messages: MessageReader::new(plan.deflate),
            meter: Meter::new(plan.traffic, &plan.sequence_field),
            random: SplitMix64::new(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            sending: (!listens && share.count > 0).then(|| schedule(plan.arrivals)),
            slow_readers: SlowReaders { slots, next_ns: 0 },
            progress: WorkerProgress::default(),
            cpu_at_start: CpuTime::default(),
            began_ns: 0,
            now_ns: 0,
        })
    }

    /// Runs from the first connection to the end of the measurement.
    ///
    /// # Errors
    /// The kernel refuses to wait for events.
    pub fn run(mut self) -> Result<WorkerResult, String> {
        let mut events = Vec::new();
        self.now_ns = mono_ns();
        self.publish_progress();
        self.began_ns = self.now_ns;
        self.queue.start(self.now_ns);
        while !self.is_over() {
            let timeout_ns = if self.is_send_due() { 0 } else { TICK_NS };
            let waited = self.poller.wait(timeout_ns, &mut events);
            waited.map_err(|error| format!("cannot wait for events: {error}"))?;
            self.now_ns = mono_ns();
            for event in &events {
                match *event {
                    PollEvent::Timer => self.send_due(),
                    PollEvent::Socket { slot, generation, flags } => {
                        if self.connection(slot).is_some_and(|one| one.generation == generation) {
                            self.socket_ready(slot, flags);
                        }
                    }
                }
            }
            self.run_timed_tasks();
        }
        Ok(self.finish())
    }

    /// Does everything that no event announces.
    fn run_timed_tasks(&mut self) {
        self.begin_measuring();
        self.send_due();
        self.open_more();
        self.close_expired();
        self.read_slow_readers();
        if self.storm.is_due(self.meter.start_ns, self.now_ns) {
            self.begin_storm();
        }
        if self.now_ns >= self.progress.next_ns {
            self.progress.next_ns = self.now_ns + TICK_NS;
            self.publish_progress();
        }
    }

    fn begin_measuring(&mut self) {
        if self.meter.start_ns == NEVER {
            let duration_ns = i64::try_from(self.plan.duration.as_nanos()).unwrap_or(NEVER);
            self.meter.start_ns = self.control.start_ns();
            self.meter.end_ns = self.meter.start_ns.saturating_add(duration_ns);
        } else if self.now_ns >= self.meter.start_ns && self.cpu_at_start.cpu_ns == 0 {
            self.cpu_at_start = CpuTime::now();
        }
    }

    fn is_over(&self) -> bool {
        if self.control.is_stopped() {
            return true;
        }
        let end_ns = self.meter.end_ns;
        if end_ns == NEVER || self.now_ns < end_ns {
            return false;
        }
        self.meter.outstanding == 0 || self.now_ns >= end_ns.saturating_add(GRACE_NS)
    }

    fn is_send_due(&self) -> bool {
        let Some(sending) = self.sending.as_ref().filter(|_| self.meter.start_ns != NEVER) else { return false };
        let due_ns = self.meter.start_ns.saturating_add(sending.due_ns());
        due_ns <= self.now_ns && due_ns < self.meter.end_ns
    }

    fn read_slow_readers(&mut self) {
        if self.now_ns < self.slow_readers.next_ns {
            return;
        }
        self.slow_readers.next_ns = self.now_ns + SLOW_INTERVAL_NS;
        for index in 0..self.slow_readers.slots.len() {
            if let Some(slot) = self.slow_readers.slots.get(index).copied()
                && self.connection(slot).is_some_and(|one| one.is_open())
            {
                self.read(slot, SLOW_BYTES);
            }
        }
    }

    /// Adds the deliveries since the last call to the counters of the run.
    fn publish_progress(&mut self) {
        self.meter.wall_ns = wall_ns();
        let (counters, known) = (&self.meter.report.counters, &mut self.progress);
        self.control.deliveries.fetch_add(counters.deliveries - known.deliveries, Ordering::Relaxed);
        self.control.late.fetch_add(counters.late - known.late, Ordering::Relaxed);
        self.control.lost.fetch_add(counters.lost - known.lost, Ordering::Relaxed);
        (known.deliveries, known.late, known.lost) = (counters.deliveries, counters.late, counters.lost);
    }

    #[allow(clippy::cast_precision_loss)]
    fn finish(mut self) -> WorkerResult {
        self.now_ns = mono_ns();
        self.publish_progress();
        self.close_all();
        let ended_ns = self.now_ns.min(self.meter.end_ns);
        let expected = self.meter.expected(ended_ns);
        let mut last_sequences = Vec::new();
        for one in self.connections.iter_mut().filter(|one| one.is_open()) {
            self.meter.abandon_requests(&mut one.extra, one.reader);
            if one.reader == ReaderKind::Healthy {
                last_sequences.push(one.sequence.last().unwrap_or(0));
                let is_silent = one.message_bytes == 0 && one.sequence.last().is_none();
                self.meter.report.counters.silent += u64::from(is_silent);
            }
        }
        let mut report = self.meter.report;
        let start_ns = self.meter.start_ns;
        if start_ns < self.now_ns {
            let took_ns = (self.now_ns - start_ns) as f64;
            let used = CpuTime::now().since(self.cpu_at_start);
            let part = |ns: u64| (ns as f64 / took_ns).min(1.0);
            let (busy, waiting) = (part(used.cpu_ns), part(used.waiting_ns));
            report.generator = GeneratorLoad { threads: 1, cpu_ns: used.cpu_ns, busy, waiting, demand: busy + waiting };
            report.measured_ns = u64::try_from(ended_ns - start_ns).unwrap_or(0);
            report.end_ns = ended_ns;
        }
        WorkerResult { report, expected, last_sequences }
    }
}

/// Connections opened and ended.
impl Worker<'_> {
    fn connection(&mut self, slot: u32) -> Option<&mut GeneratorConnection> {
        self.connections.get_mut(slot as usize)
    }

    /// How many connections of this worker may be opening at a time.
    fn max_opening(&self) -> u32 {
        if self.storm.is_reconnecting() {
            return u32::MAX;
        }
        if self.control.opened.load(Ordering::Relaxed) == 0 {
            return u32::from(self.is_first);
        }
        let share = self.share;
        let part = u64::from(self.plan.max_opening) * u64::from(share.count) / u64::from(share.total.max(1));
        u32::try_from(part).unwrap_or(u32::MAX).max(1)
    }

    fn open_more(&mut self) {
        while let Some(slot) = self.queue.next(self.now_ns, self.max_opening()) {
            self.connect(slot);
        }
    }

    fn connect(&mut self, slot: u32) {
        let number = self.share.first + slot;
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        one.reset();
        let begun = socket::connect_nonblocking(self.plan.server, self.sources, number, one.reader);
        let begun = begun.and_then(|socket| {
            self.poller.add(&socket, slot, one.generation, EventFlags::OUT)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => {
                one.socket = Some(socket);
                one.phase = ConnectionPhase::Connecting;
                self.queue.started(slot, one.generation, self.now_ns);
            }
            Err(error) => {
                let failure = connect_failure(&error, self.plan.server);
                self.count_failure(slot, failure);
            }
        }
    }

    fn socket_ready(&mut self, slot: u32, flags: EventFlags) {
        let Some(one) = self.connection(slot) else { return };
        match one.phase {
            ConnectionPhase::Closed => return,
            ConnectionPhase::Connecting => return self.connected(slot),
            ConnectionPhase::Handshaking | ConnectionPhase::Open => {}
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(slot);
        }
        let ends = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        match (one.phase, one.reader) {
            (ConnectionPhase::Open, ReaderKind::Stopped) if ends => self.ended(slot, NO_CLOSE),
            (ConnectionPhase::Open, ReaderKind::Slow) if ends => {
                // A slow reader finds the end when its next read is due, so no more events are
                // needed.
                if let Some(socket) = &one.socket {
                    self.poller.remove(socket);
                }
            }
            (ConnectionPhase::Open, ReaderKind::Stopped | ReaderKind::Slow) | (ConnectionPhase::Closed, _) => {}
            _ if ends || flags.contains(EventFlags::IN) => self.read_all(slot, ends),
            _ => {}
        }
    }

    fn connected(&mut self, slot: u32) {
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        let Some(socket) = &one.socket else { return };
        match socket_error(socket) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => return self.open_failed(slot, self.socket_failure(error)),
        }
        one.phase = ConnectionPhase::Handshaking;
        self.poller.modify(socket, slot, one.generation, READABLE);
        let Some(config) = &self.plan.tls else { return self.send_request(slot) };
        match TlsState::open(config, &self.plan.address.host) {
            Ok(session) => {
                one.extra.get_or_insert_default().tls = Some(Box::new(session));
                // Sends the TLS hello. The request follows after the TLS handshake.
                self.send(slot, &[]);
            }
            Err(error) => self.open_failed(slot, OpenFailure::Tls(error.to_string())),
        }
    }

    fn send_request(&mut self, slot: u32) {
        let request = self.handshake.request().to_vec();
        self.send(slot, &request);
    }

    /// Handles a valid answer to the WebSocket handshake.
    fn opened(&mut self, slot: u32, is_compressed: bool) {
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        one.phase = ConnectionPhase::Open;
        one.frames.may_compress = is_compressed;
        if let Some(socket) = &one.socket {
            if kernel_time::is_sampled(slot) {
                kernel_time::enable(socket);
            }
            if one.reader != ReaderKind::Healthy {
                self.poller.modify(socket, slot, one.generation, HANGUP);
            }
        }
        self.queue.finished();
        self.meter.report.counters.opened += 1;
        if self.storm.is_reconnecting() {
            if let Some(took_ns) = self.storm.reopened(self.now_ns) {
                self.meter.report.storm_ns = Some(took_ns);
            }
        } else {
            self.control.opened.fetch_add(1, Ordering::Relaxed);
            self.meter.report.opening_ns = u64::try_from(self.now_ns - self.began_ns).unwrap_or(0);
        }
        if let Some(text) = &self.plan.subscribe {
            self.send_text(slot, text.as_bytes());
        }
    }

    /// Closes a connection that did not open.
    fn open_failed(&mut self, slot: u32, failure: OpenFailure) {
        self.queue.finished();
        if let Some(one) = self.connection(slot) {
            one.reset();
        }
        self.count_failure(slot, failure);
    }

    /// Counts a failure to open. During a storm the connection is tried again.
    fn count_failure(&mut self, slot: u32, failure: OpenFailure) {
        if self.storm.is_reconnecting() {
            self.meter.report.counters.storm_retries += 1;
            let jitter_ns = (self.random.next() % RETRY_NS.unsigned_abs()).cast_signed();
            self.queue.push(slot, self.now_ns + RETRY_NS / 2 + jitter_ns);
            return;
        }
        self.meter.report.counters.failed += 1;
        self.meter.report.failed(&failure);
        self.control.failed.fetch_add(1, Ordering::Relaxed);
        if self.control.opened.load(Ordering::Relaxed) == 0 {
            self.control.fail(failure);
        }
    }

    /// Counts the end of an open connection. `code` is the server's close code, or [`NO_CLOSE`].
    fn ended(&mut self, slot: u32, code: u16) {
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        let reader = one.reader;
        self.meter.abandon_requests(&mut one.extra, reader);
        one.reset();
        let report = &mut self.meter.report;
        report.closed(code);
        match reader {
            ReaderKind::Healthy => report.counters.ended_early += 1,
            ReaderKind::Slow | ReaderKind::Stopped => report.counters.faulty_ended += 1,
        }
    }

    fn close_expired(&mut self) {
        let connections = &self.connections;
        let is_opening = |slot: u32, generation: u32| {
            connections.get(slot as usize).is_some_and(|one| one.generation == generation && one.is_opening())
        };
        let mut expired = Vec::new();
        while let Some(slot) = self.queue.expired(self.now_ns, is_opening) {
            expired.push(slot);
        }
        for slot in expired {
            self.open_failed(slot, OpenFailure::Silent);
        }
    }

    /// Cuts every open connection and opens all of them again at once.
    fn begin_storm(&mut self) {
        self.queue.ignore_arrivals();
        let mut missing = 0;
        for (slot, one) in (0_u32..).zip(&mut self.connections) {
            if one.is_open() {
                // Answers that the storm cuts off are not lost by the server, so none is counted.
                self.meter.abandon_requests(&mut one.extra, ReaderKind::Stopped);
                one.reset();
                self.queue.push(slot, 0);
                missing += 1;
            }
        }
        self.storm.begin(missing, self.now_ns);
        self.open_more();
    }

    /// Handles a socket that the server closed, or that failed.
    fn connection_lost(&mut self, slot: u32, error: Option<Errno>) {
        let Some(one) = self.connection(slot) else { return };
        match (one.phase, error) {
            (ConnectionPhase::Open, _) => self.ended(slot, NO_CLOSE),
            (ConnectionPhase::Closed, _) => {}
            (_, None | Some(Errno::CONNRESET | Errno::PIPE)) => self.open_failed(slot, OpenFailure::Ended),
            (_, Some(error)) => self.open_failed(slot, self.socket_failure(error)),
        }
    }

    fn socket_failure(&self, error: Errno) -> OpenFailure {
        OpenFailure::Connect(format!("{}: {}", self.plan.server, std::io::Error::from(error)))
    }
}

/// Bytes received and sent.
impl Worker<'_> {
    /// Reads until the socket is empty, because events are edge-triggered. `to_end`: the kernel
    /// announced the end of the connection, so a short read is not the last one.
    fn read_all(&mut self, slot: u32, to_end: bool) {
        for _ in 0..MOST_READS {
            let reads = self.meter.report.counters.reads;
            let may_have_more = self.read(slot, usize::MAX);
            let has_read = self.meter.report.counters.reads > reads;
            if !(may_have_more || to_end && has_read) {
                return;
            }
        }
        // Re-arms the event, so that the rest is read after the other connections had their turn.
        if let Some(one) = self.connections.get(slot as usize)
            && let Some(socket) = &one.socket
        {
            self.poller.modify(socket, slot, one.generation, READABLE);
        }
    }

    /// HOT. Reads once, at most `max_bytes`. Returns whether the socket may hold more.
    fn read(&mut self, slot: u32, max_bytes: usize) -> bool {
        let Some(one) = self.connections.get(slot as usize) else { return false };
        let received = match self.buffers.receive(one, slot, max_bytes) {
            Ok(received) if received.new_bytes > 0 => received,
            Err(Errno::AGAIN) => return false,
            Err(Errno::INTR) => return true,
            Ok(_) => {
                self.connection_lost(slot, None);
                return false;
            }
            Err(error) => {
                self.connection_lost(slot, Some(error));
                return false;
            }
        };
        let is_tls = self.plan.tls.is_some();
        self.meter.arrival_ns = received.arrival_ns.map(|ns| ns - self.meter.wall_ns);
        self.meter.report.counters.reads += 1;
        // The time of this read, not of the batch of events: the delay behind other connections
        // counts.
        self.now_ns = mono_ns();
        let mut buffer = std::mem::take(&mut self.buffers.received);
        let bytes = buffer.get_mut(..received.total_bytes).unwrap_or_default();
        if is_tls {
            self.decrypt(slot, bytes);
        } else {
            self.process(slot, bytes);
        }
        self.buffers.received = buffer;
        received.may_have_more
    }

    fn decrypt(&mut self, slot: u32, records: &mut [u8]) {
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        let Some(extra) = &mut one.extra else { return };
        let Some(session) = &mut extra.tls else { return };
        let mut plain = std::mem::take(&mut self.buffers.plain);
        plain.clear();
        plain.extend_from_slice(&extra.partial);
        let was_handshaking = session.is_handshaking();
        let decrypted = session.receive(records, &mut plain);
        let is_established = was_handshaking && !session.is_handshaking();
        let is_open = one.is_open();
        match decrypted {
            Ok(()) => {
                // Sends what TLS itself has to send, before the request.
                self.send(slot, &[]);
                if is_established {
                    self.send_request(slot);
                }
                self.process(slot, &plain);
            }
            Err(error) if is_open => {
                self.meter.report.violation(&error.to_string());
                self.ended(slot, NO_CLOSE);
            }
            Err(error) => {
                // Sends the TLS alert.
                self.send(slot, &[]);
                let failure = match error {
                    pitwire_tls::TlsError::InvalidCertificate(cause) => OpenFailure::Untrusted(cause.to_string()),
                    error => OpenFailure::Tls(error.to_string()),
                };
                self.open_failed(slot, failure);
            }
        }
        self.buffers.plain = plain;
    }

    /// Processes the handshake answer and the frames in `bytes`, and keeps the rest for the next
    /// read.
    fn process(&mut self, slot: u32, bytes: &[u8]) {
        let mut at = 0;
        if self.connection(slot).is_some_and(|one| one.phase == ConnectionPhase::Handshaking) {
            match self.handshake.judge(bytes) {
                Ok(Some(opened)) => {
                    at = opened.head_bytes;
                    self.opened(slot, opened.deflate.is_some());
                }
                Ok(None) => {}
                Err(unopened) => return self.open_failed(slot, unopened.into()),
            }
        }
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        let mut replies = Replies::default();
        if one.is_open() {
            match self.messages.read(one, &bytes[at..], &mut self.meter, self.now_ns, &mut replies) {
                Ok(used) => at += used,
                Err(violation) => {
                    self.meter.report.violation(&violation.to_string());
                    self.send_close(slot, violation.close_code());
                    return self.ended(slot, NO_CLOSE);
                }
            }
        }
        keep_partial(one, &bytes[at..]);
        for body in replies.pongs {
            self.send_frame(slot, Opcode::Pong, &body);
        }
        if let Some(code) = replies.close {
            self.send_close(slot, NORMAL);
            self.ended(slot, code);
        }
    }

    /// Sends the messages that are due, and arms the timer for the next one.
    fn send_due(&mut self) {
        let (start_ns, end_ns) = (self.meter.start_ns, self.meter.end_ns);
        if start_ns == NEVER {
            return;
        }
        for _ in 0..MOST_SENDS {
            let Some(sending) = &mut self.sending else { return };
            let due_ns = start_ns.saturating_add(sending.due_ns());
            if due_ns >= end_ns {
                return;
            }
            if due_ns > self.now_ns {
                return self.poller.set_timer(due_ns);
            }
            let slot = sending.take();
            self.send_message(slot, due_ns);
        }
    }

    fn send_message(&mut self, slot: u32, due_ns: i64) {
        let Some(one) = self.connections.get_mut(slot as usize) else { return };
        if !one.is_open() {
            self.meter.report.counters.unsent += 1;
            return;
        }
        if one.reader == ReaderKind::Stopped {
            return;
        }
        if self.plan.traffic != Traffic::Listen {
            self.meter.report.schedule_lateness.record(mono_ns() - due_ns);
        }
        match self.plan.traffic {
            Traffic::Listen => {}
            Traffic::Heartbeat { expect, .. } => {
                self.meter.request_sent(&mut one.extra, due_ns, expect.messages);
                self.send_text(slot, HEARTBEAT);
            }
            Traffic::Echo { bytes } => {
                self.meter.request_sent(&mut one.extra, due_ns, 1);
                let extra = one.extra.get_or_insert_default();
                let text = echo::text(extra.echoes_sent, bytes as usize);
                extra.echoes_sent += 1;
                self.send_text(slot, &text);
            }
        }
    }

    fn send_text(&mut self, slot: u32, text: &[u8]) {
        self.send_frame(slot, Opcode::Text, text);
    }

    fn send_close(&mut self, slot: u32, code: u16) {
        self.send_frame(slot, Opcode::Close, &code.to_be_bytes());
    }

    /// Sends a close frame on every open connection, without waiting for answers.
    fn close_all(&mut self) {
        for slot in (0_u32..).take(self.connections.len()) {
            if self.connection(slot).is_some_and(|one| one.is_open()) {
                self.send_close(slot, NORMAL);
            }
        }
    }

    fn send_frame(&mut self, slot: u32, opcode: Opcode, payload: &[u8]) {
        let [a, b, c, d, ..] = self.random.next().to_ne_bytes();
        let mut frame = std::mem::take(&mut self.buffers.frame);
        frame.clear();
        write_masked(&mut frame, opcode, payload, [a, b, c, d]);
        self.send(slot, &frame);
        self.buffers.frame = frame;
    }

    fn send(&mut self, slot: u32, plain: &[u8]) {
        if let Some(one) = self.connections.get_mut(slot as usize) {
            transport::send(one, slot, &self.poller, plain);
        }
    }

    fn flush(&mut self, slot: u32) {
        if let Some(one) = self.connections.get_mut(slot as usize) {
            transport::flush(one, slot, &self.poller);
        }
    }
}

/// Why a connection attempt could not even begin.
fn connect_failure(error: &std::io::Error, server: SocketAddr) -> OpenFailure {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => OpenFailure::Machine("too many open files; raise it: ulimit -n".into()),
        Some(Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => OpenFailure::Machine(error.to_string()),
        Some(Errno::ADDRNOTAVAIL) => OpenFailure::Machine("all ports to that address are taken".into()),
        _ => OpenFailure::Connect(format!("{server}: {error}")),
    }
}
