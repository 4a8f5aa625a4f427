//! Asking memory for what commands to come will touch, while earlier ones are at work.
//!
//! A command waits for memory three times, each time for what the time before has named: for its place in the index,
//! for the order there, for the neighbours and the level of that order. Whoever holds several commands, such as a group
//! of the journal, can have each fetched in time.
//!
//! Does        have lines fetched some commands ahead of their use, in steps, each once the step before has arrived.
//! Holds       nothing is changed, nothing observable depends on it: a wrong guess costs a line of cache.
//! Costs       some 75 instructions a command, no branch on what the command is: entries and cancels come in no order
//!             that could be guessed.
//! Start at    [`Ahead::look`].

use pitwire_model::{Command, InstrumentId, OrderId, Side, Ticks};

use crate::book::{Book, Slot};
use crate::index::OrderIndex;

/// How many commands before its turn a command's place in the index is asked for. Nobody needs to hold more than these.
pub const WINDOW: usize = 12;
/// How many before its turn, with many books, the book is.
const MIDDLE: usize = 8;
/// How many before its turn the order is, or the level where it is going to rest.
const NEAR: usize = 5;
/// How many before its turn the neighbours are.
const NEXT: usize = 2;

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
pub struct Coming {
    pub order: OrderId,
    /// Of an entry; whatever elsewhere.
    pub instrument: InstrumentId,
    pub side: Side,
    pub price: Ticks,
}

impl Coming {
    /// `None` for commands that are rare.
    #[inline]
    pub fn of(command: &Command) -> Option<Coming> {
        match command {
            Command::Enter(order) => Some(Coming {
                order: order.id,
                instrument: order.instrument,
                side: order.side,
                price: order.order_type.limit_price().unwrap_or(Ticks::ZERO),
            }),
            Command::Cancel { order, .. } => Some(Coming { order: *order, ..Coming::NOTHING }),
            Command::Amend(amend) => Some(Coming { order: amend.order, ..Coming::NOTHING }),
            _ => None,
        }
    }

    const NOTHING: Coming =
        Coming { order: OrderId(0), instrument: InstrumentId(0), side: Side::Buy, price: Ticks::ZERO };
}

/// What has been found of commands to come.
#[derive(Debug, Default)]
pub struct Ahead {
    found: [(InstrumentId, Slot); PLACES],
    turn: usize,
}

/// A power of two, above `WINDOW`.
const PLACES: usize = 16;

impl Ahead {
    /// HOT. Before a command is applied: asks for what those behind it will touch. `coming(n)` is the command `n` places
    /// behind the one whose turn it is, if there is one and it is known. With `many` books, those are asked for as well.
    #[inline(always)]
    pub fn look<'a, E: Copy + Default + 'a>(
        &mut self,
        orders: &OrderIndex,
        book: impl Fn(InstrumentId) -> Option<&'a Book<E>>,
        many: bool,
        coming: impl Fn(usize) -> Option<Coming>,
    ) {
        let turn = self.turn;
        self.turn = (turn + 1) % PLACES;
        if let Some(far) = coming(WINDOW) {
            orders.expect(far.order);
            if many && let Some(book) = book(far.instrument) {
                book.expect();
            }
        }
        if many && let Some(middle) = coming(MIDDLE) {
            let (at, _) = orders.guess(middle.order);
            if let Some(book) = book(at) {
                book.expect();
            }
        }
        if let Some(near) = coming(NEAR) {
            let place = orders.guess(near.order);
            self.found[(turn + NEAR) % PLACES] = place;
            if let Some(book) = book(place.0) {
                book.expect_order(place.1);
            }
            if many && let Some(book) = book(near.instrument) {
                book.expect_entry(near.side, near.price);
            }
        }
        let (at, slot) = self.found[(turn + NEXT) % PLACES];
        if let Some(book) = book(at) {
            book.expect_neighbours(slot, many);
        }
    }
}
