//! Channels that publish the whole state of one instrument: quotes, grouped depth, candles, index
//! prices, sessions.
//!
//! Holds       1. a message is sent when the state differs from the last message, and contains the
//!                whole state;
//!             2. a new subscriber starts from the last message's state, so that all subscribers
//!                have seen the same.

use crate::codec::objects::{AuctionFacts, Curves, OffBookFacts, SessionFacts};
use crate::codec::{Channel, Interval, Json, PriceGroup, Resolution, objects};
use pitwire_model::{Decimal, InstrumentSpec, Lots, Side, Ticks};
use pitwire_projections::{Candle, MarketFacts, Tape};

use crate::channels::levels::Levels;
use pitwire_delivery::ChannelId;

/// The state that a channel publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StateKind {
    Quote,
    Depth {
        group: i64,
        levels: usize,
        interval: Interval,
    },
    Chart(Resolution),
    Perpetual(Interval),
    Index(String),
    Session,
    /// Without an interval: each change. With one: at the end of each window, with both curves.
    Auction(Option<Interval>),
    /// Each off-book trade, and the hours for off-book trading.
    OffBook,
}

/// An event after which the state may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateTrigger {
    /// A command changed the book or traded.
    Command,
    Sample,
    Window(Interval),
    /// A minute of venue time has begun, before any command in it.
    Minute,
}

type Level = (Ticks, Lots);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Quote(Option<Level>, Option<Level>),
    Depth(Vec<Level>, Vec<Level>),
    Candle(Candle),
    Index(Ticks),
    Session(SessionFacts),
    Auction(AuctionFacts, Option<Box<Curves>>),
    OffBook(OffBookFacts),
}

/// Maximum levels per side in the curves of an auction channel.
const CURVE_LEVELS: usize = 200;

#[derive(Debug)]
pub(super) struct StateChannel {
    pub feed: ChannelId,
    what: StateKind,
    published: Option<State>,
}

/// The current facts of an instrument.
#[derive(Clone, Copy)]
pub(super) struct InstrumentNow<'a> {
    pub facts: &'a MarketFacts<'a>,
    pub levels: &'a Levels,
    pub change_id: u64,
    pub tape: Option<&'a Tape>,
}

impl StateKind {
    /// Returns `None` if the channel is not a state channel, or does not fit this instrument.
    pub fn of(channel: &Channel, spec: &InstrumentSpec) -> Option<StateKind> {
        Some(match channel {
            Channel::Quote { .. } => StateKind::Quote,
            Channel::Depth { group, levels, interval, .. } => {
                StateKind::Depth { group: group_ticks(*group, spec)?, levels: *levels, interval: *interval }
            }
            Channel::Chart { resolution, .. } => StateKind::Chart(*resolution),
            Channel::Perpetual { interval, .. } if !spec.is_spot() => StateKind::Perpetual(*interval),
            Channel::PriceIndex { index } => StateKind::Index(index.clone()),
            Channel::Session { .. } => StateKind::Session,
            Channel::Auction { interval, .. } => StateKind::Auction(*interval),
            Channel::OffBook { .. } => StateKind::OffBook,
            _ => return None,
        })
    }

    fn speaks_at(&self, moment: StateTrigger) -> bool {
        match self {
            StateKind::Quote | StateKind::Session | StateKind::Auction(None) | StateKind::OffBook => {
                moment == StateTrigger::Command
            }
            StateKind::Auction(Some(interval)) => moment == StateTrigger::Window(*interval),
            StateKind::Depth { interval, .. } => moment == StateTrigger::Window(*interval),
            // Publish each finished bucket, even without trades and without any other event.
            StateKind::Chart(_) => {
                matches!(moment, StateTrigger::Command | StateTrigger::Minute | StateTrigger::Window(Interval::Ms100))
            }
            StateKind::Perpetual(Interval::Raw) | StateKind::Index(_) => moment == StateTrigger::Sample,
            StateKind::Perpetual(interval) => moment == StateTrigger::Window(*interval),
        }
    }

    pub fn is_candle(&self) -> bool {
        matches!(self, StateKind::Chart(_))
    }

    fn state(&self, now: &InstrumentNow<'_>) -> Option<State> {
        Some(match self {
            StateKind::Quote => State::Quote(now.levels.best(Side::Buy), now.levels.best(Side::Sell)),
            StateKind::Depth { group, levels, .. } => State::Depth(
                grouped(now.levels, Side::Buy, *group, *levels),
                grouped(now.levels, Side::Sell, *group, *levels),
            ),
            StateKind::Chart(resolution) => {
                let now_ms = now.facts.at.as_millis();
                State::Candle(now.tape?.candles(now_ms, now_ms, resolution.minutes, 1).pop()?)
            }
            StateKind::Perpetual(_) | StateKind::Index(_) => State::Index(now.facts.index),
            StateKind::Session => State::Session(SessionFacts::of(now.facts.session?)),
            StateKind::OffBook => State::OffBook(OffBookFacts::of(now.facts.off_book)),
            StateKind::Auction(interval) => {
                let call = AuctionFacts::of(now.facts.session?);
                let curves = interval.filter(|_| call.collects()).map(|_| {
                    let [bids, asks] =
                        [Side::Buy, Side::Sell].map(|side| now.levels.best_first(side).collect::<Vec<_>>());
                    Box::new(Curves::of(&bids, &asks, call.indicative.as_ref(), CURVE_LEVELS))
                });
                State::Auction(call, curves)
            }
        })
    }

    /// Returns whether every state must reach every subscriber. A subscriber too far behind is then
    /// closed instead of moved to the latest message.
    pub fn sends_each(&self) -> bool {
        matches!(self, StateKind::Session | StateKind::Auction(_) | StateKind::OffBook)
    }

    fn write(&self, j: &mut Json<'_>, now: &InstrumentNow<'_>, state: &State) {
        let facts = now.facts;
        match (self, state) {
            (_, State::Quote(bid, ask)) => {
                objects::quote(j, &MarketFacts { best_bid: *bid, best_ask: *ask, ..*facts });
            }
            (_, State::Depth(bids, asks)) => objects::depth(j, facts.spec, facts.at, now.change_id, bids, asks),
            (_, State::Candle(candle)) => objects::candle(j, facts.spec, candle),
            (StateKind::Index(name), State::Index(index)) => {
                objects::price_index(j, name, &MarketFacts { index: *index, ..*facts });
            }
            (_, State::Session(session)) => objects::session(j, facts.spec, facts.at, session),
            (_, State::Auction(auction, curves)) => {
                objects::auction(j, facts.spec, facts.at, auction, curves.as_deref())
            }
            (_, State::OffBook(trade)) => objects::off_book(j, facts.spec, facts.at, trade),
            (_, State::Index(index)) => objects::perpetual(j, &MarketFacts { index: *index, ..*facts }),
        }
    }
}

impl StateChannel {
    pub fn new(feed: ChannelId, what: StateKind) -> Self {
        StateChannel { feed, what, published: None }
    }

    /// Forgets the last state, because the channel had no subscribers since.
    pub fn start_anew(&mut self) {
        self.published = None;
    }

    /// Returns the current state as the first message for a new subscriber. `None` if the channel
    /// has no state yet, such as candles before the first trade.
    pub fn first<'a>(&'a mut self, now: &'a InstrumentNow<'a>) -> Option<impl FnOnce(&mut Json<'_>) + 'a> {
        if self.published.is_none() {
            self.published = self.what.state(now);
        }
        let (what, state) = (&self.what, self.published.as_ref()?);
        Some(move |j: &mut Json<'_>| what.write(j, now, state))
    }

    /// Returns the message due at this trigger, if the state differs from the last message.
    pub fn due<'a>(
        &'a mut self,
        moment: StateTrigger,
        now: &'a InstrumentNow<'a>,
    ) -> Option<impl FnOnce(&mut Json<'_>) + 'a> {
        if !self.what.speaks_at(moment) {
            return None;
        }
        let state = self.what.state(now)?;
        if self.published.as_ref() == Some(&state) {
            return None;
        }
        let (what, state) = (&self.what, &*self.published.insert(state));
        Some(move |j: &mut Json<'_>| what.write(j, now, state))
    }
}

/// Returns a group's width in ticks; `None` if it is not a whole number of ticks.
fn group_ticks(group: PriceGroup, spec: &InstrumentSpec) -> Option<i64> {
    let Some(width) = group.width() else { return Some(1) };
    i64::try_from(Decimal::new(i128::from(width), 0).in_steps_of(spec.tick)?).ok()
}

/// Returns the best levels of a side. Bids are rounded down to whole groups and offers up.
fn grouped(levels: &Levels, side: Side, group: i64, most: usize) -> Vec<Level> {
    let mut out: Vec<Level> = Vec::with_capacity(most);
    for (price, lots) in levels.best_first(side) {
        let price = Ticks(match side {
            Side::Buy => price.0.div_euclid(group) * group,
            Side::Sell => -((-price.0).div_euclid(group) * group),
        });
        let full = out.len() == most;
        match out.last_mut() {
            Some((last, sum)) if *last == price => sum.0 += lots.0,
            _ if full => break,
            _ => out.push((price, lots)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouped_levels_round_away_from_the_touch_and_sum() {
        let mut levels = Levels::default();
        for (side, price, lots) in [
            (Side::Buy, 99, 1),
            (Side::Buy, 95, 2),
            (Side::Buy, 90, 4),
            (Side::Sell, 100, 1),
            (Side::Sell, 101, 2),
            (Side::Sell, 110, 4),
            (Side::Sell, 111, 8),
        ] {
            levels.set(side, Ticks(price), Lots(lots));
        }
        let level = |price, lots| (Ticks(price), Lots(lots));
        assert_eq!(grouped(&levels, Side::Buy, 10, 5), [level(90, 7)]);
        assert_eq!(grouped(&levels, Side::Buy, 5, 2), [level(95, 3), level(90, 4)]);
        assert_eq!(grouped(&levels, Side::Sell, 10, 5), [level(100, 1), level(110, 6), level(120, 8)]);
        assert_eq!(grouped(&levels, Side::Sell, 1, 2), [level(100, 1), level(101, 2)]);
    }
}
