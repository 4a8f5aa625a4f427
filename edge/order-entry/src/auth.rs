//! Who is calling: credentials, signatures, tokens.
//!
//! Holds       secrets never appear in a Debug text, and every comparison of one takes the same time.

use std::{fmt, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use pitwire_jsonrpc::{Params, RpcError};
use pitwire_model::AccountId;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::tokens::{SessionNumber, Tokens, Use};

/// How long an access token lives; the dialect's habit.
pub const TOKEN_LIFE_S: u64 = 900;
const REFRESH_LIFE_S: u64 = 7 * 24 * 3600;
/// How far a signed request's clock may be from ours.
const SKEW_MS: u64 = 60_000;

/// One API key. The secret must be recoverable: it is the key of a signature.
#[derive(Clone)]
pub struct Credential {
    pub client_id: String,
    pub secret: String,
    pub account: AccountId,
    pub operator: bool,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}, secret withheld)", self.client_id)
    }
}

/// What an HTTP request says about itself, exactly as it stood on the wire.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    pub method: &'a str,
    /// Path and query, undecoded.
    pub uri: &'a str,
    pub body: &'a str,
}

/// An `Authorization` header, as received.
#[derive(Clone, Copy)]
pub struct Authorization<'a>(pub &'a str);

pub(crate) struct Keys {
    credentials: Vec<Credential>,
    pub tokens: Tokens,
    random: fn() -> [u8; 32],
}

#[derive(Debug)]
pub(crate) struct Grant {
    pub access: String,
    pub refresh: String,
    pub login: Login,
}

/// Who a request or session speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub account: AccountId,
    pub operator: bool,
}

fn refused(reason: &str) -> RpcError {
    RpcError::new("invalid_credentials", reason)
}

impl Keys {
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        Keys { credentials, tokens: Tokens::default(), random }
    }

    /// `public/auth`. `session` may take the tokens back later.
    pub fn grant(
        &mut self,
        params: &Params<'_>,
        session: Option<SessionNumber>,
        wall_ms: u64,
    ) -> Result<Grant, RpcError> {
        let grant_type = params.required("grant_type")?;
        let at = match grant_type.as_ref() {
            "client_credentials" => {
                let secret = params.text("client_secret")?;
                let secret = secret.ok_or_else(|| RpcError::invalid("client_secret", "client_secret is required"))?;
                self.by_secret(&params.required("client_id")?, &secret)?
            }
            "client_signature" => self.by_signature(params, wall_ms)?,
            "refresh_token" => self.by_refresh(&params.required("refresh_token")?, wall_ms)?,
            _ => {
                let known = "grant_type is client_credentials, client_signature or refresh_token";
                return Err(RpcError::invalid("grant_type", known));
            }
        };
        let mut issue = |of_use, life_s| {
            let text = hex(&(self.random)());
            self.tokens.issue(&text, (at, of_use), session, (wall_ms / 1000, life_s));
            text
        };
        let (access, refresh) = (issue(Use::Access, TOKEN_LIFE_S), issue(Use::Refresh, REFRESH_LIFE_S));
        Ok(Grant { access, refresh, login: self.login(at) })
    }

    /// Whether a client id is taken.
    pub fn knows(&self, client_id: &str) -> bool {
        self.credentials.iter().any(|credential| credential.client_id == client_id)
    }

    pub fn count_of(&self, account: AccountId) -> usize {
        self.credentials.iter().filter(|credential| credential.account == account).count()
    }

    /// Makes a member's credential with a secret of 256 random bits. It counts once `keep` has kept it with the others.
    pub fn add(
        &mut self,
        client_id: &str,
        account: AccountId,
        keep: impl FnOnce(&[Credential]) -> io::Result<()>,
    ) -> io::Result<String> {
        let secret = hex(&(self.random)());
        self.credentials.push(Credential {
            client_id: client_id.into(),
            secret: secret.clone(),
            account,
            operator: false,
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
        let same: bool = self.credentials[at].secret.as_bytes().ct_eq(secret.as_bytes()).into();
        same.then_some(at).ok_or_else(|| refused("unknown client id, or wrong secret or signature"))
    }

    fn by_signature(&self, params: &Params<'_>, wall_ms: u64) -> Result<usize, RpcError> {
        let at = self.find(&params.required("client_id")?)?;
        let timestamp = params.required("timestamp")?;
        let nonce = params.text("nonce")?.unwrap_or_default();
        let data = params.text("data")?.unwrap_or_default();
        check_skew(&timestamp, wall_ms)?;
        let signed = format!("{timestamp}\n{nonce}\n{data}");
        verify(&self.credentials[at].secret, &signed, &params.required("signature")?)?;
        Ok(at)
    }

    fn by_refresh(&mut self, token: &str, wall_ms: u64) -> Result<usize, RpcError> {
        let spent = self.tokens.spend(token, wall_ms / 1000);
        spent.ok_or_else(|| RpcError::new("invalid_token", "unknown, used or expired refresh token"))
    }

    /// The login behind an access token.
    pub fn by_token(&self, token: &str, wall_ms: u64) -> Result<Login, RpcError> {
        let found = self.tokens.find(token, Use::Access, wall_ms / 1000);
        let at = found.ok_or_else(|| RpcError::new("invalid_token", "unknown or expired access token"))?;
        Ok(self.login(at))
    }

    fn login(&self, at: usize) -> Login {
        Login { account: self.credentials[at].account, operator: self.credentials[at].operator }
    }

    /// The login behind an `Authorization` header: `deri-hmac-sha256`, `Bearer` or `Basic`.
    pub fn by_header(
        &self,
        header: Authorization<'_>,
        request: SignedRequest<'_>,
        wall_ms: u64,
    ) -> Result<Login, RpcError> {
        let (scheme, rest) = header.0.trim().split_once(' ').unwrap_or((header.0, ""));
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.by_token(rest.trim(), wall_ms);
        }
        if scheme.eq_ignore_ascii_case("basic") {
            let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (id, secret) = pair.ok_or_else(|| refused("Basic takes base64 of id:secret"))?;
            return self.by_secret(id, secret).map(|at| self.login(at));
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
        verify(&self.credentials[at].secret, &signed, field("sig")?)?;
        Ok(self.login(at))
    }
}

fn check_skew(timestamp: &str, wall_ms: u64) -> Result<(), RpcError> {
    let given: u64 = timestamp.parse().map_err(|_| refused("the timestamp is milliseconds since 1970"))?;
    if given.abs_diff(wall_ms) > SKEW_MS {
        return Err(refused("the timestamp is more than 60 s from the venue's clock"));
    }
    Ok(())
}

fn signature(secret: &str, text: &str) -> String {
    // HMAC takes keys of any length, so this cannot fail; an empty signature matches nothing.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(text.as_bytes());
    hex(&mac.finalize().into_bytes())
}

fn verify(secret: &str, text: &str, given: &str) -> Result<(), RpcError> {
    let expected = signature(secret, text);
    let same: bool = expected.as_bytes().ct_eq(given.to_ascii_lowercase().as_bytes()).into();
    if same && !expected.is_empty() { Ok(()) } else { Err(refused("unknown client id, or wrong secret or signature")) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the dialect, computed independently; the first is published by the vendor.
    #[test]
    fn signatures_agree_with_the_published_vectors() {
        let sign = |secret, ts: &str, nonce: &str, rest: &str| signature(secret, &format!("{ts}\n{nonce}\n{rest}"));
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
        let credential =
            Credential { client_id: "a".into(), secret: "demo-secret".into(), account: AccountId(3), operator: false };
        Keys::new(vec![credential], || [7; 32])
    }

    fn header(text: &str, wall_ms: u64) -> Result<Login, RpcError> {
        let uri = "/api/v2/private/get_position?instrument_name=BTC-PERPETUAL";
        keys().by_header(Authorization(text), SignedRequest { method: "get", uri, body: "" }, wall_ms)
    }

    #[test]
    fn headers_are_taken_in_any_order_and_within_a_minute() {
        let sig = "d09204923912a508950389b6f19929a250ecf0000224f09521226e41045a590a";
        let at = 1_700_000_000_000;
        let expected = Ok(Login { account: AccountId(3), operator: false });
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
        let credential =
            Credential { client_id: "a".into(), secret: "hush".into(), account: AccountId(0), operator: false };
        assert!(!format!("{credential:?}").contains("hush"));
    }
}
