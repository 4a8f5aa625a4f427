//! Any object, byte by byte: where it ends, and what its symbol is.
//!
//! Does        defines the bounds and the symbol of an object, where the vector scan declines:
//!             1. it begins with `{` and ends with the matching `}`; braces inside strings do not
//!                count;
//!             2. a string ends at the next `"` without a `\` before it; the byte behind a `\` has
//!                no meaning;
//!             3. its symbol is the decoded value of its first key `sym`, if that is a string. Keys
//!                of nested objects and arrays do not count.
//! Leaves out  whether it is valid JSON otherwise: the worker receives it unchanged and parses it.
//! Start at    [`ObjectWalker::end`], [`symbol`].

use std::ops::Range;

/// Walks through an object that may arrive in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectWalker {
    depth: u64,
    in_string: bool,
    is_escaped: bool,
}

impl ObjectWalker {
    /// Continues through `bytes`. Returns the offset behind the closing brace, once it is found.
    pub fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_string {
                self.step_in_string(*byte);
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Continues through an element that is not an object. Returns the offset of the `,` or `]`
    /// that ends it.
    pub fn end_of_non_object(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_string {
                self.step_in_string(*byte);
                continue;
            }
            match byte {
                b',' | b']' if self.depth == 0 => return Some(index),
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }

    fn step_in_string(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if byte == b'\\' {
            self.is_escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
        }
    }
}

/// Where an object's symbol is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolText {
    /// Without escapes, at these offsets.
    Plain(Range<usize>),
    /// With escapes, decoded into the buffer.
    Decoded,
    Missing,
}

/// Returns the symbol of a whole object.
pub fn symbol(object: &[u8], decoded: &mut Vec<u8>) -> SymbolText {
    let (mut at, mut depth) = (0, 0_u64);
    while let Some(byte) = object.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let text = string(object, at);
                at = text.end + 1;
                let Some(value) = (depth == 1).then(|| value_after(object, at)).flatten() else { continue };
                if is_sym(&object[text], decoded) {
                    return symbol_at(object, value, decoded);
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    SymbolText::Missing
}

/// Returns where the value begins if a colon follows, so that the string before was a key.
fn value_after(object: &[u8], at: usize) -> Option<usize> {
    let colon = skip_space(object, at);
    (object.get(colon) == Some(&b':')).then(|| skip_space(object, colon + 1))
}

fn symbol_at(object: &[u8], at: usize, decoded: &mut Vec<u8>) -> SymbolText {
    if object.get(at) != Some(&b'"') {
        return SymbolText::Missing;
    }
    let text = string(object, at);
    if !object[text.clone()].contains(&b'\\') {
        return SymbolText::Plain(text);
    }
    match decode(&object[text], decoded) {
        Some(()) => SymbolText::Decoded,
        None => SymbolText::Missing,
    }
}

fn is_sym(key: &[u8], decoded: &mut Vec<u8>) -> bool {
    key == b"sym" || key.contains(&b'\\') && decode(key, decoded).is_some() && *decoded == *b"sym"
}

/// Returns the offsets between the quotes of the string that begins at `at`; up to the end without
/// a second quote.
fn string(object: &[u8], at: usize) -> Range<usize> {
    let mut walker = ObjectWalker { in_string: true, ..ObjectWalker::default() };
    let start = at + 1;
    let inside = object.get(start..).unwrap_or_default();
    let bytes = inside.iter().take_while(|byte| {
        walker.step_in_string(**byte);
        walker.in_string
    });
    start..start + bytes.count()
}

fn skip_space(object: &[u8], at: usize) -> usize {
    let rest = object.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_space(**byte)).count()
}

pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Decodes a string. `None` for an invalid escape, or for half of a surrogate pair.
fn decode(text: &[u8], decoded: &mut Vec<u8>) -> Option<()> {
    decoded.clear();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            decoded.push(*byte);
            continue;
        }
        let [letter, after @ ..] = rest else { return None };
        rest = after;
        let simple = match letter {
            b'"' | b'\\' | b'/' => *letter,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = code_point(&mut rest)?;
                decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        decoded.push(simple);
    }
    Some(())
}

/// Decodes the character behind `\u`: four hexadecimal digits, or a surrogate pair of two such
/// groups.
fn code_point(rest: &mut &[u8]) -> Option<char> {
    let high = four_digits(rest)?;
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high);
    }
    let [b'\\', b'u', after @ ..] = *rest else { return None };
    *rest = after;
    let low = four_digits(rest)?;
    if !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
}

fn four_digits(rest: &mut &[u8]) -> Option<u32> {
    let (digits, after) = rest.split_at_checked(4)?;
    *rest = after;
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}
