//! Whose certificate a server shows: one that was given, or one made for it by an authority of its own.

use std::fmt;
use std::sync::Arc;

use pitwire_model::{VenueDay, format_date};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ServerConfig};

use crate::der::validity;

/// Why a certificate or its key cannot be used; which of the two texts is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    Certificate(String),
    Key(String),
    /// Each for itself would do.
    Pair(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Certificate(what) | Flaw::Key(what) | Flaw::Pair(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Flaw {}

const DAY_S: u64 = 86_400;

/// A chain, the server's own certificate first, and its key, both PEM. `now_s`: seconds since 1970.
pub fn given(chain: &[u8], key: &[u8], now_s: u64) -> Result<Arc<ServerConfig>, Flaw> {
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| Flaw::Certificate(format!("no certificate in PEM form: {error}")))?;
    let own = chain.first().ok_or_else(|| Flaw::Certificate("holds no certificate in PEM form".into()))?;
    let (begins, ends) =
        validity(own).ok_or_else(|| Flaw::Certificate("what it holds in PEM form is no certificate".into()))?;
    if now_s > ends {
        return Err(Flaw::Certificate(format!("the certificate expired on {}", date(ends))));
    }
    if now_s < begins {
        return Err(Flaw::Certificate(format!("the certificate does not hold before {}", date(begins))));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| Flaw::Key(format!("holds no private key in PEM form: {error}")))?;
    config(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => Flaw::Pair("the key is not that of the certificate".into()),
        other => Flaw::Pair(format!("the certificate and the key cannot be used: {other}")),
    })
}

fn date(at_s: u64) -> String {
    format_date(VenueDay(u32::try_from(at_s / DAY_S).unwrap_or(u32::MAX)))
}

/// Made once for a venue, and trusted by those who want to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// PEM, for everybody.
    pub certificate: String,
    /// PEM, for nobody else.
    pub key: String,
}

impl Authority {
    pub fn make() -> Result<Authority, String> {
        let failed = |error: rcgen::Error| format!("cannot make a certificate: {error}");
        let key = KeyPair::generate().map_err(failed)?;
        let secret = key.serialize_pem();
        let issuer = CertifiedIssuer::self_signed(authority(), key).map_err(failed)?;
        Ok(Authority { certificate: issuer.pem(), key: secret })
    }
}

/// The same at every start: what it signs names it.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Pitwire local authority");
    params
}

/// A certificate by this authority for these names and addresses, from the day before `now_s` for thirteen months: made
/// anew at each start, its key is nowhere but in memory.
pub fn made_by(authority_key: &str, names: &[String], now_s: u64) -> Result<Arc<ServerConfig>, String> {
    const MOST_DAYS: u64 = 396;
    let failed = |error: rcgen::Error| format!("cannot make a certificate: {error}");
    let issuer = Issuer::new(authority(), KeyPair::from_pem(authority_key).map_err(failed)?);
    let mut leaf = CertificateParams::new(names).map_err(failed)?;
    leaf.distinguished_name = rcgen::DistinguishedName::new();
    leaf.distinguished_name.push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let today = now_s / DAY_S;
    let (begins, ends) = (civil(today.saturating_sub(1))?, civil(today + MOST_DAYS)?);
    leaf.not_before = date_time_ymd(begins.0, begins.1, begins.2);
    leaf.not_after = date_time_ymd(ends.0, ends.1, ends.2);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = leaf.signed_by(&key, &issuer).map_err(failed)?;
    let secret = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| error.to_owned())?;
    config(vec![certificate.der().clone()], secret).map_err(|error| error.to_string())
}

/// Year, month and day of a number of days since 1970.
fn civil(day: u64) -> Result<(i32, u8, u8), String> {
    let text = format_date(VenueDay(u32::try_from(day).unwrap_or(u32::MAX)));
    let mut parts = text.rsplitn(3, '-');
    let mut part = || parts.next().and_then(|part| part.parse::<u16>().ok());
    let (day, month, year) = (part(), part(), part());
    let read = day
        .zip(month)
        .zip(year)
        .and_then(|((day, month), year)| Some((i32::from(year), u8::try_from(month).ok()?, u8::try_from(day).ok()?)));
    read.ok_or_else(|| format!("{text} is no day that a certificate can name"))
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut provider = rustls::crypto::ring::default_provider();
    // Of those that are safe the cheapest comes first, and the server chooses.
    let cheap = [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    provider.cipher_suites.sort_by_key(|suite| !cheap.contains(&suite.suite()));
    let builder = ServerConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.ignore_client_order = true;
    // Who has been here brings the session along, so that a storm of reconnects costs no signatures; nothing is kept here.
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}
