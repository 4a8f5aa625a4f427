//! The session of one client at the edge: its login and its refusals.
//!
//! Holds       a token is never shown in a log, and is used for the requests of its client only.
//! Start at    [`Session`].

use std::net::IpAddr;
use std::time::{Duration, Instant};

use pitwire_net::ConnectionId;
use serde::Deserialize;

use crate::members::{MemberId, MemberName};
use crate::request::{Refusal, Request};
use crate::throttle::Throttle;

/// Error code of the dialect for a request that came too soon.
const TOO_MANY_REQUESTS: i32 = 10028;

/// A client of the gateway.
#[derive(Debug)]
pub(crate) struct Session {
    /// IP address of the client. The throttle counts requests without a client id by it.
    address: String,
    /// Its requests share a connection to the venue with those of this member.
    pub member: MemberId,
    pub login: Option<GrantedLogin>,
    /// The connection to the venue for the channels of this client.
    pub feed: Option<ConnectionId>,
    /// Requests at the venue.
    pub in_flight: usize,
}

/// A login that the venue has granted.
#[derive(Debug)]
pub(crate) struct GrantedLogin {
    /// `None` if the client logged in with a refresh token of another connection.
    pub client_id: Option<String>,
    pub grant: Grant,
    /// Number of the request that has opened it. An answer for an earlier login is ignored.
    pub number: u64,
    /// When its tokens are renewed.
    pub renewal_ns: u64,
}

#[derive(Deserialize)]
struct AuthAnswer {
    result: Option<Grant>,
    error: Option<AuthError>,
}

#[derive(Deserialize)]
struct AuthError {
    code: i32,
}

/// The venue's answer to a login.
#[derive(Debug)]
pub(crate) enum LoginAnswer {
    Granted(Grant),
    /// The venue gets more logins than its rate allows.
    TooFast,
    Refused,
}

/// The tokens of a login.
#[derive(Deserialize)]
pub(crate) struct Grant {
    pub access_token: String,
    pub refresh_token: String,
    /// Seconds.
    expires_in: u64,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grant").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

impl LoginAnswer {
    /// Reads the answer to a login.
    pub fn parse(answer: &str) -> LoginAnswer {
        match serde_json::from_str(answer) {
            Ok(AuthAnswer { result: Some(grant), .. }) => LoginAnswer::Granted(grant),
            Ok(AuthAnswer { error: Some(AuthError { code: TOO_MANY_REQUESTS }), .. }) => LoginAnswer::TooFast,
            _ => LoginAnswer::Refused,
        }
    }
}

impl Grant {
    /// Returns after how many nanoseconds the tokens are renewed: 70 % of their life.
    pub fn renewed_after_ns(&self) -> u64 {
        self.expires_in.saturating_mul(700_000_000)
    }
}

impl Session {
    /// Makes the session of a new client at an address, which is a client of `member`.
    pub fn new(address: String, member: MemberId) -> Self {
        Session { address, member, login: None, feed: None, in_flight: 0 }
    }

    /// Returns the token for the requests of this client, after a login.
    pub fn token(&self) -> Option<&str> {
        self.login.as_ref().map(|login| login.grant.access_token.as_str())
    }

    /// Counts a request against the rate of the client.
    ///
    /// # Errors
    /// The refusal, if the client sends too fast.
    pub fn admit(&self, throttle: &mut Throttle) -> Result<(), Refusal> {
        let client_id = self.login.as_ref().and_then(|login| login.client_id.as_ref());
        let payer = client_id.unwrap_or(&self.address);
        throttle.take(payer, Instant::now()).map_err(|wait| too_many_requests(payer, wait))
    }

    /// Returns the client id of a login, and whether it continues the present login.
    pub fn named_in(&self, login: &Request<'_>) -> (Option<String>, bool) {
        // As at the venue, a refresh needs no client id, and a wrong one has no effect. It
        // continues the login, so the channels stay.
        let continues = login.text("grant_type").as_deref() == Some("refresh_token");
        let named = login.text("client_id").filter(|_| !continues);
        let known = || self.login.as_ref().and_then(|login| login.client_id.clone());
        (named.or_else(known), continues)
    }
}

impl GrantedLogin {
    /// Returns the member that its client belongs to.
    pub fn member_name(&self, client: ConnectionId) -> MemberName {
        self.client_id.clone().map_or(MemberName::Client(client), MemberName::ClientId)
    }
}

/// Returns the name of a client's address.
pub(crate) fn address_name(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "an unknown address".into(), |address| address.to_string())
}

fn too_many_requests(payer: &str, wait: Duration) -> Refusal {
    slow_down(format!("{payer} sends faster than this gateway allows"), wait)
}

pub(crate) fn too_many_logins(wait: Duration) -> Refusal {
    slow_down("the venue gets too many logins through this gateway".into(), wait)
}

fn slow_down(reason: String, wait: Duration) -> Refusal {
    let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    Refusal {
        code: TOO_MANY_REQUESTS,
        message: "too_many_requests",
        reason,
        remedy: "Slow down; data.retry_after_ms says for how long.",
        retry_after_ms: Some(retry_after_ms),
    }
}

pub(crate) fn not_logged_in() -> Refusal {
    Refusal {
        code: 13009,
        message: "unauthorized",
        reason: "this connection is not logged in".into(),
        remedy: "Call public/auth first.",
        retry_after_ms: None,
    }
}

pub(crate) fn no_cancel_on_disconnect() -> Refusal {
    Refusal {
        code: -32601,
        message: "Method not found",
        reason:
            "an order gateway does not cancel on disconnect: clients of one client id enter orders over one connection"
                .into(),
        remedy: "Connect to the venue itself, or give the orders a valid_until or a time in force that ends.",
        retry_after_ms: None,
    }
}
