//! One feed, read over as many connections as needed.
//!
//! Does        connects, logs in, reads, scans, routes, answers control frames; tells a dead
//!             connection from a quiet one; reconnects after a loss and sends a gap record to every
//!             worker.
//! Holds       1. everything that a connection brought is routed before the gap record behind it;
//!             2. nothing blocks except the wait for the feed, which ends at once when the program
//!                is to stop;
//!             3. a trade that was read is handed over before the next read.
//! Leaves out  how bytes become objects (`pitwire_feed`) and how objects reach workers
//!             (`transport`).
//! Start at    [`Splitter::run`], then [`Splitter::pump`].

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use pitwire_feed::{MissingSymbol, ObjectReader, Violation};
use pitwire_net::{
    ClientSocket, ClientSocketError, ConnectError, DialOptions, OpenConnection, ReadOutcome, WaitOutcome, dial, wait,
};
use pitwire_shard::GapRecord;
use pitwire_tls::ClientConfig;
use pitwire_websocket::{Address, Opcode, printable};
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::clock::{epoch_ns, mono_ns, process_cpu_ns, thread_cpu_ns};
use crate::line_printer::LinePrinter;
use crate::receive_area::ReceiveBuffer;
use crate::router::{ControlBody, Router};
use crate::shared_stats::SharedStats;
use crate::stats::{FeedMeter, FeedTotals, HandOverLag};
use crate::transport::{Transport, TransportSummary, TransportTotals};
use crate::transport_error::TransportError;

/// How long to wait for a greeting of the server before we send ours.
const GREETING_NS: u64 = 1_000_000_000;
/// How long to wait for the server's answer to our close frame.
const CLOSE_ANSWER_NS: u64 = 1_000_000_000;
/// Interval at which a worker that is behind is served again.
const BEHIND_NS: u64 = 1_000_000;
/// Interval of everything that is not the feed, while the feed never pauses.
const MAINTENANCE_NS: u64 = 5_000_000;
/// Statistics lines are printed at this interval, or when this many bytes have gathered.
const LINES_NS: u64 = 50_000_000;
const LINES_BYTES: usize = 16 * 1024;
const POST_NS: u64 = 200_000_000;
/// How long workers may take to read the remaining records at the end.
const FINISH_NS: u64 = 5_000_000_000;
/// A connection with this many trades, or of this duration, was useful: the next loss starts from
/// the shortest delay.
const USEFUL_TRADES: u64 = 1_000;
const USEFUL_NS: u64 = 10_000_000_000;
const CLOSE_NORMAL: u16 = 1000;
const CLOSE_AWAY: u16 = 1001;
const MAX_CLOSE_REASON: usize = 123;

/// The configuration of a splitter.
pub struct SplitterConfig {
    pub address: Address,
    pub tls: Option<Arc<ClientConfig>>,
    /// Text messages sent first on every connection, such as a login and subscriptions.
    pub introduction: Vec<String>,
    pub workers: u32,
    pub no_sym: MissingSymbol,
    pub reconnects: bool,
    pub gap_records: bool,
    /// Ends the run after exactly this many trades.
    pub limit: Option<u64>,
    /// Trades per statistics line; 0 disables lines.
    pub stats_every: u64,
    pub receive_buffer: Option<usize>,
    /// Time limit for connecting and the handshakes.
    pub patience_ns: u64,
    /// A connection is lost when nothing arrives for this long. After half of it we send a ping.
    pub silence_ns: u64,
    /// Events go to the shared statistics only, because a view uses the terminal.
    pub is_quiet: bool,
}

/// The result of a run.
#[derive(Debug)]
pub struct SplitterReport {
    pub totals: FeedTotals,
    pub dealt: TransportTotals,
    pub summaries: Vec<TransportSummary>,
    pub lag: HandOverLag,
    pub unusual: u64,
    pub no_sym: u64,
    pub malformed: u64,
    pub oversized: u64,
    /// From the first received bytes to the last hand-over.
    pub elapsed_ns: u64,
    /// CPU time of the thread that reads, scans and routes, up to the last hand-over.
    pub cpu_ns: u64,
    /// CPU time of all other threads except the built-in counters: servers, publishers, printer.
    pub others_cpu_ns: u64,
    /// CPU time of the built-in counters, which verify and are not part of splitting.
    pub counters_cpu_ns: u64,
    pub lines_left_out: u64,
    /// Why the run ended, if it failed.
    pub failure: Option<SplitterError>,
}

#[derive(Debug)]
pub enum SplitterError {
    Connect(ConnectError),
    /// The connection was lost and `reconnects` is false.
    Lost(String),
    Transport(TransportError),
}

/// Why a connection ended.
enum ConnectionEnd {
    Done,
    Stopped,
    Lost(String),
    Failed(TransportError),
}

pub struct Splitter<'a, S> {
    plan: SplitterConfig,
    object_reader: ObjectReader,
    router: Router,
    printer: LinePrinter,
    stats: Arc<SharedStats>,
    stop: &'a S,
    posted_ns: u64,
    printed_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    last_cpu_ns: u64,
    news: String,
    is_connected: bool,
}

/// The timers of one connection.
struct ConnectionWatch {
    opened_ns: u64,
    received_ns: u64,
    maintained_ns: u64,
    frames_before: u64,
    is_introduced: bool,
    has_asked: bool,
}

impl<'a, S: AsFd> Splitter<'a, S> {
    /// `sinks`: first the workers' transport, then others that receive everything.
    pub fn new(
        plan: SplitterConfig,
        sinks: Vec<Box<dyn Transport>>,
        printer: LinePrinter,
        stats: Arc<SharedStats>,
        stop: &'a S,
    ) -> Self {
        let object_reader = ObjectReader::new(plan.workers, plan.no_sym);
        let router = Router::new(sinks, FeedMeter::new(plan.stats_every), plan.limit);
        Splitter {
            plan,
            object_reader,
            router,
            printer,
            stats,
            stop,
            posted_ns: 0,
            printed_ns: 0,
            first_ns: None,
            last_ns: 0,
            last_cpu_ns: 0,
            news: String::new(),
            is_connected: false,
        }
    }

    pub fn run(mut self) -> SplitterReport {
        let before = CpuUse::now();
        let failure = self.connections().err();
        self.print_lines(mono_ns(), true);
        self.finish(failure, before)
    }

    /// Opens one connection after another until the run ends.
    fn connections(&mut self) -> Result<(), SplitterError> {
        let mut backoff = Backoff::new();
        let mut has_been_open = false;
        loop {
            let lost = match self.open() {
                Ok(opened) => {
                    has_been_open = true;
                    let (over, was_useful) = self.follow(opened);
                    if was_useful {
                        backoff.reset();
                    }
                    match over {
                        ConnectionEnd::Done | ConnectionEnd::Stopped => return Ok(()),
                        ConnectionEnd::Failed(failure) => return Err(SplitterError::Transport(failure)),
                        ConnectionEnd::Lost(why) if !self.plan.reconnects => return Err(SplitterError::Lost(why)),
                        ConnectionEnd::Lost(why) => why,
                    }
                }
                Err(ConnectError::Stopped) => return Ok(()),
                // Before any connection has worked, an error that no retry cures is a mistake in
                // the arguments.
                Err(error) if !self.plan.reconnects || (error.is_final() && !has_been_open) => {
                    return Err(SplitterError::Connect(error));
                }
                Err(error) => format!("{error} ({})", error.remedy()),
            };
            if self.pause(&lost, backoff.next_ns(chance()))? {
                return Ok(());
            }
        }
    }

    fn open(&self) -> Result<OpenConnection, ConnectError> {
        let options = DialOptions {
            address: &self.plan.address,
            tls: self.plan.tls.as_ref(),
            patience_ns: self.plan.patience_ns,
            receive_buffer: self.plan.receive_buffer,
        };
        dial(&options, self.stop)
    }

    /// Reads one connection to its end. Returns why it ended, and whether it was useful.
    fn follow(&mut self, opened: OpenConnection) -> (ConnectionEnd, bool) {
        let OpenConnection { mut channel, early } = opened;
        self.object_reader.restart();
        self.router.connected();
        self.is_connected = true;
        self.report(format!("connected to {}", self.plan.address.authority), false);
        let opened_ns = mono_ns();
        let over = self.pump(&mut channel, &early, opened_ns);
        self.is_connected = false;
        let was_useful = self.router.meter.here() >= USEFUL_TRADES || mono_ns() - opened_ns >= USEFUL_NS;
        self.router.hand_over();
        // The closing handshake is not measured.
        (self.last_ns, self.last_cpu_ns) = (mono_ns(), thread_cpu_ns());
        match &over {
            ConnectionEnd::Done => self.part(&mut channel, CLOSE_NORMAL),
            ConnectionEnd::Stopped | ConnectionEnd::Failed(_) => self.part(&mut channel, CLOSE_AWAY),
            ConnectionEnd::Lost(_) => {
                self.router.meter.lost();
                self.note_gap();
            }
        }
        // Hands over the gap record.
        self.router.hand_over();
        (over, was_useful)
    }

    fn pump(&mut self, channel: &mut ClientSocket, early: &[u8], opened_ns: u64) -> ConnectionEnd {
        let frames_before = self.router.meter.totals.frames;
        let mut watch = ConnectionWatch {
            opened_ns,
            received_ns: opened_ns,
            maintained_ns: opened_ns,
            frames_before,
            is_introduced: false,
            has_asked: false,
        };
        if !early.is_empty() {
            self.first_ns.get_or_insert(opened_ns);
            self.router.meter.read();
            self.router.meter.received(early.len());
            let fed = self.object_reader.feed(early, &mut self.router);
            self.router.meter.totals.frames = self.object_reader.counters().frames;
            if let Err(violation) = fed {
                return refuse(channel, violation);
            }
            if let Some(over) = self.after_read(channel, &mut watch, opened_ns) {
                return over;
            }
        }
        loop {
            let from_ns = mono_ns();
            let (object_reader, router) = (&mut self.object_reader, &mut self.router);
            let mut is_first = true;
            let mut receive_buffer = channel.is_unencrypted().then(|| router.receive_buffer()).flatten();
            let lands = receive_buffer.is_some();
            let received = channel.receive(receive_buffer.as_mut().map(ReceiveBuffer::space), |piece| {
                if std::mem::take(&mut is_first) {
                    router.meter.read();
                }
                if lands {
                    router.commit_received(piece.len());
                }
                router.meter.received(piece.len());
                object_reader.feed(piece, router)
            });
            self.router.meter.totals.frames = self.object_reader.counters().frames;
            let over = match received {
                Ok(ReadOutcome::Bytes(_)) => {
                    self.first_ns.get_or_insert(from_ns);
                    self.after_read(channel, &mut watch, from_ns)
                }
                Ok(ReadOutcome::Nothing) => self.idle(channel, &mut watch),
                Ok(ReadOutcome::End) => {
                    // Through TLS, the last content arrives together with the end.
                    self.router.hand_over();
                    let closed = self.router.take_close().map(|close| answer_close(channel, &close));
                    Some(closed.unwrap_or_else(|| {
                        ConnectionEnd::Lost("the server ended the connection without a close frame".into())
                    }))
                }
                Err(ClientSocketError::Handler(violation)) => Some(refuse(channel, violation)),
                Err(ClientSocketError::Socket(error)) => {
                    Some(ConnectionEnd::Lost(format!("the connection broke: {error}")))
                }
                Err(ClientSocketError::Tls(error)) => Some(ConnectionEnd::Lost(format!("TLS failed: {error}"))),
            };
            match over {
                // The limit was reached, so a later error in the same read does not matter.
                Some(ConnectionEnd::Lost(_)) if self.router.is_done() => return ConnectionEnd::Done,
                Some(over) => return over,
                None => {}
            }
        }
    }

    /// HOT, once per read. Hands over the routed objects, and answers control frames.
    fn after_read(
        &mut self,
        channel: &mut ClientSocket,
        watch: &mut ConnectionWatch,
        from_ns: u64,
    ) -> Option<ConnectionEnd> {
        self.router.hand_over();
        let now_ns = mono_ns();
        self.router.meter.handed_over(now_ns.saturating_sub(from_ns));
        (watch.received_ns, watch.has_asked) = (now_ns, false);
        // While one pong waits, the latest ping replaces earlier ones (RFC 6455, 5.5.3), so a
        // server that does not read costs no memory.
        if !channel.has_unsent()
            && let Some(ping) = self.router.take_ping()
            && let Some(over) = send_frame(channel, Opcode::Pong, ping.body())
        {
            return Some(over);
        }
        if self.router.is_done() {
            return Some(ConnectionEnd::Done);
        }
        if let Some(close) = self.router.take_close() {
            return Some(answer_close(channel, &close));
        }
        if !watch.is_introduced
            && self.router.meter.totals.frames > watch.frames_before
            && let Some(over) = self.introduce(channel, watch)
        {
            return Some(over);
        }
        if now_ns - watch.maintained_ns < MAINTENANCE_NS {
            return None;
        }
        watch.maintained_ns = now_ns;
        if let Some(over) = self.maintain(now_ns, false) {
            return Some(over);
        }
        // A feed that never pauses must not keep us from noticing a stop.
        match wait(Some(channel.socket()), channel.has_unsent(), Some(self.stop), 0) {
            Ok(WaitOutcome::Stop) => Some(ConnectionEnd::Stopped),
            Ok(_) => flush(channel),
            Err(error) => Some(ConnectionEnd::Lost(format!("cannot wait: {error}"))),
        }
    }

    /// Handles a socket without data: does everything else, then waits.
    fn idle(&mut self, channel: &mut ClientSocket, watch: &mut ConnectionWatch) -> Option<ConnectionEnd> {
        let is_behind = self.router.has_pending();
        if is_behind {
            self.router.hand_over();
        }
        let mut now_ns = mono_ns();
        if let Some(over) = self.maintain(now_ns, true) {
            return Some(over);
        }
        let (silent_ns, silence_ns) = (now_ns.saturating_sub(watch.received_ns), self.plan.silence_ns);
        if silent_ns >= silence_ns {
            return Some(ConnectionEnd::Lost(format!(
                "nothing received for {} s, not even an answer to a ping",
                silence_ns / 1_000_000_000
            )));
        }
        if silent_ns >= silence_ns / 2 && !watch.has_asked {
            watch.has_asked = true;
            if let Some(over) = send_frame(channel, Opcode::Ping, b"pitwire") {
                return Some(over);
            }
        }
        if !watch.is_introduced && now_ns - watch.opened_ns >= GREETING_NS {
            return self.introduce(channel, watch);
        }
        now_ns = mono_ns();
        let ask_ns = if watch.has_asked { silence_ns } else { silence_ns / 2 };
        let mut until_ns = (watch.received_ns + ask_ns).min(now_ns + POST_NS);
        if !watch.is_introduced {
            until_ns = until_ns.min(watch.opened_ns + GREETING_NS);
        }
        if is_behind {
            until_ns = until_ns.min(now_ns + BEHIND_NS);
        }
        match wait(Some(channel.socket()), channel.has_unsent(), Some(self.stop), until_ns.saturating_sub(now_ns)) {
            Ok(WaitOutcome::Stop) => Some(ConnectionEnd::Stopped),
            Ok(_) => flush(channel),
            Err(error) => Some(ConnectionEnd::Lost(format!("cannot wait: {error}"))),
        }
    }

    /// Prints lines, updates the shared statistics, reports warnings.
    fn maintain(&mut self, now_ns: u64, is_idle: bool) -> Option<ConnectionEnd> {
        self.print_lines(now_ns, is_idle);
        if now_ns - self.posted_ns >= POST_NS {
            self.post(now_ns);
        }
        let warnings: Vec<TransportError> = self.router.sinks.iter_mut().filter_map(|sink| sink.report()).collect();
        warnings.into_iter().for_each(|warning| self.report(warning.to_string(), true));
        self.router.sinks.iter().find_map(|sink| sink.failure()).map(ConnectionEnd::Failed)
    }

    fn print_lines(&mut self, now_ns: u64, is_idle: bool) {
        let lines = self.router.meter.lines();
        if !lines.is_empty() && (is_idle || lines.len() >= LINES_BYTES || now_ns - self.printed_ns >= LINES_NS) {
            self.printed_ns = now_ns;
            self.printer.print(lines);
        }
    }

    fn post(&mut self, now_ns: u64) {
        self.posted_ns = now_ns;
        let (counters, workers) = (self.object_reader.counters(), self.plan.workers);
        let Router { sinks, meter, .. } = &mut self.router;
        let Some(first) = sinks.first_mut() else { return };
        self.stats.post(|snapshot| {
            snapshot.mono_ns = now_ns;
            snapshot.is_connected = self.is_connected;
            snapshot.totals = meter.totals;
            snapshot.dealt = first.totals();
            (snapshot.unusual, snapshot.no_sym) = (counters.unusual, counters.no_sym);
            snapshot.waiting_bytes.clear();
            snapshot.waiting_bytes.extend((0..workers).map(|worker| first.pending_bytes(worker)));
            snapshot.lag = meter.lag();
            meter.lag_by_octave(&mut snapshot.lag_octaves);
            snapshot.news.clone_from(&self.news);
        });
    }

    /// Sends the configured introduction, once the server is ready.
    fn introduce(&self, channel: &mut ClientSocket, watch: &mut ConnectionWatch) -> Option<ConnectionEnd> {
        watch.is_introduced = true;
        self.plan.introduction.iter().find_map(|text| send_frame(channel, Opcode::Text, text.as_bytes()))
    }

    fn note_gap(&mut self) {
        if !self.plan.gap_records {
            return;
        }
        let connection = self.router.meter.totals.connections;
        let record = GapRecord { connection, at_ns: epoch_ns(), dropped: None, restarts: None }.text();
        self.router.send_note(self.plan.workers, record.as_bytes());
    }

    /// Reports the loss and waits before the next attempt. Returns whether the program is to stop.
    fn pause(&mut self, lost: &str, ns: u64) -> Result<bool, SplitterError> {
        self.report(format!("{lost}; trying again in {:.1} s", ns as f64 / 1e9), true);
        let until_ns = mono_ns() + ns;
        loop {
            self.router.hand_over();
            let now_ns = mono_ns();
            if let Some(ConnectionEnd::Failed(failure)) = self.maintain(now_ns, true) {
                return Err(SplitterError::Transport(failure));
            }
            if now_ns >= until_ns {
                return Ok(false);
            }
            let step_ns = if self.router.has_pending() { BEHIND_NS } else { POST_NS };
            // A failed wait is ignored; the loop ends by the clock.
            if matches!(wait(None, false, Some(self.stop), step_ns.min(until_ns - now_ns)), Ok(WaitOutcome::Stop)) {
                return Ok(true);
            }
        }
    }

    fn report(&mut self, event: String, is_trouble: bool) {
        match (self.plan.is_quiet, is_trouble) {
            (true, _) => {}
            (false, true) => warn!("{event}"),
            (false, false) => info!("{event}"),
        }
        self.news = event;
        self.post(mono_ns());
    }

    /// Performs the closing handshake. What still arrives is not routed.
    fn part(&mut self, channel: &mut ClientSocket, code: u16) {
        if send_frame(channel, Opcode::Close, &code.to_be_bytes()).is_some() {
            return;
        }
        let until_ns = mono_ns() + CLOSE_ANSWER_NS;
        loop {
            let ignore = |_: &[u8]| Ok::<(), ()>(());
            let left_ns = until_ns.saturating_sub(mono_ns());
            let received = channel.receive(None, ignore);
            if left_ns == 0 || !matches!(received, Ok(ReadOutcome::Bytes(_) | ReadOutcome::Nothing)) {
                return;
            }
            // Does not watch `stop`, which stays readable; the wait is one second at most.
            if received.is_ok_and(|received| received == ReadOutcome::Nothing)
                && (flush(channel).is_some() || settle(channel, left_ns))
            {
                return;
            }
        }
    }

    fn finish(mut self, failure: Option<SplitterError>, before: CpuUse) -> SplitterReport {
        let mut failure = failure;
        let mut summaries = Vec::new();
        let patience = std::time::Duration::from_nanos(FINISH_NS);
        for sink in &mut self.router.sinks {
            match sink.finish(patience) {
                Ok(summary) => summaries.push(summary),
                Err(error) => failure = failure.or(Some(SplitterError::Transport(error))),
            }
        }
        self.post(mono_ns());
        let (counters, meter) = (self.object_reader.counters(), &self.router.meter);
        let counters_cpu_ns = summaries.iter().map(|summary| summary.counters_cpu_ns).sum();
        SplitterReport {
            totals: meter.totals,
            dealt: self.router.sinks.first().map(|sink| sink.totals()).unwrap_or_default(),
            summaries,
            lag: meter.lag(),
            unusual: counters.unusual,
            no_sym: counters.no_sym,
            malformed: counters.malformed + counters.not_arrays,
            oversized: counters.oversized,
            elapsed_ns: self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns)),
            cpu_ns: self.last_cpu_ns.saturating_sub(before.thread_ns),
            others_cpu_ns: CpuUse::now().of_others_since(before).saturating_sub(counters_cpu_ns),
            counters_cpu_ns,
            lines_left_out: self.printer.left_out(),
            failure,
        }
    }
}

/// CPU time up to a moment.
#[derive(Clone, Copy)]
struct CpuUse {
    thread_ns: u64,
    process_ns: u64,
}

impl CpuUse {
    fn now() -> Self {
        CpuUse { thread_ns: thread_cpu_ns(), process_ns: process_cpu_ns() }
    }

    fn of_others_since(self, before: CpuUse) -> u64 {
        let of_process = self.process_ns.saturating_sub(before.process_ns);
        of_process.saturating_sub(self.thread_ns.saturating_sub(before.thread_ns))
    }
}

/// Sends a frame. Returns why the connection ended, if it did.
fn send_frame(channel: &mut ClientSocket, opcode: Opcode, body: &[u8]) -> Option<ConnectionEnd> {
    match channel.send_frame(opcode, body) {
        Ok(()) => None,
        Err(ClientSocketError::Socket(error)) => Some(ConnectionEnd::Lost(format!("the connection broke: {error}"))),
        Err(ClientSocketError::Tls(error)) => Some(ConnectionEnd::Lost(format!("TLS failed: {error}"))),
        Err(ClientSocketError::Handler(())) => Some(ConnectionEnd::Lost("the connection took no more".into())),
    }
}

fn flush(channel: &mut ClientSocket) -> Option<ConnectionEnd> {
    if !channel.has_unsent() {
        return None;
    }
    channel.flush().err().map(|error| ConnectionEnd::Lost(format!("the connection broke: {error}")))
}

/// Waits for the socket only. Returns whether the wait failed.
fn settle(channel: &ClientSocket, ns: u64) -> bool {
    wait(Some(channel.socket()), false, None::<&TcpStream>, ns).is_err()
}

/// Tells the server that it broke the protocol, and gives up the connection.
fn refuse(channel: &mut ClientSocket, violation: Violation) -> ConnectionEnd {
    let text = format!(
        "the server broke the WebSocket protocol: {violation}; check that the URL leads to a WebSocket feed, and what \
         stands in between"
    );
    let mut body = violation.close_code().to_be_bytes().to_vec();
    let mut end = text.len().min(MAX_CLOSE_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    body.extend_from_slice(&text.as_bytes()[..end]);
    // The connection is given up, whether or not the frame arrives.
    let _ = send_frame(channel, Opcode::Close, &body);
    channel.end_sending();
    ConnectionEnd::Lost(text)
}

/// Answers the server's close frame with the same code (RFC 6455, 5.5.1).
fn answer_close(channel: &mut ClientSocket, (code, reason): &(Option<u16>, ControlBody)) -> ConnectionEnd {
    let body = code.map(|code| code.to_be_bytes().to_vec()).unwrap_or_default();
    // The connection is over, whether or not the frame arrives.
    let _ = send_frame(channel, Opcode::Close, &body);
    channel.end_sending();
    let reason = printable(&String::from_utf8_lossy(reason.body()));
    ConnectionEnd::Lost(match (code, reason.is_empty()) {
        (None, _) => "the server closed the connection".into(),
        (Some(code), true) => format!("the server closed the connection with {code}"),
        (Some(code), false) => format!("the server closed the connection with {code}: {reason}"),
    })
}

/// Returns a random number, so that many readers of one feed do not reconnect at the same moment.
fn chance() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => mono_ns(),
    }
}
