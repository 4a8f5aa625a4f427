//! RFC 6455 on the receiving side of a client, with the errors of the original program.

use crate::support::*;
use pitwire_feed::{MissingSymbol, OBJECT_BYTES_MAX, ObjectReader, SimdLevel, Violation};
use pitwire_reference_feed::FeedEvent;

const TRADE: &str = r#"{"ev":"T","sym":"AAPL","p":187.25,"s":100}"#;

fn trades(count: usize) -> String {
    format!("[{}]", [TRADE].repeat(count).join(","))
}

/// Feeds the stream whole, byte by byte, and, if it is short, cut in two at each byte.
fn everyhow(stream: &[u8]) -> Outcome {
    check(stream, &[1]);
    for at in 1..stream.len().min(400) {
        check(stream, &[at, stream.len()]);
    }
    check(stream, &[])
}

fn violation_of(stream: &[u8]) -> Option<Violation> {
    everyhow(stream).violation
}

#[test]
fn invalid_headers_are_refused_with_their_codes() {
    let body = [b'x'; 126];
    let long = |first: u8, second: u8, length: &[u8]| [&[first, second], length].concat();
    let table: &[(&str, Vec<u8>, Violation, u16)] = &[
        ("reserved bit 1", frame(TEXT | 0x40, b"[]"), Violation::ReservedBits, 1002),
        ("reserved bit 2", frame(TEXT | 0x20, b"[]"), Violation::ReservedBits, 1002),
        ("reserved bit 3", frame(PING | 0x10, b""), Violation::ReservedBits, 1002),
        ("opcode 3", frame(0x83, b"[]"), Violation::ReservedOpcode(3), 1002),
        ("opcode 7", frame(0x87, b"[]"), Violation::ReservedOpcode(7), 1002),
        ("opcode 11", frame(0x8B, b""), Violation::ReservedOpcode(11), 1002),
        ("opcode 15", frame(0x8F, b""), Violation::ReservedOpcode(15), 1002),
        ("masked", vec![TEXT, 0x82, 1, 2, 3, 4, 0, 0], Violation::MaskedFrame, 1002),
        ("masked ping", vec![PING, 0x80, 1, 2, 3, 4], Violation::MaskedFrame, 1002),
        ("ping of 126 bytes", frame(PING, &body), Violation::ControlTooLong, 1002),
        ("ping with a 64-bit length", long(PING, 127, &[0; 8]), Violation::ControlTooLong, 1002),
        ("fragmented ping", frame(0x09, b"x"), Violation::ControlFragmented, 1002),
        ("fragmented close", frame(0x08, b""), Violation::ControlFragmented, 1002),
        ("stray final continuation", frame(END, b"[]"), Violation::StrayContinuation, 1002),
        ("stray continuation", frame(GO_ON, b"[]"), Violation::StrayContinuation, 1002),
        ("2^63 bytes", long(TEXT, 127, &(1_u64 << 63).to_be_bytes()), Violation::Length, 1002),
        ("2^64 - 1 bytes", long(TEXT, 127, &u64::MAX.to_be_bytes()), Violation::Length, 1002),
        ("125 in 16 bits", long(TEXT, 126, &125_u16.to_be_bytes()), Violation::Length, 1002),
        ("65,535 in 64 bits", long(TEXT, 127, &65_535_u64.to_be_bytes()), Violation::Length, 1002),
        ("2^62 bytes", long(TEXT, 127, &(1_u64 << 62).to_be_bytes()), Violation::FrameTooLong(1 << 62), 1009),
        ("close of one byte", frame(CLOSE, b"x"), Violation::CloseBody, 1002),
        ("close reason not UTF-8", frame(CLOSE, b"\x03\xE8\xFF"), Violation::CloseReason, 1007),
    ];
    for (name, bytes, violation, code) in table {
        assert_eq!(violation_of(bytes), Some(*violation), "{name}");
        assert_eq!(violation.close_code(), *code, "{name}");
        // Behind a trade, which is delivered before the connection fails.
        let outcome = everyhow(&[text(&trades(1)), bytes.clone(), text(&trades(1))].concat());
        assert_eq!(outcome.violation, Some(*violation), "{name}");
        assert_eq!(outcome.objects().len(), 1, "{name}");
    }
}

#[test]
fn a_message_inside_a_message_is_refused() {
    let begun = frame(BEGIN, b"[");
    assert_eq!(violation_of(&[begun.clone(), text("[]")].concat()), Some(Violation::Interrupted));
    assert_eq!(violation_of(&[begun, frame(BINARY, b"[]")].concat()), Some(Violation::Interrupted));
    let ended = [frame(BEGIN, b"["), frame(END, b"]"), frame(END, b"")].concat();
    assert_eq!(violation_of(&ended), Some(Violation::StrayContinuation));
}

#[test]
fn close_codes_are_checked() {
    for code in 0..=5100_u16 {
        let stream = frame(CLOSE, &code.to_be_bytes());
        let is_legal = matches!(code, 1000 | 1001 | 1002 | 1003 | 1007..=1014 | 3000..=4999);
        let outcome = check(&stream, &[]);
        assert_eq!(outcome.violation.is_none(), is_legal, "{code}");
        assert_eq!(outcome.events.len(), usize::from(is_legal), "{code}");
    }
}

#[test]
fn a_close_frame_is_reported_and_ends_the_stream() {
    let reason = "going away, übermorgen".as_bytes();
    let body = [&1001_u16.to_be_bytes()[..], reason].concat();
    let stream = [text(&trades(2)), frame(CLOSE, &body), text(&trades(1)), vec![0xFF; 40]].concat();
    let outcome = everyhow(&stream);
    assert_eq!(outcome.violation, None);
    assert_eq!(outcome.events.last(), Some(&FeedEvent::Close(Some(1001), reason.to_vec())));
    assert_eq!(outcome.objects().len(), 2);
    assert_eq!(everyhow(&frame(CLOSE, b"")).events, [FeedEvent::Close(None, Vec::new())]);
}

#[test]
fn pings_arrive_with_their_bodies_at_any_position() {
    for bytes in [0, 1, 26, 27, 32, 33, 125] {
        let body: Vec<u8> = (0..bytes).collect();
        let (now, later) = ("[".to_owned() + &TRADE[..20], TRADE[20..].to_owned() + "]");
        let stream = [
            frame(BEGIN, now.as_bytes()),
            frame(PING, &body),
            frame(PONG, &body),
            frame(GO_ON, b""),
            frame(END, later.as_bytes()),
        ]
        .concat();
        let outcome = everyhow(&stream);
        assert_eq!(outcome.events[..2], [FeedEvent::Ping(body.clone()), FeedEvent::Pong(body)]);
        assert_eq!(outcome.objects(), [TRADE]);
        assert_eq!(outcome.counters.frames, 3);
        assert_eq!(outcome.counters.messages, 1);
    }
}

#[test]
fn all_forms_of_length_are_read() {
    for payload_bytes in [2, 125, 126, 127, 65_535, 65_536, 70_000, OBJECT_BYTES_MAX + 10] {
        let text_payload = format!("[{TRADE}{}]", " ".repeat(payload_bytes.max(TRADE.len() + 2) - TRADE.len() - 2));
        let stream = [text(&text_payload), text(&trades(1))].concat();
        for lengths in [vec![], vec![4096], vec![65_537, 3]] {
            assert_eq!(check(&stream, &lengths).objects(), [TRADE, TRADE], "{payload_bytes}");
        }
    }
}

#[test]
fn any_fragmentation_gives_the_same_objects() {
    let payload = trades(5);
    for size in 1..payload.len() {
        let pieces: Vec<&[u8]> = payload.as_bytes().chunks(size).collect();
        let mut stream = frame(BEGIN, b"");
        for piece in &pieces {
            stream.extend(frame(GO_ON, piece));
            stream.extend(frame(GO_ON, b""));
        }
        stream.extend(frame(END, b""));
        assert_eq!(check(&stream, &[]).objects(), [TRADE; 5], "{size}");
        check(&stream, &[size + 1]);
    }
}

#[test]
fn messages_without_objects_are_skipped() {
    // Payload, malformed, not an array.
    let table = [
        ("[]", 0, 0),
        (" [ ] ", 0, 0),
        ("", 0, 1),
        ("   ", 0, 1),
        (r#"{"ev":"status"}"#, 0, 1),
        ("pong", 0, 1),
        ("\"[]\"", 0, 1),
        ("[1]", 1, 0),
        ("[1,null,\"]\",[2,[3]],true]", 5, 0),
        ("[", 1, 0),
        ("[,]", 2, 0),
        ("[]]", 1, 0),
        ("[] x", 1, 0),
        (r#"[{"ev":"T","sym":"A]"#, 1, 0),
        (r#"[{"ev":"T","sym":"A"]"#, 1, 0),
        ("]", 0, 1),
    ];
    for (payload, malformed, not_arrays) in table {
        let outcome = everyhow(&[text(payload), text(&trades(1))].concat());
        assert_eq!(outcome.objects(), [TRADE], "{payload}");
        assert_eq!((outcome.counters.malformed, outcome.counters.not_arrays), (malformed, not_arrays), "{payload}");
        assert_eq!(outcome.counters.messages, 2);
    }
}

#[test]
fn malformed_elements_are_skipped_and_the_next_is_found() {
    let odd = ["17", "nul", "\"a,]{\"", "[1,{\"sym\":\"B\"}]", "}", "", "tru e", "\\"];
    for element in odd {
        let outcome = everyhow(&text(&format!("[{TRADE},{element},{TRADE}]")));
        assert_eq!(outcome.objects(), [TRADE, TRADE], "{element}");
        assert_eq!(outcome.counters.malformed, 1, "{element}");
    }
    let missing_comma = everyhow(&text(&format!("[{TRADE}{TRADE},{TRADE}]")));
    assert_eq!(missing_comma.objects(), [TRADE, TRADE]);
    assert_eq!(missing_comma.counters.malformed, 1);
}

#[test]
fn objects_end_at_their_matching_brace() {
    let objects = [
        r#"{"ev":"T","sym":"A","x":"}"}"#,
        r#"{"ev":"T","sym":"A","x":"},{\"ev\":\"T\",\"sym\":\"B\"}"}"#,
        r#"{"ev":"T","sym":"A","x":"\\"}"#,
        r#"{"ev":"T","sym":"A","x":"\\\"}"}"#,
        r#"{"ev":"T","sym":"A","x":{"y":{},"z":[{},{}]}}"#,
        r#"{"ev":"T","sym":"A","legs":[{"ev":"T","sym":"B"},{"ev":"T","sym":"C"}]}"#,
        r#"{"ev":"T", "sym":"A"}"#,
        "{\n\t\"sym\" : \"A\"\r\n}",
        r#"{"sym":"A"}"#,
        r#"{"p":1,"sym":"A","q":"Ä}苹{果"}"#,
    ];
    let outcome = everyhow(&text(&format!("[{}]", objects.join(","))));
    assert_eq!(outcome.objects(), objects);
    let spaced = everyhow(&text(&format!(" [ {} ] ", objects.join(" ,\n"))));
    assert_eq!(spaced.objects(), objects);
}

#[test]
fn objects_without_a_symbol_are_dropped_or_go_to_worker_0() {
    let objects = [
        r#"{"ev":"status","status":"auth_success","message":"authenticated"}"#,
        r#"{"ev":"T","sym":7,"p":1,"filler":"to be longer than 32 bytes"}"#,
        r#"{"ev":"T","sym":"\q"}"#,
        r#"{"ev":"T","sym":"\ud800x"}"#,
        r#"{"more":{"sym":"A"}}"#,
        r#"{"list":["sym","A"]}"#,
        r#"{}"#,
    ];
    let stream = text(&format!("[{TRADE},{}]", objects.join(",")));
    for simd in all_simd_levels() {
        let dropped = cut(simd, &stream, &[], 4, MissingSymbol::Drop);
        assert_eq!(dropped.objects(), [TRADE]);
        assert_eq!((dropped.counters.objects, dropped.counters.no_sym), (1, 7));
        let kept = cut(simd, &stream, &[], 4, MissingSymbol::Worker0);
        assert_eq!(kept.objects()[1..], objects);
        assert_eq!((kept.counters.objects, kept.counters.no_sym), (8, 7));
        let to_first = |event: &FeedEvent| matches!(event, FeedEvent::Object { worker: 0, .. });
        assert!(kept.events[1..].iter().all(to_first));
    }
}

#[test]
fn the_longest_object_is_whole_and_a_longer_one_is_dropped() {
    for (bytes, kept) in [(OBJECT_BYTES_MAX - 1, true), (OBJECT_BYTES_MAX, true), (OBJECT_BYTES_MAX + 1, false)] {
        let (before, after) = (r#"{"ev":"T","sym":"BIG","x":""#, r#""}"#);
        let object = format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()));
        let stream = text(&format!("[{TRADE},{object},{TRADE}]"));
        for lengths in [vec![], vec![256 << 10], vec![65_000, 1], vec![OBJECT_BYTES_MAX]] {
            let outcome = check(&stream, &lengths);
            assert_eq!(outcome.objects().len(), if kept { 3 } else { 2 }, "{bytes} in {lengths:?}");
            assert_eq!(outcome.counters.oversized, u64::from(!kept));
        }
    }
}

#[test]
fn text_must_be_utf8_and_binary_need_not() {
    let bad: &[&[u8]] = &[
        b"\xFF",
        b"\xC0\xAF",
        b"\xE0\x80\x80",
        b"\xED\xA0\x80",
        b"\xF4\x90\x80\x80",
        b"\xF5",
        b"\x80",
        b"\xC3",
        b"\xE2\x82",
        b"\xF0\x9F\x8D",
    ];
    for bytes in bad {
        let object = [br#"{"ev":"T","sym":"AAPL","name":""#, *bytes, br#""}"#].concat();
        let payload = [b"[", TRADE.as_bytes(), b",", &object, b",", TRADE.as_bytes(), b"]"].concat();
        let outcome = everyhow(&frame(TEXT, &payload));
        assert_eq!(outcome.violation, Some(Violation::NotUtf8), "{bytes:x?}");
        assert_eq!(outcome.objects(), [TRADE], "what came before it was delivered: {bytes:x?}");
        let binary = everyhow(&frame(BINARY, &payload));
        assert_eq!((binary.violation, binary.events.len()), (None, 3), "{bytes:x?}");
        // At the end of a message: an incomplete character.
        let ended = everyhow(&frame(TEXT, &[trades(1).as_bytes(), bytes].concat()));
        assert_eq!(ended.violation, Some(Violation::NotUtf8), "{bytes:x?}");
        // Also in a message that is ignored.
        assert_eq!(violation_of(&frame(TEXT, &[b"hello ", *bytes].concat())), Some(Violation::NotUtf8));
    }
}

#[test]
fn frames_may_cut_a_character() {
    let name = "Ä苹🍏";
    let object = format!(r#"{{"ev":"T","sym":"AAPL","name":"{name}"}}"#);
    let payload = format!("[{object},{TRADE}]");
    for at in 0..payload.len() {
        let (now, later) = payload.as_bytes().split_at(at);
        let stream = [frame(BEGIN, now), frame(PING, b""), frame(END, later)].concat();
        assert_eq!(check(&stream, &[]).objects(), [&object, TRADE]);
        check(&stream, &[1]);
    }
}

#[test]
fn after_a_violation_every_call_returns_it() {
    let mut reader = ObjectReader::new(4, MissingSymbol::Drop);
    let mut seen = ScanOutput::default();
    assert_eq!(reader.feed(&frame(0x83, b""), &mut seen), Err(Violation::ReservedOpcode(3)));
    assert_eq!(reader.feed(&text(&trades(1)), &mut seen), Err(Violation::ReservedOpcode(3)));
    assert_eq!(seen.events, []);
}

#[test]
fn a_new_connection_starts_fresh_and_keeps_counting() {
    for simd in all_simd_levels() {
        let mut reader = ObjectReader::with_simd(simd, 4, MissingSymbol::Drop);
        let mut seen = ScanOutput::default();
        let whole = [frame(BEGIN, trades(2).as_bytes()), frame(PING, b"x")].concat();
        for at in 0..whole.len() {
            reader.feed(&whole[..at], &mut seen).unwrap();
            reader.restart();
            seen.events.clear();
            let before = reader.counters();
            reader.feed(&text(&trades(3)), &mut seen).unwrap();
            assert_eq!(seen.events.len(), 3);
            let after = reader.counters();
            assert_eq!((after.frames, after.objects), (before.frames + 1, before.objects + 3));
            assert_eq!(after.messages, before.messages + 1);
        }
        reader.feed(&frame(CLOSE, b""), &mut seen).unwrap();
        reader.restart();
        reader.feed(&frame(0x83, b""), &mut seen).unwrap_err();
        reader.restart();
        seen.events.clear();
        reader.feed(&text(&trades(1)), &mut seen).unwrap();
        assert_eq!(seen.events.len(), 1);
    }
}

#[test]
fn plain_objects_are_scanned_and_others_are_counted_as_unusual() {
    let quote = r#"{"ev":"Q","sym":"MSFT","bp":1.5,"filler":"to be longer than 32 bytes"}"#;
    let spaced = r#"{"ev": "T", "sym": "MSFT", "p": 1.5, "filler": "to be longer than 32 bytes"}"#;
    for simd in all_simd_levels() {
        let unusual = |stream: &[u8]| cut(simd, stream, &[], 4, MissingSymbol::Drop).counters.unusual;
        assert_eq!(unusual(&[text(&trades(100)), text(&trades(100))].concat()), 0);
        // A prefix is unusual once, then it is known. Known prefixes are not forgotten for it.
        let mixed = format!("[{}]", [TRADE, quote, spaced].repeat(100).join(","));
        assert_eq!(unusual(&text(&mixed)), 2);
        let escaped = format!(
            "[{}]",
            [TRADE, r#"{"ev":"T","sym":"A","x":"\n","filler":"to be longer than 32"}"#].repeat(50).join(",")
        );
        assert_eq!(unusual(&text(&escaped)), 50);
        let names = format!(
            "[{}]",
            [TRADE, r#"{"ev":"T","sym":"A","x":"Ä","filler":"to be longer than 32"}"#].repeat(50).join(",")
        );
        assert_eq!(unusual(&text(&names)), 0);
    }
}

#[test]
fn unsupported_instruction_sets_are_not_used() {
    assert!(SimdLevel::Words.is_supported());
    assert!(SimdLevel::detected().is_supported());
}
