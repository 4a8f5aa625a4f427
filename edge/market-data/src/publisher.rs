//! All public channels: which exist, what they have yet to tell, and to whom.

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_jsonrpc::objects;
use pitwire_jsonrpc::{Channel, Interval, write_notification};
use pitwire_model::{Event, InstrumentId, InstrumentSpec, Lots, Seq, Side, Stamped, Ticks, VenueNanos};
use pitwire_views::{MarketFacts, PublicTrade, Views};

use crate::feed::{Feed, Lag};
use crate::levels::{Levels, Pending};
use crate::ring::{Cursor, Overrun};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedId(u32);

/// What a new subscriber starts from.
#[derive(Debug)]
pub struct Subscribed {
    pub feed: FeedId,
    pub cursor: Cursor,
    /// The payload to send before anything from the ring.
    pub first: Option<Vec<u8>>,
}

/// Large enough for seconds of a busy channel; a subscriber further behind than this is past helping.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 18;
/// A merged channel of the slow kind speaks when the venue's second turns.
const AGG2_NS: u64 = 1_000_000_000;

/// What one merged or raw channel has yet to tell of an instrument.
#[derive(Debug, Default)]
struct Backlog {
    levels: Pending,
    /// The `change_id` of the channel's last message.
    told: u64,
    trades: Vec<PublicTrade>,
    touched: bool,
    book: Option<FeedId>,
    tape: Option<FeedId>,
    ticker: Option<FeedId>,
}

#[derive(Debug, Default)]
struct Instrument {
    levels: Levels,
    change_id: u64,
    /// By interval, in the order of [`Interval::ALL`].
    backlogs: [Backlog; 3],
}

#[derive(Debug, Default)]
pub struct Publisher {
    feeds: Vec<Feed>,
    by_name: BTreeMap<String, FeedId>,
    instruments: Vec<Instrument>,
    last_second: u64,
    /// The command being told.
    seq: Seq,
    scratch: Vec<u8>,
}

impl Publisher {
    /// Takes over the public books of a recovered engine. Channels start anew: every start is a new epoch.
    pub fn new(engine: &Engine) -> Self {
        let mut publisher = Publisher::default();
        for market in engine.markets() {
            let mut instrument = Instrument { change_id: market.change_id(), ..Instrument::default() };
            for side in [Side::Buy, Side::Sell] {
                for (price, lots) in market.book().levels(side) {
                    instrument.levels.set(side, price, lots);
                }
            }
            for backlog in &mut instrument.backlogs {
                backlog.told = market.change_id();
            }
            publisher.instruments.push(instrument);
        }
        publisher
    }

    /// Adds a subscriber; `None` when the channel is not a public one of a known instrument.
    pub fn subscribe(
        &mut self,
        channel: &Channel,
        engine: &Engine,
        views: &Views,
        at: VenueNanos,
    ) -> Option<Subscribed> {
        let (kind, name, interval) = match channel {
            Channel::Book { instrument, interval } => ("book", instrument, *interval),
            Channel::Trades { instrument, interval } => ("trades", instrument, *interval),
            Channel::Ticker { instrument, interval } => ("ticker", instrument, *interval),
            Channel::UserOrders { .. } | Channel::UserTrades { .. } => return None,
        };
        let spec = &engine.instrument_named(name)?.spec;
        let id = self.open_feed(kind, spec, interval)?;
        let feed = &mut self.feeds[id.0 as usize];
        feed.subscribers += 1;
        let cursor = feed.ring.end();
        let channel_name = feed.name.clone();
        let first = match channel {
            Channel::Book { .. } => Some(self.snapshot(&channel_name, spec, interval, at)),
            Channel::Ticker { .. } => MarketFacts::of(engine, views, spec.id, at).map(|facts| {
                let mut out = Vec::new();
                write_notification(&mut out, &channel_name, |j| objects::ticker(j, &facts));
                out
            }),
            _ => None,
        };
        Some(Subscribed { feed: id, cursor, first })
    }

    fn open_feed(&mut self, kind: &str, spec: &InstrumentSpec, interval: Interval) -> Option<FeedId> {
        let name = format!("{kind}.{}.{}", spec.name, interval.name());
        if let Some(id) = self.by_name.get(&name) {
            let instrument = self.instruments.get_mut(spec.id.0 as usize)?;
            if self.feeds[id.0 as usize].subscribers == 0 {
                instrument.backlogs[interval as usize].start_anew(kind, instrument.change_id);
            }
            return Some(*id);
        }
        let id = FeedId(u32::try_from(self.feeds.len()).ok()?);
        let instrument = self.instruments.get_mut(spec.id.0 as usize)?;
        let backlog = &mut instrument.backlogs[interval as usize];
        let (slot, capacity, lag) = match kind {
            "book" => {
                backlog.told = instrument.change_id;
                (&mut backlog.book, DELTA_RING, Lag::Close)
            }
            "trades" => (&mut backlog.tape, DELTA_RING, Lag::Close),
            _ => (&mut backlog.ticker, STATE_RING, Lag::Latest),
        };
        *slot = Some(id);
        self.feeds.push(Feed::new(name.clone(), capacity, lag));
        self.by_name.insert(name, id);
        Some(id)
    }

    pub fn unsubscribe(&mut self, id: FeedId) {
        if let Some(feed) = self.feeds.get_mut(id.0 as usize) {
            feed.subscribers = feed.subscribers.saturating_sub(1);
        }
    }

    /// The book as this channel's last message left it, so that the next change joins on.
    fn snapshot(&self, name: &str, spec: &InstrumentSpec, interval: Interval, at: VenueNanos) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(instrument) = self.instruments.get(spec.id.0 as usize) else { return out };
        let backlog = &instrument.backlogs[interval as usize];
        let (bids, asks) = backlog.levels.snapshot(&instrument.levels);
        write_notification(&mut out, name, |j| objects::book_snapshot(j, spec, at, backlog.told, &bids, &asks));
        out
    }

    /// Takes in one command's events. Within one command trades are told first, then the book, then the ticker.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event], engine: &Engine, views: &Views) {
        self.seq = stamped.seq;
        for event in events {
            match event {
                Event::InstrumentAdded(_) => self.instruments.push(Instrument::default()),
                Event::Level { instrument, side, price, lots } => self.level(*instrument, *side, *price, *lots),
                Event::Trade { instrument, .. } => self.trade(*instrument, events, views),
                Event::BookChanged { instrument, change_id } => {
                    self.changed(*instrument, *change_id, stamped.at, engine, views);
                }
                Event::PhaseChanged { instrument, .. } | Event::IndexSampled { instrument, .. } => {
                    self.touched(*instrument, stamped.at, engine, views);
                }
                Event::WindowClosed => self.close_windows(stamped.at, engine, views),
                _ => {}
            }
        }
    }

    fn level(&mut self, id: InstrumentId, side: Side, price: Ticks, lots: Lots) {
        let Some(instrument) = self.instruments.get_mut(id.0 as usize) else { return };
        let before = instrument.levels.set(side, price, lots);
        for backlog in instrument.backlogs.iter_mut().filter(|backlog| listens(&self.feeds, backlog.book)) {
            backlog.levels.touch(side, price, before);
        }
    }

    /// Collects a command's trades at its first one: the tape has them all by now.
    fn trade(&mut self, id: InstrumentId, events: &[Event], views: &Views) {
        let Some(instrument) = self.instruments.get_mut(id.0 as usize) else { return };
        let Some(tape) = views.tape(id) else { return };
        let of_this = |event: &&Event| matches!(event, Event::Trade { instrument, .. } if *instrument == id);
        let first = events.iter().find(of_this);
        let Some(Event::Trade { trade_seq: first, .. }) = first else { return };
        for backlog in instrument.backlogs.iter_mut().filter(|backlog| listens(&self.feeds, backlog.tape)) {
            let known = backlog.trades.last().map_or(first.0, |last| last.seq.0 + 1).max(first.0);
            let fresh = tape.trades().iter().rev().take_while(|trade| trade.seq.0 >= known);
            let mut fresh: Vec<PublicTrade> = fresh.copied().collect();
            fresh.reverse();
            backlog.trades.extend(fresh);
        }
    }

    fn changed(&mut self, id: InstrumentId, change_id: u64, at: VenueNanos, engine: &Engine, views: &Views) {
        if let Some(instrument) = self.instruments.get_mut(id.0 as usize) {
            instrument.change_id = change_id;
        }
        self.touched(id, at, engine, views);
    }

    fn touched(&mut self, id: InstrumentId, at: VenueNanos, engine: &Engine, views: &Views) {
        let Some(instrument) = self.instruments.get_mut(id.0 as usize) else { return };
        instrument.backlogs.iter_mut().for_each(|backlog| backlog.touched = true);
        self.tell(id, Interval::Raw, at, engine, views);
    }

    fn close_windows(&mut self, at: VenueNanos, engine: &Engine, views: &Views) {
        let second = at.0 / AGG2_NS;
        let second_turned = second != self.last_second;
        self.last_second = second;
        for market in engine.markets() {
            self.tell(market.spec.id, Interval::Ms100, at, engine, views);
            if second_turned {
                self.tell(market.spec.id, Interval::Agg2, at, engine, views);
            }
        }
    }

    /// Sends what one interval of an instrument has yet to tell.
    fn tell(&mut self, id: InstrumentId, interval: Interval, at: VenueNanos, engine: &Engine, views: &Views) {
        let Self { feeds, instruments, scratch, seq, .. } = self;
        let place = |kind| place(*seq, kind);
        let (Some(instrument), Some(market)) = (instruments.get_mut(id.0 as usize), engine.market(id)) else { return };
        let Instrument { levels, change_id, backlogs } = instrument;
        let backlog = &mut backlogs[interval as usize];
        if !std::mem::take(&mut backlog.touched) {
            return;
        }
        let spec = &market.spec;
        if let Some(feed) = heard(feeds, backlog.tape).filter(|_| !backlog.trades.is_empty()) {
            let trades = std::mem::take(&mut backlog.trades);
            publish(feed, place(Kind::Trades), scratch, |j| {
                j.array(|j| trades.iter().for_each(|trade| objects::public_trade(j, spec, trade)));
            });
        }
        // A message with two empty sides must not be sent.
        if let Some(feed) = heard(feeds, backlog.book) {
            let (bids, asks) = backlog.levels.take(levels);
            if !(bids.is_empty() && asks.is_empty()) {
                let ids = (std::mem::replace(&mut backlog.told, *change_id), *change_id);
                publish(feed, place(Kind::Book), scratch, |j| objects::book_change(j, spec, at, ids, &bids, &asks));
            }
        }
        if let Some(feed) = heard(feeds, backlog.ticker)
            && let Some(facts) = MarketFacts::of(engine, views, id, at)
        {
            publish(feed, place(Kind::Ticker), scratch, |j| objects::ticker(j, &facts));
        }
    }

    /// Everything appended so far is durable: readers may see it. Says whether anything is new.
    pub fn release(&mut self) -> bool {
        let mut fresh = false;
        for feed in self.feeds.iter_mut().filter(|feed| feed.dirty) {
            fresh |= feed.ring.release();
            feed.dirty = false;
        }
        fresh
    }

    /// The place in the venue's order of a subscriber's next frame, if there is one. An error means that the reader
    /// must be closed; a state channel's reader is moved to the latest message instead.
    pub fn peek(&self, id: FeedId, cursor: &mut Cursor) -> Result<Option<u64>, Overrun> {
        let Some(feed) = self.feeds.get(id.0 as usize) else { return Ok(None) };
        if feed.lag == Lag::Latest {
            feed.ring.skip_to_newest(cursor);
        }
        feed.ring.peek(*cursor)
    }

    /// Copies a subscriber's next frame to `out`.
    pub fn read(&self, id: FeedId, cursor: &mut Cursor, out: &mut Vec<u8>) -> Result<(), Overrun> {
        self.feeds.get(id.0 as usize).map_or(Ok(()), |feed| feed.ring.read(cursor, out))
    }

    pub fn name(&self, id: FeedId) -> &str {
        self.feeds.get(id.0 as usize).map_or("", |feed| &feed.name)
    }

    /// Channels with at least one subscriber.
    pub fn open_channels(&self) -> usize {
        self.feeds.iter().filter(|feed| feed.subscribers > 0).count()
    }
}

impl Backlog {
    /// A channel that nobody heard for a while starts from the present.
    fn start_anew(&mut self, kind: &str, change_id: u64) {
        match kind {
            "book" => {
                self.levels = Pending::default();
                self.told = change_id;
            }
            "trades" => self.trades.clear(),
            _ => {}
        }
    }
}

fn listens(feeds: &[Feed], id: Option<FeedId>) -> bool {
    id.and_then(|id| feeds.get(id.0 as usize)).is_some_and(|feed| feed.subscribers > 0)
}

fn heard(feeds: &mut [Feed], id: Option<FeedId>) -> Option<&mut Feed> {
    id.and_then(|id| feeds.get_mut(id.0 as usize)).filter(|feed| feed.subscribers > 0)
}

/// Within one command trades are told first, then the book, then the ticker.
#[derive(Clone, Copy)]
enum Kind {
    Trades = 0,
    Book = 1,
    Ticker = 2,
}

fn place(seq: Seq, kind: Kind) -> u64 {
    seq.0 * 4 + kind as u64
}

fn publish(feed: &mut Feed, place: u64, scratch: &mut Vec<u8>, fill: impl FnOnce(&mut pitwire_jsonrpc::Json<'_>)) {
    scratch.clear();
    write_notification(scratch, &feed.name, fill);
    feed.publish(place, scratch);
}
