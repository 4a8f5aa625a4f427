//! One channel: its ring, its readers' cursors, and the policy for slow readers.
//!
//! Start at    [`Feed::peek`], [`Feed::read`].

use std::cell::Cell;

use pitwire_delivery::{ChannelId, Cursor, FrameHeader, Key, LagPolicy, Ring, RingEntry};
use pitwire_model::{InstrumentSpec, VenueNanos};
use pitwire_websocket::Opcode;

use crate::channels::level_history::{CHANGES, LevelHistory};
use crate::codec::{notification, objects};

/// Position of a reader in a channel: where it stands in the ring, and the number of the last
/// change that it received.
///
/// The number matters for books only: a change leads from one `change_id` to the next, so a reader
/// may only read a frame that follows the number it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCursor {
    position: Cursor,
    number: u64,
}

impl ChannelCursor {
    /// Returns a cursor for a reader that has all appended messages.
    pub(super) fn at_end(ring: &Ring) -> Self {
        ChannelCursor { position: ring.end(), number: ring.number_before(ring.end()) }
    }

    /// Returns the number of the last change that this reader received, from the ring or merged.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns whether this cursor is at or behind another position.
    pub(super) fn has_reached(self, other: ChannelCursor) -> bool {
        self.position >= other.position
    }
}

/// The frames behind a cursor have been overwritten, or do not follow the number that its reader
/// holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// The changes that a reader of a merged book has missed since a `change_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissedChange {
    /// No difference: the reader's book is current.
    Same,
    /// One notification that leads from that `change_id` to
    /// [`crate::channels::PublicChannels::published_id`].
    Change(Vec<u8>),
    /// The `change_id` is too old or unknown, so the reader needs a snapshot.
    Gone,
}

/// History of a merged book, from which a reader that has missed messages gets one combined change.
#[derive(Debug)]
pub(super) struct ChangeChain {
    spec: InstrumentSpec,
    pub history: LevelHistory,
    /// Venue time of the newest message, and of the newest released one.
    at: VenueNanos,
    visible_at: VenueNanos,
    /// The last two numbers compared, and whether the books differ. A reader of many channels asks
    /// again at each message of the others.
    compared: Cell<(u64, u64, bool)>,
}

impl ChangeChain {
    pub fn new(spec: &InstrumentSpec, change_id: u64) -> Self {
        let (at, visible_at) = (VenueNanos::ZERO, VenueNanos::ZERO);
        let compared = Cell::new((change_id, change_id, false));
        ChangeChain { spec: spec.clone(), history: LevelHistory::new(change_id, CHANGES), at, visible_at, compared }
    }

    /// Returns whether the book differs between two numbers; `None` if this turn's budget is spent.
    fn differs(&self, from: u64, to: u64, effort: &MergeBudget) -> Option<bool> {
        let (known_from, known_to, known) = self.compared.get();
        if (known_from, known_to) == (from, to) {
            return Some(known);
        }
        if !effort.has_room(&effort.compared) {
            return None;
        }
        spend(&effort.compared, self.history.len());
        let differs = self.history.differs(from, to);
        self.compared.set((from, to, differs));
        Some(differs)
    }
}

/// Budget of levels per turn, once for comparisons and once for merges: about a millisecond each.
/// An operation that has begun is finished.
const LEVELS_A_TURN: usize = 1 << 15;

/// Merge work done in this turn. Bounds it, so that hundreds of lagging readers do not delay the
/// venue.
#[derive(Debug, Default)]
pub(super) struct MergeBudget {
    compared: Cell<usize>,
    merged: Cell<usize>,
    has_put_off: Cell<bool>,
}

impl MergeBudget {
    /// Returns whether the budget of one kind has room. If not, remembers that a reader waits.
    fn has_room(&self, spent: &Cell<usize>) -> bool {
        let has_room = spent.get() < LEVELS_A_TURN;
        self.has_put_off.set(self.has_put_off.get() || !has_room);
        has_room
    }

    pub fn has_put_off(&self) -> bool {
        self.has_put_off.get()
    }

    /// Starts a new turn. Returns whether a reader waits for it.
    pub fn start_anew(&mut self) -> bool {
        std::mem::take(self).has_put_off.get()
    }
}

#[derive(Debug)]
pub(super) struct Feed {
    pub id: ChannelId,
    pub name: String,
    pub ring: Ring,
    pub lag: LagPolicy,
    /// Only for [`LagPolicy::Ask`].
    pub chain: Option<ChangeChain>,
    pub subscribers: u32,
    /// How many of the subscribers read from a delivery thread: see
    /// [`crate::channels::PublicChannels::add_remote`].
    pub remote: u32,
    /// Whether the channel publishes candles, which change with the clock.
    pub is_candle: bool,
    /// Whether anything was appended since the last release.
    pub dirty: bool,
}

impl Feed {
    pub fn new(id: ChannelId, name: String, capacity: usize, lag: LagPolicy) -> Self {
        let ring = Ring::new(capacity, 0);
        Feed { id, name, ring, lag, chain: None, subscribers: 0, remote: 0, is_candle: false, dirty: false }
    }

    /// Appends one message of a channel without numbers.
    pub fn publish(&mut self, place: u64, payload: &[u8]) {
        self.append(place, self.last_number(), payload);
    }

    /// Appends a book's change that leads to `change_id`.
    pub fn publish_change(&mut self, place: u64, change_id: u64, at: VenueNanos, payload: &[u8]) {
        if let Some(chain) = &mut self.chain {
            chain.at = at;
        }
        self.append(place, change_id, payload);
    }

    fn append(&mut self, place: u64, seq: u64, payload: &[u8]) {
        let header = FrameHeader::new(Opcode::Text, payload.len(), false);
        let entry = RingEntry { start: 0, seq, place, key: Key(0), at_ms: 0 };
        self.ring.append_pending(entry, &[header.as_bytes(), payload]);
        self.dirty = true;
    }

    /// Returns the number of the newest message, released or not.
    pub fn last_number(&self) -> u64 {
        self.ring.number_before(self.ring.end())
    }

    /// Returns the number of the newest message as the delivery threads count it: the `change_id`
    /// of a merged book, and a number that grows with each message for any other channel.
    pub fn copy_number(&self) -> u64 {
        if self.lag == LagPolicy::Ask { self.last_number() } else { self.ring.end().0 }
    }

    /// Returns the number of the newest released message.
    pub fn released_number(&self) -> u64 {
        self.ring.number_before(self.ring.head())
    }

    /// Restarts a book channel that had no subscribers for a while at the current `change_id`.
    pub fn start_from(&mut self, change_id: u64) {
        self.ring.begin(change_id);
        if let Some(chain) = &mut self.chain {
            chain.history.start_anew(change_id);
        }
    }

    pub fn release(&mut self) -> bool {
        if let Some(chain) = &mut self.chain {
            chain.visible_at = chain.at;
        }
        self.dirty = false;
        self.ring.release()
    }

    /// Returns the released changes since `from` as one change.
    pub fn merged(&self, from: u64) -> MissedChange {
        let to = self.released_number();
        let Some(chain) = self.chain.as_ref().filter(|chain| from >= chain.history.horizon()) else {
            return MissedChange::Gone;
        };
        if from >= to {
            return MissedChange::Same;
        }
        let (bids, asks) = chain.history.between(from, to);
        if bids.is_empty() && asks.is_empty() {
            return MissedChange::Same;
        }
        MissedChange::Change(notification(&self.name, |j| {
            objects::book_change(j, &chain.spec, chain.visible_at, (from, to), &bids, &asks);
        }))
    }

    /// Like [`Self::merged`], but returns `None` if this turn's budget is spent.
    pub fn merged_in_turn(&self, from: u64, effort: &MergeBudget) -> Option<MissedChange> {
        if !effort.has_room(&effort.merged) {
            return None;
        }
        spend(&effort.merged, self.chain.as_ref().map_or(0, |chain| chain.history.len()));
        Some(self.merged(from))
    }

    /// Returns the place of the next released frame behind a cursor, if there is one. For a merged
    /// book whose reader was overrun: the place of the merged change, if there is budget for it in
    /// this turn.
    ///
    /// # Errors
    /// [`Overrun`] if what follows the cursor has been overwritten and the policy offers nothing
    /// instead.
    pub fn peek(&self, cursor: &mut ChannelCursor, effort: &MergeBudget) -> Result<Option<u64>, Overrun> {
        if self.lag == LagPolicy::Latest {
            self.skip_to_newest(cursor);
        }
        let (Err(Overrun), Some(chain)) = (self.next_place(*cursor), &self.chain) else {
            return self.next_place(*cursor);
        };
        let (from, to) = (cursor.number, self.released_number());
        if from < chain.history.horizon() {
            return Err(Overrun);
        }
        match chain.differs(from, to, effort) {
            None => Ok(None),
            Some(true) => Ok(effort.has_room(&effort.merged).then(|| self.newest_place())),
            Some(false) => {
                // The book is as it was, and a change that changes nothing must not be sent. The
                // reader keeps its number until there is a difference to send.
                cursor.position = self.ring.head();
                Ok(None)
            }
        }
    }

    /// Copies the frame that [`Self::peek`] has found and moves the cursor behind it.
    ///
    /// # Errors
    /// [`Overrun`] as for [`Self::peek`].
    pub fn read(&self, cursor: &mut ChannelCursor, out: &mut Vec<u8>, effort: &MergeBudget) -> Result<(), Overrun> {
        let (Err(Overrun), Some(chain)) = (self.next_place(*cursor), &self.chain) else {
            return self.read_frame(cursor, out);
        };
        spend(&effort.merged, chain.history.len());
        match self.merged(cursor.number) {
            MissedChange::Gone => return Err(Overrun),
            MissedChange::Same => {}
            MissedChange::Change(payload) => {
                out.extend_from_slice(FrameHeader::new(Opcode::Text, payload.len(), false).as_bytes());
                out.extend_from_slice(&payload);
                cursor.number = self.released_number();
            }
        }
        cursor.position = self.ring.head();
        Ok(())
    }

    fn next_place(&self, cursor: ChannelCursor) -> Result<Option<u64>, Overrun> {
        if cursor.position < self.ring.oldest() {
            return Err(Overrun);
        }
        let Some(entry) = self.ring.next_released(cursor.position) else { return Ok(None) };
        if self.ring.number_before(cursor.position) != cursor.number {
            return Err(Overrun);
        }
        Ok(Some(entry.place))
    }

    fn read_frame(&self, cursor: &mut ChannelCursor, out: &mut Vec<u8>) -> Result<(), Overrun> {
        if self.next_place(*cursor)?.is_some()
            && let Some(entry) = self.ring.next_released(cursor.position)
        {
            let end = self.ring.end_of_frame(cursor.position);
            let (first, second) = self.ring.slices(cursor.position, end);
            out.extend_from_slice(first);
            out.extend_from_slice(second);
            *cursor = ChannelCursor { position: end, number: entry.seq };
        }
        Ok(())
    }

    /// Moves a cursor to the newest released frame if that is ahead of it. Frames of such a channel
    /// have no numbers.
    fn skip_to_newest(&self, cursor: &mut ChannelCursor) {
        let newest = self.ring.newest().map_or(self.ring.oldest(), |entry| Cursor(entry.start));
        cursor.position = cursor.position.max(newest);
    }

    fn newest_place(&self) -> u64 {
        self.ring.newest().map_or(0, |entry| entry.place)
    }
}

fn spend(room: &Cell<usize>, levels: usize) {
    room.set(room.get().saturating_add(levels));
}

#[cfg(test)]
mod tests {
    use pitwire_fixtures::share;
    use pitwire_model::{Lots, Side, Ticks};

    use super::*;

    /// A reader of many channels peeks here again at each message of the others.
    #[test]
    fn repeated_peeks_compare_a_book_once() {
        let spec = share();
        let mut feed = Feed::new(ChannelId::default(), "book.NPN_ZAR.100ms".into(), 64, LagPolicy::Ask);
        feed.chain = Some(ChangeChain::new(&spec, 5));
        feed.start_from(5);
        let mut cursor = ChannelCursor::at_end(&feed.ring);
        for change_id in 6..=15_u64 {
            let price = Ticks(change_id.cast_signed());
            feed.chain.as_mut().unwrap().history.record(change_id, Side::Buy, price, Lots(0), Lots(1));
            feed.publish_change(change_id * 8, change_id, VenueNanos(change_id), &[b'x'; 500]);
            feed.release();
        }
        let mut effort = MergeBudget::default();
        for _ in 0..100 {
            assert_eq!(feed.peek(&mut cursor, &effort), Ok(Some(120)));
        }
        assert_eq!((effort.compared.get(), effort.merged.get()), (10, 0), "ten levels are compared once");
        let mut out = Vec::new();
        feed.read(&mut cursor, &mut out, &effort).unwrap();
        assert!(out.ends_with(br#""asks":[]}}}"#) && cursor.number() == 15);
        assert_eq!((effort.compared.get(), effort.merged.get()), (10, 10));
        assert!(!effort.start_anew(), "no subscriber was put off");
    }
}
