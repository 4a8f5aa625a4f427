//! Adds, replaces and removes live orders in all places that hold them: the order table, the book,
//! the account and its reserve.

use crate::model::VenueModel;
use crate::orders::LiveOrder;
use crate::reader::EventReader;

/// Adds a live order to the order table, to its account and, if it is active, to the book.
pub fn add_order(model: &mut VenueModel, reader: &mut EventReader<'_>, order: LiveOrder) {
    let market = &mut model.markets[order.instrument.0 as usize];
    market.book.live_orders += 1;
    market.book.add_stop(&order);
    insert_into_book(model, reader, &order);
    model.ledger.accounts[order.account.0 as usize].live_orders.insert((order.instrument, order.id));
    model.orders.insert(order);
}

/// Removes a live order everywhere and releases its reserve. `order` must be its present state.
pub fn remove_order(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) {
    take_from_book(model, reader, order);
    let market = &mut model.markets[order.instrument.0 as usize];
    market.book.live_orders -= 1;
    market.book.remove_stop(order);
    model.ledger.release(order.account, model.order_cost(order, order.open));
    model.ledger.accounts[order.account.0 as usize].live_orders.remove(&(order.instrument, order.id));
    model.orders.remove(order);
}

/// Adds an active order to the book. Ignores other orders.
fn insert_into_book(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder) {
    if order.is_active() {
        note_level_change(model, reader, order);
        model.markets[order.instrument.0 as usize].book.insert(order);
    }
}

/// Removes an active order from the book. Ignores other orders.
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

/// Replaces the state of a live order. `before` must be its present state.
pub fn replace_order(model: &mut VenueModel, reader: &mut EventReader<'_>, before: &LiveOrder, after: LiveOrder) {
    take_from_book(model, reader, before);
    let book = &mut model.markets[before.instrument.0 as usize].book;
    book.remove_stop(before);
    book.add_stop(&after);
    insert_into_book(model, reader, &after);
    model.orders.insert(after);
}
