//! What each trading command was answered, and whether that answer was due.
//!
//! Holds       an order is accepted exactly when no rule forbids it; only about margins is the venue taken at its word.
//! Start at    [`Auditor::judge_entry`].

use pitwire_model::{
    AccountId, Amend, CurrencyId, Event, InstrumentId, Lots, NewOrder, OrderId, OrderType, Phase, Priority, Reject,
    Side, Ticks, TimeInForce,
};

use crate::book::Live;
use crate::turn::{Leaves, Taker, Turn};
use crate::{Auditor, Judged, legal_lots, legal_price, offence};

impl Auditor {
    pub(crate) fn judge_entry(&mut self, new: &NewOrder, events: &[Event]) -> Judged {
        let due = self.refusal_due(new).err();
        match events {
            [Event::Rejected { order, account, reason }] if (*order, *account) == (new.id, new.account) => {
                // What a market buy would cost is for the book to say: no verdict.
                let cost = new.order_type.limit_price().or((new.side == Side::Sell).then_some(Ticks::ZERO));
                let market = self.markets.get(new.instrument.0 as usize).filter(|_| due.is_none());
                let cost = cost.zip(market).and_then(|(price, market)| market.terms.cost(new.side, price, new.lots.0));
                self.judge_refusal(due, *reason, new.account, cost)
            }
            [Event::Accepted { order, account, instrument, side, order_type, lots, tif, .. }, rest @ ..] => {
                let told = (*order, *account, *instrument, *side, *order_type, *lots, *tif);
                if told != (new.id, new.account, new.instrument, new.side, new.order_type, new.lots, new.tif) {
                    offence!("order {} was accepted as another than was entered", new.id);
                }
                if let Some(reason) = due {
                    offence!("order {order} was accepted and was to be refused: {}", reason.name());
                }
                self.follow_entry(new, rest)
            }
            _ => offence!("order {} was neither accepted nor refused, or both", new.id),
        }
    }

    /// The first rule that forbids this order, money aside.
    fn refusal_due(&self, new: &NewOrder) -> Result<(), Reject> {
        let market = self.markets.get(new.instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        if !self.ledger.knows(new.account) {
            return Err(Reject::UnknownAccount);
        }
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        legal_lots(new.lots)?;
        new.order_type.limit_price().map_or(Ok(()), legal_price)?;
        if self.orders.contains_key(&new.id) {
            return Err(Reject::DuplicateOrderId);
        }
        if may_rest(new) && market.book.resting >= market.spec.max_resting_orders as usize {
            return Err(Reject::BookFull);
        }
        Ok(())
    }

    /// `cost` is what the order spends of its currency, where that is known.
    fn judge_refusal(
        &self,
        due: Option<Reject>,
        told: Reject,
        account: AccountId,
        cost: Option<(CurrencyId, i128)>,
    ) -> Judged {
        let limited = || self.ledger.accounts.get(account.0 as usize).is_some_and(|holder| holder.limited);
        match due {
            Some(due) if due == told => Ok(()),
            None if told == Reject::NotEnoughFunds && limited() => match cost {
                Some(cost) if self.ledger.could_spend(account, cost, &self.markets) => Err(format!(
                    "account {account} was refused for want of {} of currency {}, and has it",
                    cost.1, cost.0
                )),
                _ => Ok(()),
            },
            Some(due) => Err(format!("refused as {}, and the first rule broken is {}", told.name(), due.name())),
            None => Err(format!("refused as {}, which was not so", told.name())),
        }
    }

    fn follow_entry(&mut self, new: &NewOrder, events: &[Event]) -> Judged {
        let limit = new.order_type.limit_price();
        let order = Live {
            id: new.id,
            account: new.account,
            instrument: new.instrument,
            side: new.side,
            day: new.tif == TimeInForce::Day,
            price: limit.unwrap_or_default(),
            open: new.lots.0,
            ordered: new.lots.0,
            arrival: 0,
        };
        let cost = self.cost(&order, order.open);
        match (limit, new.side) {
            (Some(_), _) => self.ledger.commit(order.account, cost)?,
            (None, Side::Sell) => self.ledger.can_spend(order.account, cost)?,
            (None, Side::Buy) => {} // what the offers ask is seen trade by trade
        }
        let mut turn = Turn::new(Leaves::Nobody);
        turn.taker = Some(Taker { order, limit, may_rest: may_rest(new) });
        self.follow(turn, events)
    }

    pub(crate) fn judge_amend(&mut self, amend: &Amend, events: &[Event]) -> Judged {
        let due = self.amend_due(amend);
        let (told, rest) = match events {
            [Event::AmendRefused { order, account, reason }] if (*order, *account) == (amend.order, amend.account) => {
                // An amend has its own reserve to spend.
                let extra = due.ok().and_then(|(before, after)| {
                    let ((currency, had), (_, needs)) =
                        (self.cost(&before, before.open)?, self.cost(&after, after.open)?);
                    Some((currency, needs - had))
                });
                return self.judge_refusal(due.err(), *reason, amend.account, extra);
            }
            [told @ Event::Amended { .. }, rest @ ..] => (told, rest),
            _ => offence!("an amend of order {} was neither done nor refused, or both", amend.order),
        };
        let (before, after) = match due {
            Ok(due) => due,
            Err(reason) => offence!("order {} was amended and was to be refused: {}", amend.order, reason.name()),
        };
        let keeps =
            amend.priority == Priority::KeepWhenReduced && before.price == after.price && after.open <= before.open;
        let expected = Event::Amended {
            order: after.id,
            account: after.account,
            instrument: after.instrument,
            side: after.side,
            price: after.price,
            lots: Lots(after.ordered),
            open: Lots(after.open),
            kept_priority: keeps,
            display: amend.display,
        };
        if *told != expected {
            offence!("an amend was told as {told:?} and is {expected:?}");
        }
        self.ledger.release(before.account, self.cost(&before, before.open));
        self.ledger.commit(after.account, self.cost(&after, after.open))?;
        let mut turn = Turn::new(Leaves::Nobody);
        turn.touch(before.instrument)?;
        turn.untold = Some((before.instrument, before.side, before.price));
        if keeps {
            self.markets[before.instrument.0 as usize].book.shrink(&before, before.open - after.open);
            self.orders.insert(after.id, after);
        } else {
            self.forget(&before);
            turn.taker = Some(Taker { order: after, limit: Some(after.price), may_rest: true });
        }
        self.follow(turn, rest)
    }

    /// The order before and after, or the first rule that forbids the amend, money aside.
    fn amend_due(&self, amend: &Amend) -> Result<(Live, Live), Reject> {
        let before = *self.orders.get(&amend.order).ok_or(Reject::UnknownOrder)?;
        if before.account != amend.account {
            return Err(Reject::NotOwner);
        }
        if self.markets[before.instrument.0 as usize].phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        legal_lots(amend.lots)?;
        let filled = before.ordered - before.open;
        let (ordered, open) = match amend.priority {
            Priority::KeepWhenReduced => (amend.lots.0, amend.lots.0.saturating_sub(filled)),
            Priority::AlwaysLose => (amend.lots.0 + filled, amend.lots.0),
        };
        legal_lots(Lots(ordered))?;
        legal_price(amend.price)?;
        if open == 0 {
            return Err(Reject::AmountAlreadyFilled);
        }
        Ok((before, Live { price: amend.price, open, ordered, ..before }))
    }

    pub(crate) fn judge_cancel(&mut self, account: AccountId, order: OrderId, events: &[Event]) -> Judged {
        let due = match self.orders.get(&order) {
            None => Some(Reject::UnknownOrder),
            Some(live) if live.account != account => Some(Reject::NotOwner),
            Some(_) => None,
        };
        if let [Event::CancelRefused { order: told, account: whose, reason }] = events
            && (*told, *whose) == (order, account)
            && due == Some(*reason)
        {
            return Ok(());
        }
        if let Some(reason) = due {
            offence!("a cancel of order {order} was to be refused ({}) and was not", reason.name());
        }
        self.follow(Turn::new(Leaves::One(order)), events)?;
        if self.orders.contains_key(&order) {
            offence!("order {order} was to be cancelled and is still there");
        }
        Ok(())
    }

    pub(crate) fn judge_cancel_all(
        &mut self,
        account: AccountId,
        instrument: Option<InstrumentId>,
        events: &[Event],
    ) -> Judged {
        let known = self.ledger.knows(account)
            && instrument.is_none_or(|instrument| (instrument.0 as usize) < self.markets.len());
        if !known {
            // Nobody's orders are none: silence and a refusal say the same.
            return match events {
                [] | [Event::CommandRefused { .. }] => Ok(()),
                _ => Err(format!("a mass cancel for account {account} cancelled something that cannot be")),
            };
        }
        self.follow(Turn::new(Leaves::Of(account, instrument)), events)?;
        let live = &self.ledger.accounts[account.0 as usize].live_orders;
        if live.keys().any(|of| instrument.is_none_or(|asked| asked == *of)) {
            offence!("a mass cancel left orders of account {account}");
        }
        Ok(())
    }

    pub(crate) fn judge_day_end(&mut self, events: &[Event]) -> Judged {
        let Some((Event::DayEnded, rest)) = events.split_last() else {
            offence!("the day was to end and did not");
        };
        self.follow(Turn::new(Leaves::DayOrders), rest)?;
        if self.day_orders > 0 {
            offence!("the day ended and {} DAY orders are still there", self.day_orders);
        }
        Ok(())
    }
}

fn may_rest(new: &NewOrder) -> bool {
    matches!(new.order_type, OrderType::Limit { .. }) && new.tif != TimeInForce::ImmediateOrCancel
}
