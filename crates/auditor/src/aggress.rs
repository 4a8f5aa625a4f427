//! One incoming order against the book of continuous trading (rulebook 7, 15.2).
//!
//! Does        say what an incoming order must do next, and hold each event against it.
//! Holds       the best prices and the dynamic reference are those from before its first fill.
//! Start at    [`Auditor::aggress`], then [`Auditor::next_step`].

use std::collections::VecDeque;

use pitwire_model::{Allocation, CancelReason, Event, OrderId, Phase, SelfMatch, Side, Ticks, TimeInForce, TradeKind};

use crate::book::{Live, Place};
use crate::fault::{Judged, offence};
use crate::limits::{Breach, worse};
use crate::prices::shares_of;
use crate::trades::Deal;
use crate::turn::Turn;
use crate::{Auditor, Market};

/// An order that acts, and what it found.
#[derive(Clone, Copy, Debug)]
pub struct Taker {
    pub order: Live,
    /// The worst price at which it trades: its own, or what bounds it.
    pub limit: Option<Ticks>,
    pub mode: SelfMatch,
    /// Whether what it may spend is set aside.
    pub reserves: bool,
    /// Best visible prices before its first fill, itself not in the book.
    pub bid: Option<Ticks>,
    pub offer: Option<Ticks>,
    pub dynamic: Option<Ticks>,
}

impl Taker {
    pub fn reaches(&self, price: Ticks) -> bool {
        self.limit.is_none_or(|limit| !worse(self.order.side, price, limit))
    }

    pub fn must_not_meet(&self, resting: &Live) -> bool {
        self.mode != SelfMatch::Allow && self.order.is_of_group(resting)
    }
}

/// What an incoming order must do next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Trade {
        with: OrderId,
        price: Ticks,
        lots: u64,
    },
    /// Its own order is taken away, and the walk goes on.
    Remove(OrderId),
    End(End),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Nothing is left to trade, or nothing to trade with.
    Walked,
    /// Its group: what is left of it goes; after the resting order that it met, if that goes too.
    Own(Option<OrderId>),
    Breach(Breach),
}

impl Auditor {
    pub(crate) fn taker(&self, order: Live, mode: Option<SelfMatch>, reserves: bool) -> Taker {
        let market = &self.markets[order.instrument.0 as usize];
        Taker {
            order,
            limit: order.reach(),
            mode: mode.unwrap_or(self.names.accounts[order.account.0 as usize].settings.self_match),
            reserves,
            bid: market.book.best(Side::Buy),
            offer: market.book.best(Side::Sell),
            dynamic: market.dynamic,
        }
    }

    /// Follows an order's aggression to its remainder. A breach is told, and left to the caller.
    pub(crate) fn aggress(&mut self, turn: &mut Turn<'_>, mut taker: Taker) -> Judged<Option<Breach>> {
        self.peek(turn)?;
        if taker.order.tif == TimeInForce::FillOrKill {
            let there = self.reachable(&taker);
            if there < taker.order.open {
                return self.see_killed(turn, &taker, there).map(|()| None);
            }
        }
        let mut round = VecDeque::new();
        let end = loop {
            let step = round.pop_front().unwrap_or_else(|| self.next_step(&taker, &mut round));
            match step {
                Step::Trade { with, price, lots } => {
                    self.follow_trade(turn, &mut taker, with, price, lots)?;
                    if taker.order.open == 0 || (taker.order.open < taker.order.minimum && round.is_empty()) {
                        break End::Walked;
                    }
                }
                Step::Remove(order) => self.see_met(turn, order, &taker)?,
                Step::End(end) => break end,
            }
        };
        if let End::Own(Some(met)) = end {
            self.see_met(turn, met, &taker)?;
        }
        if let End::Breach(breach) = end {
            self.see_breached(turn, taker.order.instrument, &breach)?;
        }
        self.see_remainder(turn, &taker, end)?;
        Ok(if let End::Breach(breach) = end { Some(breach) } else { None })
    }

    fn follow_trade(
        &mut self,
        turn: &mut Turn<'_>,
        taker: &mut Taker,
        with: OrderId,
        price: Ticks,
        lots: u64,
    ) -> Judged {
        let Some(maker) = self.orders.get(&with).copied() else { return Ok(()) };
        let kind = TradeKind::Continuous;
        let deal = Deal { maker, taker: taker.order, price, lots, kind, taker_reserves: taker.reserves };
        self.see_trade(turn, &deal)?;
        taker.order.open -= lots;
        self.after_fill(turn, &maker, lots)
    }

    /// A resting order leaves because it met an incoming one of its own group.
    fn see_met(&mut self, turn: &mut Turn<'_>, order: OrderId, taker: &Taker) -> Judged {
        if let Some(Event::Trade { trade_seq, maker, .. }) = self.peek(turn)?
            && *maker == order
        {
            offence!(M11, "trade {trade_seq} is with order {order}, of the same member as order {}", taker.order.id);
        }
        self.see_leaving(turn, order, CancelReason::SelfMatch)
    }

    /// What is left of an order that has acted: it rests, or expires for the one reason that is due.
    fn see_remainder(&mut self, turn: &mut Turn<'_>, taker: &Taker, end: End) -> Judged {
        let order = Live { mode: None, ..taker.order };
        if order.open == 0 {
            return Ok(());
        }
        let reason = match end {
            End::Own(_) => Some(CancelReason::SelfMatch),
            _ if order.is_hidden() && order.open < order.minimum => Some(CancelReason::BelowMinimumExecution),
            End::Breach(_) if order.is_market() || order.is_immediate() => Some(CancelReason::Breaker),
            _ if order.is_market() || order.is_immediate() => Some(CancelReason::ImmediateRemainder),
            _ => None,
        };
        self.trades_no_more(turn, taker, end)?;
        let Some(reason) = reason else {
            let order = Live { place: Place::Active, shown: order.fresh_part(), ..order };
            if let Some(Event::Cancelled { order: told, reason, .. }) = self.peek(turn)?
                && *told == order.id
            {
                offence!(M5, "order {told} expired ({reason:?}) and should rest or be filled");
            }
            self.keep(turn, order);
            return Ok(());
        };
        self.see_cancelled(turn, &order, reason)?;
        if taker.reserves {
            self.ledger.release(order.account, self.cost(&order, order.open));
        }
        Ok(())
    }

    /// An order that has come to its end must not be told to trade on.
    fn trades_no_more(&self, turn: &mut Turn<'_>, taker: &Taker, end: End) -> Judged {
        let Some(Event::Trade { trade_seq, price, maker, taker: told, kind, .. }) = self.peek(turn)? else {
            return Ok(());
        };
        let (order, resting) = (&taker.order, self.orders.get(maker));
        if *told != order.id || *kind != TradeKind::Continuous {
            return Ok(());
        }
        if matches!(end, End::Own(_)) {
            offence!(M11, "trade {trade_seq} of order {told}, after it met an order of the same member");
        }
        if let End::Breach(breach) = end {
            offence!(M8, "trade {trade_seq} at {price}, after a breach: {breach:?}");
        }
        if !taker.reaches(*price) {
            offence!(M1, "trade {trade_seq} at {price} is worse than the limit of order {told}");
        }
        let least = resting.map_or(0, |resting| resting.minimum).max(order.minimum);
        offence!(
            M5,
            "trade {trade_seq} at {price} of order {told}, which had no more to trade with: {} left, minimum {least}",
            order.open
        )
    }

    pub(crate) fn see_killed(&mut self, turn: &mut Turn<'_>, taker: &Taker, there: u64) -> Judged {
        let order = &taker.order;
        if let Some(Event::Trade { trade_seq, .. }) = self.peek(turn)? {
            offence!(
                M5,
                "order {} finds {there} of {} and was to be killed whole: trade {trade_seq}",
                order.id,
                order.open
            );
        }
        self.see_cancelled(turn, order, CancelReason::FillOrKill)?;
        if taker.reserves {
            self.ledger.release(order.account, self.cost(order, order.open));
        }
        Ok(())
    }

    /// The first order in priority that the incoming one has to do with, and what. Pro-rata: the rest of the round too.
    fn next_step(&self, taker: &Taker, round: &mut VecDeque<Step>) -> Step {
        let market = &self.markets[taker.order.instrument.0 as usize];
        let (order, contra) = (&taker.order, taker.order.side.opposite());
        for resting in market.book.orders(contra).filter_map(|id| self.orders.get(&id)) {
            if resting.is_market() {
                continue; // left behind by a missed call
            }
            if !taker.reaches(resting.price) {
                break;
            }
            if market.rules.allocation == Allocation::ProRata && !resting.is_hidden() {
                return self.round_at(market, taker, resting.price, round);
            }
            let there = if resting.is_hidden() { resting.open } else { resting.shown };
            let lots = order.open.min(there);
            if resting.minimum > order.open {
                continue;
            }
            if lots < order.minimum {
                return Step::End(End::Walked);
            }
            let price = market.price_against(resting, taker.bid, taker.offer);
            if !taker.reaches(price) {
                continue;
            }
            if let Some(breach) = self.breach_of(market, taker, price) {
                return Step::End(End::Breach(breach));
            }
            if taker.must_not_meet(resting) {
                return met(taker.mode, resting.id);
            }
            return Step::Trade { with: resting.id, price, lots };
        }
        Step::End(End::Walked)
    }

    /// Whether sharing at this order's price ends before it begins: an own order that is not passed over stands there.
    fn ends_round(&self, market: &Market, taker: &Taker, resting: &Live) -> bool {
        market.rules.allocation == Allocation::ProRata
            && !resting.is_hidden()
            && taker.mode != SelfMatch::CancelResting
            && self.shown_at(market, resting.side, resting.price).any(|other| taker.must_not_meet(other))
    }

    /// The visible limit orders at one price, oldest first.
    fn shown_at<'a>(&'a self, market: &'a Market, side: Side, price: Ticks) -> impl Iterator<Item = &'a Live> {
        let there = market.book.shown_at(side, price).filter_map(|id| self.orders.get(&id));
        there.filter(|resting| resting.is_on_show())
    }

    fn breach_of(&self, market: &Market, taker: &Taker, price: Ticks) -> Option<Breach> {
        market.breach(market.rules.tolerance(Phase::Continuous), price, taker.dynamic)
    }

    /// A price's visible orders share what comes in, by what they show.
    fn round_at(&self, market: &Market, taker: &Taker, price: Ticks, round: &mut VecDeque<Step>) -> Step {
        let contra = taker.order.side.opposite();
        let resting = self.shown_at(market, contra, price);
        let (own, others): (Vec<&Live>, Vec<&Live>) = resting.partition(|resting| taker.must_not_meet(resting));
        if let Some(breach) = self.breach_of(market, taker, price) {
            return Step::End(End::Breach(breach));
        }
        if let Some(first) = own.first() {
            return met(taker.mode, first.id);
        }
        let shown: Vec<u64> = others.iter().map(|resting| resting.shown).collect();
        let lots = taker.order.open.min(shown.iter().sum());
        if lots < taker.order.minimum {
            return Step::End(End::Walked);
        }
        let given = shares_of(&shown, lots);
        let trades = others.iter().zip(given).filter(|(_, lots)| *lots > 0);
        round.extend(trades.map(|(resting, lots)| Step::Trade { with: resting.id, price, lots }));
        round.pop_front().unwrap_or(Step::End(End::Walked))
    }

    /// How much an order would trade (rulebook 7.4): what fill or kill counts.
    pub(crate) fn reachable(&self, taker: &Taker) -> u64 {
        self.reach(taker).iter().map(|(_, lots)| lots).sum()
    }

    /// What an order that has not met anything yet would trade, price by price.
    pub(crate) fn reach(&self, taker: &Taker) -> Vec<(Ticks, u64)> {
        let market = &self.markets[taker.order.instrument.0 as usize];
        let contra = taker.order.side.opposite();
        let mut left = taker.order.open;
        let mut fills: Vec<(Ticks, u64)> = Vec::new();
        let there = market.book.orders(contra).filter_map(|id| self.orders.get(&id));
        let mut resting = there.filter(|resting| !resting.is_market()).peekable();
        // Hidden parts of the icebergs of one level come after all that it shows.
        let mut later: (Option<Ticks>, u64) = (None, 0);
        loop {
            let next = resting.peek().filter(|next| taker.reaches(next.price)).copied();
            let ends_level = next.is_none_or(|next| next.is_hidden() || Some(next.price) != later.0);
            if let (Some(price), true) = (later.0, ends_level) {
                let lots = left.min(later.1);
                fills.push((price, lots));
                left -= lots;
                later = (None, 0);
            }
            let Some(next) = next.filter(|_| left > 0) else { return fills };
            resting.next();
            if next.minimum > left {
                continue;
            }
            let price = market.price_against(next, taker.bid, taker.offer);
            if !taker.reaches(price) {
                continue;
            }
            if self.breach_of(market, taker, price).is_some() {
                return fills;
            }
            if taker.must_not_meet(next) {
                if taker.mode == SelfMatch::CancelResting {
                    continue;
                }
                return fills;
            }
            if self.ends_round(market, taker, next) {
                return fills;
            }
            let there = if next.is_hidden() { next.open } else { next.shown };
            let lots = left.min(there);
            fills.push((price, lots));
            left -= lots;
            if !next.is_hidden() {
                later = (Some(price), later.1 + next.open - next.shown);
            }
        }
    }
}

fn met(mode: SelfMatch, resting: OrderId) -> Step {
    match mode {
        SelfMatch::CancelResting => Step::Remove(resting),
        SelfMatch::CancelBoth => Step::End(End::Own(Some(resting))),
        SelfMatch::CancelIncoming | SelfMatch::Allow => Step::End(End::Own(None)),
    }
}
