//! A feed for the latency laboratory: every connection gets each message when it is due.
//!
//! Does        runs one clock for all connections; numbers messages; injects faults by a script;
//!             writes a truth log of what was sent, to whom and when.
//! Holds       1. a message has the same number, due time and content on every connection with the
//!                same URL, however late that connection joined;
//!             2. the truth log has a row for each message that fell due on an open connection.
//! Leaves out  messages that fell due while a connection was closed.
//! Start at    [`LiveFeed::run`]. contracts/lab-connector.md has the formats.

mod arrivals;
mod compression;
mod connection;
mod envelope;
mod plain;
mod relay;
mod shared;
mod truth;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

pub use arrivals::{ArrivalLaw, MessageTimes};
pub use compression::STORED_HEADER_BYTES;
pub use envelope::ENVELOPE_BYTES;
pub use pitwire_fault_script::{FaultScript, Injector};
pub use plain::PlainFeed;
pub use shared::{LiveConfig, LiveReport, SourceFactory};

use crate::accept::accept_until;
use crate::server_socket::ServerSocket;
use connection::LiveConnection;
use relay::RelayLog;
use shared::SharedFeed;
use truth::TruthLog;

pub struct LiveFeed {
    listener: TcpListener,
    shared: Arc<SharedFeed>,
    truth: Option<TruthLog>,
}

impl LiveFeed {
    /// Prepares a feed on `listener`.
    ///
    /// # Errors
    /// The truth log cannot be created, or the listener cannot be used.
    pub fn new(listener: TcpListener, config: LiveConfig, source: Box<SourceFactory>) -> io::Result<Self> {
        let truth = config.truth.as_deref().map(TruthLog::create).transpose()?;
        let shared = SharedFeed {
            config,
            source,
            stop: AtomicBool::new(false),
            start: Mutex::default(),
            started: Condvar::new(),
            totals: Mutex::new(LiveReport::new()),
            relayed: RelayLog::new(),
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
        let upstream = if shared.config.relay.is_some() { Some(start_relay(&shared, stop)?) } else { None };
        let is_over = |threads: &[JoinHandle<()>]| {
            shared.stop.load(Relaxed) || (shared.is_over() && threads.iter().all(JoinHandle::is_finished))
        };
        let threads = accept_until(listener, stop, &is_over, &|socket| admit(&shared, truth.as_ref(), socket))?;
        shared.stop.store(true, Relaxed);
        shared.started.notify_all();
        for thread in threads.into_iter().chain(upstream) {
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

/// Starts the thread of the upstream connection. It connects when the feed's clock starts.
fn start_relay(shared: &Arc<SharedFeed>, stop: BorrowedFd<'_>) -> io::Result<JoinHandle<()>> {
    let (shared, stop) = (Arc::clone(shared), stop.try_clone_to_owned()?);
    std::thread::Builder::new().name("relay".into()).spawn(move || {
        let Some(wanted) = &shared.config.relay else { return };
        if shared.wait_for_clock()
            && let Some(reason) = relay::relay(&shared.relayed, wanted, &stop)
        {
            shared.fail(reason);
        }
    })
}

/// Starts the thread of a connection.
fn admit(shared: &Arc<SharedFeed>, truth: Option<&TruthLog>, socket: OwnedFd) -> Option<JoinHandle<()>> {
    let Some(number) = shared.next_connection() else {
        shared.totals().refused += 1;
        return None;
    };
    let (of_thread, truth) = (Arc::clone(shared), truth.map(TruthLog::writer));
    let serve = move || {
        // The default timer slack of 50 µs would make messages late. If refused, they are.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Ok(socket) = ServerSocket::new(socket, of_thread.config.tls.as_ref()) {
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
