//! Errors of a call, each with a remedy.

use std::fmt;

use serde::Deserialize;
use serde_json::Number;

use crate::CredentialError;

/// A refusal by the venue, with its code and message unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VenueError {
    pub code: i64,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub data: Box<Details>,
}

/// Optional details of a refusal. The dialect allows each field to be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Details {
    pub reason: Option<String>,
    pub param: Option<String>,
    pub remedy: Option<String>,
    /// Limit that the call violated. Some remedies refer to it and to `retry_after_ms`.
    pub limit: Option<Number>,
    pub retry_after_ms: Option<u64>,
}

#[derive(Debug)]
pub enum Error {
    /// The URL is not a WebSocket URL.
    Url {
        url: String,
        what: &'static str,
    },
    Unreachable {
        address: String,
        cause: String,
    },
    /// TLS failed, or the server's certificate is not trusted.
    Tls {
        address: String,
        cause: String,
    },
    /// The server answered, but it does not serve a WebSocket at this path.
    Handshake {
        url: String,
        cause: String,
    },
    /// The connection ended or the time limit passed before the answer to a sent call.
    Unanswered {
        method: String,
        cause: String,
    },
    /// The call was not sent, so it had no effect.
    NotSent {
        method: String,
        cause: String,
    },
    /// The socket failed.
    Lost {
        cause: String,
    },
    /// This connection has a subscription of the channel already.
    AlreadySubscribed {
        channel: String,
    },
    NoChannel {
        channel: String,
    },
    /// A [`Trader`](crate::Trader) has an order with this label already.
    LabelInUse {
        label: String,
    },
    Venue(VenueError),
    Login(CredentialError),
    /// The answer does not follow the dialect.
    Garbled {
        what: String,
    },
}

impl Error {
    pub fn remedy(&self) -> String {
        match self {
            Error::Url { .. } => "write ws://HOST:PORT/ws/api/v2, or wss:// for TLS".into(),
            Error::Unreachable { .. } => "start the venue (pitwire up), or give the URL of another one".into(),
            Error::Tls { .. } => "give the venue's own authority with --ca FILE".into(),
            Error::Handshake { .. } => "check the path of the URL; the dialect's is /ws/api/v2".into(),
            Error::Unanswered { method, .. } if changes_something(method) => {
                "it may have been done all the same: look with `pitwire trade orders` before sending it again".into()
            }
            Error::Unanswered { .. } | Error::NotSent { .. } | Error::Lost { .. } => "try again".into(),
            Error::AlreadySubscribed { .. } => "use the subscription that exists, or another connection".into(),
            Error::NoChannel { .. } => "check its name".into(),
            Error::LabelInUse { .. } => "give each order another label".into(),
            Error::Venue(refusal) => refusal.data.remedy.clone().unwrap_or_default(),
            Error::Login(error) => error.remedy(),
            Error::Garbled { .. } => "give the URL of a venue of the JSON-RPC dialect".into(),
        }
    }
}

impl Error {
    /// Returns whether the call certainly had no effect at the venue.
    pub fn had_no_effect(&self) -> bool {
        !matches!(self, Error::Unanswered { .. } | Error::Garbled { .. } | Error::Lost { .. })
    }

    /// Returns whether another attempt to connect would fail in the same way.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Error::Url { .. } | Error::Login(_) => true,
            // Wrong credentials, or a token or account that is refused.
            Error::Venue(refusal) => matches!(refusal.code, 13004 | 13009 | 11042),
            _ => false,
        }
    }
}

fn changes_something(method: &str) -> bool {
    let name = method.strip_prefix("private/").unwrap_or_default();
    ["buy", "sell", "edit", "cancel", "close"].iter().any(|verb| name.starts_with(verb))
}

impl fmt::Display for VenueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the venue refused: {} {}", self.code, self.message)?;
        if let Some(reason) = &self.data.reason {
            write!(f, ": {reason}")?;
        }
        let Details { param, limit, retry_after_ms, .. } = &*self.data;
        if let Some(param) = param {
            write!(f, " [{param}]")?;
        }
        if let Some(limit) = limit {
            write!(f, ", data.limit: {limit}")?;
        }
        match retry_after_ms {
            Some(wait_ms) => write!(f, ", data.retry_after_ms: {wait_ms}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Url { url, what } => write!(f, "{url:?} is not a WebSocket's address: {what}"),
            Error::Unreachable { address, cause } => write!(f, "cannot reach {address}: {cause}"),
            Error::Tls { address, cause } => write!(f, "no trusted connection to {address}: {cause}"),
            Error::Handshake { url, cause } => write!(f, "{url} does not open a WebSocket: {cause}"),
            Error::Unanswered { method, cause } => write!(f, "no answer to {method}: {cause}"),
            Error::NotSent { method, cause } => write!(f, "{method} was not sent: {cause}"),
            Error::Lost { cause } => f.write_str(cause),
            Error::AlreadySubscribed { channel } => write!(f, "this connection has subscribed to {channel} already"),
            Error::NoChannel { channel } => write!(f, "the venue has no channel {channel}"),
            Error::LabelInUse { label } => write!(f, "the label {label:?} belongs to another order"),
            Error::Venue(refusal) => refusal.fmt(f),
            Error::Login(error) => error.fmt(f),
            Error::Garbled { what } => write!(f, "the answer is not of the dialect: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<CredentialError> for Error {
    fn from(error: CredentialError) -> Self {
        Error::Login(error)
    }
}

impl From<Error> for pitwire_failure::Failure {
    fn from(error: Error) -> Self {
        let failure = match &error {
            Error::Url { .. } => pitwire_failure::Failure::usage(error.to_string()),
            _ => pitwire_failure::Failure::new(error.to_string()),
        };
        match error.remedy() {
            remedy if remedy.is_empty() => failure,
            remedy => failure.remedy(remedy),
        }
    }
}
