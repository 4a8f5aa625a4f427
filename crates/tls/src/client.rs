//! Configuration of TLS clients: which servers they trust, and how they resume sessions.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pitwire_failure::read_bytes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};

use crate::provider::provider;
use crate::regular_file::open_regular;

/// Most bytes of a file of certificates.
const MOST_BYTES: u64 = 16 << 20;
/// Most session tickets that [`Tickets::PerConnection`] stores.
const TICKETS_MAX: usize = 1 << 20;

/// Which servers a client trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Servers certified by an authority of the system.
    System,
    /// Servers certified by an authority in this PEM file, and no others.
    File(&'a Path),
    /// Servers certified by an authority of the system or of this PEM file.
    SystemAnd(&'a Path),
    /// Any server. For tests only: the peer is not authenticated.
    Anybody,
}

/// How many session tickets a client keeps for reconnecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// A few per server, as the library does.
    Few,
    /// One per connection, for a process that opens very many connections to one server.
    PerConnection,
}

/// Builds the configuration of a client.
///
/// # Errors
///
/// A text that names the file that cannot be used, or says that the system trusts no authority.
pub fn client_config(trust: Trust<'_>, tickets: Tickets) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = match roots(trust)? {
        Some(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
        None => {
            let verifier = Arc::new(AcceptAnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    if tickets == Tickets::PerConnection {
        config.resumption = Resumption::store(Arc::new(TicketStore::default()));
    }
    Ok(Arc::new(config))
}

/// Returns the trusted authorities, or `None` if any certificate is accepted.
fn roots(trust: Trust<'_>) -> Result<Option<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    if matches!(trust, Trust::System | Trust::SystemAnd(_)) {
        // A certificate of the system that cannot be parsed is not trusted.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    match trust {
        Trust::Anybody => return Ok(None),
        Trust::System => {}
        Trust::File(file) | Trust::SystemAnd(file) => add_file(&mut roots, file)?,
    }
    if roots.is_empty() {
        return Err("this system trusts no authority; name one with --ca".into());
    }
    Ok(Some(roots))
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let unusable = |cause: String| format!("cannot use {}: {cause}", file.display());
    let pem =
        open_regular(file).and_then(|pem| read_bytes(pem, MOST_BYTES)).map_err(|error| unusable(error.to_string()))?;
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.len() == before {
        return Err(unusable("it contains no certificate in PEM form".into()));
    }
    Ok(())
}

/// Tickets of all connections in one queue. The library's own store keeps eight per server.
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
        if tickets.len() < TICKETS_MAX {
            tickets.push_back(value);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tls13.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Accepts any certificate. Signatures are still verified.
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
