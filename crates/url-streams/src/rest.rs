//! REST requests by which clients of the three dialects synchronise.
//!
//! Does        Maps a path and its query to a status and a body, from the venue's present state.
//! Leaves out  Trading and accounts: the JSON-RPC dialect has them.
//! Start at    [`Streams::rest`].

use crate::binance;
use crate::rest_request::{RestAnswer, RestRequest};
use crate::state::{Streams, VenueMoment};
use crate::unserved::unserved;
use crate::{bithumb_rest, gemini_rest};

impl Streams {
    /// Answers a GET request. A path that is not served is refused in the form of its exchange.
    /// Returns `None` if the path belongs to no exchange.
    pub fn rest(&self, path: &str, query: &str, here: VenueMoment<'_>) -> Option<RestAnswer> {
        let ask = RestRequest { streams: self, here, query };
        self.served(path.trim_end_matches('/'), ask).or_else(|| unserved("GET", path))
    }

    fn served(&self, path: &str, ask: RestRequest<'_>) -> Option<RestAnswer> {
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
