//! A login: the account and the access of a request or a session.

use pitwire_engine::Engine;
use pitwire_model::{AccountId, SignatureDigest};

use crate::access::Access;
use crate::codec::RpcError;
use crate::tokens::{CredentialNumber, FamilyNumber, SessionNumber};

/// The account and access of a request or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub account: AccountId,
    pub access: Access,
    pub(crate) credential: CredentialNumber,
    /// The session and the family of the token, if there is one.
    pub(crate) session: Option<SessionNumber>,
    pub(crate) family: Option<FamilyNumber>,
    /// The digest of the signature, if the request itself was signed.
    pub(crate) signature: Option<SignatureDigest>,
}

/// Checks that an account may log in.
///
/// # Errors
///
/// `killed` or `account_closed`.
pub(crate) fn check_account(engine: &Engine, account: AccountId) -> Result<(), RpcError> {
    match engine.account(account) {
        Some(holder) if holder.is_closed() => Err(RpcError::named("account_closed")),
        Some(holder) if holder.is_killed() => Err(RpcError::named("killed")),
        _ => Ok(()),
    }
}
