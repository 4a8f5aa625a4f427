//! Rebuilds books from ITCH messages.
//!
//! Holds       a message that does not fit the book changes nothing and is an error.
//! Start at    [`BookBuilder::apply_itch`].

use crate::book::{BookBuilder, BookError};
use crate::fields::{Alpha, Letter};
use crate::itch::{BigEndian, ItchMessage, ItchPrice, OrderReplace};
use crate::messages::{OrderAdd, OrderDelete, SymbolDirectory};
use crate::trading_status::side_letter;

impl BookBuilder {
    /// Takes one message of ITCH. The id of an order is its reference, which changes when the order
    /// is replaced. An instrument has the first eight characters of its name, no contract
    /// multiplier and no status.
    ///
    /// # Errors
    ///
    /// Fails if the message does not fit the book.
    pub fn apply_itch(&mut self, message: &ItchMessage) -> Result<(), BookError> {
        match message {
            ItchMessage::StockDirectory(directory) => {
                let mut symbol = Alpha::<25>::default();
                symbol.0.iter_mut().zip(directory.stock.0).for_each(|(to, byte)| *to = byte);
                let instrument_id = directory.stock_locate.0.into();
                self.apply(&SymbolDirectory { instrument_id, symbol, ..SymbolDirectory::default() }.into())
            }
            ItchMessage::AddOrder(add) => {
                self.add_itch(add.order_reference, add.side, add.shares, add.stock_locate.0.into(), add.price)
            }
            ItchMessage::OrderExecuted(executed) => {
                self.execute(executed.order_reference.0, executed.executed_shares.0)
            }
            ItchMessage::OrderExecutedWithPrice(executed) => {
                self.execute(executed.order_reference.0, executed.executed_shares.0)
            }
            ItchMessage::OrderCancel(cancel) => self.execute(cancel.order_reference.0, cancel.cancelled_shares.0),
            ItchMessage::OrderDelete(delete) => self.delete_itch(delete.order_reference),
            ItchMessage::OrderReplace(replace) => self.replace_itch(replace),
            _ => Ok(()),
        }
    }

    fn add_itch(
        &mut self,
        reference: BigEndian<u64>,
        side: Letter,
        shares: BigEndian<u32>,
        instrument_id: u32,
        price: ItchPrice,
    ) -> Result<(), BookError> {
        self.add(&OrderAdd {
            order_id: reference.0,
            side,
            quantity: shares.0,
            instrument_id,
            price: price.mitch_price(),
            ..OrderAdd::default()
        })
    }

    fn delete_itch(&mut self, reference: BigEndian<u64>) -> Result<(), BookError> {
        self.apply(&OrderDelete { nanosecond: 0, order_id: reference.0 }.into())
    }

    fn replace_itch(&mut self, replace: &OrderReplace) -> Result<(), BookError> {
        let BigEndian(order_id) = replace.original_order_reference;
        let (instrument, order) = self.order(order_id).ok_or(BookError::UnknownOrder { order_id })?;
        let BigEndian(order_id) = replace.new_order_reference;
        if self.order(order_id).is_some() {
            return Err(BookError::DuplicateOrder { order_id });
        }
        self.delete_itch(replace.original_order_reference)?;
        let side = side_letter(order.side);
        self.add_itch(replace.new_order_reference, side, replace.shares, instrument, replace.price)
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::Side;

    use super::*;
    use crate::itch::{AddOrder, OrderCancel};

    fn add(reference: u64, price: u32) -> ItchMessage {
        let (side, shares, stock_locate) = (Letter(b'B'), BigEndian(9), BigEndian(1));
        let (order_reference, price) = (BigEndian(reference), ItchPrice(price));
        AddOrder { stock_locate, order_reference, side, shares, price, ..AddOrder::default() }.into()
    }

    fn replace(original: u64, new: u64, price: u32) -> ItchMessage {
        OrderReplace {
            original_order_reference: BigEndian(original),
            new_order_reference: BigEndian(new),
            shares: BigEndian(4),
            price: ItchPrice(price),
            ..OrderReplace::default()
        }
        .into()
    }

    fn queue(book: &BookBuilder) -> Vec<(u64, i64, u32)> {
        book.orders(1, Side::Buy).map(|order| (order.id, order.price.0, order.quantity)).collect()
    }

    #[test]
    fn a_replaced_order_goes_behind_and_a_cancelled_part_keeps_the_place() {
        let mut book = BookBuilder::default();
        let (order_reference, cancelled_shares) = (BigEndian(2), BigEndian(3));
        let cancel = OrderCancel { order_reference, cancelled_shares, ..OrderCancel::default() };
        for message in [add(1, 10), add(2, 10), cancel.into(), replace(1, 7, 10)] {
            book.apply_itch(&message).unwrap();
        }
        assert_eq!(queue(&book), [(2, 100_000, 6), (7, 100_000, 4)]);
    }

    #[test]
    fn a_replacement_that_does_not_fit_changes_nothing() {
        let mut book = BookBuilder::default();
        book.apply_itch(&add(1, 10)).unwrap();
        book.apply_itch(&add(2, 10)).unwrap();
        let before = queue(&book);
        for (message, error) in [
            (replace(1, 2, 20), BookError::DuplicateOrder { order_id: 2 }),
            (replace(1, 1, 20), BookError::DuplicateOrder { order_id: 1 }),
            (replace(3, 4, 20), BookError::UnknownOrder { order_id: 3 }),
        ] {
            assert_eq!(book.apply_itch(&message), Err(error));
        }
        assert_eq!(queue(&book), before);
    }
}
