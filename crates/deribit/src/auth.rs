//! Authentication: credentials, signatures and tokens.
//!
//! Holds       1. every comparison of a secret or a signature takes constant time;
//!             2. a login never has more access than its key, and a refreshed login never more than
//!                the one before it.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::io;

use crate::codec::{Params, RpcError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use pitwire_model::AccountId;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::access::{Access, ScopeRequest, describe};
use crate::secret::Secret;
use crate::spent_signatures::{Digest, Logins, SpentSignatures};
use crate::tokens::{Grantee, SessionNumber, Tokens, Use};

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
    credentials: Vec<Credential>,
    pub tokens: Tokens,
    logins_signed: Logins,
    /// Named sessions of each key, with the number of their last login.
    named: BTreeMap<usize, BTreeMap<String, (u64, SessionNumber)>>,
    logins: u64,
    random: fn() -> [u8; 32],
}

#[derive(Debug)]
pub(crate) struct Grant {
    pub access: String,
    pub refresh: String,
    pub expires_s: u64,
    pub scope: String,
    pub login: Login,
    /// The session that the tokens belong to.
    pub session: Option<SessionNumber>,
}

/// The account and access of a request or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub account: AccountId,
    pub access: Access,
    /// The digest of the signature, if the request itself was signed.
    pub(crate) signature: Option<Digest>,
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
        Keys {
            credentials,
            tokens: Tokens::default(),
            logins_signed: Logins::default(),
            named: BTreeMap::new(),
            logins: 0,
            random,
        }
    }

    /// Answers `public/auth` with new tokens. They belong to the connection's session or to a named
    /// one, whose end revokes them.
    ///
    /// # Errors
    ///
    /// `invalid_credentials`, `invalid_token`, or `invalid_params` with the parameter. A refused
    /// call grants nothing and spends nothing.
    pub fn grant(&mut self, params: &Params<'_>, origin: Origin, wall_ms: u64) -> Result<Grant, RpcError> {
        // All parameters are read before anything is granted or spent.
        let asked = ScopeRequest::parse(&params.text("scope")?.unwrap_or_default())?;
        check_address(asked.address, origin.address)?;
        let grant_type = params.required("grant_type")?;
        let (credential, before) = match grant_type.as_ref() {
            "client_credentials" => {
                let secret = params.text("client_secret")?;
                let secret = secret.ok_or_else(|| RpcError::invalid("client_secret", "client_secret is required"))?;
                (self.by_secret(&params.required("client_id")?, &secret)?, None)
            }
            "client_signature" => (self.by_signature(params, origin.address, wall_ms)?, None),
            "refresh_token" => {
                let grantee = self.by_refresh(&params.required("refresh_token")?, origin, wall_ms)?;
                (grantee.credential, Some(grantee))
            }
            _ => {
                let known = "grant_type is client_credentials, client_signature or refresh_token";
                return Err(RpcError::invalid("grant_type", known));
            }
        };
        // A refreshed login has at most the access of the login before it and stays in its session.
        let most = before.map_or(self.credentials[credential].access, |grantee| grantee.access);
        let address = asked.address.or(before.and_then(|grantee| grantee.address));
        let (session, name) = self.session_of(credential, &asked, before, origin);
        let grantee = Grantee { credential, access: asked.within(most), session, address };
        let life_s = asked.expires_s.map_or(TOKEN_LIFE_S, |seconds| seconds.min(REFRESH_LIFE_S));
        let mut issue = |of_use, life_s| {
            let text = hex::encode((self.random)());
            self.tokens.issue(&text, (grantee, of_use), (wall_ms, life_s));
            text
        };
        let (access, refresh) = (issue(Use::Access, life_s), issue(Use::Refresh, REFRESH_LIFE_S));
        let scope = describe(&name, grantee.access, asked.expires_s.map(|_| life_s), address);
        Ok(Grant { access, refresh, expires_s: life_s, scope, login: self.login(&grantee), session })
    }

    /// Returns the session of a login's tokens, and how the scope text names it.
    fn session_of(
        &mut self,
        credential: usize,
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
    fn named_session(&mut self, credential: usize, name: &str) -> SessionNumber {
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

    /// Revokes the tokens of a session and forgets its name.
    pub fn forget_session(&mut self, session: SessionNumber) {
        self.tokens.forget_session(session);
        for named in self.named.values_mut() {
            named.retain(|_, (_, number)| *number != session);
        }
    }

    /// Whether a client id is in use.
    pub fn knows(&self, client_id: &str) -> bool {
        self.credentials.iter().any(|credential| credential.client_id == client_id)
    }

    pub fn count_of(&self, account: AccountId) -> usize {
        self.credentials.iter().filter(|credential| credential.account == account).count()
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
        keep: impl FnOnce(&[Credential]) -> io::Result<()>,
    ) -> io::Result<String> {
        let secret = hex::encode((self.random)());
        self.credentials.push(Credential {
            client_id: client_id.into(),
            secret: secret.clone().into(),
            account,
            account_name: account_name.into(),
            access: Access::MEMBER,
        });
        match keep(&self.credentials) {
            Ok(()) => Ok(secret),
            Err(error) => {
                self.credentials.pop();
                Err(error)
            }
        }
    }

    fn find(&self, client_id: &str) -> Result<usize, RpcError> {
        let found = self.credentials.iter().position(|credential| credential.client_id == client_id);
        found.ok_or_else(|| refused("unknown client id, or wrong secret or signature"))
    }

    fn by_secret(&self, client_id: &str, secret: &str) -> Result<usize, RpcError> {
        let at = self.find(client_id)?;
        self.credentials[at]
            .secret
            .is(secret)
            .then_some(at)
            .ok_or_else(|| refused("unknown client id, or wrong secret or signature"))
    }

    fn by_signature(&mut self, params: &Params<'_>, from: Option<IpAddr>, wall_ms: u64) -> Result<usize, RpcError> {
        let at = self.find(&params.required("client_id")?)?;
        let timestamp = params.required("timestamp")?;
        let nonce = params.text("nonce")?.unwrap_or_default();
        let data = params.text("data")?.unwrap_or_default();
        check_skew(&timestamp, wall_ms)?;
        let signed = format!("{timestamp}\n{nonce}\n{data}");
        let signature = params.required("signature")?;
        verify(&self.credentials[at].secret, &signed, &signature)?;
        let digest = SpentSignatures::digest(&self.credentials[at].client_id, &signature);
        self.logins_signed.bind(digest, from, wall_ms)?;
        Ok(at)
    }

    /// Spends a refresh token.
    fn by_refresh(&mut self, token: &str, origin: Origin, wall_ms: u64) -> Result<Grantee, RpcError> {
        let found = self.tokens.find(token, Use::Refresh, wall_ms);
        let grantee = found.ok_or_else(|| RpcError::new("invalid_token", "unknown, used or expired refresh token"))?;
        check_address(grantee.address, origin.address)?;
        self.tokens.spend(token, wall_ms);
        Ok(grantee)
    }

    /// Returns the login of an access token.
    pub fn by_token(&self, token: &str, address: Option<IpAddr>, wall_ms: u64) -> Result<Login, RpcError> {
        let found = self.tokens.find(token, Use::Access, wall_ms);
        let grantee = found.ok_or_else(|| RpcError::new("invalid_token", "unknown or expired access token"))?;
        check_address(grantee.address, address)?;
        Ok(self.login(&grantee))
    }

    fn login(&self, grantee: &Grantee) -> Login {
        let account = self.credentials[grantee.credential].account;
        Login { account, access: grantee.access, signature: None }
    }

    /// Returns the login with the full access of a key.
    fn whole_login(&self, at: usize) -> Login {
        Login { account: self.credentials[at].account, access: self.credentials[at].access, signature: None }
    }

    /// Returns the login of an `Authorization` header: `deri-hmac-sha256`, `Bearer` or `Basic`.
    pub fn by_header(
        &self,
        header: Authorization<'_>,
        request: SignedRequest<'_>,
        address: Option<IpAddr>,
        wall_ms: u64,
    ) -> Result<Login, RpcError> {
        let (scheme, rest) = header.0.trim().split_once(' ').unwrap_or((header.0, ""));
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.by_token(rest.trim(), address, wall_ms);
        }
        if scheme.eq_ignore_ascii_case("basic") {
            let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (id, secret) = pair.ok_or_else(|| refused("Basic takes base64 of id:secret"))?;
            return self.by_secret(id, secret).map(|at| self.whole_login(at));
        }
        if scheme.eq_ignore_ascii_case("deri-hmac-sha256") {
            return self.by_signed_header(rest, request, wall_ms);
        }
        Err(refused("Authorization is deri-hmac-sha256, Bearer or Basic"))
    }

    fn by_signed_header(&self, fields: &str, request: SignedRequest<'_>, wall_ms: u64) -> Result<Login, RpcError> {
        let field = |wanted: &str| {
            let pairs = fields.split(',').filter_map(|pair| pair.trim().split_once('='));
            let found = pairs.into_iter().find(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim());
            found.ok_or_else(|| refused(&format!("the Authorization header lacks {wanted}")))
        };
        let at = self.find(field("id")?)?;
        let (timestamp, nonce) = (field("ts")?, field("nonce")?);
        check_skew(timestamp, wall_ms)?;
        let method = request.method.to_uppercase();
        let signed = format!("{timestamp}\n{nonce}\n{method}\n{}\n{}\n", request.uri, request.body);
        let signature = field("sig")?;
        verify(&self.credentials[at].secret, &signed, signature)?;
        let digest = SpentSignatures::digest(&self.credentials[at].client_id, signature);
        Ok(Login { signature: Some(digest), ..self.whole_login(at) })
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

fn verify(secret: &Secret, text: &str, given: &str) -> Result<(), RpcError> {
    let expected = signature(secret.key(), text);
    let same: bool = expected.as_bytes().ct_eq(given.to_ascii_lowercase().as_bytes()).into();
    if same && !expected.is_empty() { Ok(()) } else { Err(refused("unknown client id, or wrong secret or signature")) }
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

    fn keys() -> Keys {
        let secret = String::from("demo-secret").into();
        let credential = Credential {
            client_id: "a".into(),
            secret,
            account: AccountId(3),
            account_name: "a".into(),
            access: Access::MEMBER,
        };
        Keys::new(vec![credential], || [7; 32])
    }

    fn header(text: &str, wall_ms: u64) -> Result<AccountId, RpcError> {
        let uri = "/api/v2/private/get_position?instrument_name=BTC-PERPETUAL";
        keys()
            .by_header(Authorization(text), SignedRequest { method: "get", uri, body: "" }, None, wall_ms)
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
        assert_eq!(header("Basic YTpkZW1vLXNlY3JldA==", at), expected);
        for bad in ["Basic YTp4", "Basic !", "Bearer 00", "Digest x", "", "deri-hmac-sha256", "Basic"] {
            assert!(header(bad, at).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = String::from("hush").into();
        let credential = Credential {
            client_id: "a".into(),
            secret,
            account: AccountId(0),
            account_name: "a".into(),
            access: Access::MEMBER,
        };
        assert!(!format!("{credential:?} {:?}", vec![credential.clone()]).contains("hush"));
    }
}
