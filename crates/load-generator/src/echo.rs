//! The text of an echo message, and how it is recognised when it returns.
//!
//! Start at    [`text`], [`missing`].

/// Digits of the message number. A shorter message has fewer.
const DIGITS: usize = 16;

/// Returns message `number` of a connection: the last digits of the number, then padding.
pub fn text(number: u64, bytes: usize) -> Vec<u8> {
    let digits = format!("{number:0DIGITS$}").into_bytes();
    let shown = bytes.min(DIGITS);
    let mut text = digits.get(digits.len() - shown..).unwrap_or_default().to_vec();
    text.resize(bytes, b'x');
    text
}

/// Returns how many messages were skipped if `expected` is the next one, or `None` if `payload` is
/// not ours.
pub fn missing(payload: &[u8], expected: u64) -> Option<u64> {
    let shown = payload.len().min(DIGITS);
    let digits = std::str::from_utf8(payload.get(..shown)?).ok()?;
    if shown == 0 {
        return Some(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !payload[shown..].iter().all(|byte| *byte == b'x') {
        return None;
    }
    let came: u64 = digits.parse().ok()?;
    let round = 10_u64.pow(u32::try_from(shown).ok()?);
    Some((came + round - expected % round) % round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_is_recognised_and_skipped_ones_are_counted() {
        assert_eq!(text(7, 20), b"0000000000000007xxxx");
        assert_eq!(text(123, 2), b"23");
        assert_eq!(text(5, 0), b"");
        for (came, bytes, expected, left_out) in
            [(7, 20, 7, Some(0)), (9, 20, 7, Some(2)), (101, 2, 99, Some(2)), (5, 0, 9, Some(0)), (3, 1, 3, Some(0))]
        {
            assert_eq!(missing(&text(came, bytes), expected), left_out, "{came} in {bytes}");
        }
        for stranger in ["hello", "0000000000000007xxxy", "000000000000000 xx", "é"] {
            assert_eq!(missing(stranger.as_bytes(), 7), None, "{stranger}");
        }
    }
}
