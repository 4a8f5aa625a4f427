//! REST requests by which clients of the three dialects synchronise.
//!
//! Does        Maps a path and its query to a status and a body, from the venue's present state.
//! Leaves out  Trading and accounts: the JSON-RPC dialect has them.
//! Start at    [`Streams::rest`].

use crate::binance;
use crate::rest_request::{RestAnswer, RestRequest};
use crate::state::{Here, Streams};
use crate::{bithumb_rest, gemini_rest};

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
    /// Answers a request. Returns `None` if the path does not exist.
    pub fn rest(&self, path: &str, query: &str, here: Here<'_>) -> Option<RestAnswer> {
        let ask = RestRequest { streams: self, here, query };
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
