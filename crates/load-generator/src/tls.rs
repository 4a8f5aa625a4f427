//! TLS under a connection: a session, and the records that it has to send.

use std::sync::Arc;

use pitwire_tls::{ClientConfig, ClientSession, TlsError};

/// One connection's TLS state.
#[derive(Debug)]
pub struct TlsState {
    session: ClientSession,
    /// Records that the protocol itself has to send.
    outbox: Vec<u8>,
}

impl TlsState {
    /// Starts a handshake with `host`. The next [`TlsState::send`] sends its first record.
    ///
    /// # Errors
    ///
    /// `host` cannot stand in a certificate.
    pub fn open(config: &Arc<ClientConfig>, host: &str) -> Result<Self, TlsError> {
        let (mut session, mut outbox) = (ClientSession::open(config, host)?, Vec::new());
        session.receive(&mut [], &mut Vec::new(), &mut outbox)?;
        Ok(TlsState { session, outbox })
    }

    pub fn is_handshaking(&self) -> bool {
        !self.session.is_open()
    }

    /// Decrypts received records in place and appends their content to `plain`.
    ///
    /// # Errors
    ///
    /// The records are not valid TLS, or the server is not trusted.
    pub fn receive(&mut self, records: &mut [u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        self.session.receive(records, plain, &mut self.outbox)
    }

    /// Encrypts `plain` and appends the records to `out`, after pending protocol records.
    ///
    /// # Errors
    ///
    /// The session has failed or ended.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        out.append(&mut self.outbox);
        if plain.is_empty() { Ok(()) } else { self.session.seal(plain, out) }
    }
}
