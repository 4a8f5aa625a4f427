//! Amends: the order before and after, whether the amend was due, and the place that is kept or lost (rulebook 9).

use pitwire_model::{Amend, Event, Expiry, Lots, Phase, PostOnly, Priority, Reject, Ticks, TimeInForce};

use crate::book::{Kind, Live, Place};
use crate::commands::may_rest;
use crate::fault::{Judged, offence};
use crate::limits::Worth;
use crate::tables::tables;
use crate::turn::Turn;
use crate::{Auditor, legal_lots, legal_price};

/// What an amend is to make of an order.
#[derive(Clone, Copy, Debug)]
struct Change {
    before: Live,
    after: Live,
    keeps: bool,
}

impl Change {
    /// Whether it could cost more than the order does now.
    fn asks_for_funds(&self) -> bool {
        self.after.price != self.before.price || self.after.open > self.before.open
    }

    fn told_as(&self) -> Event {
        let after = &self.after;
        let waits = matches!(after.kind, Kind::Stop | Kind::StopLimit);
        Event::Amended {
            order: after.id,
            account: after.account,
            instrument: after.instrument,
            side: after.side,
            price: after.price,
            lots: Lots(after.ordered),
            open: Lots(after.open),
            kept_priority: self.keeps,
            display: after.peak,
            stop: waits.then_some(after.stop),
            minimum_execution: after.is_hidden().then_some(Lots(after.minimum)),
            expiry: match after.tif {
                TimeInForce::GoodTillDate { day } => Some(Expiry::Day(day)),
                TimeInForce::GoodTillTime { at } => Some(Expiry::Time(at)),
                _ => None,
            },
        }
    }
}

impl Auditor {
    pub(crate) fn judge_amend(&mut self, turn: &mut Turn<'_>, amend: &Amend) -> Judged {
        let due = self.amend_due(amend);
        let told = match self.peek(turn)? {
            Some(Event::AmendRefused { order, account, reason })
                if (*order, *account) == (amend.order, amend.account) =>
            {
                turn.pass();
                self.judge_amend_refused(amend, &due, *reason)?;
                return self.nothing_follows(turn);
            }
            Some(told @ Event::Amended { order, .. }) if *order == amend.order => told,
            _ => offence!(S1, "an amend of order {} was neither done nor refused, or both", amend.order),
        };
        let change = match due {
            Ok(due) => due,
            Err(reason) => offence!(M5, "order {} was amended and was to be refused: {}", amend.order, reason.name()),
        };
        let due = change.told_as();
        if let Event::Amended { kept_priority, .. } = told
            && *kept_priority != change.keeps
        {
            offence!(M2, "an amend was told as {told:?} and is {due:?}: the place of order {} is wrong", amend.order);
        }
        if *told != due {
            offence!(M4, "an amend was told as {told:?} and is {due:?}");
        }
        turn.pass();
        let before = self.market_of(change.before.instrument).book.touch();
        self.follow_amend(turn, amend, &change, before)?;
        self.nothing_follows(turn)
    }

    /// An amend has its own reserve to spend.
    fn judge_amend_refused(&self, amend: &Amend, due: &Result<Change, Reject>, told: Reject) -> Judged {
        let extra = due.as_ref().ok().and_then(|Change { before, after, .. }| {
            let ((currency, had), (_, needs)) = (self.cost(before, before.open)?, self.cost(after, after.open)?);
            Some((currency, needs - had))
        });
        if told == Reject::NotEnoughFunds && due.as_ref().is_ok_and(|change| !change.asks_for_funds()) {
            offence!(S1, "order {} was refused for want of funds that its amend does not ask for", amend.order);
        }
        self.judge_refusal(due.as_ref().err().copied(), told, amend.account, extra)
    }

    fn follow_amend(
        &mut self,
        turn: &mut Turn<'_>,
        amend: &Amend,
        change: &Change,
        touch: crate::book::Touch,
    ) -> Judged {
        let Change { before, mut after, keeps } = *change;
        let instrument = before.instrument;
        self.forget(turn, &before);
        let cost = self.cost(&after, after.open);
        if change.asks_for_funds() {
            self.ledger.can_spend(after.account, cost)?;
        }
        self.ledger.set_aside(after.account, cost);
        if !keeps {
            after.arrival = self.next_arrival();
        }
        let market = self.market_of(instrument);
        let (phase, is_batched) = (market.phase, market.is_batched());
        let arrived = after.is_hidden().then_some(after.id);
        if keeps || !after.is_active() {
            // The hidden part goes first.
            let shown = if after.is_active() { before.shown.min(after.open) } else { after.shown };
            let after = Live { shown, ..after };
            self.keep(turn, after);
            let is_asked = after.place == Place::Unelected && amend.stop.is_some();
            if is_asked && phase == Phase::Continuous && self.is_electable(&after) {
                return self.follow_election(turn, &after, touch);
            }
        } else if phase == Phase::ClosingPriceCross {
            let taker = self.taker(after, None, true);
            self.arrive(turn, taker)?;
        } else if phase == Phase::Continuous && !is_batched {
            let taker = self.taker(Live { shown: 0, ..after }, None, true);
            if self.aggress(turn, taker)?.is_some() {
                self.follow_breach(turn, instrument, &[])?;
                return self.conclude(turn, instrument);
            }
        } else {
            self.see_level_left(turn, &before)?;
            self.keep(turn, Live { shown: after.fresh_part(), ..after });
        }
        self.settle_book(turn, instrument, Some(touch), arrived)?;
        self.conclude(turn, instrument)
    }

    /// The order before and after, or the first rule that forbids the amend, money aside.
    fn amend_due(&self, amend: &Amend) -> Result<Change, Reject> {
        let before = *self.orders.get(&amend.order).ok_or(Reject::UnknownOrder)?;
        if before.account != amend.account {
            return Err(Reject::NotOwner);
        }
        let market = self.market_of(before.instrument);
        let permits = tables().permits(market.phase);
        if !permits.amend {
            return Err(Reject::NotOpen);
        }
        let tif = amendable(&before, amend)?;
        if before.is_hidden() && !permits.amend_hidden {
            return Err(Reject::TypeNotAllowedInSession);
        }
        let filled = before.ordered - before.open;
        let (ordered, open) = match amend.priority {
            Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
            Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
        };
        let has_limit = !matches!(before.kind, Kind::Market | Kind::Stop);
        let (stop, minimum) =
            (amend.stop.unwrap_or(before.stop), amend.minimum_execution.map_or(before.minimum, |lots| lots.0));
        let has_new_peak = amend.display.is_some_and(|display| display != before.peak.unwrap_or_default());
        // Nothing but the session stands in the way of one who only gives lots back.
        let is_partial_cancel = amend.price == before.price
            && !has_new_peak
            && open <= before.open
            && (stop, minimum, tif) == (before.stop, before.minimum, before.tif);
        if !is_partial_cancel {
            self.unblocked(before.account, before.session)?;
        }
        legal_lots(amend.lots)?;
        legal_lots(Lots(ordered))?;
        if open == 0 {
            return Err(Reject::AmountAlreadyFilled);
        }
        if has_limit {
            legal_price(amend.price)?;
        }
        amend.stop.map_or(Ok(()), legal_price)?;
        let may_show = may_rest(before.kind, before.tif);
        if amend.display.is_some_and(|display| !may_show || display.is_zero() || display > amend.lots) {
            return Err(Reject::DisplayOutOfRange);
        }
        if before.is_hidden() {
            market.may_hide(ordered, open, minimum)?;
        }
        if amend.expiry.is_some() {
            self.expiry_due(tif)?;
        }
        let peak = amend.display.or(before.peak);
        let mut after = Live { price: amend.price, open, ordered, peak, stop, minimum, tif, ..before };
        if !is_partial_cancel {
            if has_limit && amend.price != before.price {
                market.within_band(amend.price)?;
            }
            if amend.post_only != PostOnly::No {
                market.may_post(before.kind == Kind::Limit)?;
                after.price = self.posted_without(&before, amend.price, amend.post_only)?;
            }
            let worth = if has_limit { Worth::Limit(after.price) } else { Worth::Waiting(before.bound) };
            market.within_limits(before.side, open, worth)?;
        }
        let is_waiting = before.place == Place::Unelected;
        let same_price = before.price == after.price || is_waiting;
        let keeps = amend.priority == Priority::KeepWhenReduced
            && same_price
            && before.peak == after.peak
            && after.open <= before.open;
        Ok(Change { before, after, keeps })
    }

    /// A post-only amend is judged by the other side alone, which the order itself is no part of.
    fn posted_without(&self, before: &Live, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        self.market_of(before.instrument).posted(before.side, price, post_only)
    }
}

/// Its time in force afterwards, unless the amend asks for what the order's type or time in force knows nothing of.
fn amendable(order: &Live, amend: &Amend) -> Result<TimeInForce, Reject> {
    let is_stop = matches!(order.kind, Kind::Stop | Kind::StopLimit);
    let has_limit = !matches!(order.kind, Kind::Market | Kind::Stop);
    if (amend.stop.is_some() && !is_stop)
        || (amend.minimum_execution.is_some() && !order.is_hidden())
        || (amend.price != Ticks::ZERO && !has_limit)
    {
        return Err(Reject::NotAmendable);
    }
    match (amend.expiry, order.tif) {
        (None, tif) => Ok(tif),
        (Some(Expiry::Day(day)), TimeInForce::GoodTillDate { .. }) => Ok(TimeInForce::GoodTillDate { day }),
        (Some(Expiry::Time(at)), TimeInForce::GoodTillTime { .. }) => Ok(TimeInForce::GoodTillTime { at }),
        _ => Err(Reject::NotAmendable),
    }
}
