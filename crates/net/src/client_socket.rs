//! The socket of a client that reads one feed, in large pieces, plain or through TLS.
//!
//! Does        receives into its own buffer or into the memory of the caller; sends masked frames.
//! Holds       1. one fixed buffer; received bytes are passed on in place, and only TLS copies;
//!             2. nothing here blocks except [`wait`].
//! Leaves out  the event loop: a program that reads one feed waits for one socket, and receives
//!             into memory that its workers share. Decision 0007 has the figures.
//! Start at    [`ClientSocket::receive`].

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use pitwire_tls::{ClientSession, ProcessError, TlsError};
use pitwire_websocket::{Opcode, write_masked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Largest read, in bytes. Large enough that the system call is cheap, small enough that the bytes
/// are still in the processor's cache when they are scanned.
const READ_BYTES: usize = 256 * 1024;
/// Length of the longest frame header, with its mask.
const FRAME_HEADER_BYTES: usize = 14;

/// Result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// This many bytes were read, and their content was handled.
    Bytes(usize),
    /// Nothing has arrived.
    Nothing,
    /// The peer ended the connection.
    End,
}

/// Why a socket cannot be used any more.
#[derive(Debug)]
pub enum ClientSocketError<V> {
    /// The connection is broken.
    Socket(io::Error),
    /// The bytes are not valid TLS.
    Tls(TlsError),
    /// The handler refused the content.
    Handler(V),
}

/// The socket of a client, non-blocking.
pub struct ClientSocket {
    socket: TcpStream,
    tls: Option<Box<ClientSession>>,
    input: Box<[u8]>,
    /// With TLS: bytes at the front of `input` that are not a whole record yet.
    filled: usize,
    outbox: Vec<u8>,
}

impl ClientSocket {
    /// Wraps a connected socket, which must be non-blocking.
    pub fn new(socket: TcpStream, tls: Option<ClientSession>) -> Self {
        let input = vec![0; READ_BYTES].into_boxed_slice();
        ClientSocket { socket, tls: tls.map(Box::new), input, filled: 0, outbox: Vec::new() }
    }

    /// Advances the TLS handshake. Returns whether it is complete; always true without TLS.
    ///
    /// # Errors
    /// Fails if the connection breaks or the server is not trusted.
    pub fn handshake(&mut self) -> Result<bool, ClientSocketError<()>> {
        let Some(session) = &mut self.tls else { return Ok(true) };
        if session.is_open() {
            return Ok(true);
        }
        // The peer cannot send content before the handshake is complete.
        if self.filled == 0 && self.outbox.is_empty() {
            session.process(&mut [], &mut self.outbox, |_| Err(())).map_err(unwrap)?;
            self.flush().map_err(ClientSocketError::Socket)?;
        }
        match self.receive(None, |_| Err(()))? {
            ReadOutcome::End => Err(ClientSocketError::Socket(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(self.tls.as_ref().is_none_or(|session| session.is_open())),
        }
    }

    /// Returns whether bytes are received as plain text, so that they may be received into any
    /// buffer.
    pub fn is_unencrypted(&self) -> bool {
        self.tls.is_none()
    }

    /// HOT. Reads once, if there is something, and passes the content to `take` in pieces. Without
    /// TLS the bytes are received into `receive_buffer`, if given, and passed on as one piece.
    ///
    /// # Errors
    /// Fails if the connection breaks or `take` refuses the content.
    pub fn receive<V>(
        &mut self,
        receive_buffer: Option<&mut [u8]>,
        mut take: impl FnMut(&[u8]) -> Result<(), V>,
    ) -> Result<ReadOutcome, ClientSocketError<V>> {
        let space = match receive_buffer {
            Some(receive_buffer) if self.tls.is_none() => receive_buffer,
            _ => &mut self.input[self.filled..],
        };
        let bytes = match self.socket.read(space) {
            Ok(0) => return Ok(ReadOutcome::End),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadOutcome::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(ReadOutcome::Nothing),
            Err(error) => return Err(ClientSocketError::Socket(error)),
        };
        let Some(session) = &mut self.tls else {
            take(space.get(..bytes).unwrap_or_default()).map_err(ClientSocketError::Handler)?;
            return Ok(ReadOutcome::Bytes(bytes));
        };
        let filled = self.filled + bytes;
        let done = session.process(&mut self.input[..filled], &mut self.outbox, take).map_err(unwrap)?;
        self.input.copy_within(done..filled, 0);
        self.filled = filled - done;
        let is_ended = session.is_ended();
        if !self.outbox.is_empty() {
            self.flush().map_err(ClientSocketError::Socket)?;
        }
        Ok(if is_ended { ReadOutcome::End } else { ReadOutcome::Bytes(bytes) })
    }

    /// Sends a frame, masked with a random number, as [`ClientSocket::send`] does.
    ///
    /// # Errors
    /// Fails if the connection breaks or the machine has no random numbers.
    pub fn send_frame(&mut self, opcode: Opcode, body: &[u8]) -> Result<(), ClientSocketError<()>> {
        let mut mask = [0; 4];
        getrandom::fill(&mut mask).map_err(|error| ClientSocketError::Socket(io::Error::other(error.to_string())))?;
        let mut frame = Vec::with_capacity(body.len() + FRAME_HEADER_BYTES);
        write_masked(&mut frame, opcode, body, mask);
        self.send(&frame)
    }

    /// Sends as much as the socket accepts now. [`ClientSocket::flush`] sends the rest.
    ///
    /// # Errors
    /// Fails if the connection breaks.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ClientSocketError<()>> {
        match &mut self.tls {
            None => self.outbox.extend_from_slice(bytes),
            Some(session) => {
                session
                    .seal_in_place(bytes, &mut self.input[..self.filled], &mut self.outbox)
                    .map_err(ClientSocketError::Tls)?;
            }
        }
        self.flush().map_err(ClientSocketError::Socket)
    }

    /// Returns whether bytes wait to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends what waits, as much as the socket accepts now.
    ///
    /// # Errors
    /// Fails if the connection breaks.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.outbox.len() {
                break Ok(());
            }
            match self.socket.write(&self.outbox[sent..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.outbox.drain(..sent);
        result
    }

    /// Tells the peer that nothing more will be sent.
    pub fn end_sending(&self) {
        // A connection that is already gone needs no notice.
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Returns the socket, to wait for it.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

fn unwrap<V>(error: ProcessError<V>) -> ClientSocketError<V> {
    match error {
        ProcessError::Tls(error) => ClientSocketError::Tls(error),
        ProcessError::Refused(refusal) => ClientSocketError::Handler(refusal),
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The socket is ready.
    Socket,
    /// The program is to stop.
    Stop,
    /// The time is over.
    Time,
}

/// Waits at most `ns` nanoseconds until the socket is readable (or writable, with `to_write`) or
/// `stop` is readable.
///
/// # Errors
/// Fails if the kernel refuses to wait, or there is nothing to wait for.
pub fn wait<S: AsFd>(socket: Option<&TcpStream>, to_write: bool, stop: Option<&S>, ns: u64) -> io::Result<WaitOutcome> {
    let (socket, stop) = (socket.map(AsFd::as_fd), stop.map(AsFd::as_fd));
    let any = stop.or(socket).ok_or(io::ErrorKind::InvalidInput)?;
    let wanted = if to_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let of_stop = if stop.is_some() { PollFlags::IN } else { PollFlags::empty() };
    let of_socket = if socket.is_some() { wanted } else { PollFlags::empty() };
    let mut polled = [
        PollFd::from_borrowed_fd(stop.unwrap_or(any), of_stop),
        PollFd::from_borrowed_fd(socket.unwrap_or(any), of_socket),
    ];
    let limit = Timespec::try_from(Duration::from_nanos(ns)).map_err(io::Error::other)?;
    match poll(&mut polled, Some(&limit)) {
        Err(Errno::INTR) => return Ok(WaitOutcome::Time),
        woken => woken?,
    };
    let [stopped, ready] = polled.map(|entry| !entry.revents().is_empty());
    Ok(match (stopped && stop.is_some(), ready && socket.is_some()) {
        (true, _) => WaitOutcome::Stop,
        (false, true) => WaitOutcome::Socket,
        (false, false) => WaitOutcome::Time,
    })
}
