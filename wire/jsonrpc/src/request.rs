//! One request, from whichever entrance.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::params::Params;

/// The id exactly as the client wrote it, to be echoed byte for byte. Ids repeat legally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestId(pub(crate) Option<Box<str>>);

#[derive(Debug)]
pub struct Request<'a> {
    pub id: RequestId,
    /// `public/test`, `private/buy`, …
    pub method: Cow<'a, str>,
    pub params: Params<'a>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

const MAX_DEPTH: u32 = 16;

impl<'a> Request<'a> {
    /// Reads a JSON-RPC object. `path_method` is what the URL named, used when the body names none.
    pub fn parse(text: &'a str, path_method: Option<&'a str>) -> Result<Request<'a>, (RequestId, RpcError)> {
        let nameless = |error| (RequestId::default(), error);
        check_depth(text).map_err(nameless)?;
        if !text.trim_start().starts_with('{') {
            let valid = serde_json::from_str::<&RawValue>(text).is_ok();
            let name = if valid { "invalid_request" } else { "parse_error" };
            return Err(nameless(RpcError::new(name, "expected one JSON-RPC object")));
        }
        let envelope: Envelope<'a> = serde_json::from_str(text).map_err(|error| {
            let name = if error.is_data() { "invalid_request" } else { "parse_error" };
            nameless(RpcError::new(name, error.to_string()))
        })?;
        let id = RequestId(envelope.id.map(|id| id.get().into()));
        let Some(method) = envelope.method.or(path_method.map(Cow::Borrowed)) else {
            return Err((id, RpcError::new("invalid_request", "the request names no method")));
        };
        match Params::from_json(envelope.params) {
            Ok(params) => Ok(Request { id, method, params }),
            Err(error) => Err((id, error)),
        }
    }

    /// Reads `GET /api/v2/{method}?query`.
    pub fn from_query(method: &'a str, query: &'a str) -> Result<Request<'a>, RpcError> {
        Ok(Request { id: RequestId::default(), method: Cow::Borrowed(method), params: Params::from_query(query)? })
    }
}

/// Refuses deep nesting before a parser walks it.
fn check_depth(text: &str) -> Result<(), RpcError> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(RpcError::new("parse_error", "nested deeper than 16 levels"));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> String {
        match Request::parse(text, None) {
            Ok(request) => format!("{} {:?}", request.method, request.id.0.as_deref().unwrap_or("-")),
            Err((id, error)) => format!("!{} {:?}", error.name, id.0.as_deref().unwrap_or("-")),
        }
    }

    #[test]
    fn reads_what_real_clients_send() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"public/test","params":{}}"#, r#"public/test "1""#),
            (r#"{"method":"public/test","params":null,"id":"x"}"#, r#"public/test "\"x\"""#),
            (r#"{"method":"public/test"}"#, r#"public/test "-""#),
            (r#" {"method":"public\/test","id":1.50}"#, r#"public/test "1.50""#),
            (r#"{"method":"a","id":null}"#, r#"a "-""#),
            ("{", r#"!parse_error "-""#),
            ("", r#"!parse_error "-""#),
            ("[]", r#"!invalid_request "-""#),
            ("7", r#"!invalid_request "-""#),
            (r#"{"method":7}"#, r#"!invalid_request "-""#),
            (r#"{"id":5}"#, r#"!invalid_request "5""#),
            (r#"{"id":5,"method":"m","params":[1]}"#, r#"!invalid_params "5""#),
            (r#"{"method":"m"} x"#, r#"!parse_error "-""#),
        ] {
            assert_eq!(outcome(text), expected, "{text}");
        }
        let deep = format!(r#"{{"method":"m","params":{}{}}}"#, r#"{"a":"#.repeat(20), "}".repeat(20));
        assert_eq!(outcome(&deep), r#"!parse_error "-""#);
        let brackets_in_text = format!(r#"{{"method":"m","params":{{"label":"{}"}}}}"#, "[".repeat(40));
        assert_eq!(outcome(&brackets_in_text), r#"m "-""#);
    }
}
