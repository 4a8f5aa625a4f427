//! Reference implementation of the object reader of feeds: slow and simple, for tests and the
//! fuzzer to compare with.
//!
//! Does        reads a whole stream at once, collects each message, and parses it from its start
//!             whenever more of it arrives. Shares no code with the reader except the violations
//!             and the hash.
//! Leaves out  how the stream was cut, which must not matter, and the counters that depend on it.
//! Start at    [`read`].

use pitwire_feed::{FRAME_BYTES_MAX, MissingSymbol, OBJECT_BYTES_MAX, ScanCounters, worker_of};
use pitwire_websocket::Violation;

/// The events that a sink should receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedEvent {
    Object { text: Vec<u8>, worker: u32 },
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, Vec<u8>),
}

#[derive(Debug, Default)]
pub struct ScanOutput {
    pub events: Vec<FeedEvent>,
    /// Without `unusual` and `cut`.
    pub counters: ScanCounters,
    pub violation: Option<Violation>,
}

struct FeedMessage {
    is_text: bool,
    bytes: Vec<u8>,
    /// Elements that were reported before.
    reported: usize,
}

/// Reads a whole stream.
pub fn read(stream: &[u8], workers: u32, no_sym: MissingSymbol) -> ScanOutput {
    let mut reader = ReferenceReader { seen: ScanOutput::default(), message: None, workers, no_sym };
    let mut rest = stream;
    while reader.seen.violation.is_none() && !matches!(reader.seen.events.last(), Some(FeedEvent::Close(..))) {
        match reader.frame(rest) {
            Ok(Some(bytes)) => rest = &rest[bytes..],
            Ok(None) => break,
            Err(violation) => reader.seen.violation = Some(violation),
        }
    }
    reader.seen
}

struct ReferenceReader {
    seen: ScanOutput,
    message: Option<FeedMessage>,
    workers: u32,
    no_sym: MissingSymbol,
}

impl ReferenceReader {
    /// Reads one frame at the front of `bytes`. Returns its length, or `None` at the end.
    fn frame(&mut self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        if bytes.len() < 2 {
            return Ok(None);
        }
        if bytes[0] & 0b0111_0000 > 0 {
            return Err(Violation::ReservedBits);
        }
        let (is_final, opcode) = (bytes[0] >= 0x80, bytes[0] % 16);
        match opcode {
            0 if self.message.is_none() => return Err(Violation::StrayContinuation),
            1 | 2 if self.message.is_some() => return Err(Violation::Interrupted),
            3..=7 | 11..=15 => return Err(Violation::ReservedOpcode(opcode)),
            _ => {}
        }
        if bytes[1] >= 0x80 {
            return Err(Violation::MaskedFrame);
        }
        if opcode >= 8 && !is_final {
            return Err(Violation::ControlFragmented);
        }
        if opcode >= 8 && bytes[1] > 125 {
            return Err(Violation::ControlTooLong);
        }
        let Some((header, length)) = length(bytes)? else { return Ok(None) };
        let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(header);
        let payload = &bytes[header..whole.min(bytes.len())];
        let is_whole = bytes.len() >= whole;
        if opcode < 8 {
            self.seen.counters.frames += 1;
            let fresh = || FeedMessage { is_text: opcode == 1, bytes: Vec::new(), reported: 0 };
            self.message.get_or_insert_with(fresh).bytes.extend(payload);
            self.look_at_message(is_final && is_whole)?;
        } else if is_whole {
            self.control(opcode, payload)?;
        }
        Ok(is_whole.then_some(whole))
    }

    fn control(&mut self, opcode: u8, body: &[u8]) -> Result<(), Violation> {
        self.seen.events.push(match (opcode, body) {
            (9, _) => FeedEvent::Ping(body.to_vec()),
            (10, _) => FeedEvent::Pong(body.to_vec()),
            (_, []) => FeedEvent::Close(None, Vec::new()),
            (_, [_]) => return Err(Violation::CloseBody),
            (_, [high, low, reason @ ..]) => {
                let code = u16::from(*high) * 256 + u16::from(*low);
                let is_reserved = matches!(code, 1004..=1006);
                if code < 1000 || is_reserved || (1015..3000).contains(&code) || code > 4999 {
                    return Err(Violation::CloseCode(code));
                }
                if std::str::from_utf8(reason).is_err() {
                    return Err(Violation::CloseReason);
                }
                FeedEvent::Close(Some(code), reason.to_vec())
            }
        });
        Ok(())
    }

    fn look_at_message(&mut self, is_ended: bool) -> Result<(), Violation> {
        let Some(mut message) = self.message.take() else { return Ok(()) };
        let (mut correct, mut is_broken) = (message.bytes.len(), false);
        if message.is_text
            && let Err(error) = std::str::from_utf8(&message.bytes)
        {
            is_broken = is_ended || error.error_len().is_some();
            if error.error_len().is_some() {
                correct = error.valid_up_to();
            }
        }
        let elements = elements(&message.bytes[..correct], is_ended && !is_broken);
        for element in elements.iter().skip(message.reported) {
            self.element(element);
        }
        message.reported = elements.len();
        if is_broken {
            return Err(Violation::NotUtf8);
        }
        if is_ended {
            self.seen.counters.messages += 1;
        } else {
            self.message = Some(message);
        }
        Ok(())
    }

    fn element(&mut self, element: &MessageElement<'_>) {
        let counters = &mut self.seen.counters;
        match element {
            MessageElement::Malformed => counters.malformed += 1,
            MessageElement::NoArray => counters.not_arrays += 1,
            MessageElement::Object(text) if text.len() > OBJECT_BYTES_MAX => counters.oversized += 1,
            MessageElement::Object(text) => {
                let worker = match symbol(text) {
                    Some(symbol) => worker_of(&symbol, self.workers),
                    None => {
                        counters.no_sym += 1;
                        if self.no_sym == MissingSymbol::Drop {
                            return;
                        }
                        0
                    }
                };
                counters.objects += 1;
                self.seen.events.push(FeedEvent::Object { text: text.to_vec(), worker });
            }
        }
    }
}

/// Returns the lengths of header and payload, if the header is complete.
fn length(bytes: &[u8]) -> Result<Option<(usize, u64)>, Violation> {
    let digits = match bytes[1] {
        126 => 2,
        127 => 8,
        short => return Ok(Some((2, short.into()))),
    };
    if bytes.len() < 2 + digits {
        return Ok(None);
    }
    let length = bytes[2..2 + digits].iter().fold(0, |length, digit| length * 256 + u128::from(*digit));
    let least = if digits == 2 { 126 } else { 65_536 };
    if length < least || length >= 1 << 63 {
        return Err(Violation::Length);
    }
    let length = u64::try_from(length).map_err(|_| Violation::Length)?;
    if length > FRAME_BYTES_MAX {
        return Err(Violation::FrameTooLong(length));
    }
    Ok(Some((2 + digits, length)))
}

enum MessageElement<'a> {
    Object(&'a [u8]),
    Malformed,
    NoArray,
}

/// Returns the elements of a message as received. With more text the first elements stay the same.
fn elements(text: &[u8], is_ended: bool) -> Vec<MessageElement<'_>> {
    let mut found = Vec::new();
    let mut at = space(text, 0);
    match text.get(at) {
        Some(b'[') => at = space(text, at + 1),
        None if !is_ended => return found,
        _ => return vec![MessageElement::NoArray],
    }
    let unended = |mut found: Vec<_>| {
        if is_ended {
            found.push(MessageElement::Malformed);
        }
        found
    };
    let mut is_first = true;
    loop {
        match text.get(at) {
            None => return unended(found),
            Some(b']') => {
                if !is_first {
                    // After a comma.
                    found.push(MessageElement::Malformed);
                }
                break;
            }
            Some(b'{') => match end_of_object(text, at) {
                Some(end) => {
                    found.push(MessageElement::Object(&text[at..end]));
                    at = end;
                }
                None => return unended(found),
            },
            Some(_) => {
                found.push(MessageElement::Malformed);
                match end_of_non_object(text, at) {
                    Some(end) => at = end,
                    None => return unended(found),
                }
            }
        }
        is_first = false;
        at = space(text, at);
        while !matches!(text.get(at), None | Some(b',' | b']')) {
            found.push(MessageElement::Malformed);
            match end_of_non_object(text, at) {
                Some(end) => at = end,
                None => return unended(found),
            }
        }
        match text.get(at) {
            Some(b',') => at = space(text, at + 1),
            Some(_) => break,
            None => return unended(found),
        }
    }
    if space(text, at + 1) < text.len() {
        found.push(MessageElement::Malformed);
    }
    found
}

fn space(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && b" \t\r\n".contains(&text[at]) {
        at += 1;
    }
    at
}

/// Returns the offset behind the string that begins at `at`.
fn end_of_string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match text.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
}

fn end_of_object(text: &[u8], mut at: usize) -> Option<usize> {
    let mut open_braces = 0_u64;
    loop {
        match text.get(at)? {
            b'"' => {
                at = end_of_string(text, at)?;
                continue;
            }
            b'{' => open_braces += 1,
            b'}' if open_braces == 1 => return Some(at + 1),
            b'}' => open_braces -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// Returns the offset of the comma or bracket behind an element that is not an object.
fn end_of_non_object(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_i64;
    loop {
        let byte = *text.get(at)?;
        if depth == 0 && (byte == b',' || byte == b']') {
            return Some(at);
        }
        if byte == b'"' {
            at = end_of_string(text, at)?;
            continue;
        }
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = (depth - 1).max(0),
            _ => {}
        }
        at += 1;
    }
}

/// Returns the decoded symbol of an object.
fn symbol(object: &[u8]) -> Option<Vec<u8>> {
    let (mut at, mut depth) = (0, 0_i64);
    while at < object.len() {
        match object[at] {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = (depth - 1).max(0),
            b'"' => {
                let end = end_of_string(object, at)?;
                let colon = space(object, end);
                let is_key = depth == 1 && object.get(colon) == Some(&b':');
                if is_key && meaning(&object[at + 1..end - 1]).as_deref() == Some(b"sym") {
                    let value = space(object, colon + 1);
                    let end = (object.get(value) == Some(&b'"')).then(|| end_of_string(object, value))??;
                    return meaning(&object[value + 1..end - 1]);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Decodes a string with escapes.
fn meaning(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let mut units = Vec::new();
        while text.get(at..at + 2) == Some(b"\\u") {
            let digits = std::str::from_utf8(text.get(at + 2..at + 6)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            units.push(u16::from_str_radix(digits, 16).ok()?);
            at += 6;
        }
        if units.is_empty() {
            let names = *b"\"\\/bfnrt";
            let bytes = *b"\"\\/\x08\x0C\n\r\t";
            let name = text.get(at + 1)?;
            out.push(bytes[names.iter().position(|known| known == name)?]);
            at += 2;
        }
        out.extend(String::from_utf16(&units).ok()?.bytes());
    }
    Some(out)
}
