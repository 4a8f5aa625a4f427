//! An incoming quantity meets what rests on the other side.
//!
//! Does        fill from the best level on, oldest displayed order first; ask the sink before each maker.
//! Holds       1. a sink that never objects costs nothing: its answer is known where it is compiled;
//!             2. a level is reported once, after all that happened on it, and only if something did.
//! Costs       what is filled and cancelled: constant per order; for an iceberg, per displayed part taken.
//! Start at    [`Book::sweep`].

use std::hint::select_unpredictable;

use pitwire_model::{OrderId, Side, Ticks};

use super::cold::OrderDetails;
use super::ladder::PriceLevel;
use super::slab::{NIL, Slab};
use super::{Book, IcebergReserve, Owner, RestingOrder, key_of, price_of};

/// What is to happen between an incoming order and the maker whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakerAction {
    Trade,
    /// The maker leaves the book, what it hides included; the sweep goes on.
    CancelMaker,
    /// The maker leaves the book and the sweep ends.
    CancelBoth,
    /// The sweep ends; the maker stays.
    Stop,
}

/// A resting order whose turn it is.
#[derive(Debug)]
pub struct Maker<'a, E> {
    pub id: OrderId,
    pub owner: Owner,
    pub price: Ticks,
    /// What it shows.
    pub open: u32,
    pub(super) cold: &'a OrderDetails<E>,
    pub(super) at: u32,
}

impl<E: Copy + Default> Maker<'_, E> {
    /// Where it came from: a look beside the book, so compare the owner first.
    #[inline]
    pub fn origin(&self) -> E {
        self.cold.origin(self.at)
    }
}

/// What a sweep asks and reports, in the order in which it happens.
pub trait SweepSink<E = ()> {
    /// Asked before a maker is filled; again for each displayed part of an iceberg.
    #[inline]
    fn meet(&mut self, _: &Maker<E>) -> MakerAction {
        MakerAction::Trade
    }

    /// Asked once everybody who is to share so many lots at one price has been asked; no ends the sweep.
    #[inline]
    fn round(&mut self, _: u64) -> bool {
        true
    }

    /// `lots` of a resting order traded at its own price; `maker_open` is what it still has, hidden lots included.
    /// `refreshed` is what an iceberg shows anew when the fill used its displayed part up, else zero.
    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32, refreshed: u32);

    /// An iceberg has come to the tail of its level with its next part; told before the fill that brought it there.
    #[inline]
    fn refreshed(&mut self, _: &mut E) {}

    /// A maker is off the book because [`SweepSink::meet`] said so; it is shown as it stood.
    #[inline]
    fn cancelled(&mut self, _: &RestingOrder, _: E) {}

    /// The level at `price` is down to `lots`; told once per level, after its fills.
    fn level(&mut self, price: Ticks, lots: u64);
}

impl<E: Copy + Default> Book<E> {
    /// HOT. Fills up to `open` lots of an incoming order on `side` from the other side's best level on, oldest order
    /// first, no further than `limit`. Returns what could not be filled. Bounded by the orders it fills and cancels
    /// and, for icebergs, by the displayed parts it takes.
    #[inline]
    pub fn sweep(&mut self, side: Side, limit: Option<Ticks>, open: u32, sink: &mut impl SweepSink<E>) -> u32 {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        // Most orders meet nobody: what follows a meeting stays out of their way.
        if self.ladder(other).reaches(last_key) { self.trade(other, last_key, open, sink) } else { open }
    }

    /// HOT. Whether an incoming order on `side` would meet anybody: for who keeps the sweep out of a plain order's way.
    #[inline(always)]
    pub fn meets(&self, side: Side, limit: Option<Ticks>) -> bool {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        self.ladder(other).reaches(last_key)
    }

    #[inline(never)]
    fn trade(&mut self, other: Side, last_key: u32, mut open: u32, sink: &mut impl SweepSink<E>) -> u32 {
        let ladder = &mut self.ladders[other as usize & 1];
        while open > 0 {
            let Some(key) = ladder.best().filter(|key| *key <= last_key) else { break };
            let price = price_of(other, key);
            let level = ladder.existing_mut(key);
            let mut queue = LevelQueue { level, slab: &mut self.slab, cold: &mut self.cold, price, changed: false };
            let (left, stopped) = queue.fill(open, sink);
            let (changed, lots) = (queue.changed, queue.level.lots);
            open = left;
            if lots == 0 {
                ladder.retire(key);
            }
            if changed {
                sink.level(price, lots);
            }
            if stopped {
                break;
            }
        }
        open
    }
}

/// The orders of one level, during a sweep.
struct LevelQueue<'a, E> {
    level: &'a mut PriceLevel,
    slab: &'a mut Slab,
    cold: &'a mut OrderDetails<E>,
    price: Ticks,
    changed: bool,
}

impl<E: Copy + Default> LevelQueue<'_, E> {
    /// HOT. Fills from the front. Returns what is left, and whether the sink ended the sweep. Leaves `level.lots` at
    /// zero when the queue is used up.
    #[inline]
    fn fill(&mut self, mut open: u32, sink: &mut impl SweepSink<E>) -> (u32, bool) {
        while open > 0 && self.level.head != NIL {
            let at = self.level.head;
            let node = self.slab.get(at);
            let (id, owner) = (node.id, node.owner);
            let meeting = sink.meet(&Maker { id, owner, price: self.price, open: node.open, cold: self.cold, at });
            if meeting == MakerAction::Stop {
                return (open, true);
            }
            self.changed = true;
            if meeting != MakerAction::Trade {
                let (order, origin) = (self.cancel(at), self.cold.origin(at));
                sink.cancelled(&order, origin);
                if meeting == MakerAction::CancelBoth {
                    return (open, true);
                }
                continue;
            }
            let lots = open.min(node.open);
            open -= lots;
            let (maker_open, refreshed) =
                if owner.is_iceberg() { self.take_iceberg(at, lots) } else { (self.take(at, lots), 0) };
            if refreshed > 0
                && let Some(origin) = self.cold.origin_mut(at)
            {
                sink.refreshed(origin);
            }
            sink.fill(id, owner, self.price, lots, maker_open, refreshed);
        }
        (open, false)
    }

    /// HOT. Takes lots of the order at the front; an order that is used up is gone. Returns what it still displays.
    #[inline]
    fn take(&mut self, at: u32, lots: u32) -> u32 {
        let node = self.slab.get_mut(at);
        node.open -= lots;
        self.level.lots -= u64::from(lots);
        let (open, next) = (node.open, node.next);
        if open == 0 {
            self.slab.release(at);
            self.level.head = next;
            self.level.tail = select_unpredictable(next == NIL, NIL, self.level.tail);
            self.slab.get_mut(next).previous = NIL;
        }
        open
    }

    /// The same for an iceberg: once its displayed part is used up, the next part goes to the tail of the queue.
    /// Returns what it still has, hidden lots included, and what it shows anew.
    #[inline(never)]
    fn take_iceberg(&mut self, at: u32, lots: u32) -> (u32, u32) {
        let IcebergReserve { hidden, display } = self.cold.reserve_of(at);
        let node = *self.slab.get(at);
        if lots < node.open || hidden == 0 {
            return (self.take(at, lots) + hidden, 0);
        }
        let shown = display.min(hidden);
        self.cold.reserve_mut(at).hidden = hidden - shown;
        self.level.lots = self.level.lots - u64::from(lots) + u64::from(shown);
        self.slab.get_mut(at).open = shown;
        self.slab.unlink(self.level, &node);
        self.slab.append(self.level, at);
        (hidden, shown)
    }

    /// Takes the order at the front off the book without a trade.
    #[inline(never)]
    fn cancel(&mut self, at: u32) -> RestingOrder {
        let node = *self.slab.get(at);
        let IcebergReserve { hidden, display } =
            if node.owner.is_iceberg() { self.cold.reserve_of(at) } else { IcebergReserve::default() };
        self.level.lots -= u64::from(node.open);
        self.slab.unlink(self.level, &node);
        self.slab.release(at);
        let price = self.price;
        RestingOrder { id: node.id, price, open: node.open, ordered: node.ordered, owner: node.owner, hidden, display }
    }
}
