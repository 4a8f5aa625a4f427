//! A feed for the latency laboratory: every connection gets each message when it is due.
//!
//! Does        runs one clock for all connections; numbers messages; injects faults by a script;
//!             writes a truth log of what was sent, to whom and when.
//! Holds       1. a message has the same number, due time and content on every connection with the
//!                same URL, however late that connection joined;
//!             2. the truth log has a row for each message that fell due on an open connection.
//! Leaves out  TLS, and messages that fell due while a connection was closed.
//! Start at    [`LiveFeed::run`]. contracts/lab-connector.md has the formats.

mod arrivals;
mod connection;
mod envelope;
mod faults;
mod plain;
mod truth;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

pub use arrivals::{ArrivalLaw, MessageTimes};
pub use envelope::ENVELOPE_BYTES;
pub use faults::{FaultKind, FaultScript};
pub use plain::{PlainFeed, SizeRange};

use crate::accept::accept_until;
use crate::server_socket::ServerSocket;
use crate::trades::MessageSource;
use connection::LiveConnection;
use truth::TruthLog;

/// Most connections at a time. Further ones are closed at once.
const CONNECTIONS_MAX: u32 = 256;
/// Longest wait before the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(100);
/// Time from the last connection of `start_with` to the first message.
const START_DELAY_NS: u64 = 20_000_000;

/// Makes the feed's messages from the beginning, or returns why it cannot.
pub type SourceFactory = dyn Fn() -> Result<Box<dyn MessageSource>, String> + Send + Sync;

/// What a live feed sends, and when.
pub struct LiveConfig {
    pub times: MessageTimes,
    /// The feed ends after this many messages.
    pub messages: Option<u64>,
    pub has_envelope: bool,
    pub faults: FaultScript,
    pub truth: Option<PathBuf>,
    /// Busy wait before a message is due.
    pub spin: Duration,
    /// Connections that the feed waits for before it starts its clock.
    pub start_with: u32,
}

pub struct LiveFeed {
    listener: TcpListener,
    shared: Arc<Shared>,
    truth: Option<TruthLog>,
}

/// State shared by the threads of all connections.
struct Shared {
    config: LiveConfig,
    source: Box<SourceFactory>,
    stop: AtomicBool,
    start: Mutex<Start>,
    started: Condvar,
    totals: Mutex<LiveReport>,
}

#[derive(Default)]
struct Start {
    joined: u32,
    open: u32,
    /// When message 1 is due, once enough connections have joined.
    at_ns: Option<u64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` at that time.
    realtime_offset_ns: u64,
}

/// Totals of a live feed at its end.
pub struct LiveReport {
    pub messages: u64,
    pub bytes: u64,
    pub connections: u32,
    pub refused: u32,
    /// `sent_ns` minus `due_ns` of every message sent.
    pub late_ns: Histogram<u64>,
    /// Faults injected, by kind.
    pub faults: Vec<(FaultKind, u64)>,
    /// Why the source failed, or why the truth log is incomplete.
    pub failure: Option<String>,
}

impl LiveReport {
    fn new() -> Self {
        LiveReport {
            messages: 0,
            bytes: 0,
            connections: 0,
            refused: 0,
            late_ns: late_histogram(),
            faults: FaultKind::ALL.iter().map(|kind| (*kind, 0)).collect(),
            failure: None,
        }
    }
}

/// Three digits. More than an hour late counts as an hour.
fn late_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("these bounds are in order")
}

impl LiveFeed {
    /// Prepares a feed on `listener`.
    ///
    /// # Errors
    /// The truth log cannot be created, or the listener cannot be used.
    pub fn new(listener: TcpListener, config: LiveConfig, source: Box<SourceFactory>) -> io::Result<Self> {
        let truth = config.truth.as_deref().map(TruthLog::create).transpose()?;
        let shared = Shared {
            config,
            source,
            stop: AtomicBool::new(false),
            start: Mutex::default(),
            started: Condvar::new(),
            totals: Mutex::new(LiveReport::new()),
        };
        Ok(LiveFeed { listener, shared: Arc::new(shared), truth })
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// The kernel does not tell it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until every connection got the last message, or `stop` becomes readable.
    ///
    /// # Errors
    /// Waiting for connections fails.
    pub fn run(self, stop: BorrowedFd<'_>) -> io::Result<LiveReport> {
        let LiveFeed { listener, shared, truth } = self;
        let is_over = |threads: &[JoinHandle<()>]| {
            shared.stop.load(Relaxed) || (shared.is_over() && threads.iter().all(JoinHandle::is_finished))
        };
        let threads = accept_until(listener, stop, &is_over, &|socket| admit(&shared, truth.as_ref(), socket))?;
        shared.stop.store(true, Relaxed);
        shared.started.notify_all();
        for thread in threads {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
        let truth = truth.map(TruthLog::finish);
        let mut report = std::mem::replace(&mut *shared.totals(), LiveReport::new());
        if let Some(Err(error)) = truth {
            report.failure.get_or_insert(format!("cannot write the truth log: {error}"));
        }
        Ok(report)
    }
}

/// Starts the thread of a connection.
fn admit(shared: &Arc<Shared>, truth: Option<&TruthLog>, socket: OwnedFd) -> Option<JoinHandle<()>> {
    let Some(number) = shared.next_connection() else {
        shared.totals().refused += 1;
        return None;
    };
    let (of_thread, truth) = (Arc::clone(shared), truth.map(TruthLog::writer));
    let serve = move || {
        // The default timer slack of 50 µs would make messages late. If refused, they are.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Ok(socket) = ServerSocket::new(socket, None) {
            LiveConnection::new(socket, number, &of_thread, truth).serve();
        }
        of_thread.lock_start().open -= 1;
    };
    let spawned = std::thread::Builder::new().name(format!("live {number}")).spawn(serve);
    if spawned.is_err() {
        shared.lock_start().open -= 1;
    }
    spawned.ok()
}

impl Shared {
    fn lock_start(&self) -> MutexGuard<'_, Start> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn totals(&self) -> MutexGuard<'_, LiveReport> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers a connection, or returns `None` if there are too many.
    fn next_connection(&self) -> Option<u32> {
        let mut start = self.lock_start();
        if start.open >= CONNECTIONS_MAX {
            return None;
        }
        start.open += 1;
        let mut totals = self.totals();
        totals.connections += 1;
        Some(totals.connections)
    }

    /// Waits until the feed's clock runs. Returns when message 1 is due and the offset of
    /// `CLOCK_REALTIME`; `None` if the server stops first.
    fn wait_for_start(&self, is_gone: &mut dyn FnMut() -> bool) -> Option<(u64, u64)> {
        let mut start = self.lock_start();
        start.joined += 1;
        if start.joined >= self.config.start_with && start.at_ns.is_none() {
            let now_ns = monotonic_ns();
            start.at_ns = Some(now_ns + START_DELAY_NS);
            start.realtime_offset_ns = realtime_ns().saturating_sub(now_ns);
            self.started.notify_all();
        }
        loop {
            if let Some(at_ns) = start.at_ns {
                return Some((at_ns, start.realtime_offset_ns));
            }
            if self.stop.load(Relaxed) || is_gone() {
                start.joined -= 1;
                return None;
            }
            let waited = self.started.wait_timeout(start, STOP_CHECK);
            start = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether the feed has a last message and every connection has ended.
    fn is_over(&self) -> bool {
        let start = self.lock_start();
        self.config.messages.is_some() && start.at_ns.is_some() && start.open == 0
    }

    /// Notes that the source failed, and stops the server.
    fn fail(&self, reason: String) {
        self.totals().failure.get_or_insert(reason);
        self.stop.store(true, Relaxed);
    }
}

fn monotonic_ns() -> u64 {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).map_or(0, nanos)
}

fn realtime_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
