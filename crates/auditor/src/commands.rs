//! What each new order was answered, whether that answer was due, and what follows from it.
//!
//! Holds       an order is accepted exactly when no rule forbids it; only about margins is the venue taken at its word.
//! Start at    [`Auditor::judge_entry`].

use pitwire_model::{
    AccountId, Allocation, CurrencyId, Event, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, SessionId, Side,
    Ticks, TimeInForce,
};

use crate::book::{Kind, Live, Place};
use crate::fault::{Judged, offence};
use crate::limits::Worth;
use crate::settling::kind_of;
use crate::tables::{Answer, column, tables};
use crate::turn::Turn;
use crate::{Auditor, Market, legal_lots, legal_price};

/// An order that no rule forbids.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    order: Live,
    /// As it is to be told.
    order_type: OrderType,
    answer: Answer,
    /// It takes what the book asks, and sets nothing aside.
    at_once: bool,
}

impl Auditor {
    pub(crate) fn judge_entry(&mut self, turn: &mut Turn<'_>, new: &NewOrder) -> Judged {
        let due = self.entry_due(new);
        match self.peek(turn)? {
            Some(Event::Rejected { order, account, reason }) if (*order, *account) == (new.id, new.account) => {
                turn.pass();
                let cost = due.ok().and_then(|admitted| self.entry_cost(&admitted));
                self.judge_refusal(due.err(), *reason, new.account, cost)?;
            }
            Some(told @ Event::Accepted { order, account, order_type, .. })
                if (*order, *account) == (new.id, new.account) =>
            {
                let NewOrder { id: order, account, side, instrument, lots, tif, display, .. } = *new;
                let order_type = *order_type;
                let as_entered = Event::Accepted { order, account, instrument, side, order_type, lots, tif, display };
                if *told != as_entered {
                    offence!(S1, "order {order} was accepted as another than was entered: {told:?}");
                }
                let admitted = match due {
                    Err(reason) => {
                        offence!(M5, "order {order} was accepted and was to be refused: {}", reason.name())
                    }
                    Ok(admitted) => admitted,
                };
                let due = admitted.order_type;
                if order_type != due {
                    offence!(
                        S1,
                        "order {order} was accepted as another than was entered: {order_type:?} and not {due:?}"
                    );
                }
                turn.pass();
                self.follow_entry(turn, admitted)?;
            }
            _ => offence!(S1, "order {} was neither accepted nor refused, or both", new.id),
        }
        if let Some(Event::Rejected { order, .. } | Event::Accepted { order, .. }) = self.peek(turn)? {
            offence!(S1, "order {order} was neither accepted nor refused, or both");
        }
        self.nothing_follows(turn)
    }

    /// What an order becomes, or the first rule that forbids it, money aside.
    fn entry_due(&self, new: &NewOrder) -> Result<Admitted, Reject> {
        let market = self.markets.get(new.instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        let holder = self.ledger.accounts.get(new.account.0 as usize).ok_or(Reject::UnknownAccount)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        if holder.standing.closed {
            return Err(Reject::AccountClosed);
        }
        self.unblocked(new.account, new.session)?;
        if !tables().permits(market.phase).enter {
            return Err(Reject::NotOpen);
        }
        legal_lots(new.lots)?;
        new.order_type.limit_price().map_or(Ok(()), legal_price)?;
        new.order_type.stop_price().map_or(Ok(()), legal_price)?;
        if self.orders.contains_key(&new.id) {
            return Err(Reject::DuplicateOrderId);
        }
        let answer = if self.first_rules { market.first_answer(new)? } else { market.answer(new)? };
        market.is_scheduled(new.tif)?;
        market.terms_due(new)?;
        self.expiry_due(new.tif)?;
        let mut order_type = new.order_type;
        if let Some(price) = order_type.limit_price() {
            market.within_band(price)?;
        }
        if let OrderType::Limit { price } = &mut order_type {
            *price = market.posted(new.side, *price, new.post_only)?;
        }
        let (waits, kind) = (market.is_batched_now() || answer != Answer::Immediate, kind_of(order_type));
        let is_priced = !matches!(kind, Kind::Market | Kind::Stop);
        let bound = if is_priced { Ok(None) } else { market.bound(new.side, holder.limited) };
        let at_once = kind == Kind::Market && !waits;
        let worth = match order_type.limit_price() {
            Some(price) => Worth::Limit(price),
            None if !at_once => Worth::Waiting(bound.unwrap_or(None)),
            None if market.phase == Phase::ClosingPriceCross => {
                self.cross_price(new.instrument).map_or(Worth::Nothing, |price| Worth::Waiting(Some(price)))
            }
            None => Worth::AtOnce,
        };
        market.within_limits(new.side, new.lots.0, worth)?;
        if waits && market.book.live >= market.spec.max_resting_orders as usize {
            return Err(Reject::BookFull);
        }
        let most = self.names.accounts[new.account.0 as usize].settings.max_open_orders;
        if waits && most.is_some_and(|most| holder.live_orders.len() >= most as usize) {
            return Err(Reject::TooManyOpenOrders);
        }
        let bound = if at_once { market.collar(new.side) } else { bound? };
        let order = self.admitted(new, order_type, bound);
        Ok(Admitted { order, order_type, answer, at_once })
    }

    fn admitted(&self, new: &NewOrder, order_type: OrderType, bound: Option<Ticks>) -> Live {
        Live {
            id: new.id,
            account: new.account,
            instrument: new.instrument,
            side: new.side,
            kind: kind_of(order_type),
            place: Place::Active,
            tif: new.tif,
            price: order_type.limit_price().unwrap_or_default(),
            stop: order_type.stop_price().unwrap_or_default(),
            minimum: match order_type {
                OrderType::Hidden { minimum_execution, .. } => minimum_execution.0,
                _ => 0,
            },
            bound,
            open: new.lots.0,
            shown: 0,
            peak: new.display,
            ordered: new.lots.0,
            arrival: 0,
            entered: self.today.map(|(day, _)| day),
            mode: new.self_match,
            group: new.match_group,
            session: new.session,
            cancel_on_disconnect: new.cancel_on_disconnect,
        }
    }

    /// Whether an order may be good for so long.
    pub(crate) fn expiry_due(&self, tif: TimeInForce) -> Result<(), Reject> {
        match tif {
            TimeInForce::GoodTillTime { at } if at <= self.at => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillTime { at } if self.today.is_none_or(|(_, closes)| at > closes) => {
                Err(Reject::ExpiryTooFar)
            }
            TimeInForce::GoodTillDate { day } if day < self.today() => Err(Reject::ExpiryPassed),
            TimeInForce::GoodTillDate { day } if day > self.last_day() => Err(Reject::ExpiryTooFar),
            _ => Ok(()),
        }
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
                Some(cost) if self.ledger.could_spend(account, cost, &self.markets) => {
                    offence!(
                        S1,
                        "account {account} was refused for want of {} of currency {}, and has it",
                        cost.1,
                        cost.0
                    )
                }
                _ => Ok(()),
            },
            Some(due) => offence!(M5, "refused as {}, and the first rule broken is {}", told.name(), due.name()),
            None => offence!(M5, "refused as {}, which was not so", told.name()),
        }
    }

    /// What a spot order must have free: a market order what the offers in its reach ask.
    fn entry_cost(&self, admitted: &Admitted) -> Option<(CurrencyId, i128)> {
        let order = &admitted.order;
        let (currency, units) = self.cost(order, order.open)?;
        if !admitted.at_once || order.side == Side::Sell {
            return Some((currency, units));
        }
        let terms = &self.market_of(order.instrument).terms;
        if self.market_of(order.instrument).phase == Phase::ClosingPriceCross {
            return None;
        }
        let reach = self.reach(&self.taker(*order, order.mode, false));
        let asked = reach.into_iter().filter_map(|(price, lots)| Some(terms.cost(order.side, price, lots)?.1));
        Some((currency, asked.sum()))
    }

    fn follow_entry(&mut self, turn: &mut Turn<'_>, admitted: Admitted) -> Judged {
        let Admitted { mut order, at_once, .. } = admitted;
        let instrument = order.instrument;
        order.arrival = self.next_arrival();
        let cost = self.cost(&order, order.open);
        match (at_once, order.side) {
            (false, _) => self.ledger.commit(order.account, cost)?,
            (true, Side::Sell) => self.ledger.can_spend(order.account, cost)?,
            (true, Side::Buy) => {} // what the offers ask is seen trade by trade
        }
        let before = self.market_of(instrument).book.touch();
        if matches!(order.kind, Kind::Stop | Kind::StopLimit) {
            self.keep(turn, Live { place: Place::Unelected, ..order });
            if self.market_of(instrument).phase == Phase::Continuous && self.is_electable(&order) {
                return self.follow_election(turn, &order, before);
            }
            return self.conclude(turn, instrument);
        }
        if admitted.answer == Answer::Park {
            self.see_parked(turn, &order)?;
            self.keep(turn, Live { place: Place::Parked, ..order });
            return self.conclude(turn, instrument);
        }
        let arrived = order.is_hidden().then_some(order.id);
        let market = self.market_of(instrument);
        if market.phase == Phase::ClosingPriceCross {
            let taker = self.taker(order, order.mode, !at_once);
            self.arrive(turn, taker)?;
        } else if market.phase == Phase::Continuous && !market.is_batched() {
            let taker = self.taker(order, order.mode, !at_once);
            if self.aggress(turn, taker)?.is_some() {
                self.follow_breach(turn, instrument, &[])?;
                return self.conclude(turn, instrument);
            }
            self.settle_book(turn, instrument, Some(before), arrived)?;
        } else {
            self.keep(turn, Live { shown: order.fresh_part(), mode: None, ..order });
        }
        self.conclude(turn, instrument)
    }

    /// A stop whose price has been reached already is elected, acts, and what follows follows.
    pub(crate) fn follow_election(&mut self, turn: &mut Turn<'_>, order: &Live, before: crate::book::Touch) -> Judged {
        let instrument = order.instrument;
        self.see_elected(turn, order.id)?;
        if self.market_of(instrument).is_batched() {
            self.join_all(turn, &[order.id])?;
        } else if self.act(turn, order.id)?.is_some() {
            self.follow_breach(turn, instrument, &[])?;
        } else {
            self.settle_book(turn, instrument, Some(before), None)?;
        }
        self.conclude(turn, instrument)
    }

    /// Whether the last price has reached a stop's.
    pub(crate) fn is_electable(&self, order: &Live) -> bool {
        self.market_of(order.instrument).last.is_some_and(|last| match order.side {
            Side::Buy => last >= order.stop,
            Side::Sell => last <= order.stop,
        })
    }
}

impl Market {
    /// Whether orders meet in batches.
    pub fn is_batched(&self) -> bool {
        self.rules.allocation == Allocation::FrequentBatch
    }

    fn is_batched_now(&self) -> bool {
        self.is_batched() && self.phase == Phase::Continuous
    }

    /// The same under rule version 1.
    fn first_answer(&self, new: &NewOrder) -> Result<Answer, Reject> {
        let column = column(new.order_type, new.display.is_some());
        if column == "iceberg" && !new.tif.rests() && new.post_only != PostOnly::No {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if column == "market" && new.tif == TimeInForce::GoodTillCancel {
            return self.answer(&NewOrder { tif: TimeInForce::Day, ..new.clone() });
        }
        self.answer(new)
    }

    /// What the tables make of an order here and now.
    fn answer(&self, new: &NewOrder) -> Result<Answer, Reject> {
        let column = column(new.order_type, new.display.is_some());
        if !tables().go_together(new.tif, column) {
            let is_immediate_iceberg = column == "iceberg" && !new.tif.rests();
            let reason = if is_immediate_iceberg { Reject::DisplayOutOfRange } else { Reject::TifNotAllowedForType };
            return Err(reason);
        }
        let (by_tif, by_type) = tables().cells(self.phase, new.tif, column);
        if by_tif == Answer::Reject || (self.is_batched_now() && new.tif == TimeInForce::FillOrKill) {
            return Err(Reject::TifNotAllowedInSession);
        }
        if by_type == Answer::Reject || (self.is_batched_now() && column == "hidden") {
            return Err(Reject::TypeNotAllowedInSession);
        }
        let is_cross_market = self.phase == Phase::ClosingPriceCross
            && new.tif == TimeInForce::ClosingCross
            && matches!(new.order_type, OrderType::Market);
        Ok(if is_cross_market { Answer::Active } else { by_tif.min(by_type) })
    }

    /// Whether the session that an order is for runs, or still comes.
    fn is_scheduled(&self, tif: TimeInForce) -> Result<(), Reject> {
        let comes = |phase: Phase| self.phase == phase || self.remaining.holds(phase);
        let is_there = match tif {
            TimeInForce::OpeningCall => comes(Phase::OpeningCall),
            TimeInForce::ClosingCall => comes(Phase::ClosingCall),
            TimeInForce::IntradayCall => comes(Phase::IntradayCall),
            TimeInForce::ClosingCross => comes(Phase::ClosingPriceCross),
            TimeInForce::AnyCall => {
                let scheduled = Phase::ALL.into_iter().filter(|phase| phase.is_scheduled_call());
                self.phase.is_call() || scheduled.into_iter().any(comes)
            }
            _ => true,
        };
        if is_there { Ok(()) } else { Err(Reject::NoAuctionScheduled) }
    }

    /// Post-only, display, and what is asked of hidden orders.
    fn terms_due(&self, new: &NewOrder) -> Result<(), Reject> {
        let rests = may_rest(kind_of(new.order_type), new.tif);
        if new.post_only != PostOnly::No {
            let is_limit = matches!(new.order_type, OrderType::Limit { .. });
            self.may_post(rests && is_limit)?;
        }
        if new.display.is_some_and(|display| !rests || display.is_zero() || display > new.lots) {
            return Err(Reject::DisplayOutOfRange);
        }
        match new.order_type {
            OrderType::Hidden { minimum_execution, .. } => self.may_hide(new.lots.0, new.lots.0, minimum_execution.0),
            _ => Ok(()),
        }
    }

    pub fn may_post(&self, is_fit: bool) -> Result<(), Reject> {
        let is_fit = is_fit && self.phase == Phase::Continuous && !self.is_batched();
        if is_fit { Ok(()) } else { Err(Reject::PostOnlyNotAllowed) }
    }

    /// Whether a hidden order is large enough, and its minimum neither too small nor too large.
    pub fn may_hide(&self, ordered: u64, open: u64, minimum: u64) -> Result<(), Reject> {
        let reserve = self.rules.minimum_reserve.unwrap_or(Lots::ZERO).0;
        if ordered < reserve {
            return Err(Reject::QuantityBelowReserve);
        }
        if minimum < 1 || minimum > open || minimum < reserve {
            return Err(Reject::MinimumExecutionOutOfRange);
        }
        Ok(())
    }
}

/// Whether an order of this kind may show a part of itself.
pub fn may_rest(kind: Kind, tif: TimeInForce) -> bool {
    matches!(kind, Kind::Limit | Kind::StopLimit) && tif.rests()
}
