//! TLS between a socket and the delivery core.
//!
//! Holds       1. A connection stores encrypted bytes only while its socket accepts none. Other
//!                encrypted bytes pass through a buffer that the connections of a thread share.
//!             2. While encrypted bytes wait, no more are encrypted. A reader that stops holds the
//!                bytes of one turn.
//! Start at    [`Secure::receive`], [`Secure::send`].

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use pitwire_tls::Session;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::delivery_core::Pieces;

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Number of bytes. 0 means that the peer has ended its side.
    Bytes(usize),
    /// The socket has no bytes to read, or accepts none.
    Blocked,
    Broken,
}

/// Buffers for plain and encrypted bytes, shared by the connections of a thread.
#[derive(Default)]
struct TlsScratch {
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<TlsScratch> = RefCell::default();
}

pub(crate) struct Secure {
    session: Box<Session>,
    /// Decrypted bytes that the caller has not received yet.
    plain: Vec<u8>,
    /// Encrypted bytes that the socket has not accepted yet.
    waiting: Vec<u8>,
    /// Encrypted bytes that the last call read from the socket.
    drawn: usize,
    /// Whether a send was attempted before the handshake was complete.
    was_early: bool,
}

impl Secure {
    pub fn new(session: Box<Session>) -> Self {
        Secure { session, plain: Vec::new(), waiting: Vec::new(), drawn: 0, was_early: false }
    }

    pub fn has_just_opened(&mut self) -> bool {
        let has = self.was_early && self.session.is_open();
        self.was_early &= !has;
        has
    }

    /// Whether encrypted bytes wait for the socket.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the encrypted bytes that the last [`Self::receive`] read. Many small records can
    /// contain few plain bytes.
    pub fn drawn(&self) -> usize {
        self.drawn
    }

    /// Receives plain bytes into `into`, which also serves as the buffer for encrypted bytes.
    pub fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Moved {
        self.drawn = 0;
        if !self.plain.is_empty() {
            let mut plain = std::mem::take(&mut self.plain);
            let count = give(&plain, into);
            plain.drain(..count);
            self.plain = plain;
            return Moved::Bytes(count);
        }
        loop {
            if self.session.is_ended() {
                return Moved::Bytes(0);
            }
            let arrived = match recv(socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((arrived, _)) => arrived,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Moved::Blocked,
                Err(_) => return Moved::Broken,
            };
            if arrived == 0 {
                return Moved::Bytes(0);
            }
            self.drawn += arrived;
            let count = SCRATCH.with_borrow_mut(|scratch| {
                scratch.plain.clear();
                let cipher = into.get_mut(..arrived).unwrap_or_default();
                let taken = self.session.receive(cipher, &mut scratch.plain, &mut self.waiting);
                let pushed = self.push(socket);
                if taken.is_err() || pushed == Moved::Broken {
                    return None;
                }
                let count = give(&scratch.plain, into);
                self.plain.extend_from_slice(scratch.plain.get(count..).unwrap_or_default());
                Some(count)
            });
            match count {
                // A part of a record or of a handshake message.
                Some(0) => {}
                Some(count) => return Moved::Bytes(count),
                None => return Moved::Broken,
            }
        }
    }

    /// Sends all pieces or none. Encrypted bytes that the socket does not accept are stored here.
    pub fn send(&mut self, socket: &OwnedFd, pieces: &Pieces<'_>) -> Moved {
        match self.push(socket) {
            Moved::Bytes(_) if self.session.is_open() => {}
            Moved::Bytes(_) => {
                self.was_early = true;
                return Moved::Blocked;
            }
            other => return other,
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let TlsScratch { plain, sealed } = scratch;
            sealed.clear();
            let done = match pieces.as_slice() {
                [one] => self.session.seal(one, sealed),
                many => {
                    plain.clear();
                    many.iter().for_each(|piece| plain.extend_from_slice(piece));
                    self.session.seal(plain, sealed)
                }
            };
            if done.is_err() {
                return Moved::Broken;
            }
            match push(socket, sealed) {
                Ok(sent) => {
                    self.waiting.extend_from_slice(sealed.get(sent..).unwrap_or_default());
                    Moved::Bytes(pieces.bytes())
                }
                Err(_) => Moved::Broken,
            }
        })
    }

    /// Sends stored bytes. Returns `Bytes` once none are left.
    pub fn push(&mut self, socket: &OwnedFd) -> Moved {
        if self.waiting.is_empty() {
            return Moved::Bytes(0);
        }
        match push(socket, &self.waiting) {
            Ok(sent) if sent == self.waiting.len() => {
                self.waiting = Vec::new();
                Moved::Bytes(sent)
            }
            Ok(sent) => {
                self.waiting.drain(..sent);
                Moved::Blocked
            }
            Err(_) => Moved::Broken,
        }
    }

    /// Sends a close notice, as far as the socket accepts it.
    pub fn end(&mut self, socket: &OwnedFd) {
        if self.session.end(&mut self.waiting).is_ok() {
            self.push(socket);
        }
    }
}

fn give(from: &[u8], into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    if let (Some(from), Some(into)) = (from.get(..count), into.get_mut(..count)) {
        into.copy_from_slice(from);
    }
    count
}

/// Sends as many bytes as the socket accepts, and returns their number.
fn push(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match send(socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
