//! What each trading command was answered, and whether that answer was due.
//!
//! Holds       an order is accepted exactly when no rule forbids it; only about margins is the venue taken at its word.
//! Start at    [`Auditor::judge_entry`].

use pitwire_model::{
    AccountId, CancelReason, CurrencyId, Event, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, SessionId, Side,
    TimeInForce,
};

use crate::book::Live;
use crate::turn::{Taker, Turn};
use crate::{Auditor, Judged, legal_lots, legal_price, offence};

impl Auditor {
    pub(crate) fn judge_entry(&mut self, new: &NewOrder, events: &[Event]) -> Judged {
        let due = self.entry_due(new);
        match events {
            [Event::Rejected { order, account, reason }] if (*order, *account) == (new.id, new.account) => {
                let cost = due.ok().and_then(|order_type| {
                    let taker = self.taker(&NewOrder { order_type, ..new.clone() });
                    self.entry_cost(&taker)
                });
                self.judge_refusal(due.err(), *reason, new.account, cost)
            }
            [Event::Accepted { order, account, instrument, side, order_type, lots, tif, display }, rest @ ..] => {
                let told = (*order, *account, *instrument, *side, *lots, *tif, *display);
                if told != (new.id, new.account, new.instrument, new.side, new.lots, new.tif, new.display) {
                    offence!("order {} was accepted as another than was entered", new.id);
                }
                let due = match due {
                    Err(reason) => offence!("order {order} was accepted and was to be refused: {}", reason.name()),
                    Ok(due) => due,
                };
                if *order_type != due {
                    offence!(
                        "order {} was accepted as another than was entered: {order_type:?} and not {due:?}",
                        new.id
                    );
                }
                self.follow_entry(&NewOrder { order_type: due, ..new.clone() }, rest)
            }
            _ => offence!("order {} was neither accepted nor refused, or both", new.id),
        }
    }

    /// The price at which the order is to be accepted, or the first rule that forbids it, money aside.
    fn entry_due(&self, new: &NewOrder) -> Result<OrderType, Reject> {
        let market = self.markets.get(new.instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        let holder = self.ledger.accounts.get(new.account.0 as usize).ok_or(Reject::UnknownAccount)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if holder.standing.closed {
            return Err(Reject::AccountClosed);
        }
        self.unblocked(new.account, new.session)?;
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        legal_lots(new.lots)?;
        new.order_type.limit_price().map_or(Ok(()), legal_price)?;
        if self.orders.contains_key(&new.id) {
            return Err(Reject::DuplicateOrderId);
        }
        let rests = may_rest(new);
        if new.post_only != PostOnly::No && !rests {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if new.display.is_some_and(|display| !rests || display.is_zero() || display > new.lots) {
            return Err(Reject::DisplayOutOfRange);
        }
        let order_type = match new.order_type {
            OrderType::Limit { price } => OrderType::Limit { price: market.posted(new.side, price, new.post_only)? },
            other => other,
        };
        market.within_limits(new.side, order_type.limit_price(), new.lots.0)?;
        if rests && market.book.resting >= market.spec.max_resting_orders as usize {
            return Err(Reject::BookFull);
        }
        let most = self.names.accounts[new.account.0 as usize].settings.max_open_orders;
        if rests && most.is_some_and(|most| holder.live_orders.len() >= most as usize) {
            return Err(Reject::TooManyOpenOrders);
        }
        Ok(order_type)
    }

    /// Whether nothing keeps the account or the session from trading.
    pub(crate) fn unblocked(&self, account: AccountId, session: SessionId) -> Result<(), Reject> {
        let standing = &self.ledger.accounts[account.0 as usize].standing;
        if self.venue_killed || standing.killed || self.killed_sessions.contains(&session) {
            return Err(Reject::Killed);
        }
        if standing.throttled { Err(Reject::ExecutionThrottle) } else { Ok(()) }
    }

    /// `cost` is what the order spends of its currency, where that is known.
    pub(crate) fn judge_refusal(
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

    fn taker(&self, new: &NewOrder) -> Taker {
        let limit = new.order_type.limit_price();
        let order = Live {
            id: new.id,
            account: new.account,
            instrument: new.instrument,
            side: new.side,
            day: new.tif == TimeInForce::Day,
            price: limit.unwrap_or_default(),
            open: new.lots.0,
            shown: 0,
            peak: new.display,
            ordered: new.lots.0,
            arrival: 0,
            group: new.match_group,
            session: new.session,
            cancel_on_disconnect: new.cancel_on_disconnect,
        };
        Taker {
            order,
            is_market: limit.is_none(),
            limit: limit.or_else(|| self.markets[new.instrument.0 as usize].collar(new.side)),
            may_rest: may_rest(new),
            mode: new.self_match.unwrap_or(self.names.accounts[new.account.0 as usize].settings.self_match),
            whole: new.tif == TimeInForce::FillOrKill,
            stopped: false,
        }
    }

    /// What a spot order must have free: a market order what the offers in its reach ask.
    fn entry_cost(&self, taker: &Taker) -> Option<(CurrencyId, i128)> {
        let (currency, units) = self.cost(&taker.order, taker.order.open)?;
        if !taker.is_market || taker.order.side == Side::Sell {
            return Some((currency, units));
        }
        let asked = self.reach(taker).into_iter().filter_map(|(price, lots)| {
            let (_, units) = self.cost(&Live { price, ..taker.order }, lots)?;
            Some(units)
        });
        Some((currency, asked.sum()))
    }

    fn follow_entry(&mut self, new: &NewOrder, events: &[Event]) -> Judged {
        let taker = self.taker(new);
        let (order, cost) = (taker.order, self.cost(&taker.order, taker.order.open));
        match (taker.is_market, new.side) {
            (false, _) => self.ledger.commit(order.account, cost)?,
            (true, Side::Sell) => self.ledger.can_spend(order.account, cost)?,
            (true, Side::Buy) => {} // what the offers ask is seen trade by trade
        }
        if taker.whole {
            let there: u64 = self.reach(&taker).iter().map(|(_, lots)| lots).sum();
            if there < order.open {
                self.ledger.release(order.account, cost.filter(|_| !taker.is_market));
                return judge_kill(&order, there, events);
            }
        }
        self.follow(Turn { taker: Some(taker), ..Turn::default() }, events)
    }
}

/// A fill-or-kill order that cannot be filled whole leaves no other trace than its own end.
fn judge_kill(order: &Live, there: u64, events: &[Event]) -> Judged {
    let killed = Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        price: order.price,
        open: Lots(order.open),
        reason: CancelReason::FillOrKill,
    };
    match events {
        [only] if *only == killed => Ok(()),
        _ => Err(format!("order {} finds {there} of {} and was to be killed whole", order.id, order.open)),
    }
}

fn may_rest(new: &NewOrder) -> bool {
    matches!((new.order_type, new.tif), (OrderType::Limit { .. }, TimeInForce::Day | TimeInForce::GoodTillCancel))
}
