//! A new order: the checks, and what follows from passing them.
//!
//! Holds       nothing changes until all checks have passed.
//! Start at    [`Engine::enter`].

use pitwire_model::{Event, Lots, NewOrder, OrderType, Ticks, TimeInForce};

use crate::admission::{Admission, AdmittedAction};
use crate::command_end::MarketCommand;
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::incoming::IncomingOrder;
use crate::market_context::MarketContext;
use crate::rule_tables::Tif;
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

impl Engine {
    /// HOT. Enters an order. An order with special terms, or on a market that is not plain
    /// (see [`Market::plain`](crate::Market)), takes the path of [`Engine::enter_special`].
    #[inline]
    pub(crate) fn enter(&mut self, order: &NewOrder, out: &mut impl EventSink) {
        let tif = Tif::of(order.tif);
        let price = match order.order_type {
            OrderType::Limit { price } if tif <= Tif::FillOrKill => Some(price),
            OrderType::Market if tif <= Tif::FillOrKill && (tif != Tif::GoodTillCancel || self.rules.is_first()) => {
                None
            }
            _ => return self.enter_special(order, out),
        };
        if order.reduce_only || self.market(order.instrument).is_some_and(|market| !market.plain) {
            return self.enter_special(order, out);
        }
        let mut incoming = IncomingOrder::of(order, price, tif);
        let admission = Admission::new(self, order.instrument, order.account);
        if let Err(reason) = admission.and_then(|admission| admission.check_plain_entry(order, price, &mut incoming)) {
            return out.emit(Event::Rejected { order: order.id, account: order.account, reason });
        }
        self.last_session = self.last_session.max(order.session);
        self.clock.last_priority = incoming.origin.time;
        let order_type = match price {
            Some(_) => OrderType::Limit { price: incoming.price },
            None => OrderType::Market,
        };
        out.emit(accepted(order, order_type));
        let mut context = self.context(order.instrument);
        if context.match_and_rest(&incoming, out) {
            context.emit_book_changed(out);
        }
    }

    #[cold]
    fn enter_special(&mut self, order: &NewOrder, out: &mut impl EventSink) {
        let admission = Admission::new(self, order.instrument, order.account);
        let (incoming, action) = match admission.and_then(|admission| admission.check_special_entry(order)) {
            Err(reason) => return out.emit(Event::Rejected { order: order.id, account: order.account, reason }),
            Ok(admitted) => admitted,
        };
        self.last_session = self.last_session.max(order.session);
        self.clock.last_priority = incoming.origin.time;
        let mut context = self.context(order.instrument);
        let mut command = MarketCommand::begin(&mut context, out);
        let MarketCommand { context, out, .. } = &mut command;
        if let TimeInForce::GoodTillTime { at } = order.tif {
            context.set_expiry_time(order.id, at);
        }
        // A reduce-only order may have been reduced to its room.
        let lots = Lots(u64::from(incoming.ordered));
        out.emit(accepted(&NewOrder { lots, ..order.clone() }, with_price(order.order_type, incoming.price)));
        match action {
            AdmittedAction::Match => context.match_in_session(&incoming, out),
            AdmittedAction::WaitForElection => context.add_waiting(order, &incoming, UndisplayedState::Unelected),
            AdmittedAction::Park => {
                context.add_waiting(order, &incoming, UndisplayedState::Parked);
                let (order, account, instrument, open) = (order.id, order.account, order.instrument, order.lots);
                out.emit(Event::Parked { order, account, instrument, open });
            }
        }
        command.finish();
    }
}

impl MarketContext<'_> {
    /// Adds an accepted order that waits for its session or its stop price.
    fn add_waiting(&mut self, order: &NewOrder, incoming: &IncomingOrder, state: UndisplayedState) {
        let IncomingOrder { id, account, side, open, ordered, peak, bound, origin, .. } = *incoming;
        self.insert_undisplayed(UndisplayedOrder {
            id,
            account,
            side,
            state,
            order_type: with_price(order.order_type, incoming.price),
            open,
            ordered,
            display: peak,
            bound,
            self_match: order.self_match,
            origin,
        });
    }
}

#[inline(always)]
fn accepted(order: &NewOrder, order_type: OrderType) -> Event {
    Event::Accepted {
        order: order.id,
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        order_type,
        lots: order.lots,
        tif: order.tif,
        display: order.display,
    }
}

/// Returns the order type with the price that a post-only order was repriced to.
fn with_price(order_type: OrderType, price: Ticks) -> OrderType {
    match order_type {
        OrderType::Limit { .. } => OrderType::Limit { price },
        other => other,
    }
}
