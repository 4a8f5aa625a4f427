//! Authentication: credentials, signatures and tokens.
//!
//! Holds       1. every comparison of a secret or a signature takes constant time;
//!             2. a login never has more access than its key, and a refreshed login never more than
//!                the one before it.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::codec::{Params, RpcError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use pitwire_model::{AccountId, SignaturePurpose, SpentSignature};
use pitwire_projections::SpentSignatures;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::access::{Access, ScopeRequest, describe};
use crate::ended_logins::{EndedLogins, LoginEnd};
use crate::login::Login;
use crate::login_failures::LoginFailures;
use crate::request_clock::RequestClock;
use crate::secret::Secret;
use crate::spent_signatures;
use crate::tokens::{CredentialNumber, Grantee, RefreshToken, SessionNumber, Tokens, Use};

/// Life of an access token in seconds, as the dialect has it.
const TOKEN_LIFE_S: u64 = 900;
/// Life of a refresh token in seconds, and the longest life that an access token may request.
const REFRESH_LIFE_S: u64 = 7 * 24 * 3600;
const MOST_NAMED_SESSIONS: usize = 16;
/// Largest difference between a signed timestamp and the wall clock, in milliseconds.
const SKEW_MS: u64 = 60_000;

/// One API key.
#[derive(Clone, Debug)]
pub struct Credential {
    pub client_id: String,
    pub secret: Secret,
    pub account: AccountId,
    /// The account's name, which is stored with the credential.
    pub account_name: String,
    pub access: Access,
}

/// The parts of an HTTP request that a signature covers, exactly as received.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    pub method: &'a str,
    /// Path and query, not decoded.
    pub uri: &'a str,
    pub body: &'a str,
}

/// The value of an `Authorization` header, as received.
#[derive(Clone, Copy)]
pub struct Authorization<'a>(pub &'a str);

pub(crate) struct Keys {
    credentials: BTreeMap<CredentialNumber, Credential>,
    last_credential: CredentialNumber,
    /// Client ids that an operator has removed. They are not used again.
    removed: BTreeSet<String>,
    pub tokens: Tokens,
    /// Named sessions of each key, with the number of their last login.
    named: BTreeMap<CredentialNumber, BTreeMap<String, (u64, SessionNumber)>>,
    logins: u64,
    pub failures: LoginFailures,
    /// The newest failed login that the server has not logged yet.
    failed: Option<FailedLogin>,
    ended: EndedLogins,
    random: fn() -> [u8; 32],
}

/// A login that was refused because of its secret or signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLogin {
    /// The client id as sent, cut to a length that can be logged.
    pub client_id: String,
    pub address: Option<IpAddr>,
}

/// Most characters of a client id in a [`FailedLogin`].
const LOGGED_CHARACTERS: usize = 64;

#[derive(Debug)]
pub(crate) struct Grant {
    pub access: String,
    pub refresh: String,
    pub expires_s: u64,
    pub scope: String,
    pub login: Login,
    /// The session that the tokens belong to.
    pub session: Option<SessionNumber>,
    /// The signature of the login, at its first use. The caller must record it.
    pub spent: Option<SpentSignature>,
}

/// Where a login comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    /// The session of the connection; `None` for an HTTP request.
    pub connection: Option<SessionNumber>,
    pub address: Option<IpAddr>,
}

fn refused(reason: &str) -> RpcError {
    RpcError::new("invalid_credentials", reason)
}

impl Keys {
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        let mut keys = Keys {
            credentials: BTreeMap::new(),
            last_credential: CredentialNumber::default(),
            removed: BTreeSet::new(),
            tokens: Tokens::default(),
            named: BTreeMap::new(),
            logins: 0,
            failures: LoginFailures::default(),
            failed: None,
            ended: EndedLogins::default(),
            random,
        };
        for credential in credentials {
            keys.insert(credential);
        }
        keys
    }

    /// Sets the client ids that are not used again.
    pub fn set_removed(&mut self, removed: BTreeSet<String>) {
        self.removed = removed;
    }

    fn insert(&mut self, credential: Credential) -> CredentialNumber {
        self.last_credential.0 += 1;
        self.credentials.insert(self.last_credential, credential);
        self.last_credential
    }

    /// Answers `public/auth` with new tokens. They belong to the connection's session or to a named
    /// one, whose end revokes them.
    ///
    /// # Errors
    ///
    /// `invalid_credentials`, `invalid_token`, or `invalid_params` with the parameter. A refused
    /// call grants nothing and spends nothing. `check_account` refuses accounts that may not log
    /// in.
    pub fn grant(
        &mut self,
        params: &Params<'_>,
        origin: Origin,
        clock: RequestClock,
        known: &SpentSignatures,
        check_account: impl Fn(AccountId) -> Result<(), RpcError>,
    ) -> Result<Grant, RpcError> {
        let now_ms = clock.steady_ms();
        // All parameters are read before anything is granted or spent.
        let asked = ScopeRequest::parse(&params.text("scope")?.unwrap_or_default())?;
        check_address(asked.address, origin.address)?;
        let grant_type = params.required("grant_type")?;
        let mut spent = None;
        let (credential, before) = match grant_type.as_ref() {
            "client_credentials" => {
                let secret = params.text("client_secret")?;
                let secret = secret.ok_or_else(|| RpcError::invalid("client_secret", "client_secret is required"))?;
                (self.by_secret(&params.required("client_id")?, &secret, origin.address, clock)?, None)
            }
            "client_signature" => {
                let (number, first_use) = self.by_signature(params, origin.address, clock, known)?;
                spent = first_use;
                (number, None)
            }
            "refresh_token" => {
                let grantee = self.by_refresh(&params.required("refresh_token")?, origin, now_ms)?;
                (grantee.credential, Some(grantee))
            }
            _ => {
                let known = "grant_type is client_credentials, client_signature or refresh_token";
                return Err(RpcError::invalid("grant_type", known));
            }
        };
        check_account(self.credential(credential)?.account)?;
        if before.is_some() {
            self.tokens.spend(&params.required("refresh_token")?);
        }
        // A refreshed login has at most the access of the login before it and stays in its session.
        let most = before.map_or(self.credential(credential)?.access, |grantee| grantee.access);
        let address = asked.address.or(before.and_then(|grantee| grantee.address));
        let (session, name) = self.session_of(credential, &asked, before, origin);
        let family = before.map_or_else(|| self.tokens.number_family(), |grantee| grantee.family);
        let grantee = Grantee { credential, access: asked.within(most), session, family, address };
        let life_s = asked.expires_s.map_or(TOKEN_LIFE_S, |seconds| seconds.min(REFRESH_LIFE_S));
        let mut issue = |of_use, life_s| {
            let text = hex::encode((self.random)());
            self.tokens.issue(&text, (grantee, of_use), (now_ms, life_s));
            text
        };
        let (access, refresh) = (issue(Use::Access, life_s), issue(Use::Refresh, REFRESH_LIFE_S));
        let scope = describe(&name, grantee.access, asked.expires_s.map(|_| life_s), address);
        Ok(Grant { access, refresh, expires_s: life_s, scope, login: self.login(&grantee)?, session, spent })
    }

    /// Returns the session of a login's tokens, and how the scope text names it.
    fn session_of(
        &mut self,
        credential: CredentialNumber,
        asked: &ScopeRequest,
        before: Option<Grantee>,
        origin: Origin,
    ) -> (Option<SessionNumber>, String) {
        if let Some(name) = &asked.session {
            return (Some(self.named_session(credential, name)), format!("session:{name}"));
        }
        let named = self.named.get(&credential);
        let same = |number| move |entry: &(&String, &(u64, SessionNumber))| Some(entry.1.1) == number;
        if let Some((name, (_, number))) = before.and_then(|grantee| named?.iter().find(same(grantee.session))) {
            return (Some(*number), format!("session:{name}"));
        }
        match origin.connection {
            Some(number) => (Some(number), "connection".into()),
            None => (None, String::new()),
        }
    }

    /// Returns the number of a named session. A key that opens one session too many loses the one
    /// with the oldest login.
    fn named_session(&mut self, credential: CredentialNumber, name: &str) -> SessionNumber {
        self.logins += 1;
        let named = self.named.entry(credential).or_default();
        if let Some((last, number)) = named.get_mut(name) {
            *last = self.logins;
            return *number;
        }
        if named.len() >= MOST_NAMED_SESSIONS
            && let Some(oldest) = named.iter().min_by_key(|(_, (last, _))| *last).map(|(name, _)| name.clone())
            && let Some((_, number)) = named.remove(&oldest)
        {
            self.tokens.forget_session(number);
        }
        let number = self.tokens.number_session();
        named.insert(name.to_owned(), (self.logins, number));
        number
    }

    /// Revokes the tokens of a session and ends the other connections that are logged in with them.
    pub fn end_session(&mut self, session: SessionNumber) {
        self.forget_session(session);
        self.ended.0.push(LoginEnd::Session(session));
    }

    /// Ends all logins of an account. Its credentials stay, and may log in again when the account
    /// may.
    pub fn end_account(&mut self, account: AccountId) {
        let numbers = self.credentials.iter().filter(|(_, credential)| credential.account == account);
        for number in numbers.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.tokens.forget_credential(number);
        }
        self.ended.0.push(LoginEnd::Account(account));
    }

    /// Ends all logins of an account, which was closed, and removes its credentials. Their client
    /// ids are not used again.
    pub fn close_account(&mut self, account: AccountId) {
        self.end_account(account);
        for (number, gone) in self.credentials.extract_if(.., |_, credential| credential.account == account) {
            self.named.remove(&number);
            self.removed.insert(gone.client_id);
        }
    }

    /// Removes a credential that was never shown. Its client id is free again.
    pub fn withdraw(&mut self, client_id: &str) {
        self.credentials.retain(|_, credential| credential.client_id != client_id);
    }

    /// Stores all credentials as they are.
    ///
    /// # Errors
    ///
    /// Returns the error of `keep`.
    pub fn keep_all(&self, keep: impl FnOnce(&[Credential], &BTreeSet<String>) -> io::Result<()>) -> io::Result<()> {
        keep(&self.all(), &self.removed)
    }

    /// Returns the logins that ended since the last call.
    pub fn take_ended(&mut self) -> EndedLogins {
        std::mem::take(&mut self.ended)
    }

    /// Returns a failed login since the last call.
    pub fn take_failed(&mut self) -> Option<FailedLogin> {
        self.failed.take()
    }

    /// Revokes the tokens of a session and forgets its name.
    pub fn forget_session(&mut self, session: SessionNumber) {
        self.tokens.forget_session(session);
        for named in self.named.values_mut() {
            named.retain(|_, (_, number)| *number != session);
        }
    }

    /// Whether a client id is in use, or was removed.
    pub fn knows(&self, client_id: &str) -> bool {
        self.removed.contains(client_id) || self.number_of(client_id).is_some()
    }

    /// Returns a client id for one more credential of an account: its name, or the name with the
    /// first free number above 1.
    pub fn free_client_id(&self, name: &str) -> String {
        let numbered = (2_u64..).map(|number| format!("{name}.{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(|client_id| !self.knows(client_id)).unwrap_or_default()
    }

    /// Returns the credentials of an account, or of all accounts, in the order of their creation.
    pub fn list(&self, account: Option<AccountId>) -> impl Iterator<Item = &Credential> {
        self.credentials.values().filter(move |credential| account.is_none_or(|wanted| credential.account == wanted))
    }

    fn number_of(&self, client_id: &str) -> Option<CredentialNumber> {
        self.credentials.iter().find(|(_, credential)| credential.client_id == client_id).map(|(number, _)| *number)
    }

    /// Replaces the secret of a credential and ends its logins. Returns the new secret, or `None`
    /// for an unknown client id. The old secret stays valid if `keep` fails.
    ///
    /// # Errors
    ///
    /// Returns the error of `keep`.
    pub fn rotate(
        &mut self,
        client_id: &str,
        keep: impl FnOnce(&[Credential], &BTreeSet<String>) -> io::Result<()>,
    ) -> io::Result<Option<String>> {
        let Some(number) = self.number_of(client_id) else { return Ok(None) };
        let Some(before) = self.credentials.get(&number).cloned() else { return Ok(None) };
        let secret = hex::encode((self.random)());
        self.credentials.remove(&number);
        let renewed = self.insert(Credential { secret: secret.clone().into(), ..before.clone() });
        if let Err(error) = keep(&self.all(), &self.removed) {
            self.credentials.remove(&renewed);
            self.credentials.insert(number, before);
            return Err(error);
        }
        self.end_credential(number);
        Ok(Some(secret))
    }

    /// Removes a credential and ends its logins. Returns whether it existed. It stays valid if
    /// `keep` fails.
    ///
    /// # Errors
    ///
    /// Returns the error of `keep`.
    pub fn remove(
        &mut self,
        client_id: &str,
        keep: impl FnOnce(&[Credential], &BTreeSet<String>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(number) = self.number_of(client_id) else { return Ok(false) };
        let left = self.credentials.iter().filter(|(other, _)| **other != number);
        let left: Vec<Credential> = left.map(|(_, credential)| credential.clone()).collect();
        let mut removed = self.removed.clone();
        removed.insert(client_id.to_owned());
        keep(&left, &removed)?;
        self.credentials.remove(&number);
        self.removed = removed;
        self.end_credential(number);
        Ok(true)
    }

    fn end_credential(&mut self, number: CredentialNumber) {
        self.tokens.forget_credential(number);
        self.named.remove(&number);
        self.ended.0.push(LoginEnd::Credential(number));
    }

    fn all(&self) -> Vec<Credential> {
        self.credentials.values().cloned().collect()
    }

    /// Makes a member's credential with a secret of 256 random bits and returns the secret. The
    /// credential exists once `keep` has stored all credentials.
    ///
    /// # Errors
    ///
    /// Returns the error of `keep`; then the credential does not exist.
    pub fn add(
        &mut self,
        client_id: &str,
        (account, account_name): (AccountId, &str),
        keep: impl FnOnce(&[Credential], &BTreeSet<String>) -> io::Result<()>,
    ) -> io::Result<String> {
        let secret = hex::encode((self.random)());
        let number = self.insert(Credential {
            client_id: client_id.into(),
            secret: secret.clone().into(),
            account,
            account_name: account_name.into(),
            access: Access::MEMBER,
        });
        match keep(&self.all(), &self.removed) {
            Ok(()) => Ok(secret),
            Err(error) => {
                self.credentials.remove(&number);
                Err(error)
            }
        }
    }

    fn credential(&self, number: CredentialNumber) -> Result<&Credential, RpcError> {
        self.credentials.get(&number).ok_or_else(wrong_credentials)
    }

    /// Finds a credential and checks a proof of its secret. Counts a failure.
    ///
    /// # Errors
    ///
    /// `invalid_credentials`, or `too_many_requests` after too many failures.
    fn prove(
        &mut self,
        client_id: &str,
        from: Option<IpAddr>,
        clock: RequestClock,
        is_proved: impl FnOnce(&Secret) -> bool,
    ) -> Result<CredentialNumber, RpcError> {
        self.failures.check(client_id, from, clock.steady_ns)?;
        let found = self.number_of(client_id).and_then(|number| Some((number, self.credentials.get(&number)?)));
        if let Some((number, credential)) = found
            && is_proved(&credential.secret)
        {
            self.failures.succeeded(client_id, from);
            return Ok(number);
        }
        self.failures.failed(client_id, from, clock.steady_ns);
        let shown = client_id.chars().take(LOGGED_CHARACTERS).collect();
        self.failed = Some(FailedLogin { client_id: shown, address: from });
        Err(wrong_credentials())
    }

    /// Logs in without tokens.
    ///
    /// # Errors
    ///
    /// `invalid_credentials`, or `too_many_requests` after too many failures.
    pub fn log_in(
        &mut self,
        client_id: &str,
        secret: &str,
        from: Option<IpAddr>,
        clock: RequestClock,
    ) -> Result<Login, RpcError> {
        let number = self.by_secret(client_id, secret, from, clock)?;
        self.whole_login(number)
    }

    fn by_secret(
        &mut self,
        client_id: &str,
        secret: &str,
        from: Option<IpAddr>,
        clock: RequestClock,
    ) -> Result<CredentialNumber, RpcError> {
        self.prove(client_id, from, clock, |known| known.is(secret))
    }

    /// Returns the credential of a signed login, and the signature if this is its first use.
    fn by_signature(
        &mut self,
        params: &Params<'_>,
        from: Option<IpAddr>,
        clock: RequestClock,
        known: &SpentSignatures,
    ) -> Result<(CredentialNumber, Option<SpentSignature>), RpcError> {
        let wall_ms = clock.wall_ms();
        let client_id = params.required("client_id")?;
        let timestamp = params.required("timestamp")?;
        let nonce = params.text("nonce")?.unwrap_or_default();
        let data = params.text("data")?.unwrap_or_default();
        check_skew(&timestamp, wall_ms)?;
        let signed = format!("{timestamp}\n{nonce}\n{data}");
        let signature = params.required("signature")?;
        let number = self.prove(&client_id, from, clock, |secret| verify(secret, &signed, &signature))?;
        let spent = SpentSignature {
            digest: spent_signatures::digest(&client_id, &signature),
            account: self.credential(number)?.account,
            used_ms: wall_ms,
            purpose: SignaturePurpose::Login(from),
        };
        let is_first_use = spent_signatures::check_login(known, &spent, from)?;
        Ok((number, is_first_use.then_some(spent)))
    }

    /// Returns the rights of a refresh token. A token that was used before ends its family.
    fn by_refresh(&mut self, token: &str, origin: Origin, now_ms: u64) -> Result<Grantee, RpcError> {
        let refused = |reason: &str| RpcError::new("invalid_token", reason);
        match self.tokens.refresh_token(token, now_ms) {
            RefreshToken::Live(grantee) => check_address(grantee.address, origin.address).map(|()| grantee),
            RefreshToken::Spent(family) => {
                self.tokens.forget_family(family);
                self.ended.0.push(LoginEnd::Family(family));
                Err(refused("the refresh token was used before, so its login has ended"))
            }
            RefreshToken::Unknown => Err(refused("unknown, used or expired refresh token")),
        }
    }

    /// Returns the login of an access token. `now_ms` is steady time.
    ///
    /// # Errors
    /// `invalid_token` if the token is unknown or expired, and a refusal if it is bound to another
    /// address or its credential was removed.
    pub fn by_token(&self, token: &str, address: Option<IpAddr>, now_ms: u64) -> Result<Login, RpcError> {
        let found = self.tokens.find(token, Use::Access, now_ms);
        let grantee = found.ok_or_else(|| RpcError::new("invalid_token", "unknown or expired access token"))?;
        check_address(grantee.address, address)?;
        self.login(&grantee)
    }

    fn login(&self, grantee: &Grantee) -> Result<Login, RpcError> {
        let Grantee { credential, access, session, family, .. } = *grantee;
        let account = self.credential(credential)?.account;
        Ok(Login { account, access, credential, session, family: Some(family), signature: None })
    }

    /// Returns the login with the full access of a key.
    fn whole_login(&self, number: CredentialNumber) -> Result<Login, RpcError> {
        let Credential { account, access, .. } = *self.credential(number)?;
        Ok(Login { account, access, credential: number, session: None, family: None, signature: None })
    }

    /// Returns the login of an `Authorization` header: `deri-hmac-sha256`, `Bearer` or `Basic`.
    ///
    /// # Errors
    /// A refusal if the scheme is another one, the header is malformed, or its token, secret or
    /// signature is wrong.
    pub fn by_header(
        &mut self,
        header: Authorization<'_>,
        request: SignedRequest<'_>,
        address: Option<IpAddr>,
        clock: RequestClock,
    ) -> Result<Login, RpcError> {
        let (scheme, rest) = header.0.trim().split_once(' ').unwrap_or((header.0, ""));
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.by_token(rest.trim(), address, clock.steady_ms());
        }
        if scheme.eq_ignore_ascii_case("basic") {
            let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (id, secret) = pair.ok_or_else(|| refused("Basic takes base64 of id:secret"))?;
            let number = self.by_secret(id, secret, address, clock)?;
            return self.whole_login(number);
        }
        if scheme.eq_ignore_ascii_case("deri-hmac-sha256") {
            return self.by_signed_header(rest, request, address, clock);
        }
        Err(refused("Authorization is deri-hmac-sha256, Bearer or Basic"))
    }

    fn by_signed_header(
        &mut self,
        fields: &str,
        request: SignedRequest<'_>,
        from: Option<IpAddr>,
        clock: RequestClock,
    ) -> Result<Login, RpcError> {
        let field = |wanted: &str| {
            let pairs = fields.split(',').filter_map(|pair| pair.trim().split_once('='));
            let mut found = pairs.filter(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim());
            match (found.next(), found.next()) {
                (Some(value), None) => Ok(value),
                (Some(_), Some(_)) => Err(refused(&format!("the Authorization header has {wanted} twice"))),
                (None, _) => Err(refused(&format!("the Authorization header lacks {wanted}"))),
            }
        };
        let client_id = field("id")?;
        let (timestamp, nonce) = (field("ts")?, field("nonce")?);
        check_skew(timestamp, clock.wall_ms())?;
        let method = request.method.to_uppercase();
        let signed = format!("{timestamp}\n{nonce}\n{method}\n{}\n{}\n", request.uri, request.body);
        let signature = field("sig")?;
        let number = self.prove(client_id, from, clock, |secret| verify(secret, &signed, signature))?;
        let digest = spent_signatures::digest(client_id, signature);
        Ok(Login { signature: Some(digest), ..self.whole_login(number)? })
    }
}

/// Refuses a token that is bound to another address, or to any address if the caller's is unknown.
fn check_address(bound: Option<IpAddr>, given: Option<IpAddr>) -> Result<(), RpcError> {
    match bound {
        Some(bound) if given.map(|address| address.to_canonical()) != Some(bound.to_canonical()) => {
            Err(RpcError::new("invalid_token", "the token is for another address"))
        }
        _ => Ok(()),
    }
}

fn check_skew(timestamp: &str, wall_ms: u64) -> Result<(), RpcError> {
    let given: u64 = timestamp.parse().map_err(|_| refused("the timestamp is milliseconds since 1970"))?;
    if given.abs_diff(wall_ms) > SKEW_MS {
        return Err(refused("the timestamp is more than 60 s from the venue's clock"));
    }
    Ok(())
}

fn signature(secret: &[u8], text: &str) -> String {
    // HMAC takes keys of any length, so this cannot fail. An empty signature matches nothing.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn wrong_credentials() -> RpcError {
    refused("unknown client id, or wrong secret or signature")
}

fn verify(secret: &Secret, text: &str, given: &str) -> bool {
    let expected = signature(secret.key(), text);
    let same: bool = expected.as_bytes().ct_eq(given.to_ascii_lowercase().as_bytes()).into();
    same && !expected.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the dialect, computed independently. The vendor publishes the first.
    #[test]
    fn signatures_agree_with_the_published_vectors() {
        let sign = |secret: &str, ts: &str, nonce: &str, rest: &str| {
            signature(secret.as_bytes(), &format!("{ts}\n{nonce}\n{rest}"))
        };
        let demo = |rest: &str| sign("demo-secret", "1700000000000", "abcd1234", rest);
        assert_eq!(
            sign("AMANDASECRECT", "1576074319000", "1iqt2wls", ""),
            "56590594f97921b09b18f166befe0d1319b198bbcdad7ca73382de2f88fe9aa1"
        );
        assert_eq!(demo(""), "d45d60a5cf96e06441292dc6e2b898abb55904e85351507391ac3a9e8a12a3b8");
        assert_eq!(
            demo("GET\n/api/v2/private/get_position?instrument_name=BTC-PERPETUAL\n\n"),
            "d09204923912a508950389b6f19929a250ecf0000224f09521226e41045a590a"
        );
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"private/get_account_summaries","params":{}}"#;
        assert_eq!(
            demo(&format!("POST\n/api/v2\n{body}\n")),
            "3d8c5088a8e45fe249d204bbfdf948d4402b6474fe95262e463203611e661642"
        );
    }

    fn credential(secret: &str) -> Credential {
        Credential {
            client_id: "a".into(),
            secret: String::from(secret).into(),
            account: AccountId(3),
            account_name: "a".into(),
            access: Access::MEMBER,
        }
    }

    fn keys() -> Keys {
        Keys::new(vec![credential("demo-secret")], || [7; 32])
    }

    fn header(text: &str, wall_ms: u64) -> Result<AccountId, RpcError> {
        let uri = "/api/v2/private/get_position?instrument_name=BTC-PERPETUAL";
        let clock = RequestClock { received_us: wall_ms * 1_000, now_us: || 0, steady_ns: 0 };
        keys()
            .by_header(Authorization(text), SignedRequest { method: "get", uri, body: "" }, None, clock)
            .map(|login| login.account)
    }

    #[test]
    fn headers_are_taken_in_any_order_and_within_a_minute() {
        let sig = "d09204923912a508950389b6f19929a250ecf0000224f09521226e41045a590a";
        let at = 1_700_000_000_000;
        let expected = Ok(AccountId(3));
        let ccxt = format!("deri-hmac-sha256 id=a,ts={at},sig={sig},nonce=abcd1234");
        let spaced = format!("deri-hmac-sha256 nonce=abcd1234, sig={sig}, id=a, ts={at}");
        for text in [&ccxt, &spaced] {
            assert_eq!(header(text, at + 59_000), expected);
            assert!(header(text, at + 61_000).is_err());
            assert!(header(text, at - 61_000).is_err());
        }
        assert!(header(&ccxt.replace("d092", "d093"), at).is_err());
        assert!(header(&ccxt.replace("id=a", "id=b"), at).is_err());
        assert!(header(&format!("{ccxt},id=a"), at).is_err(), "a field occurs once");
        assert_eq!(header("Basic YTpkZW1vLXNlY3JldA==", at), expected);
        for bad in ["Basic YTp4", "Basic !", "Bearer 00", "Digest x", "", "deri-hmac-sha256", "Basic"] {
            assert!(header(bad, at).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let credential = credential("hush");
        assert!(!format!("{credential:?} {:?}", vec![credential.clone()]).contains("hush"));
    }
}
