//! The first message of a stream, for dialects that begin with a snapshot.
//!
//! Holds       The snapshot is the state after the last observed command, so the next message
//!             applies to it.
//! Start at    [`Streams::first`].

use pitwire_model::{InstrumentId, Side};

use crate::binance::encode::append_ns;
use crate::bithumb::{self, Part};
use crate::gemini::{self, Change, NumberPosition, Update};
use crate::key::{Entries, Kind, KlineInterval};
use crate::market::{Level, Market};
use crate::state::{Sink, StreamId, Streams, VenueMoment};

/// Most trades in a first message.
const FIRST_TRADES: usize = 50;
/// Most candles in a first message.
const FIRST_CANDLES: usize = 1_440;

impl Streams {
    /// Writes the first message of a stream. Returns `None` if the stream begins with its next
    /// message.
    pub fn first(
        &mut self,
        id: StreamId,
        here: VenueMoment<'_>,
        sink: &mut dyn Sink,
    ) -> Option<(Vec<u8>, Option<NumberPosition>)> {
        let key = self.key(id)?;
        let of = key.instrument?;
        let (market, place) = (self.market(here.engine, of)?, here.engine.market(of)?);
        let mut out = Vec::new();
        // Collected only if needed: one reader may join a thousand streams at once.
        let sides = || [Side::Buy, Side::Sell].map(|side| place.book().levels(side).collect::<Vec<Level>>());
        let mut numbered = None;
        match key.kind {
            Kind::BithumbBook => {
                let [bids, asks] = sides();
                bithumb::book(&mut out, Part::Initial, market, here.at, place.change_id(), &bids, &asks);
            }
            Kind::BithumbTrade => {
                let trades = here.views.tape(of)?.trades();
                let newest = trades.len().saturating_sub(FIRST_TRADES);
                bithumb::trades(&mut out, market, here.at, trades.range(newest..));
            }
            Kind::BithumbTicker => {
                let day = self.instrument(of)?.day(place, here.at)?;
                bithumb::ticker(&mut out, Part::Initial, market, &day, place.trades().0);
            }
            Kind::Market(entries) => {
                let [bids, asks] = sides();
                numbered = first_update(&mut out, market, here, place.change_id(), entries, [&bids, &asks]);
            }
            Kind::Level2 => {
                let [bids, asks] = sides();
                let levels = |side, levels: Vec<Level>| levels.into_iter().map(move |level| (side, level));
                let levels = levels(Side::Buy, bids).chain(levels(Side::Sell, asks));
                let trades = here.views.tape(of)?.trades().iter().rev().take(FIRST_TRADES);
                gemini::l2_first(&mut out, market, levels, trades);
            }
            Kind::Candles2(interval) => self.first_candles(&mut out, market, of, interval, here)?,
            _ => return None,
        }
        if key.form.with_ns {
            append_ns(&mut out, sink.stamps(here.at));
        }
        let entry = self.entry_mut(id)?;
        if let Some(place) = numbered.filter(|_| entry.is_by_stream()) {
            // The snapshot includes everything that other readers have received so far.
            let mut whole = Vec::with_capacity(out.len() + 20);
            place.fill(&out, entry.number, &mut whole);
            return Some((whole, None));
        }
        Some((out, numbered))
    }

    fn first_candles(
        &self,
        out: &mut Vec<u8>,
        market: Market<'_>,
        of: InstrumentId,
        interval: KlineInterval,
        here: VenueMoment<'_>,
    ) -> Option<()> {
        let bars = self.instrument(of)?.bars.buckets(interval, 0, here.at.as_millis(), FIRST_CANDLES, true);
        gemini::candles(out, market, interval, bars.iter().rev());
        Some(())
    }
}

fn first_update(
    out: &mut Vec<u8>,
    market: Market<'_>,
    here: VenueMoment<'_>,
    event_id: u64,
    entries: Entries,
    [bids, asks]: [&[Level]; 2],
) -> Option<NumberPosition> {
    let sides = [(Side::Buy, bids), (Side::Sell, asks)];
    let changes: Vec<Change> =
        sides.iter().flat_map(|(side, levels)| levels.iter().map(|level| Change::initial(*side, *level))).collect();
    let tops: Vec<Change> =
        sides.iter().filter_map(|(side, levels)| Some(Change::top(*side, *levels.first()?))).collect();
    let update = Update { market, event_id, at: here.at, trades: &[], changes: &changes, tops: &tops };
    update.write(out, entries, true)
}
