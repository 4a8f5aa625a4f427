//! The cases of `contracts/vectors/websocket/frames.json`, for both sides.

use std::collections::BTreeSet;

use pitwire_websocket::{Decoder, IncomingMessage, MessageLimits};
use serde_json::Value;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sender {
    Client,
    Server,
}

const SENDERS: [Sender; 2] = [Sender::Client, Sender::Server];

struct Case {
    name: String,
    is_cut: bool,
    wrong_at: Option<usize>,
    frames: Vec<Value>,
    expect: Vec<String>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("../../../../contracts/vectors/websocket/frames.json");
    let list: Vec<Value> = serde_json::from_str(text).unwrap();
    let case = |value: &Value| Case {
        name: value["name"].as_str().unwrap().to_owned(),
        is_cut: value["cut"] == true,
        wrong_at: value["wrong_at"].as_u64().map(|at| usize::try_from(at).unwrap()),
        frames: value["frames"].as_array().unwrap().clone(),
        expect: value["expect"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect(),
    };
    list.iter().map(case).collect()
}

fn payload(frame: &Value) -> Vec<u8> {
    if let Some(text) = frame["text"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(digits) = frame["hex"].as_str() {
        return hex::decode(digits).unwrap();
    }
    let fill = frame["fill"].as_array();
    fill.map_or(Vec::new(), |fill| {
        vec![fill[0].as_str().unwrap().as_bytes()[0]; usize::try_from(fill[1].as_u64().unwrap()).unwrap()]
    })
}

fn opcode(op: &Value) -> u8 {
    match op.as_str() {
        None => u8::try_from(op.as_u64().unwrap()).unwrap(),
        Some("continuation") => 0,
        Some("text") => 1,
        Some("binary") => 2,
        Some("close") => 8,
        Some("ping") => 9,
        Some("pong") => 10,
        Some(other) => panic!("no opcode: {other}"),
    }
}

/// Encodes a frame independently of the crate under test.
fn bytes_of(frame: &Value, sender: Sender) -> Vec<u8> {
    let payload = payload(frame);
    let fin = frame["fin"] != false;
    let rsv = u8::try_from(frame["rsv"].as_u64().unwrap_or(0)).unwrap();
    let mut out = vec![u8::from(fin) << 7 | rsv << 4 | opcode(&frame["op"])];
    let is_masked = (sender == Sender::Client) != (frame["mask"] == "wrong");
    let mask_bit = u8::from(is_masked) << 7;
    let length = frame["announce"].as_u64().unwrap_or(payload.len() as u64);
    match (frame["length"].as_str(), length) {
        (None, 0..=125) => out.push(mask_bit | u8::try_from(length).unwrap()),
        (None, 126..=0xFFFF) | (Some("16"), _) => {
            out.push(mask_bit | 126);
            out.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        _ => {
            out.push(mask_bit | 127);
            out.extend(length.to_be_bytes());
        }
    }
    let mask = if frame["mask"] == "zero" { [0; 4] } else { [0x37, 0xfa, 0x21, 0x3d] };
    if is_masked {
        out.extend(mask);
    }
    let key = |at: usize| if is_masked { mask[at % 4] } else { 0 };
    out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ key(at)));
    let times = usize::try_from(frame["times"].as_u64().unwrap_or(1)).unwrap();
    out.repeat(times)
}

fn stream(frames: &[Value], sender: Sender) -> Vec<u8> {
    frames.iter().flat_map(|frame| bytes_of(frame, sender)).collect()
}

fn word(incoming: &IncomingMessage<'_>) -> [String; 2] {
    match incoming {
        IncomingMessage::Text(text) => [format!("text:{text}"), format!("text#{}", text.len())],
        IncomingMessage::Binary(bytes) => [format!("binary:{}", hex::encode(bytes)), format!("binary#{}", bytes.len())],
        IncomingMessage::Ping(bytes) => [format!("ping:{}", hex::encode(bytes)), format!("ping#{}", bytes.len())],
        IncomingMessage::Pong => ["pong".into(), String::new()],
        IncomingMessage::Close(code) => {
            [format!("close:{}", code.map_or(String::new(), |code| code.to_string())), String::new()]
        }
    }
}

/// Returns the decoded messages, and the number of bytes after which the connection failed.
fn play(pieces: &[&[u8]], sender: Sender) -> (Vec<[String; 2]>, usize) {
    let mut decoder = match sender {
        Sender::Client => Decoder::new(MessageLimits::default()),
        Sender::Server => Decoder::of_server(MessageLimits::default()),
    };
    let (mut decoded, mut taken) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (used, incoming) = match decoder.decode(rest) {
                Ok(decoded) => decoded,
                Err(error) => {
                    decoded.push([format!("fail:{}", error.code as u16), String::new()]);
                    return (decoded, taken + piece.len());
                }
            };
            assert!(used > 0, "bytes that are there are taken");
            rest = &rest[used..];
            if let Some(incoming) = incoming {
                decoded.push(word(&incoming));
                if let IncomingMessage::Close(_) = incoming {
                    return (decoded, taken);
                }
            }
        }
        taken += piece.len();
    }
    (decoded, taken)
}

fn is_as_expected(decoded: &[[String; 2]], expect: &[String]) -> bool {
    decoded.len() == expect.len() && decoded.iter().zip(expect).all(|(decoded, expect)| decoded.contains(expect))
}

#[test]
fn every_case_gives_its_result_however_it_is_split() {
    let cases = cases();
    assert!(cases.len() > 200, "{}", cases.len());
    for case in &cases {
        for sender in SENDERS {
            let stream = stream(&case.frames, sender);
            let check = |pieces: &[&[u8]], how: &str| {
                let (decoded, _) = play(pieces, sender);
                assert!(is_as_expected(&decoded, &case.expect), "{}, {sender:?}, {how}: {decoded:?}", case.name);
            };
            check(&[&stream], "whole");
            check(&stream.chunks(1).collect::<Vec<_>>(), "byte by byte");
            for at in 1..stream.len().min(300) {
                let (now, later) = stream.split_at(at);
                check(&[now, later], &format!("cut at {at}"));
            }
        }
    }
}

#[test]
fn text_may_be_fragmented_anywhere() {
    for case in cases().iter().filter(|case| case.is_cut) {
        let whole = payload(&case.frames[0]);
        for at in 0..=whole.len() {
            let piece =
                |op: &str, bytes: &[u8], fin| serde_json::json!({"op": op, "hex": hex::encode(bytes), "fin": fin});
            let frames = [
                piece("text", &whole[..at], false),
                serde_json::json!({"op": "pong"}),
                piece("continuation", &whole[at..], true),
            ];
            for sender in SENDERS {
                let (mut decoded, _) = play(&[&stream(&frames, sender)], sender);
                // The connection may fail before the pong is read.
                decoded.retain(|word| word[0] != "pong");
                assert!(is_as_expected(&decoded, &case.expect), "{}, cut at {at}: {decoded:?}", case.name);
            }
        }
    }
}

#[test]
fn invalid_utf8_fails_at_its_first_wrong_byte() {
    let cases = cases();
    let broken: Vec<&Case> = cases.iter().filter(|case| case.wrong_at.is_some()).collect();
    assert!(broken.len() > 40);
    for case in broken {
        for sender in SENDERS {
            let stream = stream(&case.frames, sender);
            let header = if sender == Sender::Client { 6 } else { 2 };
            let (_, failed_at) = play(&stream.chunks(1).collect::<Vec<_>>(), sender);
            assert_eq!(Some(failed_at), case.wrong_at.map(|at| header + at + 1), "{}, {sender:?}", case.name);
        }
    }
}

#[test]
fn each_close_code_is_classified() {
    let legal: BTreeSet<u16> = (1000..=1003).chain(1007..=1014).chain(3000..=4999).collect();
    for code in 0..=u16::MAX {
        let bytes = [&[0x88, 2][..], &code.to_be_bytes()].concat();
        let (decoded, _) = play(&[&bytes], Sender::Server);
        let expected = if legal.contains(&code) { format!("close:{code}") } else { "fail:1002".into() };
        assert_eq!(decoded[0][0], expected);
    }
}

#[test]
fn announced_bytes_allocate_nothing() {
    let mut decoder = Decoder::new(MessageLimits { message_bytes: 1 << 30, fragments: 64 });
    let header = [0x82, 0xFF, 0, 0, 0, 0, 0x3F, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4];
    assert_eq!(decoder.decode(&header), Ok((header.len(), None)));
    assert!(decoder.is_mid_message());
    assert!(format!("{decoder:?}").contains("message: []"));
}
