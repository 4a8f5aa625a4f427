//! What follows an order's aggression: filters, elections, and the call that a breach starts (rulebook 7.5, 8, 10.3, 14).
//!
//! Holds       every stop is elected at most once, so that settling ends.
//! Start at    [`Auditor::settle_book`].

use pitwire_model::{
    CancelReason, Event, InstrumentId, Lots, OrderId, OrderType, Phase, SessionReason, Side, TradeKind,
};

use crate::book::{Kind, Live, Place, Touch};
use crate::fault::{Fault, Judged, Promise, offence};
use crate::limits::Breach;
use crate::prices::{Curves, Interest, filter_price, in_order, paired, side_passes};
use crate::turn::{Turn, cancelled};
use crate::uncross::Plan;
use crate::{Auditor, tables::tables};

impl Auditor {
    /// Follows what must happen after a command has acted on an instrument in continuous trading. `before` is the touch
    /// that is remembered, `arrived` a hidden order that has come into the book or was amended there.
    pub(crate) fn settle_book(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        before: Option<Touch>,
        arrived: Option<OrderId>,
    ) -> Judged {
        let market = self.market_of(instrument);
        if market.phase != Phase::Continuous {
            return Ok(());
        }
        if market.is_batched() {
            let elected = self.see_elections(turn, instrument)?;
            return self.join_all(turn, &elected);
        }
        let is_there = |auditor: &Auditor, id: &OrderId| auditor.orders.get(id).is_some_and(Live::is_active);
        while let Some(order) = arrived.filter(|order| is_there(self, order)) {
            let Some(plan) = self.filter_plan(instrument).filter(|plan| plan.holds(order)) else { break };
            if self.follow_filter(turn, instrument, &plan)? {
                return self.follow_breach(turn, instrument, &[]);
            }
        }
        let mut remembered = before;
        loop {
            if remembered != Some(self.market_of(instrument).book.touch()) {
                while let Some(plan) = self.filter_plan(instrument) {
                    if self.follow_filter(turn, instrument, &plan)? {
                        return self.follow_breach(turn, instrument, &[]);
                    }
                }
            }
            remembered = Some(self.market_of(instrument).book.touch());
            let elected = self.see_elections(turn, instrument)?;
            if elected.is_empty() {
                return Ok(());
            }
            for (at, order) in elected.iter().enumerate() {
                if self.act(turn, *order)?.is_some() {
                    return self.follow_breach(turn, instrument, &elected[at + 1..]);
                }
            }
        }
    }

    /// An elected stop acts in continuous trading.
    pub(crate) fn act(&mut self, turn: &mut Turn<'_>, order: OrderId) -> Judged<Option<Breach>> {
        let Some(live) = self.orders.get(&order).copied() else { return Ok(None) };
        self.forget(turn, &live);
        self.ledger.set_aside(live.account, self.cost(&live, live.open));
        let taker = self.taker(live, live.mode, true);
        self.aggress(turn, taker)
    }

    /// The stops whose price the last trade has reached, in the order in which they are elected.
    pub(crate) fn electable(&self, instrument: InstrumentId) -> Vec<OrderId> {
        let market = self.market_of(instrument);
        let Some(last) = market.last else { return Vec::new() };
        let mut due: Vec<&Live> = market.book.reached(last).filter_map(|id| self.orders.get(&id)).collect();
        due.sort_by_key(|order| (order.side, std::cmp::Reverse((order.stop.0 - last.0).abs()), order.id));
        due.iter().map(|order| order.id).collect()
    }

    /// Every stop that is due says so, and waits to act.
    pub(crate) fn see_elections(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged<Vec<OrderId>> {
        let due = self.electable(instrument);
        for order in &due {
            self.see_elected(turn, *order)?;
        }
        Ok(due)
    }

    pub(crate) fn see_elected(&mut self, turn: &mut Turn<'_>, order: OrderId) -> Judged {
        let Some(before) = self.orders.get(&order).copied() else { return Ok(()) };
        let Some(last) = self.market_of(before.instrument).last else { return Ok(()) };
        let due = Event::Triggered { order, account: before.account, instrument: before.instrument, last };
        match self.peek(turn)? {
            Some(told) if *told == due => turn.pass(),
            Some(Event::Triggered { order: told, .. }) => {
                offence!(M5, "order {told} was elected at {last} and order {order} was to be, at {}", before.stop)
            }
            _ => offence!(M5, "order {order} was to be elected: {last} has reached its stop price {}", before.stop),
        }
        let kind = if before.kind == Kind::Stop { Kind::Market } else { Kind::Limit };
        let arrival = self.next_arrival();
        self.become_other(turn, &before, Live { kind, arrival, place: Place::Elected, ..before });
        Ok(())
    }

    /// Elected stops where nothing executes at once: they wait in the book, or expire.
    pub(crate) fn join_all(&mut self, turn: &mut Turn<'_>, elected: &[OrderId]) -> Judged {
        for order in elected {
            let Some(live) = self.orders.get(order).copied() else { continue };
            let market = self.market_of(live.instrument);
            let is_batch = market.phase == Phase::Continuous && market.is_batched();
            let waits = match live.tif {
                pitwire_model::TimeInForce::ImmediateOrCancel => is_batch,
                pitwire_model::TimeInForce::FillOrKill => false,
                _ => is_batch || market.phase.is_call() || !live.is_market(),
            };
            if waits {
                let after = Live { place: Place::Active, shown: live.fresh_part(), mode: None, ..live };
                self.become_other(turn, &live, after);
                self.peek(turn)?;
            } else {
                self.see_leaving(turn, *order, CancelReason::NothingExecutes)?;
            }
        }
        Ok(())
    }

    /// Active orders as a call or filter sees them, in priority order.
    pub(crate) fn interests(&self, instrument: InstrumentId, side: Side) -> Vec<Interest> {
        let orders = self.market_of(instrument).book.orders(side).filter_map(|id| self.orders.get(&id));
        orders.map(interest).collect()
    }

    /// What a filter would do now (rulebook 8.2).
    pub(crate) fn filter_plan(&self, instrument: InstrumentId) -> Option<Plan> {
        let market = self.market_of(instrument);
        if market.book.hidden == 0 {
            return None;
        }
        // Market orders have no place in it, bounded or not.
        let priced = |side| {
            let orders = market.book.orders(side).filter_map(|id| self.orders.get(&id));
            orders.filter(|order| !order.is_market())
        };
        let (bid, offer) = (priced(Side::Buy).next()?.price, priced(Side::Sell).next()?.price);
        if bid < offer {
            return None;
        }
        let mut bids: Vec<Interest> =
            priced(Side::Buy).take_while(|order| order.price >= offer).map(interest).collect();
        let mut offers: Vec<Interest> =
            priced(Side::Sell).take_while(|order| order.price <= bid).map(interest).collect();
        side_passes(&mut bids, &mut offers);
        let touch = market.book.touch().map(|side| side.map(|(price, _)| price));
        let found = filter_price(&Curves::of(&bids, &offers), touch, market.reference())?;
        let [bought, sold] = [(Side::Buy, &bids), (Side::Sell, &offers)]
            .map(|(side, orders)| in_order(side, orders, found.price, found.volume));
        Some(Plan { found, pairs: paired(&bought, &sold) })
    }

    /// Whether a tolerance kept it from happening.
    fn follow_filter(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, plan: &Plan) -> Judged<bool> {
        let market = self.market_of(instrument);
        let tolerance = market.rules.tolerance(Phase::Continuous);
        if let Some(breach) = market.breach(tolerance, plan.found.price, market.dynamic) {
            self.see_breached(turn, instrument, &breach)?;
            return Ok(true);
        }
        self.follow_plan(turn, instrument, plan, TradeKind::Filter)?;
        Ok(false)
    }

    /// A breach is told with the numbers that make it one.
    pub(crate) fn see_breached(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, breach: &Breach) -> Judged {
        let price = breach.price;
        match self.peek(turn)? {
            Some(Event::Breached { instrument: of, price: told, reference, against, bps })
                if (*of, *told) == (instrument, price) =>
            {
                if !self.market_of(instrument).is_told_right(breach, (*reference, *against, *bps)) {
                    offence!(M8, "{told} was told to breach {bps} of {reference} ({against:?}), which is not so");
                }
                turn.pass();
                Ok(())
            }
            Some(Event::Breached { price: told, .. }) => {
                offence!(M8, "a breach by {told} was told, and it is {price} that breaches")
            }
            Some(Event::Trade { trade_seq, price: told, .. }) => {
                offence!(M8, "trade {trade_seq} at {told}, and {price} breaches a tolerance: {breach:?}")
            }
            _ => offence!(M8, "{price} breaches a tolerance and that was not told: {breach:?}"),
        }
    }

    /// What a breach in continuous trading leads to, once the order that was trading has ended.
    pub(crate) fn follow_breach(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        waiting: &[OrderId],
    ) -> Judged {
        self.see_session(turn, instrument, Phase::VolatilityCall, SessionReason::Breaker, None)?;
        self.see_injections(turn, instrument)?;
        let mut joining = waiting.to_vec();
        joining.extend(self.see_elections(turn, instrument)?);
        self.join_all(turn, &joining)?;
        self.judge_outlook(turn, instrument, false)
    }

    /// Parked orders that the session is for come into the book, in the order of their numbers.
    pub(crate) fn see_injections(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged {
        let phase = self.market_of(instrument).phase;
        let is_due = |order: &&Live| {
            order.instrument == instrument && order.place == Place::Parked && tables().injects(phase, order.tif)
        };
        let due: Vec<Live> = self.orders.values().filter(is_due).copied().collect();
        for order in due {
            let injected = Event::Injected { order: order.id, account: order.account, instrument };
            match self.peek(turn)? {
                Some(told) if *told == injected => turn.pass(),
                _ => offence!(M5, "order {} ({}) was to be injected into {}", order.id, order.tif.name(), phase.name()),
            }
            let after = Live { place: Place::Active, shown: order.fresh_part(), mode: None, ..order };
            self.become_other(turn, &order, after);
            self.peek(turn)?;
        }
        Ok(())
    }

    /// An active order is set aside again.
    pub(crate) fn see_parked(&mut self, turn: &mut Turn<'_>, order: &Live) -> Judged {
        let (id, account, instrument) = (order.id, order.account, order.instrument);
        let parked = Event::Parked { order: id, account, instrument, open: Lots(order.open) };
        match self.peek(turn)? {
            Some(told) if *told == parked => turn.pass(),
            told => offence!(M5, "order {id} ({}) was to be parked with {}: {told:?}", order.tif.name(), order.open),
        }
        if self.orders.contains_key(&id) {
            self.become_other(turn, order, Live { place: Place::Parked, ..*order });
        }
        Ok(())
    }
}

/// The promise that is broken when an order was to leave and something else was said.
pub fn instead_of_leaving(order: &Live, reason: CancelReason, told: Option<&Event>) -> Fault {
    let due = cancelled(order, reason);
    let promise = match reason {
        CancelReason::SelfMatch => Promise::M11,
        CancelReason::Requested
        | CancelReason::Disconnected
        | CancelReason::Killed
        | CancelReason::InstrumentDeleted
        | CancelReason::AccountClosed => Promise::M4,
        _ => Promise::M5,
    };
    let fault = |promise, sentence| Fault { promise, sentence };
    let (id, open) = (order.id, order.open);
    match told {
        Some(Event::Cancelled { order: other, reason: said, .. }) if *other != id => {
            let sentence =
                format!("order {other} was cancelled ({said:?}) out of order: order {id} was to be cancelled");
            fault(promise, format!("{sentence} and is still there"))
        }
        Some(Event::Cancelled { reason: said, .. }) if *said != reason => {
            fault(promise, format!("order {id} was cancelled ({said:?}), and the reason is {reason:?}"))
        }
        Some(event @ Event::Cancelled { .. }) => {
            fault(Promise::M4, format!("order {id} was cancelled as {event:?}, and it is {due:?}"))
        }
        None | Some(Event::BookChanged { .. }) if reason == CancelReason::ImmediateRemainder => {
            fault(Promise::M4, format!("{open} lots of order {id} neither traded nor rest nor expired"))
        }
        Some(Event::Level { side, price, .. }) if (*side, *price) == (order.side, order.price) => {
            fault(promise, format!("order {id} may not rest ({reason:?}) and was told as resting"))
        }
        other => {
            let said = other.map_or("nothing".to_owned(), |event| format!("{event:?}"));
            fault(
                promise,
                format!("order {id} was to be cancelled and is still there, with {open} ({reason:?}): {said}"),
            )
        }
    }
}

fn interest(order: &Live) -> Interest {
    Interest {
        id: order.id,
        price: order.reach(),
        is_hidden: order.is_hidden(),
        minimum: order.minimum,
        open: order.open,
        counts: order.open,
        arrival: order.arrival,
    }
}

/// What an order is when it is entered.
pub const fn kind_of(order_type: OrderType) -> Kind {
    match order_type {
        OrderType::Limit { .. } => Kind::Limit,
        OrderType::Market => Kind::Market,
        OrderType::Hidden { .. } => Kind::Hidden,
        OrderType::Stop { .. } => Kind::Stop,
        OrderType::StopLimit { .. } => Kind::StopLimit,
    }
}
