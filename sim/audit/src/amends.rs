//! Amends: the order before and after, whether the amend was due, and the place that is kept or lost.

use pitwire_model::{Amend, Event, Lots, Phase, Priority, Reject};

use crate::book::Live;
use crate::turn::{Taker, Turn};
use crate::{Auditor, Judged, legal_lots, legal_price, offence};

/// What an amend is to make of an order.
#[derive(Clone, Copy, Debug)]
struct Change {
    before: Live,
    after: Live,
}

impl Change {
    /// Whether it could cost more than the order does now.
    fn asks_for_funds(&self) -> bool {
        self.after.price != self.before.price || self.after.open > self.before.open
    }
}

impl Auditor {
    pub(crate) fn judge_amend(&mut self, amend: &Amend, events: &[Event]) -> Judged {
        let due = self.amend_due(amend);
        let (told, rest) = match events {
            [Event::AmendRefused { order, account, reason }] if (*order, *account) == (amend.order, amend.account) => {
                return self.judge_amend_refused(amend, due, *reason);
            }
            [told @ Event::Amended { .. }, rest @ ..] => (told, rest),
            _ => offence!("an amend of order {} was neither done nor refused, or both", amend.order),
        };
        let change = match due {
            Ok(due) => due,
            Err(reason) => offence!("order {} was amended and was to be refused: {}", amend.order, reason.name()),
        };
        let Change { before, after } = change;
        let keeps = amend.priority == Priority::KeepWhenReduced
            && (before.price, before.peak) == (after.price, after.peak)
            && after.open <= before.open;
        let expected = Event::Amended {
            order: after.id,
            account: after.account,
            instrument: after.instrument,
            side: after.side,
            price: after.price,
            lots: Lots(after.ordered),
            open: Lots(after.open),
            kept_priority: keeps,
            display: after.peak,
            stop: None,
            minimum_execution: None,
            expiry: None,
        };
        if *told != expected {
            offence!("an amend was told as {told:?} and is {expected:?}");
        }
        self.ledger.release(before.account, self.cost(&before, before.open));
        let cost = self.cost(&after, after.open);
        if change.asks_for_funds() {
            self.ledger.can_spend(after.account, cost)?;
        }
        self.ledger.set_aside(after.account, cost);
        self.follow_amend(&before, after, keeps, rest)
    }

    /// An amend has its own reserve to spend.
    fn judge_amend_refused(&self, amend: &Amend, due: Result<Change, Reject>, told: Reject) -> Judged {
        let extra = due.ok().and_then(|Change { before, after }| {
            let ((currency, had), (_, needs)) = (self.cost(&before, before.open)?, self.cost(&after, after.open)?);
            Some((currency, needs - had))
        });
        if told == Reject::NotEnoughFunds && due.is_ok_and(|change| !change.asks_for_funds()) {
            offence!("order {} was refused for want of funds that its amend does not ask for", amend.order);
        }
        self.judge_refusal(due.err(), told, amend.account, extra)
    }

    fn follow_amend(&mut self, before: &Live, mut after: Live, keeps: bool, rest: &[Event]) -> Judged {
        let mut turn = Turn::default();
        turn.touch(before.instrument)?;
        turn.untold = Some((before.instrument, before.side, before.price));
        if keeps {
            // The hidden part goes first.
            after.shown = before.shown.min(after.open);
            self.markets[before.instrument.0 as usize].book.shrink(before, before.shown - after.shown);
            self.orders.insert(after.id, after);
        } else {
            self.forget(before);
            turn.taker = Some(Taker {
                order: after,
                is_market: false,
                limit: Some(after.price),
                may_rest: true,
                mode: self.names.accounts[after.account.0 as usize].settings.self_match,
                whole: false,
                stopped: false,
            });
        }
        self.follow(turn, rest)
    }

    /// The order before and after, or the first rule that forbids the amend, money aside.
    fn amend_due(&self, amend: &Amend) -> Result<Change, Reject> {
        let before = *self.orders.get(&amend.order).ok_or(Reject::UnknownOrder)?;
        if before.account != amend.account {
            return Err(Reject::NotOwner);
        }
        let market = &self.markets[before.instrument.0 as usize];
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        let filled = before.ordered - before.open;
        let (ordered, open) = match amend.priority {
            Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
            Priority::AlwaysLose => (amend.lots.0.saturating_add(filled), amend.lots.0),
        };
        let has_new_peak = amend.display.is_some_and(|display| display != before.peak.unwrap_or_default());
        // Nothing but the phase stands in the way of one who only gives lots back.
        let is_partial_cancel = amend.price == before.price && !has_new_peak && open <= before.open;
        if !is_partial_cancel {
            self.unblocked(before.account, before.session)?;
        }
        legal_lots(amend.lots)?;
        legal_lots(Lots(ordered))?;
        if open == 0 {
            return Err(Reject::AmountAlreadyFilled);
        }
        legal_price(amend.price)?;
        if amend.display.is_some_and(|display| display.is_zero() || display > amend.lots) {
            return Err(Reject::DisplayOutOfRange);
        }
        let mut after = Live { price: amend.price, open, ordered, peak: amend.display.or(before.peak), ..before };
        if !is_partial_cancel {
            after.price = market.posted(before.side, amend.price, amend.post_only)?;
            market.within_limits(before.side, Some(after.price), open)?;
        }
        Ok(Change { before, after })
    }
}
