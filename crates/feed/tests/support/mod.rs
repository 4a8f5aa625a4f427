//! Frames to feed, and the objects found in them.

use pitwire_feed::{MissingSymbol, Object, ObjectReader, ObjectSink, ScanCounters, SimdLevel, Violation};
use pitwire_reference_feed::{self as reference, FeedEvent};

pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8A;
pub const CLOSE: u8 = 0x88;
/// First, middle and last frame of a fragmented text.
pub const BEGIN: u8 = 0x01;
pub const GO_ON: u8 = 0x00;
pub const END: u8 = 0x80;

pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        len @ 0..126 => out.push(u8::try_from(len).unwrap()),
        len @ 126..0x1_0000 => {
            out.push(126);
            out.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            out.push(127);
            out.extend((len as u64).to_be_bytes());
        }
    }
    out.extend(payload);
    out
}

pub fn text(payload: &str) -> Vec<u8> {
    frame(TEXT, payload.as_bytes())
}

#[derive(Default)]
pub struct ScanOutput {
    pub events: Vec<FeedEvent>,
    pub frames: u64,
}

impl ObjectSink for ScanOutput {
    fn frames(&mut self, frames: u64) {
        assert!(frames >= self.frames);
        self.frames = frames;
    }

    fn objects(&mut self, text: &[u8], objects: &[Object]) {
        assert!(!objects.is_empty());
        self.events.extend(objects.iter().map(|object| FeedEvent::Object {
            text: text[object.start as usize..object.end as usize].to_vec(),
            worker: object.worker,
        }));
    }

    fn ping(&mut self, body: &[u8]) {
        self.events.push(FeedEvent::Ping(body.to_vec()));
    }

    fn pong(&mut self, body: &[u8]) {
        self.events.push(FeedEvent::Pong(body.to_vec()));
    }

    fn close(&mut self, code: Option<u16>, reason: &[u8]) {
        self.events.push(FeedEvent::Close(code, reason.to_vec()));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub events: Vec<FeedEvent>,
    pub counters: ScanCounters,
    pub violation: Option<Violation>,
}

impl Outcome {
    pub fn objects(&self) -> Vec<String> {
        let text = |event: &FeedEvent| match event {
            FeedEvent::Object { text, .. } => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }
}

/// Feeds `stream` in pieces of these lengths in turn, until it ends.
pub fn cut(simd: SimdLevel, stream: &[u8], lengths: &[usize], workers: u32, no_sym: MissingSymbol) -> Outcome {
    let mut reader = ObjectReader::with_simd(simd, workers, no_sym);
    let (mut seen, mut violation, mut rest) = (ScanOutput::default(), None, stream);
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let bytes = lengths.next().map_or(rest.len(), |length| (*length).clamp(1, rest.len()));
        // A copy, so that a read beyond the piece is a read beyond an allocation.
        let piece = rest[..bytes].to_vec();
        violation = reader.feed(&piece, &mut seen).err();
        rest = &rest[bytes..];
    }
    Outcome { events: seen.events, counters: reader.counters(), violation }
}

pub fn all_simd_levels() -> Vec<SimdLevel> {
    SimdLevel::ALL.into_iter().filter(|simd| simd.is_supported()).collect()
}

/// Returns the result of the reference implementation.
pub fn expected_by_reference(stream: &[u8], workers: u32, no_sym: MissingSymbol) -> Outcome {
    let seen = reference::read(stream, workers, no_sym);
    Outcome { events: seen.events, counters: seen.counters, violation: seen.violation }
}

/// Removes what depends on the cuts. If UTF-8 is broken, that includes whether an element before it
/// was counted.
pub fn comparable(mut outcome: Outcome) -> Outcome {
    let ScanCounters { frames, messages, objects, no_sym, oversized, malformed, not_arrays, .. } = outcome.counters;
    let (malformed, not_arrays) =
        if outcome.violation == Some(Violation::NotUtf8) { (0, 0) } else { (malformed, not_arrays) };
    outcome.counters =
        ScanCounters { frames, messages, objects, no_sym, oversized, malformed, not_arrays, ..ScanCounters::default() };
    outcome
}

/// Feeds `stream` in pieces of these lengths with every instruction set, and compares with the
/// reference implementation.
pub fn check(stream: &[u8], lengths: &[usize]) -> Outcome {
    let expected = comparable(expected_by_reference(stream, 4, MissingSymbol::Worker0));
    for simd in all_simd_levels() {
        let outcome = comparable(cut(simd, stream, lengths, 4, MissingSymbol::Worker0));
        assert_eq!(outcome, expected, "{simd:?}, pieces {lengths:?}");
    }
    expected
}

/// Returns the seed in `TEST_SEED`, or a new one.
pub fn test_seed() -> u64 {
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.subsec_nanos().into());
    let seed = std::env::var("TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now);
    println!("TEST_SEED={seed} repeats this");
    seed
}
