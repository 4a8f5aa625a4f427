//! The server of the feed: one thread per connection, and a report at the end.
//!
//! Does        accepts connections until the stream ends or `stop` is requested.
//! Start at    [`TapeServer::run`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;

use crate::connection::ReaderConnection;
use crate::server_socket::ServerSocket;
use crate::server_state::ServerState;
pub use crate::server_state::{Disconnect, Hello, Protocol, SentTotals, ServeReport, StreamFactory};
use crate::stream::Stream;

/// Most connections at a time. Further ones are closed at once.
const MOST_CONNECTIONS: u64 = 256;

pub struct ServiceConfig {
    pub protocol: Protocol,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub feed: FeedMode,
}

pub enum FeedMode {
    /// One stream, which the next connection continues.
    One(Box<Stream>),
    PerClient(Box<StreamFactory>),
}

pub struct TapeServer {
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    state: Arc<ServerState>,
}

impl TapeServer {
    pub fn new(listener: TcpListener, service: ServiceConfig) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (stream, make) = match service.feed {
            FeedMode::One(stream) => (Some(*stream), None),
            FeedMode::PerClient(make) => (None, Some(make)),
        };
        let state = ServerState::new(service.protocol, stream, make);
        Ok(TapeServer { listener, tls: service.tls, state: Arc::new(state) })
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the stream has ended, or `stop` becomes readable.
    ///
    /// # Errors
    /// Waiting for connections fails.
    pub fn run(self, stop: BorrowedFd<'_>) -> io::Result<ServeReport> {
        let mut threads: Vec<std::thread::JoinHandle<()>> = Vec::new();
        while !self.state.stop.load(Relaxed) {
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
                // The connection is already gone, or no descriptor is left. The other connections
                // go on.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        self.state.stop.store(true, Relaxed);
        for thread in threads {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
        Ok(self.state.report())
    }

    fn admit(&self, socket: TcpStream) -> Option<std::thread::JoinHandle<()>> {
        if self.state.open.load(Relaxed) >= MOST_CONNECTIONS {
            self.state.refused.fetch_add(1, Relaxed);
            return None;
        }
        // The peer is already gone, or TLS cannot start.
        let tls = self.tls.clone().map(ServerConnection::new).transpose().ok()?;
        let socket = ServerSocket::new(socket, tls).ok()?;
        let state = Arc::clone(&self.state);
        state.open.fetch_add(1, Relaxed);
        let serve = move || {
            // The default timer slack of 50 µs is too long for a message every 10 µs. If refused,
            // messages are only later.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            ReaderConnection::new(socket, &state).serve();
            state.open.fetch_sub(1, Relaxed);
        };
        let spawned = std::thread::Builder::new().name("reader".into()).spawn(serve);
        if spawned.is_err() {
            self.state.open.fetch_sub(1, Relaxed);
        }
        spawned.ok()
    }
}
