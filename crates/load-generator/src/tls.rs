//! TLS under a connection.
//!
//! Does        records to bytes and back, without sockets; whom to trust; tickets, so that a storm
//!             resumes its sessions as clients of their own would.
//! Costs       some kilobytes a connection.
//! Start at    [`Session`].

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};

/// Whom to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    System,
    /// The authorities of a file alone.
    File(&'a Path),
    Anybody,
}

/// TicketStore are kept for so many connections.
const MOST_TICKETS: usize = 1 << 20;

pub fn config(trust: Trust<'_>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = match trust {
        Trust::System => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system trusts no authority; name one with --ca".into());
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        Trust::File(file) => builder.with_root_certificates(authorities(file)?).with_no_client_auth(),
        Trust::Anybody => {
            let verifier = Arc::new(AcceptAnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    config.resumption = Resumption::store(Arc::new(TicketStore::default()));
    Ok(Arc::new(config))
}

fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let unusable = |cause: String| format!("cannot use {}: {cause}", file.display());
    let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("it holds no certificate in PEM form".into())) } else { Ok(roots) }
}

/// A ticket for each connection: the library's own store keeps eight for a server, and all of ours
/// go to one.
#[derive(Debug)]
struct TicketStore {
    tls13: Mutex<VecDeque<Tls13ClientSessionValue>>,
    rest: ClientSessionMemoryCache,
}

impl Default for TicketStore {
    fn default() -> Self {
        TicketStore { tls13: Mutex::new(VecDeque::new()), rest: ClientSessionMemoryCache::new(8) }
    }
}

impl ClientSessionStore for TicketStore {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.rest.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.rest.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.rest.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.rest.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.rest.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.tls13.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() < MOST_TICKETS {
            tickets.push_back(value);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tls13.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Takes any certificate; signatures are still checked.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// One connection's state.
#[derive(Debug)]
pub struct Session(ClientConnection);

impl Session {
    pub fn open(config: &Arc<ClientConfig>, host: &str) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| rustls::Error::General(error.to_string()))?;
        ClientConnection::new(Arc::clone(config), name).map(Session)
    }

    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Decrypts what was received, behind what is in `plain`.
    pub fn receive(&mut self, mut records: &[u8], plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !records.is_empty() {
            self.0.read_tls(&mut records).map_err(|error| rustls::Error::General(error.to_string()))?;
            self.0.process_new_packets()?;
            // It ends where there is no more plaintext for now, or for ever.
            match self.0.reader().read_to_end(plain) {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::UnexpectedEof) => {}
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
        }
        Ok(())
    }

    /// Encrypts `plain`, and what the protocol itself has to say, behind what is in `out`.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let failed = |error: std::io::Error| rustls::Error::General(error.to_string());
        self.0.writer().write_all(plain).map_err(failed)?;
        while self.0.wants_write() {
            self.0.write_tls(out).map_err(failed)?;
        }
        Ok(())
    }
}
