//! Prefetches the memory that upcoming commands will touch, while earlier commands are applied.
//!
//! A command waits for memory three times: for its bucket in the index, then for the order, then
//! for the neighbours and the level of that order. A caller that already has the next commands, for
//! example from a journal group, can have the memory of each prefetched in time.
//!
//! Does        prefetches cache lines a few commands before their use, in steps; each step reads
//!             the lines that the step before prefetched.
//! Holds       prefetching changes no state and no result; a wrong guess costs one cache line.
//! Costs       about 20 instructions per command while orders lie close together in memory, about
//!             75 otherwise, and more with many books. The code does not branch on the kind of
//!             command, because the processor could not predict the branch.
//! Start at    [`LookAhead::prefetch`].

use pitwire_model::{Command, InstrumentId, OrderId, Side, Ticks};

use crate::book::{Book, Slot};
use crate::index::OrderIndex;

/// Distance in commands at which the index bucket is prefetched. A caller never needs to hold more
/// commands than this.
pub const WINDOW: usize = 20;
/// Distance in commands at which the book and the next index bucket are prefetched, if there are
/// many books.
const BOOK_DISTANCE: usize = 13;
/// Distance in commands at which the order, or the level where it will rest, is prefetched.
const ORDER_DISTANCE: usize = 7;
/// Distance in commands at which the neighbours of the order are prefetched.
const NEIGHBOUR_DISTANCE: usize = 3;

/// The fields of an upcoming command that tell which memory it will touch.
#[derive(Clone, Copy, Debug)]
pub struct UpcomingCommand {
    pub order: OrderId,
    /// The instrument of a new order; any value for other commands.
    pub instrument: InstrumentId,
    pub side: Side,
    pub price: Ticks,
}

impl UpcomingCommand {
    /// Returns `None` for rare commands.
    #[inline]
    pub fn of(command: &Command) -> Option<UpcomingCommand> {
        match command {
            Command::Enter(order) => Some(UpcomingCommand {
                order: order.id,
                instrument: order.instrument,
                side: order.side,
                price: order.order_type.limit_price().unwrap_or(Ticks::ZERO),
            }),
            Command::Cancel { order, .. } => Some(UpcomingCommand { order: *order, ..UpcomingCommand::NOTHING }),
            Command::Amend(amend) => Some(UpcomingCommand { order: amend.order, ..UpcomingCommand::NOTHING }),
            _ => None,
        }
    }

    const NOTHING: UpcomingCommand =
        UpcomingCommand { order: OrderId(0), instrument: InstrumentId(0), side: Side::Buy, price: Ticks::ZERO };
}

/// State of the prefetching: the slots found for upcoming commands, and how far apart orders lie in
/// memory.
#[derive(Debug, Default)]
pub struct LookAhead {
    found: [(InstrumentId, Slot); RING_SIZE],
    turn: usize,
    /// Mean distance between the slots of consecutive samples.
    mean_distance: u32,
    /// Slot of the last sample.
    last_slot: u32,
}

/// Size of the ring of found slots: a power of two above `WINDOW`.
const RING_SIZE: usize = 32;

/// Commands between two samples of the distance.
const SAMPLE_INTERVAL: usize = 16;
/// Mean distance in slots from which orders count as outside the near caches. This many orders
/// occupy one megabyte.
const SCATTERED: u32 = 1 << 15;
/// Divisor of a new sample in the mean: its weight is one over this.
const SAMPLE_WEIGHT: u32 = 16;

impl LookAhead {
    /// Updates the mean distance with the order of an upcoming command.
    #[inline(never)]
    fn sample(&mut self, orders: &OrderIndex, near: Option<UpcomingCommand>) {
        let Some((_, slot)) = near.map(|near| orders.guess(near.order)) else { return };
        if slot == Slot(0) || slot.is_undisplayed() {
            return;
        }
        let distance = slot.0.abs_diff(std::mem::replace(&mut self.last_slot, slot.0));
        self.mean_distance = self.mean_distance - self.mean_distance / SAMPLE_WEIGHT + distance / SAMPLE_WEIGHT;
    }

    /// HOT. Prefetches what upcoming commands will touch. Called before each command. `upcoming(n)`
    /// returns the command `n` places after the current one, if it is known. If there are `many`
    /// books, prefetches them as well.
    #[inline(always)]
    pub fn prefetch<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        many: bool,
        upcoming: impl Fn(usize) -> Option<UpcomingCommand>,
    ) {
        self.turn = self.turn.wrapping_add(1);
        if many {
            return self.prefetch_with_books(orders, book, upcoming);
        }
        if let Some(far) = upcoming(WINDOW) {
            orders.prefetch(far.order);
        }
        if self.turn.is_multiple_of(SAMPLE_INTERVAL) {
            self.sample(orders, upcoming(ORDER_DISTANCE));
        }
        if self.mean_distance >= SCATTERED {
            // Passes the command instead of the closure: a closure would be spilled to memory for
            // every command.
            self.prefetch_orders(orders, book, upcoming(ORDER_DISTANCE));
        }
    }

    /// Prefetches orders and their neighbours.
    #[inline(never)]
    fn prefetch_orders<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        near: Option<UpcomingCommand>,
    ) {
        if let Some(near) = near {
            let place = orders.guess(near.order);
            self.found[(self.turn + ORDER_DISTANCE) % RING_SIZE] = place;
            if let Some(book) = book(place.0) {
                book.prefetch_order(place.1);
            }
        }
        let (at, slot) = self.found[(self.turn + NEIGHBOUR_DISTANCE) % RING_SIZE];
        if let Some(book) = book(at) {
            book.prefetch_neighbours(slot, false);
        }
    }

    /// HOT. Prefetches books, orders and their neighbours.
    #[inline(always)]
    fn prefetch_with_books<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        upcoming: impl Fn(usize) -> Option<UpcomingCommand>,
    ) {
        if let Some(far) = upcoming(WINDOW) {
            orders.prefetch(far.order);
            if let Some(book) = book(far.instrument) {
                book.prefetch();
            }
        }
        if let Some(middle) = upcoming(BOOK_DISTANCE) {
            orders.prefetch_next_bucket(middle.order);
            let (at, _) = orders.guess(middle.order);
            if let Some(book) = book(at) {
                book.prefetch();
            }
        }
        if let Some(near) = upcoming(ORDER_DISTANCE) {
            let place = orders.guess(near.order);
            self.found[(self.turn + ORDER_DISTANCE) % RING_SIZE] = place;
            if let Some(book) = book(place.0) {
                book.prefetch_order(place.1);
            }
            if let Some(book) = book(near.instrument) {
                book.prefetch_entry(near.side, near.price);
            }
        }
        let (at, slot) = self.found[(self.turn + NEIGHBOUR_DISTANCE) % RING_SIZE];
        if let Some(book) = book(at) {
            book.prefetch_neighbours(slot, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use super::*;

    /// Returns the mean distance after random cancels. They name only every `step`-th of the
    /// orders.
    fn mean_distance_after(orders: u32, step: u32) -> u32 {
        let mut index = OrderIndex::with_capacity(orders as usize);
        for id in 1..=orders {
            index.insert(OrderId(u64::from(id)), InstrumentId(0), Slot(id));
        }
        let (mut look_ahead, book) = (LookAhead::default(), Book::<()>::new());
        let mut random = SplitMix64::new(11);
        for _ in 0..16_384 {
            let id = 1 + random.below(u64::from(orders / step)) * u64::from(step);
            let upcoming = UpcomingCommand { order: OrderId(id), ..UpcomingCommand::NOTHING };
            look_ahead.prefetch(&index, |_| Some(&book), false, |_| Some(upcoming));
        }
        look_ahead.mean_distance
    }

    #[test]
    fn scattered_orders_are_distinguished_from_close_ones() {
        // Two uniformly random slots are on average a third of the range apart: about 333,000 of
        // 1,000,000, and 2,000 of 6,000.
        assert!((220_000..450_000).contains(&mean_distance_after(1_000_000, 1)));
        assert!((220_000..450_000).contains(&mean_distance_after(1_000_000, 7)));
        assert!((1_300..2_700).contains(&mean_distance_after(6_000, 1)));
        assert!(mean_distance_after(6_000, 1) < SCATTERED && SCATTERED < mean_distance_after(1_000_000, 1));
    }
}
