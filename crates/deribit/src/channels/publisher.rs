//! All public channels: the list of them, their pending changes, and their subscribers.

use crate::codec::objects;
use crate::codec::{Interval, write_notification};
use pitwire_engine::Engine;
use pitwire_model::{Event, InstrumentId, Lots, Seq, SequencedCommand, Side, Ticks, VenueNanos};
use pitwire_projections::{MarketFacts, PublicTrade, Views};

use crate::channels::copies::{ChannelMessage, CopyRecord, KEPT_BYTES, MessageCopies};
use crate::channels::cross_instrument::{self, DropCopyFeed, StateFeed, TradesFeed};
use crate::channels::feed::{ChannelCursor, Overrun};
use crate::channels::feed::{Feed, MergeBudget, MissedChange};
use crate::channels::levels::{Levels, TouchedLevels};
use crate::channels::order_events::OrderEvents;
use crate::channels::state_channels::{InstrumentNow, StateChannel, StateTrigger};
use pitwire_delivery::{ChannelId, ChannelTable, LagPolicy};

/// Interval of the `agg2` channels in nanoseconds: they publish when the second of venue time
/// changes.
const AGG2_NS: u64 = 1_000_000_000;

/// Changes of one instrument that the channels of one interval have not published yet.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pub levels: TouchedLevels,
    /// The `change_id` of the channel's last message.
    pub published_id: u64,
    pub trades: Vec<PublicTrade>,
    touched: bool,
    pub book: Option<ChannelId>,
    pub tape: Option<ChannelId>,
    pub ticker: Option<ChannelId>,
}

#[derive(Debug, Default)]
pub(super) struct InstrumentChannels {
    pub levels: Levels,
    pub change_id: u64,
    /// Backlog per interval, in the order of [`Interval::ALL`].
    pub backlogs: [Backlog; 3],
    pub lines: Vec<StateChannel>,
}

/// The message being encoded, and copies for channels that delivery threads also serve.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    message: Vec<u8>,
    pub copies: MessageCopies,
}

#[derive(Debug, Default)]
pub struct PublicChannels {
    pub(super) feeds: ChannelTable<Feed>,
    pub(super) instruments: Vec<InstrumentChannels>,
    pub(super) trades_of: Vec<TradesFeed>,
    pub(super) states: Vec<StateFeed>,
    pub(super) drop_copies: Vec<DropCopyFeed>,
    /// `None` while `orders.{instrument}.raw` has no subscriber.
    pub(super) orders: Option<OrderEvents>,
    last_second: u64,
    /// Sequence number of the command being published.
    seq: Seq,
    pub(super) scratch: Scratch,
    effort: MergeBudget,
    /// Number of subscriptions to candles.
    pub(super) candles: u32,
}

impl PublicChannels {
    /// Starts with the public books of a recovered engine. Channels are empty, because every start
    /// begins a new epoch.
    pub fn new(engine: &Engine) -> Self {
        let mut publisher = PublicChannels::default();
        for market in engine.markets() {
            let mut instrument = InstrumentChannels { change_id: market.change_id(), ..InstrumentChannels::default() };
            for side in [Side::Buy, Side::Sell] {
                for (price, lots) in market.book().levels(side) {
                    instrument.levels.set(side, price, lots);
                }
            }
            for backlog in &mut instrument.backlogs {
                backlog.published_id = market.change_id();
            }
            publisher.instruments.push(instrument);
        }
        publisher
    }

    /// Publishes one command's events. Within one command, trades come first, then the book, then
    /// the ticker.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine, views: &Views) {
        self.seq = stamped.seq;
        // A session change comes in the middle of a command's events. Publish it at the end, with
        // the other effects.
        let mut turned: Vec<InstrumentId> = Vec::new();
        for event in events {
            self.publish_state(event, stamped.at, engine);
            match event {
                Event::InstrumentAdded(_) => self.instruments.push(InstrumentChannels::default()),
                Event::Level { instrument, side, price, lots } => self.level(*instrument, *side, *price, *lots),
                Event::Trade { instrument, .. } => self.trade(*instrument, events, views),
                Event::SessionChanged { instrument, .. } | Event::ClosingPriceSet { instrument, .. } => {
                    turned.push(*instrument);
                }
                Event::BookChanged { instrument, change_id } => {
                    turned.retain(|other| other != instrument);
                    self.collect_across(*instrument, events, engine, views);
                    self.changed(*instrument, *change_id, stamped.at, engine, views);
                    self.publish_lines(*instrument, StateTrigger::Command, stamped.at, engine, views);
                    self.publish_trades_of(Interval::Raw, engine);
                }
                Event::PhaseChanged { instrument, .. } => {
                    self.touched(*instrument, stamped.at, engine, views);
                    self.publish_lines(*instrument, StateTrigger::Command, stamped.at, engine, views);
                }
                Event::IndexSampled { instrument, .. } => {
                    self.touched(*instrument, stamped.at, engine, views);
                    self.publish_lines(*instrument, StateTrigger::Sample, stamped.at, engine, views);
                }
                Event::ReportingChanged { instrument, .. } => {
                    self.publish_lines(*instrument, StateTrigger::Command, stamped.at, engine, views);
                }
                Event::OffBookTrade(made) => {
                    self.publish_lines(made.instrument, StateTrigger::Command, stamped.at, engine, views);
                }
                Event::WindowClosed => self.close_windows(stamped.at, engine, views),
                _ => {}
            }
        }
        for instrument in turned {
            self.touched(instrument, stamped.at, engine, views);
            self.publish_lines(instrument, StateTrigger::Command, stamped.at, engine, views);
        }
        if !self.drop_copies.is_empty() {
            self.publish_copies(stamped, events, engine);
        }
        self.publish_orders(stamped.at, events, engine);
    }

    fn level(&mut self, id: InstrumentId, side: Side, price: Ticks, lots: Lots) {
        let Some(instrument) = self.instruments.get_mut(id.0 as usize) else { return };
        let before = instrument.levels.set(side, price, lots);
        for backlog in instrument.backlogs.iter_mut().filter(|backlog| listens(&self.feeds, backlog.book)) {
            backlog.levels.touch(side, price, before);
        }
    }

    /// Collects all trades of a command when its first trade event arrives. The tape already
    /// contains them.
    fn trade(&mut self, id: InstrumentId, events: &[Event], views: &Views) {
        let Some(instrument) = self.instruments.get_mut(id.0 as usize) else { return };
        let Some(tape) = views.tape(id) else { return };
        let Some(Event::Trade { trade_seq: first, .. }) = trades_in(events, id).next() else { return };
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
        self.publish_book(id, Interval::Raw, at, engine, views);
    }

    fn close_windows(&mut self, at: VenueNanos, engine: &Engine, views: &Views) {
        let second = at.0 / AGG2_NS;
        let second_turned = second != self.last_second;
        self.last_second = second;
        let ended = if second_turned { &[Interval::Ms100, Interval::Agg2][..] } else { &[Interval::Ms100] };
        for interval in ended {
            for market in engine.markets() {
                self.publish_book(market.spec.id, *interval, at, engine, views);
                self.publish_lines(market.spec.id, StateTrigger::Window(*interval), at, engine, views);
            }
            self.publish_trades_of(*interval, engine);
        }
    }

    /// Returns whether any candle channel has a subscriber.
    pub fn has_candles(&self) -> bool {
        self.candles > 0
    }

    /// Handles the start of a minute of venue time, before any command in that minute. Candles
    /// change with the clock, even without other events.
    pub fn turn_minute(&mut self, at: VenueNanos, engine: &Engine, views: &Views) {
        for market in engine.markets() {
            self.publish_lines(market.spec.id, StateTrigger::Minute, at, engine, views);
        }
    }

    /// Publishes each state channel whose state differs from its last message.
    fn publish_lines(
        &mut self,
        id: InstrumentId,
        moment: StateTrigger,
        at: VenueNanos,
        engine: &Engine,
        views: &Views,
    ) {
        let Self { feeds, instruments, scratch, seq, .. } = self;
        let Some(instrument) = instruments.get_mut(id.0 as usize).filter(|instrument| !instrument.lines.is_empty())
        else {
            return;
        };
        let Some(facts) = MarketFacts::of(engine, views, id, at) else { return };
        let InstrumentChannels { levels, change_id, lines, .. } = instrument;
        let now = InstrumentNow { facts: &facts, levels, change_id: *change_id, tape: views.tape(id) };
        for line in lines {
            let Some(feed) = feed_with_subscribers(feeds, Some(line.feed)) else { continue };
            if let Some(message) = line.due(moment, &now) {
                publish(feed, place(*seq, FeedKind::State), scratch, message);
            }
        }
    }

    /// Adds one instrument's trades of this command to the channels across instruments.
    fn collect_across(&mut self, id: InstrumentId, events: &[Event], engine: &Engine, views: &Views) {
        let Self { feeds, trades_of, .. } = self;
        let traded = trades_in(events, id).count();
        let (Some(market), Some(tape)) = (engine.market(id), views.tape(id)) else { return };
        let fresh = tape.trades().len().saturating_sub(traded);
        for channel in trades_of.iter_mut().filter(|channel| traded > 0 && listens(feeds, Some(channel.feed))) {
            if channel.family.covers(&market.spec, engine) {
                channel.pending.extend(tape.trades().range(fresh..).map(|trade| (id, *trade)));
            }
        }
    }

    fn publish_trades_of(&mut self, interval: Interval, engine: &Engine) {
        let Self { feeds, trades_of, scratch, seq, .. } = self;
        for channel in trades_of.iter_mut().filter(|channel| channel.interval == interval) {
            let trades = std::mem::take(&mut channel.pending);
            let Some(feed) = feed_with_subscribers(feeds, Some(channel.feed)).filter(|_| !trades.is_empty()) else {
                continue;
            };
            publish(feed, place(*seq, FeedKind::Trades), scratch, |j| {
                j.array(|j| {
                    for (id, trade) in &trades {
                        if let Some(market) = engine.market(*id) {
                            objects::public_trade(j, &market.spec, trade);
                        }
                    }
                });
            });
        }
    }

    fn publish_state(&mut self, event: &Event, at: VenueNanos, engine: &Engine) {
        let Self { feeds, states, scratch, seq, .. } = self;
        if states.is_empty() {
            return;
        }
        let Some((id, word)) = cross_instrument::state_word(event) else { return };
        let Some(market) = engine.market(id) else { return };
        for channel in states.iter().filter(|channel| channel.family.covers(&market.spec, engine)) {
            if let Some(feed) = feed_with_subscribers(feeds, Some(channel.feed)) {
                publish(feed, place(*seq, FeedKind::State), scratch, |j| {
                    objects::instrument_state(j, &market.spec, at, word);
                });
            }
        }
    }

    fn publish_orders(&mut self, at: VenueNanos, events: &[Event], engine: &Engine) {
        let Self { feeds, orders, scratch, seq, .. } = self;
        let Some(channel) = orders else { return };
        if !channel.feeds.values().any(|feed| listens(feeds, Some(*feed))) {
            *orders = None;
            return;
        }
        channel.observe(at, events, engine);
        for (id, feed) in &channel.feeds {
            if channel.has_changes(*id)
                && let Some(feed) = feed_with_subscribers(feeds, Some(*feed))
                && let Some(market) = engine.market(*id)
            {
                publish(feed, place(*seq, FeedKind::Orders), scratch, |j| channel.write_changes(j, &market.spec, at));
            }
        }
    }

    fn publish_copies(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine) {
        let Self { feeds, drop_copies, scratch, seq, .. } = self;
        let mut index = 0;
        for event in events {
            let (parties, instrument) = cross_instrument::parties(event, engine);
            let spec = instrument.and_then(|id| engine.market(id)).map(|market| &market.spec);
            for (account, is_taker) in parties {
                let name = engine.account(account).map_or("", |holder| holder.spec.name.as_str());
                let copy =
                    objects::DropCopy { seq: stamped.seq, at: stamped.at, index, account: name, spec, event, is_taker };
                index += 1;
                for channel in drop_copies.iter().filter(|channel| channel.account.is_none_or(|only| only == account)) {
                    if let Some(feed) = feed_with_subscribers(feeds, Some(channel.feed)) {
                        publish(feed, place(*seq, FeedKind::Copy), scratch, |j| objects::drop_copy(j, &copy));
                    }
                }
            }
        }
    }

    /// Publishes the pending changes of one interval of an instrument.
    fn publish_book(&mut self, id: InstrumentId, interval: Interval, at: VenueNanos, engine: &Engine, views: &Views) {
        let Self { feeds, instruments, scratch, seq, .. } = self;
        let place = |kind| place(*seq, kind);
        let (Some(instrument), Some(market)) = (instruments.get_mut(id.0 as usize), engine.market(id)) else { return };
        let InstrumentChannels { levels, change_id, backlogs, .. } = instrument;
        let backlog = &mut backlogs[interval as usize];
        if !std::mem::take(&mut backlog.touched) {
            return;
        }
        let spec = &market.spec;
        if let Some(feed) = feed_with_subscribers(feeds, backlog.tape).filter(|_| !backlog.trades.is_empty()) {
            let trades = std::mem::take(&mut backlog.trades);
            publish(feed, place(FeedKind::Trades), scratch, |j| {
                j.array(|j| trades.iter().for_each(|trade| objects::public_trade(j, spec, trade)));
            });
        }
        // A message with two empty sides must not be sent.
        if let Some(feed) = feed_with_subscribers(feeds, backlog.book) {
            let now = *change_id;
            let (bids, asks) = backlog.levels.take(levels, |side, price, before, lots| {
                if let Some(chain) = &mut feed.chain {
                    chain.history.record(now, side, price, before, lots);
                }
            });
            if !(bids.is_empty() && asks.is_empty()) {
                let ids = (std::mem::replace(&mut backlog.published_id, now), now);
                let message = scratch.write(feed, |j| objects::book_change(j, spec, at, ids, &bids, &asks));
                feed.publish_change(place(FeedKind::Book), now, at, message);
                scratch.note(feed, place(FeedKind::Book));
            }
        }
        if let Some(feed) = feed_with_subscribers(feeds, backlog.ticker)
            && let Some(facts) = MarketFacts::of(engine, views, id, at)
        {
            publish(feed, place(FeedKind::Ticker), scratch, |j| objects::ticker(j, &facts));
        }
    }

    /// Makes all appended messages visible to readers. The caller calls it after the commit.
    /// Returns whether there is anything new.
    pub fn release(&mut self) -> bool {
        let mut fresh = false;
        for feed in self.feeds.iter_mut().filter(|feed| feed.dirty) {
            fresh |= feed.release();
        }
        // Readers that had to wait for a new merge budget can be served again.
        self.effort.start_anew() | fresh
    }

    /// Returns whether lagging readers wait for the next turn. The host must then come back instead
    /// of sleeping.
    pub fn has_put_off(&self) -> bool {
        self.effort.has_put_off()
    }

    /// Returns the place of a subscriber's next frame in the venue's order, if there is one. On
    /// overrun, a reader of a state channel moves to the latest message, and a reader of a merged
    /// book gets one change with all that it has missed.
    ///
    /// # Errors
    /// [`Overrun`] if the reader must be closed.
    pub fn peek(&self, id: ChannelId, cursor: &mut ChannelCursor) -> Result<Option<u64>, Overrun> {
        self.feeds.get(id).map_or(Ok(None), |feed| feed.peek(cursor, &self.effort))
    }

    /// Copies a subscriber's next frame to `out`.
    ///
    /// # Errors
    /// [`Overrun`] if the reader must be closed.
    pub fn read(&self, id: ChannelId, cursor: &mut ChannelCursor, out: &mut Vec<u8>) -> Result<(), Overrun> {
        self.feeds.get(id).map_or(Ok(()), |feed| feed.read(cursor, out, &self.effort))
    }

    /// Returns the released changes of a merged book since `from`, for a reader whose ring is on a
    /// delivery thread.
    pub fn merged(&self, id: ChannelId, from: u64) -> MissedChange {
        self.feeds.get(id).map_or(MissedChange::Gone, |feed| feed.merged(from))
    }

    /// Like [`Self::merged`], but returns `None` if this turn's budget is spent. The reader then
    /// waits for the next turn, see [`Self::has_put_off`].
    pub fn merged_in_turn(&self, id: ChannelId, from: u64) -> Option<MissedChange> {
        self.feeds.get(id).map_or(Some(MissedChange::Gone), |feed| feed.merged_in_turn(from, &self.effort))
    }

    /// Returns how many levels a merge of this book compares, at about 30 ns each.
    pub fn levels_sent(&self, id: ChannelId) -> usize {
        self.feeds.get(id).and_then(|feed| feed.chain.as_ref()).map_or(0, |chain| chain.history.len())
    }

    /// Returns the `change_id` of a merged book's newest released message; zero for other channels.
    pub fn published_id(&self, id: ChannelId) -> u64 {
        self.feeds.get(id).map_or(0, |feed| feed.released_number())
    }

    /// Returns the policy for readers of a channel that fall behind.
    pub fn lag(&self, id: ChannelId) -> LagPolicy {
        self.feeds.get(id).map_or(LagPolicy::Close, |feed| feed.lag)
    }

    pub fn name(&self, id: ChannelId) -> &str {
        self.feeds.get(id).map_or("", |feed| &feed.name)
    }

    /// Returns the number of channels with at least one subscriber.
    pub fn open_channels(&self) -> usize {
        self.feeds.iter().filter(|feed| feed.subscribers > 0).count()
    }
}

impl Backlog {
    /// Discards the backlog of a channel that had no subscribers for a while.
    pub(super) fn start_anew(&mut self, kind: &str, change_id: u64) {
        match kind {
            "book" => {
                self.levels = TouchedLevels::default();
                self.published_id = change_id;
            }
            "trades" => self.trades.clear(),
            _ => {}
        }
    }
}

fn listens(feeds: &ChannelTable<Feed>, id: Option<ChannelId>) -> bool {
    id.and_then(|id| feeds.get(id)).is_some_and(|feed| feed.subscribers > 0)
}

fn feed_with_subscribers(feeds: &mut ChannelTable<Feed>, id: Option<ChannelId>) -> Option<&mut Feed> {
    id.and_then(|id| feeds.get_mut(id)).filter(|feed| feed.subscribers > 0)
}

fn trades_in(events: &[Event], id: InstrumentId) -> impl Iterator<Item = &Event> {
    events.iter().filter(move |event| matches!(event, Event::Trade { instrument, .. } if *instrument == id))
}

/// Order of messages within one command: trades, the book, the states that follow from it, the
/// ticker, copies, orders.
#[derive(Clone, Copy)]
enum FeedKind {
    Trades = 0,
    Book = 1,
    State = 2,
    Ticker = 3,
    Copy = 4,
    Orders = 5,
}

fn place(seq: Seq, kind: FeedKind) -> u64 {
    seq.0 * 8 + kind as u64
}

fn publish(feed: &mut Feed, place: u64, scratch: &mut Scratch, fill: impl FnOnce(&mut crate::codec::Json<'_>)) {
    feed.publish(place, scratch.write(feed, fill));
    scratch.note(feed, place);
}

impl Scratch {
    fn write(&mut self, feed: &Feed, fill: impl FnOnce(&mut crate::codec::Json<'_>)) -> &[u8] {
        self.message.clear();
        write_notification(&mut self.message, &feed.name, fill);
        &self.message
    }

    /// Copies the message written last, if delivery threads also serve the channel.
    fn note(&mut self, feed: &Feed, place: u64) {
        if feed.remote > 0 {
            self.copies.note(feed, place, &self.message);
        }
    }
}

impl PublicChannels {
    /// Hands one subscriber of a channel off to the delivery threads. For the first one of a merged
    /// book, returns the number that the next message follows there.
    pub fn add_remote(&mut self, id: ChannelId) -> Option<u64> {
        let feed = self.feeds.get_mut(id)?;
        feed.remote += 1;
        (feed.remote == 1 && feed.lag == LagPolicy::Ask).then(|| feed.last_number())
    }

    /// Undoes one [`Self::add_remote`]. The subscriber still counts as one.
    pub fn take_back(&mut self, id: ChannelId) {
        if let Some(feed) = self.feeds.get_mut(id) {
            feed.remote = feed.remote.saturating_sub(1);
        }
    }

    /// Returns whether a reader has received everything that its channel has published, released or
    /// not, and whether the next message continues from the reader's number.
    pub fn is_at_end(&self, id: ChannelId, cursor: ChannelCursor) -> bool {
        self.feeds.get(id).is_none_or(|feed| {
            let end = ChannelCursor::at_end(&feed.ring);
            cursor.has_reached(end) && (feed.lag != LagPolicy::Ask || cursor.number() == end.number())
        })
    }

    /// Passes the messages of handed-off channels since the last call to `take`, in order.
    pub fn take_copies(&mut self, mut take: impl FnMut(ChannelMessage<'_>)) {
        let MessageCopies { bytes, noted } = &mut self.scratch.copies;
        if noted.is_empty() {
            return;
        }
        // Within one command, a reader gets trades first and tickers last.
        noted.sort_by_key(|message| message.place);
        for CopyRecord { feed, lag, number, start, len, .. } in noted.drain(..) {
            let payload = bytes.get(start..start + len).unwrap_or_default();
            take(ChannelMessage { feed, lag, number, payload });
        }
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
    }
}
