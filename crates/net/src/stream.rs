//! The bytes of one connection on their way to and from its socket: plain, or through TLS.
//!
//! Holds       1. a connection stores sealed bytes only while its socket takes none; others pass
//!                through a buffer that all connections of a thread share. While bytes are stored
//!                nothing more is sealed, so a peer that stops reading costs one send's memory;
//!             2. everything that is decrypted goes to the caller at once: nothing is kept.
//! Leaves out  handshakes before the connection belongs to its thread: see `tls_acceptor`.
//! Start at    [`Stream::receive`], [`Stream::send`].

use std::cell::RefCell;
use std::sync::Arc;

use pitwire_tls::{ServerConfig, Session, TlsError};

use crate::event_loop::{EventLoop, ReceiveOutcome, SendOutcome, Token};

/// Most plain bytes that are sealed at a time.
const SEAL_BYTES: usize = 64 * 1024;

/// Plain and sealed bytes on their way.
#[derive(Default)]
struct TlsScratch {
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

thread_local! {
    /// Buffers that all connections of a thread share.
    static SCRATCH: RefCell<TlsScratch> = RefCell::default();
}

/// Result of [`Stream::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// This many bytes were taken off the socket. With TLS there may be fewer plain bytes, or none.
    Bytes(usize),
    /// Nothing has arrived.
    Pending,
    /// The peer has ended its side.
    Ended,
    /// The connection is broken.
    Failed,
}

/// One connection's socket and its TLS session.
#[derive(Debug)]
pub struct Stream {
    token: Token,
    tls: Option<Box<TlsLayer>>,
}

/// TLS between a socket and its connection.
#[derive(Debug)]
struct TlsLayer {
    session: Session,
    /// Sealed bytes that the socket has not taken, and how many of them were sent.
    sealed: Vec<u8>,
    sent: usize,
}

impl Stream {
    /// Makes a stream of plain bytes.
    pub fn plain(token: Token) -> Stream {
        Stream { token, tls: None }
    }

    /// Makes a stream that begins with the server's side of a TLS handshake.
    ///
    /// # Errors
    /// Fails if the configuration cannot serve a connection.
    pub fn secure(token: Token, config: &Arc<ServerConfig>) -> Result<Stream, TlsError> {
        Ok(Stream::with_session(token, Some(Session::new(config)?)))
    }

    /// Makes a stream that goes on in a session, if there is one.
    pub fn with_session(token: Token, session: Option<Session>) -> Stream {
        let tls = session.map(|session| Box::new(TlsLayer { session, sealed: Vec::new(), sent: 0 }));
        Stream { token, tls }
    }

    /// Returns the socket.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Says whether the bytes go through TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Says whether bytes can be sent: the TLS handshake is done, or there is none.
    pub fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.session.is_open())
    }

    /// Says whether the socket has taken everything that was sealed.
    pub fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.sealed.is_empty())
    }

    /// Takes the session out, for a thread that takes the socket over.
    pub fn take_session(&mut self) -> Option<Session> {
        self.tls.take().map(|tls| tls.session)
    }

    /// Puts back what [`take_session`](Stream::take_session) returned.
    pub fn restore_session(&mut self, session: Option<Session>) {
        *self = Stream::with_session(self.token, session);
    }

    /// Passes arrived bytes to `take`, decrypted. May pass nothing: a part of a record, or of a
    /// handshake.
    pub fn receive(&mut self, net: &mut dyn EventLoop, take: &mut dyn FnMut(&[u8])) -> Receipt {
        let Some(tls) = &mut self.tls else {
            return match net.receive(self.token) {
                ReceiveOutcome::Bytes(bytes) => {
                    take(bytes);
                    Receipt::Bytes(bytes.len())
                }
                ReceiveOutcome::Pending => Receipt::Pending,
                ReceiveOutcome::Ended => Receipt::Ended,
                ReceiveOutcome::Failed => Receipt::Failed,
            };
        };
        if tls.session.is_ended() {
            return Receipt::Ended;
        }
        let bytes = match net.receive(self.token) {
            ReceiveOutcome::Bytes(bytes) => bytes,
            ReceiveOutcome::Pending => return Receipt::Pending,
            ReceiveOutcome::Ended => return Receipt::Ended,
            ReceiveOutcome::Failed => return Receipt::Failed,
        };
        let count = bytes.len();
        let opened = tls.open(bytes, take);
        // The session answers handshakes, and says why it fails.
        let flushed = tls.flush(net, self.token);
        if opened.is_err() || flushed == SendOutcome::Failed { Receipt::Failed } else { Receipt::Bytes(count) }
    }

    /// Decrypts bytes that were taken off the socket elsewhere, and passes them to `take`.
    ///
    /// # Errors
    /// Fails if the bytes are not of the session.
    pub fn open(&mut self, mut bytes: Vec<u8>, take: &mut dyn FnMut(&[u8])) -> Result<(), TlsError> {
        match &mut self.tls {
            Some(tls) => tls.open(&mut bytes, take),
            None => {
                take(&bytes);
                Ok(())
            }
        }
    }

    /// Sends without waiting. With TLS, bytes that were sealed count as sent, although they may
    /// wait here for the socket.
    pub fn send(&mut self, net: &mut dyn EventLoop, parts: &[&[u8]]) -> SendOutcome {
        let Some(tls) = &mut self.tls else { return net.send(self.token, parts) };
        match tls.flush(net, self.token) {
            SendOutcome::Bytes(_) if tls.session.is_open() => {}
            SendOutcome::Bytes(_) => return SendOutcome::Blocked,
            other => return other,
        }
        tls.send(net, self.token, parts)
    }

    /// Sends sealed bytes that wait. Returns `SendOutcome::Bytes` if none wait any more.
    pub fn flush(&mut self, net: &mut dyn EventLoop) -> SendOutcome {
        match &mut self.tls {
            Some(tls) => tls.flush(net, self.token),
            None => SendOutcome::Bytes(0),
        }
    }

    /// Tells the peer that nothing more will be sent. Everything before was flushed.
    pub fn end(&mut self, net: &mut dyn EventLoop) {
        if let Some(tls) = &mut self.tls
            && tls.session.end(&mut tls.sealed).is_ok()
        {
            // Best effort: a few bytes, into a socket that has just taken everything.
            tls.flush(net, self.token);
        }
        net.shutdown(self.token);
    }
}

impl TlsLayer {
    fn open(&mut self, cipher: &mut [u8], take: &mut dyn FnMut(&[u8])) -> Result<(), TlsError> {
        SCRATCH.with_borrow_mut(|TlsScratch { plain, .. }| {
            plain.clear();
            let opened = self.session.receive(cipher, plain, &mut self.sealed);
            if !plain.is_empty() {
                take(plain);
            }
            opened
        })
    }

    /// Encrypts the front of `parts` and sends it. Stores the encrypted bytes that the socket does
    /// not take; the rest of `parts` stays with the caller.
    fn send(&mut self, net: &mut dyn EventLoop, token: Token, parts: &[&[u8]]) -> SendOutcome {
        SCRATCH.with_borrow_mut(|TlsScratch { plain, sealed }| {
            sealed.clear();
            let piece = match parts {
                [one] => &one[..one.len().min(SEAL_BYTES)],
                many => {
                    plain.clear();
                    for part in many {
                        plain.extend_from_slice(&part[..part.len().min(SEAL_BYTES - plain.len())]);
                    }
                    plain
                }
            };
            if self.session.seal(piece, sealed).is_err() {
                return SendOutcome::Failed;
            }
            let mut sent = 0;
            while sent < sealed.len() {
                match net.send(token, &[&sealed[sent..]]) {
                    SendOutcome::Bytes(bytes) => sent += bytes,
                    SendOutcome::Blocked => {
                        self.sealed.extend_from_slice(&sealed[sent..]);
                        break;
                    }
                    SendOutcome::Failed => return SendOutcome::Failed,
                }
            }
            SendOutcome::Bytes(piece.len())
        })
    }

    fn flush(&mut self, net: &mut dyn EventLoop, token: Token) -> SendOutcome {
        while self.sent < self.sealed.len() {
            match net.send(token, &[&self.sealed[self.sent..]]) {
                SendOutcome::Bytes(bytes) => self.sent += bytes,
                other => return other,
            }
        }
        let sent = std::mem::take(&mut self.sent);
        self.sealed = Vec::new();
        SendOutcome::Bytes(sent)
    }
}
