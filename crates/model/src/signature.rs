//! Signatures that clients have used.

use core::net::IpAddr;

use crate::AccountId;

/// BLAKE3 of a client id and a signature.
pub type SignatureDigest = [u8; 32];

/// A used signature. The venue refuses it when it comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpentSignature {
    pub digest: SignatureDigest,
    pub account: AccountId,
    /// Wall time of the use, in milliseconds since 1970.
    pub used_ms: u64,
    pub purpose: SignaturePurpose,
}

/// The use of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignaturePurpose {
    /// The entry or the amend of one order.
    Order,
    /// A login from this address; `None` if the address is unknown.
    Login(Option<IpAddr>),
}
