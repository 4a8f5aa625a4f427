//! The server's certificate: from files, or made here for a test.

use std::fs::File;
use std::io::{self, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
pub use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A chain and its key in PEM files; the error names the file.
pub fn from_files(certificate: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let bad = |path: &Path, what: String| io::Error::other(format!("{}: {what}", path.display()));
    let open = |path: &Path| File::open(path).map(BufReader::new).map_err(|error| bad(path, error.to_string()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(open(certificate)?).collect();
    let chain = chain.map_err(|error| bad(certificate, format!("no certificates in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(bad(certificate, "holds no certificate in PEM".into()));
    }
    let private = PrivateKeyDer::from_pem_reader(open(key)?)
        .map_err(|error| bad(key, format!("no private key in PEM: {error}")))?;
    config(chain, private).map_err(|error| bad(key, error.to_string()))
}

/// A certificate for `address` and localhost, and the PEM of the authority that signed it. Both live as long as the process.
pub fn made_for(address: IpAddr) -> io::Result<(Arc<ServerConfig>, String)> {
    let failed = |error: rcgen::Error| io::Error::other(format!("cannot make a certificate: {error}"));
    let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "Pitwire tape, made for one run");
    let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().map_err(failed)?).map_err(failed)?;
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let address = address.to_string();
    if !names.contains(&address) {
        names.push(address);
    }
    let key = KeyPair::generate().map_err(failed)?;
    let mut leaf = CertificateParams::new(names).map_err(failed)?;
    leaf.distinguished_name.push(DnType::CommonName, "localhost");
    let certificate = leaf.signed_by(&key, &issuer).map_err(failed)?;
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?;
    let config = config(vec![certificate.der().clone()], private).map_err(io::Error::other)?;
    Ok((config, issuer.pem()))
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_no_client_auth().with_single_cert(chain, key)?))
}
