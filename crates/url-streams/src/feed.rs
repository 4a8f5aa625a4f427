//! Writes each event to every stream that has a reader, for all three dialects.
//!
//! Does        Takes each command's events and writes each stream's messages, once for all its
//!             readers.
//! Holds       1. A depth message's `U` is the previous message's `u` plus one, even without
//!                readers in between: touched levels are recorded for every instrument.
//!             2. A level that changed is reported even if it has its old quantity again, because a
//!                snapshot taken in between has another.
//!             3. Windows and candles end with the venue's own windows, so they are the same for
//!                every reader.
//!             4. Numbers are the instrument's public ones and reveal nothing hidden.
//! Leaves out  Subscriptions, sockets, and when a message may be sent: only after the commit.
//! Costs       A few nanoseconds per level and trade of a stream without readers, otherwise a
//!             message.
//! Start at    [`Streams::observe`].

use pitwire_engine::Engine;
use pitwire_model::{Event, InstrumentId, Lots, SequencedCommand, Side, Ticks, VenueNanos};
use pitwire_projections::{PublicTrade, Tape, Views};

use crate::bars::Bars;
use crate::binance::encode::Aggregate;
use crate::instrument_encoder::InstrumentEncoder;
use crate::key::{Kind, StreamKey};
use crate::market::{Day, Level, Market, Touch};
use crate::names::Directory;
use crate::state::{Ladder, SentState, Sink, StreamEntry, StreamId, StreamInstrument, Streams, VenueMoment};

/// As many trades as the venue's tape has.
const AGGREGATES: usize = Tape::TRADES;
/// `touched` is compacted above this length, and above twice its length after the last compaction.
/// Compacting removes duplicates.
const TOUCHED: usize = 65_536;
const SECOND_NS: u64 = 1_000_000_000;

impl Streams {
    /// Takes over the state of a recovered venue.
    pub fn new(engine: &Engine, views: &Views) -> Streams {
        let mut streams = Streams::default();
        streams.learn(engine, views);
        streams
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn instrument(&self, id: InstrumentId) -> Option<&StreamInstrument> {
        self.instruments.get(id.0 as usize)
    }

    pub(crate) fn instruments_mut(&mut self) -> &mut [StreamInstrument] {
        &mut self.instruments
    }

    /// Returns an instrument in the form that encoders need.
    pub(crate) fn market<'a>(&'a self, engine: &'a Engine, id: InstrumentId) -> Option<Market<'a>> {
        Some(Market { spec: &engine.market(id)?.spec, names: self.directory.names(id)? })
    }

    fn learn(&mut self, engine: &Engine, views: &Views) {
        self.directory.learn(engine);
        for market in engine.markets().iter().skip(self.instruments.len()) {
            let tape = views.tape(market.spec.id);
            let mut instrument = StreamInstrument {
                bars: tape.map(Bars::of).unwrap_or_default(),
                sent_change_ids: [market.change_id(); 2],
                last_lots: tape.and_then(|tape| tape.trades().back()).map_or(Lots::ZERO, |trade| trade.lots),
                ..StreamInstrument::default()
            };
            tape.into_iter().flat_map(Tape::trades).for_each(|trade| instrument.aggregate(trade, true));
            self.instruments.push(instrument);
        }
    }

    /// Adds a reader. The stream is written from now on. Returns `None` if there is no such
    /// instrument.
    pub fn listen(&mut self, key: StreamKey, engine: &Engine) -> Option<StreamId> {
        let names = match key.instrument {
            Some(id) => Some(self.directory.names(id)?),
            None => None,
        };
        let name = key.binance_name(names).unwrap_or_default();
        let entries = match key.instrument {
            Some(id) => {
                let instrument = self.instruments.get_mut(id.0 as usize)?;
                instrument.wake(key.kind, engine.market(id)?);
                &mut instrument.entries
            }
            None => &mut self.all,
        };
        let place = match entries.binary_search_by(|entry| entry.key.cmp(&key)) {
            Ok(place) => place,
            Err(place) => {
                let id = StreamId(u32::try_from(self.keys.len()).ok()?);
                self.keys.push(key);
                entries.insert(place, StreamEntry { key, id, name, readers: 0, sent: SentState::Nothing, number: 0 });
                place
            }
        };
        let entry = entries.get_mut(place)?;
        entry.readers += 1;
        self.candles += u32::from(is_candle(key.kind));
        Some(entry.id)
    }

    /// Removes a reader.
    pub fn unlisten(&mut self, id: StreamId) {
        let Some(entry) = self.entry_mut(id) else { return };
        let was_read = entry.readers > 0;
        entry.readers = entry.readers.saturating_sub(1);
        if entry.readers == 0 {
            entry.sent = SentState::Nothing;
        }
        let Some(key) = self.key(id) else { return };
        self.candles -= u32::from(was_read && is_candle(key.kind));
        let Some(instrument) = key.instrument.and_then(|id| self.instruments.get_mut(id.0 as usize)) else { return };
        let wanted =
            |wants: fn(Kind) -> bool| instrument.entries.iter().any(|one| one.readers > 0 && wants(one.key.kind));
        let (wants_ladder, wants_settled) = (wanted(wants_ladder), wanted(wants_settled));
        instrument.ladder = instrument.ladder.take().filter(|_| wants_ladder);
        instrument.settled = instrument.settled.take().filter(|_| wants_settled);
    }

    pub fn key(&self, id: StreamId) -> Option<StreamKey> {
        self.keys.get(id.0 as usize).copied()
    }

    /// Returns the number of readers of a stream.
    pub fn readers(&self, id: StreamId) -> u32 {
        let Some(key) = self.key(id) else { return 0 };
        let entries = match key.instrument {
            Some(of) => self.instrument(of).map(|instrument| &instrument.entries),
            None => Some(&self.all),
        };
        entries.and_then(|entries| entries.iter().find(|entry| entry.id == id)).map_or(0, |entry| entry.readers)
    }

    pub(crate) fn entry_mut(&mut self, id: StreamId) -> Option<&mut StreamEntry> {
        let key = self.key(id)?;
        let entries = match key.instrument {
            Some(of) => &mut self.instruments.get_mut(of.0 as usize)?.entries,
            None => &mut self.all,
        };
        entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Takes one command with its events and writes the messages.
    pub fn observe(
        &mut self,
        stamped: &SequencedCommand,
        events: &[Event],
        engine: &Engine,
        views: &Views,
        sink: &mut dyn Sink,
    ) {
        let here = VenueMoment { engine, views, at: stamped.at };
        for event in events {
            match event {
                Event::InstrumentAdded(_) => self.learn(engine, views),
                Event::Level { instrument, side, price, .. } => {
                    if let Some(instrument) = self.instruments.get_mut(instrument.0 as usize) {
                        instrument.touch_level(*side, *price);
                    }
                }
                Event::BookChanged { instrument, change_id } => {
                    let traded = count_trades(events, *instrument);
                    self.changed(*instrument, *change_id, traded, here, sink);
                }
                Event::WindowClosed => self.close_windows(here, sink),
                _ => {}
            }
        }
    }

    /// Records a command's effect on one instrument's public state.
    fn changed(&mut self, id: InstrumentId, change_id: u64, traded: usize, here: VenueMoment<'_>, sink: &mut dyn Sink) {
        let Self { instruments, directory, scratch, .. } = self;
        let (Some(instrument), Some(place)) = (instruments.get_mut(id.0 as usize), here.engine.market(id)) else {
            return;
        };
        scratch.trades.clear();
        if let Some(tape) = here.views.tape(id).filter(|_| traded > 0) {
            let from = tape.trades().len().saturating_sub(traded);
            scratch.trades.extend(tape.trades().range(from..).copied());
        }
        instrument.take_trades(&scratch.trades);
        if let Some(names) = directory.names(id).filter(|_| instrument.has_readers()) {
            let market = Market { spec: &place.spec, names };
            InstrumentEncoder { instrument, place, market, here, sink, scratch }.command(change_id);
        }
        instrument.fresh.clear();
    }

    fn close_windows(&mut self, here: VenueMoment<'_>, sink: &mut dyn Sink) {
        let second = here.at.0 / SECOND_NS;
        let has_turned = std::mem::replace(&mut self.last_second, second) != second;
        let Self { instruments, directory, scratch, .. } = self;
        for (instrument, place) in instruments.iter_mut().zip(here.engine.markets()) {
            let change_id = place.change_id();
            if let Some(names) = directory.names(place.spec.id).filter(|_| instrument.has_readers()) {
                let market = Market { spec: &place.spec, names };
                let mut teller = InstrumentEncoder { instrument, place, market, here, sink, scratch };
                teller.window(change_id, true);
                if has_turned {
                    teller.window(change_id, false);
                }
            }
            instrument.settle(place);
            instrument.end_window(change_id, true);
            if has_turned {
                instrument.end_window(change_id, false);
            }
        }
        if has_turned {
            self.send_all(here, sink);
        }
    }

    /// Whether candles have readers.
    pub fn has_candles(&self) -> bool {
        self.candles > 0
    }

    /// Handles the start of a minute of venue time, before any command in it. Candles end and begin
    /// even if nothing happens.
    pub fn turn_minute(&mut self, here: VenueMoment<'_>, sink: &mut dyn Sink) {
        let Self { instruments, directory, scratch, .. } = self;
        for (instrument, place) in instruments.iter_mut().zip(here.engine.markets()) {
            if let Some(names) = directory.names(place.spec.id).filter(|_| instrument.has_readers()) {
                let market = Market { spec: &place.spec, names };
                InstrumentEncoder { instrument, place, market, here, sink, scratch }.minute();
            }
        }
    }

    /// Whether any connection has asked for heartbeats.
    pub fn wants_beats(&self) -> bool {
        let mut entries = self.instruments.iter().flat_map(|instrument| &instrument.entries);
        entries.any(|one| one.readers > 0 && matches!(one.key.kind, Kind::Market(entries) if entries.heartbeat))
    }

    /// Writes heartbeats for their subscribers. Called every few seconds; `beat` counts the
    /// calls.
    pub fn beat(&mut self, at: VenueNanos, beat: u64, sink: &mut dyn Sink) {
        let Self { instruments, scratch, .. } = self;
        let entries = instruments.iter_mut().flat_map(|instrument| &mut instrument.entries);
        for entry in entries.filter(|entry| entry.readers > 0) {
            let Kind::Market(entries) = entry.key.kind else { continue };
            if entries.heartbeat {
                scratch.payload.clear();
                let numbered = crate::gemini::heartbeat(&mut scratch.payload, at, beat);
                entry.send_numbered(&mut scratch.payload, &mut scratch.wrapped, numbered, at, sink);
            }
        }
    }
}

impl StreamInstrument {
    fn has_readers(&self) -> bool {
        self.entries.iter().any(|entry| entry.readers > 0)
    }

    /// Initialises the state that exists only while a stream has readers.
    fn wake(&mut self, kind: Kind, market: &pitwire_engine::Market) {
        if !self.has_readers() {
            self.touch = Touch::of(market);
        }
        if wants_ladder(kind) && self.ladder.is_none() {
            self.ladder = Some(ladder_of(market));
        }
    }

    /// Copies the levels touched in a 100 ms window into the settled book.
    fn settle(&mut self, market: &pitwire_engine::Market) {
        let is_wanted = self.entries.iter().any(|one| one.readers > 0 && wants_settled(one.key.kind));
        match &mut self.settled {
            Some(settled) => {
                for (side, price) in self.touched.get(self.tenth_from..).unwrap_or_default() {
                    match market.book().lots_at(*side, *price) {
                        Lots::ZERO => settled.remove(&(*side, *price)),
                        lots => settled.insert((*side, *price), lots),
                    };
                }
            }
            None if is_wanted => self.settled = Some(ladder_of(market)),
            None => {}
        }
    }

    /// Returns a book to join the depth streams to, best first, and its last update. Uses the
    /// settled book if there is one, because some clients need the next event to begin right after
    /// it.
    pub fn snapshot(&self, market: &pitwire_engine::Market, most: usize) -> (u64, Vec<Level>, Vec<Level>) {
        let Some(settled) = &self.settled else {
            let [bids, asks] = [Side::Buy, Side::Sell].map(|side| market.book().levels(side).take(most).collect());
            return (market.change_id(), bids, asks);
        };
        let level = |((_, price), lots): (&(Side, Ticks), &Lots)| (*price, *lots);
        let bids = settled.range(..(Side::Sell, Ticks(i64::MIN))).rev().take(most).map(level).collect();
        let asks = settled.range((Side::Sell, Ticks(i64::MIN))..).take(most).map(level).collect();
        (self.sent_change_ids[0], bids, asks)
    }

    fn touch_level(&mut self, side: Side, price: Ticks) {
        if !self.entries.is_empty() {
            self.fresh.push((side, price));
        }
        if self.touched.len() >= self.compact_at.max(TOUCHED) {
            self.compact();
        }
        self.touched.push((side, price));
    }

    #[cold]
    fn compact(&mut self) {
        let mut tenth = self.touched.split_off(self.tenth_from);
        for part in [&mut self.touched, &mut tenth] {
            part.sort_unstable();
            part.dedup();
        }
        self.tenth_from = self.touched.len();
        self.touched.append(&mut tenth);
        // If most entries differ, the next compaction waits: otherwise each further level would
        // sort all of them again.
        self.compact_at = 2 * self.touched.len();
    }

    /// Whether a window has something to report.
    pub fn is_touched(&self, is_tenth: bool) -> bool {
        self.touched.len() > if is_tenth { self.tenth_from } else { 0 }
    }

    /// Returns the levels touched in a window, best first, with their present quantities.
    pub fn window_levels(
        &self,
        is_tenth: bool,
        market: &pitwire_engine::Market,
        bids: &mut Vec<Level>,
        asks: &mut Vec<Level>,
    ) {
        let from = if is_tenth { self.tenth_from } else { 0 };
        levels_of(self.touched.get(from..).unwrap_or_default().to_vec(), market, bids, asks);
    }

    /// Returns the levels touched by this command, best first, with their present quantities.
    pub fn fresh_levels(&self, market: &pitwire_engine::Market, bids: &mut Vec<Level>, asks: &mut Vec<Level>) {
        levels_of(self.fresh.clone(), market, bids, asks);
    }

    fn end_window(&mut self, change_id: u64, is_tenth: bool) {
        if self.is_touched(is_tenth) {
            self.sent_change_ids[usize::from(!is_tenth)] = change_id;
        }
        if is_tenth {
            self.tenth_from = self.touched.len();
        } else {
            self.touched.clear();
            (self.tenth_from, self.compact_at) = (0, 0);
        }
    }

    fn take_trades(&mut self, trades: &[PublicTrade]) {
        for (at, trade) in trades.iter().enumerate() {
            self.bars.add(trade);
            self.aggregate(trade, at > 0);
            self.last_lots = trade.lots;
        }
    }

    /// Adds a trade to the previous aggregate if it belongs there. For trades before the start the
    /// command is unknown, so only the time decides.
    fn aggregate(&mut self, trade: &PublicTrade, may_belong: bool) {
        if may_belong && self.aggregates.back_mut().is_some_and(|last| last.absorb(trade)) {
            return;
        }
        if self.aggregates.len() == AGGREGATES {
            self.aggregates.pop_front();
        }
        self.aggregates.push_back(Aggregate::of(trade));
    }

    /// Returns the statistics of the last 24 hours.
    pub fn day(&self, market: &pitwire_engine::Market, at: VenueNanos) -> Option<Day> {
        let (bar, before) = self.bars.day(at.as_millis())?;
        Some(Day { bar, before, last_lots: self.last_lots, now: at, touch: Touch::of(market) })
    }
}

/// Returns each touched level once, best first, with its present quantity.
fn levels_of(
    mut touched: Vec<(Side, Ticks)>,
    market: &pitwire_engine::Market,
    bids: &mut Vec<Level>,
    asks: &mut Vec<Level>,
) {
    touched.sort_unstable();
    touched.dedup();
    bids.clear();
    asks.clear();
    for (side, price) in touched {
        let level = (price, market.book().lots_at(side, price));
        if side == Side::Buy { bids.push(level) } else { asks.push(level) }
    }
    bids.reverse();
}

const fn is_candle(kind: Kind) -> bool {
    matches!(kind, Kind::Kline(_) | Kind::Candles2(_))
}

const fn wants_ladder(kind: Kind) -> bool {
    matches!(kind, Kind::Market(_))
}

const fn wants_settled(kind: Kind) -> bool {
    matches!(kind, Kind::Depth(_))
}

fn ladder_of(market: &pitwire_engine::Market) -> Ladder {
    let sides = [Side::Buy, Side::Sell].into_iter();
    sides.flat_map(|side| market.book().levels(side).map(move |(price, lots)| ((side, price), lots))).collect()
}

fn count_trades(events: &[Event], id: InstrumentId) -> usize {
    events.iter().filter(|event| matches!(event, Event::Trade { instrument, .. } if *instrument == id)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mass cancel over many prices sorts them a few times, not once per level.
    #[test]
    fn distinct_levels_are_sorted_rarely() {
        let mut instrument = StreamInstrument::default();
        let levels = 4 * TOUCHED;
        let mut times = 0;
        for price in 0..levels {
            let before = instrument.compact_at;
            instrument.touch_level(Side::Buy, Ticks(i64::try_from(price).expect("small")));
            times += usize::from(instrument.compact_at != before || instrument.touched.len() <= price);
        }
        assert_eq!((instrument.touched.len(), times), (levels, 2));
        for _ in 0..2 * levels {
            instrument.touch_level(Side::Sell, Ticks(1));
        }
        assert!(instrument.touched.len() <= 2 * (levels + 1), "what is there twice is dropped");
        instrument.end_window(1, false);
        assert_eq!((instrument.touched.len(), instrument.compact_at), (0, 0));
    }
}
