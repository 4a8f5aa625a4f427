//! What an instrument carries besides its visible book: orders that are set aside, unseen or unpriced, and the state of
//! its sessions.
//!
//! Does        keep live orders that stand on no level: parked, unelected, elected, hidden, market orders that wait.
//! Holds       1. an order is in the slab once, and in the one sorted set of its place;
//!             2. every set is walked in an order that the rules give, never in that of memory;
//!             3. a slot here has its highest bit set, so that it names no order of the book.
//! Leaves out  money, indices, events: see `live`.
//! Costs       put, take, move: logarithmic in what is set aside here. A plain market never comes here.
//! Start at    [`Kept`], then [`Special`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pitwire_model::{
    AccountId, Derivation, Lots, OrderId, OrderType, Phase, RemainingSessions, SelfMatch, Side, Ticks, VenueNanos,
};

use crate::auction::{AuctionCurve, CrossQueues};
use crate::book::{OrderOrigin, Slot, key_of};
use crate::reporting::Reporting;
use crate::rule_tables::TifSet;

/// Where a live order waits that stands in no visible book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum UndisplayedState {
    /// For a session.
    Parked = 0,
    /// A stop for its price.
    Unelected = 1,
    /// A stop that has been elected and acts later in the same command.
    Elected = 2,
    /// In the book, unseen.
    Hidden = 3,
    /// Active without a level: a market order in a call, a pause, a batch, or CPX in the cross.
    Unpriced = 4,
}

impl UndisplayedState {
    pub const ALL: [UndisplayedState; 5] = [
        UndisplayedState::Parked,
        UndisplayedState::Unelected,
        UndisplayedState::Elected,
        UndisplayedState::Hidden,
        UndisplayedState::Unpriced,
    ];
}

/// A live order that stands on no level of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndisplayedOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub place: UndisplayedState,
    pub kind: OrderType,
    pub open: u32,
    pub ordered: u32,
    /// The peak of an iceberg that is parked; zero for all others.
    pub display: u32,
    /// How far a market order or a stop may trade; zero where nothing bounds it.
    pub bound: Ticks,
    /// Its own word on self-match prevention, until it acts.
    pub mode: Option<SelfMatch>,
    pub origin: OrderOrigin,
}

impl UndisplayedOrder {
    /// Its limit; zero for market orders and stops.
    pub fn price(&self) -> Ticks {
        self.kind.limit_price().unwrap_or(Ticks::ZERO)
    }

    /// Its limit or bound; zero where neither is.
    pub fn reserve_price(&self) -> Ticks {
        self.kind.limit_price().unwrap_or(self.bound)
    }

    /// Where a market order ranks that something bounds; `None` before all prices.
    pub fn bounded_price(&self) -> Option<Ticks> {
        Some(self.reserve_price()).filter(|price| *price != Ticks::ZERO)
    }

    /// Its MES; zero for all but hidden orders.
    pub fn minimum(&self) -> u32 {
        match self.kind {
            OrderType::Hidden { minimum_execution: Lots(lots), .. } => u32::try_from(lots).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    pub fn is_market(&self) -> bool {
        matches!(self.kind, OrderType::Market)
    }
}

/// What the public was told last of a call's price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndicativeUncross {
    pub price: Option<Ticks>,
    pub volume: u64,
    pub imbalance: i64,
}

/// What a call that was broken off would have ended: its market orders and times in force, and whether anything at all
/// is left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeferredCallEnd {
    pub expire: TifSet,
    pub waits: bool,
}

const VACANT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct Special {
    slab: Vec<Option<UndisplayedOrder>>,
    free: Vec<u32>,
    hidden: [BTreeSet<(u32, u64, u32)>; 2],
    unpriced: [BTreeSet<(u64, u32)>; 2],
    parked: BTreeSet<(OrderId, u32)>,
    /// By what makes the first elected come first: buys by stop price, sells by its complement; then by number.
    unelected: [BTreeSet<(u32, OrderId, u32)>; 2],
    elected: BTreeSet<(u64, u32)>,
    /// Good till a time: of book orders and of those kept here. Some have gone since: see `expiry`.
    pub(crate) times: ExpiryTimes,

    /// Hidden orders that the command at hand has brought into the book or amended there.
    pub(crate) arrivals: Vec<OrderId>,
    pub(crate) ends: Option<VenueNanos>,
    pub(crate) remaining: RemainingSessions,
    /// The session that runs began as one that was missed.
    pub(crate) missed: bool,
    /// The call that a volatility call goes on from.
    pub(crate) continues: Option<Phase>,
    pub(crate) unfinished: DeferredCallEnd,
    pub(crate) static_reference: Option<Ticks>,
    /// As set up, until the first trade.
    pub(crate) dynamic_reference: Option<Ticks>,
    pub(crate) closing: Option<(Ticks, Derivation)>,
    pub(crate) previous_close: Option<Ticks>,
    /// Price of the last uncross of a call or batch.
    pub(crate) uncross_price: Option<Ticks>,
    pub(crate) indicated: IndicativeUncross,
    pub(crate) reporting: Reporting,
    /// What gathers in a call or a batch, by price; no part of any image.
    pub(crate) curve: Option<AuctionCurve>,
    /// Who waits in the closing price cross; no part of any image.
    pub(crate) cross: Option<CrossQueues>,
    /// Places in time at which batches ended, ascending: those that part live orders, and perhaps some more.
    pub(crate) batch_ends: Vec<u64>,
}

impl Special {
    /// Live orders kept here.
    pub fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    pub fn has_hidden(&self) -> bool {
        self.hidden.iter().any(|side| !side.is_empty())
    }

    /// Whether stops wait for a price, or, elected, to act.
    pub fn has_stops(&self) -> bool {
        self.unelected.iter().any(|side| !side.is_empty()) || !self.elected.is_empty()
    }

    /// The order at a slot of this kind.
    pub(crate) fn get(&self, slot: Slot) -> Option<&UndisplayedOrder> {
        self.slab.get(slot.kept_at()?)?.as_ref()
    }

    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn put(&mut self, order: UndisplayedOrder) -> Slot {
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = Some(order);
                at
            }
            None => {
                self.slab.push(Some(order));
                (self.slab.len() - 1) as u32
            }
        };
        self.enlist(&order, at);
        Slot::kept(at)
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<UndisplayedOrder> {
        let at = slot.kept_at()?;
        let order = self.slab.get_mut(at)?.take()?;
        let at = u32::try_from(at).unwrap_or(VACANT);
        self.strike(&order, at);
        self.free.push(at);
        Some(order)
    }

    /// Changes an order where it is; the sets follow.
    pub(crate) fn relocate(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut UndisplayedOrder),
    ) -> Option<UndisplayedOrder> {
        let at = slot.kept_at()?;
        let old = self.slab.get(at).copied()??;
        let mut new = old;
        change(&mut new);
        self.slab[at] = Some(new);
        let at = u32::try_from(at).unwrap_or(VACANT);
        self.strike(&old, at);
        self.enlist(&new, at);
        Some(new)
    }

    /// Takes lots of a hidden or market order that has traded; returns what is still open, which may be nothing: then
    /// the caller takes it off.
    pub(crate) fn fill(&mut self, slot: Slot, lots: u32) -> u32 {
        let order = slot.kept_at().and_then(|at| self.slab.get_mut(at)).and_then(Option::as_mut);
        order.map_or(0, |order| {
            order.open = order.open.saturating_sub(lots);
            order.open
        })
    }

    fn enlist(&mut self, order: &UndisplayedOrder, at: u32) {
        let (side, time) = (order.side as usize & 1, order.origin.time);
        match order.place {
            UndisplayedState::Parked => _ = self.parked.insert((order.id, at)),
            UndisplayedState::Unelected => _ = self.unelected[side].insert((stop_key(order), order.id, at)),
            UndisplayedState::Elected => _ = self.elected.insert((time, at)),
            UndisplayedState::Hidden => _ = self.hidden[side].insert((key_of(order.side, order.price()), time, at)),
            UndisplayedState::Unpriced => _ = self.unpriced[side].insert((time, at)),
        }
    }

    fn strike(&mut self, order: &UndisplayedOrder, at: u32) {
        let (side, time) = (order.side as usize & 1, order.origin.time);
        match order.place {
            UndisplayedState::Parked => _ = self.parked.remove(&(order.id, at)),
            UndisplayedState::Unelected => _ = self.unelected[side].remove(&(stop_key(order), order.id, at)),
            UndisplayedState::Elected => _ = self.elected.remove(&(time, at)),
            UndisplayedState::Hidden => _ = self.hidden[side].remove(&(key_of(order.side, order.price()), time, at)),
            UndisplayedState::Unpriced => _ = self.unpriced[side].remove(&(time, at)),
        }
    }

    /// Hidden orders of one side, best price first, then by time.
    pub(crate) fn hidden(&self, side: Side) -> impl DoubleEndedIterator<Item = Slot> {
        self.hidden[side as usize & 1].iter().map(|(_, _, at)| Slot::kept(*at))
    }

    /// The first hidden order of one side behind a place in its order, which is a key of the book and a time.
    pub(crate) fn next_hidden(&self, side: Side, (key, time): (u32, u64)) -> Option<Slot> {
        let behind = (Bound::Excluded((key, time, u32::MAX)), Bound::Unbounded);
        self.hidden[side as usize & 1].range(behind).next().map(|(.., at)| Slot::kept(*at))
    }

    /// Market orders that wait, by time.
    pub(crate) fn unpriced(&self, side: Side) -> impl DoubleEndedIterator<Item = Slot> {
        self.unpriced[side as usize & 1].iter().map(|(_, at)| Slot::kept(*at))
    }

    /// By number.
    pub(crate) fn parked(&self) -> impl Iterator<Item = Slot> {
        self.parked.iter().map(|(_, at)| Slot::kept(*at))
    }

    /// In the order of election.
    pub(crate) fn elected(&self) -> impl Iterator<Item = Slot> {
        self.elected.iter().map(|(_, at)| Slot::kept(*at))
    }

    /// Unelected stops whose condition holds at `last`, in the order of election: buys, then sells; farthest first, then
    /// by number.
    pub(crate) fn unelected_due(&self, last: Ticks) -> impl Iterator<Item = Slot> {
        let due = |side: Side| {
            let reach = key_of(side.opposite(), last);
            self.unelected[side as usize & 1].iter().take_while(move |(key, ..)| *key <= reach).map(|(.., at)| *at)
        };
        due(Side::Buy).chain(due(Side::Sell)).map(Slot::kept)
    }

    /// Every order kept here, in no order at all: sort before letting anything out.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = (Slot, &UndisplayedOrder)> {
        (0_u32..).zip(&self.slab).filter_map(|(at, order)| Some((Slot::kept(at), order.as_ref()?)))
    }
}

/// Stops of one side in the order in which a price passes them: a buy's price as it is, a sell's complement. So a buy
/// stop sorts like an offer.
fn stop_key(order: &UndisplayedOrder) -> u32 {
    key_of(order.side.opposite(), order.kind.stop_price().unwrap_or(Ticks::ZERO))
}

/// Orders that are good till a time.
///
/// What leaves by another door is not struck out here at once: a time is looked up by the order it belongs to and passed
/// over if that has gone. The list is swept whenever it has doubled, so it stays within twice what is live.
#[derive(Debug, Default)]
pub(crate) struct ExpiryTimes {
    of: BTreeMap<OrderId, VenueNanos>,
    queue: BTreeSet<(VenueNanos, OrderId)>,
    sweep_at: usize,
}

const SMALL: usize = 64;

impl ExpiryTimes {
    pub fn of(&self, order: OrderId) -> Option<VenueNanos> {
        self.of.get(&order).copied()
    }

    /// `lives` tells whether an order is still there; asked only when the list has grown.
    pub fn set(&mut self, order: OrderId, at: VenueNanos, lives: impl Fn(OrderId) -> bool) {
        if let Some(old) = self.of.insert(order, at) {
            self.queue.remove(&(old, order));
        }
        self.queue.insert((at, order));
        if self.of.len() > self.sweep_at.max(SMALL) {
            self.of.retain(|id, _| *id == order || lives(*id));
            let of = &self.of;
            self.queue.retain(|(at, id)| of.get(id) == Some(at));
            self.sweep_at = self.of.len() * 2;
        }
    }

    pub fn forget(&mut self, order: OrderId) {
        if let Some(at) = self.of.remove(&order) {
            self.queue.remove(&(at, order));
        }
    }

    /// Those whose time is `now` or past, by time, then number.
    pub fn due(&self, now: VenueNanos) -> impl Iterator<Item = OrderId> {
        self.queue.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// The earliest time later than `after` of an order that still lives.
    pub fn next_after(&self, after: VenueNanos, lives: impl Fn(OrderId) -> bool) -> Option<VenueNanos> {
        let later = self.queue.range((VenueNanos(after.0.saturating_add(1)), OrderId::ZERO)..);
        later.filter(|(_, order)| lives(*order)).map(|(at, _)| *at).next()
    }

    /// When something here is due next.
    pub fn next(&self) -> Option<VenueNanos> {
        self.queue.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_nobody_waits_for_are_forgotten() {
        let mut times = ExpiryTimes::default();
        // Forty live on; a hundred thousand came and went by another door.
        let lives = |order: OrderId| order.0 <= 40;
        for order in (1..=40).chain(100..100_100) {
            times.set(OrderId(order), VenueNanos(1_000_000 - order), lives);
            assert!(times.of.len() <= 2 * 40 + SMALL && times.queue.len() == times.of.len(), "at {order}");
        }
        let due: Vec<u64> =
            times.due(VenueNanos(1_000_000)).map(|order| order.0).filter(|order| *order <= 40).collect();
        assert_eq!(due, (1..=40).rev().collect::<Vec<u64>>(), "by time");
        times.set(OrderId(7), VenueNanos(5), lives);
        assert_eq!((times.next(), times.due(VenueNanos(4)).next()), (Some(VenueNanos(5)), None));
        times.forget(OrderId(7));
        assert_eq!(times.of(OrderId(7)), None);
    }

    fn stop(id: u64, side: Side, stop: i64) -> UndisplayedOrder {
        UndisplayedOrder {
            id: OrderId(id),
            account: AccountId(0),
            side,
            place: UndisplayedState::Unelected,
            kind: OrderType::Stop { stop: Ticks(stop) },
            open: 1,
            ordered: 1,
            display: 0,
            bound: Ticks::ZERO,
            mode: None,
            origin: OrderOrigin::default(),
        }
    }

    #[test]
    fn stops_are_elected_buys_first_farthest_first_then_by_number() {
        let mut special = Special::default();
        let (buy, sell) = (Side::Buy, Side::Sell);
        for order in [stop(1, sell, 100), stop(2, buy, 100), stop(3, buy, 98), stop(4, sell, 103), stop(5, buy, 98)] {
            special.put(order);
        }
        special.put(stop(6, buy, 101));
        special.put(stop(7, sell, 99));
        let due = |special: &Special, last: i64| -> Vec<u64> {
            let order = |slot: Slot| special.get(slot).map(|order| order.id.0);
            special.unelected_due(Ticks(last)).filter_map(order).collect()
        };
        assert_eq!(due(&special, 100), [3, 5, 2, 4, 1]);
        assert_eq!(due(&special, 98), [3, 5, 4, 1, 7]);
        // A new stop price is another place.
        let third = special.unelected_due(Ticks(98)).next().expect("the third order");
        special.relocate(third, |order| order.kind = OrderType::Stop { stop: Ticks(101) });
        assert_eq!(due(&special, 100), [5, 2, 4, 1]);
        assert_eq!(special.take(third).map(|order| order.id), Some(OrderId(3)));
        assert_eq!((special.len(), special.get(third)), (6, None));
    }
}
