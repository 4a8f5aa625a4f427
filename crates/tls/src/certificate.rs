//! A server's certificate: read from PEM, or issued by a local authority.

use std::fmt;
use std::sync::Arc;

use pitwire_model::{VenueDay, format_date};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::parse_x509_certificate;

use crate::TlsError;
use crate::provider::provider;

/// Why a certificate or its key cannot be used. The variant names the faulty input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    Certificate(String),
    Key(String),
    /// Each is valid, but they do not belong together.
    Pair(String),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateError::Certificate(what) | CertificateError::Key(what) | CertificateError::Pair(what) => {
                f.write_str(what)
            }
        }
    }
}

impl std::error::Error for CertificateError {}

const DAY_S: u64 = 86_400;
/// Days for which an issued certificate is valid. Clients refuse longer ones.
const VALID_DAYS: u64 = 396;

/// Builds a server's configuration from a certificate chain, the server's own certificate first,
/// and its private key, both PEM. `now_s` is the time in seconds since 1970.
///
/// # Errors
///
/// An input is not PEM, the certificate is not valid now, or the key does not match.
pub fn server_config(chain: &[u8], key: &[u8], now_s: u64) -> Result<Arc<ServerConfig>, CertificateError> {
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let invalid = |what: String| CertificateError::Certificate(what);
    let chain = chain.map_err(|error| invalid(format!("no certificate in PEM form: {error}")))?;
    let own = chain.first().ok_or_else(|| invalid("holds no certificate in PEM form".into()))?;
    let (begins, ends) = validity(own).ok_or_else(|| invalid("its PEM contains no X.509 certificate".into()))?;
    if now_s > ends {
        return Err(invalid(format!("the certificate expired on {}", date(ends))));
    }
    if now_s < begins {
        return Err(invalid(format!("the certificate is not valid before {}", date(begins))));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| CertificateError::Key(format!("holds no private key in PEM form: {error}")))?;
    config(chain, key).map_err(|error| match error {
        TlsError::InconsistentKeys(_) => CertificateError::Pair("the key does not match the certificate".into()),
        other => CertificateError::Pair(format!("the certificate and the key cannot be used: {other}")),
    })
}

/// Returns when a certificate begins and ends to be valid, in seconds since 1970. Times before 1970
/// count as 1970.
fn validity(certificate: &CertificateDer<'_>) -> Option<(u64, u64)> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let validity = certificate.validity();
    Some((seconds(validity.not_before), seconds(validity.not_after)))
}

fn date(at_s: u64) -> String {
    format_date(VenueDay(u32::try_from(at_s / DAY_S).unwrap_or(u32::MAX)))
}

/// A local certificate authority. Clients that are to trust its servers import its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Certificate in PEM. Public.
    pub certificate: String,
    /// Private key in PEM. Secret.
    pub key: String,
}

impl Authority {
    /// Generates an authority with a new key.
    ///
    /// # Errors
    ///
    /// A text from the library.
    pub fn generate() -> Result<Authority, String> {
        let key = KeyPair::generate().map_err(failed)?;
        let secret = key.serialize_pem();
        let issuer = CertifiedIssuer::self_signed(authority(), key).map_err(failed)?;
        Ok(Authority { certificate: issuer.pem(), key: secret })
    }
}

fn failed(error: rcgen::Error) -> String {
    format!("cannot make a certificate: {error}")
}

/// The authority's own parameters. They are the same at each start, because issued certificates
/// refer to its name.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Pitwire local authority");
    params
}

/// Issues a certificate for these names and addresses and builds a server's configuration with it.
///
/// The certificate is valid from the day before `now_s`, in seconds since 1970, for 13 months. Its
/// private key exists in memory only, so each start issues a new one.
///
/// # Errors
///
/// A text about the authority's key or a name.
pub fn issue_server_config(authority_key: &str, names: &[String], now_s: u64) -> Result<Arc<ServerConfig>, String> {
    let issuer = Issuer::new(authority(), KeyPair::from_pem(authority_key).map_err(failed)?);
    let mut leaf = CertificateParams::new(names).map_err(failed)?;
    leaf.distinguished_name = rcgen::DistinguishedName::new();
    leaf.distinguished_name.push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let today = now_s / DAY_S;
    let (begins, ends) = (civil(today.saturating_sub(1))?, civil(today + VALID_DAYS)?);
    leaf.not_before = date_time_ymd(begins.0, begins.1, begins.2);
    leaf.not_after = date_time_ymd(ends.0, ends.1, ends.2);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = leaf.signed_by(&key, &issuer).map_err(failed)?;
    let secret = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| error.to_owned())?;
    config(vec![certificate.der().clone()], secret).map_err(|error| error.to_string())
}

/// Returns year, month and day of a number of days since 1970.
fn civil(day: u64) -> Result<(i32, u8, u8), String> {
    let text = format_date(VenueDay(u32::try_from(day).unwrap_or(u32::MAX)));
    let mut parts = text.rsplitn(3, '-');
    let mut part = || parts.next().and_then(|part| part.parse::<u16>().ok());
    let (day, month, year) = (part(), part(), part());
    let read = day
        .zip(month)
        .zip(year)
        .and_then(|((day, month), year)| Some((i32::from(year), u8::try_from(month).ok()?, u8::try_from(day).ok()?)));
    read.ok_or_else(|| format!("a certificate cannot contain the date {text}"))
}

fn config(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(provider())).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.ignore_client_order = true;
    // Clients resume sessions with stateless tickets: a reconnect storm then costs no signatures,
    // and the server keeps no state.
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}
