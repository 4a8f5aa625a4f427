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
use pitwire_order_feed::{BookBuilder, FeedEncoding, full_number};
use socket2::{Domain, Protocol, Socket, Type};

use crate::arbiter::{Deliver, FeedMessage, LineArbiter, LineCounts, ReaderCounts};
use crate::glimpse_client;
use crate::recovery_client::{RecoveryClient, ReplayAnswer};
use crate::request_client::{PacketSession, RequestClient};

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
/// Requests of MoldUDP64 before datagrams are taken again.
const REQUESTS_PER_CHECK: usize = 256;
/// Requests of MoldUDP64 without an answer, each after 50 ms, that lead to a snapshot.
const MAX_UNANSWERED: u32 = 60;

/// Addresses of a feed.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Addresses of lines A and B: own addresses, or multicast groups.
    pub lines: Vec<SocketAddr>,
    /// Recovery port of the venue.
    pub recovery: SocketAddr,
    pub encoding: FeedEncoding,
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
    visit: &'a mut dyn FnMut(u64, &FeedMessage),
}

impl Deliver for Books<'_> {
    fn deliver(&mut self, number: u64, message: &FeedMessage) {
        let applied = match message {
            FeedMessage::Mitch(message) => self.books.apply(message),
            FeedMessage::Itch(message) => self.books.apply_itch(message),
        };
        self.has_misfit |= applied.is_err();
        (self.visit)(number, message);
    }
}

/// How a reader gets missing messages.
enum RecoverySource {
    /// `None` until the next snapshot.
    Mitch(Option<RecoveryClient>),
    Itch(RequestClient),
}

/// A reader that has joined the feed.
pub struct FeedReader {
    options: ReaderOptions,
    clock: Instant,
    arbiter: LineArbiter,
    books: BookBuilder,
    datagrams: Receiver<Datagram>,
    recovery: RecoverySource,
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
        let recovery = match options.encoding {
            FeedEncoding::Mitch => RecoverySource::Mitch(None),
            FeedEncoding::Itch => {
                let address = options.recovery;
                let opened = RequestClient::open(address);
                RecoverySource::Itch(opened.map_err(|error| ReaderError::Recovery { address, error })?)
            }
        };
        let mut reader = FeedReader {
            clock,
            arbiter: LineArbiter::new(options.encoding, options.lines.len()),
            books: BookBuilder::default(),
            datagrams,
            recovery,
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
    pub fn poll(&mut self, wait: Duration, visit: &mut dyn FnMut(u64, &FeedMessage)) -> Result<(), ReaderError> {
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

    fn receive(&mut self, datagram: &Datagram, visit: &mut dyn FnMut(u64, &FeedMessage)) {
        let source = self.options.source.unwrap_or(self.options.recovery.ip()).to_canonical();
        if datagram.source != source {
            return self.arbiter.count_foreign(datagram.line);
        }
        if let RecoverySource::Itch(requests) = &mut self.recovery {
            match requests.session_of(&datagram.bytes) {
                PacketSession::Current => {}
                PacketSession::Past => return self.arbiter.count_foreign(datagram.line),
                // After a snapshot, requests get this packet.
                PacketSession::New => return requests.leave(Some(&datagram.bytes)),
            }
        }
        let mut books = Books { books: &mut self.books, has_misfit: false, visit };
        self.arbiter.receive(datagram.line, datagram.at_ns, &datagram.bytes, &mut books);
        if books.has_misfit {
            self.note_misfit();
        }
    }

    fn note_misfit(&mut self) {
        self.arbiter.counts.misfits += 1;
        match &mut self.recovery {
            RecoverySource::Mitch(connection) => *connection = None,
            RecoverySource::Itch(requests) => requests.leave(None),
        }
    }

    /// Fills gaps, and joins again where that is necessary.
    fn recover(&mut self, visit: &mut dyn FnMut(u64, &FeedMessage)) -> Result<(), ReaderError> {
        let (now, now_ns) = (Instant::now(), self.now_ns());
        let connection = match &mut self.recovery {
            RecoverySource::Mitch(connection) => connection,
            RecoverySource::Itch(requests) if !requests.has_session() => {
                return if now >= self.join_at { self.take_snapshot() } else { Ok(()) };
            }
            RecoverySource::Itch(_) => {
                self.request_missing(now_ns, visit);
                return Ok(());
            }
        };
        if now >= self.check_at {
            self.check_at = now + CONNECTION_CHECK_INTERVAL;
            if connection.as_ref().is_some_and(RecoveryClient::is_closed) {
                *connection = None;
            }
        }
        let Some(recovery) = connection else {
            return if now >= self.join_at { self.take_snapshot() } else { Ok(()) };
        };
        let Some((first, missing)) = self.arbiter.gap(now_ns).filter(|_| now >= self.replay_at) else {
            return Ok(());
        };
        self.arbiter.counts.replays += 1;
        match recovery.replay(first, u16::try_from(missing).unwrap_or(u16::MAX)) {
            Ok(ReplayAnswer::Units(units)) => {
                let mut books = Books { books: &mut self.books, has_misfit: false, visit };
                for unit in units {
                    self.arbiter.replay(now_ns, &unit, &mut books);
                }
                if books.has_misfit {
                    self.note_misfit();
                }
            }
            Ok(ReplayAnswer::OutOfRange { oldest }) if full_number(oldest, first) <= first => {
                self.arbiter.drop_waiting();
            }
            Ok(ReplayAnswer::OutOfRange { .. }) => *connection = None,
            Ok(ReplayAnswer::Limited) => self.replay_at = now + REPLAY_PAUSE,
            Err(error) => {
                *connection = None;
                return Err(ReaderError::Recovery { address: self.options.recovery, error });
            }
        }
        Ok(())
    }

    /// Requests missing packets of MoldUDP64, one after the other.
    fn request_missing(&mut self, now_ns: u64, visit: &mut dyn FnMut(u64, &FeedMessage)) {
        let RecoverySource::Itch(requests) = &mut self.recovery else { return };
        if self.arbiter.gap(now_ns).is_none() {
            return;
        }
        let mut books = Books { books: &mut self.books, has_misfit: false, visit };
        for _ in 0..REQUESTS_PER_CHECK {
            let Some((first, missing)) = self.arbiter.missing().filter(|_| !books.has_misfit) else { break };
            self.arbiter.counts.replays += 1;
            if let Some(packet) = requests.request(first, missing) {
                self.arbiter.replay(now_ns, &packet, &mut books);
            } else if requests.unanswered >= MAX_UNANSWERED {
                // The venue no longer has them, or their numbers are forged.
                self.arbiter.drop_waiting();
                requests.leave(None);
                break;
            } else {
                // The lines may have it meanwhile.
                break;
            }
        }
        if books.has_misfit {
            self.note_misfit();
        }
    }

    /// Joins the feed anew. Datagrams that arrive meanwhile wait in the queue.
    fn take_snapshot(&mut self) -> Result<(), ReaderError> {
        self.join_at = Instant::now() + JOIN_PAUSE;
        let address = self.options.recovery;
        let failed = |error| ReaderError::Recovery { address, error };
        let newest = match &mut self.recovery {
            RecoverySource::Mitch(connection) => {
                let mut recovery = RecoveryClient::connect(address).map_err(failed)?;
                let Some((newest, books)) = recovery.snapshot().map_err(failed)? else { return Ok(()) };
                self.books = books;
                *connection = Some(recovery);
                newest.into()
            }
            RecoverySource::Itch(requests) => {
                let Some(snapshot) = glimpse_client::fetch(address).map_err(failed)? else { return Ok(()) };
                self.books = snapshot.books;
                requests.follow(snapshot.session);
                snapshot.next_number - 1
            }
        };
        self.arbiter.join(newest);
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
        match &self.recovery {
            RecoverySource::Mitch(connection) => connection.is_some(),
            RecoverySource::Itch(requests) => requests.has_session() && self.arbiter.missing().is_none(),
        }
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
