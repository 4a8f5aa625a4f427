//! Named parameters of a request, from JSON or from a query string.
//!
//! Holds       numbers and booleans may be strings, unknown names are ignored, null means absent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use pitwire_model::Decimal;
use serde_json::value::RawValue;

use crate::codec::error::RpcError;
use crate::codec::unique_names;

#[derive(Debug, Default)]
pub struct Params<'a> {
    /// Few enough that a scan is faster than a map.
    fields: Vec<(Cow<'a, str>, Value<'a>)>,
    /// One bit per name, see [`mark`]. A method looks up thirty names of an order that has five;
    /// most look-ups end at this mask.
    marks: u64,
}

/// Most values in a query. The search for repeated names costs their number squared.
const MOST_QUERY_FIELDS: usize = 1_000;

/// One bit of 64, by a name's length and its first and last byte.
#[inline]
fn mark(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let ends =
        bytes.first().map_or(0, |first| usize::from(*first)) + 5 * bytes.last().map_or(0, |last| usize::from(*last));
    1 << ((ends + 11 * bytes.len()) % 64)
}

#[derive(Debug)]
enum Value<'a> {
    /// JSON text, never null.
    Json(&'a str),
    /// Plain text from a query string.
    Text(Cow<'a, str>),
}

impl<'a> Params<'a> {
    pub(crate) fn from_json(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Params::default()) };
        let map: BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(raw.get())
            .map_err(|_| RpcError::new("invalid_params", "params must be an object of named values"))?;
        let fields = map.into_iter().filter(|(_, value)| value.get() != "null");
        Ok(Params::of(fields.map(|(name, value)| (name, Value::Json(value.get()))).collect()))
    }

    /// Takes names and JSON texts. The names differ and no text is null.
    pub(crate) fn from_plain(fields: Vec<(&'a str, &'a str)>) -> Self {
        let fields = fields.into_iter().map(|(name, json)| (Cow::Borrowed(name), Value::Json(json)));
        Params::of(fields.collect())
    }

    pub(crate) fn from_query(query: &'a str) -> Result<Self, RpcError> {
        let mut fields = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded =
                |text| percent_decode(text).ok_or_else(|| RpcError::new("invalid_params", "bad percent-encoding"));
            let name = decoded(name)?;
            // `name[]` occurs once for each element of a list, and not besides `name`.
            let listed = name.strip_suffix("[]");
            let repeats = |(other, _): &(Cow<'_, str>, _)| match listed {
                Some(list) => other == list,
                None => *other == name || other.strip_suffix("[]") == Some(name.as_ref()),
            };
            if fields.iter().any(repeats) {
                return Err(unique_names::twice(&name));
            }
            if fields.len() >= MOST_QUERY_FIELDS {
                let reason = format!("a query has at most {MOST_QUERY_FIELDS} values; send more in the body of a POST");
                return Err(RpcError::new("invalid_params", reason));
            }
            let value = Value::Text(decoded(value)?);
            fields.push((name, value));
        }
        Ok(Params::of(fields))
    }

    fn of(fields: Vec<(Cow<'a, str>, Value<'a>)>) -> Self {
        let marks = fields.iter().fold(0, |marks, (name, _)| marks | mark(name));
        Params { fields, marks }
    }

    #[inline]
    fn get(&self, name: &str) -> Option<&Value<'a>> {
        if self.marks & mark(name) == 0 {
            return None;
        }
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a parameter is in the query of a URL.
    pub(crate) fn is_in_query(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Text(_)))
    }

    /// Returns the value as plain text: a JSON string without quotes, a number or boolean as
    /// written.
    ///
    /// # Errors
    /// A refusal if it is an object or an array, or a string with a wrong escape.
    pub fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, RpcError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(Cow::Borrowed(text))),
            // Without escapes, which is nearly always, the text stands between the quotes.
            Some(Value::Json(json)) if json.starts_with('"') && !json.contains('\\') => {
                Ok(Some(Cow::Borrowed(&json[1..json.len() - 1])))
            }
            Some(Value::Json(json)) if json.starts_with('"') => serde_json::from_str::<Cow<'_, str>>(json)
                .map(Some)
                .map_err(|error| RpcError::invalid(name, error.to_string())),
            Some(Value::Json(json)) if json.starts_with(['{', '[']) => {
                Err(RpcError::invalid(name, "expected a single value"))
            }
            Some(Value::Json(json)) => Ok(Some(Cow::Borrowed(json))),
        }
    }

    /// Returns the value as text.
    ///
    /// # Errors
    /// A refusal if it is missing, empty or not a single value.
    pub fn required(&self, name: &'static str) -> Result<Cow<'_, str>, RpcError> {
        self.text(name)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| RpcError::invalid(name, format!("{name} is required")))
    }

    /// Returns the value as an exact decimal.
    ///
    /// # Errors
    /// A refusal if it is not a decimal, or has more digits than [`Decimal`] holds.
    pub fn decimal(&self, name: &'static str) -> Result<Option<Decimal>, RpcError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match Decimal::parse(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(RpcError::invalid(name, format!("{:?} {error}", clip(&text)))),
        }
    }

    /// Returns a whole number. `10.0` counts as one.
    ///
    /// # Errors
    /// A refusal if it has a fraction or exceeds 64 bits.
    pub fn integer(&self, name: &'static str) -> Result<Option<i64>, RpcError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let value = Decimal::parse(&text).ok().and_then(|value| value.in_steps_of(Decimal::new(1, 0)));
        let whole = value.and_then(|value| i64::try_from(value).ok());
        whole.map(Some).ok_or_else(|| RpcError::invalid(name, format!("{:?} is not a whole number", clip(&text))))
    }

    /// Returns a boolean: `true`, `false`, `1` or `0`, also as text.
    ///
    /// # Errors
    /// A refusal if it is another value.
    pub fn boolean(&self, name: &'static str) -> Result<Option<bool>, RpcError> {
        match self.text(name)?.as_deref() {
            None | Some("") => Ok(None),
            Some("true" | "True" | "1") => Ok(Some(true)),
            Some("false" | "False" | "0") => Ok(Some(false)),
            Some(_) => Err(RpcError::invalid(name, "expected true or false")),
        }
    }

    /// Returns a list of strings: from a JSON array, one string, repeated `name[]=`, or JSON text
    /// in a query.
    ///
    /// # Errors
    /// A refusal if it is not a list of strings.
    pub fn list(&self, name: &'static str) -> Result<Option<Vec<String>>, RpcError> {
        let bracketed = format!("{name}[]");
        let mut found = None::<Vec<String>>;
        for (_, value) in self.fields.iter().filter(|(key, _)| *key == name || *key == bracketed) {
            let items = match value {
                Value::Json(text) | Value::Text(Cow::Borrowed(text)) => parse_list(text),
                Value::Text(Cow::Owned(text)) => parse_list(text),
            };
            let items = items.ok_or_else(|| RpcError::invalid(name, "expected a list of strings"))?;
            found.get_or_insert_default().extend(items);
        }
        Ok(found)
    }

    /// Returns texts by name, from a JSON object or the same as text in a query. Null is a name
    /// without a text.
    ///
    /// # Errors
    /// A refusal if it is not an object of texts and nulls, or if a name occurs twice.
    pub fn texts(&self, name: &'static str) -> Result<Option<BTreeMap<String, Option<String>>>, RpcError> {
        let json = match self.get(name) {
            None => return Ok(None),
            Some(Value::Json(json)) => json,
            Some(Value::Text(text)) => text.as_ref(),
        };
        unique_names::check(json)?;
        let texts = serde_json::from_str(json);
        texts.map(Some).map_err(|_| RpcError::invalid(name, "expected an object of texts, or of null"))
    }
}

fn parse_list(text: &str) -> Option<Vec<String>> {
    if text.starts_with('[') {
        serde_json::from_str(text).ok()
    } else if text.starts_with('"') {
        serde_json::from_str(text).ok().map(|one| vec![one])
    } else if text.starts_with('{') {
        None
    } else {
        Some(vec![text.to_owned()])
    }
}

fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Decodes percent escapes. `None` for a broken escape or for bytes that are not UTF-8.
fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    // The library keeps a broken escape as it is.
    let is_whole = |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_whole) {
        return None;
    }
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(|decoded| Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Request;

    #[test]
    fn the_same_values_come_out_of_json_and_of_a_query() {
        let json = r#"{"method":"m","params":{"amount":"10.0","post_only":"True","n":5,"big":1e400,
            "channels":["a","b"],"nothing":null,"label":"a b&c"}}"#;
        let query = "amount=10.0&post_only=True&n=5&big=1e400&channels[]=a&channels%5B%5D=b&label=a+b%26c";
        for request in [Request::parse(json, None).unwrap(), Request::from_query("m", query).unwrap()] {
            let params = &request.params;
            assert_eq!(params.decimal("amount").unwrap(), Some(Decimal::new(10, 0)));
            assert_eq!(params.integer("amount").unwrap(), Some(10));
            assert_eq!(params.boolean("post_only").unwrap(), Some(true));
            assert_eq!(params.integer("n").unwrap(), Some(5));
            assert_eq!(params.list("channels").unwrap(), Some(vec!["a".into(), "b".into()]));
            assert_eq!(params.text("label").unwrap().as_deref(), Some("a b&c"));
            assert_eq!(params.text("nothing").unwrap(), None);
            assert_eq!(params.decimal("big").unwrap_err().param, Some("big"));
            assert_eq!(params.boolean("n").unwrap_err().name, "invalid_params");
        }
    }

    #[test]
    fn texts_come_by_name_or_not_at_all() {
        let texts = |json: &str| {
            let text = format!(r#"{{"method":"m","params":{{"t":{json}}}}}"#);
            Request::parse(&text, None).unwrap().params.texts("t").map_err(|error| error.param)
        };
        let expected = BTreeMap::from([("a".into(), Some("1:2".into())), ("b".into(), None)]);
        assert_eq!(texts(r#"{"a":"1:2","b":null}"#), Ok(Some(expected)));
        assert_eq!((texts("null"), texts("{}")), (Ok(None), Ok(Some(BTreeMap::new()))));
        for bad in ["1", "[]", r#""a""#, r#"{"a":1}"#, r#"{"a":{}}"#, "true"] {
            assert_eq!(texts(bad), Err(Some("t")), "{bad}");
        }
    }

    #[test]
    fn a_name_occurs_once_in_a_query() {
        for query in ["a=1&a=1", "a=1&b=2&%61=3", "a=1&a[]=2", "a%5B%5D=2&a=1", "=1&=2"] {
            assert_eq!(Request::from_query("m", query).unwrap_err().name, "invalid_request", "{query}");
        }
        let lists = Request::from_query("m", "a[]=1&b=2&a[]=3").unwrap();
        assert_eq!(lists.params.list("a").unwrap(), Some(vec!["1".into(), "3".into()]));
        let nested = Request::from_query("m", r#"t={"x":"1","x":"2"}"#).unwrap();
        assert_eq!(nested.params.texts("t").unwrap_err().name, "invalid_request");
        let many = |n: usize| (0..n).map(|at| format!("{at}=1")).collect::<Vec<_>>().join("&");
        assert!(Request::from_query("m", &many(MOST_QUERY_FIELDS)).is_ok());
        assert_eq!(Request::from_query("m", &many(MOST_QUERY_FIELDS + 1)).unwrap_err().name, "invalid_params");
    }

    #[test]
    fn broken_escapes_are_refused() {
        for query in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(Request::from_query("m", query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_name_that_bears_the_mark_of_another_is_not_taken_for_it() {
        let order =
            [("instrument_name", "\"A\""), ("amount", "1"), ("type", "\"limit\""), ("price", "2"), ("label", "\"l\"")];
        let params = Params::from_plain(order.into());
        assert_ne!(params.marks & mark("linked_order_type"), 0, "another name is needed here");
        assert!(!params.has("linked_order_type") && params.has("label"));
        assert_eq!(params.marks & mark("mmp"), 0);
        let all = order.map(|(name, _)| params.text(name).unwrap().unwrap().into_owned());
        assert_eq!(all, ["A", "1", "limit", "2", "l"]);
        assert!(
            !Params::default().has("") && Params::from_query("=1").unwrap().has(""),
            "an empty name is one as well"
        );
    }
}
