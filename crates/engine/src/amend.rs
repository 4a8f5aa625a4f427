//! A resting order becomes another: less of the same in its place, or out and in again at the back.
//!
//! Holds       1. the first check that fails is the answer; until all have passed nothing changes;
//!             2. less of the same at the same price, a partial cancel, is refused by no limit and no block.
//! Start at    `Engine::amend`.

use pitwire_model::{Amend, Event, InstrumentId, Lots, PostOnly, Priority, Reject, Ticks};

use crate::account::Account;
use crate::book::{OrderOrigin, RestingOrder, Slot};
use crate::engine::{Engine, EventSink};
use crate::enter::{check_price, whole_lots};
use crate::limits::peak_of;
use crate::market::Market;
use crate::matching::IncomingOrder;
use crate::settle::set_aside;

impl Engine {
    pub(crate) fn amend(&mut self, amend: Amend, out: &mut impl EventSink) {
        let checked = match self.owned(amend.account, amend.order) {
            Err(reason) => Err(reason),
            Ok((instrument, slot)) if self.amends_plainly(&amend, instrument, slot) => {
                self.check_amend(amend, instrument, slot)
            }
            Ok(place) => return self.amend_special(&amend, place, out),
        };
        match checked {
            Err(reason) => out.emit(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok((slot, change)) => {
                self.change(amend.priority, slot, &change, out);
                self.book_changed(change.instrument, out);
            }
        }
    }

    /// Whether price and quantity of an order in a plain book are all that is asked about.
    #[inline]
    fn amends_plainly(&self, amend: &Amend, instrument: InstrumentId, slot: Slot) -> bool {
        self.markets[instrument.0 as usize].plain
            && !slot.is_kept()
            && amend.stop.is_none()
            && amend.minimum_execution.is_none()
            && amend.expiry.is_none()
    }

    fn check_amend(&self, amend: Amend, instrument: InstrumentId, slot: Slot) -> Result<(Slot, IncomingOrder), Reject> {
        let market = &self.markets[instrument.0 as usize];
        let account = &self.accounts[amend.account.0 as usize];
        let (old, origin) = (market.book.get(slot), market.book.origin(slot));
        let partial_cancel = only_reduces(amend, &old);
        if !partial_cancel && (account.blocked || self.blocks.any()) {
            self.check_blocks(account, origin.session)?;
        }
        let (ordered, open) = quantities(amend, old.ordered, old.total_open())?;
        check_price(Some(amend.price))?;
        let peak = match amend.display {
            None => old.display,
            display => peak_of(display, whole_lots(amend.lots)?)?,
        };
        let mut change = IncomingOrder {
            id: amend.order,
            account: amend.account,
            instrument,
            side: old.owner.side(),
            price: amend.price,
            limit: amend.price,
            open,
            ordered,
            peak,
            day: old.owner.is_day(),
            rests: true,
            minimum: 0,
            bound: Ticks::ZERO,
            whole: false,
            mode: account.spec.settings.self_match,
            origin,
        };
        if !partial_cancel {
            self.check_change(market, account, &old, amend.post_only, &mut change)?;
        }
        Ok((slot, change))
    }

    /// What an amend that may trade, or add, has to pass; moves a post-only order's price.
    fn check_change(
        &self,
        market: &Market,
        account: &Account,
        old: &RestingOrder,
        post_only: PostOnly,
        change: &mut IncomingOrder,
    ) -> Result<(), Reject> {
        if post_only != PostOnly::No {
            change.price = market.placed(change.side, change.price, post_only)?;
            change.limit = change.price;
        }
        if market.limited {
            market.check_limits(change)?;
        }
        if account.is_limited() { self.check_amend_funds(market, old, change) } else { Ok(()) }
    }

    fn change(&mut self, priority: Priority, slot: Slot, change: &IncomingOrder, out: &mut impl EventSink) {
        let IncomingOrder { id: order, account, instrument, side, price, open, ordered, peak, .. } = *change;
        let market = &mut self.markets[instrument.0 as usize];
        let old = market.book.get(slot);
        let kept_priority = priority == Priority::KeepWhenReduced
            && price == old.price
            && open <= old.total_open()
            && peak == old.display;
        let display = (peak > 0).then_some(Lots(u64::from(peak)));
        let (lots, still) = (Lots(u64::from(ordered)), Lots(u64::from(open)));
        let amended = Event::Amended {
            order,
            account,
            instrument,
            side,
            price,
            lots,
            open: still,
            kept_priority,
            display,
            stop: None,
            minimum_execution: None,
            expiry: market.expiry_of(order, &change.origin),
        };
        if kept_priority {
            let less = i128::from(old.total_open() - open);
            let lots = Lots(market.book.reduce(slot, open, ordered));
            set_aside(&mut self.accounts, market, account, side, price, -less);
            out.emit(amended);
            out.emit(Event::Level { instrument, side, price, lots });
            return;
        }
        let (_, lots) = market.book.remove(slot);
        self.orders.remove(order);
        self.accounts[account.0 as usize].open_orders -= 1;
        set_aside(&mut self.accounts, market, account, side, old.price, -i128::from(old.total_open()));
        out.emit(amended);
        out.emit(Event::Level { instrument, side, price: old.price, lots: Lots(lots) });
        let origin = OrderOrigin { time: self.next_time(), ..change.origin };
        self.match_and_rest(&IncomingOrder { origin, ..*change }, out);
    }
}

/// Whether nothing about the order changes but that there is no more of it.
fn only_reduces(amend: Amend, old: &RestingOrder) -> bool {
    let most = match amend.priority {
        Priority::KeepWhenReduced => old.ordered,
        Priority::AlwaysLose => old.total_open(),
    };
    let same_peak = amend.display.is_none_or(|display| display.0 == u64::from(old.display));
    amend.price == old.price && amend.lots.0 <= u64::from(most) && same_peak
}

/// New total and new open lots.
pub(crate) fn quantities(amend: Amend, ordered: u32, open: u32) -> Result<(u32, u32), Reject> {
    let lots = whole_lots(amend.lots)?;
    let filled = ordered - open;
    match amend.priority {
        Priority::KeepWhenReduced => {
            let open = lots.checked_sub(filled).filter(|open| *open > 0);
            Ok((lots, open.ok_or(Reject::AmountAlreadyFilled)?))
        }
        Priority::AlwaysLose => Ok((filled.checked_add(lots).ok_or(Reject::QuantityOutOfRange)?, lots)),
    }
}
