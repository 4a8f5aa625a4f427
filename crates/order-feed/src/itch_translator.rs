//! Translates MITCH messages to ITCH 5.0.
//!
//! Does        keep the time of the last time message, and the new ITCH references of replaced
//!             orders; look up in the books what ITCH states and MITCH does not: instruments, names
//!             and earlier quantities.
//! Holds       1. a book from ITCH messages equals a book from MITCH messages, with the positions
//!                of orders in their queues;
//!             2. a new reference has bit 63, which no order id has.
//! Start at    [`ItchTranslator::translate`], [`ItchTranslator::snapshot`].

use hashbrown::HashMap;
use pitwire_model::Side;

use crate::book::{BookBuilder, RebuiltOrder};
use crate::fields::{Alpha, Letter, MitchPrice};
use crate::itch::{
    AddOrder, BigEndian, BrokenTrade, CrossTrade, ItchMessage, ItchPrice, ItchTime, OrderCancel, OrderDelete,
    OrderExecuted, OrderExecutedWithPrice, OrderImbalance, OrderReplace, STOCK_BYTES, StockDirectory,
    StockTradingAction, SystemEvent, Trade,
};
use crate::messages::{MitchMessage, OrderModify, PricedExecution, SymbolDirectory, SymbolStatus};
use crate::trading_status::side_letter;

const SECOND_NS: u64 = 1_000_000_000;
/// Bit of the references of replaced orders.
const REPLACED: u64 = 1 << 63;

/// Turns MITCH messages into ITCH messages.
#[derive(Debug, Default)]
pub struct ItchTranslator {
    seconds: u32,
    /// References of orders that were replaced. The others have their ids.
    references: HashMap<u64, u64>,
    replacements: u64,
    /// Prices that do not fit the format and were sent as its highest or lowest price.
    pub clipped: u64,
}

/// The fields that all messages have.
#[derive(Clone, Copy)]
struct ItchHeader {
    stock_locate: BigEndian<u16>,
    timestamp: ItchTime,
}

impl ItchTranslator {
    /// Translates one message. `books` is the state before it.
    pub fn translate(&mut self, message: &MitchMessage, books: &BookBuilder, send: &mut dyn FnMut(ItchMessage)) {
        match message {
            MitchMessage::TimeMark(mark) => self.seconds = mark.seconds,
            MitchMessage::SystemEvent(event) => {
                let ItchHeader { stock_locate, timestamp } = self.header(0, event.nanosecond);
                let event_code = event.event_code;
                send(SystemEvent { stock_locate, timestamp, event_code, ..SystemEvent::default() }.into());
            }
            MitchMessage::SymbolDirectory(directory) => self.define(directory, send),
            MitchMessage::SymbolStatus(status) if status.book_type == 1 => {
                send(self.trading_action(status, books));
            }
            MitchMessage::OrderAdd(add) => {
                let order = RebuiltOrder {
                    id: add.order_id,
                    side: if add.side == Letter(b'S') { Side::Sell } else { Side::Buy },
                    price: add.price,
                    quantity: add.quantity,
                };
                self.add(&order, add.order_id, (add.instrument_id, add.nanosecond), books, send);
            }
            MitchMessage::OrderDelete(delete) => {
                if let Some((instrument, order)) = books.order(delete.order_id) {
                    self.delete(order.id, (instrument, delete.nanosecond), send);
                }
            }
            MitchMessage::OrderModify(modify) => self.modify(modify, books, send),
            MitchMessage::BookClear(clear) => {
                for side in Side::BOTH {
                    for order in books.orders(clear.instrument_id, side) {
                        self.delete(order.id, (clear.instrument_id, clear.nanosecond), send);
                    }
                }
            }
            MitchMessage::OrderExecution(execution) => {
                let Some((instrument, order)) = books.order(execution.order_id) else { return };
                let ItchHeader { stock_locate, timestamp } = self.header(instrument, execution.nanosecond);
                let executed = OrderExecuted {
                    stock_locate,
                    timestamp,
                    order_reference: self.reference(order.id),
                    executed_shares: BigEndian(execution.executed_quantity),
                    match_number: BigEndian(execution.trade_id),
                    ..OrderExecuted::default()
                };
                send(executed.into());
                if execution.executed_quantity >= order.quantity {
                    self.references.remove(&order.id);
                }
            }
            MitchMessage::PricedExecution(execution) => self.execute_priced(execution, books, send),
            MitchMessage::HiddenTrade(trade) => {
                let at = (trade.instrument_id, trade.nanosecond);
                self.trade(trade.executed_quantity, trade.price, trade.trade_id, at, books, send);
            }
            MitchMessage::AuctionTrade(trade) => {
                let ItchHeader { stock_locate, timestamp } = self.header(trade.instrument_id, trade.nanosecond);
                let cross = CrossTrade {
                    stock_locate,
                    timestamp,
                    shares: BigEndian(trade.quantity.into()),
                    stock: stock(books, trade.instrument_id),
                    cross_price: self.price(trade.price),
                    match_number: BigEndian(trade.trade_id),
                    cross_type: cross_type(trade.auction_type),
                    ..CrossTrade::default()
                };
                send(cross.into());
            }
            MitchMessage::RecoveryTrade(trade) => {
                let ItchHeader { stock_locate, timestamp } = self.header(trade.instrument_id, trade.nanosecond);
                let match_number = BigEndian(trade.trade_id);
                send(BrokenTrade { stock_locate, timestamp, match_number, ..BrokenTrade::default() }.into());
            }
            MitchMessage::AuctionInfo(info) => {
                let ItchHeader { stock_locate, timestamp } = self.header(info.instrument_id, info.nanosecond);
                let price = self.price(info.price);
                let imbalance = OrderImbalance {
                    stock_locate,
                    timestamp,
                    paired_shares: BigEndian(info.paired_quantity.into()),
                    imbalance_direction: info.imbalance_direction,
                    stock: stock(books, info.instrument_id),
                    far_price: price,
                    near_price: price,
                    current_reference_price: price,
                    cross_type: cross_type(info.auction_type),
                    ..OrderImbalance::default()
                };
                send(imbalance.into());
            }
            _ => {}
        }
    }

    /// Sends the state of all books: the definition, the session and the orders of each instrument.
    /// `books` is the state after the last message that was translated.
    pub fn snapshot(&self, books: &BookBuilder, send: &mut dyn FnMut(ItchMessage)) {
        for (instrument, state) in books.instruments() {
            if let Some(directory) = &state.directory {
                self.define(&SymbolDirectory { nanosecond: 0, ..*directory }, send);
            }
            if let Some(status) = &state.status {
                send(self.trading_action(&SymbolStatus { nanosecond: 0, ..*status }, books));
            }
            for order in Side::BOTH.into_iter().flat_map(|side| books.orders(instrument, side)) {
                let BigEndian(reference) = self.reference(order.id);
                let price = ItchPrice::of(order.price).unwrap_or_else(|| nearest_price(order.price));
                send(self.order_message(&order, reference, price, (instrument, 0), books));
            }
        }
    }

    fn header(&self, instrument: u32, nanosecond: u32) -> ItchHeader {
        ItchHeader {
            // The feed leaves out instruments with a higher id.
            stock_locate: BigEndian(u16::try_from(instrument).unwrap_or(0)),
            // A hostile time message may have more than the 86,400 seconds of a day.
            timestamp: ItchTime::of(u64::from(self.seconds) * SECOND_NS + u64::from(nanosecond)),
        }
    }

    fn price(&mut self, price: MitchPrice) -> ItchPrice {
        ItchPrice::of(price).unwrap_or_else(|| {
            self.clipped += 1;
            nearest_price(price)
        })
    }

    fn reference(&self, order: u64) -> BigEndian<u64> {
        BigEndian(self.references.get(&order).copied().unwrap_or(order))
    }

    fn new_reference(&mut self, order: u64) -> BigEndian<u64> {
        self.replacements += 1;
        let reference = REPLACED | self.replacements;
        self.references.insert(order, reference);
        BigEndian(reference)
    }

    fn define(&self, directory: &SymbolDirectory, send: &mut dyn FnMut(ItchMessage)) {
        let ItchHeader { stock_locate, timestamp } = self.header(directory.instrument_id, directory.nanosecond);
        let stock = short_name(directory);
        let message = StockDirectory {
            stock_locate,
            timestamp,
            stock,
            round_lot_size: BigEndian(1),
            round_lots_only: Letter(b'N'),
            authenticity: Letter(b'T'),
            ..StockDirectory::default()
        };
        send(message.into());
    }

    fn trading_action(&self, status: &SymbolStatus, books: &BookBuilder) -> ItchMessage {
        let ItchHeader { stock_locate, timestamp } = self.header(status.instrument_id, status.nanosecond);
        let (stock, trading_state) = (stock(books, status.instrument_id), trading_state(status.trading_status));
        StockTradingAction { stock_locate, timestamp, stock, trading_state, ..StockTradingAction::default() }.into()
    }

    fn add(
        &mut self,
        order: &RebuiltOrder,
        reference: u64,
        at: (u32, u32),
        books: &BookBuilder,
        send: &mut dyn FnMut(ItchMessage),
    ) {
        let price = self.price(order.price);
        send(self.order_message(order, reference, price, at, books));
    }

    fn order_message(
        &self,
        order: &RebuiltOrder,
        reference: u64,
        price: ItchPrice,
        (instrument, nanosecond): (u32, u32),
        books: &BookBuilder,
    ) -> ItchMessage {
        let ItchHeader { stock_locate, timestamp } = self.header(instrument, nanosecond);
        AddOrder {
            stock_locate,
            timestamp,
            order_reference: BigEndian(reference),
            side: side_letter(order.side),
            shares: BigEndian(order.quantity),
            stock: stock(books, instrument),
            price,
            ..AddOrder::default()
        }
        .into()
    }

    fn delete(&mut self, order: u64, (instrument, nanosecond): (u32, u32), send: &mut dyn FnMut(ItchMessage)) {
        let ItchHeader { stock_locate, timestamp } = self.header(instrument, nanosecond);
        let order_reference = self.reference(order);
        self.references.remove(&order);
        send(OrderDelete { stock_locate, timestamp, order_reference, ..OrderDelete::default() }.into());
    }

    fn trade(
        &mut self,
        shares: u32,
        price: MitchPrice,
        trade: u64,
        (instrument, nanosecond): (u32, u32),
        books: &BookBuilder,
        send: &mut dyn FnMut(ItchMessage),
    ) {
        let ItchHeader { stock_locate, timestamp } = self.header(instrument, nanosecond);
        let trade = Trade {
            stock_locate,
            timestamp,
            side: Letter(b'B'),
            shares: BigEndian(shares),
            stock: stock(books, instrument),
            price: self.price(price),
            match_number: BigEndian(trade),
            ..Trade::default()
        };
        send(trade.into());
    }

    fn modify(&mut self, modify: &OrderModify, books: &BookBuilder, send: &mut dyn FnMut(ItchMessage)) {
        let Some((instrument, order)) = books.order(modify.order_id) else { return };
        let at = (instrument, modify.nanosecond);
        let changed = RebuiltOrder { price: modify.new_price, quantity: modify.new_quantity, ..order };
        if modify.flags & OrderModify::KEEPS_PLACE != 0 && modify.new_price == order.price {
            self.set_quantity(&order, modify.new_quantity, at, books, send);
        } else {
            self.replace(&changed, at, send);
        }
    }

    /// Sends an Order Replace: the order gets a new reference and the last position in the queue at
    /// its price.
    fn replace(
        &mut self,
        order: &RebuiltOrder,
        (instrument, nanosecond): (u32, u32),
        send: &mut dyn FnMut(ItchMessage),
    ) {
        let ItchHeader { stock_locate, timestamp } = self.header(instrument, nanosecond);
        let original_order_reference = self.reference(order.id);
        let replace = OrderReplace {
            stock_locate,
            timestamp,
            original_order_reference,
            new_order_reference: self.new_reference(order.id),
            shares: BigEndian(order.quantity),
            price: self.price(order.price),
            ..OrderReplace::default()
        };
        send(replace.into());
    }

    /// Changes the displayed quantity of an order that keeps its time priority. ITCH cannot
    /// increase a quantity. So the order is replaced, and then each order behind it at its price.
    fn set_quantity(
        &mut self,
        order: &RebuiltOrder,
        quantity: u32,
        at: (u32, u32),
        books: &BookBuilder,
        send: &mut dyn FnMut(ItchMessage),
    ) {
        if quantity == order.quantity {
            return;
        }
        if quantity == 0 {
            return self.delete(order.id, at, send);
        }
        let Some(cancelled) = order.quantity.checked_sub(quantity) else {
            self.replace(&RebuiltOrder { quantity, ..*order }, at, send);
            return self.replace_behind(order, at, books, send);
        };
        let ItchHeader { stock_locate, timestamp } = self.header(at.0, at.1);
        let cancel = OrderCancel {
            stock_locate,
            timestamp,
            order_reference: self.reference(order.id),
            cancelled_shares: BigEndian(cancelled),
            ..OrderCancel::default()
        };
        send(cancel.into());
    }

    #[cold]
    fn replace_behind(
        &mut self,
        order: &RebuiltOrder,
        at: (u32, u32),
        books: &BookBuilder,
        send: &mut dyn FnMut(ItchMessage),
    ) {
        let queue = books.orders(at.0, order.side).skip_while(|other| other.id != order.id).skip(1);
        for other in queue.take_while(|other| other.price == order.price) {
            self.replace(&other, at, send);
        }
    }

    fn execute_priced(&mut self, execution: &PricedExecution, books: &BookBuilder, send: &mut dyn FnMut(ItchMessage)) {
        let Some((instrument, order)) = books.order(execution.order_id) else { return };
        let at = (instrument, execution.nanosecond);
        let ItchHeader { stock_locate, timestamp } = self.header(instrument, execution.nanosecond);
        // An auction may execute more of an iceberg than it displays.
        let executed = execution.executed_quantity.min(order.quantity);
        let is_whole = executed == execution.executed_quantity;
        let is_printable = execution.printable == Letter(b'Y');
        let message = OrderExecutedWithPrice {
            stock_locate,
            timestamp,
            order_reference: self.reference(order.id),
            executed_shares: BigEndian(executed),
            match_number: BigEndian(execution.trade_id),
            printable: Letter(if is_printable && is_whole { b'Y' } else { b'N' }),
            execution_price: self.price(execution.price),
            ..OrderExecutedWithPrice::default()
        };
        send(message.into());
        if is_printable && !is_whole {
            self.trade(execution.executed_quantity, execution.price, execution.trade_id, at, books, send);
        }
        let (left, display) = (order.quantity - executed, execution.display_quantity);
        if left > 0 {
            return self.set_quantity(&RebuiltOrder { quantity: left, ..order }, display, at, books, send);
        }
        self.references.remove(&order.id);
        if display > 0 {
            let BigEndian(reference) = self.new_reference(order.id);
            self.add(&RebuiltOrder { quantity: display, ..order }, reference, at, books, send);
            self.replace_behind(&order, at, books, send);
        }
    }
}

/// Returns the price of the format that stands for a price that does not fit.
fn nearest_price(price: MitchPrice) -> ItchPrice {
    if price.0 < 0 { ItchPrice(0) } else { ItchPrice::MAX }
}

fn short_name(directory: &SymbolDirectory) -> Alpha<STOCK_BYTES> {
    Alpha(directory.symbol.0.first_chunk().copied().unwrap_or([b' '; STOCK_BYTES]))
}

fn stock(books: &BookBuilder, instrument: u32) -> Alpha<STOCK_BYTES> {
    let directory = books.instrument(instrument).and_then(|state| state.directory.as_ref());
    directory.map(short_name).unwrap_or_default()
}

fn trading_state(status: Letter) -> Letter {
    Letter(match status.0 {
        b'T' => b'T',
        b'a' | b'd' | b'e' | b'f' | b'p' | b'u' => b'Q',
        b'l' => b'P',
        _ => b'H',
    })
}

fn cross_type(auction: Letter) -> Letter {
    Letter(match auction.0 {
        b'O' | b'C' => auction.0,
        b'A' | b'E' => b'H',
        _ => b'I',
    })
}
