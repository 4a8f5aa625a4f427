//! The fields of a JSON object, in order.
//!
//! Does        returns names and values as they are written; skips nested values.
//! Leaves out  validating the values: the feed's scanner has seen them, and a caller parses those
//!             it needs.

/// An iterator over the fields of an object.
pub struct Fields<'a> {
    rest: &'a [u8],
    is_first: bool,
}

impl<'a> Fields<'a> {
    /// Returns `None` if `object` is not in braces.
    pub fn of(object: &'a [u8]) -> Option<Self> {
        let rest = trimmed(object).strip_prefix(b"{")?.strip_suffix(b"}")?;
        Some(Self { rest, is_first: true })
    }

    /// Returns name (without quotes, with escapes) and value. `None` if malformed, `Some(None)` at
    /// the end.
    #[allow(clippy::option_option, clippy::type_complexity)] // malformed, at the end, or a field
    pub fn next_field(&mut self) -> Option<Option<(&'a [u8], &'a [u8])>> {
        self.rest = trimmed(self.rest);
        if self.rest.is_empty() {
            return Some(None);
        }
        if !self.is_first {
            self.rest = trimmed(self.rest.strip_prefix(b",")?);
        }
        self.is_first = false;
        let name = string_end(self.rest)?;
        let (name, rest) = self.rest.split_at(name);
        let rest = trimmed(trimmed(rest).strip_prefix(b":")?);
        let (value, rest) = rest.split_at(value_end(rest)?);
        self.rest = rest;
        Some(Some((&name[1..name.len() - 1], trimmed(value))))
    }
}

fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Returns the offset behind the string that `text` begins with.
fn string_end(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Returns the offset behind the value that `text` begins with: a comma, or the end of the object.
fn value_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_u32);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += string_end(&text[at..])?,
            b',' if depth == 0 => break,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ => at += 1,
        }
    }
    (depth == 0 && at > 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use super::*;

    fn all(object: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut fields = Fields::of(object.as_bytes())?;
        let mut found = Vec::new();
        while let Some((name, value)) = fields.next_field()? {
            found.push((text(name), text(value)));
        }
        Some(found)
    }

    #[test]
    fn fields_are_returned_as_written() {
        for (object, expected) in [
            ("{}", vec![]),
            ("{\"a\":1}", vec![("a", "1")]),
            (" { \"a\" : 1 , \"b\" : [1,{\"c\":\"}\"}] } ", vec![("a", "1"), ("b", "[1,{\"c\":\"}\"}]")]),
            (r#"{"a":"x\",\"p\":5","p":6}"#, vec![("a", r#""x\",\"p\":5""#), ("p", "6")]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(all(object), Some(expected), "{object}");
        }
    }

    #[test]
    fn malformed_objects_have_no_fields() {
        for object in [
            "",
            "{",
            "[]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1 \"b\":2",
            "{a:1}",
            "{\"a\":[1}",
            "{\"a\":\"x}",
            "{\"a\":1,}",
        ] {
            assert_eq!(all(object), None, "{object}");
        }
    }

    #[test]
    fn any_bytes_are_handled_without_panic() {
        let alphabet = b"{}[]\":,\\a1 ";
        for seed in 0..100_000_u64 {
            let mut random = SplitMix64::new(seed);
            let mut noise = vec![b'{'];
            for _ in 0..seed % 13 {
                noise.push(random.pick(alphabet));
            }
            noise.push(b'}');
            let _ = all(&String::from_utf8(noise).unwrap());
        }
    }
}
