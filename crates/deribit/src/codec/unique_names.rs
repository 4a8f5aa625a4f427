//! Refuses JSON objects in which a name occurs twice.
//!
//! Two readers of one text disagree about such an object: one takes the first value, another the
//! last. A proxy or a log would then show another request than the venue obeys.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::codec::error::RpcError;

/// Most characters of a name that an error shows.
const SHOWN_CHARACTERS: usize = 40;

/// Checks every object in a valid JSON text. The caller has bounded the nesting.
///
/// # Errors
///
/// `invalid_request` with the first name that occurs twice in one object.
pub(crate) fn check(json: &str) -> Result<(), RpcError> {
    let json = json.trim_start();
    let inner: Vec<&RawValue> = if json.starts_with('{') {
        match serde_json::from_str(json) {
            Ok(UniqueFields(values)) => values,
            Err(error) if error.is_data() => return Err(RpcError::new("invalid_request", reason(&error))),
            // The caller judges the syntax.
            Err(_) => return Ok(()),
        }
    } else if json.starts_with('[') {
        serde_json::from_str::<Items<'_>>(json).map(|items| items.0).unwrap_or_default()
    } else {
        return Ok(());
    };
    inner.into_iter().try_for_each(|value| check(value.get()))
}

/// Returns the error for a name that occurs twice.
pub(crate) fn twice(name: &str) -> RpcError {
    RpcError::new("invalid_request", text_of(name))
}

fn text_of(name: &str) -> String {
    let shown: String = name.chars().take(SHOWN_CHARACTERS).collect();
    format!("the name {shown:?} occurs twice; send each name once")
}

/// Returns the text of an error without the position that the parser appends.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}

/// The values of an object whose names differ.
struct UniqueFields<'a>(Vec<&'a RawValue>);

/// The values of an array.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for UniqueFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = UniqueFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut names, mut values) = (BTreeSet::new(), Vec::new());
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    if names.contains(&name) {
                        return Err(serde::de::Error::custom(text_of(&name)));
                    }
                    names.insert(name);
                    values.push(value);
                }
                Ok(UniqueFields(values))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Items(values))
            }
        }
        deserializer.deserialize_seq(Elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_occurs_once_in_each_object() {
        for json in [r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}"#, "{}", "[]", "7", r#"{"a":1e400}"#, r#"{"":0}"#] {
            assert_eq!(check(json), Ok(()), "{json}");
        }
        for json in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":null,"a":1}"#,
            r#" {"a":1,"\u0061":2}"#,
            r#"{"x":{"a":1,"a":2}}"#,
            r#"{"x":[0,[{"a":1,"b":2,"a":3}]]}"#,
            r#"[{"a":1,"a":2}]"#,
        ] {
            let error = check(json).unwrap_err();
            assert_eq!(error.name, "invalid_request", "{json}");
            assert_eq!(error.reason, r#"the name "a" occurs twice; send each name once"#, "{json}");
        }
    }
}
