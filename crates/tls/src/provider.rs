//! The cipher suites that servers and clients offer, in order of preference.

use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;

/// Suites with AES-128: the cheapest of the safe ones per byte.
const PREFERRED: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// Returns the provider with the cheapest safe suites first.
pub fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !PREFERRED.contains(&suite.suite()));
    provider
}
