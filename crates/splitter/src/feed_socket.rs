//! The bytes of the feed: a socket that is read in large pieces, plain or through TLS.
//!
//! Holds       1. one fixed buffer; what is received is lent, never copied but by TLS itself;
//!             2. nothing here waits, except [`wait`], which says so.
//! Start at    [`FeedSocket::receive`].

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use pitwire_tls::{ClientSession, ProcessError, TlsError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::clock::timespec;

/// One read takes at most this much: large enough that the call is cheap, small enough that its bytes are still in the
/// processor's cache when they are cut.
const READ_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// So many bytes were read, and their content was taken.
    Bytes(usize),
    Nothing,
    /// The peer has ended the connection.
    End,
}

#[derive(Debug)]
pub(crate) enum ChannelError<V> {
    Socket(io::Error),
    Tls(TlsError),
    /// Whoever took the bytes would not have them.
    Handler(V),
}

pub(crate) struct FeedSocket {
    socket: TcpStream,
    tls: Option<Box<ClientSession>>,
    input: Box<[u8]>,
    /// TLS: bytes at the front of `input` that are not a whole record yet.
    filled: usize,
    outbox: Vec<u8>,
}

impl FeedSocket {
    /// `socket` must not block.
    pub fn new(socket: TcpStream, tls: Option<ClientSession>) -> Self {
        let input = vec![0; READ_BYTES].into_boxed_slice();
        FeedSocket { socket, tls: tls.map(Box::new), input, filled: 0, outbox: Vec::new() }
    }

    /// Takes part in the TLS handshake as far as it goes now; whether it is done. A plain channel always is.
    pub fn handshake(&mut self) -> Result<bool, ChannelError<()>> {
        let Some(session) = &mut self.tls else { return Ok(true) };
        if session.is_open() {
            return Ok(true);
        }
        // Nothing of the peer's can be content before the handshake is done.
        if self.filled == 0 && self.outbox.is_empty() {
            session.process(&mut [], &mut self.outbox, |_| Err(())).map_err(unwrap)?;
            self.flush().map_err(ChannelError::Socket)?;
        }
        match self.receive(None, |_| Err(()))? {
            ReadOutcome::End => Err(ChannelError::Socket(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(self.tls.as_ref().is_none_or(|session| session.is_open())),
        }
    }

    /// Whether what is received is what it is, and may be received anywhere: TLS has to open it first, in its place.
    pub fn is_unencrypted(&self) -> bool {
        self.tls.is_none()
    }

    /// HOT. One read, if there is something: what came goes to `take` in pieces. A plain channel receives it at `receive_buffer`, if there
    /// is one, and it is one piece.
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

    /// Sends as much as the socket takes now; the rest waits for [`FeedSocket::flush`].
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

    /// Whether something waits to be sent.
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

    /// Nothing more will be sent: tells the peer.
    pub fn end_sending(&self) {
        // A connection that is gone already need not be told.
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

/// Why a wait was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Socket,
    Stop,
    Time,
}

/// Waits until the socket can be read (or written, when `to_write`), or `stop` can be read, at most `ns`.
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
