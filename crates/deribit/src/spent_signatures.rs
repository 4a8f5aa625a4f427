//! Signatures that have been used: an order signature works once, a login signature from one
//! address.
//!
//! The projections hold the used signatures, so they survive a restart. Memory is bounded: an
//! account that has used too many is refused for a while.

use core::net::IpAddr;

use pitwire_model::{SignatureDigest, SignaturePurpose, SpentSignature};
use pitwire_projections::SpentSignatures;

use crate::codec::RpcError;

/// Identifies a signed request.
pub(crate) fn digest(client_id: &str, signature: &str) -> SignatureDigest {
    *blake3::hash(format!("{client_id}\n{}", signature.to_ascii_lowercase()).as_bytes()).as_bytes()
}

/// Checks that a signature may enter or amend an order.
///
/// # Errors
///
/// `replayed_signature` if it was used before; `too_many_requests` if the memory is full.
pub(crate) fn check_order(known: &SpentSignatures, spent: &SpentSignature) -> Result<(), RpcError> {
    match known.get(&spent.digest) {
        Some(_) => Err(RpcError::new("replayed_signature", "this signature has entered an order already")),
        None => check_room(known, spent),
    }
}

/// Checks that a signature may log in from an address. Returns whether this is its first use.
///
/// Clients often sign the time as the nonce, so two connections of one program may send the same
/// signature within a millisecond, and both are accepted. An attacker that intercepts a signature
/// sends it from another address.
///
/// # Errors
///
/// `replayed_signature` if it was used from another address before; `too_many_requests` if the
/// memory is full.
pub(crate) fn check_login(
    known: &SpentSignatures,
    spent: &SpentSignature,
    from: Option<IpAddr>,
) -> Result<bool, RpcError> {
    match known.get(&spent.digest) {
        Some(first) if first.purpose == SignaturePurpose::Login(from) => Ok(false),
        Some(_) => Err(RpcError::new("replayed_signature", "this signature has logged in from another address")),
        None => check_room(known, spent).map(|()| true),
    }
}

fn check_room(known: &SpentSignatures, spent: &SpentSignature) -> Result<(), RpcError> {
    if known.has_room(spent.account, spent.used_ms) {
        return Ok(());
    }
    let full = RpcError::new("too_many_requests", "too many signed requests in two minutes; use a connection");
    Err(full.with_retry(1_000))
}

#[cfg(test)]
mod tests {
    use pitwire_model::AccountId;

    use super::*;

    fn spent(digest: SignatureDigest, purpose: SignaturePurpose) -> SpentSignature {
        SpentSignature { digest, account: AccountId(3), used_ms: 7, purpose }
    }

    #[test]
    fn login_signature_is_bound_to_one_address() {
        let (here, there) = ("10.0.0.1".parse().ok(), "10.0.0.2".parse().ok());
        let login = spent(digest("a", "ab"), SignaturePurpose::Login(here));
        assert!(check_login(&SpentSignatures::default(), &login, here).unwrap(), "the first use");
        let known = SpentSignatures::from_iter([login]);
        assert!(!check_login(&known, &login, here).unwrap(), "a second connection of one program");
        for from in [there, None] {
            assert_eq!(check_login(&known, &login, from).unwrap_err().name, "replayed_signature", "{from:?}");
        }
    }

    #[test]
    fn order_signature_works_once() {
        let order = spent(digest("a", "AB"), SignaturePurpose::Order);
        assert_eq!(order.digest, digest("a", "ab"), "hexadecimal digits have no case");
        assert_ne!(order.digest, digest("b", "ab"));
        assert!(check_order(&SpentSignatures::default(), &order).is_ok());
        let known = SpentSignatures::from_iter([order]);
        assert_eq!(check_order(&known, &order).unwrap_err().name, "replayed_signature");
    }

    #[test]
    fn account_with_too_many_signatures_is_refused() {
        let numbered = |number: usize| spent(digest("a", &number.to_string()), SignaturePurpose::Order);
        let known: SpentSignatures = (0..SpentSignatures::MAX_OF_ACCOUNT).map(numbered).collect();
        let one_more = numbered(SpentSignatures::MAX_OF_ACCOUNT);
        assert_eq!(check_order(&known, &one_more).unwrap_err().name, "too_many_requests");
        assert_eq!(check_login(&known, &one_more, None).unwrap_err().name, "too_many_requests");
        assert!(check_order(&known, &SpentSignature { account: AccountId(4), ..one_more }).is_ok());
    }
}
