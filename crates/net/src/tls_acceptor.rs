//! The TLS acceptor: a thread that finishes handshakes, so that no order waits for the signature
//! of another connection's handshake.
//!
//! Does        accepts, counts by address, does handshakes, and passes open connections on.
//! Holds       1. a handshake takes as long as any unfinished request may; it has one of the
//!                permits that all connections share;
//!             2. the open connections that wait for the loop are bounded: beyond that the thread
//!                accepts none until the loop takes some.
//! Start at    [`TlsAcceptor::start`].

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pitwire_tls::{ServerConfig, Session};
use tracing::{debug, warn};

use crate::event_loop::{AcceptedSocket, EventLoop, ListenerId, LoopEvent, LoopKind, LoopOptions, SendOutcome};
use crate::quota::{AddressCounts, ConnectionPermit, ConnectionQuota};
use crate::stream::{Receipt, Stream};
use crate::waker::Waker;

/// Most open connections that wait for the loop.
const WAITING_MAX: usize = 1_024;
/// Connections accepted before handshakes go on.
const ACCEPTS: usize = 64;
/// Pause before accepting again when that failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Time between two looks for handshakes that take too long.
const SWEEP: Duration = Duration::from_secs(1);
/// Most bytes of one receive: a little more than one record.
const RECEIVE_BYTES: u32 = 17 * 1024;

/// The certificate, and the counts shared with the other listeners.
pub(crate) struct TlsSettings {
    pub config: Arc<ServerConfig>,
    pub addresses: AddressCounts,
    pub per_address: Option<u32>,
    /// Time for a handshake.
    pub unfinished: Duration,
    pub quota: ConnectionQuota,
}

/// A connection whose handshake is done.
pub(crate) struct SecureConnection {
    pub socket: OwnedFd,
    pub session: Option<Session>,
    /// Plain bytes that arrived behind the handshake.
    pub received: Vec<u8>,
    pub peer: IpAddr,
    pub permit: ConnectionPermit,
}

/// The loop's end of the acceptor. Dropping it ends the thread.
pub(crate) struct TlsAcceptor {
    open: Receiver<SecureConnection>,
    is_ending: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl TlsAcceptor {
    /// Starts the thread. It wakes `server` when a connection waits.
    ///
    /// # Errors
    /// Fails if the process is out of threads or file descriptors.
    pub fn start(listener: TcpListener, settings: TlsSettings, server: Waker) -> io::Result<TlsAcceptor> {
        let (out, open) = sync_channel(WAITING_MAX);
        let (is_ending, waker) = (Arc::new(AtomicBool::new(false)), Waker::default());
        let wake_source = waker.wake_source()?;
        let ending = Arc::clone(&is_ending);
        let run = move || {
            // Only this thread: where cores are scarce, orders go before signatures.
            let _ = rustix::process::nice(10);
            let acceptor = HandshakeLoop::open(listener, wake_source, settings, out, server, ending);
            if let Err(error) = acceptor.and_then(HandshakeLoop::run) {
                warn!(%error, "the TLS listener has failed; no more TLS connections are accepted");
            }
        };
        let thread = std::thread::Builder::new().name("tls-acceptor".into()).spawn(run)?;
        Ok(TlsAcceptor { open, is_ending, waker, thread: Some(thread) })
    }

    /// Returns the connection that has waited longest.
    pub fn next(&self) -> Option<SecureConnection> {
        self.open.try_recv().ok()
    }
}

impl Drop for TlsAcceptor {
    fn drop(&mut self) {
        // The thread may wait for events, or for room in the channel.
        self.is_ending.store(true, Ordering::Release);
        self.waker.wake();
        self.open = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A connection whose handshake is under way.
struct Handshake {
    stream: Stream,
    peer: IpAddr,
    permit: ConnectionPermit,
    received: Vec<u8>,
    since: Instant,
}

/// Why the thread ends.
enum Stop {
    /// The server is gone.
    ServerGone,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Failed(error)
    }
}

struct HandshakeLoop {
    net: Box<dyn EventLoop>,
    listener: ListenerId,
    settings: TlsSettings,
    out: SyncSender<SecureConnection>,
    server: Waker,
    is_ending: Arc<AtomicBool>,
    /// By token.
    handshakes: Vec<Option<Handshake>>,
    count: usize,
    /// Connections may wait to be accepted.
    is_acceptable: bool,
    accept_again: Option<Instant>,
    /// A failure to accept has been logged and goes on.
    has_warned: bool,
    next_sweep: Instant,
}

impl HandshakeLoop {
    fn open(
        listener: TcpListener,
        wake_source: OwnedFd,
        settings: TlsSettings,
        out: SyncSender<SecureConnection>,
        server: Waker,
        is_ending: Arc<AtomicBool>,
    ) -> io::Result<HandshakeLoop> {
        // Handshakes are few and their sockets leave soon, which epoll does at no cost.
        let mut net = LoopKind::Epoll.open(LoopOptions { receive_bytes: RECEIVE_BYTES, detaches: true })?;
        let listener = net.add_listener(listener)?;
        net.add_wake_source(wake_source, 0)?;
        Ok(HandshakeLoop {
            net,
            listener,
            settings,
            out,
            server,
            is_ending,
            handshakes: Vec::new(),
            count: 0,
            is_acceptable: false,
            accept_again: None,
            has_warned: false,
            next_sweep: Instant::now(),
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            match self.turn(&mut events) {
                Ok(()) => {}
                Err(Stop::ServerGone) => return Ok(()),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
    }

    fn turn(&mut self, events: &mut Vec<LoopEvent>) -> Result<(), Stop> {
        self.net.wait(self.timeout(), events)?;
        if self.is_ending.load(Ordering::Acquire) {
            return Err(Stop::ServerGone);
        }
        for event in &*events {
            match event {
                LoopEvent::Acceptable(_) => self.is_acceptable = true,
                LoopEvent::Readable(token) | LoopEvent::Writable(token) => self.continue_handshake(token.index())?,
                LoopEvent::Woken(_) => {}
            }
        }
        let now = Instant::now();
        self.is_acceptable |= self.accept_again.take_if(|again| now >= *again).is_some();
        if self.is_acceptable && self.accept_again.is_none() {
            self.accept(now)?;
        }
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            self.sweep(now);
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        if self.is_acceptable && self.accept_again.is_none() {
            return Some(Duration::ZERO);
        }
        let sweep = (self.count > 0).then_some(self.next_sweep);
        let next = [sweep, self.accept_again].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    fn accept(&mut self, now: Instant) -> Result<(), Stop> {
        for _ in 0..ACCEPTS {
            let Some(permit) = self.settings.quota.acquire() else {
                // A handshake will be done, or time out, before long.
                self.accept_again = Some(now + ACCEPT_AGAIN);
                return Ok(());
            };
            match self.net.accept(self.listener) {
                Ok(Some(accepted)) => {
                    self.has_warned = false;
                    self.begin(accepted, permit, now)?;
                }
                Ok(None) => {
                    self.is_acceptable = false;
                    return Ok(());
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.has_warned, true) {
                        warn!(%error, "cannot accept TLS connections; trying again until it works");
                    }
                    self.accept_again = Some(now + ACCEPT_AGAIN);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, accepted: AcceptedSocket, permit: ConnectionPermit, now: Instant) -> Result<(), Stop> {
        let AcceptedSocket { token, peer } = accepted;
        let peer = peer.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
        // A reason would need a handshake, which the address must not get.
        if !self.settings.addresses.acquire(peer, self.settings.per_address) {
            self.net.close(token);
            return Ok(());
        }
        match Stream::secure(token, &self.settings.config) {
            Ok(stream) => {
                let at = token.index();
                if self.handshakes.len() <= at {
                    self.handshakes.resize_with(at + 1, || None);
                }
                self.handshakes[at] = Some(Handshake { stream, peer, permit, received: Vec::new(), since: now });
                self.count += 1;
                self.continue_handshake(at)
            }
            Err(error) => {
                warn!(%error, "cannot serve TLS on a connection");
                self.net.close(token);
                self.settings.addresses.release(peer);
                Ok(())
            }
        }
    }

    fn continue_handshake(&mut self, at: usize) -> Result<(), Stop> {
        let Some(Some(handshake)) = self.handshakes.get_mut(at) else { return Ok(()) };
        match handshake.advance(&mut *self.net) {
            Ok(false) => Ok(()),
            Ok(true) => self.pass_on(at),
            Err(()) => {
                debug!("a TLS handshake failed");
                self.abort(at);
                Ok(())
            }
        }
    }

    /// Gives an open connection to the server.
    fn pass_on(&mut self, at: usize) -> Result<(), Stop> {
        let Some(handshake) = self.remove(at) else { return Ok(()) };
        let Handshake { mut stream, peer, permit, mut received, .. } = handshake;
        let detached = match self.net.detach(stream.token()) {
            Ok(detached) => detached,
            Err(error) => {
                debug!(%error, "cannot pass a TLS connection on");
                self.net.close(stream.token());
                self.settings.addresses.release(peer);
                return Ok(());
            }
        };
        let opened = stream.open(detached.received, &mut |bytes| received.extend_from_slice(bytes));
        if opened.is_err() || !stream.is_flushed() {
            self.settings.addresses.release(peer);
            return Ok(());
        }
        let session = stream.take_session();
        let connection = SecureConnection { socket: detached.socket, session, received, peer, permit };
        self.out.send(connection).map_err(|_| Stop::ServerGone)?;
        self.server.wake();
        Ok(())
    }

    fn remove(&mut self, at: usize) -> Option<Handshake> {
        let handshake = self.handshakes.get_mut(at)?.take()?;
        self.count -= 1;
        Some(handshake)
    }

    fn abort(&mut self, at: usize) {
        if let Some(handshake) = self.remove(at) {
            self.net.close(handshake.stream.token());
            self.settings.addresses.release(handshake.peer);
        }
    }

    fn sweep(&mut self, now: Instant) {
        let is_late = |handshake: &Handshake| now.duration_since(handshake.since) >= self.settings.unfinished;
        let late = self.handshakes.iter().enumerate();
        let late: Vec<usize> =
            late.filter(|(_, handshake)| handshake.as_ref().is_some_and(is_late)).map(|(at, _)| at).collect();
        late.into_iter().for_each(|at| self.abort(at));
    }
}

impl Handshake {
    /// Goes on with the handshake. Returns whether it is done and all of it was sent.
    fn advance(&mut self, net: &mut dyn EventLoop) -> Result<bool, ()> {
        while !self.stream.is_open() {
            let received = &mut self.received;
            match self.stream.receive(net, &mut |bytes| received.extend_from_slice(bytes)) {
                Receipt::Bytes(_) => {}
                Receipt::Pending => return Ok(false),
                Receipt::Ended | Receipt::Failed => return Err(()),
            }
        }
        match self.stream.flush(net) {
            SendOutcome::Bytes(_) => Ok(true),
            SendOutcome::Blocked => Ok(false),
            SendOutcome::Failed => Err(()),
        }
    }
}
