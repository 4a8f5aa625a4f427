//! The order-by-order feed: encoding, rebuilding books, and lines that lose datagrams.
//!
//! Does        run a generated flow through the full engine, encode its events, rebuild the books
//!             from the units, and read the feed from two lossy lines over loopback.
//! Holds       each rebuilt book is compared with the encoded book, so a reader that is fast and
//!             wrong fails.
//! Start at    [`FeedRecording::make`], [`time_encoding`], [`time_rebuild`], [`lossy::measure`].

pub mod lossy;

use std::hint::black_box;
use std::time::Instant;

use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{Event, Seq, SequencedCommand, VenueNanos};
use pitwire_order_feed::{BookBuilder, MitchMessage, OrderFeedEncoder, Unit, UnitMessages, UnitWriter};

use crate::engine::full_engine::{command, definitions};
use crate::engine::generate::{Generator, LIVE};

/// Venue time between two commands, in nanoseconds.
const COMMAND_NS: u64 = 10_000;
/// Passes of a timed part; the fastest one counts.
const ROUNDS: usize = 3;
/// Bytes of messages that are encoded before the buffer is used again, as one release of a venue.
const RELEASE_BYTES: usize = 64 * 1024;

/// A flow with its messages.
pub struct FeedRecording {
    pub commands: Vec<SequencedCommand>,
    /// All messages, one after the other.
    pub messages: Vec<u8>,
    pub count: u64,
    pub checksum: u32,
}

/// An engine with the instrument and the accounts of the flow.
pub(crate) fn defined_engine() -> Engine {
    let mut engine = Engine::new();
    for command in definitions() {
        engine.apply(&SequencedCommand { seq: Seq(0), at: VenueNanos(0), command }, &mut Vec::new());
    }
    engine
}

impl FeedRecording {
    /// Generates commands until they have caused at least `messages` messages.
    ///
    /// # Errors
    ///
    /// Fails if a message does not fit the book, which is a defect of the encoder.
    pub fn make(messages: u64, seed: u64) -> Result<FeedRecording, Failure> {
        let mut generator = Generator::new(seed, LIVE);
        let mut engine = defined_engine();
        let mut recording = FeedRecording { commands: Vec::new(), messages: Vec::new(), count: 0, checksum: 0 };
        let mut books = BookBuilder::default();
        let mut encoder = OrderFeedEncoder::start(&engine, VenueNanos(0), &mut recording.messages);
        let (mut events, mut at) = (Vec::new(), 0);
        for seq in 1_u64.. {
            let stamped = SequencedCommand {
                seq: Seq(seq),
                at: VenueNanos(seq * COMMAND_NS),
                command: command(&generator.step()),
            };
            events.clear();
            engine.apply(&stamped, &mut events);
            encoder.observe(stamped.at, &events, &engine, &mut recording.messages);
            recording.commands.push(stamped);
            for message in UnitMessages::of(recording.messages.get(at..).unwrap_or_default()) {
                let message = message.map_err(|error| Failure::new(error.to_string()))?;
                books.apply(&message).map_err(|error| Failure::new(error.to_string()))?;
                recording.count += 1;
            }
            at = recording.messages.len();
            if recording.count >= messages {
                break;
            }
        }
        recording.checksum = books.checksum(0);
        Ok(recording)
    }

    /// Packs the messages into units.
    pub fn units(&self) -> Vec<Box<[u8]>> {
        let (mut writer, mut units) = (UnitWriter::default(), Vec::new());
        let mut rest = self.messages.as_slice();
        while let Ok((_, bytes)) = MitchMessage::decode(rest) {
            let (message, after) = rest.split_at(bytes);
            rest = after;
            writer.add(message, |_, unit| units.push(unit.into()));
        }
        writer.finish(|_, unit| units.push(unit.into()));
        units
    }
}

/// Nanoseconds for each message.
#[derive(Clone, Copy, Debug)]
pub struct EncodingTimes {
    /// From the events of a command to its messages. The venue thread spends this time.
    pub observe_ns: f64,
    /// From a message to bytes in a unit.
    pub write_ns: f64,
}

/// Times the encoder. The time of the engine is measured alone and subtracted.
pub fn time_encoding(recording: &FeedRecording) -> EncodingTimes {
    let mut fastest = [f64::MAX; 2];
    for round in 0..2 * ROUNDS {
        let is_encoding = round % 2 == 1;
        let seconds = run_engine(recording, is_encoding);
        let best = &mut fastest[usize::from(is_encoding)];
        *best = best.min(seconds);
    }
    let [engine, both] = fastest;
    let decoded: Vec<MitchMessage> =
        UnitMessages::of(&recording.messages).filter_map(Result::ok).take(1_000_000).collect();
    let write = (0..ROUNDS).map(|_| write_all(&decoded)).fold(f64::MAX, f64::min);
    EncodingTimes {
        observe_ns: per_message((both - engine).max(0.0), recording.count),
        write_ns: per_message(write, decoded.len() as u64),
    }
}

fn run_engine(recording: &FeedRecording, is_encoding: bool) -> f64 {
    let (mut engine, mut events, mut messages) = (defined_engine(), Vec::new(), Vec::with_capacity(2 * RELEASE_BYTES));
    let mut encoder = OrderFeedEncoder::start(&engine, VenueNanos(0), &mut messages);
    let started = Instant::now();
    for stamped in &recording.commands {
        events.clear();
        engine.apply(stamped, &mut events);
        black_box::<&[Event]>(&events);
        if is_encoding {
            encoder.observe(stamped.at, &events, &engine, &mut messages);
            if messages.len() > RELEASE_BYTES {
                black_box(messages.as_slice());
                messages.clear();
            }
        }
    }
    started.elapsed().as_secs_f64()
}

fn write_all(messages: &[MitchMessage]) -> f64 {
    let (mut writer, mut bytes) = (UnitWriter::default(), Vec::with_capacity(1_024));
    let started = Instant::now();
    for message in messages {
        bytes.clear();
        message.encode(&mut bytes);
        writer.add(&bytes, |_, unit| {
            black_box(unit);
        });
    }
    started.elapsed().as_secs_f64()
}

/// Times one thread that decodes units and rebuilds the book. Returns messages per second.
///
/// # Errors
///
/// Fails if the rebuilt book differs from the encoded one.
pub fn time_rebuild(recording: &FeedRecording) -> Result<f64, Failure> {
    let units = recording.units();
    let mut fastest = f64::MAX;
    for _ in 0..ROUNDS {
        let mut books = BookBuilder::default();
        let started = Instant::now();
        let mut count = 0;
        for unit in &units {
            let unit = Unit::read(unit).map_err(|error| Failure::new(error.to_string()))?;
            let mut messages = unit.messages();
            // By reference: a message has 72 bytes, and copying them takes a tenth of the time.
            while let Some(message) = &messages.next() {
                let message = message.as_ref().map_err(|error| Failure::new(error.to_string()))?;
                books.apply(message).map_err(|error| Failure::new(error.to_string()))?;
                count += 1;
            }
        }
        fastest = fastest.min(started.elapsed().as_secs_f64());
        if (count, books.checksum(0)) != (recording.count, recording.checksum) {
            return Err(Failure::new("the rebuilt book differs from the encoded one"));
        }
    }
    Ok(1e9 / per_message(fastest, recording.count).max(1e-3))
}

#[expect(clippy::cast_precision_loss, reason = "counts of messages are far below 2^53")]
fn per_message(seconds: f64, count: u64) -> f64 {
    seconds * 1e9 / count.max(1) as f64
}
