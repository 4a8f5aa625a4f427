//! The server of the feed: one thread with its own event loop per connection, and a report at the
//! end.
//!
//! Does        accepts connections until the stream ends or `stop` is requested.
//! Start at    [`TapeServer::run`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use pitwire_net::ServerConfig;

use crate::accept::accept_until;
use crate::connection::ReaderConnection;
use crate::server_socket::ServerSocket;
use crate::server_state::ServerState;
pub use crate::server_state::{Disconnect, Hello, Protocol, SentTotals, ServeReport, StreamFactory};
use crate::stream::TapeStream;

/// Most connections at a time. Further ones are closed at once.
const MOST_CONNECTIONS: u64 = 256;

pub struct ServiceConfig {
    pub protocol: Protocol,
    pub tls: Option<Arc<ServerConfig>>,
    pub feed: FeedMode,
}

pub enum FeedMode {
    /// One stream, which the next connection continues.
    One(Box<TapeStream>),
    PerClient(Box<StreamFactory>),
}

pub struct TapeServer {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    state: Arc<ServerState>,
}

impl TapeServer {
    /// Creates a server on an open listener.
    pub fn new(listener: TcpListener, service: ServiceConfig) -> Self {
        let (stream, make) = match service.feed {
            FeedMode::One(stream) => (Some(*stream), None),
            FeedMode::PerClient(make) => (None, Some(make)),
        };
        let state = ServerState::new(service.protocol, stream, make);
        TapeServer { listener, tls: service.tls, state: Arc::new(state) }
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the stream has ended, or `stop` becomes readable.
    ///
    /// # Errors
    /// Waiting for connections fails.
    pub fn run(self, stop: BorrowedFd<'_>) -> io::Result<ServeReport> {
        let TapeServer { listener, tls, state } = self;
        let is_over = |_: &[JoinHandle<()>]| state.stop.load(Relaxed);
        let threads = accept_until(listener, stop, &is_over, &|socket| admit(&state, tls.as_ref(), socket))?;
        state.stop.store(true, Relaxed);
        for thread in threads {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
        Ok(state.report())
    }
}

/// Starts the thread of a connection.
fn admit(state: &Arc<ServerState>, tls: Option<&Arc<ServerConfig>>, socket: OwnedFd) -> Option<JoinHandle<()>> {
    if state.open.load(Relaxed) >= MOST_CONNECTIONS {
        state.refused.fetch_add(1, Relaxed);
        return None;
    }
    let (of_thread, tls) = (Arc::clone(state), tls.cloned());
    state.open.fetch_add(1, Relaxed);
    let serve = move || {
        // The default timer slack of 50 µs is too long for a message every 10 µs. If refused,
        // messages are only later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        // Otherwise the peer is already gone, or no descriptor is left.
        if let Ok(socket) = ServerSocket::new(socket, tls.as_ref()) {
            ReaderConnection::new(socket, &of_thread).serve();
        }
        of_thread.open.fetch_sub(1, Relaxed);
    };
    let spawned = std::thread::Builder::new().name("reader".into()).spawn(serve);
    if spawned.is_err() {
        state.open.fetch_sub(1, Relaxed);
    }
    spawned.ok()
}
