//! Amending: the order before and after, the checks in the order of the rules, and the place that is kept or lost.

use pitwire_model::{Amend, Event, Expiry, Lots, Phase, PostOnly, Priority, Reject, TimeInForce};

use super::entering::{legal_lots, legal_price, may_rest};
use super::tables::permits;
use super::{Kind, Order, Place, ReferenceEngine};

/// A checked amend.
struct Amendment {
    at: usize,
    before: Order,
    after: Order,
    keeps: bool,
    /// A new stop price was given.
    moves_stop: bool,
}

fn expiry_of(tif: TimeInForce) -> Option<Expiry> {
    match tif {
        TimeInForce::GoodTillDate { day } => Some(Expiry::Day(day)),
        TimeInForce::GoodTillTime { at } => Some(Expiry::Time(at)),
        _ => None,
    }
}

/// The time in force with another end, if it has one of this kind.
fn with_expiry(tif: TimeInForce, expiry: Expiry) -> Option<TimeInForce> {
    match (tif, expiry) {
        (TimeInForce::GoodTillDate { .. }, Expiry::Day(day)) => Some(TimeInForce::GoodTillDate { day }),
        (TimeInForce::GoodTillTime { .. }, Expiry::Time(at)) => Some(TimeInForce::GoodTillTime { at }),
        _ => None,
    }
}

fn has_stop(order: &Order) -> bool {
    order.place == Place::Unelected
}

impl ReferenceEngine {
    pub(super) fn amend(&mut self, amend: &Amend, out: &mut Vec<Event>) {
        match self.may_amend(amend) {
            Err(reason) => out.push(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok(amendment) => self.apply_amend(amendment, out),
        }
    }

    fn may_amend(&self, amend: &Amend) -> Result<Amendment, Reject> {
        let (instrument, before) = self.find(amend.order).ok_or(Reject::UnknownOrder)?;
        if before.account != amend.account {
            return Err(Reject::NotOwner);
        }
        let at = instrument.0 as usize;
        let market = &self.markets[at];
        if !permits(market.phase).amend {
            return Err(Reject::NotOpen);
        }
        let mut after = before;
        if amend.stop.is_some() && !has_stop(&before)
            || amend.minimum_execution.is_some() && !before.is_hidden()
            || !before.has_price() && amend.price.0 != 0
        {
            return Err(Reject::NotAmendable);
        }
        if let Some(expiry) = amend.expiry {
            after.tif = with_expiry(before.tif, expiry).ok_or(Reject::NotAmendable)?;
        }
        if before.is_hidden() && !permits(market.phase).amend_hidden {
            return Err(Reject::TypeNotAllowedInSession);
        }
        let filled = before.ordered - before.open;
        (after.ordered, after.open) = match amend.priority {
            Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
            Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
        };
        after.price = amend.price;
        after.stop = amend.stop.unwrap_or(before.stop);
        after.minimum = amend.minimum_execution.map_or(before.minimum, |minimum| minimum.0);
        after.peak = amend.display.or(before.peak);
        // Zero is no peak, and as good as none until the display is judged.
        let shows_as_before = after.peak.unwrap_or_default() == before.peak.unwrap_or_default();
        let is_partial_cancel = after.price == before.price
            && shows_as_before
            && after.open <= before.open
            && (after.stop, after.minimum, after.tif) == (before.stop, before.minimum, before.tif);
        if !is_partial_cancel {
            self.not_blocked(before.account, before.session)?;
        }
        // What was asked for must be an order's quantity, and so must what the order's total becomes.
        if !legal_lots(amend.lots.0) || !legal_lots(after.ordered) {
            return Err(Reject::QuantityOutOfRange);
        }
        if after.open == 0 {
            return Err(Reject::AmountAlreadyFilled);
        }
        if before.has_price() && !legal_price(after.price) || has_stop(&before) && !legal_price(after.stop) {
            return Err(Reject::PriceOutOfRange);
        }
        let rests = may_rest(before.kind, before.tif);
        if amend.display.is_some_and(|display| !rests || !(1..=amend.lots.0).contains(&display.0)) {
            return Err(Reject::DisplayOutOfRange);
        }
        if before.is_hidden() {
            market.legal_hidden(after.ordered, after.open, after.minimum)?;
        }
        if amend.expiry.is_some() {
            self.legal_expiry(after.tif)?;
        }
        let moves_stop = amend.stop.is_some();
        if !is_partial_cancel {
            self.may_change(at, amend.post_only, &before, &mut after)?;
        }
        let reduces = amend.priority == Priority::KeepWhenReduced && after.open <= before.open;
        let stays = after.price == before.price || has_stop(&before);
        let keeps = reduces && stays && after.peak == before.peak;
        Ok(Amendment { at, before, after, keeps, moves_stop })
    }

    /// What a partial cancel need not pass: band, post-only, limits, funds.
    fn may_change(&self, at: usize, post_only: PostOnly, before: &Order, after: &mut Order) -> Result<(), Reject> {
        let market = &self.markets[at];
        if before.has_price() && after.price != before.price && !market.in_band(after.price) {
            return Err(Reject::PriceOutsideBand);
        }
        if post_only != PostOnly::No {
            if !market.takes_post_only(before.kind, before.tif) {
                return Err(Reject::PostOnlyNotAllowed);
            }
            after.price = market.post_only_price(before.side, after.price, post_only)?;
        }
        self.within_limits(market.spec.id, after, false)?;
        if self.affords_amend(market.spec.id, before, after) { Ok(()) } else { Err(Reject::NotEnoughFunds) }
    }

    fn apply_amend(&mut self, amendment: Amendment, out: &mut Vec<Event>) {
        let Amendment { at, before, mut after, keeps, moves_stop } = amendment;
        let market = &mut self.markets[at];
        let since = out.len();
        out.push(Event::Amended {
            order: after.id,
            account: after.account,
            instrument: market.spec.id,
            side: after.side,
            price: after.price,
            lots: Lots(after.ordered),
            open: Lots(after.open),
            kept_priority: keeps,
            display: after.peak,
            stop: has_stop(&after).then_some(after.stop),
            minimum_execution: after.is_hidden().then_some(Lots(after.minimum)),
            expiry: expiry_of(after.tif),
        });
        market.remove(before.id);
        if !keeps {
            after.time = self.next_time();
        }
        let market = &mut self.markets[at];
        if after.place != Place::Active {
            market.orders.push(after);
        } else if keeps {
            after.shown = before.shown.min(after.open); // the hidden part goes first
            market.orders.push(after); // its time, and so its place, unchanged
            market.tell_level_of(&after, out);
        } else {
            market.tell_level_of(&before, out);
            let mode = self.self_match_of(after.account);
            self.act_on_entry(at, after, mode, out);
        }
        if moves_stop && self.markets[at].phase == Phase::Continuous && self.markets[at].is_due(&after) {
            self.trigger(at, after.id, out);
            self.act_elected(at, out);
        }
        let fresh = (after.kind == Kind::Hidden).then_some(after.id);
        self.settle(at, fresh, out);
        self.conclude(at, since, out);
    }
}
