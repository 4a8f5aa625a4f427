//! The state of all streams: their keys, their readers, and the last messages of each.

use std::collections::{BTreeMap, VecDeque};

use pitwire_engine::Engine;
use pitwire_model::{Lots, Side, Ticks, VenueNanos};
use pitwire_projections::{PublicTrade, Views};

use crate::bars::{Bar, Bars};
use crate::binance::encode::{Aggregate, Stamps};
use crate::gemini::{Change, NumberPosition};
use crate::key::StreamKey;
use crate::market::{Level, Touch};
use crate::names::Directory;

/// Identifies a stream for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Receives the messages.
pub trait Sink {
    /// Takes one message for all readers of the stream. With `numbered`, each socket inserts its
    /// own number.
    fn send(&mut self, stream: StreamId, payload: &[u8], numbered: Option<NumberPosition>);
    /// Returns the time by three clocks. Called once for each message that contains it. `at` is
    /// when the message was due.
    fn stamps(&mut self, at: VenueNanos) -> Stamps;
}

/// A stream that has a reader, or has had one.
#[derive(Debug)]
pub(crate) struct StreamEntry {
    pub key: StreamKey,
    pub id: StreamId,
    /// Name in the Binance dialect.
    pub name: String,
    pub readers: u32,
    pub sent: SentState,
    /// Number of messages written, for streams that number them.
    pub number: u64,
}

/// The last message of a stream of states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SentState {
    #[default]
    Nothing,
    Levels(Vec<Level>, Vec<Level>),
    Bar(Bar),
    Day(Bar, Option<Ticks>, Touch),
}

/// Levels by side and price, as the last command left them.
pub(crate) type Ladder = BTreeMap<(Side, Ticks), Lots>;

#[derive(Debug, Default)]
pub(crate) struct StreamInstrument {
    pub bars: Bars,
    pub aggregates: VecDeque<Aggregate>,
    pub last_lots: Lots,
    /// Levels touched since the last full second. Those of the current 100 ms begin at
    /// `tenth_from`.
    pub(crate) touched: Vec<(Side, Ticks)>,
    pub(crate) tenth_from: usize,
    /// `touched` is compacted when it is longer than this. At least 65,536.
    pub(crate) compact_at: usize,
    /// Levels touched by this command.
    pub(crate) fresh: Vec<(Side, Ticks)>,
    /// The last update in a message of the 100 ms window and of the one-second window.
    pub sent_change_ids: [u64; 2],
    pub entries: Vec<StreamEntry>,
    pub touch: Touch,
    /// Stored while a reader needs to know by how much levels change.
    pub ladder: Option<Ladder>,
    /// The book at the end of the last 100 ms window, stored while depth has readers. A snapshot of
    /// it ends where the next event of the 100 ms stream begins.
    pub settled: Option<Ladder>,
    /// The last day statistics sent to readers of all instruments.
    pub day_sent: [SentState; 2],
}

#[derive(Debug, Default)]
pub struct Streams {
    pub(crate) directory: Directory,
    pub(crate) instruments: Vec<StreamInstrument>,
    /// Streams of all instruments.
    pub(crate) all: Vec<StreamEntry>,
    pub(crate) keys: Vec<StreamKey>,
    pub(crate) last_second: u64,
    /// Number of candle readers.
    pub(crate) candles: u32,
    pub(crate) scratch: Scratch,
}

/// Buffers reused for every message.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub payload: Vec<u8>,
    pub wrapped: Vec<u8>,
    pub trades: Vec<PublicTrade>,
    pub bids: Vec<Level>,
    pub asks: Vec<Level>,
    pub changes: Vec<Change>,
    pub tops: Vec<Change>,
}

/// The venue's state when a message is written or a query answered.
#[derive(Clone, Copy)]
pub struct VenueMoment<'a> {
    pub engine: &'a Engine,
    pub views: &'a Views,
    pub at: VenueNanos,
}
