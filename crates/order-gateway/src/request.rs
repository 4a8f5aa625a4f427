//! Requests of clients, as texts: read at the edge, and forwarded with another id and a token.
//!
//! Holds       1. parameters keep their bytes, so that no digit of a price is lost;
//!             2. a client cannot write the token of another one into its request, because the
//!                venue refuses a name that occurs twice.
//! Start at    [`Request::parse`], [`Request::forwarded`] and [`VenueAnswer::parse`].

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A call of the JSON-RPC dialect.
#[derive(Debug, Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

/// Begin of every answer of a Pitwire venue. The id follows.
const ANSWER_BEGIN: &str = r#"{"jsonrpc":"2.0","id":"#;

/// An answer of the venue to a request that the gateway has numbered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VenueAnswer<'a> {
    pub number: u64,
    /// The text before and behind the number.
    before: &'a str,
    behind: &'a str,
}

#[derive(Deserialize)]
struct AnswerId<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Which connection to the venue a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The edge answers.
    Login,
    Logout,
    Refused,
    /// The connection of this client alone, which carries its notices.
    Feed,
    /// The connection of the client's member.
    Member,
}

/// A refusal by the gateway, in the form of the dialect.
pub(crate) struct Refusal {
    pub code: i32,
    pub message: &'static str,
    pub reason: String,
    pub remedy: &'static str,
    pub retry_after_ms: Option<u64>,
}

impl<'a> Request<'a> {
    /// Reads one JSON-RPC request.
    ///
    /// # Errors
    /// Refuses malformed JSON, a missing field, and `params` that are not an object. The refusal
    /// names the fault.
    pub fn parse(text: &'a str) -> Result<Self, Refusal> {
        let malformed = |reason: String| Refusal {
            code: -32600,
            message: "request entity is not valid",
            reason,
            remedy: "Send one object with id, method and params.",
            retry_after_ms: None,
        };
        let request: Request<'a> = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        match request.params {
            Some(params) if !params.get().starts_with('{') => Err(malformed("params is not an object".into())),
            _ => Ok(request),
        }
    }

    pub fn is_private(&self) -> bool {
        self.method.starts_with("private/")
    }

    pub fn route(&self) -> Route {
        match &*self.method {
            "public/auth" => Route::Login,
            "private/logout" => Route::Logout,
            // The orders of several clients enter over one connection, so its end says nothing
            // about one.
            "private/enable_cancel_on_disconnect" | "private/disable_cancel_on_disconnect" => Route::Refused,
            "public/set_heartbeat" | "public/disable_heartbeat" | "public/test" => Route::Feed,
            method if method.contains("subscribe") => Route::Feed,
            _ => Route::Member,
        }
    }

    /// Writes the request for the venue.
    pub fn forwarded(&self, id: &str, token: Option<&str>) -> String {
        let params = self.params.map_or("{}", RawValue::get);
        let method = Value::from(&*self.method);
        let inside = params[1..].trim_start();
        match token {
            Some(token) => {
                let comma = if inside.starts_with('}') { "" } else { "," };
                let token = Value::from(token);
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{{\"access_token\":{token}{comma}{inside}}}"
                )
            }
            None => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}"),
        }
    }

    /// Returns a text parameter.
    pub fn text(&self, name: &str) -> Option<String> {
        let params: Value = serde_json::from_str(self.params?.get()).ok()?;
        params.get(name)?.as_str().map(str::to_owned)
    }
}

impl Refusal {
    /// Writes the answer to a request.
    pub fn answer(&self, id: Option<&RawValue>) -> String {
        let mut data = json!({"reason": self.reason, "remedy": self.remedy});
        if let Some(retry_after_ms) = self.retry_after_ms {
            data["retry_after_ms"] = retry_after_ms.into();
        }
        let error = json!({"code": self.code, "message": self.message, "data": data});
        match id {
            Some(id) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"),
            None => format!("{{\"jsonrpc\":\"2.0\",\"error\":{error}}}"),
        }
    }
}

impl<'a> VenueAnswer<'a> {
    /// Finds the number in an answer. Returns `None` for any other message of the venue.
    ///
    /// An answer may have many megabytes. If it begins as those of Pitwire do, only the begin is
    /// read.
    pub fn parse(text: &'a str) -> Option<Self> {
        let at = if let Some(rest) = text.strip_prefix(ANSWER_BEGIN) {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            ANSWER_BEGIN.len()..ANSWER_BEGIN.len() + digits
        } else {
            let answer: AnswerId<'_> = serde_json::from_str(text).ok()?;
            let id = answer.id?.get();
            // The id is a part of the text.
            let start = (id.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            start..start + id.len()
        };
        let number = text.get(at.clone())?.parse().ok()?;
        Some(VenueAnswer { number, before: text.get(..at.start)?, behind: text.get(at.end..)? })
    }

    /// Returns the answer with the client's own id, or with `null` if the client gave none.
    pub fn with_id(&self, id: Option<&RawValue>) -> String {
        [self.before, id.map_or("null", RawValue::get), self.behind].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_request_keeps_its_parameters_and_gets_the_token() {
        for (params, token, expected) in [
            (r#","params":{"price":1.10}"#, Some("t"), r#"{"access_token":"t","price":1.10}"#),
            (r#","params":{ }"#, Some("t"), r#"{"access_token":"t"}"#),
            ("", Some("t"), r#"{"access_token":"t"}"#),
            (r#","params":{"a":[{}]}"#, None, r#"{"a":[{}]}"#),
            ("", None, "{}"),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"x","method":"private/buy"{params}}}"#);
            let forwarded = Request::parse(&text).ok().unwrap().forwarded("7", token);
            assert_eq!(forwarded, format!(r#"{{"jsonrpc":"2.0","id":7,"method":"private/buy","params":{expected}}}"#));
            serde_json::from_str::<Value>(&forwarded).unwrap();
        }
    }

    #[test]
    fn answer_gets_the_id_of_its_client_and_nothing_else_changes() {
        let id = RawValue::from_string(r#""a b""#.into()).unwrap();
        // The second one does not begin as the answers of Pitwire do.
        for (before, behind) in [
            (r#"{"jsonrpc":"2.0","id":"#, r#","result":{"id":17,"price":1.10},"usIn":1}"#),
            (r#"{"usIn":1,"result":{"id":17,"price":1.10},"id":"#, r#","jsonrpc":"2.0"}"#),
        ] {
            let text = format!("{before}17{behind}");
            let answer = VenueAnswer::parse(&text).unwrap();
            assert_eq!(answer, VenueAnswer { number: 17, before, behind });
            assert_eq!(answer.with_id(Some(&id)), format!(r#"{before}"a b"{behind}"#));
            assert_eq!(answer.with_id(None), format!("{before}null{behind}"));
        }
    }

    #[test]
    fn message_without_a_number_is_no_answer() {
        for text in [
            r#"{"method":"subscription","params":{"id":3}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":"3","result":1}"#,
            r#"{"jsonrpc":"2.0","method":"heartbeat"}"#,
        ] {
            assert_eq!(VenueAnswer::parse(text), None, "{text}");
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        for text in
            ["", "[]", "{}", "7", r#"{"method":7}"#, r#"{"method":"a","params":[1]}"#, r#"{"method":"a","method":"b"}"#]
        {
            assert!(Request::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn methods_take_their_route() {
        for (method, route) in [
            ("private/buy", Route::Member),
            ("private/cancel_all", Route::Member),
            ("public/get_order_book", Route::Member),
            ("private/subscribe", Route::Feed),
            ("public/unsubscribe_all", Route::Feed),
            ("public/set_heartbeat", Route::Feed),
            ("public/auth", Route::Login),
            ("private/logout", Route::Logout),
            ("private/enable_cancel_on_disconnect", Route::Refused),
            ("private/get_cancel_on_disconnect", Route::Member),
        ] {
            let text = format!(r#"{{"id":1,"method":"{method}"}}"#);
            assert_eq!(Request::parse(&text).ok().unwrap().route(), route, "{method}");
        }
    }
}
