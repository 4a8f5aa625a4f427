//! The socket of one connection, plain or through TLS. Each thread has one socket and one event
//! loop. Only [`ServerSocket::wait`] and [`ServerSocket::wait_for_input`] block.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use pitwire_net::event_loop::{EventLoop, LoopEvent, LoopKind, LoopOptions, SendOutcome};
use pitwire_net::{Receipt, ServerConfig, Stream};

/// Send buffer in bytes. Data in flight of this size fits into a core's cache. The automatic size
/// of the kernel grows to megabytes; the reader then needs 54 ns per 100 bytes instead of 10 ns.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// Most bytes of one receive: a little more than one TLS record.
const RECEIVE_BYTES: u32 = 17 * 1024;
/// How much earlier a long wait ends than the caller asks for. The loop rounds long waits up to
/// milliseconds; the caller waits again for the exact rest.
const EARLY: Duration = Duration::from_millis(1);

pub struct ServerSocket {
    net: Box<dyn EventLoop>,
    stream: Stream,
    events: Vec<LoopEvent>,
    /// The loop has looked for events since the last read.
    has_polled: bool,
    /// The last read returned bytes, so that there may be more.
    may_have_more: bool,
}

impl ServerSocket {
    /// Adds a socket to an event loop for the calling thread.
    ///
    /// # Errors
    /// Fails if the process is out of file descriptors or TLS cannot be started.
    pub fn new(socket: OwnedFd, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        // BBR paces sending even at the highest rate. Without cubic the default stays.
        let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "cubic");
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
        let mut net = LoopKind::Epoll.open(LoopOptions { receive_bytes: RECEIVE_BYTES, detaches: true })?;
        let token = net.add_socket(socket)?;
        let stream = match tls {
            None => Stream::plain(token),
            Some(config) => Stream::secure(token, config).map_err(io::Error::other)?,
        };
        Ok(ServerSocket { net, stream, events: Vec::new(), has_polled: false, may_have_more: true })
    }

    /// Appends arrived bytes to `input`. Returns false at the end.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn read(&mut self, input: &mut Vec<u8>) -> io::Result<bool> {
        if !self.may_have_more && !std::mem::take(&mut self.has_polled) {
            self.net.wait(Some(Duration::ZERO), &mut self.events)?;
        }
        let receipt = self.stream.receive(&mut *self.net, &mut |bytes| input.extend_from_slice(bytes));
        self.may_have_more = matches!(receipt, Receipt::Bytes(_));
        match receipt {
            Receipt::Bytes(_) | Receipt::Pending => Ok(true),
            Receipt::Ended => Ok(false),
            Receipt::Failed => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Writes as many bytes as the socket takes now; `Ok(None)` if it takes none.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self.stream.send(&mut *self.net, &[bytes]) {
            SendOutcome::Bytes(taken) => Ok((taken > 0).then_some(taken)),
            SendOutcome::Blocked => Ok(None),
            SendOutcome::Failed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Hands accepted bytes to the kernel. Returns whether it took all of them.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self.stream.flush(&mut *self.net) {
            SendOutcome::Bytes(_) => Ok(self.stream.is_open()),
            SendOutcome::Blocked => Ok(false),
            SendOutcome::Failed => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits until the socket is usable, at most for `patience`.
    ///
    /// # Errors
    /// Fails if the kernel refuses to wait.
    pub fn wait(&mut self, patience: Duration) -> io::Result<()> {
        let patience = if patience > EARLY { patience - EARLY } else { patience };
        self.has_polled = true;
        self.net.wait(Some(patience), &mut self.events)
    }

    /// Like [`ServerSocket::wait`], but returns at once if there may be input.
    ///
    /// # Errors
    /// Fails if the kernel refuses to wait.
    pub fn wait_for_input(&mut self, patience: Duration) -> io::Result<()> {
        if self.may_have_more { Ok(()) } else { self.wait(patience) }
    }

    /// Announces the end of our data to the peer.
    pub fn finish(&mut self) {
        self.stream.end(&mut *self.net);
    }

    /// Ends the connection with a reset, so that data in flight is dropped.
    ///
    /// # Errors
    /// Fails if the process is out of file descriptors. The connection then ends without a reset.
    pub fn reset(mut self) -> io::Result<()> {
        let detached = self.net.detach(self.stream.token())?;
        Ok(rustix::net::sockopt::set_socket_linger(&detached.socket, Some(Duration::ZERO))?)
    }
}
