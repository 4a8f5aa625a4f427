//! Finds one field of a JSON object without parsing the rest.

/// Returns the value of a top-level field: the text between the quotes of a string, with its
/// escapes, or the bytes of any other value. None if the text is not an object or has no such
/// field.
pub fn field<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut at = skip_space(text, 0);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = skip_space(text, at);
        if text.get(at) == Some(&b',') {
            at = skip_space(text, at + 1);
        }
        let key_end = end_of_string(text, at)?;
        let is_it = text.get(at + 1..key_end - 1)? == name.as_bytes();
        at = skip_space(text, key_end);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = skip_space(text, at + 1);
        let end = end_of_value(text, at)?;
        if is_it {
            let value = text.get(at..end)?;
            return Some(value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value));
        }
        at = end;
    }
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Returns the position after the closing quote of a string that begins at `at`.
fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn end_of_value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_u32;
    loop {
        match text.get(at)? {
            b'"' => {
                at = end_of_string(text, at)?;
                if depth == 0 {
                    return Some(at);
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b',' if depth == 0 => return Some(at),
            byte if depth == 0 && byte.is_ascii_whitespace() => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn only_top_level_fields_are_found() {
        for (text, name, expected) in [
            (r#"{"sym":"AAPL","p":1.5}"#, "sym", Some("AAPL")),
            (r#"{"sym":"AAPL","p":1.5}"#, "p", Some("1.5")),
            (r#" { "a" : [1,{"sym":"no"}] , "sym" : "yes" } "#, "sym", Some("yes")),
            (r#"{"a":"}\"sym\":\"no","sym":null}"#, "sym", Some("null")),
            (r#"{"o":{"x":[]},"sym":{"y":1}}"#, "sym", Some(r#"{"y":1}"#)),
            (r#"{"sym":7 }"#, "sym", Some("7")),
            (r#"{"a":1}"#, "sym", None),
            (r#"{}"#, "sym", None),
            (r#"[{"sym":"AAPL"}]"#, "sym", None),
            (r#"{"sym":"cut"#, "sym", None),
            (r#"{"sym"#, "sym", None),
            (r#"{"a":"\"#, "sym", None),
            ("", "sym", None),
        ] {
            assert_eq!(field(text.as_bytes(), name), expected.map(str::as_bytes), "{text}");
        }
    }
}
