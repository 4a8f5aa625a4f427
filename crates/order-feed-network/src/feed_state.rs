//! The state of the feed: numbers messages, sends units on both lines, keeps units for recovery.
//!
//! Holds       1. a unit is in the replay buffer before it is on a line, so a reader that asks for
//!                a unit that it saw gets it;
//!             2. the replay buffer has at most [`MAX_REPLAY_BYTES`];
//!             3. a snapshot is encoded at most once in [`SNAPSHOT_AGE`], whatever readers ask.
//! Start at    [`FeedState::take`].

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pitwire_order_feed::{
    BookBuilder, FeedEncoding, MOLD_SESSION_BYTES, MitchMessage, MoldHeader, MoldPacket, TimeMark,
};
use tracing::warn;

use crate::counters::{FeedCounters, count};
use crate::packet_encoder::PacketEncoder;

/// Most bytes of units that the replay buffer keeps.
const MAX_REPLAY_BYTES: usize = 64 * 1024 * 1024;
/// Age at which a snapshot is encoded anew. A reader fetches later messages by replay.
const SNAPSHOT_AGE: Duration = Duration::from_millis(250);
/// Longest wait for room in the send buffer of a line.
const SEND_PATIENCE: Duration = Duration::from_millis(100);

/// One of the two lines.
pub(crate) struct Line {
    socket: UdpSocket,
    destination: SocketAddr,
    has_failed: bool,
}

impl Line {
    pub fn open(destination: SocketAddr) -> io::Result<Line> {
        let any: IpAddr =
            if destination.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_write_timeout(Some(SEND_PATIENCE))?;
        Ok(Line { socket, destination, has_failed: false })
    }

    fn send(&mut self, unit: &[u8], counters: &FeedCounters) {
        if let Err(error) = self.socket.send_to(unit, self.destination) {
            count(&counters.unsent);
            if !std::mem::replace(&mut self.has_failed, true) {
                warn!(destination = %self.destination, %error, "a line of the order feed cannot send; see /metrics");
            }
        }
    }
}

/// Newest units with the number of their first message.
#[derive(Default)]
struct ReplayBuffer {
    units: VecDeque<(u64, Arc<[u8]>)>,
    bytes: usize,
}

impl ReplayBuffer {
    fn push(&mut self, first: u64, unit: &[u8]) {
        self.units.push_back((first, unit.into()));
        self.bytes += unit.len();
        while self.bytes > MAX_REPLAY_BYTES
            && let Some((_, oldest)) = self.units.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

/// Units that answer a replay request.
pub(crate) struct ReplayUnits {
    pub first: u64,
    pub count: u16,
    pub units: Vec<Arc<[u8]>>,
}

pub(crate) struct FeedState {
    encoder: PacketEncoder,
    lines: Vec<Line>,
    replay: ReplayBuffer,
    books: BookBuilder,
    time: TimeMark,
    snapshot: Option<(Instant, Arc<[u8]>)>,
    pub counters: Arc<FeedCounters>,
}

impl FeedState {
    pub fn new(encoder: PacketEncoder, lines: Vec<Line>, counters: Arc<FeedCounters>) -> FeedState {
        FeedState {
            encoder,
            lines,
            replay: ReplayBuffer::default(),
            books: BookBuilder::default(),
            time: TimeMark::default(),
            snapshot: None,
            counters,
        }
    }

    /// Numbers the messages of one release and sends them.
    pub fn take(&mut self, messages: &[u8]) {
        let FeedState { encoder, lines, replay, books, time, counters, .. } = self;
        let before = encoder.next_number();
        let mut send = |first: u64, unit: &[u8]| {
            count(&counters.units);
            replay.push(first, unit);
            lines.iter_mut().for_each(|line| line.send(unit, counters));
        };
        let mut rest = messages;
        while let Ok((message, bytes)) = MitchMessage::decode(rest) {
            let (encoded, after) = rest.split_at(bytes);
            rest = after;
            encoder.add(&message, encoded, books, &mut send);
            if let MitchMessage::TimeMark(mark) = &message {
                *time = *mark;
            }
            if let Err(error) = books.apply(&message) {
                warn!(%error, "snapshots of the order feed leave out a message");
            }
        }
        encoder.finish(&mut send);
        counters.messages.fetch_add(encoder.next_number() - before, Ordering::Relaxed);
        counters.clipped_prices.store(encoder.clipped(), Ordering::Relaxed);
        counters.queued_bytes.fetch_sub(messages.len(), Ordering::Relaxed);
    }

    /// Sends a heartbeat.
    pub fn beat(&mut self) {
        let heartbeat = self.encoder.heartbeat();
        self.lines.iter_mut().for_each(|line| line.send(&heartbeat, &self.counters));
    }

    /// Sends the end of the session, if the encoding has one.
    pub fn end(&mut self) {
        if let Some(end) = self.encoder.end() {
            self.lines.iter_mut().for_each(|line| line.send(&end, &self.counters));
        }
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        self.encoder.next_number()
    }

    /// Returns the number of the oldest message that can be replayed.
    pub fn oldest_number(&self) -> u64 {
        self.replay.units.front().map_or(self.next_number(), |(first, _)| *first)
    }

    /// Returns the units with `count` messages from `first`, as far as they exist. `None` if the
    /// first one does not.
    pub fn replay(&self, first: u64, count: u16) -> Option<ReplayUnits> {
        if first < self.oldest_number() || first >= self.next_number() || count == 0 {
            return None;
        }
        let units = &self.replay.units;
        let begin = units.partition_point(|(unit, _)| *unit <= first).checked_sub(1)?;
        let end = first.saturating_add(u64::from(count));
        let mut replay = ReplayUnits { first: units.get(begin)?.0, count: 0, units: Vec::new() };
        for (at, (unit_first, unit)) in units.iter().enumerate().skip(begin) {
            let next = units.get(at + 1).map_or(self.next_number(), |(next, _)| *next);
            match u16::try_from(next - replay.first) {
                Ok(count) if *unit_first < end => replay.count = count,
                _ => break,
            }
            replay.units.push(Arc::clone(unit));
        }
        Some(replay)
    }

    /// Returns the session of MoldUDP64, or zeros.
    pub fn session(&self) -> [u8; MOLD_SESSION_BYTES] {
        self.encoder.session().unwrap_or_default()
    }

    /// Returns the packet that answers a request of MoldUDP64. `None` if the request names another
    /// session, or a first message that does not exist.
    pub fn repeat(&self, request: &MoldHeader) -> Option<Vec<u8>> {
        let MoldHeader { session, sequence_number: first, message_count } = *request;
        let replay = self.replay(first, message_count.min(1)).filter(|_| self.encoder.session() == Some(session))?;
        MoldPacket::read(replay.units.first()?)?.part(first, message_count)
    }

    pub fn encoding(&self) -> FeedEncoding {
        self.encoder.encoding()
    }

    /// Returns a snapshot of all books, as the bytes of a recovery connection. It may be as old as
    /// [`SNAPSHOT_AGE`].
    pub fn snapshot(&mut self, now: Instant) -> Arc<[u8]> {
        if let Some((at, snapshot)) = &self.snapshot
            && now.saturating_duration_since(*at) < SNAPSHOT_AGE
        {
            return Arc::clone(snapshot);
        }
        let snapshot: Arc<[u8]> = self.encoder.snapshot(&self.books, &self.time).into();
        self.snapshot = Some((now, Arc::clone(&snapshot)));
        snapshot
    }
}
