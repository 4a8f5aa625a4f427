//! Subscribes to a channel and unsubscribes from it.
//!
//! Holds       a new subscriber's first message and its cursor match: it gets every message exactly
//!             once.

use crate::codec::objects;
use crate::codec::{Channel, Interval, notification};
use pitwire_engine::Engine;
use pitwire_model::{InstrumentSpec, VenueNanos};
use pitwire_projections::{MarketFacts, Views};

use crate::channels::cross_instrument::{DropCopyFeed, InstrumentFamily, StateFeed, TradesFeed};
use crate::channels::feed::ChannelCursor;
use crate::channels::feed::{ChangeChain, Feed};
use crate::channels::order_events::OrderEvents;
use crate::channels::publisher::PublicChannels;
use crate::channels::state_channels::{InstrumentNow, StateChannel, StateKind};
use pitwire_delivery::{ChannelId, LagPolicy};
use pitwire_order_feed::OrderFeedEncoder;

/// The starting point of a new subscriber.
#[derive(Debug)]
pub struct SubscriptionStart {
    pub feed: ChannelId,
    pub cursor: ChannelCursor,
    /// The payload to send before anything from the ring.
    pub first: Option<Vec<u8>>,
}

/// Ring capacity in bytes: seconds of a busy channel. A subscriber further behind is closed.
const DELTA_RING: usize = 1 << 20;
const STATE_RING: usize = 1 << 18;
/// Ring capacity of a merged book, in bytes. A reader further behind gets one merged change, which
/// is shorter than the messages it has missed.
const MERGED_RING: usize = 1 << 18;
/// Ring capacity of state channels and quiet channels, in bytes: a few seconds.
const SMALL_RING: usize = 1 << 16;

/// The venue's current state, for a new subscriber.
#[derive(Clone, Copy)]
struct SubscribeContext<'a> {
    engine: &'a Engine,
    views: &'a Views,
    at: VenueNanos,
}

/// A feed and the first message to a new subscriber of it.
type JoinedFeed = (ChannelId, Option<Vec<u8>>);

impl PublicChannels {
    /// Adds a subscriber. Returns `None` if the channel's instrument or account does not exist.
    pub fn subscribe(
        &mut self,
        channel: &Channel,
        engine: &Engine,
        views: &Views,
        at: VenueNanos,
    ) -> Option<SubscriptionStart> {
        let here = SubscribeContext { engine, views, at };
        let (feed, first) = match channel {
            Channel::Book { instrument, interval } => self.join_book(instrument, *interval, here)?,
            Channel::Trades { instrument, interval } => {
                (self.open_feed("trades", &engine.instrument_named(instrument)?.spec, *interval)?, None)
            }
            Channel::Ticker { instrument, interval } => self.join_ticker(instrument, *interval, here)?,
            Channel::PriceIndex { index } => {
                // Only perpetuals are sampled. The spot instrument of the same name only defines
                // the start price.
                let of_index = |spec: &InstrumentSpec| objects::index_name(spec, engine.currencies()) == *index;
                let found = engine.markets().iter().find(|market| !market.spec.is_spot() && of_index(&market.spec))?;
                self.join_line(channel, &format!("deribit_price_index.{index}"), &found.spec, here)?
            }
            Channel::Quote { instrument }
            | Channel::Depth { instrument, .. }
            | Channel::Chart { instrument, .. }
            | Channel::Perpetual { instrument, .. }
            | Channel::Session { instrument }
            | Channel::Auction { instrument, .. }
            | Channel::OffBook { instrument } => {
                let spec = &engine.instrument_named(instrument)?.spec;
                self.join_line(channel, &line_name(channel, spec)?, spec, here)?
            }
            Channel::Orders { instrument } => self.join_orders(instrument, here)?,
            Channel::TradesOf { kind, currency, interval } => (self.open_trades_of(kind, currency, *interval), None),
            Channel::InstrumentState { kind, currency } => (self.open_states(kind, currency), None),
            Channel::DropCopy { account } => (self.open_drop_copy(account.as_deref(), engine)?, None),
            Channel::UserOrders { .. }
            | Channel::UserTrades { .. }
            | Channel::UserChanges { .. }
            | Channel::UserPortfolio { .. }
            | Channel::UserReports { .. } => return None,
        };
        let joined = self.feeds.get_mut(feed)?;
        joined.subscribers += 1;
        self.candles += u32::from(joined.is_candle);
        Some(SubscriptionStart { feed, cursor: ChannelCursor::at_end(&joined.ring), first })
    }

    pub fn unsubscribe(&mut self, id: ChannelId) {
        if let Some(feed) = self.feeds.get_mut(id).filter(|feed| feed.subscribers > 0) {
            feed.subscribers -= 1;
            self.candles -= u32::from(feed.is_candle);
        }
    }

    fn is_silent(&self, feed: ChannelId) -> bool {
        self.feeds.get(feed).is_none_or(|feed| feed.subscribers == 0)
    }

    fn join_book(&mut self, name: &str, interval: Interval, here: SubscribeContext<'_>) -> Option<JoinedFeed> {
        let (spec, feed) = self.open_named("book", name, interval, here)?;
        let first = self.snapshot(self.name(feed), spec, interval, here.at);
        Some((feed, Some(first)))
    }

    fn join_orders(&mut self, name: &str, here: SubscribeContext<'_>) -> Option<JoinedFeed> {
        let spec = &here.engine.instrument_named(name).filter(|market| OrderFeedEncoder::includes(&market.spec))?.spec;
        let name = format!("orders.{}.raw", spec.name);
        let feed = self.add_feed(&name, DELTA_RING, LagPolicy::Close);
        let orders = self.orders.get_or_insert_with(|| OrderEvents::start(here.engine, here.at));
        orders.feeds.insert(spec.id, feed);
        let first = notification(&name, |j| orders.write_snapshot(j, spec, here.at));
        Some((feed, Some(first)))
    }

    fn join_ticker(&mut self, name: &str, interval: Interval, here: SubscribeContext<'_>) -> Option<JoinedFeed> {
        let (spec, feed) = self.open_named("ticker", name, interval, here)?;
        let facts = MarketFacts::of(here.engine, here.views, spec.id, here.at)?;
        let first = notification(self.name(feed), |j| objects::ticker(j, &facts));
        Some((feed, Some(first)))
    }

    /// Opens a feed of the named instrument, if it exists.
    fn open_named<'a>(
        &mut self,
        kind: &str,
        name: &str,
        interval: Interval,
        here: SubscribeContext<'a>,
    ) -> Option<(&'a InstrumentSpec, ChannelId)> {
        let spec = &here.engine.instrument_named(name)?.spec;
        Some((spec, self.open_feed(kind, spec, interval)?))
    }

    fn join_line(
        &mut self,
        channel: &Channel,
        name: &str,
        spec: &InstrumentSpec,
        here: SubscribeContext<'_>,
    ) -> Option<JoinedFeed> {
        let what = StateKind::of(channel, spec)?;
        let feed = match self.feeds.named(name) {
            Some(feed) => feed,
            None => {
                let lag = if what.sends_each() { LagPolicy::Close } else { LagPolicy::Latest };
                let feed = self.add_feed(name, SMALL_RING, lag);
                self.feeds.get_mut(feed)?.is_candle = what.is_candle();
                self.instruments.get_mut(spec.id.0 as usize)?.lines.push(StateChannel::new(feed, what));
                feed
            }
        };
        let anew = self.is_silent(feed);
        let facts = MarketFacts::of(here.engine, here.views, spec.id, here.at)?;
        let instrument = self.instruments.get_mut(spec.id.0 as usize)?;
        let now = InstrumentNow {
            facts: &facts,
            levels: &instrument.levels,
            change_id: instrument.change_id,
            tape: here.views.tape(spec.id),
        };
        let line = instrument.lines.iter_mut().find(|line| line.feed == feed)?;
        if anew {
            line.start_anew();
        }
        let first = line.first(&now).map(|write| notification(name, write));
        Some((feed, first))
    }

    fn open_trades_of(&mut self, kind: &str, currency: &str, interval: Interval) -> ChannelId {
        let name = format!("trades.{kind}.{currency}.{}", interval.name());
        if let Some(feed) = self.feeds.named(&name) {
            if self.is_silent(feed) {
                self.trades_of.iter_mut().filter(|of| of.feed == feed).for_each(|of| of.pending.clear());
            }
            return feed;
        }
        let feed = self.add_feed(&name, DELTA_RING, LagPolicy::Close);
        let family = InstrumentFamily { kind: kind.into(), currency: currency.into() };
        self.trades_of.push(TradesFeed { feed, family, interval, pending: Vec::new() });
        feed
    }

    fn open_states(&mut self, kind: &str, currency: &str) -> ChannelId {
        let name = format!("instrument.state.{kind}.{currency}");
        if let Some(feed) = self.feeds.named(&name) {
            return feed;
        }
        let feed = self.add_feed(&name, SMALL_RING, LagPolicy::Close);
        self.states.push(StateFeed { feed, family: InstrumentFamily { kind: kind.into(), currency: currency.into() } });
        feed
    }

    fn open_drop_copy(&mut self, account: Option<&str>, engine: &Engine) -> Option<ChannelId> {
        let only = match account {
            Some(name) => Some(engine.account_named(name)?.spec.id),
            None => None,
        };
        let name = format!("drop_copy.{}", account.unwrap_or("any"));
        if let Some(feed) = self.feeds.named(&name) {
            return Some(feed);
        }
        let feed = self.add_feed(&name, DELTA_RING, LagPolicy::Close);
        self.drop_copies.push(DropCopyFeed { feed, account: only });
        Some(feed)
    }

    fn add_feed(&mut self, name: &str, capacity: usize, lag: LagPolicy) -> ChannelId {
        self.feeds.add(name, |id| Feed::new(id, name.to_owned(), capacity, lag))
    }

    fn open_feed(&mut self, kind: &str, spec: &InstrumentSpec, interval: Interval) -> Option<ChannelId> {
        let name = format!("{kind}.{}.{}", spec.name, interval.name());
        if let Some(id) = self.feeds.named(&name) {
            let anew = self.is_silent(id);
            let instrument = self.instruments.get_mut(spec.id.0 as usize)?;
            if anew {
                instrument.backlogs[interval as usize].start_anew(kind, instrument.change_id);
                if kind == "book" {
                    self.feeds.get_mut(id)?.start_from(instrument.change_id);
                }
            }
            return Some(id);
        }
        let (capacity, lag) = match (kind, interval) {
            ("ticker", _) => (STATE_RING, LagPolicy::Latest),
            ("book", Interval::Ms100 | Interval::Agg2) => (MERGED_RING, LagPolicy::Ask),
            _ => (DELTA_RING, LagPolicy::Close),
        };
        let id = self.add_feed(&name, capacity, lag);
        let instrument = self.instruments.get_mut(spec.id.0 as usize)?;
        let backlog = &mut instrument.backlogs[interval as usize];
        match kind {
            "book" => {
                backlog.published_id = instrument.change_id;
                backlog.book = Some(id);
                let feed = self.feeds.get_mut(id)?;
                feed.chain = (lag == LagPolicy::Ask).then(|| ChangeChain::new(spec, instrument.change_id));
                feed.start_from(instrument.change_id);
            }
            "trades" => backlog.tape = Some(id),
            _ => backlog.ticker = Some(id),
        }
        Some(id)
    }

    /// Returns the book as of this channel's last message, so that the next change applies to it.
    fn snapshot(&self, name: &str, spec: &InstrumentSpec, interval: Interval, at: VenueNanos) -> Vec<u8> {
        let Some(instrument) = self.instruments.get(spec.id.0 as usize) else { return Vec::new() };
        let backlog = &instrument.backlogs[interval as usize];
        let (bids, asks) = backlog.levels.snapshot(&instrument.levels);
        notification(name, |j| objects::book_snapshot(j, spec, at, backlog.published_id, &bids, &asks))
    }
}

/// Returns the canonical name of a state channel, regardless of how a client has written it.
fn line_name(channel: &Channel, spec: &InstrumentSpec) -> Option<String> {
    let name = &spec.name;
    Some(match channel {
        Channel::Quote { .. } => format!("quote.{name}"),
        Channel::Depth { group, levels, interval, .. } => {
            let group = group.width().map_or("none".into(), |width| width.to_string());
            format!("book.{name}.{group}.{levels}.{}", interval.name())
        }
        Channel::Chart { resolution, .. } => {
            let minutes = resolution.minutes;
            let word = if minutes == 1_440 { "1D".into() } else { minutes.to_string() };
            format!("chart.trades.{name}.{word}")
        }
        Channel::Perpetual { interval, .. } => format!("perpetual.{name}.{}", interval.name()),
        Channel::Session { .. } => format!("session.{name}"),
        Channel::OffBook { .. } => format!("off_book.{name}"),
        Channel::Auction { interval: None, .. } => format!("auction.{name}"),
        Channel::Auction { interval: Some(interval), .. } => format!("auction.{name}.{}", interval.name()),
        _ => return None,
    })
}
