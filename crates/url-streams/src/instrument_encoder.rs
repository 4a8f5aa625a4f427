//! Writes the messages of one instrument's streams: for a command, and at the end of a window.
//!
//! Holds       1. For one command, trades come first, then the book, then the states that follow
//!                from both.
//!             2. A stream of states writes a state only if it differs from the previous one, and
//!                then completely.

use pitwire_model::{Side, TradeKind, VenueNanos};

use crate::bars::Bar;
use crate::binance::encode::{self, EventTime, append_ns, combine};
use crate::bithumb::{self, Part};
use crate::gemini::{self, Change, NumberPosition, Reason, Update};
use crate::key::{Kind, KlineInterval, MessageForm};
use crate::market::{Day, Level, Market, Touch};
use crate::state::{Scratch, SentState, Sink, StreamEntry, StreamInstrument, Streams, VenueMoment};
use crate::text::put;

impl StreamEntry {
    /// Applies the stream's optional forms to a message and passes it on.
    pub fn send(&self, payload: &mut Vec<u8>, wrapped: &mut Vec<u8>, at: VenueNanos, sink: &mut dyn Sink) {
        let MessageForm { is_combined, with_ns, .. } = self.key.form;
        let whole = if is_combined {
            wrapped.clear();
            combine(wrapped, &self.name, payload);
            wrapped
        } else {
            payload
        };
        if with_ns {
            append_ns(whole, sink.stamps(at));
        }
        sink.send(self.id, whole, None);
    }

    /// Does the same for a message with a number: the stream's own, or each socket's.
    pub fn send_numbered(
        &mut self,
        payload: &mut Vec<u8>,
        wrapped: &mut Vec<u8>,
        numbered: NumberPosition,
        at: VenueNanos,
        sink: &mut dyn Sink,
    ) {
        if self.key.form.with_ns {
            append_ns(payload, sink.stamps(at));
        }
        if self.is_by_stream() {
            self.number += 1;
            wrapped.clear();
            numbered.fill(payload, self.number, wrapped);
            sink.send(self.id, wrapped, None);
        } else {
            sink.send(self.id, payload, Some(numbered));
        }
    }

    pub fn is_by_stream(&self) -> bool {
        matches!(self.key.kind, Kind::Market(entries) if entries.by_stream)
    }

    fn when(&self, at: VenueNanos) -> EventTime {
        EventTime { at, in_micros: self.key.form.in_micros }
    }
}

/// An instrument, and everything needed to write its messages.
pub(crate) struct InstrumentEncoder<'a, 'b> {
    pub instrument: &'a mut StreamInstrument,
    pub place: &'a pitwire_engine::Market,
    pub market: Market<'a>,
    pub here: VenueMoment<'a>,
    pub sink: &'b mut dyn Sink,
    pub scratch: &'b mut Scratch,
}

impl InstrumentEncoder<'_, '_> {
    /// Writes the messages of a command. Its trades are already in the scratch buffer.
    pub fn command(&mut self, change_id: u64) {
        let before = std::mem::replace(&mut self.instrument.touch, Touch::of(self.place));
        let Scratch { bids, asks, .. } = &mut *self.scratch;
        self.instrument.fresh_levels(self.place, bids, asks);
        self.note_changes(before);
        let mut entries = std::mem::take(&mut self.instrument.entries);
        for one in entries.iter_mut().filter(|one| one.readers > 0) {
            self.command_to(one, change_id, before);
        }
        self.instrument.entries = entries;
    }

    /// Records by how much levels changed, and which best levels.
    fn note_changes(&mut self, before: Touch) {
        let Scratch { trades, bids, asks, changes, tops, .. } = &mut *self.scratch;
        changes.clear();
        tops.clear();
        let Some(ladder) = &mut self.instrument.ladder else { return };
        let sides = [(Side::Buy, &*bids), (Side::Sell, &*asks)];
        for (side, (price, now)) in
            sides.iter().flat_map(|(side, levels)| levels.iter().map(move |level| (*side, *level)))
        {
            let key = (side, price);
            let before = if now.is_zero() { ladder.remove(&key) } else { ladder.insert(key, now) }.unwrap_or_default();
            let traded = || trades.iter().any(|trade| trade.price == price || matches!(trade.kind, TradeKind::Call(_)));
            let reason = match now.cmp(&before) {
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Greater => Reason::Place,
                std::cmp::Ordering::Less if traded() => Reason::Trade,
                std::cmp::Ordering::Less => Reason::Cancel,
            };
            changes.push(Change { side, price, before, now, reason });
        }
        let touch = self.instrument.touch;
        for (side, was, is) in [(Side::Buy, before.bid, touch.bid), (Side::Sell, before.ask, touch.ask)] {
            // An empty side is reported by its last price with quantity zero.
            let gone = was.map(|(price, _)| (price, pitwire_model::Lots::ZERO));
            tops.extend(is.or(gone).filter(|_| was != is).map(|level| Change::top(side, level)));
        }
    }

    fn command_to(&mut self, one: &mut StreamEntry, change_id: u64, touch_before: Touch) {
        let InstrumentEncoder { instrument, market, here, sink, scratch, .. } = self;
        let (market, at, when) = (*market, here.at, one.when(here.at));
        let Scratch { payload, wrapped, trades, bids, asks, changes, tops } = &mut **scratch;
        payload.clear();
        match one.key.kind {
            Kind::Trade | Kind::BithumbTrade | Kind::Level2 => {
                for trade in trades.iter() {
                    payload.clear();
                    match one.key.kind {
                        Kind::Trade => encode::trade(payload, market, when, trade),
                        Kind::BithumbTrade => bithumb::trade(payload, market, trade),
                        _ => gemini::trade2(payload, market, trade),
                    }
                    one.send(payload, wrapped, at, *sink);
                }
                if one.key.kind == Kind::Level2 && !(bids.is_empty() && asks.is_empty()) {
                    payload.clear();
                    gemini::l2_updates(payload, market, both(bids, asks));
                    one.send(payload, wrapped, at, *sink);
                }
            }
            Kind::AggTrade => {
                let Some(first) = trades.first().map(|trade| trade.seq.0) else { return };
                let from = instrument.aggregates.partition_point(|sum| sum.first < first);
                for sum in instrument.aggregates.range(from..) {
                    payload.clear();
                    encode::agg_trade(payload, market, when, sum);
                    one.send(payload, wrapped, at, *sink);
                }
            }
            Kind::Market(entries) => {
                let update = Update { market, event_id: change_id, at, trades, changes, tops };
                if let Some(numbered) = update.write(payload, entries, false) {
                    one.send_numbered(payload, wrapped, numbered, at, *sink);
                }
            }
            Kind::BithumbBook => {
                bithumb::book(payload, Part::Update, market, at, change_id, bids, asks);
                one.send(payload, wrapped, at, *sink);
            }
            Kind::BookTicker if instrument.touch != touch_before => {
                encode::book_ticker(payload, market, change_id, instrument.touch);
                one.send(payload, wrapped, at, *sink);
            }
            Kind::BithumbTicker => {
                let Some(last) = trades.last() else { return };
                if let Some(day) = instrument.day(self.place, at) {
                    bithumb::ticker(payload, Part::Update, market, &day, last.seq.0);
                    one.send(payload, wrapped, at, *sink);
                }
            }
            _ => {}
        }
    }

    /// Writes the collected changes of a window of 100 ms or of one second.
    pub fn window(&mut self, change_id: u64, is_tenth: bool) {
        let mut entries = std::mem::take(&mut self.instrument.entries);
        for one in entries.iter_mut().filter(|one| one.readers > 0) {
            match one.key.kind {
                Kind::Depth(cadence) if cadence.is_tenth() == is_tenth => self.depth(one, change_id, is_tenth),
                Kind::Partial(levels, cadence) if cadence.is_tenth() == is_tenth => {
                    self.partial(one, levels, change_id)
                }
                Kind::Kline(interval) if !is_tenth => self.kline(one, interval),
                Kind::Candles2(interval) if !is_tenth => self.candles(one, interval),
                Kind::MiniTicker | Kind::Ticker if !is_tenth => self.day(one),
                _ => {}
            }
        }
        self.instrument.entries = entries;
    }

    /// Writes which candles have ended and begun with the minute.
    pub fn minute(&mut self) {
        let mut entries = std::mem::take(&mut self.instrument.entries);
        for one in entries.iter_mut().filter(|one| one.readers > 0) {
            match one.key.kind {
                Kind::Kline(interval) => self.kline(one, interval),
                Kind::Candles2(interval) => self.candles(one, interval),
                _ => {}
            }
        }
        self.instrument.entries = entries;
    }

    fn depth(&mut self, one: &StreamEntry, change_id: u64, is_tenth: bool) {
        if !self.instrument.is_touched(is_tenth) {
            return;
        }
        let Scratch { payload, wrapped, bids, asks, .. } = &mut *self.scratch;
        self.instrument.window_levels(is_tenth, self.place, bids, asks);
        let ids = (self.instrument.sent_change_ids[usize::from(!is_tenth)] + 1, change_id);
        payload.clear();
        encode::depth(payload, self.market, one.when(self.here.at), ids, bids, asks);
        one.send(payload, wrapped, self.here.at, self.sink);
    }

    fn partial(&mut self, one: &mut StreamEntry, levels: u8, change_id: u64) {
        let [bids, asks] = [Side::Buy, Side::Sell]
            .map(|side| self.place.book().levels(side).take(usize::from(levels)).collect::<Vec<Level>>());
        let Scratch { payload, wrapped, .. } = &mut *self.scratch;
        payload.clear();
        encode::book(payload, self.market, change_id, &bids, &asks);
        let state = SentState::Levels(bids, asks);
        if one.sent != state {
            one.sent = state;
            one.send(payload, wrapped, self.here.at, self.sink);
        }
    }

    /// Writes the current candle, preceded once by the ended candle.
    fn kline(&mut self, one: &mut StreamEntry, interval: KlineInterval) {
        for (bar, is_closed) in self.candles_due(one, interval) {
            let Scratch { payload, wrapped, .. } = &mut *self.scratch;
            payload.clear();
            encode::kline(payload, self.market, one.when(self.here.at), interval, &bar, is_closed);
            one.send(payload, wrapped, self.here.at, self.sink);
        }
    }

    fn candles(&mut self, one: &mut StreamEntry, interval: KlineInterval) {
        let due = self.candles_due(one, interval);
        if due.is_empty() {
            return;
        }
        let Scratch { payload, wrapped, .. } = &mut *self.scratch;
        payload.clear();
        gemini::candles(payload, self.market, interval, due.iter().rev().map(|(bar, _)| bar));
        one.send(payload, wrapped, self.here.at, self.sink);
    }

    /// Returns the candles that a reader has not received, oldest first, and whether each has
    /// ended.
    fn candles_due(&self, one: &mut StreamEntry, interval: KlineInterval) -> Vec<(Bar, bool)> {
        let (bars, start_ms) = (&self.instrument.bars, interval.start_ms(self.here.at.as_millis()));
        let mut due = Vec::new();
        let sent = if let SentState::Bar(bar) = &one.sent { Some(*bar) } else { None };
        if let Some(ended) = sent.filter(|bar| bar.candle.start_ms < start_ms) {
            due.extend(bars.bucket(interval, ended.candle.start_ms).map(|bar| (bar, true)));
        }
        let Some(now) = bars.bucket(interval, start_ms) else { return due };
        if sent != Some(now) {
            // A new bucket without trades needs no message, but its end does.
            if sent.is_none() || now.trades > 0 {
                due.push((now, false));
            }
            one.sent = SentState::Bar(now);
        }
        due
    }

    fn day(&mut self, one: &mut StreamEntry) {
        let Some(day) = self.instrument.day(self.place, self.here.at) else { return };
        let state = day_state(one.key.kind, &day);
        if one.sent == state {
            return;
        }
        one.sent = state;
        let Scratch { payload, wrapped, .. } = &mut *self.scratch;
        payload.clear();
        write_day(payload, one.key.kind, self.market, one.when(self.here.at), &day);
        one.send(payload, wrapped, self.here.at, self.sink);
    }
}

/// Returns the part of a day that a stream contains, for comparison. The small ticker has no best
/// prices.
fn day_state(kind: Kind, day: &Day) -> SentState {
    match kind {
        Kind::Ticker => SentState::Day(day.bar, day.before, day.touch),
        _ => SentState::Bar(day.bar),
    }
}

fn write_day(out: &mut Vec<u8>, kind: Kind, market: Market<'_>, when: EventTime, day: &Day) {
    match kind {
        Kind::Ticker => encode::ticker(out, market, when, day),
        _ => encode::mini_ticker(out, market, when, day),
    }
}

fn both<'a>(bids: &'a [Level], asks: &'a [Level]) -> impl Iterator<Item = (Side, Level)> + 'a {
    bids.iter().map(|level| (Side::Buy, *level)).chain(asks.iter().map(|level| (Side::Sell, *level)))
}

impl Streams {
    /// Writes the day statistics that have changed, of all instruments in one array.
    pub(crate) fn send_all(&mut self, here: VenueMoment<'_>, sink: &mut dyn Sink) {
        for (at, kind) in [Kind::MiniTicker, Kind::Ticker].into_iter().enumerate() {
            if !self.all.iter().any(|one| one.key.kind == kind && one.readers > 0) {
                continue;
            }
            let changed = self.changed_days(at, kind, here);
            if changed.is_empty() {
                continue;
            }
            let all = std::mem::take(&mut self.all);
            for one in all.iter().filter(|one| one.key.kind == kind && one.readers > 0) {
                let (mut payload, mut wrapped) = (Vec::new(), Vec::new());
                put!(&mut payload, "[");
                let days = changed.iter().filter_map(|(id, day)| Some((self.market(here.engine, *id)?, day)));
                crate::text::list(&mut payload, days, |out, (market, day)| {
                    write_day(out, kind, market, one.when(here.at), day);
                });
                put!(&mut payload, "]");
                one.send(&mut payload, &mut wrapped, here.at, sink);
            }
            self.all = all;
        }
    }

    fn changed_days(
        &mut self,
        at: usize,
        kind: Kind,
        here: VenueMoment<'_>,
    ) -> Vec<(pitwire_model::InstrumentId, Day)> {
        let mut changed = Vec::new();
        for (instrument, place) in self.instruments_mut().iter_mut().zip(here.engine.markets()) {
            let Some(day) = instrument.day(place, here.at) else { continue };
            let state = day_state(kind, &day);
            if instrument.day_sent[at] != state {
                instrument.day_sent[at] = state;
                changed.push((place.spec.id, day));
            }
        }
        changed
    }
}
