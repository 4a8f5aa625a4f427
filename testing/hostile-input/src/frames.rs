//! Hostile input for the WebSocket decoder, from either side, compared with a slow and simple
//! decoder.
//!
//! Does        take an input as a stream of frames, or as a message that is compressed first; feed
//!             it whole and in pieces whose length comes from the input too; and panic when a
//!             message, the end or a size differs.
//! Leaves out  which of several faults of a compressed message is reported.
//! Start at    [`run`].

use pitwire_websocket::{Decoder, DeflateAgreement, Deflater, IncomingMessage, MessageLimits, Opcode, Policy};

const LIMITS: MessageLimits = MessageLimits { message_bytes: 600, fragments: 5 };

/// Output of a decoder, with the close code that ends it.
#[derive(Debug, PartialEq, Eq)]
enum DecodedItem {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>),
    Failed(u16),
}

/// The first byte chooses the side and whether messages may be compressed, the second the length of
/// the pieces.
pub fn run(input: &[u8]) {
    let [how, step, rest @ ..] = input else { return };
    let is_client = how & 1 == 0;
    match how >> 1 & 3 {
        0 | 1 => plain(rest, is_client, usize::from(*step)),
        2 => deflated(rest, is_client, usize::from(*step)),
        _ => there_and_back(rest, 9 + step % 7),
    }
}

fn plain(stream: &[u8], is_client: bool, step: usize) {
    let expected = reference_decode(stream, is_client);
    for step in [usize::MAX, 1, step.max(2)] {
        assert_eq!(decoded(decoder(is_client, None), stream, step), expected, "in pieces of {step}");
    }
}

fn deflated(stream: &[u8], is_client: bool, step: usize) {
    let agreed = agreed();
    let fate = |step| {
        let mut decoded = decoded(decoder(is_client, Some(&agreed)), stream, step);
        // Invalid text in a message that is also too long: either fault may be reported.
        if let Some(DecodedItem::Failed(code @ (1007 | 1009))) = decoded.last_mut() {
            *code = 0;
        }
        decoded
    };
    let whole = fate(usize::MAX);
    assert_eq!(fate(1), whole);
    assert_eq!(fate(step.max(2)), whole);
}

fn there_and_back(payload: &[u8], window_bits: u8) {
    let mut frame = Vec::new();
    Deflater::new(1 + u32::from(window_bits) % 9, window_bits).write_frame(&mut frame, Opcode::Binary, payload);
    assert!(frame.len() <= payload.len() + 10);
    let fits = payload.len() <= LIMITS.message_bytes;
    let expected = if fits { DecodedItem::Binary(payload.to_vec()) } else { DecodedItem::Failed(1009) };
    assert_eq!(decoded(decoder(false, Some(&agreed())), &frame, usize::MAX), [expected]);
}

fn agreed() -> DeflateAgreement {
    match Policy::default().answer(["permessage-deflate"]) {
        Ok(Some(agreed)) => agreed,
        other => panic!("{other:?}"),
    }
}

fn decoder(is_client: bool, agreed: Option<&DeflateAgreement>) -> Decoder {
    let decoder = if is_client { Decoder::new(LIMITS) } else { Decoder::of_server(LIMITS) };
    decoder.with_deflate(agreed)
}

fn decoded(mut decoder: Decoder, stream: &[u8], step: usize) -> Vec<DecodedItem> {
    let mut decoded = Vec::new();
    for piece in stream.chunks(step) {
        // A separate copy, so that a read beyond the piece is a read beyond an allocation.
        let piece = piece.to_vec();
        let mut used = 0;
        while used < piece.len() {
            match decoder.decode(&piece[used..]) {
                Err(error) => {
                    decoded.push(DecodedItem::Failed(error.code as u16));
                    return decoded;
                }
                Ok((bytes, incoming)) => {
                    assert!(bytes > 0 && used + bytes <= piece.len(), "what is there is taken, and no more");
                    used += bytes;
                    decoded.extend(incoming.map(|incoming| word(&incoming)));
                    if let Some(DecodedItem::Close(_)) = decoded.last() {
                        return decoded;
                    }
                }
            }
        }
    }
    decoded
}

fn word(incoming: &IncomingMessage<'_>) -> DecodedItem {
    let fits = |bytes: usize| assert!(bytes <= LIMITS.message_bytes, "a message above its limit came through");
    match incoming {
        IncomingMessage::Text(text) => {
            fits(text.len());
            DecodedItem::Text((*text).to_owned())
        }
        IncomingMessage::Binary(bytes) => {
            fits(bytes.len());
            DecodedItem::Binary(bytes.to_vec())
        }
        IncomingMessage::Ping(body) => DecodedItem::Ping(body.to_vec()),
        IncomingMessage::Pong => DecodedItem::Pong,
        IncomingMessage::Close(code) => DecodedItem::Close(*code),
    }
}

/// Decodes by reading RFC 6455 section 5 from top to bottom, with all bytes at hand.
fn reference_decode(stream: &[u8], is_client: bool) -> Vec<DecodedItem> {
    let mut decoded = Vec::new();
    let mut rest = stream;
    let mut message: Option<(bool, Vec<u8>, u32)> = None;
    while let Some(frame) = frame(rest, is_client, message.as_ref().map(|(_, bytes, count)| (bytes.len(), *count))) {
        let (opcode, is_final, payload, next) = match frame {
            Err(code) => {
                decoded.push(DecodedItem::Failed(code));
                return decoded;
            }
            Ok(frame) => frame,
        };
        match (opcode, next) {
            (0..=2, next) => {
                let (is_text, bytes, count) = message.get_or_insert((opcode == 1, Vec::new(), 0));
                bytes.extend(payload);
                *count += 1;
                let ends = is_final && next.is_some();
                let verdict = std::str::from_utf8(bytes).err().filter(|error| ends || error.error_len().is_some());
                if *is_text && verdict.is_some() {
                    decoded.push(DecodedItem::Failed(1007));
                    return decoded;
                }
                if ends {
                    decoded.extend(message.take().map(|(is_text, bytes, _)| match String::from_utf8(bytes) {
                        Ok(text) if is_text => DecodedItem::Text(text),
                        Ok(text) => DecodedItem::Binary(text.into_bytes()),
                        Err(error) => DecodedItem::Binary(error.into_bytes()),
                    }));
                }
            }
            (_, None) => {}
            (9, _) => decoded.push(DecodedItem::Ping(payload)),
            (10, _) => decoded.push(DecodedItem::Pong),
            _ => {
                decoded.push(close(&payload));
                return decoded;
            }
        }
        match next {
            Some(next) => rest = next,
            None => return decoded,
        }
    }
    decoded
}

fn close(body: &[u8]) -> DecodedItem {
    match body {
        [] => DecodedItem::Close(None),
        [_] => DecodedItem::Failed(1002),
        [high, low, reason @ ..] => {
            let code = u16::from(*high) << 8 | u16::from(*low);
            let is_legal = [1000, 1001, 1002, 1003].contains(&code) || (1007..1015).contains(&code) || code / 1000 == 3;
            match std::str::from_utf8(reason) {
                _ if !(is_legal || code / 1000 == 4) => DecodedItem::Failed(1002),
                Err(_) => DecodedItem::Failed(1007),
                Ok(_) => DecodedItem::Close(Some(code)),
            }
        }
    }
}

type Frame<'a> = (u8, bool, Vec<u8>, Option<&'a [u8]>);

/// Takes one frame off the front: opcode, end bit, payload as far as it has arrived, and the rest
/// if the frame is complete. `None` while nothing can be decided. `begun` is the content of a
/// message that has begun.
fn frame(bytes: &[u8], is_client: bool, begun: Option<(usize, u32)>) -> Option<Result<Frame<'_>, u16>> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (opcode, is_final) = (first & 15, first >= 128);
    let is_control = opcode >= 8;
    let known = [0, 1, 2, 8, 9, 10].contains(&opcode);
    let in_order = is_control || (opcode == 0) == begun.is_some();
    let is_masked = second >= 128;
    if first & 0x70 != 0 || !known || !in_order || is_masked != is_client {
        return Some(Err(1002));
    }
    let short = u64::from(second & 127);
    if is_control && (!is_final || short > 125) {
        return Some(Err(1002));
    }
    let (spelt, least) = match short {
        126 => (2, 126),
        127 => (8, 65_536),
        _ => (0, 0),
    };
    let spelling = bytes.get(2..2 + spelt)?;
    let length = if spelt == 0 { short } else { spelling.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) };
    if length < least || length > u64::MAX / 2 {
        return Some(Err(1002));
    }
    if !is_control {
        let (held, count) = begun.unwrap_or((0, 0));
        let most = LIMITS.message_bytes as u64;
        if length > most || held as u64 + length > most {
            return Some(Err(1009));
        }
        if count + 1 > LIMITS.fragments {
            return Some(Err(1008));
        }
    }
    let mut start = 2 + spelt;
    let mask = if is_masked { bytes.get(start..start + 4)? } else { &[0; 4] };
    start += if is_masked { 4 } else { 0 };
    let end = start + usize::try_from(length).unwrap_or(usize::MAX);
    let payload = bytes[start..end.min(bytes.len())].iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]);
    Some(Ok((opcode, is_final, payload.collect(), bytes.get(end..))))
}

/// Frames of every kind from both sides, and compressed ones.
pub fn seeds() -> Vec<Vec<u8>> {
    let spell = |first: u8, payload: &[u8], is_client: bool| {
        let mask = if is_client { vec![1, 2, 3, 4] } else { vec![] };
        let mut out = vec![first];
        let bit = u8::from(is_client) << 7;
        match u8::try_from(payload.len()) {
            Ok(length @ 0..=125) => out.push(bit | length),
            _ => {
                out.push(bit | 126);
                out.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
            }
        }
        out.extend(&mask);
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask.get(at % 4).unwrap_or(&0)));
        out
    };
    let mut squeezed = Vec::new();
    Deflater::new(6, 15).deflate(&b"the same, the same, the same".repeat(4), &mut squeezed);
    let mut bomb = Vec::new();
    Deflater::new(9, 15).deflate(&[b'a'; 20_000], &mut bomb);
    let streams: [&[(u8, &[u8])]; 14] = [
        &[(0x81, b"Hello")],
        &[(0x82, &[0xFF, 0, 1])],
        &[(0x01, b"Hel"), (0x89, b"?"), (0x00, b""), (0x80, b"lo")],
        &[(0x01, &[0xC3]), (0x80, &[0xA9])],
        &[(0x81, &[b'x'; 300]), (0x8A, b"!"), (0x88, b"\x03\xE8bye")],
        &[(0x81, &[0xED, 0xA0, 0x80])],
        &[(0x88, b"")],
        &[(0x88, b"\x03")],
        &[(0x01, b"a"), (0x00, b"b"), (0x00, b"c"), (0x00, b"d"), (0x00, b"e"), (0x80, b"f")],
        &[(0x01, &[b'x'; 400]), (0x80, &[b'x'; 201])],
        &[(0xC1, &[0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]), (0x81, b"plain")],
        &[(0x41, &[0xF2, 0x48, 0xCD]), (0x89, b""), (0x80, &[0xC9, 0xC9, 0x07, 0x00])],
        &[(0xC1, &squeezed)],
        &[(0xC2, &bomb)],
    ];
    let mut seeds = Vec::new();
    for (number, frames) in streams.iter().enumerate() {
        for is_client in [true, false] {
            let stream: Vec<u8> =
                frames.iter().flat_map(|(first, payload)| spell(*first, payload, is_client)).collect();
            let how = u8::from(!is_client) | if number >= 10 { 4 } else { 0 };
            seeds.push([&[how, 3][..], &stream].concat());
        }
    }
    seeds.push([&[6, 2][..], &b"there and back, there and back".repeat(10)].concat());
    seeds.push([&[0, 0, 0x82, 0xFF][..], &(1_u64 << 63).to_be_bytes(), &[0; 4]].concat());
    seeds
}
