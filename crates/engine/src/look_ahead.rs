//! Asking memory for what commands to come will touch, while earlier ones are at work.
//!
//! A command waits for memory three times, each time for what the time before has named: for its place in the index,
//! for the order there, for the neighbours and the level of that order. Whoever holds several commands, such as a group
//! of the journal, can have each fetched in time.
//!
//! Does        have lines fetched some commands ahead of their use, in steps, each once the step before has arrived.
//! Holds       nothing is changed, nothing observable depends on it: a wrong guess costs a line of cache.
//! Costs       some 20 instructions a command while orders lie close together, some 75 where they do not, more with many
//!             books. No branch on what the command is: entries and cancels come in no order that could be guessed.
//! Start at    [`Ahead::look`].

use pitwire_model::{Command, InstrumentId, OrderId, Side, Ticks};

use crate::book::{Book, Slot};
use crate::index::OrderIndex;

/// How many commands before its turn a command's place in the index is asked for. Nobody needs to hold more than these.
pub const WINDOW: usize = 20;
/// How many before its turn, with many books, the book is, and the line behind its place in the index.
const MIDDLE: usize = 13;
/// How many before its turn the order is, or the level where it is going to rest.
const NEAR: usize = 7;
/// How many before its turn the neighbours are.
const NEXT: usize = 3;

/// Has the line that holds `place` fetched. An address is all this needs: it may point anywhere.
#[inline(always)]
pub(crate) fn ask<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint to the processor, which neither reads for the program nor faults, whatever the address; SSE is part
    // of every x86-64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(place.cast())
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// What of a command to come tells where it is going to touch memory.
#[derive(Clone, Copy, Debug)]
pub struct UpcomingCommand {
    pub order: OrderId,
    /// Of an entry; whatever elsewhere.
    pub instrument: InstrumentId,
    pub side: Side,
    pub price: Ticks,
}

impl UpcomingCommand {
    /// `None` for commands that are rare.
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

/// What has been found of commands to come.
#[derive(Debug, Default)]
pub struct LookAhead {
    found: [(InstrumentId, Slot); PLACES],
    turn: usize,
    /// How many slots apart the orders lie that are looked for, on the average of the last dozens of samples.
    apart: u32,
    /// Where the last of them lay.
    last: u32,
}

/// A power of two, above `WINDOW`.
const PLACES: usize = 32;

/// With few books, whether it pays to look further than the index is asked once in so many commands.
const SAMPLE_EVERY: usize = 16;
/// So many slots apart, orders lie in no cache that is near: a megabyte.
const WIDE: u32 = 1 << 15;
/// A sample's share in the average: one in so many.
const SHARE: u32 = 16;

impl LookAhead {
    /// How far apart orders are that commands name: near each other, or all over the slab.
    #[inline(never)]
    fn sample(&mut self, orders: &OrderIndex, near: Option<UpcomingCommand>) {
        let Some((_, slot)) = near.map(|near| orders.guess(near.order)) else { return };
        if slot == Slot(0) || slot.is_kept() {
            return;
        }
        let apart = slot.0.abs_diff(std::mem::replace(&mut self.last, slot.0));
        self.apart = self.apart - self.apart / SHARE + apart / SHARE;
    }

    /// HOT. Before a command is applied: asks for what those behind it will touch. `coming(n)` is the command `n` places
    /// behind the one whose turn it is, if there is one and it is known. With `many` books, those are asked for as well.
    #[inline(always)]
    pub fn look<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        many: bool,
        coming: impl Fn(usize) -> Option<UpcomingCommand>,
    ) {
        self.turn = self.turn.wrapping_add(1);
        if many {
            return self.look_at_books(orders, book, coming);
        }
        if let Some(far) = coming(WINDOW) {
            orders.expect(far.order);
        }
        if self.turn.is_multiple_of(SAMPLE_EVERY) {
            self.sample(orders, coming(NEAR));
        }
        if self.apart >= WIDE {
            // The command itself, not how to get it: what a call refers to would be kept in memory for every command.
            self.look_at_orders(orders, book, coming(NEAR));
        }
    }

    /// Of commands whose books nobody needs to ask for.
    #[inline(never)]
    fn look_at_orders<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        near: Option<UpcomingCommand>,
    ) {
        if let Some(near) = near {
            let place = orders.guess(near.order);
            self.found[(self.turn + NEAR) % PLACES] = place;
            if let Some(book) = book(place.0) {
                book.expect_order(place.1);
            }
        }
        let (at, slot) = self.found[(self.turn + NEXT) % PLACES];
        if let Some(book) = book(at) {
            book.expect_neighbours(slot, false);
        }
    }

    /// HOT. Of commands to any of many books.
    #[inline(always)]
    fn look_at_books<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        coming: impl Fn(usize) -> Option<UpcomingCommand>,
    ) {
        if let Some(far) = coming(WINDOW) {
            orders.expect(far.order);
            if let Some(book) = book(far.instrument) {
                book.expect();
            }
        }
        if let Some(middle) = coming(MIDDLE) {
            orders.expect_beyond(middle.order);
            let (at, _) = orders.guess(middle.order);
            if let Some(book) = book(at) {
                book.expect();
            }
        }
        if let Some(near) = coming(NEAR) {
            let place = orders.guess(near.order);
            self.found[(self.turn + NEAR) % PLACES] = place;
            if let Some(book) = book(place.0) {
                book.expect_order(place.1);
            }
            if let Some(book) = book(near.instrument) {
                book.expect_entry(near.side, near.price);
            }
        }
        let (at, slot) = self.found[(self.turn + NEXT) % PLACES];
        if let Some(book) = book(at) {
            book.expect_neighbours(slot, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cancels of every `step`-th of so many orders, in an order that jumps about.
    fn apart_after(orders: u32, step: u32) -> u32 {
        let mut index = OrderIndex::with_capacity(orders as usize);
        for id in 1..=orders {
            index.insert(OrderId(u64::from(id)), InstrumentId(0), Slot(id));
        }
        let (mut ahead, book) = (LookAhead::default(), Book::<()>::new());
        let mut state = 11_u64;
        for _ in 0..16_384 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = 1 + (state >> 33) % u64::from(orders / step) * u64::from(step);
            let coming = UpcomingCommand { order: OrderId(id), ..UpcomingCommand::NOTHING };
            ahead.look(&index, |_| Some(&book), false, |_| Some(coming));
        }
        ahead.apart
    }

    #[test]
    fn orders_all_over_the_slab_are_told_from_orders_close_together() {
        // Drawn evenly, two are a third of the whole apart: of 1,000,000 some 333,000, of 6,000 some 2,000.
        assert!((220_000..450_000).contains(&apart_after(1_000_000, 1)));
        assert!((220_000..450_000).contains(&apart_after(1_000_000, 7)));
        assert!((1_300..2_700).contains(&apart_after(6_000, 1)));
        assert!(apart_after(6_000, 1) < WIDE && WIDE < apart_after(1_000_000, 1));
    }
}
