//! One channel of one instrument: its ring, and what it does to those who fall behind.

use std::cell::Cell;

use pitwire_deribit::codec::{objects, write_notification};
use pitwire_model::{InstrumentSpec, VenueNanos};
use pitwire_websocket::{Opcode, write_header};

use crate::merge::{CHANGES, Told};
use crate::publisher::FeedId;
use crate::ring::{Cursor, Overrun, Ring};

/// What happens to a reader whose next frame is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The connection is closed with 1013: a client that reconnects is clean, one that misses a delta is wrong.
    Close,
    /// Only the latest message matters; the reader is moved to it.
    Latest,
    /// It is told in one change, on its own chain, all that it has missed, and goes on from there.
    Merge,
}

/// All that a reader of a merged book has missed since a `change_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Nothing: the book it holds is the book.
    Same,
    /// One notification that leads from that `change_id` to [`crate::Publisher::told`].
    Change(Vec<u8>),
    /// It is too long ago, or not of this channel: only a snapshot helps.
    Gone,
}

/// What a merged book needs in order to tell a reader the sum of what it has missed.
#[derive(Debug)]
pub(crate) struct Chain {
    spec: InstrumentSpec,
    pub told: Told,
    /// When the newest message was told, and the newest that readers may read.
    at: VenueNanos,
    visible_at: VenueNanos,
    /// The two numbers compared last, and whether they differ: a reader of many channels asks at each of their messages.
    compared: Cell<(u64, u64, bool)>,
}

impl Chain {
    pub fn new(spec: &InstrumentSpec, change_id: u64) -> Self {
        let (at, visible_at) = (VenueNanos::ZERO, VenueNanos::ZERO);
        let compared = Cell::new((change_id, change_id, false));
        Chain { spec: spec.clone(), told: Told::new(change_id, CHANGES), at, visible_at, compared }
    }

    /// Whether there is anything to tell between two numbers; `None` when that is for another turn to find out.
    fn differs(&self, from: u64, to: u64, effort: &Effort) -> Option<bool> {
        let (known_from, known_to, known) = self.compared.get();
        if (known_from, known_to) == (from, to) {
            return Some(known);
        }
        if !effort.has_room(&effort.compared) {
            return None;
        }
        spend(&effort.compared, self.told.len());
        let differs = self.told.differs(from, to);
        self.compared.set((from, to, differs));
        Some(differs)
    }
}

/// Levels that comparisons, and merges, look at between two releases: about a millisecond's worth each. One once begun is
/// finished.
const LEVELS_A_TURN: usize = 1 << 15;

/// How much more there is to be merged in this turn: hundreds who have fallen behind together must not hold up the venue.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    compared: Cell<usize>,
    merged: Cell<usize>,
    has_put_off: Cell<bool>,
}

impl Effort {
    /// Whether there is room for more of one sort; if not, this is remembered.
    fn has_room(&self, spent: &Cell<usize>) -> bool {
        let has_room = spent.get() < LEVELS_A_TURN;
        self.has_put_off.set(self.has_put_off.get() || !has_room);
        has_room
    }

    pub fn has_put_off(&self) -> bool {
        self.has_put_off.get()
    }

    /// A new turn. Says whether somebody waits for it.
    pub fn start_anew(&mut self) -> bool {
        std::mem::take(self).has_put_off.get()
    }
}

#[derive(Debug)]
pub(crate) struct Feed {
    pub id: FeedId,
    pub name: String,
    pub ring: Ring,
    pub lag: Lag,
    /// Of a feed whose lag is [`Lag::Merge`].
    pub chain: Option<Chain>,
    pub subscribers: u32,
    /// Those of them that read elsewhere: see [`crate::Publisher::lend`].
    pub lent: u32,
    /// Of a feed that tells candles, which turn with the clock.
    pub is_candle: bool,
    /// Whether anything was appended since the last release.
    pub dirty: bool,
}

impl Feed {
    pub fn new(id: FeedId, name: String, capacity: usize, lag: Lag) -> Self {
        let ring = Ring::new(capacity);
        Feed { id, name, ring, lag, chain: None, subscribers: 0, lent: 0, is_candle: false, dirty: false }
    }

    /// Encodes one message, once for everyone, frame header included.
    pub fn publish(&mut self, place: u64, payload: &[u8]) {
        self.ring.append(place, &framed(payload));
        self.dirty = true;
    }

    /// The same of a book's change, told at this moment.
    pub fn publish_change(&mut self, place: u64, change_id: u64, at: VenueNanos, payload: &[u8]) {
        if let Some(chain) = &mut self.chain {
            chain.at = at;
        }
        self.ring.append_numbered(place, change_id, &framed(payload));
        self.dirty = true;
    }

    /// A book's channel that nobody has heard for a while starts from the present.
    pub fn start_from(&mut self, change_id: u64) {
        self.ring.start_from(change_id);
        if let Some(chain) = &mut self.chain {
            chain.told.start_anew(change_id);
        }
    }

    pub fn release(&mut self) -> bool {
        if let Some(chain) = &mut self.chain {
            chain.visible_at = chain.at;
        }
        self.dirty = false;
        self.ring.release()
    }

    /// What a reader who holds `from` has missed of what may be read.
    pub fn merged(&self, from: u64) -> Merged {
        let to = self.ring.visible_number();
        let Some(chain) = self.chain.as_ref().filter(|chain| from >= chain.told.horizon()) else { return Merged::Gone };
        if from >= to {
            return Merged::Same;
        }
        let (bids, asks) = chain.told.between(from, to);
        if bids.is_empty() && asks.is_empty() {
            return Merged::Same;
        }
        let mut out = Vec::new();
        write_notification(&mut out, &self.name, |j| {
            objects::book_change(j, &chain.spec, chain.visible_at, (from, to), &bids, &asks);
        });
        Merged::Change(out)
    }

    /// The same, if there is room for it in this turn.
    pub fn merged_in_turn(&self, from: u64, effort: &Effort) -> Option<Merged> {
        if !effort.has_room(&effort.merged) {
            return None;
        }
        spend(&effort.merged, self.chain.as_ref().map_or(0, |chain| chain.told.len()));
        Some(self.merged(from))
    }

    /// The place of a cursor's next frame; of one that was overrun, where a merge belongs.
    pub fn peek(&self, cursor: &mut Cursor, effort: &Effort) -> Result<Option<u64>, Overrun> {
        if self.lag == Lag::Latest {
            self.ring.skip_to_newest(cursor);
        }
        let (Err(Overrun), Some(chain)) = (self.ring.peek(*cursor), &self.chain) else {
            return self.ring.peek(*cursor);
        };
        let (from, to) = (cursor.number(), self.ring.visible_number());
        if from < chain.told.horizon() {
            return Err(Overrun);
        }
        match chain.differs(from, to, effort) {
            None => Ok(None),
            Some(true) => Ok(effort.has_room(&effort.merged).then(|| self.ring.visible_place())),
            Some(false) => {
                // All is as it was, and a change that changes nothing must not be sent: it goes on with what it holds, out
                // of step until there is a difference to tell.
                self.ring.skip_to_end(cursor, from);
                Ok(None)
            }
        }
    }

    /// Copies what [`Self::peek`] has found.
    pub fn read(&self, cursor: &mut Cursor, out: &mut Vec<u8>, effort: &Effort) -> Result<(), Overrun> {
        let (Err(Overrun), Some(chain)) = (self.ring.peek(*cursor), &self.chain) else {
            return self.ring.read(cursor, out);
        };
        spend(&effort.merged, chain.told.len());
        let number = match self.merged(cursor.number()) {
            Merged::Gone => return Err(Overrun),
            Merged::Same => cursor.number(),
            Merged::Change(payload) => {
                out.extend_from_slice(&framed(&payload));
                self.ring.visible_number()
            }
        };
        self.ring.skip_to_end(cursor, number);
        Ok(())
    }
}

fn spend(room: &Cell<usize>, levels: usize) {
    room.set(room.get().saturating_add(levels));
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 10);
    write_header(&mut frame, Opcode::Text, payload.len());
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use pitwire_model::{CurrencyId, Decimal, InstrumentId, InstrumentKind, InstrumentLimits, Lots, Side, Ticks};

    use super::*;

    /// A reader of many channels asks at each message of the others what comes next.
    #[test]
    fn a_book_is_compared_once_with_what_its_reader_holds_however_often_it_is_asked() {
        let spec = InstrumentSpec {
            id: InstrumentId(0),
            name: "NPN_ZAR".into(),
            kind: InstrumentKind::Spot { base: CurrencyId(0), quote: CurrencyId(1) },
            tick: Decimal::new(1, 2),
            lot: Decimal::new(1, 0),
            start_price: Ticks(100),
            max_resting_orders: 1_000,
            limits: InstrumentLimits::default(),
            rules: None,
        };
        let mut feed = Feed::new(FeedId::default(), "book.NPN_ZAR.100ms".into(), 64, Lag::Merge);
        feed.chain = Some(Chain::new(&spec, 5));
        feed.start_from(5);
        let mut cursor = feed.ring.end();
        for change_id in 6..=9_u64 {
            let price = Ticks(change_id.cast_signed());
            feed.chain.as_mut().unwrap().told.record(change_id, Side::Buy, price, Lots(0), Lots(1));
            feed.publish_change(change_id * 8, change_id, VenueNanos(change_id), &[b'x'; 40]);
            feed.release();
        }
        let mut effort = Effort::default();
        for _ in 0..100 {
            assert_eq!(feed.peek(&mut cursor, &effort), Ok(Some(72)));
        }
        assert_eq!((effort.compared.get(), effort.merged.get()), (4, 0), "four levels were looked at once");
        let mut out = Vec::new();
        feed.read(&mut cursor, &mut out, &effort).unwrap();
        assert!(out.ends_with(br#""asks":[]}}}"#) && cursor.number() == 9);
        assert_eq!((effort.compared.get(), effort.merged.get()), (4, 4));
        assert!(!effort.start_anew(), "nobody was put off");
    }
}
