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
pub(crate) enum TlsFailure<V> {
    Tls(rustls::Error),
    Handler(V),
}

/// One connection's state.
pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    is_open: bool,
    is_ended: bool,
    /// It has stumbled: what it says of itself after that is not to be relied on, and it is not asked again.
    has_failed: bool,
}

impl Session {
    pub fn open(config: &Arc<ClientConfig>, host: &str) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| rustls::Error::General(error.to_string()))?;
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name)?;
        Ok(Session { connection, is_open: false, is_ended: false, has_failed: false })
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
        take: impl FnMut(&[u8]) -> Result<(), V>,
    ) -> Result<usize, TlsFailure<V>> {
        if self.has_failed {
            return Err(TlsFailure::Tls(failed_before()));
        }
        let done = self.take_records(input, outbox, take);
        self.has_failed = done.is_err();
        done
    }

    fn take_records<V>(
        &mut self,
        input: &mut [u8],
        outbox: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), V>,
    ) -> Result<usize, TlsFailure<V>> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut input[done..]);
            let goes_on = match state.map_err(TlsFailure::Tls)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        take(record.map_err(TlsFailure::Tls)?.payload).map_err(TlsFailure::Handler)?;
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    into(outbox, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(short)) => Err(Short::By(short.required_size)),
                        Err(error) => Err(Short::Failed(error.to_string())),
                        Ok(bytes) => Ok(bytes),
                    })
                    .map_err(TlsFailure::Tls)?;
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
        if self.has_failed {
            return Err(failed_before());
        }
        let UnbufferedStatus { discard, state } = self.connection.process_tls_records(input);
        let sent = match state {
            // Whatever was whole has been processed: should something be done with now, places in `input` are lost.
            Ok(_) if discard > 0 => Err(rustls::Error::General("a record was whole that had not been".into())),
            Ok(ConnectionState::WriteTraffic(mut traffic)) => into(outbox, |room| match traffic.encrypt(plain, room) {
                Err(EncryptError::InsufficientSize(short)) => Err(Short::By(short.required_size)),
                Err(error) => Err(Short::Failed(error.to_string())),
                Ok(bytes) => Ok(bytes),
            }),
            Ok(_) => Err(rustls::Error::General("nothing can be sent any more".into())),
            Err(error) => Err(error),
        };
        self.has_failed = sent.is_err();
        sent
    }
}

fn failed_before() -> rustls::Error {
    rustls::Error::General("the session has failed before".into())
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

#[cfg(test)]
mod tests {
    use pitwire_tls::{Authority, Session as Server, made_by};
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// A client that trusts the server's authority.
    fn trust(authority: &Authority) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider())).with_safe_default_protocol_versions();
        Arc::new(builder.unwrap().with_root_certificates(roots).with_no_client_auth())
    }

    /// What has been read and not been processed, as a channel keeps it.
    struct Client {
        session: Session,
        input: Vec<u8>,
        outbox: Vec<u8>,
        heard: Vec<u8>,
        has_failed: bool,
    }

    impl Client {
        fn process(&mut self, bytes: &[u8]) {
            self.input.extend_from_slice(bytes);
            let Client { session, input, outbox, heard, .. } = self;
            let take = |piece: &[u8]| {
                heard.extend_from_slice(piece);
                Ok::<(), ()>(())
            };
            match session.process(input, outbox, take) {
                Ok(done) => drop(input.drain(..done)),
                Err(_) => self.has_failed = true,
            }
        }
    }

    /// Whatever is changed, cut or repeated of what the feed's server sends, and whatever is asked of the session after
    /// that: a fault or nothing, never a panic; and without noise everything comes.
    #[test]
    fn noise_on_the_line_is_survived() {
        let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let authority = Authority::make().unwrap();
        let (config, trust) = (made_by(&authority.key, &["localhost".into()], now_s).unwrap(), trust(&authority));
        let mut seed = 7_u64;
        let mut below = |bound: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((seed >> 33) % bound as u64).unwrap()
        };
        let (mut opened, mut failed) = (0, 0);
        for round in 0..600 {
            let mut server = Server::new(&config).unwrap();
            let session = Session::open(&trust, "localhost").unwrap();
            let mut client =
                Client { session, input: Vec::new(), outbox: Vec::new(), heard: Vec::new(), has_failed: false };
            client.process(&[]);
            for _ in 0..5 {
                let (mut said, mut back) = (std::mem::take(&mut client.outbox), Vec::new());
                let _ = server.receive(&mut said, &mut Vec::new(), &mut back);
                if server.is_open() {
                    server.seal(b"of the feed.", &mut back).unwrap();
                }
                if round % 3 != 0 && !back.is_empty() {
                    match below(3) {
                        0 => {
                            let at = below(back.len());
                            back[at] ^= 1 << below(8);
                        }
                        1 => back.truncate(below(back.len())),
                        _ => back.extend_from_slice(&back.clone()[below(back.len())..]),
                    }
                }
                for bytes in back.chunks(1 + below(700)) {
                    client.process(bytes);
                    if client.session.is_open() && below(3) == 0 {
                        let Client { session, input, outbox, .. } = &mut client;
                        let _ = session.send(b"asked", input, outbox);
                    }
                }
            }
            opened += usize::from(client.session.is_open());
            failed += usize::from(client.has_failed);
            if round % 3 == 0 {
                assert!(client.session.is_open() && !client.has_failed, "round {round}");
                assert!(client.heard.ends_with(b"of the feed.") && client.heard.len() >= 36, "round {round}");
            }
        }
        assert!(opened >= 200 && failed >= 100, "{opened} opened, {failed} failed");
    }
}
