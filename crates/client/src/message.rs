//! Messages of JSON-RPC: calls, answers and notifications.

use std::borrow::Cow;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::VenueError;

#[derive(Serialize)]
struct OutgoingCall<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a RawValue,
}

/// A string of a received message. It borrows from the message unless it has escapes. Serde always
/// copies an `Option<Cow<str>>`.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A received message. Unknown fields are ignored.
#[derive(Deserialize)]
pub(crate) struct ServerMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    pub error: Option<VenueError>,
    #[serde(borrow)]
    pub method: Option<Text<'a>>,
    #[serde(borrow)]
    pub params: Option<ReceivedParams<'a>>,
    /// Time at which the venue sent the answer, in microseconds of its wall clock.
    #[serde(rename = "usOut")]
    pub sent_us: Option<i64>,
}

/// Parameters of a notification: a subscription update or a heartbeat.
#[derive(Deserialize)]
pub(crate) struct ReceivedParams<'a> {
    #[serde(borrow)]
    pub channel: Option<Text<'a>>,
    #[serde(borrow)]
    pub data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub r#type: Option<Text<'a>>,
}

impl ServerMessage<'_> {
    /// Returns the number of the call that this message answers.
    pub fn id(&self) -> Option<u64> {
        self.id.and_then(|id| id.get().parse().ok())
    }

    pub fn is_test_request(&self) -> bool {
        self.method.as_deref() == Some("heartbeat")
            && self.params.as_ref().is_some_and(|params| params.r#type.as_deref() == Some("test_request"))
    }
}

/// Writes a call as text.
pub(crate) fn call_text(id: u64, method: &str, params: &RawValue) -> Result<String, serde_json::Error> {
    serde_json::to_string(&OutgoingCall { jsonrpc: "2.0", id, method, params })
}

/// Converts parameters to text once, so that a call can be queued.
pub(crate) fn raw<P: Serialize + ?Sized>(params: &P) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::value::to_raw_value(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_copied_only_if_it_has_escapes() {
        let parse =
            |text: &'static str| serde_json::from_str::<ReceivedParams<'static>>(text).unwrap().channel.unwrap();
        let (plain, escaped) = (parse(r#"{"channel":"book.X.raw"}"#), parse(r#"{"channel":"book.\u0058.raw"}"#));
        assert!(matches!(plain.0, Cow::Borrowed("book.X.raw")));
        assert!(matches!(escaped.0, Cow::Owned(_)) && &*escaped == "book.X.raw");
    }
}
