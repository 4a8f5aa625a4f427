//! A reader of the feed: both lines, recovery, and the books of all instruments.
//!
//! One thread per line receives datagrams with their times. The caller's thread joins the lines,
//! fills gaps and rebuilds the books.
//!
//! Holds       1. after [`FeedReader::poll`] the books contain all messages up to
//!                [`FeedReader::next_number`];
//!             2. a message that does not fit, a gap that cannot be filled and a new start of the
//!                venue lead to a snapshot, at most one in [`JOIN_PAUSE`];
//!             3. datagrams from other addresses than the venue's are dropped and counted.
//! Start at    [`FeedReader::join`].

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use pitwire_order_feed::{BookBuilder, MitchMessage, full_number};
use socket2::{Domain, Protocol, Socket, Type};

use crate::arbiter::{Deliver, LineArbiter, LineCounts, ReaderCounts};
use crate::recovery_client::{RecoveryClient, ReplayAnswer};

/// Datagrams that wait for [`FeedReader::poll`].
const MAX_DATAGRAMS: usize = 65_536;
/// Receive buffer of a line. The system may allow less.
const RECEIVE_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// Interval at which a line's thread checks whether the reader has ended.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which an idle reader checks gaps and the connection.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Datagrams taken before gaps are checked again.
const DATAGRAMS_PER_CHECK: usize = 256;
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Shortest time between two snapshots, and between a refused replay request and the next.
const JOIN_PAUSE: Duration = Duration::from_millis(500);
const REPLAY_PAUSE: Duration = Duration::from_millis(100);

/// Addresses of a feed.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Addresses of lines A and B: own addresses, or multicast groups.
    pub lines: Vec<SocketAddr>,
    /// Recovery port of the venue.
    pub recovery: SocketAddr,
    /// Address from which the venue sends. The default is that of the recovery port.
    pub source: Option<IpAddr>,
    /// Own IPv4 address at which multicast groups are received.
    pub interface: Option<Ipv4Addr>,
}

/// Why a reader does not work.
#[derive(Debug)]
pub enum ReaderError {
    /// A line cannot be received.
    Line { address: SocketAddr, error: io::Error },
    /// The recovery port does not answer as expected. A later [`FeedReader::poll`] tries again.
    Recovery { address: SocketAddr, error: io::Error },
}

impl fmt::Display for ReaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReaderError::Line { address, error } => write!(f, "cannot receive {address}: {error}"),
            ReaderError::Recovery { address, error } => write!(f, "recovery at {address} failed: {error}"),
        }
    }
}

impl std::error::Error for ReaderError {}

struct Datagram {
    line: usize,
    at_ns: u64,
    source: IpAddr,
    bytes: Box<[u8]>,
}

/// The books, and the caller's function for messages.
struct Books<'a> {
    books: &'a mut BookBuilder,
    has_misfit: bool,
    visit: &'a mut dyn FnMut(u64, &MitchMessage),
}

impl Deliver for Books<'_> {
    fn deliver(&mut self, number: u64, message: &MitchMessage) {
        self.has_misfit |= self.books.apply(message).is_err();
        (self.visit)(number, message);
    }
}

/// A reader that has joined the feed.
pub struct FeedReader {
    options: ReaderOptions,
    clock: Instant,
    arbiter: LineArbiter,
    books: BookBuilder,
    datagrams: Receiver<Datagram>,
    /// `None` until the next snapshot.
    recovery: Option<RecoveryClient>,
    join_at: Instant,
    replay_at: Instant,
    check_at: Instant,
    overflow: Arc<AtomicU64>,
    addresses: Vec<SocketAddr>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl FeedReader {
    /// Receives the lines and takes a snapshot.
    ///
    /// # Errors
    ///
    /// Fails if a line cannot be received, or if the recovery port gives no snapshot.
    pub fn join(options: ReaderOptions) -> Result<FeedReader, ReaderError> {
        let (queue, datagrams) = sync_channel(MAX_DATAGRAMS);
        let clock = Instant::now();
        let mut reader = FeedReader {
            clock,
            arbiter: LineArbiter::new(options.lines.len()),
            books: BookBuilder::default(),
            datagrams,
            recovery: None,
            join_at: clock,
            replay_at: clock,
            check_at: clock,
            overflow: Arc::default(),
            addresses: Vec::new(),
            stops: Arc::default(),
            threads: Vec::new(),
            options,
        };
        for (line, address) in reader.options.lines.clone().into_iter().enumerate() {
            let failed = |error| ReaderError::Line { address, error };
            let socket = open_line(address, reader.options.interface).map_err(failed)?;
            reader.addresses.push(socket.local_addr().map_err(failed)?);
            let receiver = LineReceiver {
                socket,
                line,
                clock,
                queue: queue.clone(),
                overflow: Arc::clone(&reader.overflow),
                stops: Arc::clone(&reader.stops),
            };
            let thread = thread::Builder::new().name(format!("feed-line-{line}")).spawn(move || receiver.run());
            reader.threads.push(thread.map_err(failed)?);
        }
        reader.take_snapshot()?;
        Ok(reader)
    }

    /// Takes what arrives within `wait`. Calls `visit` with each message and its number.
    ///
    /// # Errors
    ///
    /// Fails if the recovery port fails. The next call tries it again.
    pub fn poll(&mut self, wait: Duration, visit: &mut dyn FnMut(u64, &MitchMessage)) -> Result<(), ReaderError> {
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut next = self.datagrams.recv_timeout(left.min(CHECK_INTERVAL)).ok();
            let mut taken = 0;
            while let Some(datagram) = next {
                self.receive(&datagram, visit);
                taken += 1;
                next = if taken < DATAGRAMS_PER_CHECK { self.datagrams.try_recv().ok() } else { None };
            }
            self.recover(visit)?;
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, datagram: &Datagram, visit: &mut dyn FnMut(u64, &MitchMessage)) {
        let source = self.options.source.unwrap_or(self.options.recovery.ip()).to_canonical();
        if datagram.source != source {
            return self.arbiter.count_foreign(datagram.line);
        }
        let mut books = Books { books: &mut self.books, has_misfit: false, visit };
        self.arbiter.receive(datagram.line, datagram.at_ns, &datagram.bytes, &mut books);
        if books.has_misfit {
            self.note_misfit();
        }
    }

    fn note_misfit(&mut self) {
        self.arbiter.counts.misfits += 1;
        self.recovery = None;
    }

    /// Fills gaps, and joins again where that is necessary.
    fn recover(&mut self, visit: &mut dyn FnMut(u64, &MitchMessage)) -> Result<(), ReaderError> {
        let now = Instant::now();
        if now >= self.check_at {
            self.check_at = now + CONNECTION_CHECK_INTERVAL;
            if self.recovery.as_ref().is_some_and(RecoveryClient::is_closed) {
                self.recovery = None;
            }
        }
        if self.recovery.is_none() {
            return if now >= self.join_at { self.take_snapshot() } else { Ok(()) };
        }
        let Some((first, missing)) = self.arbiter.gap(self.now_ns()).filter(|_| now >= self.replay_at) else {
            return Ok(());
        };
        let Some(recovery) = &mut self.recovery else { return Ok(()) };
        self.arbiter.counts.replays += 1;
        match recovery.replay(first, u16::try_from(missing).unwrap_or(u16::MAX)) {
            Ok(ReplayAnswer::Units(units)) => {
                let at_ns = self.now_ns();
                let mut books = Books { books: &mut self.books, has_misfit: false, visit };
                for unit in units {
                    self.arbiter.replay(at_ns, &unit, &mut books);
                }
                if books.has_misfit {
                    self.note_misfit();
                }
            }
            Ok(ReplayAnswer::OutOfRange { oldest }) if full_number(oldest, first) <= first => {
                self.arbiter.drop_waiting();
            }
            Ok(ReplayAnswer::OutOfRange { .. }) => self.recovery = None,
            Ok(ReplayAnswer::Limited) => self.replay_at = now + REPLAY_PAUSE,
            Err(error) => {
                self.recovery = None;
                return Err(ReaderError::Recovery { address: self.options.recovery, error });
            }
        }
        Ok(())
    }

    /// Joins the feed anew. Datagrams that arrive meanwhile wait in the queue.
    fn take_snapshot(&mut self) -> Result<(), ReaderError> {
        self.join_at = Instant::now() + JOIN_PAUSE;
        let failed = |error| ReaderError::Recovery { address: self.options.recovery, error };
        let mut recovery = RecoveryClient::connect(self.options.recovery).map_err(failed)?;
        let Some((newest, books)) = recovery.snapshot().map_err(failed)? else { return Ok(()) };
        self.books = books;
        self.arbiter.join(u64::from(newest));
        self.recovery = Some(recovery);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn books(&self) -> &BookBuilder {
        &self.books
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        self.arbiter.next_number()
    }

    /// Returns whether the books are current, except for datagrams that have not arrived.
    pub fn is_joined(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns the own addresses of the lines, for lines with port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn counts(&self) -> ReaderCounts {
        ReaderCounts { overflow: self.overflow.load(Ordering::Relaxed), ..self.arbiter.counts }
    }

    pub fn line_counts(&self, line: usize) -> LineCounts {
        self.arbiter.line(line)
    }

    /// Returns the delays of the second line behind the first, in nanoseconds.
    pub fn line_delays(&self) -> &Histogram<u64> {
        &self.arbiter.delays
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Opens a socket for a line. Several readers of a host can receive the same multicast group.
fn open_line(address: SocketAddr, interface: Option<Ipv4Addr>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The system reduces a size that it does not allow.
    drop(socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES));
    if address.ip().is_multicast() {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4(&group, &interface.unwrap_or(Ipv4Addr::UNSPECIFIED))?;
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
        _ => {}
    }
    socket.set_read_timeout(Some(STOP_INTERVAL))?;
    Ok(socket.into())
}

/// Receives one line on its own thread.
struct LineReceiver {
    socket: UdpSocket,
    line: usize,
    clock: Instant,
    queue: SyncSender<Datagram>,
    overflow: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
}

impl LineReceiver {
    fn run(self) {
        let mut buffer = vec![0; 64 * 1024];
        while !self.stops.load(Ordering::Relaxed) {
            // A timeout, or an error that concerns one datagram.
            let Ok((length, source)) = self.socket.recv_from(&mut buffer) else { continue };
            let at_ns = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let bytes = buffer.get(..length).unwrap_or_default().into();
            let datagram = Datagram { line: self.line, at_ns, source: source.ip().to_canonical(), bytes };
            if self.queue.try_send(datagram).is_err() {
                self.overflow.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
