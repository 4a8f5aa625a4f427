//! Causes that end logins. The server closes every connection with such a login.

use pitwire_model::AccountId;

use crate::login::Login;
use crate::tokens::{CredentialNumber, FamilyNumber, SessionNumber};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginEnd {
    /// An operator killed or closed the account.
    Account(AccountId),
    /// An operator removed or rotated the credential.
    Credential(CredentialNumber),
    /// A logout revoked the tokens of the session.
    Session(SessionNumber),
    /// A refresh token was used twice.
    Family(FamilyNumber),
}

impl LoginEnd {
    fn concerns(self, login: &Login) -> bool {
        match self {
            LoginEnd::Account(account) => login.account == account,
            LoginEnd::Credential(credential) => login.credential == credential,
            LoginEnd::Session(session) => login.session == Some(session),
            LoginEnd::Family(family) => login.family == Some(family),
        }
    }
}

/// The logins that ended since the last look.
#[derive(Clone, Debug, Default)]
pub struct EndedLogins(pub(crate) Vec<LoginEnd>);

impl EndedLogins {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn include(&self, login: &Login) -> bool {
        self.0.iter().any(|end| end.concerns(login))
    }
}
