//! The auditor's orders and its book: for each side, one tree of places and one of levels.
//!
//! Holds       1. the first place of a side is the order that must trade first: unpriced, then by price, visible before
//!                hidden, then by time;
//!             2. a level counts what visible priced orders show there, and, apart, what they have open.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, InstrumentId, Lots, MatchGroup, OrderId, SelfMatch, SessionId, Side, Ticks, TimeInForce, VenueDay,
};

/// What an order is by now: an elected stop is a market or a limit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Limit,
    Market,
    Hidden,
    Stop,
    StopLimit,
}

/// Where a live order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the book; market orders of a call too.
    Active,
    /// Set aside until a session.
    Parked,
    /// A stop that waits for a price.
    Unelected,
    /// A stop that has been elected and has not acted yet.
    Elected,
}

/// A live order as the events have told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub kind: Kind,
    pub place: Place,
    pub tif: TimeInForce,
    /// The limit; zero for an order that has none.
    pub price: Ticks,
    /// Of a stop; zero for others.
    pub stop: Ticks,
    /// MES of a hidden order; zero for others.
    pub minimum: u64,
    /// The worst price of an order without limit, fixed when it was entered.
    pub bound: Option<Ticks>,
    /// Shown and hidden together.
    pub open: u64,
    /// What the level counts; less than `open` for icebergs alone.
    pub shown: u64,
    pub peak: Option<Lots>,
    /// All that was ever asked for, what has traded included.
    pub ordered: u64,
    /// Its priority number.
    pub arrival: u64,
    /// The venue day of its entry, if one had begun.
    pub entered: Option<VenueDay>,
    /// Its own word on self-match prevention, until it has acted.
    pub mode: Option<SelfMatch>,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

impl Live {
    /// What it shows when it joins the end of its queue.
    pub fn fresh_part(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }

    /// Whether self-match prevention takes the two for one member's.
    pub fn is_of_group(&self, other: &Live) -> bool {
        match self.group {
            MatchGroup::Order => false,
            MatchGroup::Account => other.group == MatchGroup::Account && self.account == other.account,
            MatchGroup::Key(_) => self.group == other.group,
        }
    }

    pub fn is_active(&self) -> bool {
        self.place == Place::Active
    }

    /// An active order without a limit.
    pub fn is_market(&self) -> bool {
        self.kind == Kind::Market
    }

    pub fn is_hidden(&self) -> bool {
        self.kind == Kind::Hidden
    }

    /// Whether it counts in a level.
    pub fn is_on_show(&self) -> bool {
        self.is_active() && self.kind == Kind::Limit
    }

    /// The worst price at which it trades: its limit, or what bounds it; none: any price.
    pub fn reach(&self) -> Option<Ticks> {
        match self.kind {
            Kind::Limit | Kind::Hidden | Kind::StopLimit => Some(self.price),
            Kind::Market | Kind::Stop => self.bound,
        }
    }

    /// Whether it is at once or never.
    pub fn is_immediate(&self) -> bool {
        matches!(self.tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }
}

#[derive(Debug, Default)]
pub struct Book {
    sides: [Ladder; 2],
    /// Live orders of the instrument, wherever they are.
    pub live: usize,
    /// Hidden orders in the book.
    pub hidden: usize,
    /// Stops that wait, by side, then by stop price.
    stops: [BTreeSet<(Ticks, OrderId)>; 2],
}

#[derive(Debug, Default)]
struct Ladder {
    /// By price, better first, visible before hidden, then by time.
    places: BTreeMap<(i64, bool, u64), OrderId>,
    levels: BTreeMap<i64, Level>,
    /// What orders without any limit have open.
    unpriced: u64,
    /// What bounded market orders have open, by bound.
    bounded: BTreeMap<i64, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    shown: u64,
    whole: u64,
}

/// Orders prices so that the better comes first; before all of them what has no price.
const fn rank(side: Side, price: Option<Ticks>) -> i64 {
    match (side, price) {
        (_, None) => i64::MIN,
        (Side::Buy, Some(price)) => -price.0,
        (Side::Sell, Some(price)) => price.0,
    }
}

const fn place(order: &Live) -> (i64, bool, u64) {
    let price = match order.kind {
        Kind::Market => order.bound,
        _ => Some(order.price),
    };
    (rank(order.side, price), matches!(order.kind, Kind::Hidden), order.arrival)
}

impl Book {
    /// Puts an active order into its place.
    pub fn insert(&mut self, order: &Live) {
        let key = place(order);
        self.sides[order.side as usize].places.insert(key, order.id);
        self.hidden += usize::from(order.is_hidden());
        let ladder = &mut self.sides[order.side as usize];
        match order.kind {
            Kind::Market if order.bound.is_none() => ladder.unpriced += order.open,
            Kind::Market => *ladder.bounded.entry(key.0).or_default() += order.open,
            Kind::Limit => {
                let level = ladder.levels.entry(key.0).or_default();
                level.shown += order.shown;
                level.whole += order.open;
            }
            _ => {}
        }
    }

    /// A stop begins to wait for its price; anything else is passed over.
    pub fn await_price(&mut self, order: &Live) {
        if order.place == Place::Unelected {
            self.stops[order.side as usize].insert((order.stop, order.id));
        }
    }

    /// A stop waits no more; anything else is passed over.
    pub fn await_no_more(&mut self, order: &Live) {
        if order.place == Place::Unelected {
            self.stops[order.side as usize].remove(&(order.stop, order.id));
        }
    }

    /// The waiting stops that this price has reached, in no order that matters.
    pub fn reached(&self, last: Ticks) -> impl Iterator<Item = OrderId> {
        let [buys, sells] = &self.stops;
        let buys = buys.range(..=(last, OrderId(u64::MAX)));
        buys.chain(sells.range((last, OrderId::ZERO)..)).map(|(_, id)| *id)
    }

    /// Takes an active order, given as it stands there, out.
    pub fn remove(&mut self, order: &Live) {
        let key = place(order);
        self.sides[order.side as usize].places.remove(&key);
        self.hidden -= usize::from(order.is_hidden());
        self.shrink(order, order.shown, order.open);
    }

    /// Takes lots off an active order, which keeps its place: so many of those it shows, so many in all.
    pub fn shrink(&mut self, order: &Live, shown: u64, whole: u64) {
        let key = place(order);
        let ladder = &mut self.sides[order.side as usize];
        match order.kind {
            Kind::Market if order.bound.is_none() => ladder.unpriced -= whole,
            Kind::Market => take(&mut ladder.bounded, key.0, whole),
            Kind::Limit => {
                if let Some(level) = ladder.levels.get_mut(&key.0) {
                    level.shown = level.shown.saturating_sub(shown);
                    level.whole = level.whole.saturating_sub(whole);
                    if level.whole == 0 {
                        ladder.levels.remove(&key.0);
                    }
                }
            }
            _ => {}
        }
    }

    pub fn best(&self, side: Side) -> Option<Ticks> {
        let (rank, _) = self.sides[side as usize].levels.first_key_value()?;
        Some(Ticks(rank.abs()))
    }

    /// The best visible price and what is shown there.
    pub fn touch(&self) -> Touch {
        [Side::Buy, Side::Sell].map(|side| {
            let (rank, level) = self.sides[side as usize].levels.first_key_value()?;
            Some((Ticks(rank.abs()), level.shown))
        })
    }

    /// What is shown at a price.
    pub fn level(&self, side: Side, price: Ticks) -> u64 {
        self.sides[side as usize].levels.get(&rank(side, Some(price))).map_or(0, |level| level.shown)
    }

    /// What is shown, best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        self.sides[side as usize].levels.iter().map(|(rank, level)| (Ticks(rank.abs()), level.shown))
    }

    /// What visible orders have open at each price, market orders that are bounded at their bounds; in no order.
    pub fn wholes(&self, side: Side) -> impl Iterator<Item = (Ticks, u64)> {
        let ladder = &self.sides[side as usize];
        let priced = ladder.levels.iter().map(|(rank, level)| (Ticks(rank.abs()), level.whole));
        priced.chain(ladder.bounded.iter().map(|(rank, lots)| (Ticks(rank.abs()), *lots)))
    }

    /// What orders without any limit have open.
    pub fn unpriced(&self, side: Side) -> u64 {
        self.sides[side as usize].unpriced
    }

    /// In priority order.
    pub fn orders(&self, side: Side) -> impl DoubleEndedIterator<Item = OrderId> {
        self.sides[side as usize].places.values().copied()
    }

    /// The visible orders at one price, oldest first.
    pub fn shown_at(&self, side: Side, price: Ticks) -> impl Iterator<Item = OrderId> {
        let rank = rank(side, Some(price));
        self.sides[side as usize].places.range((rank, false, 0)..=(rank, false, u64::MAX)).map(|(_, id)| *id)
    }

    /// Whether the best visible bid reaches the best visible offer.
    pub fn is_crossed(&self) -> Option<(Ticks, Ticks)> {
        let (bid, offer) = (self.best(Side::Buy)?, self.best(Side::Sell)?);
        (bid >= offer).then_some((bid, offer))
    }
}

/// Of bids, then of offers: best visible price and visible quantity there.
pub type Touch = [Option<(Ticks, u64)>; 2];

fn take(levels: &mut BTreeMap<i64, u64>, rank: i64, lots: u64) {
    if let Some(level) = levels.get_mut(&rank) {
        *level = level.saturating_sub(lots);
        if *level == 0 {
            levels.remove(&rank);
        }
    }
}
