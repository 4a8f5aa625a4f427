//! An incoming quantity trades with the resting orders of the other side.
//!
//! Does        fill from the best level on, oldest displayed order first; ask the sink about each
//!             maker before it trades.
//! Holds       1. a sink that accepts every maker costs nothing, because the compiler knows its
//!                answer;
//!             2. a changed level is reported once, after everything that happened on it.
//! Costs       constant per filled or cancelled order; for an iceberg, per displayed part that is
//!             filled.
//! Start at    [`Book::sweep`].

use std::hint::select_unpredictable;

use pitwire_model::{OrderId, Side, Ticks};

use super::details::{IcebergReserve, OrderDetails};
use super::level::{NIL, PriceLevel};
use super::resting::{Book, RestingOrder, key_of, price_of};
use super::slab::{Owner, Slab};

/// The action between an incoming order and the next maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakerAction {
    /// They trade.
    Trade,
    /// The maker is cancelled with all its lots, and the sweep goes on.
    CancelMaker,
    /// The maker is cancelled and the sweep ends.
    CancelBoth,
    /// The sweep ends and the maker stays.
    Stop,
}

/// The resting order that is next to trade.
#[derive(Debug)]
pub struct Maker<'a, E> {
    pub id: OrderId,
    pub owner: Owner,
    pub price: Ticks,
    /// Displayed open lots.
    pub open: u32,
    pub(super) details: &'a OrderDetails<E>,
    pub(super) at: u32,
}

impl<E: Copy + Default> Maker<'_, E> {
    /// Returns the origin of the order. It lies in other memory than the order, so compare the
    /// owner first.
    #[inline]
    pub fn origin(&self) -> E {
        self.details.origin(self.at)
    }
}

/// The decisions and reports of a sweep, in the order in which they happen.
pub trait SweepSink<E = ()> {
    /// Decides about a maker before it is filled. Called again for each displayed part of an
    /// iceberg.
    #[inline]
    fn maker_action(&mut self, _: &Maker<E>) -> MakerAction {
        MakerAction::Trade
    }

    /// Returns the most lots that a maker may trade now, at least one. Asked after
    /// [`SweepSink::maker_action`] has decided that it trades. A shared price does not ask.
    #[inline]
    fn most_lots(&mut self, _: &Maker<E>) -> u32 {
        u32::MAX
    }

    /// Decides, after all makers of a shared price, whether `lots` may be allocated among them.
    /// `false` ends the sweep.
    #[inline]
    fn allows_round(&mut self, _: u64) -> bool {
        true
    }

    /// Reports that `lots` of a resting order traded at its price. `maker_open` counts its
    /// remaining lots, displayed or not. `refreshed` is the next displayed part of an iceberg if
    /// the fill used up the last one, and zero otherwise.
    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32, refreshed: u32);

    /// Reports that an iceberg has moved to the tail of its level with its next part. Called before
    /// the report of the fill.
    #[inline]
    fn refreshed(&mut self, _: &mut E) {}

    /// Reports that a maker was cancelled as [`SweepSink::maker_action`] decided. The order is as
    /// it was before.
    #[inline]
    fn cancelled(&mut self, _: &RestingOrder, _: E) {}

    /// Reports the remaining `lots` of a level, once per level, after its fills.
    fn level(&mut self, price: Ticks, lots: u64);
}

impl<E: Copy + Default> Book<E> {
    /// HOT. Fills up to `open` lots of an incoming order on `side` from the best opposite level on,
    /// oldest order first, up to `limit`. Returns the lots that were not filled. Costs the orders
    /// that it fills and cancels and, for icebergs, the displayed parts.
    #[inline]
    pub fn sweep(&mut self, side: Side, limit: Option<Ticks>, open: u32, sink: &mut impl SweepSink<E>) -> u32 {
        let other = side.opposite();
        let last_key = limit.map_or(u32::MAX, |limit| key_of(other, limit));
        // Most orders trade nothing: the code that trades stays out of their path.
        if self.ladder(other).reaches(last_key) { self.trade(other, last_key, open, sink) } else { open }
    }

    /// HOT. Returns whether an incoming order on `side` would trade, so that a caller can skip the
    /// sweep.
    #[inline(always)]
    pub fn would_trade(&self, side: Side, limit: Option<Ticks>) -> bool {
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
            let mut queue =
                LevelQueue { level, slab: &mut self.slab, details: &mut self.details, price, changed: false };
            let (left, stopped) = queue.fill(open, sink);
            let (changed, lots) = (queue.changed, queue.level.lots);
            open = left;
            if lots == 0 {
                ladder.remove_level(key);
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

/// The orders of one level during a sweep.
struct LevelQueue<'a, E> {
    level: &'a mut PriceLevel,
    slab: &'a mut Slab,
    details: &'a mut OrderDetails<E>,
    price: Ticks,
    changed: bool,
}

impl<E: Copy + Default> LevelQueue<'_, E> {
    /// HOT. Fills from the front. Returns the lots that were not filled, and whether the sink ended
    /// the sweep. Leaves `level.lots` at zero if no order is left.
    #[inline]
    fn fill(&mut self, mut open: u32, sink: &mut impl SweepSink<E>) -> (u32, bool) {
        while open > 0 && self.level.head != NIL {
            let at = self.level.head;
            let node = self.slab.get(at);
            let (id, owner) = (node.id, node.owner);
            let maker = Maker { id, owner, price: self.price, open: node.open, details: self.details, at };
            let action = sink.maker_action(&maker);
            if action == MakerAction::Stop {
                return (open, true);
            }
            self.changed = true;
            if action != MakerAction::Trade {
                let (order, origin) = (self.remove(at), self.details.origin(at));
                sink.cancelled(&order, origin);
                if action == MakerAction::CancelBoth {
                    return (open, true);
                }
                continue;
            }
            let lots = open.min(maker.open).min(sink.most_lots(&maker));
            open -= lots;
            let (maker_open, refreshed) =
                if owner.is_iceberg() { self.take_iceberg(at, lots) } else { (self.take(at, lots), 0) };
            if refreshed > 0
                && let Some(origin) = self.details.origin_mut(at)
            {
                sink.refreshed(origin);
            }
            sink.fill(id, owner, self.price, lots, maker_open, refreshed);
        }
        (open, false)
    }

    /// HOT. Deducts lots from the first order and removes it if none are left. Returns its
    /// remaining displayed lots.
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

    /// Deducts lots from an iceberg. If its displayed part is used up, the next part joins the tail
    /// of the queue. Returns all its remaining lots, and the newly displayed part.
    #[inline(never)]
    fn take_iceberg(&mut self, at: u32, lots: u32) -> (u32, u32) {
        let IcebergReserve { hidden, display } = self.details.reserve_of(at);
        let node = *self.slab.get(at);
        if lots < node.open || hidden == 0 {
            return (self.take(at, lots) + hidden, 0);
        }
        let shown = display.min(hidden);
        self.details.reserve_mut(at).hidden = hidden - shown;
        self.level.lots = self.level.lots - u64::from(lots) + u64::from(shown);
        self.slab.get_mut(at).open = shown;
        self.slab.unlink(self.level, &node);
        self.slab.append(self.level, at);
        (hidden, shown)
    }

    /// Removes the order at `at`, which is the first, without a trade.
    #[inline(never)]
    fn remove(&mut self, at: u32) -> RestingOrder {
        let node = *self.slab.get(at);
        let IcebergReserve { hidden, display } =
            if node.owner.is_iceberg() { self.details.reserve_of(at) } else { IcebergReserve::default() };
        self.level.lots -= u64::from(node.open);
        self.slab.unlink(self.level, &node);
        self.slab.release(at);
        let price = self.price;
        RestingOrder { id: node.id, price, open: node.open, ordered: node.ordered, owner: node.owner, hidden, display }
    }
}
