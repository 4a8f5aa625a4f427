//! One request, from any transport.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::codec::error::RpcError;
use crate::codec::params::Params;
use crate::codec::plain::{self, Plain};
use crate::codec::unique_names;

/// The id as the client wrote it, echoed byte for byte. Ids may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestId(pub(crate) Option<Box<str>>);

#[derive(Debug)]
pub struct Request<'a> {
    pub id: RequestId,
    /// `public/test`, `private/buy` and so on.
    pub method: Cow<'a, str>,
    pub params: Params<'a>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

const MAX_DEPTH: u32 = 16;

impl<'a> Request<'a> {
    /// Reads a JSON-RPC object. `path_method` is the method in the URL, used if the body has none.
    ///
    /// # Errors
    ///
    /// Returns the id, as far as it could be read, and the error.
    pub fn parse(text: &'a str, path_method: Option<&'a str>) -> Result<Request<'a>, (RequestId, RpcError)> {
        match plain::read(text) {
            Some(Plain { id, method: Some(method), params }) => {
                let id = RequestId(id.map(Into::into));
                Ok(Request { id, method: Cow::Borrowed(method), params: Params::from_plain(params) })
            }
            _ => Self::parse_any(text, path_method),
        }
    }

    /// Reads a JSON-RPC object of any form with the general reader.
    fn parse_any(text: &'a str, path_method: Option<&'a str>) -> Result<Request<'a>, (RequestId, RpcError)> {
        let nameless = |error| (RequestId::default(), error);
        check_depth(text).map_err(nameless)?;
        if !text.trim_start().starts_with('{') {
            let valid = serde_json::from_str::<&RawValue>(text).is_ok();
            let name = if valid { "invalid_request" } else { "parse_error" };
            return Err(nameless(RpcError::new(name, "expected one JSON-RPC object")));
        }
        let envelope: Envelope<'a> = serde_json::from_str(text).map_err(|error| {
            let name = if error.is_data() { "invalid_request" } else { "parse_error" };
            nameless(unique_names::check(text).err().unwrap_or_else(|| RpcError::new(name, error.to_string())))
        })?;
        let id = RequestId(envelope.id.map(|id| id.get().into()));
        if let Err(error) = unique_names::check(text) {
            return Err((id, error));
        }
        let method = match (envelope.method.map(|method| serde_json::from_str(method.get())), path_method) {
            (Some(Ok(method)), _) => Cow::Owned(method),
            (Some(Err(_)), _) => return Err((id, RpcError::new("invalid_request", "the method is not a text"))),
            (None, Some(method)) => Cow::Borrowed(method),
            (None, None) => return Err((id, RpcError::new("invalid_request", "the request names no method"))),
        };
        match Params::from_json(envelope.params) {
            Ok(params) => Ok(Request { id, method, params }),
            Err(error) => Err((id, error)),
        }
    }

    /// Reads `GET /api/v2/{method}?query`.
    ///
    /// # Errors
    ///
    /// Returns an error for a malformed query.
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
    use pitwire_random::SplitMix64;

    use super::*;

    fn outcome(text: &str) -> String {
        match Request::parse(text, None) {
            Ok(request) => format!("{} {:?}", request.method, request.id.0.as_deref().unwrap_or("-")),
            Err((id, error)) => format!("!{} {:?}", error.name, id.0.as_deref().unwrap_or("-")),
        }
    }

    /// Describes the outcome in words, to compare both readers.
    fn described(outcome: &Result<Request<'_>, (RequestId, RpcError)>) -> String {
        match outcome {
            Ok(request) => {
                let mut names = ["a", "b", "amount", "label", "price", "", "x y", "params", "id"].to_vec();
                names.sort_unstable();
                let read = |name: &&'static str| {
                    format!("{name}={:?}/{:?}", request.params.text(name), request.params.list(name))
                };
                let params: Vec<String> = names.iter().map(read).collect();
                format!("{} {:?} {}", request.method, request.id, params.join(" "))
            }
            Err((id, error)) => format!("!{} {id:?} {}", error.name, error.reason),
        }
    }

    #[test]
    fn the_quick_reader_and_the_general_one_never_differ() {
        const PIECES: &[&str] = &[
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\"id\"",
            "\"method\"",
            "\"params\"",
            "\"jsonrpc\"",
            "\"2.0\"",
            "\"a\"",
            "\"b\"",
            "\"amount\"",
            "\"label\"",
            "\"\"",
            "\"x y\"",
            "\"é\"",
            "\"\\n\"",
            "\"\u{1}\"",
            "1",
            "0",
            "-1",
            "-0",
            "00",
            "01",
            "1.5",
            "1.",
            ".5",
            "-",
            "1e3",
            "1E400",
            "0.001",
            "12345678901234567890123",
            "null",
            "true",
            "false",
            "nul",
            "truex",
            " ",
            "\n",
            "\t",
            "\u{c}",
            "\u{a0}",
            "\\",
            "{}",
            "[1]",
            "\"public/test\"",
        ];
        const SEEDS: &[&str] = &[
            r#"{"jsonrpc":"2.0","id":7,"method":"private/buy","params":{"amount":0.001,"label":"a","price":-5}}"#,
            r#" { "method" : "m" , "params" : { } , "id" : "x" } "#,
            r#"{"method":"m","params":null,"id":null}"#,
            r#"{"method":"m","params":{"a":null,"b":true,"a":1},"id":1}"#,
            r#"{"method":"m","params":{"a":1,"b":2,"a":3},"id":1}"#,
            r#"{"id":1,"method":"m","id":2}"#,
            r#"{"method":"m","x":{"y":[1,2]},"params":{"a":[1],"b":{"c":1}}}"#,
            r#"{"params":{"a":"1","label":"q\"q"},"method":"a\/b"}"#,
        ];
        let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
        let mut random = SplitMix64::new(seed);
        let mut below = |most: usize| random.index(most);
        let (mut quick, mut good) = (0, 0);
        for round in 0..60_000 {
            let mut text = SEEDS[below(SEEDS.len())].to_owned();
            for _ in 0..below(4) {
                let at: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                let (from, piece) = (below(at.len()), PIECES[below(PIECES.len())]);
                let to = (from + below(4)).min(at.len() - 1);
                text.replace_range(at[from]..at[to], piece);
            }
            let named = [None, Some("path/method")][below(2)];
            let (any, one) = (Request::parse_any(&text, named), Request::parse(&text, named));
            assert_eq!(described(&one), described(&any), "TEST_SEED={seed} round {round}: {text}");
            quick += usize::from(plain::read(&text).is_some());
            good += usize::from(any.is_ok());
        }
        // Both paths must be taken often, or this test shows nothing.
        assert!(quick > 4_000 && good > quick + 4_000, "{quick} quick of {good} good");
    }

    #[test]
    fn reads_what_real_clients_send() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"public/test","params":{}}"#, r#"public/test "1""#),
            (r#"{"method":"public/test","params":null,"id":"x"}"#, r#"public/test "\"x\"""#),
            (r#"{"method":"public/test"}"#, r#"public/test "-""#),
            (r#" {"method":"public\/test","id":1.50}"#, r#"public/test "1.50""#),
            (r#"{"method":"a","id":null}"#, r#"a "-""#),
            (r#"{"id":5,"method":"m","id":6}"#, r#"!invalid_request "-""#),
            (r#"{"id":5,"method":"m","params":{"a":1,"a":1}}"#, r#"!invalid_request "5""#),
            (r#"{"id":5,"method":"m","params":{"a":{"b":1,"b":2}}}"#, r#"!invalid_request "5""#),
            (r#"{"id":5,"method":"m","params":{"a":1,"a":1}}"#, r#"!invalid_request "5""#),
            (r#"{"jsonrpc":"2.0","id":5,"method":"m","jsonrpc":"2.0"}"#, r#"!invalid_request "5""#),
            (r#"{"id":5,"method":"m","x":1,"x":1}"#, r#"!invalid_request "5""#),
            ("{", r#"!parse_error "-""#),
            ("", r#"!parse_error "-""#),
            ("[]", r#"!invalid_request "-""#),
            ("7", r#"!invalid_request "-""#),
            (r#"{"method":7}"#, r#"!invalid_request "-""#),
            (r#"{"id":5}"#, r#"!invalid_request "5""#),
            (r#"{"id":5,"method":7}"#, r#"!invalid_request "5""#),
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
