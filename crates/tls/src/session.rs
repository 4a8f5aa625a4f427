//! TLS sessions of a server or a client: records in, plain bytes out, and back. No sockets.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{ClientConfig, ServerConfig};

use crate::TlsError;

/// Space in bytes for one handshake record, including a certificate chain of usual length.
const RECORD_ROOM: usize = 20 * 1024;
/// Most plain bytes in one record.
const FRAGMENT: usize = 16 * 1024;
/// Bytes that a record adds to its content, rounded up.
const RECORD_EXTRA: usize = 64;
/// An unencrypted fatal alert. A server sends it to a peer whose first bytes are not TLS.
const HANDSHAKE_FAILURE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];

/// The library's connection of one side.
pub trait TlsSide {
    type Data;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl TlsSide for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

impl TlsSide for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

/// Why [`TlsSession::process`] stopped.
#[derive(Debug)]
pub enum ProcessError<E> {
    Tls(TlsError),
    /// The caller's function refused the content of a record.
    Refused(E),
}

/// One connection's TLS state.
///
/// After an error every call returns an error: the library's state is then undefined.
pub struct TlsSession<S> {
    connection: S,
    /// The start of a record that has not arrived completely.
    partial: Vec<u8>,
    is_open: bool,
    is_ended: bool,
    has_failed: bool,
    /// Bytes have been produced for the peer.
    has_sent: bool,
    answers_noise: bool,
}

pub type ServerSession = TlsSession<UnbufferedServerConnection>;
pub type ClientSession = TlsSession<UnbufferedClientConnection>;

impl<S> fmt::Debug for TlsSession<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TlsSession { is_open, is_ended, .. } = self;
        f.debug_struct("TlsSession").field("is_open", is_open).field("is_ended", is_ended).finish_non_exhaustive()
    }
}

impl ServerSession {
    /// Creates the server's side of a connection.
    ///
    /// # Errors
    ///
    /// The configuration cannot be used.
    pub fn new(config: &Arc<ServerConfig>) -> Result<Self, TlsError> {
        Ok(TlsSession::of(UnbufferedServerConnection::new(Arc::clone(config))?, true))
    }
}

impl ClientSession {
    /// Creates the client's side of a connection to `host`, a DNS name or an IP address. The first
    /// call of [`TlsSession::receive`] or [`TlsSession::process`], with no input, starts the
    /// handshake.
    ///
    /// # Errors
    ///
    /// `host` cannot stand in a certificate, or the configuration cannot be used.
    pub fn open(config: &Arc<ClientConfig>, host: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| TlsError::General(error.to_string()))?;
        Ok(TlsSession::of(UnbufferedClientConnection::new(Arc::clone(config), name)?, false))
    }
}

impl<S: TlsSide> TlsSession<S> {
    fn of(connection: S, answers_noise: bool) -> Self {
        TlsSession {
            connection,
            partial: Vec::new(),
            is_open: false,
            is_ended: false,
            has_failed: false,
            has_sent: false,
            answers_noise,
        }
    }

    /// Whether the handshake is complete. Nothing can be encrypted before.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the peer has announced the end of its data.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Decrypts bytes from the peer, in place. Appends their content to `plain`, and records to be
    /// sent in return to `out`. Keeps an incomplete record for the next call.
    ///
    /// # Errors
    ///
    /// The bytes are not valid TLS, or the session failed before.
    pub fn receive(&mut self, cipher: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), TlsError> {
        let mut partial = std::mem::take(&mut self.partial);
        let take = |content: &[u8]| {
            plain.extend_from_slice(content);
            Ok::<(), std::convert::Infallible>(())
        };
        let done = if partial.is_empty() {
            let done = self.process(cipher, out, take);
            done.map(|done| partial.extend_from_slice(cipher.get(done..).unwrap_or_default()))
        } else {
            partial.extend_from_slice(cipher);
            let done = self.process(&mut partial, out, take);
            done.map(|done| _ = partial.drain(..done.min(partial.len())))
        };
        // An empty buffer gives its memory back: most connections wait between two records.
        if !partial.is_empty() {
            self.partial = partial;
        }
        done.map_err(|error| match error {
            ProcessError::Tls(error) => error,
            ProcessError::Refused(never) => match never {},
        })
    }

    /// Decrypts the complete records at the front of `input`, in place. Passes their content to
    /// `take`, appends records for the peer to `out`, and returns the number of bytes
    /// processed. The caller passes the rest again with the bytes that follow.
    ///
    /// Use either this or [`TlsSession::receive`] on a session: this one copies nothing.
    ///
    /// # Errors
    ///
    /// The bytes are not valid TLS, `take` refused some, or the session failed before.
    pub fn process<E>(
        &mut self,
        input: &mut [u8],
        out: &mut Vec<u8>,
        take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, ProcessError<E>> {
        if self.has_failed {
            return Err(ProcessError::Tls(failed_before()));
        }
        let before = out.len();
        let done = self.process_records(input, out, take);
        if done.is_err() {
            self.has_failed = true;
            if self.answers_noise && !self.has_sent && out.len() == before {
                out.extend_from_slice(&HANDSHAKE_FAILURE);
            }
        }
        self.has_sent |= out.len() > before;
        done
    }

    fn process_records<E>(
        &mut self,
        input: &mut [u8],
        out: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, ProcessError<E>> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process(input.get_mut(done..).unwrap_or_default());
            let goes_on = match state.map_err(ProcessError::Tls)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(ProcessError::Tls)?;
                        take(record.payload).map_err(ProcessError::Refused)?;
                        done += record.discard;
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(out, &mut data).map_err(ProcessError::Tls)?;
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::WriteTraffic(_) => {
                    self.is_open = true;
                    false
                }
                ConnectionState::PeerClosed => {
                    self.is_ended = true;
                    true
                }
                ConnectionState::Closed => {
                    self.is_ended = true;
                    false
                }
                _ => false,
            };
            done += discard;
            if !goes_on {
                return Ok(done);
            }
        }
    }

    /// Encrypts `plain` and appends the records to `out`.
    ///
    /// # Errors
    ///
    /// The handshake is not complete, the session has ended, or it failed before.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.with_partial(|session, partial| session.seal_after(partial, plain, out))
    }

    /// Announces the end of our data: appends the alert to `out`.
    ///
    /// # Errors
    ///
    /// As for [`TlsSession::seal`].
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.with_partial(|session, partial| {
            session.with_traffic(partial, out, |traffic, out| {
                fill(out, RECORD_EXTRA, |room| traffic.queue_close_notify(room).map_err(short_of))
            })
        })
    }

    /// Like [`TlsSession::seal`], for callers of [`TlsSession::process`]: `input` has the
    /// unprocessed bytes.
    ///
    /// # Errors
    ///
    /// As for [`TlsSession::seal`]; also if `input` contains a complete record.
    pub fn seal_in_place(&mut self, plain: &[u8], input: &mut [u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let sealed = match self.seal_after(input, plain, out) {
            // The caller's positions in `input` would no longer be right.
            Ok(1..) => Err(TlsError::General("a complete record was not processed".into())),
            other => other.map(drop),
        };
        self.has_failed |= sealed.is_err();
        sealed
    }

    fn seal_after(&mut self, input: &mut [u8], plain: &[u8], out: &mut Vec<u8>) -> Result<usize, TlsError> {
        self.with_traffic(input, out, |traffic, out| {
            let room = plain.len() + (plain.len() / FRAGMENT + 1) * RECORD_EXTRA;
            fill(out, room, |room| traffic.encrypt(plain, room).map_err(short_of))
        })
    }

    fn with_partial(
        &mut self,
        work: impl FnOnce(&mut Self, &mut [u8]) -> Result<usize, TlsError>,
    ) -> Result<(), TlsError> {
        let mut partial = std::mem::take(&mut self.partial);
        let done = work(self, &mut partial);
        partial.drain(..done.as_ref().map_or(0, |done| *done).min(partial.len()));
        if !partial.is_empty() {
            self.partial = partial;
        }
        done.map(drop)
    }

    /// Brings the session to the state in which it can send, then lets `work` encrypt. The library
    /// has to see the bytes of an incomplete record each time. Returns how many of them it used.
    fn with_traffic(
        &mut self,
        input: &mut [u8],
        out: &mut Vec<u8>,
        work: impl Fn(&mut WriteTraffic<'_, S::Data>, &mut Vec<u8>) -> Result<(), TlsError>,
    ) -> Result<usize, TlsError> {
        if self.has_failed {
            return Err(failed_before());
        }
        let mut done = 0;
        let outcome = loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process(input.get_mut(done..).unwrap_or_default());
            let outcome = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(work(&mut traffic, out)),
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(out, &mut data).err().map(Err),
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.is_ended = true;
                    None
                }
                Ok(_) => Some(Err(TlsError::General("the session cannot send in its present state".into()))),
                Err(error) => Some(Err(error)),
            };
            done += discard;
            if let Some(outcome) = outcome {
                break outcome;
            }
        };
        self.has_failed |= outcome.is_err() && self.is_open;
        outcome.map(|()| done)
    }
}

fn failed_before() -> TlsError {
    TlsError::General("the session has failed before".into())
}

/// Why the library did not write.
enum WriteError {
    /// It needs this much space, in bytes.
    TooSmall(usize),
    Failed(String),
}

fn short_of(error: EncryptError) -> WriteError {
    match error {
        EncryptError::InsufficientSize(short) => WriteError::TooSmall(short.required_size),
        other => WriteError::Failed(other.to_string()),
    }
}

fn encode<D>(out: &mut Vec<u8>, data: &mut EncodeTlsData<'_, D>) -> Result<(), TlsError> {
    fill(out, RECORD_ROOM, |room| {
        data.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(short) => WriteError::TooSmall(short.required_size),
            other @ EncodeError::AlreadyEncoded => WriteError::Failed(other.to_string()),
        })
    })
}

/// Extends `out` by what `write` writes, starting with `room` bytes of space and growing it on
/// demand.
fn fill(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, WriteError>,
) -> Result<(), TlsError> {
    let (start, mut room) = (out.len(), room);
    loop {
        out.resize(start + room, 0);
        let cause = match write(out.get_mut(start..).unwrap_or_default()) {
            Ok(bytes) => {
                out.truncate(start + bytes);
                return Ok(());
            }
            Err(WriteError::TooSmall(needed)) if needed > room => {
                room = needed;
                continue;
            }
            Err(WriteError::TooSmall(_)) => "a record needs more space than it asked for".into(),
            Err(WriteError::Failed(cause)) => cause,
        };
        out.truncate(start);
        return Err(TlsError::General(cause));
    }
}
