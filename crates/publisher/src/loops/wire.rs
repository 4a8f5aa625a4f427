//! A connection's transport: a plain socket, or a socket with TLS.
//!
//! Start at    [`Wire`].

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pitwire_tls::Session;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};

use crate::delivery_core::{PIECES, Pieces};
use crate::tls::{Moved, Secure};

pub(crate) struct Wire {
    socket: OwnedFd,
    secure: Option<Box<Secure>>,
}

impl Wire {
    pub fn new(socket: OwnedFd, session: Option<Box<Session>>) -> Self {
        Wire { socket, secure: session.map(|session| Box::new(Secure::new(session))) }
    }

    pub fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Sends stored encrypted bytes. Returns `Bytes` once none are left.
    pub fn push(&mut self) -> Moved {
        self.secure.as_mut().map_or(Moved::Bytes(0), |secure| secure.push(&self.socket))
    }

    /// Returns true once, when the handshake has completed after an early attempt to send.
    pub fn has_just_opened(&mut self) -> bool {
        self.secure.as_mut().is_some_and(|secure| secure.has_just_opened())
    }

    pub fn is_waiting(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.is_waiting())
    }

    /// Returns the bytes that the last [`Self::receive`] read from the socket, if it returned
    /// `given` bytes.
    pub fn drawn(&self, given: usize) -> usize {
        self.secure.as_ref().map_or(given, |secure| secure.drawn().max(given))
    }

    pub fn receive(&mut self, into: &mut [u8]) -> Moved {
        if let Some(secure) = &mut self.secure {
            return secure.receive(&self.socket, into);
        }
        loop {
            return match recv(&self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((bytes, _)) => Moved::Bytes(bytes),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Moved::Blocked,
                Err(_) => Moved::Broken,
            };
        }
    }

    pub fn send(&mut self, pieces: &Pieces<'_>) -> Moved {
        if let Some(secure) = &mut self.secure {
            return secure.send(&self.socket, pieces);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let sent = match pieces.as_slice() {
                [one] => send(&self.socket, one, flags),
                many => {
                    let mut slices = [IoSlice::new(&[]); PIECES];
                    let count = many.len().min(PIECES);
                    slices.iter_mut().zip(many).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
                    sendmsg(&self.socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
                }
            };
            return match sent {
                Ok(bytes) => Moved::Bytes(bytes),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Moved::Blocked,
                Err(_) => Moved::Broken,
            };
        }
    }

    /// Shuts the sending side. An error means that the socket is already closed.
    pub fn shut(&mut self) {
        if let Some(secure) = &mut self.secure {
            secure.end(&self.socket);
        }
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
