//! Runs a server on a separate thread, for programs with other main work.
//!
//! Start at    [`ServerThread::start`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use tracing::warn;

use crate::application::Application;
use crate::clock::SystemClock;
use crate::limits::Limits;
use crate::server::Server;
use crate::waker::Waker;

/// A running server. Dropping it ends the server as a stop signal would, and waits for that.
#[derive(Debug)]
pub struct ServerThread {
    address: SocketAddr,
    /// The server ends when this is closed.
    running: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts a server of `app` for `listener`. Other threads make it take a turn with `waker`.
    ///
    /// # Errors
    /// Fails if the listener cannot be prepared or the thread cannot be started.
    pub fn start<A: Application + Send + 'static>(
        name: &'static str,
        app: A,
        listener: TcpListener,
        limits: Limits,
        waker: Option<&Waker>,
    ) -> io::Result<ServerThread> {
        let (running, signals) = UnixStream::pair()?;
        let mut server = Server::new(app, listener, signals, SystemClock::start())?.with_limits(limits)?;
        if let Some(waker) = waker {
            server = server.with_waker(waker)?;
        }
        let address = server.local_address()?;
        let run = move || {
            if let Err(error) = server.run() {
                warn!(%error, "{name} has ended; start the program again to connect to it");
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(ServerThread { address, running: Some(running), thread: Some(thread) })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            // A server that panicked has already reported it.
            let _ = thread.join();
        }
    }
}
