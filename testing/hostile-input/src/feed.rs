//! Hostile input for the feed scanner: the fast paths against the slow reader.
//!
//! Does        take an input as a stream of frames, or as the text of one message in fragments;
//!             feed it in pieces whose lengths come from the input too; and panic when an event, a
//!             counter or a violation differs.
//! Leaves out  counters that say how an object was found (`unusual`, `cut`), which depend on the
//!             pieces.
//! Start at    [`run`].

use pitwire_feed::{MissingSymbol, Object, ObjectReader, ObjectSink, ScanCounters, SimdLevel, Violation};
use pitwire_reference_feed::{self as reference, FeedEvent};

const WORKERS: u32 = 4;
/// More bytes than the widest vectors scan at a time.
const STREAM_BYTES_MAX: usize = 20_000;
/// The slow reader reads a message again for each of its frames.
const FRAGMENTED_BYTES_MAX: usize = 8192;
const FRAGMENTS_MAX: usize = 64;

#[derive(Default)]
struct ScanOutput(Vec<FeedEvent>);

impl ObjectSink for ScanOutput {
    fn objects(&mut self, text: &[u8], objects: &[Object]) {
        self.0.extend(objects.iter().map(|object| FeedEvent::Object {
            text: text[object.start as usize..object.end as usize].to_vec(),
            worker: object.worker,
        }));
    }

    fn ping(&mut self, body: &[u8]) {
        self.0.push(FeedEvent::Ping(body.to_vec()));
    }

    fn pong(&mut self, body: &[u8]) {
        self.0.push(FeedEvent::Pong(body.to_vec()));
    }

    fn close(&mut self, code: Option<u16>, reason: &[u8]) {
        self.0.push(FeedEvent::Close(code, reason.to_vec()));
    }
}

/// The first byte chooses the meaning of the rest, the next two the length of the pieces.
pub fn run(input: &[u8]) {
    let [how, first, second, rest @ ..] = input else { return };
    let most = if how % 4 == 3 { FRAGMENTED_BYTES_MAX } else { STREAM_BYTES_MAX };
    let rest = &rest[..rest.len().min(most)];
    let stream = match how % 4 {
        0 | 1 => rest.to_vec(),
        2 => frame(0x81, rest),
        _ => fragments(rest, 1 + usize::from(how / 4)),
    };
    let no_sym = if how & 0x80 == 0 { MissingSymbol::Drop } else { MissingSymbol::Worker0 };
    let expected = reference::read(&stream, WORKERS, no_sym);
    let expected = (expected.events, expected.violation, comparable(expected.counters, expected.violation));
    // A block has 64 bytes and the longest header 32: pieces around these lengths, or everything.
    let lengths = match first {
        0 => [usize::MAX; 2],
        _ => [usize::from(*first), 1 + usize::from(*second) * 8],
    };
    for simd in SimdLevel::ALL.into_iter().filter(|simd| simd.is_supported()) {
        assert_eq!(cut(simd, &stream, &lengths, no_sym), expected, "{simd:?} in pieces of {lengths:?}");
    }
}

type Outcome = (Vec<FeedEvent>, Option<Violation>, ScanCounters);

fn cut(simd: SimdLevel, stream: &[u8], lengths: &[usize], no_sym: MissingSymbol) -> Outcome {
    let mut reader = ObjectReader::with_simd(simd, WORKERS, no_sym);
    let (mut seen, mut violation, mut rest) = (ScanOutput::default(), None, stream);
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, later) = rest.split_at(rest.len().min(*length));
        // A separate copy, so that a read beyond the piece is a read beyond an allocation.
        let piece = piece.to_vec();
        violation = reader.feed(&piece, &mut seen).err();
        rest = later;
    }
    (seen.0, violation, comparable(reader.counters(), violation))
}

/// Removes the counter that depends on the pieces: whether `non_object` just before a UTF-8
/// violation was counted.
fn comparable(counters: ScanCounters, violation: Option<Violation>) -> ScanCounters {
    let ScanCounters { malformed, not_arrays, .. } = counters;
    let (malformed, not_arrays) = if violation == Some(Violation::NotUtf8) { (0, 0) } else { (malformed, not_arrays) };
    ScanCounters { malformed, not_arrays, unusual: 0, cut: 0, ..counters }
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match u8::try_from(payload.len()) {
        Ok(length @ 0..=125) => out.push(length),
        _ => {
            out.push(126);
            out.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    out.extend(payload);
    out
}

/// Splits one text message into fragments of `bytes`, with a ping after the first.
fn fragments(payload: &[u8], bytes: usize) -> Vec<u8> {
    let mut stream = frame(0x01, b"");
    for (index, piece) in payload.chunks(bytes.max(payload.len() / FRAGMENTS_MAX)).enumerate() {
        stream.extend(frame(0x00, piece));
        if index == 0 {
            stream.extend(frame(0x89, b"?"));
        }
    }
    stream.extend(frame(0x80, b""));
    stream
}

/// UniformMessages as feeds send them and as they should not, and streams of frames of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let objects = [
        r#"{"ev":"T","sym":"AAPL","i":"52983525029461","x":4,"p":114.125,"s":100,"c":[37],"t":1606487400000,"z":3}"#,
        r#"{"ev":"T","sym":"BRK.A","p":400000.01,"s":1,"c":[12,37,41],"t":1606487400001,"z":1}"#,
        r#"{"ev":"Q","sym":"MSFT","bx":4,"ax":7,"bp":114.125,"ap":114.128,"bs":100,"as":160}"#,
        r#"{"ev":"T","sym":"O:SPY251219C00650000","p":1.5}"#,
        r#"{ "p" : 1.5 , "sym" : "TSLA" }"#,
        r#"{"ev":"T","s\u0079m":"\u0041APL\ud83d\ude00","x":"\\\""}"#,
        r#"{"ev":"T","sym":"AAPL","legs":[{"ev":"T","sym":"B"},{"ev":"T","sym":"C"}],"x":"},{"}"#,
        r#"{"ev":"T","sym":"AAPL","name":"Äpfel 苹果 🍏"}"#,
        r#"{"ev":"status","status":"auth_success","message":"authenticated"}"#,
        r#"{"ev":"T","sym":null}"#,
        "{}",
        "17",
        "[1,{}]",
    ];
    let mut messages: Vec<String> = objects.iter().map(|object| format!("[{object}]")).collect();
    messages.push(format!("[{}]", objects.join(",")));
    messages.push(format!(" [ {} , ] x", objects.join(" , ")));
    messages.push(format!("[{}]", [objects[0]].repeat(12).join(",")));
    messages.extend(["[]", "", "{}", "hello", "[", "[,]"].map(String::from));
    let mut seeds = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let index = u8::try_from(index).unwrap_or(0);
        seeds.push([&[2, index % 3 * 40, 3], message.as_bytes()].concat());
        seeds.push([&[3 + 8 * (index % 16), 7, index], message.as_bytes()].concat());
    }
    // Many objects per scan: all of one message, and messages of several frames in a row.
    let alike = |count: usize| format!("[{}]", [objects[0]].repeat(count).join(","));
    seeds.push([&[2, 0, 0], alike(180).as_bytes()].concat());
    seeds.push([&[0, 0, 0], &frame(0x81, alike(3).as_bytes()).repeat(40)[..]].concat());
    let text = frame(0x81, messages[0].as_bytes());
    let controls =
        [frame(0x89, b"?"), frame(0x8A, b"!"), frame(0x88, b"\x03\xE8bye"), frame(0x88, b""), frame(0x83, b"")];
    for control in controls {
        seeds.push([&[0, 20, 1], &text[..], &control, &text].concat());
        seeds.push([&[0x81, 1, 1], &frame(0x01, b"[{\"sym\":")[..], &control, &frame(0x80, b"\"A\"}]")].concat());
    }
    seeds.push([&[0, 0, 0, 0x82, 127][..], &300_u64.to_be_bytes()].concat());
    seeds
}
