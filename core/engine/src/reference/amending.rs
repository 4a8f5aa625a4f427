//! Amending: the order before and after, the checks in the order of the rules, and the place that is kept or lost.

use pitwire_model::{Amend, CancelReason, Event, InstrumentId, Lots, Phase, Priority, Reject};

use super::entering::{legal_lots, legal_price};
use super::matching::{Incoming, cancelled};
use super::{Order, ReferenceEngine};

impl ReferenceEngine {
    pub(super) fn amend(&mut self, amend: &Amend, out: &mut Vec<Event>) {
        match self.may_amend(amend) {
            Err(reason) => out.push(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok((instrument, before, after)) => self.apply_amend(amend.priority, instrument, before, after, out),
        }
    }

    /// The order as it stands and as it will be.
    fn may_amend(&self, amend: &Amend) -> Result<(InstrumentId, Order, Order), Reject> {
        let (instrument, before) = self.find(amend.order).ok_or(Reject::UnknownOrder)?;
        if before.account != amend.account {
            return Err(Reject::NotOwner);
        }
        let market = &self.markets[instrument.0 as usize];
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        let filled = before.ordered - before.open;
        let (ordered, open) = match amend.priority {
            Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
            Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
        };
        let peak = amend.display.or(before.peak);
        // Zero is no peak, and as good as none until the display is judged.
        let shows_as_before = peak.unwrap_or_default() == before.peak.unwrap_or_default();
        let is_partial_cancel = amend.price == before.price && shows_as_before && open <= before.open;
        if !is_partial_cancel {
            self.not_blocked(before.account, before.session)?;
        }
        // What was asked for must be an order's quantity, and so must what the order's total becomes.
        if !legal_lots(amend.lots.0) || !legal_lots(ordered) {
            return Err(Reject::QuantityOutOfRange);
        }
        if open == 0 {
            return Err(Reject::AmountAlreadyFilled);
        }
        if !legal_price(amend.price) {
            return Err(Reject::PriceOutOfRange);
        }
        if amend.display.is_some_and(|display| !(1..=amend.lots.0).contains(&display.0)) {
            return Err(Reject::DisplayOutOfRange);
        }
        let mut after = Order { price: amend.price, open, ordered, peak, ..before };
        if is_partial_cancel {
            return Ok((instrument, before, after));
        }
        after.price = market.post_only_price(before.side, amend.price, amend.post_only)?;
        self.within_limits(instrument, before.side, Some(after.price), open)?;
        if !self.affords_amend(instrument, &before, after.price, open) {
            return Err(Reject::NotEnoughFunds);
        }
        Ok((instrument, before, after))
    }

    fn apply_amend(
        &mut self,
        priority: Priority,
        instrument: InstrumentId,
        before: Order,
        mut after: Order,
        out: &mut Vec<Event>,
    ) {
        let keeps = priority == Priority::KeepWhenReduced
            && after.price == before.price
            && after.open <= before.open
            && after.peak == before.peak;
        out.push(Event::Amended {
            order: after.id,
            account: after.account,
            instrument,
            side: after.side,
            price: after.price,
            lots: Lots(after.ordered),
            open: Lots(after.open),
            kept_priority: keeps,
            display: after.peak,
            stop: None,
            minimum_execution: None,
            expiry: None,
        });
        let mode = self.self_match_of(after.account);
        let market = &mut self.markets[instrument.0 as usize];
        market.remove(before.id);
        if keeps {
            after.shown = before.shown.min(after.open); // the hidden part goes first
            market.orders.push(after); // its arrival, and so its place, unchanged
            market.tell_level(after.side, after.price, out);
        } else {
            market.tell_level(before.side, before.price, out);
            let incoming = Incoming { order: after, limit: Some(after.price), mode, met_its_own: false };
            let left = self.trade(instrument, incoming, out);
            if left.met_its_own && left.order.open > 0 {
                out.push(cancelled(instrument, &left.order, left.order.price, CancelReason::SelfMatch));
            } else if left.order.open > 0 {
                self.rest(instrument, left.order, out);
            }
        }
        self.markets[instrument.0 as usize].tell_change(out);
    }
}
