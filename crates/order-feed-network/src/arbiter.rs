//! Joins lines A and B to one sequence of messages, without sockets. A unit is a packet of either
//! encoding.
//!
//! Holds       1. each message is delivered once and in order;
//!             2. a datagram that is not a whole valid unit changes nothing and is counted;
//!             3. units that wait for an earlier one have at most [`MAX_WAITING_BYTES`].
//! Start at    [`LineArbiter::receive`], then [`LineArbiter::gap`].

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use pitwire_order_feed::itch::ItchMessage;
use pitwire_order_feed::{
    FeedEncoding, MARKET_DATA_GROUP, MessageError, MitchMessage, MoldKind, MoldPacket, Unit, full_number,
};

/// Most bytes of units that wait for an earlier unit.
pub(crate) const MAX_WAITING_BYTES: usize = 32 * 1024 * 1024;
/// Units whose arrival on the first line is remembered, to measure the delay of the second.
const ARRIVALS: u64 = 4_096;
/// Longest wait in nanoseconds for missing messages on the other line, before a replay request.
const GAP_PATIENCE_NS: u64 = 20_000_000;

/// Counts of one line of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Units with messages.
    pub units: u64,
    pub messages: u64,
    pub heartbeats: u64,
    /// Gaps in the numbers of this line, and the messages in them.
    pub gaps: u64,
    pub missing_messages: u64,
    /// Units that this line had sent before, or that came out of order.
    pub repeated: u64,
    /// Units that arrived on this line first.
    pub first: u64,
    /// Datagrams that are not valid units.
    pub invalid: u64,
    /// Datagrams from an address that is not the venue's, or of an earlier session of MoldUDP64.
    pub foreign: u64,
}

/// Counts of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Messages delivered.
    pub messages: u64,
    /// Units that had already been delivered, from the other line or from a replay.
    pub duplicates: u64,
    /// Units dropped because too many waited, or because the venue did not know their numbers.
    pub dropped: u64,
    pub replays: u64,
    pub replayed_messages: u64,
    /// Snapshots taken, with the first one.
    pub snapshots: u64,
    /// Messages that did not fit the books. Each leads to a snapshot.
    pub misfits: u64,
    /// Datagrams dropped because the reader was behind.
    pub overflow: u64,
}

/// A message in the encoding of its feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMessage {
    Mitch(MitchMessage),
    Itch(ItchMessage),
}

/// Receives the messages in order, each with its number.
pub(crate) trait Deliver {
    fn deliver(&mut self, number: u64, message: &FeedMessage);
}

#[derive(Clone, Copy, Default)]
struct Arrival {
    first: u64,
    line: usize,
    at_ns: u64,
}

pub(crate) struct LineArbiter {
    encoding: FeedEncoding,
    /// Number of the next message to deliver.
    next: u64,
    /// A number above all that are known to exist.
    end: u64,
    waiting: BTreeMap<u64, Box<[u8]>>,
    waiting_bytes: usize,
    gap_since_ns: Option<u64>,
    lines: Vec<(LineCounts, Option<u64>)>,
    arrivals: Vec<Arrival>,
    /// Delay of the second line behind the first, in nanoseconds.
    pub delays: Histogram<u64>,
    pub counts: ReaderCounts,
    /// Kept for its memory.
    scratch: Vec<Option<FeedMessage>>,
}

impl LineArbiter {
    pub fn new(encoding: FeedEncoding, lines: usize) -> LineArbiter {
        LineArbiter {
            encoding,
            next: 1,
            end: 1,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            gap_since_ns: None,
            lines: vec![(LineCounts::default(), None); lines],
            arrivals: vec![Arrival::default(); usize::try_from(ARRIVALS).unwrap_or(0)],
            delays: Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are valid"),
            counts: ReaderCounts::default(),
            scratch: Vec::new(),
        }
    }

    /// Continues after a snapshot whose newest message has the number `newest`.
    pub fn join(&mut self, newest: u64) {
        self.next = newest.saturating_add(1);
        self.end = self.next;
        self.clear_waiting();
        self.lines.iter_mut().for_each(|(_, next)| *next = None);
        self.arrivals.fill(Arrival::default());
        self.counts.snapshots += 1;
    }

    pub fn next_number(&self) -> u64 {
        self.next
    }

    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub fn line(&self, line: usize) -> LineCounts {
        self.lines.get(line).map(|(counts, _)| *counts).unwrap_or_default()
    }

    pub fn count_foreign(&mut self, line: usize) {
        if let Some((counts, _)) = self.lines.get_mut(line) {
            counts.foreign += 1;
        }
    }

    /// HOT. Takes one datagram of a line.
    pub fn receive(&mut self, line: usize, at_ns: u64, datagram: &[u8], to: &mut impl Deliver) {
        let Some((first, count)) = self.decode(datagram) else {
            if let Some((counts, _)) = self.lines.get_mut(line) {
                counts.invalid += 1;
            }
            return;
        };
        if let Some((counts, next)) = self.lines.get_mut(line) {
            match *next {
                Some(expected) if first > expected => {
                    counts.gaps += 1;
                    // Forged numbers of ITCH can be the highest, more than once.
                    counts.missing_messages = counts.missing_messages.saturating_add(first - expected);
                }
                Some(expected) if first < expected && count > 0 => counts.repeated += 1,
                _ => {}
            }
            *next = Some(next.unwrap_or(0).max(first + count));
            counts.messages += count;
            match count {
                0 => counts.heartbeats += 1,
                _ => counts.units += 1,
            }
        }
        if count > 0 {
            self.note_arrival(Arrival { first, line, at_ns });
        }
        self.take(first, count, datagram, to);
        self.note_gap(at_ns);
    }

    /// Takes a unit of a replay.
    pub fn replay(&mut self, at_ns: u64, unit: &[u8], to: &mut impl Deliver) {
        let Some((first, count)) = self.decode(unit) else { return };
        self.counts.replayed_messages += count;
        self.take(first, count, unit, to);
        self.gap_since_ns = None;
        self.note_gap(at_ns);
    }

    /// Returns the first missing message and how many are missing before the next known one, if
    /// they have been missing for a while.
    pub fn gap(&self, now_ns: u64) -> Option<(u64, u64)> {
        let since = self.gap_since_ns?;
        self.missing().filter(|_| now_ns.saturating_sub(since) >= GAP_PATIENCE_NS)
    }

    /// Returns the first missing message and how many are missing before the next known one.
    pub fn missing(&self) -> Option<(u64, u64)> {
        let end = self.waiting.keys().next().copied().unwrap_or(self.end);
        (end > self.next).then(|| (self.next, end - self.next))
    }

    /// Forgets all units after the next message, because the venue has not sent it yet: their
    /// numbers are forged.
    pub fn drop_waiting(&mut self) {
        self.counts.dropped += self.waiting.len() as u64;
        self.clear_waiting();
        self.end = self.next;
        self.lines.iter_mut().for_each(|(_, next)| *next = None);
    }

    fn clear_waiting(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.gap_since_ns = None;
    }

    /// Decodes a datagram into the scratch memory, with `None` for messages of unknown types.
    /// Returns the number of the first message, and the number of messages.
    fn decode(&mut self, datagram: &[u8]) -> Option<(u64, u64)> {
        self.scratch.clear();
        let (first, count) = match self.encoding {
            FeedEncoding::Mitch => {
                let unit = Unit::read(datagram).ok()?;
                if unit.header.market_data_group != MARKET_DATA_GROUP {
                    return None;
                }
                for message in unit.messages() {
                    self.scratch.push(known(message)?.map(FeedMessage::Mitch));
                }
                (full_number(unit.header.sequence_number, self.next), u64::from(unit.header.message_count))
            }
            FeedEncoding::Itch => {
                let packet = MoldPacket::read(datagram)?;
                for message in packet.messages() {
                    self.scratch.push(known(ItchMessage::decode(message))?.map(FeedMessage::Itch));
                }
                let count = match packet.kind {
                    MoldKind::Messages => packet.header.message_count,
                    MoldKind::Heartbeat | MoldKind::EndOfSession => 0,
                    MoldKind::Request => return None,
                };
                (packet.header.sequence_number, u64::from(count))
            }
        };
        // The numbers of MoldUDP64 have 64 bits, and begin with 1.
        let has_numbers = first > 0 || self.encoding == FeedEncoding::Mitch;
        let is_whole = self.scratch.len() as u64 == count && first.checked_add(count).is_some();
        (is_whole && has_numbers).then_some((first, count))
    }

    /// Delivers or keeps the unit that is decoded in the scratch memory.
    fn take(&mut self, first: u64, count: u64, bytes: &[u8], to: &mut impl Deliver) {
        let end = first + count;
        self.end = self.end.max(end);
        if count == 0 {
            return;
        }
        if end <= self.next {
            self.counts.duplicates += 1;
        } else if first <= self.next {
            self.deliver(first, to);
            self.deliver_waiting(to);
        } else if self.waiting.contains_key(&first) {
            self.counts.duplicates += 1;
        } else {
            self.waiting_bytes += bytes.len();
            self.waiting.insert(first, bytes.into());
            while self.waiting_bytes > MAX_WAITING_BYTES
                && let Some((_, last)) = self.waiting.pop_last()
            {
                self.waiting_bytes -= last.len();
                self.counts.dropped += 1;
            }
        }
    }

    fn deliver_waiting(&mut self, to: &mut impl Deliver) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= self.next) {
            let (first, bytes) = entry.remove_entry();
            self.waiting_bytes -= bytes.len();
            if self.decode(&bytes).is_some() {
                self.deliver(first, to);
            }
        }
    }

    /// Delivers the messages of the scratch memory from the next one on.
    fn deliver(&mut self, first: u64, to: &mut impl Deliver) {
        for (number, message) in (first..).zip(&self.scratch) {
            if number < self.next {
                continue;
            }
            self.next = number + 1;
            self.counts.messages += 1;
            if let Some(message) = message {
                to.deliver(number, message);
            }
        }
    }

    fn note_arrival(&mut self, arrival: Arrival) {
        let Some(slot) = self.arrivals.get_mut(usize::try_from(arrival.first % ARRIVALS).unwrap_or(0)) else { return };
        if slot.first != arrival.first {
            *slot = arrival;
            if let Some((counts, _)) = self.lines.get_mut(arrival.line) {
                counts.first += 1;
            }
        } else if slot.line != arrival.line && slot.at_ns > 0 {
            self.delays.saturating_record(arrival.at_ns.saturating_sub(slot.at_ns).max(1));
            slot.at_ns = 0;
        }
    }

    fn note_gap(&mut self, now_ns: u64) {
        if self.end <= self.next {
            self.gap_since_ns = None;
        } else {
            self.gap_since_ns.get_or_insert(now_ns);
        }
    }
}

/// Returns a message, or `None` in its place if its type is unknown. Refuses any other error.
fn known<M>(message: Result<M, MessageError>) -> Option<Option<M>> {
    match message {
        Ok(message) => Some(Some(message)),
        Err(MessageError::Type { .. }) => Some(None),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests;
