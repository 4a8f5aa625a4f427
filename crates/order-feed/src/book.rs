//! Rebuilds the books of all instruments from messages.
//!
//! Holds       1. an order stands behind the orders that came to its price before;
//!             2. a message that does not fit the book changes nothing and is an error;
//!             3. a hostile feed cannot exceed [`BookBuilder::MAX_ORDERS`].
//! Costs       a hash and a tree lookup among the orders of one side, for each message.
//! Start at    [`BookBuilder::apply`].

use std::collections::BTreeMap;
use std::fmt;

use hashbrown::HashMap;
use pitwire_model::Side;

use crate::fields::{Letter, MitchField, MitchPrice};
use crate::messages::{MitchMessage, OrderAdd, OrderModify, SymbolDirectory, SymbolStatus};
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
    pub price: MitchPrice,
    pub quantity: u32,
}

#[derive(Clone, Copy, Debug)]
struct StoredOrder {
    instrument: u32,
    side: Side,
    price: MitchPrice,
    quantity: u32,
    /// Position in the order of arrivals.
    place: u64,
}

impl StoredOrder {
    /// Returns the position among the orders of the side: best price first, then arrival.
    fn key(&self) -> (i64, u64) {
        let price = self.price.0;
        (if self.side == Side::Buy { price.checked_neg().unwrap_or(i64::MAX) } else { price }, self.place)
    }
}

/// The state of one instrument.
#[derive(Clone, Debug, Default)]
pub struct InstrumentState {
    pub directory: Option<SymbolDirectory>,
    pub status: Option<SymbolStatus>,
    /// Order ids of bids and offers, by price and arrival.
    sides: [BTreeMap<(i64, u64), u64>; 2],
}

/// The books of all instruments.
#[derive(Debug, Default)]
pub struct BookBuilder {
    orders: HashMap<u64, StoredOrder>,
    instruments: BTreeMap<u32, InstrumentState>,
    arrivals: u64,
}

impl BookBuilder {
    /// Most displayed orders: about 1 GB of memory.
    pub const MAX_ORDERS: usize = 10_000_000;
    pub const MAX_INSTRUMENTS: usize = 65_536;

    /// Takes one message.
    ///
    /// # Errors
    ///
    /// Fails if the message does not fit the book.
    pub fn apply(&mut self, message: &MitchMessage) -> Result<(), BookError> {
        match message {
            MitchMessage::OrderAdd(add) => self.add(add),
            MitchMessage::OrderDelete(delete) => self.remove(delete.order_id).map(|_| ()),
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
        let ids = self.instruments.get(&instrument).map(|state| state.sides[side as usize & 1].values());
        ids.into_iter().flatten().filter_map(|id| {
            let order = self.orders.get(id)?;
            Some(RebuiltOrder { id: *id, price: order.price, quantity: order.quantity })
        })
    }

    /// Returns an order with its instrument.
    pub fn order(&self, id: u64) -> Option<(u32, RebuiltOrder)> {
        let order = self.orders.get(&id)?;
        Some((order.instrument, RebuiltOrder { id, price: order.price, quantity: order.quantity }))
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

    fn state_mut(&mut self, instrument_id: u32) -> Result<&mut InstrumentState, BookError> {
        if self.instruments.len() >= Self::MAX_INSTRUMENTS && !self.instruments.contains_key(&instrument_id) {
            return Err(BookError::TooManyInstruments { instrument_id });
        }
        Ok(self.instruments.entry(instrument_id).or_default())
    }

    fn add(&mut self, add: &OrderAdd) -> Result<(), BookError> {
        let order_id = add.order_id;
        let side = match add.side {
            Letter(b'B') => Side::Buy,
            Letter(b'S') => Side::Sell,
            Letter(letter) => return Err(BookError::Side { order_id, letter }),
        };
        if self.orders.len() >= Self::MAX_ORDERS {
            return Err(BookError::TooManyOrders);
        }
        let place = self.arrivals + 1;
        let order =
            StoredOrder { instrument: add.instrument_id, side, price: add.price, quantity: add.quantity, place };
        if self.orders.contains_key(&order_id) {
            return Err(BookError::DuplicateOrder { order_id });
        }
        self.state_mut(add.instrument_id)?;
        self.arrivals = place;
        self.insert(order_id, order);
        Ok(())
    }

    fn insert(&mut self, id: u64, order: StoredOrder) {
        if let Some(side) = self.side_mut(&order) {
            side.insert(order.key(), id);
        }
        self.orders.insert(id, order);
    }

    fn side_mut(&mut self, order: &StoredOrder) -> Option<&mut BTreeMap<(i64, u64), u64>> {
        self.instruments.get_mut(&order.instrument).map(|state| &mut state.sides[order.side as usize & 1])
    }

    fn remove(&mut self, order_id: u64) -> Result<StoredOrder, BookError> {
        let order = self.orders.remove(&order_id).ok_or(BookError::UnknownOrder { order_id })?;
        if let Some(side) = self.side_mut(&order) {
            side.remove(&order.key());
        }
        Ok(order)
    }

    fn modify(&mut self, modify: &OrderModify) -> Result<(), BookError> {
        let order_id = modify.order_id;
        let keeps_place = modify.flags & OrderModify::KEEPS_PLACE != 0;
        let order = self.orders.get_mut(&order_id).ok_or(BookError::UnknownOrder { order_id })?;
        if keeps_place && modify.new_price == order.price {
            order.quantity = modify.new_quantity;
            return Ok(());
        }
        let old = self.remove(order_id)?;
        // An order that keeps its place stands before later orders, also at a new price.
        let place = if keeps_place { old.place } else { self.arrivals + 1 };
        self.arrivals = self.arrivals.max(place);
        self.insert(order_id, StoredOrder { price: modify.new_price, quantity: modify.new_quantity, place, ..old });
        Ok(())
    }

    fn execute(&mut self, order_id: u64, executed: u32) -> Result<(), BookError> {
        let order = self.orders.get(&order_id).ok_or(BookError::UnknownOrder { order_id })?;
        let displayed = order.quantity;
        let left = displayed.checked_sub(executed);
        self.set_quantity(order_id, left.ok_or(BookError::ExcessQuantity { order_id, displayed, executed })?)
    }

    fn set_quantity(&mut self, order_id: u64, quantity: u32) -> Result<(), BookError> {
        if quantity == 0 {
            return self.remove(order_id).map(|_| ());
        }
        let order = self.orders.get_mut(&order_id).ok_or(BookError::UnknownOrder { order_id })?;
        order.quantity = quantity;
        Ok(())
    }

    fn clear(&mut self, instrument: u32) {
        let Some(state) = self.instruments.get_mut(&instrument) else { return };
        for side in &mut state.sides {
            for id in std::mem::take(side).into_values() {
                self.orders.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
