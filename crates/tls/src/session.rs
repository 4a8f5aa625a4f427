//! One connection's TLS, from its first byte.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// Room that a handshake record takes at most, certificates of usual chains included.
const RECORD_ROOM: usize = 18 * 1024;
/// Of plain bytes, in one record.
const FRAGMENT: usize = 16 * 1024;
/// What a record adds to what is in it, rounded up.
const RECORD_EXTRA: usize = 64;
/// A fatal alert in a record that nothing protects: for a peer that has not begun as it should.
const HANDSHAKE_FAILURE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];

/// What ends a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    fn again() -> Fault {
        Fault("the session has failed before".into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl From<rustls::Error> for Fault {
    fn from(error: rustls::Error) -> Fault {
        Fault(error.to_string())
    }
}

type Traffic<'a> = rustls::unbuffered::WriteTraffic<'a, rustls::server::ServerConnectionData>;

pub struct Session {
    connection: UnbufferedServerConnection,
    /// The beginning of a record whose end has not come.
    held: Vec<u8>,
    is_open: bool,
    is_ended: bool,
    /// It has stumbled: what it says of itself after that is not to be relied on, and it is not asked again.
    has_failed: bool,
    /// The peer has been sent anything at all.
    has_spoken: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Session { is_open, is_ended, .. } = self;
        f.debug_struct("Session").field("is_open", is_open).field("is_ended", is_ended).finish_non_exhaustive()
    }
}

impl Session {
    pub fn new(config: &Arc<ServerConfig>) -> Result<Session, Fault> {
        let connection = UnbufferedServerConnection::new(Arc::clone(config))?;
        Ok(Session {
            connection,
            held: Vec::new(),
            is_open: false,
            is_ended: false,
            has_failed: false,
            has_spoken: false,
        })
    }

    /// Whether the handshake is done: before that nothing can be sealed.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the peer has said that nothing follows.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes what has been read from the peer, which is overwritten: its content goes behind `plain`, what has to be sent
    /// because of it behind `out`.
    pub fn receive(&mut self, cipher: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Fault> {
        let before = out.len();
        let taken = if self.has_failed { Err(Fault::again()) } else { self.take(cipher, plain, out) };
        if taken.is_err() && !std::mem::replace(&mut self.has_failed, true) && !self.has_spoken && out.len() == before {
            out.extend_from_slice(&HANDSHAKE_FAILURE);
        }
        self.has_spoken |= out.len() > before;
        taken
    }

    fn take(&mut self, cipher: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.held.is_empty() {
            let done = self.process(cipher, plain, out)?;
            self.held.extend_from_slice(cipher.get(done..).unwrap_or_default());
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(cipher);
        let done = self.process(&mut held, plain, out)?;
        held.drain(..done.min(held.len()));
        // A whole record has room of its own only while the next one has begun.
        if !held.is_empty() {
            self.held = held;
        }
        Ok(())
    }

    fn process(&mut self, input: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<usize, Fault> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(input.get_mut(done..).unwrap_or_default());
            let mut failed = None;
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut discarded = 0;
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                plain.extend_from_slice(record.payload);
                                discarded += record.discard;
                            }
                            Err(error) => {
                                failed = Some(error);
                                break;
                            }
                        }
                    }
                    done += discarded;
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(out, &mut data)?;
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.is_open = true;
                    false
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.is_ended = true;
                    true
                }
                Ok(ConnectionState::Closed) => {
                    self.is_ended = true;
                    false
                }
                Ok(_) => false,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            };
            done += discard;
            if let Some(error) = failed {
                return Err(error.into());
            }
            if !goes_on {
                return Ok(done);
            }
        }
    }

    /// Records of `plain`, behind `out`.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.with_traffic(out, |traffic, out| {
            let room = plain.len() + (plain.len() / FRAGMENT + 1) * RECORD_EXTRA;
            fill(out, room, |room| traffic.encrypt(plain, room).map_err(short_of))
        })
    }

    /// Says that nothing follows, behind `out`.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.with_traffic(out, |traffic, out| {
            fill(out, RECORD_EXTRA, |room| traffic.queue_close_notify(room).map_err(short_of))
        })
    }

    fn with_traffic(
        &mut self,
        out: &mut Vec<u8>,
        work: impl Fn(&mut Traffic<'_>, &mut Vec<u8>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.has_failed {
            return Err(Fault::again());
        }
        // What has begun to arrive must be shown to the session each time: it remembers places in it.
        let mut done = 0;
        let told = loop {
            let held = self.held.get_mut(done..).unwrap_or_default();
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(held);
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
                Ok(_) => Some(Err(Fault("nothing can be sent now".into()))),
                Err(error) => Some(Err(error.into())),
            };
            done += discard;
            if let Some(told) = outcome {
                break told;
            }
        };
        self.held.drain(..done.min(self.held.len()));
        self.has_failed |= told.is_err() && self.is_open;
        told
    }
}

/// What is wanting of room, or what else went wrong.
enum Short {
    By(usize),
    Failed(String),
}

fn short_of(error: EncryptError) -> Short {
    match error {
        EncryptError::InsufficientSize(short) => Short::By(short.required_size),
        other => Short::Failed(other.to_string()),
    }
}

fn encode(
    out: &mut Vec<u8>,
    data: &mut rustls::unbuffered::EncodeTlsData<'_, rustls::server::ServerConnectionData>,
) -> Result<(), Fault> {
    fill(out, RECORD_ROOM, |room| {
        data.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(short) => Short::By(short.required_size),
            other @ EncodeError::AlreadyEncoded => Short::Failed(other.to_string()),
        })
    })
}

/// Has `write` fill room behind the end of `out`; gives it more when it asks.
fn fill(out: &mut Vec<u8>, room: usize, mut write: impl FnMut(&mut [u8]) -> Result<usize, Short>) -> Result<(), Fault> {
    let (start, mut room) = (out.len(), room);
    loop {
        out.resize(start + room, 0);
        let fault = match write(out.get_mut(start..).unwrap_or_default()) {
            Ok(bytes) => {
                out.truncate(start + bytes);
                return Ok(());
            }
            Err(Short::By(needed)) if needed > room => {
                room = needed;
                continue;
            }
            Err(Short::By(_)) => Fault("a record wants the room that it was given".into()),
            Err(Short::Failed(cause)) => Fault(cause),
        };
        out.truncate(start);
        return Err(fault);
    }
}
