//! The envelope: number and times at fixed places in front of a JSON object.
//!
//! Does        writes a message with an envelope, and stamps the sending time later.
//! Start at    [`wrap`].

/// Length of the envelope. It replaces the `{` of the object.
pub const ENVELOPE_BYTES: usize = 108;
const SENT_AT: usize = 71;
const TIME_DIGITS: usize = 19;

/// Appends `object` with an envelope to `out`. Returns false, and appends the text unchanged, if it
/// is not an object with members.
pub(super) fn wrap(out: &mut Vec<u8>, object: &[u8], sequence: u64, due_ns: u64, connection: u32) -> bool {
    let has_members = object.len() > 2 && object[0] == b'{' && object[1] == b'"';
    if !has_members {
        out.extend_from_slice(object);
        return false;
    }
    let envelope = format!(
        "{{\"seq\":\"{sequence:019}\",\"due_ns\":\"{due_ns:019}\",\"sent_ns\":\"{:019}\",\"conn\":\"{connection:06}\",",
        0
    );
    debug_assert_eq!(envelope.len(), ENVELOPE_BYTES);
    out.extend_from_slice(envelope.as_bytes());
    out.extend_from_slice(&object[1..]);
    true
}

/// Writes the sending time into an envelope.
pub(super) fn stamp(envelope: &mut [u8], mut sent_ns: u64) {
    for digit in envelope[SENT_AT..SENT_AT + TIME_DIGITS].iter_mut().rev() {
        *digit = b'0' + u8::try_from(sent_ns % 10).unwrap_or(0);
        sent_ns /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_at_the_documented_offsets() {
        let mut out = Vec::new();
        assert!(wrap(&mut out, br#"{"x":"y"}"#, 42, 5_000_000_001, 7));
        stamp(&mut out, 5_000_000_999);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(&text[8..27], "0000000000000000042");
        assert_eq!(&text[39..58], "0000000005000000001");
        assert_eq!(&text[71..90], "0000000005000000999");
        assert_eq!(&text[100..106], "000007");
        assert_eq!(&text[108..], r#""x":"y"}"#);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["x"], "y");
        assert_eq!(read.as_object().unwrap().len(), 5);
    }

    #[test]
    fn text_that_is_not_an_object_stays_unchanged() {
        for text in [&b"[1]"[..], b"{}", b"", b"{ }", b"null"] {
            let mut out = Vec::new();
            assert!(!wrap(&mut out, text, 1, 2, 3));
            assert_eq!(out, text);
        }
    }
}
