//! How a server is set up.
//!
//! Does        collects listeners, limits and settings, and starts the loop with them.
//! Start at    [`Server::new`], then [`Server::run`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use pitwire_tls::ServerConfig;
use socket2::SockRef;

use crate::application::Application;
use crate::clock::SystemClock;
use crate::event_loop::{LISTEN_BACKLOG, LoopKind};
use crate::idle::IdleStrategy;
use crate::limits::Limits;
use crate::server_loop::{Listeners, ServerLoop, ServerSettings};
use crate::transport::MessageTransport;
use crate::waker::Waker;

/// Receive buffer of each socket in the kernel: some hundred orders. Requests buffered there add
/// latency that we cannot measure.
const RECEIVE_BUFFER_BYTES: usize = 128 * 1024;

/// A server that has not been started.
pub struct Server<A> {
    app: A,
    listener: TcpListener,
    signals: UnixStream,
    settings: ServerSettings,
    tls: Option<(TcpListener, Arc<ServerConfig>)>,
    streams: Vec<TcpListener>,
    waker: Option<OwnedFd>,
}

impl<A: Application> Server<A> {
    /// Makes a server. `signals` becomes readable when the process has to end.
    ///
    /// # Errors
    /// Fails if the listener cannot be prepared.
    pub fn new(app: A, listener: TcpListener, signals: UnixStream, clock: SystemClock) -> io::Result<Self> {
        prepare(&listener)?;
        signals.set_nonblocking(true)?;
        let settings = ServerSettings {
            clock,
            limits: Limits::default(),
            idle: IdleStrategy::default(),
            loop_kind: LoopKind::Epoll,
        };
        Ok(Server { app, listener, signals, settings, tls: None, streams: Vec::new(), waker: None })
    }

    /// Replaces the default limits.
    ///
    /// # Errors
    /// Never fails; the result is kept for the callers that chain fallible settings.
    pub fn with_limits(mut self, limits: Limits) -> io::Result<Self> {
        self.settings.limits = limits;
        Ok(self)
    }

    /// Sets how the loop waits for events. The default is [`IdleStrategy::Block`].
    pub fn with_idle_strategy(mut self, idle: IdleStrategy) -> Self {
        self.settings.idle = idle;
        self
    }

    /// Sets the event loop. The default is epoll: one request at a time takes 17.7 us on it and
    /// 18.6 us on io_uring, which costs less CPU time and pays where sends come in batches.
    pub fn with_loop(mut self, kind: LoopKind) -> Self {
        self.settings.loop_kind = kind;
        self
    }

    /// Adds a listener for TLS, which serves the same as the other.
    ///
    /// # Errors
    /// Fails if the listener cannot be prepared.
    pub fn with_tls(mut self, listener: TcpListener, config: Arc<ServerConfig>) -> io::Result<Self> {
        prepare(&listener)?;
        self.tls = Some((listener, config));
        Ok(self)
    }

    /// Adds a listener of byte streams, in which the application finds the messages itself:
    /// [`Application::stream_message`]. Its number is that of the listeners added before.
    ///
    /// # Errors
    /// Fails if the listener cannot be prepared.
    pub fn with_streams(mut self, listener: TcpListener) -> io::Result<Self> {
        prepare(&listener)?;
        self.streams.push(listener);
        Ok(self)
    }

    /// Lets other threads make the loop take a turn.
    ///
    /// # Errors
    /// Fails if the waker belongs to another loop or the process is out of file descriptors.
    pub fn with_waker(mut self, waker: &Waker) -> io::Result<Self> {
        self.waker = Some(waker.wake_source()?);
        Ok(self)
    }

    /// Returns the address of the plain listener.
    ///
    /// # Errors
    /// Fails if the kernel does not know the listener any more.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process has to end, and returns the application after its last commit.
    ///
    /// # Errors
    /// Fails if the event loop cannot be opened or a commit has failed. In the second case the
    /// caller must not claim that anything uncommitted has happened.
    pub fn run(self) -> io::Result<A> {
        self.open()?.run()
    }

    /// Serves as [`Self::run`] does, with the byte streams of a transport. Their listener has the
    /// number behind those of [`Self::with_streams`].
    ///
    /// # Errors
    /// Fails as [`Self::run`] does.
    pub fn run_with_transport(self, transport: Box<dyn MessageTransport>) -> io::Result<A> {
        self.open()?.with_transport(transport).run()
    }

    /// Opens the event loop with every descriptor that the server needs before its first
    /// connection.
    ///
    /// # Errors
    /// Fails if the event loop cannot be opened.
    pub(crate) fn open(self) -> io::Result<ServerLoop<A>> {
        let Server { app, listener, signals, settings, tls, streams, waker } = self;
        ServerLoop::open(app, settings, Listeners { plain: listener, tls, streams }, signals, waker)
    }
}

fn prepare(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let socket = SockRef::from(listener);
    socket.listen(LISTEN_BACKLOG)?;
    // Accepted connections inherit both options.
    socket.set_tcp_nodelay(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)
}
