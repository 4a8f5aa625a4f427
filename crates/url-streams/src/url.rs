//! Percent-encoding and parameters of a URL.
//!
//! Does        Decodes `%40` to `@`. Finds a parameter by its name in any case. A `+` stays as it
//!             is.
//! Leaves out  Everything else in a URL.

use percent_encoding::percent_decode_str;

/// Decodes percent-encoding. An invalid escape stays as it is.
pub(crate) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns the first parameter of this name, decoded.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| decoded(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_invalid_ones_kept() {
        for (text, expected) in [("a%40b", "a@b"), ("%2", "%2"), ("%zz%41", "%zzA"), ("%2540", "%40"), ("%C3%A9", "é")]
        {
            assert_eq!(decoded(text), expected);
        }
        assert_eq!(parameter("a=1&TIMEUNIT=x%2Fy&b", "timeUnit").as_deref(), Some("x/y"));
        assert_eq!((parameter("a=1&b", "b").as_deref(), parameter("a=1", "c")), (Some(""), None));
    }
}
