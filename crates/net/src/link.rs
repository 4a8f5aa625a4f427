//! A socket as a connection reads and writes it: as it is, or with TLS in between.
//!
//! Holds       1. of what is to be sent, one piece at most is kept sealed, until the socket has taken it: while it waits,
//!                nothing more is sealed;
//!             2. what was decrypted and not asked for yet is kept, so that readiness is never lost: a link says that it
//!                would block only when its socket does.
//! Start at    [`Link::read`], [`Link::write`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use pitwire_tls::{ServerConfig, Session};

use crate::limits::Place;

/// So much is sealed at a time.
const PIECE: usize = 64 * 1024;
/// A little more than one record.
const CIPHER_BYTES: usize = 17 * 1024;

pub(crate) struct Link {
    pub stream: TcpStream,
    secure: Option<Box<Secure>>,
    /// Among all connections.
    pub place: Option<Place>,
}

struct Secure {
    session: Session,
    /// Decrypted, and so much of it given away.
    plain: Vec<u8>,
    given: usize,
    /// Sealed, and so much of it sent.
    sealed: Vec<u8>,
    sent: usize,
    /// Taken off the socket since this was last asked.
    drawn: usize,
    at_end: bool,
}

impl Link {
    pub fn plain(stream: TcpStream) -> Link {
        Link { stream, secure: None, place: None }
    }

    pub fn secure(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Link> {
        let session = Session::new(config).map_err(io::Error::other)?;
        Ok(Link { stream, secure: Some(Box::new(Secure::new(session))), place: None })
    }

    pub fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Goes on with the handshake; whether that is over and everything of it sent. What came behind it is kept.
    pub fn shake(&mut self) -> io::Result<bool> {
        match &mut self.secure {
            Some(secure) => secure.shake(&mut self.stream),
            None => Ok(true),
        }
    }

    /// Whether all that was sealed has been sent.
    pub fn is_drained(&self) -> bool {
        self.secure.as_ref().is_none_or(|secure| secure.sealed.is_empty())
    }

    /// What was decrypted and not read yet.
    pub fn decrypted(&self) -> &[u8] {
        self.secure.as_ref().and_then(|secure| secure.plain.get(secure.given..)).unwrap_or_default()
    }

    /// What reading so many bytes has cost: as they lay on the wire, records with next to nothing in them included.
    pub fn drawn(&mut self, read: usize) -> usize {
        self.secure.as_mut().map_or(read, |secure| std::mem::take(&mut secure.drawn).max(read))
    }

    /// For whoever takes the socket over, of a link that is drained; with what was [`decrypted`](Link::decrypted).
    pub fn take_session(&mut self) -> Option<Session> {
        self.secure.take().map(|secure| secure.session)
    }

    pub fn give_session(&mut self, session: Option<Session>) {
        self.secure = session.map(|session| Box::new(Secure::new(session)));
    }

    /// Sends what is sealed already, handshakes included.
    pub fn drain(&mut self) -> io::Result<()> {
        match &mut self.secure {
            Some(secure) => secure.drain(&mut self.stream),
            None => Ok(()),
        }
    }

    /// Nothing more will be written. What has been written was drained before.
    pub fn end(&mut self) {
        if let Some(secure) = &mut self.secure
            && secure.session.end(&mut secure.sealed).is_ok()
        {
            // Best effort: a few bytes, into a socket that has just taken everything.
            drop(secure.drain(&mut self.stream));
        }
        drop(self.stream.shutdown(Shutdown::Write));
    }
}

impl Read for Link {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.secure {
            Some(secure) => secure.read(&mut self.stream, into),
            None => self.stream.read(into),
        }
    }
}

impl Write for Link {
    /// Says how much of `bytes` will be sent: with TLS it may wait in sealed form.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.secure {
            Some(secure) => secure.write(&mut self.stream, bytes),
            None => self.stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }
}

impl Secure {
    fn new(session: Session) -> Secure {
        Secure { session, plain: Vec::new(), given: 0, sealed: Vec::new(), sent: 0, drawn: 0, at_end: false }
    }

    fn read(&mut self, stream: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let mut cipher = [0; CIPHER_BYTES];
        while self.given == self.plain.len() {
            self.plain.clear();
            self.plain.shrink_to(CIPHER_BYTES);
            self.given = 0;
            if self.at_end || self.session.is_ended() {
                return Ok(0);
            }
            self.hear(stream, &mut cipher)?;
        }
        let waiting = self.plain.get(self.given..).unwrap_or_default();
        let count = waiting.len().min(into.len());
        let (Some(from), Some(to)) = (waiting.get(..count), into.get_mut(..count)) else { return Ok(0) };
        to.copy_from_slice(from);
        self.given += count;
        Ok(count)
    }

    /// Takes in what one read of the socket brings.
    fn hear(&mut self, stream: &mut TcpStream, cipher: &mut [u8]) -> io::Result<()> {
        let read = loop {
            match stream.read(cipher) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.at_end = read == 0;
        self.drawn += read;
        let arrived = cipher.get_mut(..read).unwrap_or_default();
        let taken = self.session.receive(arrived, &mut self.plain, &mut self.sealed);
        // Of a handshake, or why there will be none. What the socket does not take now waits.
        let drained = self.drain(stream);
        taken.map_err(io::Error::other)?;
        or_later(drained)
    }

    fn shake(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let mut cipher = [0; CIPHER_BYTES];
        while !self.session.is_open() {
            match self.hear(stream, &mut cipher) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                heard => heard?,
            }
            // Whoever has said everything at once may have ended already.
            if !self.session.is_open() && (self.at_end || self.session.is_ended()) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        or_later(self.drain(stream))?;
        Ok(self.sealed.is_empty())
    }

    fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.drain(stream)?;
        if !self.session.is_open() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let piece = bytes.get(..bytes.len().min(PIECE)).unwrap_or_default();
        self.session.seal(piece, &mut self.sealed).map_err(io::Error::other)?;
        match self.drain(stream) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            // What waits sealed will be sent before anything else.
            _ => Ok(piece.len()),
        }
    }

    fn drain(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while let Some(waiting) = self.sealed.get(self.sent..).filter(|waiting| !waiting.is_empty()) {
            match stream.write(waiting) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sealed = Vec::new();
        self.sent = 0;
        Ok(())
    }
}

/// What a socket does not take now waits.
fn or_later(drained: io::Result<()>) -> io::Result<()> {
    drained.or_else(|error| if error.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(error) })
}
