//! An order comes in: the checks, in the order of the rules, and what follows from passing them.
//!
//! Holds       the first check that fails is the answer; until all have passed nothing changes.
//! Start at    `Engine::enter`.

use pitwire_model::{Event, Lots, NewOrder, OrderType, PostOnly, Reject, SelfMatch, Ticks};

use crate::book::OrderOrigin;
use crate::engine::{Engine, EventSink};
use crate::limits::peak_of;
use crate::market::Market;
use crate::matching::{IncomingOrder, end_of_book};
use crate::rule_tables::Tif;

impl Engine {
    /// HOT. Where something about the order or its market concerns more than the visible book (see [`Market::plain`]), it
    /// goes another way.
    #[inline]
    pub(crate) fn enter(&mut self, order: &NewOrder, out: &mut impl EventSink) {
        let tif = Tif::of(order.tif);
        let price = match order.order_type {
            OrderType::Limit { price } if tif <= Tif::FillOrKill => Some(price),
            OrderType::Market if tif <= Tif::FillOrKill && (tif != Tif::GoodTillCancel || self.first_rules) => None,
            _ => return self.enter_special(order, out),
        };
        if self.market(order.instrument).is_some_and(|market| !market.plain) {
            return self.enter_special(order, out);
        }
        let mut incoming = incoming(order, price, tif);
        if let Err(reason) = self.check_entry(order, price, &mut incoming) {
            return out.emit(Event::Rejected { order: order.id, account: order.account, reason });
        }
        self.last_session = self.last_session.max(order.session);
        self.times = incoming.origin.time;
        let order_type = match price {
            Some(_) => OrderType::Limit { price: incoming.price },
            None => OrderType::Market,
        };
        out.emit(Event::Accepted {
            order: order.id,
            account: order.account,
            instrument: order.instrument,
            side: order.side,
            order_type,
            lots: order.lots,
            tif: order.tif,
            display: order.display,
        });
        if self.match_and_rest(&incoming, out) {
            self.book_changed(order.instrument, out);
        }
    }

    /// HOT. In the one place that calls it. Fills in what the order does not say itself.
    #[inline(always)]
    fn check_entry(&self, order: &NewOrder, price: Option<Ticks>, incoming: &mut IncomingOrder) -> Result<(), Reject> {
        let market = self.market(order.instrument).ok_or(Reject::UnknownInstrument)?;
        let account = self.account(order.account).ok_or(Reject::UnknownAccount)?;
        if account.blocked || self.blocks.any() {
            self.check_standing(market, account, order.session)?;
        }
        whole_lots(order.lots)?;
        check_price(price)?;
        if self.orders.contains(order.id) {
            return Err(Reject::DuplicateOrderId);
        }
        incoming.mode = order.self_match.unwrap_or(account.spec.settings.self_match);
        incoming.origin.time = self.times + 1;
        incoming.origin.day = self.entry_day;
        if order.display.is_some() || order.post_only != PostOnly::No {
            check_terms(market, order, self.first_rules, incoming)?;
        }
        if market.limited {
            incoming.limit = market.check_limits(incoming)?;
        }
        if incoming.rests {
            market.check_room(account)?;
        }
        if account.is_limited() {
            self.check_funds(market, incoming)?;
        }
        Ok(())
    }
}

/// An order as it says of itself; a quantity that is none is refused later.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn incoming(order: &NewOrder, price: Option<Ticks>, tif: Tif) -> IncomingOrder {
    let lots = order.lots.0 as u32;
    IncomingOrder {
        id: order.id,
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        price: price.unwrap_or(Ticks::ZERO),
        limit: price.unwrap_or(end_of_book(order.side)),
        open: lots,
        ordered: lots,
        peak: 0,
        day: tif == Tif::Day,
        rests: price.is_some() && tif.rests(),
        minimum: 0,
        bound: Ticks::ZERO,
        whole: tif == Tif::FillOrKill,
        mode: SelfMatch::Allow,
        origin: OrderOrigin {
            time: 0,
            session: order.session,
            group: order.match_group,
            day: 0,
            tif,
            cancel_on_disconnect: order.cancel_on_disconnect,
        },
    }
}

#[cold]
fn check_terms(
    market: &Market,
    order: &NewOrder,
    first_rules: bool,
    incoming: &mut IncomingOrder,
) -> Result<(), Reject> {
    if !first_rules && order.display.is_some() && incoming.price != Ticks::ZERO && !incoming.rests {
        return Err(Reject::DisplayOutOfRange);
    }
    if order.post_only != PostOnly::No && !incoming.rests {
        return Err(Reject::PostOnlyNotAllowed);
    }
    if order.display.is_some() && !incoming.rests {
        return Err(Reject::DisplayOutOfRange);
    }
    incoming.peak = peak_of(order.display, incoming.ordered)?;
    incoming.price = market.placed(order.side, incoming.price, order.post_only)?;
    incoming.limit = incoming.price;
    Ok(())
}

#[inline]
pub(crate) fn whole_lots(lots: Lots) -> Result<u32, Reject> {
    u32::try_from(lots.0).ok().filter(|lots| *lots > 0).ok_or(Reject::QuantityOutOfRange)
}

#[inline]
pub(crate) fn check_price(limit: Option<Ticks>) -> Result<(), Reject> {
    match limit {
        Some(price) if !(1..=Ticks::MAX_PRICE.0).contains(&price.0) => Err(Reject::PriceOutOfRange),
        _ => Ok(()),
    }
}
