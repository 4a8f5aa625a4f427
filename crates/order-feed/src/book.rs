//! Rebuilds the books of all instruments from messages.
//!
//! Holds       1. an order stands behind the orders that came to its price before;
//!             2. a message that does not fit the book changes nothing and is an error;
//!             3. a hostile feed cannot exceed [`BookBuilder::MAX_ORDERS`].
//! Costs       a hash lookup by id for each message, and one by price for a new order. A new or an
//!             empty level costs a tree lookup among the levels of its side.
//! Start at    [`BookBuilder::apply`].

use std::collections::BTreeMap;
use std::fmt;

use pitwire_model::Side;

use crate::fields::{Letter, MitchField, MitchPrice};
use crate::messages::{MitchMessage, OrderAdd, OrderModify, SymbolDirectory, SymbolStatus};
use crate::slot_pool::{PoolValue, Slot, SlotPool};
use crate::trading_status::side_letter;

/// Why a message does not fit the book: an earlier message was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookError {
    UnknownOrder {
        order_id: u64,
    },
    DuplicateOrder {
        order_id: u64,
    },
    /// An execution that is larger than the displayed quantity.
    ExcessQuantity {
        order_id: u64,
        displayed: u32,
        executed: u32,
    },
    /// A side that is neither `B` nor `S`.
    Side {
        order_id: u64,
        letter: u8,
    },
    /// More orders than [`BookBuilder::MAX_ORDERS`].
    TooManyOrders,
    /// More instruments than [`BookBuilder::MAX_INSTRUMENTS`].
    TooManyInstruments {
        instrument_id: u32,
    },
}

impl fmt::Display for BookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BookError::UnknownOrder { order_id } => write!(f, "order {order_id} is not in the book"),
            BookError::DuplicateOrder { order_id } => write!(f, "order {order_id} is in the book already"),
            BookError::ExcessQuantity { order_id, displayed, executed } => {
                write!(f, "order {order_id} displays {displayed} and executes {executed}")
            }
            BookError::Side { order_id, letter } => {
                write!(f, "order {order_id} has side {:?}: expected B or S", char::from(*letter))
            }
            BookError::TooManyOrders => write!(f, "more than {} displayed orders", BookBuilder::MAX_ORDERS),
            BookError::TooManyInstruments { instrument_id } => {
                let most = BookBuilder::MAX_INSTRUMENTS;
                write!(f, "instrument {instrument_id} is one more than the {most} that a reader has room for")
            }
        }
    }
}

impl std::error::Error for BookError {}

/// A displayed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuiltOrder {
    pub id: u64,
    pub side: Side,
    pub price: MitchPrice,
    pub quantity: u32,
}

#[derive(Clone, Copy, Debug)]
struct StoredOrder {
    id: u64,
    /// Position in the order of arrivals.
    place: u64,
    quantity: u32,
    level: Slot,
    previous: Option<Slot>,
    next: Option<Slot>,
}

impl PoolValue for StoredOrder {
    type Key = u64;
    fn key(&self) -> u64 {
        self.id
    }
}

/// Where a level stands: its instrument, side and price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LevelPlace {
    instrument: u32,
    side: Side,
    price: i64,
}

impl LevelPlace {
    /// Returns a number that is lower for better prices.
    fn rank(self) -> i64 {
        if self.side == Side::Buy { !self.price } else { self.price }
    }
}

/// The orders of one price, linked by place. A level has at least one order.
#[derive(Clone, Copy, Debug)]
struct PriceLevel {
    place: LevelPlace,
    first: Slot,
    last: Slot,
}

impl PoolValue for PriceLevel {
    type Key = LevelPlace;
    fn key(&self) -> LevelPlace {
        self.place
    }
}

/// The state of one instrument.
#[derive(Clone, Debug, Default)]
pub struct InstrumentState {
    pub directory: Option<SymbolDirectory>,
    pub status: Option<SymbolStatus>,
    /// Levels of bids and offers, by rank.
    sides: [BTreeMap<i64, Slot>; 2],
}

/// The books of all instruments.
#[derive(Debug, Default)]
pub struct BookBuilder {
    orders: SlotPool<StoredOrder>,
    levels: SlotPool<PriceLevel>,
    instruments: BTreeMap<u32, InstrumentState>,
    arrivals: u64,
}

impl BookBuilder {
    /// Most displayed orders: about 2 GB of memory if each has its own price.
    pub const MAX_ORDERS: usize = 10_000_000;
    pub const MAX_INSTRUMENTS: usize = 65_536;

    /// HOT. Takes one message.
    ///
    /// # Errors
    ///
    /// Fails if the message does not fit the book.
    pub fn apply(&mut self, message: &MitchMessage) -> Result<(), BookError> {
        match message {
            MitchMessage::OrderAdd(add) => self.add(add),
            MitchMessage::OrderDelete(delete) => {
                let order_id = delete.order_id;
                let slot = self.slot_of(order_id)?;
                self.unlink(slot);
                self.orders.remove(slot);
                Ok(())
            }
            MitchMessage::OrderModify(modify) => self.modify(modify),
            MitchMessage::OrderExecution(execution) => self.execute(execution.order_id, execution.executed_quantity),
            MitchMessage::PricedExecution(execution) => {
                self.set_quantity(execution.order_id, execution.display_quantity)
            }
            MitchMessage::BookClear(clear) => {
                self.clear(clear.instrument_id);
                Ok(())
            }
            MitchMessage::SymbolDirectory(directory) => {
                self.state_mut(directory.instrument_id)?.directory = Some(*directory);
                Ok(())
            }
            MitchMessage::SymbolStatus(status) => {
                if status.book_type == 1 {
                    self.state_mut(status.instrument_id)?.status = Some(*status);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Instruments by id.
    pub fn instruments(&self) -> impl Iterator<Item = (u32, &InstrumentState)> {
        self.instruments.iter().map(|(id, state)| (*id, state))
    }

    pub fn instrument(&self, id: u32) -> Option<&InstrumentState> {
        self.instruments.get(&id)
    }

    /// Orders of one side, in the order in which they trade.
    pub fn orders(&self, instrument: u32, side: Side) -> impl Iterator<Item = RebuiltOrder> {
        let levels = self.instruments.get(&instrument).map(|state| state.sides[side as usize & 1].values());
        levels.into_iter().flatten().flat_map(|level| self.queue(*level)).map(|slot| self.rebuilt(slot))
    }

    /// Returns an order with its instrument.
    pub fn order(&self, id: u64) -> Option<(u32, RebuiltOrder)> {
        let slot = self.orders.find(id)?;
        Some((self.levels[self.orders[slot].level].place.instrument, self.rebuilt(slot)))
    }

    /// Returns the number of displayed orders of all instruments.
    pub fn order_count(&self) -> usize {
        self.orders.len()
    }

    /// Returns a CRC-32C of the orders of an instrument: side, id, price and quantity of each, bids
    /// first. Two readers with the same book have the same checksum.
    pub fn checksum(&self, instrument: u32) -> u32 {
        let mut bytes = Vec::new();
        for side in Side::BOTH {
            for order in self.orders(instrument, side) {
                side_letter(side).write(&mut bytes);
                order.id.write(&mut bytes);
                order.price.write(&mut bytes);
                order.quantity.write(&mut bytes);
            }
        }
        crc32c::crc32c(&bytes)
    }

    /// Orders of a level, first in time first.
    fn queue(&self, level: Slot) -> impl Iterator<Item = Slot> {
        std::iter::successors(Some(self.levels[level].first), |slot| self.orders[*slot].next)
    }

    fn slot_of(&self, order_id: u64) -> Result<Slot, BookError> {
        self.orders.find(order_id).ok_or(BookError::UnknownOrder { order_id })
    }

    fn rebuilt(&self, slot: Slot) -> RebuiltOrder {
        let StoredOrder { id, quantity, level, .. } = self.orders[slot];
        let LevelPlace { side, price, .. } = self.levels[level].place;
        RebuiltOrder { id, side, price: MitchPrice(price), quantity }
    }

    fn state_mut(&mut self, instrument_id: u32) -> Result<&mut InstrumentState, BookError> {
        if self.instruments.len() >= Self::MAX_INSTRUMENTS && !self.instruments.contains_key(&instrument_id) {
            return Err(BookError::TooManyInstruments { instrument_id });
        }
        Ok(self.instruments.entry(instrument_id).or_default())
    }

    pub(crate) fn add(&mut self, add: &OrderAdd) -> Result<(), BookError> {
        let order_id = add.order_id;
        let side = match add.side {
            Letter(b'B') => Side::Buy,
            Letter(b'S') => Side::Sell,
            Letter(letter) => return Err(BookError::Side { order_id, letter }),
        };
        if self.orders.len() >= Self::MAX_ORDERS {
            return Err(BookError::TooManyOrders);
        }
        let place = LevelPlace { instrument: add.instrument_id, side, price: add.price.0 };
        let level = self.levels.find(place);
        // A level exists only for a known instrument.
        if level.is_none() {
            if self.orders.find(order_id).is_some() {
                return Err(BookError::DuplicateOrder { order_id });
            }
            self.state_mut(add.instrument_id)?;
        }
        let order = StoredOrder {
            id: order_id,
            place: self.arrivals + 1,
            quantity: add.quantity,
            level: level.unwrap_or(Slot::FIRST),
            previous: None,
            next: None,
        };
        let slot = self.orders.insert(order).ok_or(BookError::DuplicateOrder { order_id })?;
        self.arrivals += 1;
        self.link(slot, place, level);
        Ok(())
    }

    /// Puts an order into the level of `place`, behind all orders with an earlier place in time.
    /// `level` is that level, if it exists.
    fn link(&mut self, slot: Slot, place: LevelPlace, level: Option<Slot>) {
        let Some(level) = level else { return self.open_level(slot, place) };
        let own = self.orders[slot].place;
        let (mut previous, mut next) = (Some(self.levels[level].last), None);
        while let Some(before) = previous
            && self.orders[before].place > own
        {
            (previous, next) = (self.orders[before].previous, previous);
        }
        match previous {
            Some(before) => self.orders[before].next = Some(slot),
            None => self.levels[level].first = slot,
        }
        match next {
            Some(after) => self.orders[after].previous = Some(slot),
            None => self.levels[level].last = slot,
        }
        let order = &mut self.orders[slot];
        (order.level, order.previous, order.next) = (level, previous, next);
    }

    /// Makes a level with one order.
    fn open_level(&mut self, slot: Slot, place: LevelPlace) {
        // The caller has found no level of this place.
        let Some(level) = self.levels.insert(PriceLevel { place, first: slot, last: slot }) else { return };
        if let Some(state) = self.instruments.get_mut(&place.instrument) {
            state.sides[place.side as usize & 1].insert(place.rank(), level);
        }
        let order = &mut self.orders[slot];
        (order.level, order.previous, order.next) = (level, None, None);
    }

    /// Takes an order out of its level, and removes a level without orders. Returns its place.
    fn unlink(&mut self, slot: Slot) -> LevelPlace {
        let StoredOrder { level, previous, next, .. } = self.orders[slot];
        let place = self.levels[level].place;
        match (previous, next) {
            (None, None) => self.remove_level(level),
            (Some(before), None) => self.levels[level].last = before,
            (None, Some(after)) => self.levels[level].first = after,
            (Some(_), Some(_)) => {}
        }
        if let Some(before) = previous {
            self.orders[before].next = next;
        }
        if let Some(after) = next {
            self.orders[after].previous = previous;
        }
        place
    }

    fn remove_level(&mut self, level: Slot) {
        let PriceLevel { place, .. } = self.levels.remove(level);
        if let Some(state) = self.instruments.get_mut(&place.instrument) {
            state.sides[place.side as usize & 1].remove(&place.rank());
        }
    }

    fn modify(&mut self, modify: &OrderModify) -> Result<(), BookError> {
        let order_id = modify.order_id;
        let keeps_place = modify.flags & OrderModify::KEEPS_PLACE != 0;
        let slot = self.slot_of(order_id)?;
        self.orders[slot].quantity = modify.new_quantity;
        let place = self.levels[self.orders[slot].level].place;
        if keeps_place && modify.new_price.0 == place.price {
            return Ok(());
        }
        self.unlink(slot);
        // An order that keeps its place stands before later orders, also at a new price.
        if !keeps_place {
            self.arrivals += 1;
            self.orders[slot].place = self.arrivals;
        }
        let place = LevelPlace { price: modify.new_price.0, ..place };
        self.link(slot, place, self.levels.find(place));
        Ok(())
    }

    pub(crate) fn execute(&mut self, order_id: u64, executed: u32) -> Result<(), BookError> {
        let slot = self.slot_of(order_id)?;
        let displayed = self.orders[slot].quantity;
        let left = displayed.checked_sub(executed);
        self.reduce(slot, left.ok_or(BookError::ExcessQuantity { order_id, displayed, executed })?);
        Ok(())
    }

    fn set_quantity(&mut self, order_id: u64, quantity: u32) -> Result<(), BookError> {
        let slot = self.slot_of(order_id)?;
        self.reduce(slot, quantity);
        Ok(())
    }

    fn reduce(&mut self, slot: Slot, quantity: u32) {
        if quantity > 0 {
            self.orders[slot].quantity = quantity;
            return;
        }
        self.unlink(slot);
        self.orders.remove(slot);
    }

    fn clear(&mut self, instrument: u32) {
        let Some(state) = self.instruments.get_mut(&instrument) else { return };
        for level in state.sides.iter_mut().flat_map(|side| std::mem::take(side).into_values()) {
            let PriceLevel { first, .. } = self.levels.remove(level);
            let mut rest = Some(first);
            while let Some(slot) = rest {
                rest = self.orders.remove(slot).next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::OrderDelete;

    fn add(order_id: u64, price: i64) -> MitchMessage {
        let (side, price) = (Letter(b'B'), MitchPrice(price));
        OrderAdd { order_id, side, quantity: 9, instrument_id: 1, price, ..OrderAdd::default() }.into()
    }

    fn modify(order_id: u64, price: i64, flags: u8) -> MitchMessage {
        OrderModify { order_id, new_quantity: 5, new_price: MitchPrice(price), flags, ..OrderModify::default() }.into()
    }

    #[test]
    fn bit_0_keeps_the_place_at_another_price_too() {
        for (flags, expected) in [(OrderModify::KEEPS_PLACE, [1, 2, 3]), (0, [2, 3, 1])] {
            let mut book = BookBuilder::default();
            for message in [add(1, 10), add(2, 20), add(3, 20), modify(1, 20, flags)] {
                book.apply(&message).unwrap();
            }
            let ids: Vec<u64> = book.orders(1, Side::Buy).map(|order| order.id).collect();
            assert_eq!(ids, expected, "flags {flags}");
        }
    }

    #[test]
    fn an_order_that_moves_to_a_new_price_leaves_its_old_queue() {
        let mut book = BookBuilder::default();
        for message in [add(1, 10), add(2, 10), add(3, 10), modify(2, 20, 0), modify(3, 30, OrderModify::KEEPS_PLACE)] {
            book.apply(&message).unwrap();
        }
        let ids = |book: &BookBuilder| book.orders(1, Side::Buy).map(|order| order.id).collect::<Vec<u64>>();
        assert_eq!(ids(&book), [3, 2, 1]);
        for (gone, left) in [(1, vec![3, 2]), (3, vec![2]), (2, vec![])] {
            book.apply(&OrderDelete { nanosecond: 0, order_id: gone }.into()).unwrap();
            assert_eq!(ids(&book), left);
        }
        assert_eq!(book.order_count(), 0);
    }

    #[test]
    fn a_feed_of_endless_instruments_is_refused() {
        let mut book = BookBuilder::default();
        let status =
            |instrument_id| MitchMessage::from(SymbolStatus { instrument_id, book_type: 1, ..Default::default() });
        for id in 0..u32::try_from(BookBuilder::MAX_INSTRUMENTS).unwrap() {
            book.apply(&status(id)).unwrap();
        }
        let refused = Err(BookError::TooManyInstruments { instrument_id: u32::MAX });
        assert_eq!(book.apply(&status(u32::MAX)), refused);
        let order = OrderAdd { side: Letter(b'B'), instrument_id: u32::MAX, ..OrderAdd::default() };
        assert_eq!(book.apply(&order.into()), refused);
        assert_eq!(book.order_count(), 0);
        book.apply(&status(7)).unwrap();
    }
}
