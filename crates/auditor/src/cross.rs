//! The closing price cross: everything at the closing price, by time alone (rulebook 12).
//!
//! Start at    [`Auditor::arrive`], [`Auditor::follow_cross_opening`].

use pitwire_model::{CancelReason, Event, InstrumentId, Lots, OrderId, SelfMatch, Side, Ticks, TimeInForce, TradeKind};

use crate::Auditor;
use crate::aggress::Taker;
use crate::book::{Live, Place};
use crate::fault::{Judged, offence};
use crate::trades::Deal;
use crate::turn::Turn;

impl Auditor {
    /// The price at which the cross trades.
    pub(crate) fn cross_price(&self, instrument: InstrumentId) -> Option<Ticks> {
        let close = &self.market_of(instrument).close;
        close.closing.map(|(price, _)| price).or(close.previous)
    }

    /// The orders that stand there when the cross begins arrive one after another.
    pub(crate) fn follow_cross_opening(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged {
        self.peek(turn)?;
        let Some(price) = self.cross_price(instrument) else { return Ok(()) };
        let takes_part = |order: &&Live| order.instrument == instrument && takes_part(order, price);
        let mut there: Vec<&Live> = self.orders.values().filter(takes_part).collect();
        there.sort_by_key(|order| order.arrival);
        let there: Vec<OrderId> = there.iter().map(|order| order.id).collect();
        for id in there {
            let Some(order) = self.orders.get(&id).copied() else { continue };
            let taker = self.taker(order, None, true);
            if self.cross(turn, taker, price)?.1 {
                self.see_leaving(turn, id, CancelReason::SelfMatch)?;
            }
        }
        Ok(())
    }

    pub(crate) fn arrive_elected(&mut self, turn: &mut Turn<'_>, order: OrderId) -> Judged {
        let Some(live) = self.orders.get(&order).copied() else { return Ok(()) };
        self.forget(turn, &live);
        self.ledger.set_aside(live.account, self.cost(&live, live.open));
        let taker = self.taker(live, live.mode, true);
        self.arrive(turn, taker)
    }

    /// An order arrives: it trades at the closing price, and what is left of it rests or expires.
    pub(crate) fn arrive(&mut self, turn: &mut Turn<'_>, taker: Taker) -> Judged {
        self.peek(turn)?;
        let price = self.cross_price(taker.order.instrument).filter(|price| takes_part(&at_once(&taker.order), *price));
        if taker.order.tif == TimeInForce::FillOrKill {
            let there = price.map_or(0, |price| self.counted(&taker, price));
            if there < taker.order.open {
                return self.see_killed(turn, &taker, there);
            }
        }
        let (mut order, is_stopped) = match price {
            Some(price) => self.cross(turn, taker, price)?,
            None => (taker.order, false),
        };
        order.mode = None;
        let expires = order.is_immediate() || (order.is_market() && order.tif != TimeInForce::ClosingCross);
        let reason = if is_stopped { CancelReason::SelfMatch } else { CancelReason::ImmediateRemainder };
        if order.open == 0 {
            return Ok(());
        }
        if is_stopped || expires {
            self.see_cancelled(turn, &order, reason)?;
            if taker.reserves {
                self.ledger.release(order.account, self.cost(&order, order.open));
            }
            return Ok(());
        }
        self.keep(turn, Live { place: Place::Active, shown: order.fresh_part(), ..order });
        Ok(())
    }

    /// The other side, by time: those that arrived before. When the cross begins they arrive by time, whoever stands
    /// there; an order that comes later finds all.
    fn before(&self, taker: &Taker, price: Ticks) -> Vec<Live> {
        let order = &taker.order;
        let is_incoming = !self.orders.contains_key(&order.id);
        let contra = |other: &&Live| {
            other.instrument == order.instrument
                && other.side == order.side.opposite()
                && (is_incoming || other.arrival < order.arrival)
                && takes_part(other, price)
        };
        let mut there: Vec<Live> = self.orders.values().filter(contra).copied().collect();
        there.sort_by_key(|other| other.arrival);
        there
    }

    fn counted(&self, taker: &Taker, price: Ticks) -> u64 {
        let mut there = 0;
        for other in self.before(taker, price) {
            if !taker.must_not_meet(&other) {
                there += other.open;
            } else if taker.mode != SelfMatch::CancelResting {
                break;
            }
        }
        there
    }

    /// What is left of the order, and whether it met its own group and goes.
    fn cross(&mut self, turn: &mut Turn<'_>, mut taker: Taker, price: Ticks) -> Judged<(Live, bool)> {
        for resting in self.before(&taker, price) {
            if taker.order.open == 0 {
                break;
            }
            if taker.must_not_meet(&resting) {
                if let Some(Event::Trade { trade_seq, maker, .. }) = self.peek(turn)?
                    && *maker == resting.id
                {
                    offence!(M11, "trade {trade_seq} is with order {maker}, of the same member");
                }
                if matches!(taker.mode, SelfMatch::CancelResting | SelfMatch::CancelBoth) {
                    self.see_leaving(turn, resting.id, CancelReason::SelfMatch)?;
                }
                if taker.mode != SelfMatch::CancelResting {
                    return Ok((taker.order, true));
                }
                continue;
            }
            let Some(maker) = self.orders.get(&resting.id).copied() else { continue };
            let lots = maker.open.min(taker.order.open);
            let (kind, taker_reserves) = (TradeKind::Cross, taker.reserves);
            self.see_trade(turn, &Deal { maker, taker: taker.order, price, lots, kind, taker_reserves })?;
            self.take_cross_fill(turn, maker.id, lots)?;
            if self.orders.contains_key(&taker.order.id) {
                self.take_cross_fill(turn, taker.order.id, lots)?;
            }
            taker.order.open -= lots;
            self.see_trips(turn)?;
        }
        Ok((taker.order, false))
    }

    /// An iceberg shows anew what it may, in its old place.
    fn take_cross_fill(&mut self, turn: &mut Turn<'_>, order: OrderId, lots: u64) -> Judged {
        let Some(before) = self.orders.get(&order).copied() else { return Ok(()) };
        let mut left = Live { open: before.open - lots, ..before };
        let rest = before.shown.saturating_sub(lots);
        if left.open == 0 {
            left.shown = 0;
            self.level_changes(turn, &before);
            self.market_mut(before.instrument).book.shrink(&before, before.shown, lots);
            self.orders.insert(order, left);
            self.forget(turn, &left);
            return Ok(());
        }
        left.shown = left.fresh_part();
        if left.is_on_show() && left.shown > rest {
            let Live { account, instrument, side, price, .. } = left;
            let due = Event::Refreshed { order, account, instrument, side, price, shown: Lots(left.shown) };
            match self.peek(turn)? {
                Some(told) if *told == due => turn.pass(),
                told => offence!(M2, "order {order} shows {} again, and {told:?} was said", left.shown),
            }
        }
        self.become_other(turn, &before, left);
        Ok(())
    }
}

/// Whether a visible order is good at the closing price.
fn takes_part(order: &Live, price: Ticks) -> bool {
    let reaches = match (order.reach(), order.side) {
        (None, _) => true,
        (Some(limit), Side::Buy) => limit >= price,
        (Some(limit), Side::Sell) => limit <= price,
    };
    order.is_active() && !order.is_hidden() && reaches
}

/// An order that comes in, as if it stood there.
fn at_once(order: &Live) -> Live {
    Live { place: Place::Active, ..*order }
}
