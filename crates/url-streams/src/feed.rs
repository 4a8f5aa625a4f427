//! What happens, told to every stream that somebody reads: the observer behind all three forms.
//!
//! Does        take in each command's events and write each stream's messages, once for all its readers.
//! Holds       1. a depth message's `U` is the `u` of the one before plus one, whoever listened meanwhile: what a window
//!                touched is noted for every instrument;
//!             2. a level that changed is told even when it is back where it was: a snapshot taken in between has it else;
//!             3. windows and candles end with the venue's own windows, so that everybody cuts them alike;
//!             4. numbers are the instrument's public ones: nothing hidden shows.
//! Leaves out  who reads what, sockets, and when what is told may leave: that is after the commit.
//! Costs       a few nanoseconds for each level and trade of a stream that nobody reads; a message else.
//! Start at    [`Streams::observe`].

use std::collections::{BTreeMap, VecDeque};

use pitwire_engine::Engine;
use pitwire_model::{Event, InstrumentId, Lots, Side, Stamped, Ticks, VenueNanos};
use pitwire_projections::{PublicTrade, Tape, Views};

use crate::bars::{Bar, Bars};
use crate::binance::encode::{Aggregate, Stamps};
use crate::gemini::{Change, Numbered};
use crate::key::{Kind, StreamKey};
use crate::market::{Day, Level, Market, Touch};
use crate::names::Directory;
use crate::tell::Teller;

/// Names a stream for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Where messages go.
pub trait Sink {
    /// One message for everyone who reads the stream. With `numbered`, each socket's own number belongs into it.
    fn tell(&mut self, stream: StreamId, payload: &[u8], numbered: Option<Numbered>);
    /// The time of day by three clocks: asked once for each message that tells it. `at` is when it was due.
    fn stamps(&mut self, at: VenueNanos) -> Stamps;
}

/// A stream that somebody reads, or has read.
#[derive(Debug)]
pub(crate) struct Heard {
    pub key: StreamKey,
    pub id: StreamId,
    /// As the Binance form writes it.
    pub name: String,
    pub readers: u32,
    pub told: Told,
    /// Messages told, for streams that bear their own number.
    pub number: u64,
}

/// What a stream of states told last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    #[default]
    Nothing,
    Levels(Vec<Level>, Vec<Level>),
    Bar(Bar),
    Day(Bar, Option<Ticks>, Touch),
}

/// Sides by price, as the last command left them.
pub(crate) type Ladder = BTreeMap<(Side, Ticks), Lots>;

#[derive(Debug, Default)]
pub(crate) struct Instrument {
    pub bars: Bars,
    pub aggregates: VecDeque<Aggregate>,
    pub last_lots: Lots,
    /// Since the second turned; those of the running tenth begin at `tenth_from`.
    touched: Vec<(Side, Ticks)>,
    tenth_from: usize,
    /// Put in order as soon as there are more than this; at least [`TOUCHED`].
    compact_at: usize,
    /// By this command.
    fresh: Vec<(Side, Ticks)>,
    /// The last update told by the windows of a tenth and of a second.
    pub told: [u64; 2],
    pub heard: Vec<Heard>,
    pub touch: Touch,
    /// Kept while somebody wants to know by how much levels change.
    pub ladder: Option<Ladder>,
    /// The book as the last tenth left it, kept while somebody reads depth: a snapshot of it ends where the next event
    /// of either cadence begins, or where that of the tenth does.
    pub settled: Option<Ladder>,
    /// What readers of all instruments were told of this one's day.
    pub day_told: [Told; 2],
}

/// As many trades as the venue's own tape has.
const AGGREGATES: usize = Tape::TRADES;
/// Beyond this many, and twice what was left the last time, touched levels are put in order, which drops what is there
/// twice.
const TOUCHED: usize = 65_536;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub struct Streams {
    directory: Directory,
    instruments: Vec<Instrument>,
    /// Of all instruments.
    pub(crate) all: Vec<Heard>,
    keys: Vec<StreamKey>,
    last_second: u64,
    /// Readers of candles.
    candles: u32,
    pub(crate) scratch: Scratch,
}

/// Buffers that are used again for every message.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub payload: Vec<u8>,
    pub dressed: Vec<u8>,
    pub trades: Vec<PublicTrade>,
    pub bids: Vec<Level>,
    pub asks: Vec<Level>,
    pub changes: Vec<Change>,
    pub tops: Vec<Change>,
}

/// The venue as it stands when something is told or asked.
#[derive(Clone, Copy)]
pub struct Here<'a> {
    pub engine: &'a Engine,
    pub views: &'a Views,
    pub at: VenueNanos,
}

impl Streams {
    /// Takes over from a recovered venue.
    pub fn new(engine: &Engine, views: &Views) -> Streams {
        let mut streams = Streams::default();
        streams.learn(engine, views);
        streams
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn instrument(&self, id: InstrumentId) -> Option<&Instrument> {
        self.instruments.get(id.0 as usize)
    }

    pub(crate) fn instruments_mut(&mut self) -> &mut [Instrument] {
        &mut self.instruments
    }

    /// An instrument as encoders want it.
    pub(crate) fn market<'a>(&'a self, engine: &'a Engine, id: InstrumentId) -> Option<Market<'a>> {
        Some(Market { spec: &engine.market(id)?.spec, names: self.directory.names(id)? })
    }

    fn learn(&mut self, engine: &Engine, views: &Views) {
        self.directory.learn(engine);
        for market in engine.markets().iter().skip(self.instruments.len()) {
            let tape = views.tape(market.spec.id);
            let mut instrument = Instrument {
                bars: tape.map(Bars::of).unwrap_or_default(),
                told: [market.change_id(); 2],
                last_lots: tape.and_then(|tape| tape.trades().back()).map_or(Lots::ZERO, |trade| trade.lots),
                ..Instrument::default()
            };
            tape.into_iter().flat_map(Tape::trades).for_each(|trade| instrument.aggregate(trade, true));
            self.instruments.push(instrument);
        }
    }

    /// Adds a reader; the stream is written from now on. `None` when there is no such instrument.
    pub fn listen(&mut self, key: StreamKey, engine: &Engine) -> Option<StreamId> {
        let names = match key.instrument {
            Some(id) => Some(self.directory.names(id)?),
            None => None,
        };
        let name = key.binance_name(names).unwrap_or_default();
        let heard = match key.instrument {
            Some(id) => {
                let instrument = self.instruments.get_mut(id.0 as usize)?;
                instrument.wake(key.kind, engine.market(id)?);
                &mut instrument.heard
            }
            None => &mut self.all,
        };
        let place = match heard.binary_search_by(|heard| heard.key.cmp(&key)) {
            Ok(place) => place,
            Err(place) => {
                let id = StreamId(u32::try_from(self.keys.len()).ok()?);
                self.keys.push(key);
                heard.insert(place, Heard { key, id, name, readers: 0, told: Told::Nothing, number: 0 });
                place
            }
        };
        let heard = heard.get_mut(place)?;
        heard.readers += 1;
        self.candles += u32::from(is_candle(key.kind));
        Some(heard.id)
    }

    /// A reader less.
    pub fn unlisten(&mut self, id: StreamId) {
        let Some(heard) = self.heard_mut(id) else { return };
        let was_read = heard.readers > 0;
        heard.readers = heard.readers.saturating_sub(1);
        if heard.readers == 0 {
            heard.told = Told::Nothing;
        }
        let Some(key) = self.key(id) else { return };
        self.candles -= u32::from(was_read && is_candle(key.kind));
        let Some(instrument) = key.instrument.and_then(|id| self.instruments.get_mut(id.0 as usize)) else { return };
        let wanted =
            |wants: fn(Kind) -> bool| instrument.heard.iter().any(|one| one.readers > 0 && wants(one.key.kind));
        let (wants_ladder, wants_settled) = (wanted(wants_ladder), wanted(wants_settled));
        instrument.ladder = instrument.ladder.take().filter(|_| wants_ladder);
        instrument.settled = instrument.settled.take().filter(|_| wants_settled);
    }

    pub fn key(&self, id: StreamId) -> Option<StreamKey> {
        self.keys.get(id.0 as usize).copied()
    }

    /// How many read a stream.
    pub fn readers(&self, id: StreamId) -> u32 {
        let Some(key) = self.key(id) else { return 0 };
        let heard = match key.instrument {
            Some(of) => self.instrument(of).map(|instrument| &instrument.heard),
            None => Some(&self.all),
        };
        heard.and_then(|heard| heard.iter().find(|heard| heard.id == id)).map_or(0, |heard| heard.readers)
    }

    pub(crate) fn heard_mut(&mut self, id: StreamId) -> Option<&mut Heard> {
        let key = self.key(id)?;
        let heard = match key.instrument {
            Some(of) => &mut self.instruments.get_mut(of.0 as usize)?.heard,
            None => &mut self.all,
        };
        heard.iter_mut().find(|heard| heard.id == id)
    }

    /// Takes in one command and what it caused, and tells it.
    pub fn observe(
        &mut self,
        stamped: &Stamped,
        events: &[Event],
        engine: &Engine,
        views: &Views,
        sink: &mut dyn Sink,
    ) {
        let here = Here { engine, views, at: stamped.at };
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

    /// What a command did to one instrument's public state.
    fn changed(&mut self, id: InstrumentId, change_id: u64, traded: usize, here: Here<'_>, sink: &mut dyn Sink) {
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
        if let Some(names) = directory.names(id).filter(|_| instrument.is_heard()) {
            let market = Market { spec: &place.spec, names };
            Teller { instrument, place, market, here, sink, scratch }.command(change_id);
        }
        instrument.fresh.clear();
    }

    fn close_windows(&mut self, here: Here<'_>, sink: &mut dyn Sink) {
        let second = here.at.0 / SECOND_NS;
        let has_turned = std::mem::replace(&mut self.last_second, second) != second;
        let Self { instruments, directory, scratch, .. } = self;
        for (instrument, place) in instruments.iter_mut().zip(here.engine.markets()) {
            let change_id = place.change_id();
            if let Some(names) = directory.names(place.spec.id).filter(|_| instrument.is_heard()) {
                let market = Market { spec: &place.spec, names };
                let mut teller = Teller { instrument, place, market, here, sink, scratch };
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
            self.tell_all(here, sink);
        }
    }

    /// Whether anybody hears candles.
    pub fn has_candles(&self) -> bool {
        self.candles > 0
    }

    /// A minute of venue time has begun, before any command of it: candles end and begin, also where nothing happens.
    pub fn turn_minute(&mut self, here: Here<'_>, sink: &mut dyn Sink) {
        let Self { instruments, directory, scratch, .. } = self;
        for (instrument, place) in instruments.iter_mut().zip(here.engine.markets()) {
            if let Some(names) = directory.names(place.spec.id).filter(|_| instrument.is_heard()) {
                let market = Market { spec: &place.spec, names };
                Teller { instrument, place, market, here, sink, scratch }.minute();
            }
        }
    }

    /// Whether anybody has asked for heartbeats.
    pub fn wants_beats(&self) -> bool {
        let mut heard = self.instruments.iter().flat_map(|instrument| &instrument.heard);
        heard.any(|one| one.readers > 0 && matches!(one.key.kind, Kind::Market(entries) if entries.heartbeat))
    }

    /// Every few seconds: heartbeats for those who asked for them. `beat` counts them.
    pub fn beat(&mut self, at: VenueNanos, beat: u64, sink: &mut dyn Sink) {
        let Self { instruments, scratch, .. } = self;
        let heard = instruments.iter_mut().flat_map(|instrument| &mut instrument.heard);
        for heard in heard.filter(|heard| heard.readers > 0) {
            let Kind::Market(entries) = heard.key.kind else { continue };
            if entries.heartbeat {
                scratch.payload.clear();
                let numbered = crate::gemini::heartbeat(&mut scratch.payload, at, beat);
                heard.tell_numbered(&mut scratch.payload, &mut scratch.dressed, numbered, at, sink);
            }
        }
    }
}

impl Instrument {
    fn is_heard(&self) -> bool {
        self.heard.iter().any(|heard| heard.readers > 0)
    }

    /// Before a reader comes: what is only kept while somebody reads.
    fn wake(&mut self, kind: Kind, market: &pitwire_engine::Market) {
        if !self.is_heard() {
            self.touch = Touch::of(market);
        }
        if wants_ladder(kind) && self.ladder.is_none() {
            self.ladder = Some(ladder_of(market));
        }
    }

    /// At the end of a tenth: takes the levels that it has touched into the settled book.
    fn settle(&mut self, market: &pitwire_engine::Market) {
        let is_wanted = self.heard.iter().any(|one| one.readers > 0 && wants_settled(one.key.kind));
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

    /// A book to join the depth streams to, best first, and its last update: the settled one where there is one, for
    /// some clients want the next event to begin right behind it; else the present.
    pub fn snapshot(&self, market: &pitwire_engine::Market, most: usize) -> (u64, Vec<Level>, Vec<Level>) {
        let Some(settled) = &self.settled else {
            let [bids, asks] = [Side::Buy, Side::Sell].map(|side| market.book().levels(side).take(most).collect());
            return (market.change_id(), bids, asks);
        };
        let level = |((_, price), lots): (&(Side, Ticks), &Lots)| (*price, *lots);
        let bids = settled.range(..(Side::Sell, Ticks(i64::MIN))).rev().take(most).map(level).collect();
        let asks = settled.range((Side::Sell, Ticks(i64::MIN))..).take(most).map(level).collect();
        (self.told[0], bids, asks)
    }

    fn touch_level(&mut self, side: Side, price: Ticks) {
        if !self.heard.is_empty() {
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
        // Where most of them differ, the next time has to wait: else each further level would put all in order.
        self.compact_at = 2 * self.touched.len();
    }

    /// Whether a window of this kind has something to tell.
    pub fn is_touched(&self, is_tenth: bool) -> bool {
        self.touched.len() > if is_tenth { self.tenth_from } else { 0 }
    }

    /// The levels that a window has touched, best first, as they are now.
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

    /// The levels that this command has touched, best first, as they are now.
    pub fn fresh_levels(&self, market: &pitwire_engine::Market, bids: &mut Vec<Level>, asks: &mut Vec<Level>) {
        levels_of(self.fresh.clone(), market, bids, asks);
    }

    fn end_window(&mut self, change_id: u64, is_tenth: bool) {
        if self.is_touched(is_tenth) {
            self.told[usize::from(!is_tenth)] = change_id;
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

    /// Notes a trade, in the aggregate before it if it belongs there. Of what happened before the start nobody knows any
    /// more where a command ended: there the moment alone decides.
    fn aggregate(&mut self, trade: &PublicTrade, may_belong: bool) {
        if may_belong && self.aggregates.back_mut().is_some_and(|last| last.absorb(trade)) {
            return;
        }
        if self.aggregates.len() == AGGREGATES {
            self.aggregates.pop_front();
        }
        self.aggregates.push_back(Aggregate::of(trade));
    }

    /// The last 24 hours, with what stands around them.
    pub fn day(&self, market: &pitwire_engine::Market, at: VenueNanos) -> Option<Day> {
        let (bar, before) = self.bars.day(at.as_millis())?;
        Some(Day { bar, before, last_lots: self.last_lots, now: at, touch: Touch::of(market) })
    }
}

/// The levels touched, each once, best first, as the book has them now.
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

    /// A mass cancel over many prices puts them in order a few times, not once a level.
    #[test]
    fn levels_that_differ_are_put_in_order_seldom() {
        let mut instrument = Instrument::default();
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
