//! Runs a server on a separate thread, for programs with other main work.
//!
//! Start at    [`ServerThread::start`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
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
        let (opened, is_opened) = mpsc::sync_channel(1);
        // The thread opens the loop, because a ring belongs to the thread that made it.
        let run = move || {
            let server = match server.open() {
                Ok(server) => server,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let _ = opened.send(Ok(()));
            if let Err(error) = server.run() {
                warn!(%error, "{name} has ended; start the program again to connect to it");
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        is_opened.recv().map_err(|_| io::Error::other("the thread of the server has ended at its start"))??;
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
