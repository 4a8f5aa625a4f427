//! Amends of orders: a reduction in place, or removal and re-entry at the back of the queue.
//!
//! Holds       1. the first check that fails is the answer; nothing changes until all checks have
//!                passed;
//!             2. no limit and no kill refuses a partial cancel, which reduces the quantity and
//!                changes nothing else.
//! Leaves out  amends that are not plain: `amend_special`.
//! Start at    [`Engine::amend`].

use pitwire_model::{Amend, Event, InstrumentId, Lots, PostOnly, Priority, Reject, Ticks};

use crate::admission::Admission;
use crate::book::{OrderOrigin, RestingOrder, Slot};
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::incoming::IncomingOrder;
use crate::market_context::MarketContext;
use crate::order_checks::{check_price, lots_u32, peak_of};

impl Engine {
    pub(crate) fn amend(&mut self, amend: Amend, out: &mut impl EventSink) {
        let (instrument, slot) = match self.owned_order(amend.account, amend.order) {
            Err(reason) => {
                return out.emit(Event::AmendRefused { order: amend.order, account: amend.account, reason });
            }
            Ok(place) => place,
        };
        if !self.is_plain_amend(&amend, instrument, slot) {
            return self.amend_special(&amend, instrument, slot, out);
        }
        let admission = Admission::new(self, instrument, amend.account);
        match admission.and_then(|admission| admission.check_plain_amend(amend, slot)) {
            Err(reason) => out.emit(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok(amended) => {
                let mut context = self.context(instrument);
                context.apply_plain_amend(amend.priority, slot, &amended, out);
                context.emit_book_changed(out);
            }
        }
    }

    /// Returns whether the amend changes only price, quantity or peak of an order in a plain book.
    #[inline]
    fn is_plain_amend(&self, amend: &Amend, instrument: InstrumentId, slot: Slot) -> bool {
        self.markets.as_slice()[instrument.0 as usize].plain
            && !slot.is_undisplayed()
            && amend.stop.is_none()
            && amend.minimum_execution.is_none()
            && amend.expiry.is_none()
    }
}

impl Admission<'_> {
    /// Checks an amend and returns the order as it will be.
    fn check_plain_amend(&self, amend: Amend, slot: Slot) -> Result<IncomingOrder, Reject> {
        let Admission { engine, market, account } = *self;
        let (old, origin) = (market.book.get(slot), market.book.origin(slot));
        let is_partial_cancel = is_partial_cancel(amend, &old);
        if !is_partial_cancel && (account.blocked || engine.blocks.any()) {
            self.check_blocks(origin.session)?;
        }
        let (ordered, open) = amended_lots(amend, old.ordered, old.total_open())?;
        check_price(Some(amend.price))?;
        let peak = match amend.display {
            None => old.display,
            display => peak_of(display, lots_u32(amend.lots)?)?,
        };
        if !is_partial_cancel {
            self.check_min_display(peak, lots_u32(amend.lots)?)?;
        }
        let mut amended = IncomingOrder {
            id: amend.order,
            account: amend.account,
            instrument: market.spec.id,
            side: old.owner.side(),
            price: amend.price,
            limit: amend.price,
            open,
            ordered,
            peak,
            is_day: old.owner.is_day(),
            may_rest: true,
            minimum_execution: 0,
            bound: Ticks::ZERO,
            fill_or_kill: false,
            self_match: account.spec.settings.self_match,
            origin,
        };
        if is_partial_cancel {
            return Ok(amended);
        }
        if amend.post_only != PostOnly::No {
            amended.price = market.post_only_price(amended.side, amended.price, amend.post_only)?;
            amended.limit = amended.price;
        }
        if market.limited {
            market.check_limits(&amended)?;
        }
        if account.is_limited() {
            engine.funds().check_amend(market, &old, &amended)?;
        }
        Ok(amended)
    }
}

impl MarketContext<'_> {
    fn apply_plain_amend(&mut self, priority: Priority, slot: Slot, amended: &IncomingOrder, out: &mut impl EventSink) {
        let IncomingOrder { id: order, account, instrument, side, price, open, ordered, peak, .. } = *amended;
        let old = self.market.book.get(slot);
        let kept_priority = priority == Priority::KeepWhenReduced
            && price == old.price
            && open <= old.total_open()
            && peak == old.display;
        let event = Event::Amended {
            order,
            account,
            instrument,
            side,
            price,
            lots: Lots(u64::from(ordered)),
            open: Lots(u64::from(open)),
            kept_priority,
            display: (peak > 0).then_some(Lots(u64::from(peak))),
            stop: None,
            minimum_execution: None,
            expiry: self.market.expiry_of(order, &amended.origin),
        };
        if kept_priority {
            let released = i128::from(old.total_open() - open);
            let lots = Lots(self.market.book.reduce(slot, open, ordered));
            self.reserve(account, side, price, -released);
            out.emit(event);
            out.emit(Event::Level { instrument, side, price, lots });
            return;
        }
        let (_, lots) = self.remove_displayed(slot);
        out.emit(event);
        out.emit(Event::Level { instrument, side, price: old.price, lots: Lots(lots) });
        let origin = OrderOrigin { time: self.clock.next_priority(), ..amended.origin };
        self.match_and_rest(&IncomingOrder { origin, ..*amended }, out);
    }
}

/// Returns whether the amend only reduces the quantity.
fn is_partial_cancel(amend: Amend, old: &RestingOrder) -> bool {
    let most = match amend.priority {
        Priority::KeepWhenReduced => old.ordered,
        Priority::AlwaysLose => old.total_open(),
    };
    let keeps_peak = amend.display.is_none_or(|display| display.0 == u64::from(old.display));
    amend.price == old.price && amend.lots.0 <= u64::from(most) && keeps_peak
}

/// Returns the total and the open lots of an amended order. The amend names the total, or the open
/// quantity if the order always loses its priority.
pub(crate) fn amended_lots(amend: Amend, ordered: u32, open: u32) -> Result<(u32, u32), Reject> {
    let lots = lots_u32(amend.lots)?;
    let filled = ordered - open;
    match amend.priority {
        Priority::KeepWhenReduced => {
            let open = lots.checked_sub(filled).filter(|open| *open > 0);
            Ok((lots, open.ok_or(Reject::AmountAlreadyFilled)?))
        }
        Priority::AlwaysLose => Ok((filled.checked_add(lots).ok_or(Reject::QuantityOutOfRange)?, lots)),
    }
}
