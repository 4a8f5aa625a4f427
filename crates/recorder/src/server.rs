//! The feed's server: takes connections, one thread each, and says at the end what was sent.
//!
//! Does        hand the one stream from connection to connection, or a new one to each (`per_client`); stop when asked.
//! Start at    [`Server::run`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;

use crate::connection::Connection;
use crate::stream::Stream;
use crate::wire::Wire;

/// More at once are refused by closing them.
const MOST_CONNECTIONS: u64 = 256;
/// A reader that comes back may be quicker than the news that it had gone.
const TAKEOVER_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    None,
    /// A status on connecting, then auth and subscribe are waited for and answered.
    Polygon,
}

/// How `--disconnect-every` ends a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// A close frame, then the end.
    Close,
    /// The end in the middle of a frame.
    Cut,
    /// A reset in the middle of a frame: what is under way is lost.
    Reset,
}

pub struct Service {
    pub hello: Hello,
    /// The key that a login must give.
    pub auth: Option<String>,
    pub ping_every: Option<Duration>,
    pub disconnect: Disconnect,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub feed: Feed,
}

/// Makes a stream from the beginning; the error says why it cannot.
pub type Make = dyn Fn() -> Result<Stream, String> + Send + Sync;

pub enum Feed {
    /// One stream, which the next connection continues.
    One(Box<Stream>),
    PerClient(Box<Make>),
}

/// What the connections' threads have in common.
pub(crate) struct Shared {
    pub hello: Hello,
    pub auth: Option<String>,
    pub ping_every: Option<Duration>,
    pub disconnect: Disconnect,
    make: Option<Box<Make>>,
    waiting: Mutex<Waiting>,
    freed: Condvar,
    pub stop: AtomicBool,
    connections: AtomicU64,
    open: AtomicU64,
    pub refused: AtomicU64,
    pub disconnects: AtomicU64,
    pub broken: AtomicU64,
    pub violations: AtomicU64,
    pub pings: AtomicU64,
    pub bytes: AtomicU64,
}

struct Waiting {
    stream: Option<Stream>,
    /// Sums of the streams that are over, with `--per-client`.
    over: Sums,
    first: Option<Instant>,
    last: Option<Instant>,
    failure: Option<String>,
}

/// What was handed over.
#[derive(Default)]
pub struct Sums {
    pub trades: u64,
    pub messages: u64,
    pub checksum: Option<u64>,
    pub content: Option<u64>,
    pub late_ns: Option<hdrhistogram::Histogram<u64>>,
}

impl Sums {
    fn add(&mut self, stream: &Stream) {
        let plus = |sum: Option<u64>, more: Option<u64>| more.map(|more| sum.unwrap_or(0).wrapping_add(more));
        self.trades += stream.tally.trades;
        self.messages += stream.tally.messages;
        self.checksum = plus(self.checksum, stream.checksum());
        self.content = plus(self.content, stream.content());
        match &mut self.late_ns {
            None => self.late_ns = Some(stream.tally.late_ns.clone()),
            // Both have the same digits and grow by themselves: adding cannot fail.
            Some(sum) => drop(sum.add(&stream.tally.late_ns)),
        }
    }
}

/// What a server did in its life.
pub struct Report {
    pub sums: Sums,
    /// From the first connection to the end of the last.
    pub seconds: f64,
    pub connections: u64,
    pub refused: u64,
    pub disconnects: u64,
    pub broken: u64,
    pub violations: u64,
    pub pings: u64,
    pub bytes: u64,
    /// Why the source could not go on.
    pub failure: Option<String>,
}

pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    shared: Arc<Shared>,
}

impl Server {
    pub fn new(listener: TcpListener, service: Service) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (stream, make) = match service.feed {
            Feed::One(stream) => (Some(*stream), None),
            Feed::PerClient(make) => (None, Some(make)),
        };
        let shared = Shared {
            hello: service.hello,
            auth: service.auth,
            ping_every: service.ping_every,
            disconnect: service.disconnect,
            make,
            waiting: Mutex::new(Waiting { stream, over: Sums::default(), first: None, last: None, failure: None }),
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
        };
        Ok(Server { listener, tls: service.tls, shared: Arc::new(shared) })
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the stream has ended, or `stop` becomes readable.
    pub fn run(self, stop: BorrowedFd<'_>) -> io::Result<Report> {
        let mut threads: Vec<std::thread::JoinHandle<()>> = Vec::new();
        while !self.shared.stop.load(Relaxed) {
            let glance = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let mut polled = [
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
            ];
            match poll(&mut polled, Some(&glance)) {
                Err(rustix::io::Errno::INTR) | Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            if !polled[1].revents().is_empty() {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            match self.listener.accept() {
                Ok((socket, _)) => threads.extend(self.admit(socket)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A connection that was over before it was taken, or no descriptor left: the others go on.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        self.shared.stop.store(true, Relaxed);
        for thread in threads {
            // A thread that panicked has already said so on standard error.
            let _ = thread.join();
        }
        Ok(self.shared.report())
    }

    fn admit(&self, socket: TcpStream) -> Option<std::thread::JoinHandle<()>> {
        if self.shared.open.load(Relaxed) >= MOST_CONNECTIONS {
            self.shared.refused.fetch_add(1, Relaxed);
            return None;
        }
        // A peer that has gone already is not worth more.
        let tls = self.tls.clone().map(ServerConnection::new).transpose().ok()?;
        let wire = Wire::new(socket, tls).ok()?;
        let shared = Arc::clone(&self.shared);
        shared.open.fetch_add(1, Relaxed);
        let serve = move || {
            // The default slack of 50 microseconds is late for a message every 10; without it we are only later.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            Connection::new(wire, &shared).serve();
            shared.open.fetch_sub(1, Relaxed);
        };
        let spawned = std::thread::Builder::new().name("reader".into()).spawn(serve);
        if spawned.is_err() {
            self.shared.open.fetch_sub(1, Relaxed);
        }
        spawned.ok()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream, once nobody else has it.
    pub fn take_stream(&self) -> Option<Stream> {
        if let Some(make) = &self.make {
            return make().map_err(|reason| self.fail(reason)).ok();
        }
        let waiting = self.lock();
        let taken = self.freed.wait_timeout_while(waiting, TAKEOVER_PATIENCE, |waiting| waiting.stream.is_none());
        let (mut waiting, _) = taken.unwrap_or_else(PoisonError::into_inner);
        waiting.stream.take()
    }

    pub fn give_back(&self, stream: Stream) {
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

    /// A connection has got its last trade; its end may take longer.
    pub fn left(&self) {
        self.lock().last = Some(Instant::now());
    }

    /// A stream has been sent to its end; if it was the only one, so is the server's work.
    pub fn finished(&self) {
        if self.make.is_none() {
            self.stop.store(true, Relaxed);
        }
    }

    /// The source cannot go on.
    pub fn fail(&self, reason: String) {
        self.lock().failure.get_or_insert(reason);
        self.stop.store(true, Relaxed);
    }

    fn report(&self) -> Report {
        let mut waiting = self.lock();
        if let Some(stream) = waiting.stream.take() {
            waiting.over.add(&stream);
        }
        let seconds = match (waiting.first, waiting.last) {
            (Some(first), Some(last)) => last.saturating_duration_since(first).as_secs_f64(),
            _ => 0.0,
        };
        Report {
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
