//! The events of one trading command, judged as they are read.
//!
//! Holds       1. at most one level has changed and not been told at any moment;
//!             2. a book's last word is its own change number: nothing else may follow for it.
//! Start at    [`Auditor::follow`].

use pitwire_model::{AccountId, CancelReason, CurrencyId, Event, InstrumentId, Lots, OrderId, Phase, Side, Ticks};

use crate::book::Live;
use crate::{Auditor, Judged, offence};

/// What is still owed before the command may end.
#[derive(Debug)]
pub struct Turn {
    pub taker: Option<Taker>,
    leaves: Leaves,
    last_left: Option<(InstrumentId, OrderId)>,
    /// A level that changed and was not told yet.
    pub untold: Option<(InstrumentId, Side, Ticks)>,
    /// A book that changed and has not had its last word yet.
    pub touched: Option<InstrumentId>,
}

#[derive(Debug)]
pub struct Taker {
    pub order: Live,
    pub limit: Option<Ticks>,
    pub may_rest: bool,
}

/// Which resting orders the command allows to leave.
#[derive(Clone, Copy, Debug)]
pub enum Leaves {
    Nobody,
    One(OrderId),
    Of(AccountId, Option<InstrumentId>),
    DayOrders,
}

impl Turn {
    pub fn new(leaves: Leaves) -> Self {
        Self { taker: None, leaves, last_left: None, untold: None, touched: None }
    }

    pub fn touch(&mut self, instrument: InstrumentId) -> Judged {
        match self.touched.replace(instrument) {
            Some(before) if before != instrument => {
                Err(format!("instrument {instrument} changed before instrument {before} had its change number"))
            }
            _ => Ok(()),
        }
    }

    fn nothing_untold(&self) -> Judged {
        match self.untold {
            Some((instrument, side, price)) => {
                Err(format!("the {side:?} level {price} of instrument {instrument} changed and was not told"))
            }
            None => Ok(()),
        }
    }
}

impl Auditor {
    pub(crate) fn follow(&mut self, mut turn: Turn, events: &[Event]) -> Judged {
        for event in events {
            match event {
                Event::Trade { .. } => self.see_trade(&mut turn, event)?,
                Event::Level { instrument, side, price, lots } => {
                    self.see_level(&mut turn, (*instrument, *side, *price), *lots)?;
                }
                Event::Cancelled { .. } => self.see_cancelled(&mut turn, event)?,
                Event::BookChanged { instrument, change_id } => self.see_changed(&mut turn, *instrument, *change_id)?,
                other => offence!("{other:?} does not belong to this command"),
            }
        }
        turn.nothing_untold()?;
        nobody_forgotten(&mut turn)?;
        match turn.touched {
            Some(instrument) => Err(format!("instrument {instrument} changed and was given no change number")),
            None => Ok(()),
        }
    }

    fn see_trade(&mut self, turn: &mut Turn, event: &Event) -> Judged {
        let Event::Trade { instrument, trade_seq, price, lots, taker_side, maker, maker_account, maker_open, .. } =
            *event
        else {
            return Ok(());
        };
        let Event::Trade { taker: taker_id, taker_account, taker_open, .. } = *event else { return Ok(()) };
        let Some(taker) = turn.taker.as_mut().filter(|taker| {
            (taker.order.id, taker.order.account, taker.order.instrument, taker.order.side)
                == (taker_id, taker_account, instrument, taker_side)
        }) else {
            offence!("trade {trade_seq} names order {taker_id} as its taker, which entered nothing");
        };
        let market = &mut self.markets[instrument.0 as usize];
        if market.phase != Phase::Continuous {
            offence!("trade {trade_seq} while instrument {instrument} is {}", market.phase.name());
        }
        if trade_seq.0 != market.trades + 1 {
            offence!("trade {trade_seq} follows trade {}", market.trades);
        }
        let Some(resting) = self.orders.get_mut(&maker).filter(|resting| resting.instrument == instrument) else {
            offence!("trade {trade_seq} with order {maker}, which does not rest there");
        };
        if resting.side == taker_side || resting.account != maker_account {
            offence!("trade {trade_seq} tells order {maker} as another than it is");
        }
        if price != resting.price {
            offence!("trade {trade_seq} at {price}, and its maker rests at {}", resting.price);
        }
        if taker.limit.is_some_and(|limit| worse(taker_side, price, limit)) {
            offence!("trade {trade_seq} at {price} is worse than the limit of order {taker_id}");
        }
        if market.book.first(resting.side) != Some(maker) {
            let better = market.book.best(resting.side) != Some(price);
            offence!("trade {trade_seq} passes over {}", if better { "a better price" } else { "an older order" });
        }
        if turn.untold.is_some_and(|untold| untold != (instrument, resting.side, price)) {
            return turn.nothing_untold();
        }
        if lots.is_zero() || lots.0 != resting.open.min(taker.order.open) {
            offence!("trade {trade_seq} of {lots}, and {} were to be had", resting.open.min(taker.order.open));
        }
        if (maker_open.0, taker_open.0) != (resting.open - lots.0, taker.order.open - lots.0) {
            offence!(
                "trade {trade_seq} of {lots} does not leave {maker_open} of its maker and {taker_open} of its taker"
            );
        }
        market.trades = trade_seq.0;
        taker.order.open = taker_open.0;
        let before = *resting;
        resting.open = maker_open.0;
        if maker_open.is_zero() {
            self.forget(&before);
        } else {
            self.markets[instrument.0 as usize].book.shrink(&before, lots.0);
        }
        turn.untold = Some((instrument, before.side, price));
        turn.touch(instrument)?;
        let taker = turn.taker.as_ref().map(|taker| (taker.order, taker.limit));
        self.settle(&before, taker, lots.0)
    }

    fn settle(&mut self, maker: &Live, taker: Option<(Live, Option<Ticks>)>, lots: u64) -> Judged {
        let Some((taker, limit)) = taker else { return Ok(()) };
        self.ledger.release(maker.account, self.cost(maker, lots));
        let spends = self.cost(&Live { price: maker.price, ..taker }, lots);
        match limit {
            Some(_) => self.ledger.release(taker.account, self.cost(&taker, lots)),
            None => self.ledger.can_spend(taker.account, spends)?,
        }
        let parties = [(taker.account, taker.side), (maker.account, maker.side)];
        let market = &self.markets[maker.instrument.0 as usize];
        self.ledger.settle(&market.spec, &market.terms, parties, maker.price, lots);
        Ok(())
    }

    fn see_level(&mut self, turn: &mut Turn, level: (InstrumentId, Side, Ticks), told: Lots) -> Judged {
        let (instrument, side, price) = level;
        if turn.untold.is_none()
            && let Some(Taker { order, may_rest, .. }) = turn.taker.take_if(|taker| {
                (taker.order.instrument, taker.order.side) == (instrument, side) && taker.order.open > 0
            })
        {
            if !may_rest {
                offence!("order {} may not rest and was told as resting", order.id);
            }
            if order.price != price {
                offence!("order {} rests at {price}, and its limit is {}", order.id, order.price);
            }
            self.rest(order);
            turn.untold = Some(level);
            turn.touch(instrument)?;
        }
        if turn.untold != Some(level) {
            turn.nothing_untold()?;
            offence!("the {side:?} level {price} of instrument {instrument} was told and had not changed");
        }
        let implied = self.markets[instrument.0 as usize].book.level(side, price);
        if told != implied {
            offence!("the {side:?} level {price} of instrument {instrument} was told as {told} and holds {implied}");
        }
        turn.untold = None;
        Ok(())
    }

    fn see_cancelled(&mut self, turn: &mut Turn, event: &Event) -> Judged {
        let Event::Cancelled { order, account, instrument, side, price, open, reason } = *event else {
            return Ok(());
        };
        turn.nothing_untold()?;
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
        self.ledger.release(left.account, self.cost(&left, left.open).filter(|_| left.price > Ticks(0)));
        if let Some(taker) = expired {
            return self.judge_expiry(&taker, reason);
        }
        let allowed = match turn.leaves {
            Leaves::Nobody => false,
            Leaves::One(asked) => asked == order && reason == CancelReason::Requested,
            Leaves::Of(whose, of) => {
                whose == account && of.is_none_or(|of| of == instrument) && reason == CancelReason::Requested
            }
            Leaves::DayOrders => left.day && reason == CancelReason::DayEnded,
        };
        if !allowed {
            offence!("order {order} was cancelled ({reason:?}) and nobody asked for it");
        }
        if turn.last_left.replace((instrument, order)).is_some_and(|last| last >= (instrument, order)) {
            offence!("order {order} was cancelled out of order");
        }
        self.forget(&left);
        turn.untold = Some((instrument, side, price));
        turn.touch(instrument)
    }

    /// What may not rest expires, but only when nothing is left that it could have traded with.
    fn judge_expiry(&self, taker: &Taker, reason: CancelReason) -> Judged {
        let order = &taker.order;
        if taker.may_rest || reason != CancelReason::ImmediateRemainder || order.open == 0 {
            offence!("order {} expired ({reason:?}) and should rest or be filled", order.id);
        }
        let best = self.markets[order.instrument.0 as usize].book.best(order.side.opposite());
        let could_trade = best.is_some_and(|best| taker.limit.is_none_or(|limit| !worse(order.side, best, limit)));
        if could_trade {
            offence!("order {} expired while it could still trade", order.id);
        }
        Ok(())
    }

    fn see_changed(&mut self, turn: &mut Turn, instrument: InstrumentId, change_id: u64) -> Judged {
        turn.nothing_untold()?;
        if turn.touched.take() != Some(instrument) {
            offence!("instrument {instrument} was given change {change_id} and had not changed");
        }
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

    /// Puts an order at the end of its queue.
    pub(crate) fn rest(&mut self, mut order: Live) {
        self.arrivals += 1;
        order.arrival = self.arrivals;
        self.markets[order.instrument.0 as usize].book.insert(&order);
        self.day_orders += usize::from(order.day);
        *self.ledger.accounts[order.account.0 as usize].live_orders.entry(order.instrument).or_default() += 1;
        self.orders.insert(order.id, order);
    }

    /// Takes an order, given as it was before it left, out of everything.
    pub(crate) fn forget(&mut self, order: &Live) {
        self.markets[order.instrument.0 as usize].book.remove(order);
        self.orders.remove(&order.id);
        self.day_orders -= usize::from(order.day);
        let live = &mut self.ledger.accounts[order.account.0 as usize].live_orders;
        if let Some(count) = live.get_mut(&order.instrument) {
            *count -= 1;
            if *count == 0 {
                live.remove(&order.instrument);
            }
        }
    }
}

fn worse(taker: Side, price: Ticks, limit: Ticks) -> bool {
    match taker {
        Side::Buy => price > limit,
        Side::Sell => price < limit,
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
