//! A stream as its readers see it: every trade once and in order, whatever happens to connections.

use std::collections::BTreeMap;

use pitwire_recorder::checksum::{content_term, sequence_term};
use pitwire_recorder::framing::{MessageSizes, messages};
use pitwire_recorder::pace::{OPEN_CLOSE, Pace, Profile};
use pitwire_recorder::stream::{FillResult, StreamConfig, StreamSource, StreamTime, TapeStream};
use pitwire_recorder::synthetic::SyntheticFeed;
use serde_json::Value;

fn config(trades: u64) -> StreamConfig {
    StreamConfig {
        pace: Pace::Max,
        sizes: MessageSizes::Between { least: 1, most: 40 },
        fragment: None,
        trades: Some(trades),
        disconnect_every: None,
        content: true,
        seed: 3,
    }
}

fn stream(config: StreamConfig) -> TapeStream {
    TapeStream::new(StreamSource::Trades(Box::new(SyntheticFeed::new(50, 3))), config)
}

const NOW: StreamTime = StreamTime { stream_ns: 0, wall_ns: 1_700_000_000_123_000_000 };

/// A reader that takes the complete objects in the bytes that it received.
#[derive(Default)]
struct RecordingReader {
    last: BTreeMap<String, u64>,
    trades: u64,
    checksum: u64,
    content: u64,
    sizes: Vec<usize>,
}

impl RecordingReader {
    fn read(&mut self, bytes: &[u8]) {
        for message in messages(bytes) {
            let objects: Vec<Value> = serde_json::from_slice(&message.payload).unwrap();
            self.sizes.push(objects.len());
            objects.iter().for_each(|object| self.take(object));
        }
    }

    fn take(&mut self, object: &Value) {
        let symbol = object["sym"].as_str().unwrap();
        let number: u64 = object["i"].as_str().unwrap().parse().unwrap();
        assert_eq!(object["i"].as_str().unwrap().len(), 12);
        let last = self.last.entry(symbol.to_owned()).or_default();
        assert_eq!(number, *last + 1, "{symbol}");
        *last = number;
        self.trades += 1;
        self.checksum = self.checksum.wrapping_add(sequence_term(symbol.as_bytes(), number));
    }

    /// Takes the objects of `text`, which may be cut anywhere, whose last byte is there.
    fn take_whole(&mut self, payload: &[u8]) {
        let mut rest = payload.strip_prefix(b"[").unwrap_or(payload);
        while let Some(end) = rest.iter().position(|byte| *byte == b'}') {
            let object = rest[..=end].strip_prefix(b",").unwrap_or(&rest[..=end]);
            self.take(&serde_json::from_slice(object).unwrap());
            self.content = self.content.wrapping_add(content_term(object));
            rest = &rest[end + 1..];
        }
    }
}

/// Returns the payload bytes in the first `sent` bytes, message by message.
fn payloads(out: &[u8], sent: usize) -> Vec<Vec<u8>> {
    let cut = |message: pitwire_recorder::framing::FramedMessage| {
        let bytes = message.places.iter().zip(&message.payload).filter(|(place, _)| **place < sent);
        bytes.map(|(_, byte)| *byte).collect()
    };
    messages(out).into_iter().map(cut).collect()
}

#[test]
fn every_trade_arrives_once_and_the_checksums_match() {
    let mut stream = stream(config(200_000));
    let (mut reader, mut out) = (RecordingReader::default(), Vec::new());
    while stream.fill(NOW, &mut out) == FillResult::Send {
        reader.read(&out);
        out.clear();
    }
    reader.read(&out);
    assert_eq!(reader.trades, 200_000);
    assert_eq!(reader.last.len(), 50);
    assert_eq!(stream.tally.trades, 200_000);
    assert_eq!(stream.checksum(), Some(reader.checksum));
    assert!(reader.sizes.iter().all(|size| (1..=40).contains(size)));
    assert_eq!(stream.tally.messages, reader.sizes.len() as u64);
    assert!((1..=40).all(|size| reader.sizes.contains(&size)), "every size from 1 to 40 comes up");
}

/// Breaks the connection after every byte of a buffer in turn, and continues the stream.
fn break_everywhere(fragment: Option<usize>) {
    let mut stream =
        stream(StreamConfig { fragment, sizes: MessageSizes::Between { least: 1, most: 3 }, ..config(400) });
    let (mut reader, mut out) = (RecordingReader::default(), Vec::new());
    let mut cut = 0;
    loop {
        out.clear();
        let next = stream.fill(NOW, &mut out);
        if out.is_empty() {
            assert_eq!(next, FillResult::End);
            break;
        }
        // A different number of bytes each time; sometimes none, sometimes all of a short rest.
        cut = (cut * 7 + 13) % 1_009;
        let sent = cut.min(out.len());
        for payload in payloads(&out, sent) {
            reader.take_whole(&payload);
        }
        stream.broken(&out, sent);
        assert_eq!(stream.tally.trades, reader.trades, "after {sent} bytes");
        assert_eq!(stream.checksum(), Some(reader.checksum), "after {sent} bytes");
        assert_eq!(stream.content(), Some(reader.content), "after {sent} bytes");
        stream.connected("/", 0);
    }
    assert_eq!(reader.trades, 400);
}

#[test]
fn a_broken_connection_loses_nothing_and_repeats_nothing() {
    break_everywhere(None);
}

#[test]
fn a_connection_broken_between_fragments_loses_nothing() {
    for most in [1, 50, 99, 130] {
        break_everywhere(Some(most));
    }
}

#[test]
fn a_connection_ends_after_exactly_its_quota() {
    let mut stream = stream(StreamConfig { disconnect_every: Some(1_000), ..config(2_500) });
    let mut counts = Vec::new();
    loop {
        let (mut out, mut reader) = (Vec::new(), RecordingReader::default());
        while stream.fill(NOW, &mut out) == FillResult::Send {}
        reader.last = messages(&out).iter().flat_map(firsts).rev().collect();
        reader.read(&out);
        counts.push(reader.trades);
        out.clear();
        if stream.fill(NOW, &mut out) == FillResult::End {
            break;
        }
        stream.connected("/", 0);
    }
    assert_eq!(counts, [1_000, 1_000, 500]);
}

/// The previous number of each symbol, so that a reader can start in the middle.
fn firsts(message: &pitwire_recorder::framing::FramedMessage) -> Vec<(String, u64)> {
    let objects: Vec<Value> = serde_json::from_slice(&message.payload).unwrap();
    let before = |object: &Value| {
        let number: u64 = object["i"].as_str().unwrap().parse().unwrap();
        (object["sym"].as_str().unwrap().to_owned(), number - 1)
    };
    objects.iter().map(before).collect()
}

#[test]
fn paced_trades_wait_for_their_due_time_and_carry_it() {
    let pace = Pace::Even { per_s: 1_000 };
    let mut stream =
        stream(StreamConfig { pace, sizes: MessageSizes::Between { least: 10, most: 10 }, ..config(1_000) });
    let mut out = Vec::new();
    assert_eq!(stream.fill(NOW, &mut out), FillResult::At(9_000_000));
    assert!(out.is_empty());
    // A millisecond late: the message is still due at 9 ms, and its trades say so.
    let late = StreamTime { stream_ns: 10_000_000, wall_ns: 1_700_000_000_010_000_000 };
    assert_eq!(stream.fill(late, &mut out), FillResult::At(19_000_000));
    let sent: Vec<Value> = serde_json::from_slice(&messages(&out)[0].payload).unwrap();
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|trade| trade["t"] == 1_700_000_000_009_u64));
    stream.handed_over(out.len(), 10_500_000);
    assert_eq!(stream.tally.late_ns.len(), 1);
    assert!((1_480_000..=1_520_000).contains(&stream.tally.late_ns.max()), "{}", stream.tally.late_ns.max());
}

#[test]
fn a_cutoff_gathers_due_trades_and_frames_grow_with_the_rate() {
    for (per_s, expected) in [(2_000, 3), (50_000, 51), (800_000, 801)] {
        let pace = Pace::Even { per_s };
        let mut stream =
            stream(StreamConfig { pace, sizes: MessageSizes::Cutoff { ns: 1_000_000 }, ..config(1_000_000) });
        let mut out = Vec::new();
        let FillResult::At(first) = stream.fill(NOW, &mut out) else { panic!("nothing is due yet") };
        assert_eq!(first, 1_000_000);
        stream.fill(StreamTime { stream_ns: first, ..NOW }, &mut out);
        let sent: Vec<Value> = serde_json::from_slice(&messages(&out)[0].payload).unwrap();
        assert_eq!(sent.len(), expected, "at {per_s} a second");
    }
}

#[test]
fn a_day_profile_sends_all_of_its_trades_in_time() {
    let profile = Profile::new(OPEN_CLOSE);
    let due = Pace::Profile(Profile::new(OPEN_CLOSE)).due_by(10_000_000_000);
    let mut stream = stream(StreamConfig {
        pace: Pace::Profile(profile),
        sizes: MessageSizes::Cutoff { ns: 500_000 },
        ..config(10_000_000)
    });
    let (mut now_ns, mut out) = (0, Vec::new());
    while now_ns <= 10_000_000_000 {
        out.clear();
        match stream.fill(StreamTime { stream_ns: now_ns, ..NOW }, &mut out) {
            FillResult::At(next) => now_ns = next,
            FillResult::Send => {}
            other => panic!("{other:?}"),
        }
    }
    // Trades due at the end may still be gathered.
    let sent = stream.tally.trades;
    assert!(sent <= due && due - sent < 1_000, "{sent} of {due}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = |seed| {
        let mut out = Vec::new();
        let source = StreamSource::Trades(Box::new(SyntheticFeed::new(6_000, seed)));
        TapeStream::new(source, StreamConfig { seed, ..config(5_000) }).fill(NOW, &mut out);
        out
    };
    assert!(bytes(1) == bytes(1));
    assert!(bytes(1) != bytes(2));
}

#[test]
fn trades_have_the_fields_and_the_size_of_real_ones() {
    let mut stream = stream(config(70_000));
    let (mut bytes, mut trades) = (0, 0);
    let mut out = Vec::new();
    let mut last: BTreeMap<String, f64> = BTreeMap::new();
    loop {
        out.clear();
        let next = stream.fill(NOW, &mut out);
        for message in messages(&out) {
            let objects: Vec<Value> = serde_json::from_slice(&message.payload).unwrap();
            bytes += message.payload.len() - 1 - objects.len();
            trades += objects.len();
            assert!(message.payload.starts_with(b"[{\"ev\":\"T\",\"sym\":\""), "the original's fixed first 17 bytes");
            for trade in &objects {
                assert_eq!((&trade["ev"], trade.as_object().unwrap().len()), (&Value::from("T"), 9));
                let (price, size) = (trade["p"].as_f64().unwrap(), trade["s"].as_u64().unwrap());
                assert!(price > 0.0 && size > 0);
                let before = last.insert(trade["sym"].as_str().unwrap().to_owned(), price).unwrap_or(price);
                assert!((price - before).abs() < 0.06, "{trade}: from {before}");
            }
        }
        if next == FillResult::End && out.is_empty() {
            break;
        }
    }
    let mean = bytes / trades;
    assert!((96..=102).contains(&mean), "{mean} bytes a trade");
}
