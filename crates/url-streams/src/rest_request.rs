//! A REST request of a stream client, and its answer.

use crate::state::{Streams, VenueMoment};
use crate::url::parameter;

/// A status and a JSON body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl RestAnswer {
    pub(crate) fn ok(write: impl FnOnce(&mut Vec<u8>)) -> RestAnswer {
        let mut body = Vec::new();
        write(&mut body);
        RestAnswer { status: 200, body }
    }

    /// No endpoint has this path.
    pub(crate) fn not_served(body: String) -> RestAnswer {
        RestAnswer { status: 404, body: body.into_bytes() }
    }

    pub(crate) fn refused(body: String) -> RestAnswer {
        RestAnswer { status: 400, body: body.into_bytes() }
    }
}

/// A parsed request.
#[derive(Clone, Copy)]
pub(crate) struct RestRequest<'a> {
    pub streams: &'a Streams,
    pub here: VenueMoment<'a>,
    pub query: &'a str,
}

impl RestRequest<'_> {
    pub fn text(&self, name: &str) -> Option<String> {
        parameter(self.query, name).filter(|value| !value.is_empty())
    }

    /// Returns a parameter that is a whole number. Any other text counts as absent.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub fn limit(&self, default: usize, most: usize) -> usize {
        let asked = self.number("limit").and_then(|limit| usize::try_from(limit).ok());
        asked.filter(|limit| *limit > 0).unwrap_or(default).min(most)
    }
}
