//! A blocking byte stream through TLS, over any other byte stream.
//!
//! Start at    [`TlsStream::connect`].

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::ClientConfig;

use crate::session::ClientSession;

/// Most bytes of one read: a little more than one record.
const READ_BYTES: usize = 17 * 1024;

/// The client's side of a TLS connection. Timeouts are those of the stream below.
#[derive(Debug)]
pub struct TlsStream<S> {
    stream: S,
    session: ClientSession,
    /// Decrypted bytes, and how many of them were read.
    plain: Vec<u8>,
    taken: usize,
    /// Records, and how many of their bytes were written.
    sealed: Vec<u8>,
    written: usize,
    buffer: Box<[u8]>,
}

impl<S: Read + Write> TlsStream<S> {
    /// Does the handshake with `host`.
    ///
    /// # Errors
    /// Fails if the server is not trusted, does not speak TLS, or `stream` fails.
    pub fn connect(stream: S, config: &Arc<ClientConfig>, host: &str) -> io::Result<Self> {
        let mut tls = TlsStream {
            stream,
            session: ClientSession::open(config, host).map_err(invalid)?,
            plain: Vec::new(),
            taken: 0,
            sealed: Vec::new(),
            written: 0,
            buffer: vec![0; READ_BYTES].into(),
        };
        // Without input, the session starts the handshake.
        tls.open(0)?;
        while !tls.session.is_open() {
            if tls.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(tls)
    }

    /// Returns the stream below.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Reads once from the stream below, and returns how many bytes that were.
    fn fill(&mut self) -> io::Result<usize> {
        let bytes = self.stream.read(&mut self.buffer)?;
        if bytes > 0 {
            self.open(bytes)?;
        }
        Ok(bytes)
    }

    /// Decrypts the first `bytes` bytes of the buffer, and writes the answer of the session.
    fn open(&mut self, bytes: usize) -> io::Result<()> {
        let opened = self.session.receive(&mut self.buffer[..bytes], &mut self.plain, &mut self.sealed);
        // The session also says why it fails.
        let flushed = self.flush();
        opened.map_err(invalid)?;
        flushed
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.plain.len() {
            self.plain.clear();
            self.taken = 0;
            if into.is_empty() || self.session.is_ended() || self.fill()? == 0 {
                return Ok(0);
            }
        }
        let bytes = into.len().min(self.plain.len() - self.taken);
        into[..bytes].copy_from_slice(&self.plain[self.taken..self.taken + bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    /// Encrypts all of `bytes`. The next call first writes the records that the stream below has
    /// not taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        self.session.seal(bytes, &mut self.sealed).map_err(invalid)?;
        match self.flush() {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(error),
            _ => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.written < self.sealed.len() {
            match self.stream.write(&self.sealed[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sealed.clear();
        self.written = 0;
        self.stream.flush()
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
