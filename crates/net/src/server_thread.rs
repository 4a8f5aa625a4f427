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
use crate::loop_thread::start_loop_thread;
use crate::server::Server;
use crate::waker::Waker;

/// A running server. Dropping it ends the server as a stop signal would, and waits for that.
#[derive(Debug)]
pub struct ServerThread {
    address: SocketAddr,
    /// The server ends when this is closed.
    running: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl ServerThread {
    /// Starts a server of `app` for `listener`. Other threads make it take a turn with `waker`.
    /// Returns when the event loop is open: nothing that the server needs before its first
    /// connection can fail later.
    ///
    /// # Errors
    /// Fails if the listener cannot be prepared, the event loop cannot be opened or the thread
    /// cannot be started.
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
        let thread = start_loop_thread(
            name,
            || server.open(),
            move |server| {
                let ended = server.run().map(drop);
                ended.inspect_err(|error| warn!(%error, "{name} has ended; start the program again to connect to it"))
            },
        )?;
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
