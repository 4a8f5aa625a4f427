//! REST requests that clients of the three forms synchronise by.
//!
//! Does        a path and its query in, a status and a body out; all from the venue as it stands.
//! Leaves out  trading and accounts: that is the JSON-RPC dialect's.
//! Start at    [`Streams::rest`].

use crate::binance;
use crate::feed::{Here, Streams};
use crate::url::parameter;
use crate::{bithumb_rest, gemini_rest};

/// A status and a JSON body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn ok(write: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let mut body = Vec::new();
        write(&mut body);
        Answer { status: 200, body }
    }

    pub(crate) fn refused(body: String) -> Answer {
        Answer { status: 400, body: body.into_bytes() }
    }
}

/// A request as the answers want it.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub streams: &'a Streams,
    pub here: Here<'a>,
    pub query: &'a str,
}

impl Ask<'_> {
    pub fn text(&self, name: &str) -> Option<String> {
        parameter(self.query, name).filter(|value| !value.is_empty())
    }

    /// A whole number; what is none is as good as not there.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub fn limit(&self, default: usize, most: usize) -> usize {
        let asked = self.number("limit").and_then(|limit| usize::try_from(limit).ok());
        asked.filter(|limit| *limit > 0).unwrap_or(default).min(most)
    }
}

/// Whether a path may be one of these.
pub fn is_rest_path(path: &str) -> bool {
    const ROOTS: [&str; 8] = [
        "/api/v3/",
        "/api/v1/",
        "/sapi/v1/",
        "/openapi/v1/",
        "/v1/symbols",
        "/v1/book/",
        "/v1/trades/",
        "/v1/pubticker/",
    ];
    ROOTS.iter().any(|root| path.starts_with(root))
        || path.starts_with("/v2/ticker/")
        || path.starts_with("/v2/candles/")
}

impl Streams {
    /// `None` when there is nothing under this path.
    pub fn rest(&self, path: &str, query: &str, here: Here<'_>) -> Option<Answer> {
        let ask = Ask { streams: self, here, query };
        let path = path.trim_end_matches('/');
        if let Some(rest) = path.strip_prefix("/api/v3/").or_else(|| path.strip_prefix("/api/v1/")) {
            return binance::rest::answer(rest, ask);
        }
        if path.starts_with("/sapi/v1/") {
            return binance::rest::wallet(path);
        }
        if let Some(rest) = path.strip_prefix("/openapi/v1/") {
            return bithumb_rest::answer(rest, ask);
        }
        gemini_rest::answer(path, ask)
    }
}
