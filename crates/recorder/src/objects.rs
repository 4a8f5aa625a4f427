//! The objects of a message: the elements of an array, or the message itself.

use std::ops::Range;

/// Returns the top-level elements of a JSON array. A text that is not an array is one element.
pub fn objects(text: &[u8]) -> Vec<Range<usize>> {
    let Some(open) = text.iter().position(|byte| !byte.is_ascii_whitespace()) else { return Vec::new() };
    if text[open] != b'[' {
        return std::iter::once(open..text.trim_ascii_end().len()).collect();
    }
    let (mut found, mut depth, mut start) = (Vec::new(), 0_u32, None);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.iter().enumerate().skip(open + 1) {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b',' if depth == 0 => found.extend(element(text, &mut start, at)),
            b']' if depth == 0 => {
                found.extend(element(text, &mut start, at));
                return found;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => in_string = true,
            _ => {}
        }
        if start.is_none() && !byte.is_ascii_whitespace() && *byte != b',' {
            start = Some(at);
        }
    }
    found
}

fn element(text: &[u8], start: &mut Option<usize>, end: usize) -> Option<Range<usize>> {
    let start = start.take()?;
    Some(start..start + text[start..end].trim_ascii_end().len())
}

#[cfg(test)]
mod tests {
    use super::objects;

    #[test]
    fn elements_of_arrays_are_found() {
        for (text, expected) in [
            ("[]", vec![]),
            ("", vec![]),
            (r#"{"a":[1,2]}"#, vec![r#"{"a":[1,2]}"#]),
            (r#"[{"a":1},{"b":2}]"#, vec![r#"{"a":1}"#, r#"{"b":2}"#]),
            (
                r#" [ {"a":"],[{"} , {"b":"\"}"},[1,{"c":2}],3 ] "#,
                vec![r#"{"a":"],[{"}"#, r#"{"b":"\"}"}"#, r#"[1,{"c":2}]"#, "3"],
            ),
            // Surplus closing brackets are part of an element.
            ("[}", vec![]),
            (r#"[}}{"a":1}]"#, vec![r#"}}{"a":1}"#]),
            (r#"["a","b"]"#, vec![r#""a""#, r#""b""#]),
            (r#"[{"unfinished":1},{"#, vec![r#"{"unfinished":1}"#]),
        ] {
            let found: Vec<&str> = objects(text.as_bytes()).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
