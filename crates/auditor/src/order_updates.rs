//! Adds, replaces and removes live orders in all places that hold them: the order table, the book,
//! the account and its reserve.

use crate::model::VenueModel;
use crate::orders::LiveOrder;
use crate::reader::EventReader;

/// Takes in an order that stays: in its place of the book, or aside.
pub fn add_order(model: &mut VenueModel, reader: &mut EventReader<'_>, order: LiveOrder) {
    let market = &mut model.markets[order.instrument.0 as usize];
    market.book.live += 1;
    market.book.add_stop(&order);
    insert_into_book(model, reader, &order);
    model.ledger.accounts[order.account.0 as usize].live_orders.insert((order.instrument, order.id));
    model.orders.insert(order);
}

/// Takes an order, given as it was before it left, out of everything.
pub fn remove_order(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) {
    take_from_book(model, reader, order);
    let market = &mut model.markets[order.instrument.0 as usize];
    market.book.live -= 1;
    market.book.remove_stop(order);
    model.ledger.release(order.account, model.order_cost(order, order.open));
    model.ledger.accounts[order.account.0 as usize].live_orders.remove(&(order.instrument, order.id));
    model.orders.remove(order);
}

/// An active order comes into the book.
fn insert_into_book(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) {
    if order.is_active() {
        note_level_change(model, reader, order);
        model.markets[order.instrument.0 as usize].book.insert(order);
    }
}

/// An active order goes out of the book.
fn take_from_book(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) {
    if order.is_active() {
        note_level_change(model, reader, order);
        model.markets[order.instrument.0 as usize].book.remove(order);
    }
}

pub fn note_level_change(model: &VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) {
    if order.is_visible() {
        let before = model.markets[order.instrument.0 as usize].book.level(order.side, order.price);
        reader.note_level((order.instrument, order.side, order.price), before);
    }
}

/// An order becomes another, perhaps elsewhere: what it was is given.
pub fn replace_order(model: &mut VenueModel, reader: &mut EventReader<'_>, before: &LiveOrder, after: LiveOrder) {
    take_from_book(model, reader, before);
    let book = &mut model.markets[before.instrument.0 as usize].book;
    book.remove_stop(before);
    book.add_stop(&after);
    insert_into_book(model, reader, &after);
    model.orders.insert(after);
}
