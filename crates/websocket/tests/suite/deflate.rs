//! Compressed messages: the examples of RFC 7692 section 7.2.3, round trips, and decompression
//! bombs.

use pitwire_random::SplitMix64;
use pitwire_websocket::{
    Decoder, Deflater, IncomingMessage, Inflater, MessageLimits, Offer, Opcode, Policy, Violation,
};

/// Returns a server's decoder for a client that made this offer.
fn decoder(offer: &str, limits: MessageLimits) -> Decoder {
    let agreed = Policy::default().answer([offer]).unwrap();
    Decoder::new(limits).with_deflate(agreed.as_ref())
}

/// Returns a client's decoder for a server that refers to earlier messages.
fn client() -> Decoder {
    let agreed = Offer { keeps_context: true }.judge(["permessage-deflate"]).unwrap();
    Decoder::of_server(MessageLimits::default()).with_deflate(agreed.as_ref())
}

fn masked(frame: &[u8]) -> Vec<u8> {
    let header = match frame[1] & 0x7F {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    let mask = [9, 8, 7, 6];
    let mut out = frame[..header].to_vec();
    out[1] |= 0x80;
    out.extend(mask);
    out.extend(frame[header..].iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}

fn run(decoder: &mut Decoder, bytes: &[u8], step: usize) -> String {
    let mut out: Vec<String> = Vec::new();
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            match decoder.decode(rest) {
                Ok((used, incoming)) => {
                    rest = &rest[used..];
                    match incoming {
                        Some(IncomingMessage::Text(text)) => out.push(text.to_owned()),
                        Some(other) => out.push(format!("{other:?}")),
                        None => {}
                    }
                }
                Err(error) => {
                    out.push(format!("!{}", error.code as u16));
                    return out.join(" ");
                }
            }
        }
    }
    out.join(" ")
}

#[test]
fn rfc_examples_are_decoded() {
    let hello = [0xC1, 0x07, 0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00];
    let table: [(&str, Vec<u8>, &str); 8] = [
        ("7.2.3.1, one frame", hello.to_vec(), "Hello"),
        (
            "7.2.3.1, two frames",
            vec![0x41, 0x03, 0xF2, 0x48, 0xCD, 0x89, 0x00, 0x80, 0x04, 0xC9, 0xC9, 0x07, 0x00],
            "Ping([]) Hello",
        ),
        (
            "7.2.3.2, the second refers to the first",
            [&hello[..], &[0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00]].concat(),
            "Hello Hello",
        ),
        (
            "7.2.3.3, not compressed",
            vec![0xC1, 0x0B, 0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00],
            "Hello",
        ),
        ("7.2.3.4, the stream is ended", vec![0xC1, 0x08, 0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00], "Hello"),
        (
            "7.2.3.5, two blocks",
            vec![0xC1, 0x0D, 0xF2, 0x48, 0x05, 0, 0, 0, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00],
            "Hello",
        ),
        ("7.2.3.6, empty", vec![0xC1, 0x01, 0x00], ""),
        ("between compressed ones, a plain one", [&hello[..], &[0x81, 1, b'x'], &hello].concat(), "Hello x Hello"),
    ];
    for (name, bytes, expected) in &table {
        for step in [1, 2, bytes.len()] {
            assert_eq!(&run(&mut client(), bytes, step), expected, "{name}, in pieces of {step}");
        }
    }
}

#[test]
fn compression_round_trips_for_every_window() {
    let mut noise = SplitMix64::new(1);
    let mut byte = || noise.next().to_be_bytes()[0];
    let mut payloads: Vec<Vec<u8>> = vec![Vec::new(), b"x".to_vec(), vec![b'a'; 30_000]];
    payloads.push((0..20_000).map(|_| byte() % 16).collect());
    payloads.push((0..32_768).map(|_| byte()).collect());
    payloads.push(r#"{"seq":1,"ts_ns":1795219359706101000,"price":"3250.00"}"#.repeat(300).into_bytes());
    // Data that refers back farther than the window.
    payloads.push([vec![1; 200], (0..600).map(|_| byte()).collect(), vec![1; 200]].concat());
    for bits in 9..=15 {
        let mut deflater = Deflater::new(6, bits);
        let mut inflater = Inflater::new(bits);
        for payload in payloads.iter().chain(&payloads) {
            let mut squeezed = Vec::new();
            assert!(deflater.deflate(payload, &mut squeezed));
            let mut out = b"before".to_vec();
            inflater.inflate_whole(&squeezed, &mut out, 6 + payload.len()).unwrap();
            assert_eq!(&out[6..], payload, "window {bits}");
            let mut frame = Vec::new();
            deflater.write_frame(&mut frame, Opcode::Binary, payload);
            assert_eq!(frame[0] & 0x40 != 0, squeezed.len() < payload.len(), "only what shrinks is compressed");
            let mut reader = decoder("permessage-deflate", MessageLimits::default());
            let decoded = run(&mut reader, &masked(&frame), 1000);
            assert_eq!(decoded, format!("{:?}", IncomingMessage::Binary(payload)));
        }
    }
}

#[test]
fn compressed_message_is_independent_of_earlier_ones() {
    let (mut one, mut other) = (Deflater::new(3, 15), Deflater::new(3, 15));
    let payload = b"the same text, the same text, the same text";
    let (mut first, mut second) = (Vec::new(), Vec::new());
    other.write_frame(&mut Vec::new(), Opcode::Text, &payload.repeat(3));
    one.write_frame(&mut first, Opcode::Text, payload);
    other.write_frame(&mut second, Opcode::Text, payload);
    assert_eq!(first, second);
    assert!(first.len() < payload.len());
}

#[test]
fn decompression_bomb_is_stopped_at_the_limit() {
    let mut bomb = Vec::new();
    Deflater::new(9, 15).deflate(&vec![0; 10 << 20], &mut bomb);
    assert!(bomb.len() < 12_000, "ten megabytes in {} bytes", bomb.len());
    let (mut out, most) = (Vec::new(), 32 * 1024);
    assert_eq!(Inflater::new(15).inflate_whole(&bomb, &mut out, most), Err(Violation::MessageTooLong));
    assert!(out.capacity() <= 2 * most, "{}", out.capacity());
    let mut frame = vec![0xC2, 126];
    frame.extend(u16::try_from(bomb.len()).unwrap().to_be_bytes());
    frame.extend(&bomb);
    for step in [1, 100, usize::MAX] {
        let mut reader = decoder("permessage-deflate", MessageLimits::default());
        assert_eq!(run(&mut reader, &masked(&frame), step), "!1009");
    }
    // The limit applies to the message: exactly that size is accepted, compressed or not.
    for (bytes, expected) in [(most, None), (most + 1, Some("!1009"))] {
        for plain in [false, true] {
            let (payload, mut frame) = (vec![b'x'; bytes], Vec::new());
            if plain {
                pitwire_websocket::write_frame(&mut frame, Opcode::Text, &payload);
            } else {
                Deflater::new(6, 15).write_frame(&mut frame, Opcode::Text, &payload);
            }
            let decoded = run(&mut decoder("permessage-deflate", MessageLimits::default()), &masked(&frame), 4096);
            assert_eq!(decoded, expected.map_or(String::from_utf8(payload).unwrap(), str::to_owned), "{bytes} {plain}");
        }
    }
}

#[test]
fn invalid_compressed_data_or_text_fails() {
    let reader = || decoder("permessage-deflate", MessageLimits::default());
    for (name, frame, expected) in [
        ("a block of the reserved kind", vec![0xC1, 0x02, 0x06, 0x00], "!1007"),
        ("a distance beyond the beginning", vec![0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00], "!1007"),
        ("a stored block with a wrong length", vec![0xC1, 0x05, 0x00, 0x05, 0x00, 0x00, 0x00], "!1007"),
        ("a compressed continuation", vec![0x41, 0x01, 0xF2, 0xC0, 0x01, 0x00], "!1002"),
        ("a compressed ping", vec![0xC9, 0x00], "!1002"),
        ("a compressed close", vec![0xC8, 0x00], "!1002"),
        ("another reserved bit", vec![0xA1, 0x00], "!1002"),
        ("text that is none, stored", vec![0xC1, 0x07, 0x00, 0x01, 0x00, 0xFE, 0xFF, 0xFF, 0x00], "!1007"),
    ] {
        let mut bytes = Vec::new();
        let mut rest = &frame[..];
        while let [_, length, ..] = *rest {
            let (now, later) = rest.split_at(2 + usize::from(length));
            bytes.extend(masked(now));
            rest = later;
        }
        assert_eq!(run(&mut reader(), &bytes, bytes.len()), expected, "{name}");
        assert_eq!(run(&mut reader(), &bytes, 1), expected, "{name}, byte by byte");
    }
    // Without an agreement the bit is reserved.
    let hello = masked(&[0xC1, 0x07, 0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]);
    assert_eq!(run(&mut Decoder::new(MessageLimits::default()), &hello, 100), "!1002");
    assert_eq!(run(&mut decoder("x-other", MessageLimits::default()), &hello, 100), "!1002");
}

#[test]
fn independent_messages_keep_no_inflater() {
    let hello = masked(&[0xC1, 0x07, 0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]);
    let mut reader = decoder("permessage-deflate", MessageLimits::default());
    assert_eq!(run(&mut reader, &hello[..8], 100), "");
    assert!(format!("{reader:?}").contains("inflater: Some"));
    assert_eq!(run(&mut reader, &hello[8..], 100), "Hello");
    assert!(format!("{reader:?}").contains("inflater: None"));
    assert_eq!(run(&mut reader, &masked(&[0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00]), 100), "!1007");
}
