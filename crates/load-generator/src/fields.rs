//! The fields of a message: sequence number, due time, and the range of a gap notice.
//!
//! Does        looks where the field was in the last message, and searches only if it is not there.
//! Leaves out  parsing JSON: the first `"name":` that is followed by digits is the field, at any
//!             depth.
//! Start at    [`FieldScanner::read`].

use memchr::memmem;

/// When a message was due, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueTime {
    /// Nanoseconds of this machine's monotonic clock.
    Monotonic(i64),
    /// Nanoseconds since 1970.
    Real(i64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFields {
    pub sequence: Option<u64>,
    pub due: Option<DueTime>,
    /// The first and the last number that a gap notice declares missing.
    pub gap: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Field {
    name: Vec<u8>,
    search: memmem::Finder<'static>,
    /// Offset at which it was found last, from the start of the search.
    usual: usize,
}

impl Field {
    fn new(name: &str) -> Self {
        let name = format!("\"{name}\":").into_bytes();
        Field { search: memmem::Finder::new(&name).into_owned(), name, usual: 0 }
    }

    /// Returns the number and its end, if the field is where it was last.
    #[inline]
    fn read_there(&self, text: &[u8], from: usize) -> Option<(u64, usize)> {
        let usual = from + self.usual;
        let end = usual + self.name.len();
        if text.get(usual..end) == Some(&self.name) { digits(text, end) } else { None }
    }

    /// Returns the number and its end, wherever the field is.
    #[inline]
    fn read(&mut self, text: &[u8], from: usize) -> Option<(u64, usize)> {
        if let Some(there) = self.read_there(text, from) {
            return Some(there);
        }
        let found = self.search.find(text.get(from..)?)?;
        self.usual = found;
        digits(text, from + found + self.name.len())
    }
}

/// Reads the fields of one worker's messages. Remembers offsets, because the messages of a run look
/// alike.
#[derive(Debug)]
pub struct FieldScanner {
    sequence: Field,
    due: Field,
    sent: Field,
    from: Field,
    to: Field,
    gap: memmem::Finder<'static>,
    /// The last message with a time had `due_ns` rather than `ts_ns`.
    has_due: bool,
}

impl FieldScanner {
    pub fn new(sequence_field: &str) -> Self {
        FieldScanner {
            sequence: Field::new(sequence_field),
            due: Field::new("due_ns"),
            sent: Field::new("ts_ns"),
            from: Field::new("from"),
            to: Field::new("to"),
            gap: memmem::Finder::new(b"\"type\":\"gap\"").into_owned(),
            has_due: true,
        }
    }

    /// HOT. Reads the fields of one message.
    #[inline]
    pub fn read(&mut self, text: &[u8]) -> MessageFields {
        match self.sequence.read(text, 0) {
            Some((sequence, end)) => MessageFields { sequence: Some(sequence), due: self.time(text, end), gap: None },
            None => self.unnumbered(text),
        }
    }

    /// Looks at the usual offset behind the sequence number, then anywhere.
    #[inline]
    fn time(&mut self, text: &[u8], end: usize) -> Option<DueTime> {
        let usual = if self.has_due { &self.due } else { &self.sent };
        match usual.read_there(text, end).and_then(|(ns, _)| i64::try_from(ns).ok()) {
            Some(ns) if self.has_due => Some(DueTime::Monotonic(ns)),
            Some(ns) => Some(DueTime::Real(ns)),
            None => self.search_time(text, end),
        }
    }

    #[cold]
    fn search_time(&mut self, text: &[u8], end: usize) -> Option<DueTime> {
        let due = self.monotonic(text, end).or_else(|| self.monotonic(text, 0));
        self.has_due = due.is_some();
        due.or_else(|| self.real(text, end)).or_else(|| self.real(text, 0))
    }

    fn monotonic(&mut self, text: &[u8], from: usize) -> Option<DueTime> {
        self.due.read(text, from).and_then(|(ns, _)| i64::try_from(ns).ok()).map(DueTime::Monotonic)
    }

    #[inline]
    fn real(&mut self, text: &[u8], from: usize) -> Option<DueTime> {
        self.sent.read(text, from).and_then(|(ns, _)| i64::try_from(ns).ok()).map(DueTime::Real)
    }

    fn unnumbered(&mut self, text: &[u8]) -> MessageFields {
        if self.gap.find(text).is_some() {
            let from = self.from.read(text, 0);
            let to = self.to.read(text, 0);
            if let (Some((from, _)), Some((to, _))) = (from, to)
                && from <= to
            {
                return MessageFields { gap: Some((from, to)), ..MessageFields::default() };
            }
        }
        MessageFields { due: self.time(text, 0), ..MessageFields::default() }
    }
}

/// Returns the whole number at `at`, which may be quoted, and its end.
#[inline]
fn digits(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let quoted = usize::from(matches!(text.get(at), Some(b'"' | b' ')));
    let begin = at + quoted;
    let (mut value, mut end) = (0_u64, begin);
    while let Some(eight) = text.get(end..end + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).and_then(eight) {
        value = value.checked_mul(100_000_000)?.checked_add(eight)?;
        end += 8;
    }
    while let Some(digit) = text.get(end).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        end += 1;
    }
    (end > begin).then_some((value, end))
}

/// Converts eight digits at a time: pairs, fours, then all. A time has 19 digits, and each message
/// has one.
#[inline]
fn eight(bytes: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes);
    let high = word & 0xF0F0_F0F0_F0F0_F0F0;
    let carried = word.wrapping_add(0x0606_0606_0606_0606) & 0xF0F0_F0F0_F0F0_F0F0;
    if high != 0x3030_3030_3030_3030 || carried != 0x3030_3030_3030_3030 {
        return None;
    }
    let ones = word & 0x0F0F_0F0F_0F0F_0F0F;
    let pairs = (ones.wrapping_mul(10) + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xFFFF_FFFF)
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use super::*;

    fn fields_of(sequence: u64, due: DueTime) -> MessageFields {
        MessageFields { sequence: Some(sequence), due: Some(due), gap: None }
    }

    #[test]
    fn fields_are_found_at_any_offset() {
        let mut numbers = FieldScanner::new("seq");
        // One scanner for all, so that remembered offsets are wrong for the next message.
        for (text, expected) in [
            (
                r#"{"seq":1,"ts_ns":1790000000123456789,"pad":"x"}"#,
                fields_of(1, DueTime::Real(1_790_000_000_123_456_789)),
            ),
            (
                r#"{"seq":10,"ts_ns":1790000000123456790,"pad":"x"}"#,
                fields_of(10, DueTime::Real(1_790_000_000_123_456_790)),
            ),
            (r#"{"ts_ns":5,"seq":11}"#, fields_of(11, DueTime::Real(5))),
            (r#"{"e":"trade","seq":12,"due_ns":99,"mono_ns":100,"ts_ns":7}"#, fields_of(12, DueTime::Monotonic(99))),
            (r#"{"e":"trade","seq":13,"due_ns":101,"mono_ns":100,"ts_ns":7}"#, fields_of(13, DueTime::Monotonic(101))),
            (r#"{"seq": 14,"ts_ns":"12345678"}"#, fields_of(14, DueTime::Real(12_345_678))),
            (r#"{"seq":18446744073709551615}"#, MessageFields { sequence: Some(u64::MAX), ..MessageFields::default() }),
            (r#"{"seq":18446744073709551616}"#, MessageFields::default()),
            (r#"{"seq":-1}"#, MessageFields::default()),
            (r#"{"seq":"#, MessageFields::default()),
            (r#"{"sequence":5}"#, MessageFields::default()),
            ("", MessageFields::default()),
            (r#"{"type":"gap","from":3,"to":9}"#, MessageFields { gap: Some((3, 9)), ..MessageFields::default() }),
            (r#"{"type":"gap","from":9,"to":3}"#, MessageFields::default()),
            (r#"{"type":"gap"}"#, MessageFields::default()),
            (r#"{"ts_ns":4}"#, MessageFields { due: Some(DueTime::Real(4)), ..MessageFields::default() }),
            (r#"{"seq":15,"ts_ns":8}"#, fields_of(15, DueTime::Real(8))),
        ] {
            assert_eq!(numbers.read(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(FieldScanner::new("socket_sequence").read(br#"{"socket_sequence":3}"#).sequence, Some(3));
    }

    #[test]
    fn digits_agree_with_the_standard_library() {
        let mut random = SplitMix64::new(1);
        for _ in 0..2_000 {
            let value = random.next();
            let number = value >> (value % 64);
            let text = format!("{number},");
            assert_eq!(digits(text.as_bytes(), 0), Some((number, text.len() - 1)));
        }
        for bytes in ["1234567:", "/2345678", "1234 678", "1234567\u{0}", "ABCDEFGH", "pppppppp"] {
            assert_eq!(eight(bytes.as_bytes().try_into().unwrap()), None, "{bytes}");
        }
    }
}
