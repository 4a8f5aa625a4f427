//! TLS under the feed, in this process.
//!
//! Does        handshake, decryption of what was read, encryption of the little that is sent; whom to trust.
//! Leaves out  sockets: bytes come in and go out. Kernel TLS: where a kernel has it (`pitwire doctor` says), `Session::open`
//!             is the place to hand it the secrets, and the channel goes on as a plain one.
//! Start at    [`Session::process`].

use std::path::Path;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CipherSuite, ClientConfig, RootCertStore};

/// Room that one handshake record or one small message takes.
const RECORD_ROOM: usize = 20 * 1024;

/// Whom to trust: the authorities of the system, or, when one is given, that file's alone.
pub fn config(authority: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(file) => {
            let unusable = |cause: String| format!("cannot use {}: {cause}", file.display());
            let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("it holds no certificate in PEM form".into()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system trusts no authority; name one with --ca".into());
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(provider())).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Every byte of the feed is decrypted: the cheapest cipher that is safe comes first.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    let cheap = [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    provider.cipher_suites.sort_by_key(|suite| !cheap.contains(&suite.suite()));
    provider
}

/// What went wrong while records were taken in: the peer's records, or what was done with their content.
#[derive(Debug)]
pub(crate) enum Trouble<V> {
    Tls(rustls::Error),
    Taker(V),
}

/// One connection's state.
pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    is_open: bool,
    is_ended: bool,
}

impl Session {
    pub fn open(config: &Arc<ClientConfig>, host: &str) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| rustls::Error::General(error.to_string()))?;
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name)?;
        Ok(Session { connection, is_open: false, is_ended: false })
    }

    /// Whether the handshake is done.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the peer has said that nothing follows.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes whole records from the front of `input`: their content goes to `take`, answers to `outbox`. Returns how many
    /// bytes are done with.
    pub fn process<V>(
        &mut self,
        input: &mut [u8],
        outbox: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), V>,
    ) -> Result<usize, Trouble<V>> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut input[done..]);
            let goes_on = match state.map_err(Trouble::Tls)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        take(record.map_err(Trouble::Tls)?.payload).map_err(Trouble::Taker)?;
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    into(outbox, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(short)) => Err(Short::By(short.required_size)),
                        Err(error) => Err(Short::Failed(error.to_string())),
                        Ok(bytes) => Ok(bytes),
                    })
                    .map_err(Trouble::Tls)?;
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
                ConnectionState::PeerClosed | ConnectionState::Closed => {
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

    /// Encrypts `plain` behind what is in `outbox`. `input` is what has been read and not been processed.
    pub fn send(&mut self, plain: &[u8], input: &mut [u8], outbox: &mut Vec<u8>) -> Result<(), rustls::Error> {
        match self.connection.process_tls_records(input).state? {
            ConnectionState::WriteTraffic(mut traffic) => into(outbox, |room| match traffic.encrypt(plain, room) {
                Err(EncryptError::InsufficientSize(short)) => Err(Short::By(short.required_size)),
                Err(error) => Err(Short::Failed(error.to_string())),
                Ok(bytes) => Ok(bytes),
            }),
            _ => Err(rustls::Error::General("nothing can be sent any more".into())),
        }
    }
}

enum Short {
    /// So much room is needed.
    By(usize),
    Failed(String),
}

/// Has `write` fill room behind the end of `out`; asks again when it wants more.
fn into(out: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, Short>) -> Result<(), rustls::Error> {
    let start = out.len();
    let mut room = RECORD_ROOM;
    loop {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(bytes) => {
                out.truncate(start + bytes);
                return Ok(());
            }
            Err(Short::By(needed)) if needed > room => room = needed,
            Err(Short::By(_)) => {
                out.truncate(start);
                return Err(rustls::Error::General("a record wants room that it was given".into()));
            }
            Err(Short::Failed(cause)) => {
                out.truncate(start);
                return Err(rustls::Error::General(cause));
            }
        }
    }
}
