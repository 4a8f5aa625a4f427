//! State shared by the server and the threads of its connections.
//!
//! Does        hands the one stream from connection to connection, or makes a new one for each;
//!             counts.
//! Start at    [`ServerState::take_stream`].

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::stream::TapeStream;

/// How long a new connection waits for the stream. A reader may reconnect before the old connection
/// is noticed as gone.
const TAKEOVER_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    None,
    /// Sends a status, then expects auth and subscribe and answers them.
    Polygon,
}

/// How `--disconnect-every` ends a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// A close frame, then the end.
    Close,
    /// The end in the middle of a frame.
    Cut,
    /// A reset in the middle of a frame, which drops data in flight.
    Reset,
}

/// How connections are greeted, kept alive and ended.
pub struct Protocol {
    pub hello: Hello,
    /// The key that a login must give.
    pub auth: Option<String>,
    pub ping_every: Option<Duration>,
    pub disconnect: Disconnect,
}

/// Makes a stream from the beginning, or returns why it cannot.
pub type StreamFactory = dyn Fn() -> Result<TapeStream, String> + Send + Sync;

/// State shared by the threads of all connections.
pub(crate) struct ServerState {
    pub protocol: Protocol,
    make: Option<Box<StreamFactory>>,
    waiting: Mutex<StreamSlot>,
    freed: Condvar,
    pub stop: AtomicBool,
    connections: AtomicU64,
    pub open: AtomicU64,
    pub refused: AtomicU64,
    pub disconnects: AtomicU64,
    pub broken: AtomicU64,
    pub violations: AtomicU64,
    pub pings: AtomicU64,
    pub bytes: AtomicU64,
}

struct StreamSlot {
    stream: Option<TapeStream>,
    /// Totals of the streams that ended, with `--per-client`.
    over: SentTotals,
    first: Option<Instant>,
    last: Option<Instant>,
    failure: Option<String>,
}

/// Totals of the trades handed over.
#[derive(Default)]
pub struct SentTotals {
    pub trades: u64,
    pub messages: u64,
    pub checksum: Option<u64>,
    pub content: Option<u64>,
    pub late_ns: Option<hdrhistogram::Histogram<u64>>,
}

impl SentTotals {
    fn add(&mut self, stream: &TapeStream) {
        let plus = |sum: Option<u64>, more: Option<u64>| more.map(|more| sum.unwrap_or(0).wrapping_add(more));
        self.trades += stream.tally.trades;
        self.messages += stream.tally.messages;
        self.checksum = plus(self.checksum, stream.checksum());
        self.content = plus(self.content, stream.content());
        match &mut self.late_ns {
            None => self.late_ns = Some(stream.tally.late_ns.clone()),
            // Both histograms have the same precision and resize automatically, so adding cannot
            // fail.
            Some(sum) => drop(sum.add(&stream.tally.late_ns)),
        }
    }
}

/// The final report of a server.
pub struct ServeReport {
    pub sums: SentTotals,
    /// From the first connection to the end of the last one.
    pub seconds: f64,
    pub connections: u64,
    pub refused: u64,
    pub disconnects: u64,
    pub broken: u64,
    pub violations: u64,
    pub pings: u64,
    pub bytes: u64,
    /// Why the source failed.
    pub failure: Option<String>,
}

impl ServerState {
    /// Exactly one of `stream` and `make` is given.
    pub fn new(protocol: Protocol, stream: Option<TapeStream>, make: Option<Box<StreamFactory>>) -> Self {
        ServerState {
            protocol,
            make,
            waiting: Mutex::new(StreamSlot {
                stream,
                over: SentTotals::default(),
                first: None,
                last: None,
                failure: None,
            }),
            freed: Condvar::new(),
            stop: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            disconnects: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            pings: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamSlot> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the stream once no other connection has it.
    pub fn take_stream(&self) -> Option<TapeStream> {
        if let Some(make) = &self.make {
            return make().map_err(|reason| self.fail(reason)).ok();
        }
        let waiting = self.lock();
        let taken = self.freed.wait_timeout_while(waiting, TAKEOVER_PATIENCE, |waiting| waiting.stream.is_none());
        let (mut waiting, _) = taken.unwrap_or_else(PoisonError::into_inner);
        waiting.stream.take()
    }

    pub fn give_back(&self, stream: TapeStream) {
        let mut waiting = self.lock();
        if self.make.is_some() {
            waiting.over.add(&stream);
        } else {
            waiting.stream = Some(stream);
        }
        self.freed.notify_one();
    }

    pub fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.lock().first.get_or_insert_with(Instant::now);
    }

    /// Notes that a connection received its last trade. Closing it may take longer.
    pub fn left(&self) {
        self.lock().last = Some(Instant::now());
    }

    /// Notes that a stream was sent to its end. If it was the only one, the server stops.
    pub fn finished(&self) {
        if self.make.is_none() {
            self.stop.store(true, Relaxed);
        }
    }

    /// Notes that the source failed, and stops the server.
    pub fn fail(&self, reason: String) {
        self.lock().failure.get_or_insert(reason);
        self.stop.store(true, Relaxed);
    }

    pub fn report(&self) -> ServeReport {
        let mut waiting = self.lock();
        if let Some(stream) = waiting.stream.take() {
            waiting.over.add(&stream);
        }
        let seconds = match (waiting.first, waiting.last) {
            (Some(first), Some(last)) => last.saturating_duration_since(first).as_secs_f64(),
            _ => 0.0,
        };
        ServeReport {
            sums: std::mem::take(&mut waiting.over),
            seconds,
            connections: self.connections.load(Relaxed),
            refused: self.refused.load(Relaxed),
            disconnects: self.disconnects.load(Relaxed),
            broken: self.broken.load(Relaxed),
            violations: self.violations.load(Relaxed),
            pings: self.pings.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            failure: waiting.failure.take(),
        }
    }
}
