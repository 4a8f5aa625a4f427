//! The events of one trading command, judged as they are read.
//!
//! Holds       1. at most one level has changed and not been told at any moment;
//!             2. a book's last word is its own change number: nothing else may follow for it;
//!             3. what a trade makes due (a refreshed iceberg, a tripped throttle) is the very next event.
//! Start at    [`Auditor::follow`], then `trades`.

use std::collections::VecDeque;

use pitwire_model::{
    AccountId, CancelReason, CurrencyId, Event, InstrumentId, Lots, OrderId, Phase, SelfMatch, Side, Ticks,
};

use crate::book::Live;
use crate::limits::worse;
use crate::{Auditor, Judged, offence};

/// What is still owed before the command may end.
#[derive(Debug, Default)]
pub struct Turn {
    pub taker: Option<Taker>,
    /// The resting orders that the command takes away, in the order in which they must go, and why.
    pub leaves: VecDeque<(InstrumentId, OrderId)>,
    pub reason: Option<CancelReason>,
    /// An iceberg whose shown part is used up.
    pub refresh: Option<OrderId>,
    /// Accounts whose throttle a fill has tripped.
    pub trips: VecDeque<AccountId>,
    /// A level that changed and was not told yet.
    pub untold: Option<(InstrumentId, Side, Ticks)>,
    /// A book that changed and has not had its last word yet.
    pub touched: Option<InstrumentId>,
}

#[derive(Debug)]
pub struct Taker {
    pub order: Live,
    pub is_market: bool,
    /// The worst price at which it trades: its own, or a market order's collar.
    pub limit: Option<Ticks>,
    pub may_rest: bool,
    pub mode: SelfMatch,
    /// It trades whole or not at all, and it could be filled.
    pub whole: bool,
    /// It has met an order of its own group under a mode that ends it.
    pub stopped: bool,
}

impl Taker {
    pub fn reaches(&self, price: Ticks) -> bool {
        self.limit.is_none_or(|limit| !worse(self.order.side, price, limit))
    }

    pub fn must_not_meet(&self, resting: &Live) -> bool {
        self.mode != SelfMatch::Allow && self.order.is_of_group(resting)
    }
}

impl Turn {
    pub fn touch(&mut self, instrument: InstrumentId) -> Judged {
        match self.touched.replace(instrument) {
            Some(before) if before != instrument => {
                Err(format!("instrument {instrument} changed before instrument {before} had its change number"))
            }
            _ => Ok(()),
        }
    }

    pub fn nothing_untold(&self) -> Judged {
        match self.untold {
            Some((instrument, side, price)) => {
                Err(format!("the {side:?} level {price} of instrument {instrument} changed and was not told"))
            }
            None => Ok(()),
        }
    }

    /// What the last trade made due and is not what comes now.
    fn nothing_due(&self) -> Judged {
        if let Some(order) = self.refresh {
            offence!("order {order} has shown all it shows and was not refreshed");
        }
        match self.trips.front() {
            Some(account) => Err(format!("account {account} traded more often than it may and was not stopped")),
            None => Ok(()),
        }
    }

    fn nobody_stays(&self, instrument: Option<InstrumentId>) -> Judged {
        match self.leaves.front() {
            Some((of, order)) if instrument.is_none_or(|instrument| instrument == *of) => {
                Err(format!("order {order} was to be cancelled and is still there"))
            }
            _ => Ok(()),
        }
    }
}

impl Auditor {
    pub(crate) fn follow(&mut self, mut turn: Turn, events: &[Event]) -> Judged {
        for event in events {
            match event {
                Event::Refreshed { .. } => self.see_refreshed(&mut turn, event)?,
                Event::ThrottleTripped { account } if turn.refresh.is_none() => {
                    self.see_tripped(&mut turn, *account)?
                }
                _ => {
                    turn.nothing_due()?;
                    self.see(&mut turn, event)?;
                }
            }
        }
        turn.nothing_due()?;
        turn.nothing_untold()?;
        turn.nobody_stays(None)?;
        nobody_forgotten(&mut turn)?;
        match turn.touched {
            Some(instrument) => Err(format!("instrument {instrument} changed and was given no change number")),
            None => Ok(()),
        }
    }

    fn see(&mut self, turn: &mut Turn, event: &Event) -> Judged {
        match event {
            Event::Trade { .. } => self.see_trade(turn, event),
            Event::Level { instrument, side, price, lots } => self.see_level(turn, (*instrument, *side, *price), *lots),
            Event::Cancelled { .. } => self.see_cancelled(turn, event),
            Event::BookChanged { instrument, change_id } => self.see_changed(turn, *instrument, *change_id),
            other => Err(format!("{other:?} does not belong to this command")),
        }
    }

    fn see_level(&mut self, turn: &mut Turn, level: (InstrumentId, Side, Ticks), told: Lots) -> Judged {
        let (instrument, side, price) = level;
        if turn.untold.is_none()
            && let Some(taker) = turn.taker.take_if(|taker| {
                (taker.order.instrument, taker.order.side) == (instrument, side) && taker.order.open > 0
            })
        {
            self.see_resting(&taker, price)?;
            turn.untold = Some(level);
            turn.touch(instrument)?;
        }
        if turn.untold != Some(level) {
            turn.nothing_untold()?;
            offence!("the {side:?} level {price} of instrument {instrument} was told and had not changed");
        }
        let implied = self.markets[instrument.0 as usize].book.level(side, price);
        if told != implied {
            offence!("the {side:?} level {price} of instrument {instrument} was told as {told} and shows {implied}");
        }
        turn.untold = None;
        Ok(())
    }

    /// What is left of an incoming order joins the book.
    fn see_resting(&mut self, taker: &Taker, price: Ticks) -> Judged {
        let order = &taker.order;
        if !taker.may_rest {
            offence!("order {} may not rest and was told as resting", order.id);
        }
        if order.price != price {
            offence!("order {} rests at {price}, and its limit is {}", order.id, order.price);
        }
        if taker.stopped || self.meets_its_own(taker) {
            offence!("order {} rests and was to be cancelled: it met its own group", order.id);
        }
        self.rest(*order);
        Ok(())
    }

    fn see_cancelled(&mut self, turn: &mut Turn, event: &Event) -> Judged {
        let Event::Cancelled { order, account, instrument, side, price, open, reason } = *event else {
            return Ok(());
        };
        let expired = turn.taker.take_if(|taker| taker.order.id == order);
        let left = match (&expired, self.orders.get(&order)) {
            (Some(taker), _) => taker.order,
            (None, Some(live)) => *live,
            (None, None) => offence!("order {order} was cancelled and did not exist"),
        };
        if (account, instrument, side, price, open.0)
            != (left.account, left.instrument, left.side, left.price, left.open)
        {
            offence!("order {order} was cancelled as {event:?}, and it is {left:?}");
        }
        let is_met = expired.is_none() && reason == CancelReason::SelfMatch;
        if !is_met || turn.untold.is_some_and(|untold| untold != (instrument, side, price)) {
            turn.nothing_untold()?;
        }
        self.ledger.release(left.account, self.cost(&left, left.open).filter(|_| left.price > Ticks(0)));
        if let Some(taker) = expired {
            return self.judge_expiry(&taker, reason);
        }
        if is_met {
            self.judge_met(turn, &left)?;
        } else if turn.leaves.pop_front() != Some((instrument, order)) {
            let due = if turn.leaves.is_empty() { "and nobody asked for it" } else { "out of order" };
            offence!("order {order} was cancelled ({reason:?}) {due}");
        } else if turn.reason != Some(reason) {
            offence!("order {order} was cancelled ({reason:?}), and the reason is {:?}", turn.reason);
        }
        self.forget(&left);
        turn.untold = Some((instrument, side, price));
        turn.touch(instrument)
    }

    /// A resting order leaves because it met an incoming one of its own group.
    fn judge_met(&self, turn: &mut Turn, resting: &Live) -> Judged {
        let Some(taker) = turn.taker.as_mut().filter(|taker| taker.order.open > 0 && !taker.stopped) else {
            offence!("order {} was cancelled to keep it from its own, and nothing was coming in", resting.id);
        };
        let cancels = matches!(taker.mode, SelfMatch::CancelResting | SelfMatch::CancelBoth);
        let book = &self.markets[resting.instrument.0 as usize].book;
        let is_next = resting.instrument == taker.order.instrument
            && book.first(taker.order.side.opposite()) == Some(resting.id)
            && taker.reaches(resting.price);
        if !cancels || !is_next || !taker.order.is_of_group(resting) {
            offence!("order {} was cancelled to keep it from order {}, which was not due", resting.id, taker.order.id);
        }
        taker.stopped = taker.mode == SelfMatch::CancelBoth;
        Ok(())
    }

    /// Whether the next order that an incoming one would trade with is of its group, and that ends it.
    fn meets_its_own(&self, taker: &Taker) -> bool {
        let book = &self.markets[taker.order.instrument.0 as usize].book;
        let next = book.first(taker.order.side.opposite()).and_then(|id| self.orders.get(&id));
        next.is_some_and(|next| taker.reaches(next.price) && taker.must_not_meet(next))
    }

    /// What may not rest expires, but only when nothing is left that it could have traded with; what met its own
    /// group expires whatever it may.
    fn judge_expiry(&self, taker: &Taker, reason: CancelReason) -> Judged {
        let order = &taker.order;
        if taker.whole {
            offence!("order {} was to be filled whole, and {} were not", order.id, order.open);
        }
        if taker.stopped || (taker.mode == SelfMatch::CancelIncoming && self.meets_its_own(taker)) {
            if reason != CancelReason::SelfMatch {
                offence!("order {} met its own group and was cancelled as {reason:?}", order.id);
            }
            return Ok(());
        }
        if taker.may_rest || reason != CancelReason::ImmediateRemainder || order.open == 0 {
            offence!("order {} expired ({reason:?}) and should rest or be filled", order.id);
        }
        let best = self.markets[order.instrument.0 as usize].book.best(order.side.opposite());
        if best.is_some_and(|best| taker.reaches(best)) {
            offence!("order {} expired while it could still trade", order.id);
        }
        Ok(())
    }

    fn see_changed(&mut self, turn: &mut Turn, instrument: InstrumentId, change_id: u64) -> Judged {
        turn.nothing_untold()?;
        if turn.touched.take() != Some(instrument) {
            offence!("instrument {instrument} was given change {change_id} and had not changed");
        }
        turn.nobody_stays(Some(instrument))?;
        nobody_forgotten(turn)?;
        let market = &mut self.markets[instrument.0 as usize];
        if change_id != market.change_id + 1 {
            offence!("change {change_id} of instrument {instrument} follows change {}", market.change_id);
        }
        market.change_id = change_id;
        if market.phase == Phase::Continuous
            && let (Some(bid), Some(ask)) = (market.book.best(Side::Buy), market.book.best(Side::Sell))
            && bid >= ask
        {
            offence!("instrument {instrument} is left with a bid of {bid} and an offer of {ask}");
        }
        Ok(())
    }

    pub(crate) fn cost(&self, order: &Live, lots: u64) -> Option<(CurrencyId, i128)> {
        self.markets[order.instrument.0 as usize].terms.cost(order.side, order.price, lots)
    }

    /// Puts an order at the end of its queue, with a fresh part on show.
    pub(crate) fn rest(&mut self, mut order: Live) {
        order.shown = order.fresh_part();
        self.rest_as_it_is(order);
    }

    pub(crate) fn rest_as_it_is(&mut self, order: Live) {
        self.join(order);
        self.ledger.accounts[order.account.0 as usize].live_orders.insert((order.instrument, order.id));
    }

    /// At the end of its queue as it is.
    pub(crate) fn join(&mut self, mut order: Live) {
        self.arrivals += 1;
        order.arrival = self.arrivals;
        self.markets[order.instrument.0 as usize].book.insert(&order);
        self.orders.insert(order.id, order);
    }

    /// Takes an order, given as it was before it left, out of everything.
    pub(crate) fn forget(&mut self, order: &Live) {
        self.markets[order.instrument.0 as usize].book.remove(order);
        self.orders.remove(&order.id);
        self.ledger.accounts[order.account.0 as usize].live_orders.remove(&(order.instrument, order.id));
    }
}

/// Every lot of an incoming order trades, rests or expires.
fn nobody_forgotten(turn: &mut Turn) -> Judged {
    match turn.taker.take() {
        Some(Taker { order, .. }) if order.open > 0 => {
            Err(format!("{} lots of order {} neither traded nor rest nor expired", order.open, order.id))
        }
        _ => Ok(()),
    }
}
