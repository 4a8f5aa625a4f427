//! The numbers in a message: its sequence, when it was due, and what a gap notice declares.
//!
//! Does        look where the field was in the last message; only when it is not there, search.
//! Leaves out  parsing JSON: the first `"name":` that is followed by digits is the field, wherever it stands.
//! Start at    [`Numbers::read`].

use memchr::memmem;

/// When a message should have been sent, by whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nanoseconds of this machine's monotonic clock.
    Monotonic(i64),
    /// Nanoseconds since 1970.
    Real(i64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub sequence: Option<u64>,
    pub due: Option<Due>,
    /// The first and the last that are not sent.
    pub gap: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Field {
    name: Vec<u8>,
    search: memmem::Finder<'static>,
    /// Where it was last, from where the search began.
    usual: usize,
}

impl Field {
    fn new(name: &str) -> Self {
        let name = format!("\"{name}\":").into_bytes();
        Field { search: memmem::Finder::new(&name).into_owned(), name, usual: 0 }
    }

    /// Its number and where that ends, if it stands where it stood last.
    #[inline]
    fn read_there(&self, text: &[u8], from: usize) -> Option<(u64, usize)> {
        let usual = from + self.usual;
        let end = usual + self.name.len();
        if text.get(usual..end) == Some(&self.name) { digits(text, end) } else { None }
    }

    /// Its number and where that ends, wherever it stands.
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

/// One thread's eyes: messages of one run look alike.
#[derive(Debug)]
pub struct Numbers {
    sequence: Field,
    due: Field,
    sent: Field,
    from: Field,
    to: Field,
    gap: memmem::Finder<'static>,
    /// The last message that had a time had `due_ns`.
    has_due: bool,
}

impl Numbers {
    pub fn new(sequence_field: &str) -> Self {
        Numbers {
            sequence: Field::new(sequence_field),
            due: Field::new("due_ns"),
            sent: Field::new("ts_ns"),
            from: Field::new("from"),
            to: Field::new("to"),
            gap: memmem::Finder::new(b"\"type\":\"gap\"").into_owned(),
            has_due: true,
        }
    }

    /// HOT.
    #[inline]
    pub fn read(&mut self, text: &[u8]) -> Said {
        match self.sequence.read(text, 0) {
            Some((sequence, end)) => Said { sequence: Some(sequence), due: self.time(text, end), gap: None },
            None => self.unnumbered(text),
        }
    }

    /// Behind the sequence number, where it has a steady place; if it is not there, anywhere.
    #[inline]
    fn time(&mut self, text: &[u8], end: usize) -> Option<Due> {
        let usual = if self.has_due { &self.due } else { &self.sent };
        match usual.read_there(text, end).and_then(|(ns, _)| i64::try_from(ns).ok()) {
            Some(ns) if self.has_due => Some(Due::Monotonic(ns)),
            Some(ns) => Some(Due::Real(ns)),
            None => self.search_time(text, end),
        }
    }

    #[cold]
    fn search_time(&mut self, text: &[u8], end: usize) -> Option<Due> {
        let due = self.monotonic(text, end).or_else(|| self.monotonic(text, 0));
        self.has_due = due.is_some();
        due.or_else(|| self.real(text, end)).or_else(|| self.real(text, 0))
    }

    fn monotonic(&mut self, text: &[u8], from: usize) -> Option<Due> {
        self.due.read(text, from).and_then(|(ns, _)| i64::try_from(ns).ok()).map(Due::Monotonic)
    }

    #[inline]
    fn real(&mut self, text: &[u8], from: usize) -> Option<Due> {
        self.sent.read(text, from).and_then(|(ns, _)| i64::try_from(ns).ok()).map(Due::Real)
    }

    fn unnumbered(&mut self, text: &[u8]) -> Said {
        if self.gap.find(text).is_some() {
            let from = self.from.read(text, 0);
            let to = self.to.read(text, 0);
            if let (Some((from, _)), Some((to, _))) = (from, to)
                && from <= to
            {
                return Said { gap: Some((from, to)), ..Said::default() };
            }
        }
        Said { due: self.time(text, 0), ..Said::default() }
    }
}

/// The whole number at `at`, which may stand in quotes, and where it ends.
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

/// Eight digits at a time: pairs, then fours, then all. Times are 19 digits long, and there is one in each message.
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
    use super::*;

    fn said(sequence: u64, due: Due) -> Said {
        Said { sequence: Some(sequence), due: Some(due), gap: None }
    }

    #[test]
    fn numbers_are_found_wherever_they_stand() {
        let mut numbers = Numbers::new("seq");
        // One after another: places that were learnt must not mislead.
        for (text, expected) in [
            (r#"{"seq":1,"ts_ns":1790000000123456789,"pad":"x"}"#, said(1, Due::Real(1_790_000_000_123_456_789))),
            (r#"{"seq":10,"ts_ns":1790000000123456790,"pad":"x"}"#, said(10, Due::Real(1_790_000_000_123_456_790))),
            (r#"{"ts_ns":5,"seq":11}"#, said(11, Due::Real(5))),
            (r#"{"e":"trade","seq":12,"due_ns":99,"mono_ns":100,"ts_ns":7}"#, said(12, Due::Monotonic(99))),
            (r#"{"e":"trade","seq":13,"due_ns":101,"mono_ns":100,"ts_ns":7}"#, said(13, Due::Monotonic(101))),
            (r#"{"seq": 14,"ts_ns":"12345678"}"#, said(14, Due::Real(12_345_678))),
            (r#"{"seq":18446744073709551615}"#, Said { sequence: Some(u64::MAX), ..Said::default() }),
            (r#"{"seq":18446744073709551616}"#, Said::default()),
            (r#"{"seq":-1}"#, Said::default()),
            (r#"{"seq":"#, Said::default()),
            (r#"{"sequence":5}"#, Said::default()),
            ("", Said::default()),
            (r#"{"type":"gap","from":3,"to":9}"#, Said { gap: Some((3, 9)), ..Said::default() }),
            (r#"{"type":"gap","from":9,"to":3}"#, Said::default()),
            (r#"{"type":"gap"}"#, Said::default()),
            (r#"{"ts_ns":4}"#, Said { due: Some(Due::Real(4)), ..Said::default() }),
            (r#"{"seq":15,"ts_ns":8}"#, said(15, Due::Real(8))),
        ] {
            assert_eq!(numbers.read(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(Numbers::new("socket_sequence").read(br#"{"socket_sequence":3}"#).sequence, Some(3));
    }

    #[test]
    fn digits_are_what_the_standard_library_reads() {
        let mut value = 1_u64;
        for _ in 0..2_000 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = value >> (value % 64);
            let text = format!("{number},");
            assert_eq!(digits(text.as_bytes(), 0), Some((number, text.len() - 1)));
        }
        for bytes in ["1234567:", "/2345678", "1234 678", "1234567\u{0}", "ABCDEFGH", "pppppppp"] {
            assert_eq!(eight(bytes.as_bytes().try_into().unwrap()), None, "{bytes}");
        }
    }
}
