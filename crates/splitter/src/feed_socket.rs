//! The feed's socket, read in large pieces, plain or through TLS.
//!
//! Holds       1. one fixed buffer; received bytes are passed on in place, and only TLS copies;
//!             2. nothing here blocks except [`wait`].
//! Start at    [`FeedSocket::receive`].

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use pitwire_tls::{ClientSession, ProcessError, TlsError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::clock::timespec;

/// Largest read, in bytes. Large enough that the system call is cheap, small enough that the bytes
/// are still in the processor's cache when they are scanned.
const READ_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// This many bytes were read, and their content was handled.
    Bytes(usize),
    Nothing,
    /// The peer ended the connection.
    End,
}

#[derive(Debug)]
pub(crate) enum ChannelError<V> {
    Socket(io::Error),
    Tls(TlsError),
    /// The handler refused the content.
    Handler(V),
}

pub(crate) struct FeedSocket {
    socket: TcpStream,
    tls: Option<Box<ClientSession>>,
    input: Box<[u8]>,
    /// With TLS: bytes at the front of `input` that are not a whole record yet.
    filled: usize,
    outbox: Vec<u8>,
}

impl FeedSocket {
    /// `socket` must be non-blocking.
    pub fn new(socket: TcpStream, tls: Option<ClientSession>) -> Self {
        let input = vec![0; READ_BYTES].into_boxed_slice();
        FeedSocket { socket, tls: tls.map(Box::new), input, filled: 0, outbox: Vec::new() }
    }

    /// Advances the TLS handshake. Returns whether it is complete; always true without TLS.
    pub fn handshake(&mut self) -> Result<bool, ChannelError<()>> {
        let Some(session) = &mut self.tls else { return Ok(true) };
        if session.is_open() {
            return Ok(true);
        }
        // The peer cannot send content before the handshake is complete.
        if self.filled == 0 && self.outbox.is_empty() {
            session.process(&mut [], &mut self.outbox, |_| Err(())).map_err(unwrap)?;
            self.flush().map_err(ChannelError::Socket)?;
        }
        match self.receive(None, |_| Err(()))? {
            ReadOutcome::End => Err(ChannelError::Socket(io::ErrorKind::UnexpectedEof.into())),
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
    pub fn receive<V>(
        &mut self,
        receive_buffer: Option<&mut [u8]>,
        mut take: impl FnMut(&[u8]) -> Result<(), V>,
    ) -> Result<ReadOutcome, ChannelError<V>> {
        let space = match receive_buffer {
            Some(receive_buffer) if self.tls.is_none() => receive_buffer,
            _ => &mut self.input[self.filled..],
        };
        let bytes = match self.socket.read(space) {
            Ok(0) => return Ok(ReadOutcome::End),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ReadOutcome::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(ReadOutcome::Nothing),
            Err(error) => return Err(ChannelError::Socket(error)),
        };
        let Some(session) = &mut self.tls else {
            take(space.get(..bytes).unwrap_or_default()).map_err(ChannelError::Handler)?;
            return Ok(ReadOutcome::Bytes(bytes));
        };
        let filled = self.filled + bytes;
        let done = session.process(&mut self.input[..filled], &mut self.outbox, take).map_err(unwrap)?;
        self.input.copy_within(done..filled, 0);
        self.filled = filled - done;
        let is_ended = session.is_ended();
        if !self.outbox.is_empty() {
            self.flush().map_err(ChannelError::Socket)?;
        }
        Ok(if is_ended { ReadOutcome::End } else { ReadOutcome::Bytes(bytes) })
    }

    /// Sends as much as the socket accepts now. [`FeedSocket::flush`] sends the rest.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ChannelError<()>> {
        match &mut self.tls {
            None => self.outbox.extend_from_slice(bytes),
            Some(session) => {
                session
                    .seal_in_place(bytes, &mut self.input[..self.filled], &mut self.outbox)
                    .map_err(ChannelError::Tls)?;
            }
        }
        self.flush().map_err(ChannelError::Socket)
    }

    /// Returns whether bytes wait to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

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
        // A connection that is already gone need not be told.
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

fn unwrap<V>(trouble: ProcessError<V>) -> ChannelError<V> {
    match trouble {
        ProcessError::Tls(error) => ChannelError::Tls(error),
        ProcessError::Refused(refusal) => ChannelError::Handler(refusal),
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Socket,
    Stop,
    Time,
}

/// Waits at most `ns` until the socket is readable (or writable, with `to_write`) or `stop` is
/// readable.
pub(crate) fn wait(socket: Option<&TcpStream>, to_write: bool, stop: &impl AsFd, ns: u64) -> io::Result<WaitOutcome> {
    let stop = PollFd::new(stop, PollFlags::IN);
    let wanted = if to_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let result = |stop: &PollFd<'_>, ready| match (stop.revents().is_empty(), ready) {
        (false, _) => WaitOutcome::Stop,
        (true, true) => WaitOutcome::Socket,
        (true, false) => WaitOutcome::Time,
    };
    let limit = timespec(ns);
    let woken = match socket {
        Some(socket) => {
            let mut both = [stop, PollFd::new(socket, wanted)];
            poll(&mut both, Some(&limit)).map(|_| result(&both[0], !both[1].revents().is_empty()))
        }
        None => {
            let mut one = [stop];
            poll(&mut one, Some(&limit)).map(|_| result(&one[0], false))
        }
    };
    match woken {
        Err(Errno::INTR) => Ok(WaitOutcome::Time),
        woken => Ok(woken?),
    }
}
