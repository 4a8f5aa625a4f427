//! Settling continuous trading: hidden orders when the touch moves, stops when the price does, and the breaker's call.

use pitwire_model::{
    CancelReason, Event, Lots, OrderId, Phase, SelfMatch, SessionReason, Side, Ticks, TimeInForce, VenueNanos,
};

use super::auction::{Filtered, Indicated};
use super::matching::cancelled;
use super::{Kind, Market, Order, Place, ReferenceEngine};

/// Best visible price of each side and what is shown there.
pub(super) type Touch = [Option<(Ticks, u64)>; 2];

impl Market {
    fn current_touch(&self) -> Touch {
        [Side::Buy, Side::Sell].map(|side| {
            let best = self.best(side)?;
            let there = self.visible_queue(side).into_iter().filter(|order| order.price == best);
            Some((best, there.map(|order| order.shown).sum()))
        })
    }

    /// Whether the price of a stop has come.
    pub(super) fn is_due(&self, order: &Order) -> bool {
        self.last.is_some_and(|last| match order.side {
            Side::Buy => last >= order.stop,
            Side::Sell => last <= order.stop,
        })
    }

    fn elected(&self) -> Vec<Order> {
        let mut elected: Vec<Order> =
            self.orders.iter().filter(|order| order.place == Place::Elected).copied().collect();
        elected.sort_by_key(|order| order.time);
        elected
    }

    /// Whether orders gather here for an indicated price.
    fn indicates(&self) -> bool {
        self.is_batching() || (self.phase.is_call() && !self.missed)
    }
}

impl ReferenceEngine {
    /// What follows from a command that acted in continuous trading. `fresh` is a hidden order that it brought.
    pub(super) fn settle(&mut self, at: usize, fresh: Option<OrderId>, out: &mut Vec<Event>) {
        if self.markets[at].is_batching() {
            self.elect(at, out);
            self.act_elected(at, out);
        }
        if !self.markets[at].trades_on_entry() {
            return;
        }
        if let Some(fresh) = fresh {
            while self.markets[at].get(fresh).is_some_and(|order| order.is_active() && order.is_hidden()) {
                match self.filter(at, Some(fresh), out) {
                    Filtered::Traded => {}
                    Filtered::Nothing => break,
                    Filtered::Breached => return,
                }
            }
        }
        loop {
            if self.markets[at].touch != Some(self.markets[at].current_touch()) {
                loop {
                    match self.filter(at, None, out) {
                        Filtered::Traded => {}
                        Filtered::Nothing => break,
                        Filtered::Breached => return,
                    }
                }
            }
            self.markets[at].touch = Some(self.markets[at].current_touch());
            if !self.elect(at, out) || self.act_elected(at, out) {
                return;
            }
        }
    }

    /// Elects every stop whose price has come; says whether there was one.
    pub(super) fn elect(&mut self, at: usize, out: &mut Vec<Event>) -> bool {
        let market = &self.markets[at];
        let Some(last) = market.last else { return false };
        let mut due: Vec<Order> = market
            .orders
            .iter()
            .filter(|order| order.place == Place::Unelected && market.is_due(order))
            .copied()
            .collect();
        due.sort_by_key(|order| (order.side, -(order.stop.0 - last.0).abs(), order.id));
        for order in &due {
            self.trigger(at, order.id, out);
        }
        !due.is_empty()
    }

    /// Elects one stop: from now on it is a market or a limit order.
    pub(super) fn trigger(&mut self, at: usize, id: OrderId, out: &mut Vec<Event>) {
        let time = self.next_time();
        let market = &mut self.markets[at];
        let (instrument, last) = (market.spec.id, market.last.expect("a stop is elected by a last price"));
        let order = market.get_mut(id);
        order.time = time;
        order.place = Place::Elected;
        order.kind = if order.kind == Kind::Stop { Kind::Market } else { Kind::Limit };
        out.push(Event::Triggered { order: id, account: order.account, instrument, last });
    }

    /// Lets the elected act in the session that runs, in the order of election; says whether the breaker ended it.
    pub(super) fn act_elected(&mut self, at: usize, out: &mut Vec<Event>) -> bool {
        for order in self.markets[at].elected() {
            let order = self.markets[at].remove(order.id);
            let mode = order.mode.unwrap_or_else(|| self.self_match_of(order.account));
            let order = Order { place: Place::Active, mode: None, ..order };
            if self.act_one_elected(at, order, mode, out) {
                return true;
            }
        }
        false
    }

    fn act_one_elected(&mut self, at: usize, order: Order, mode: SelfMatch, out: &mut Vec<Event>) -> bool {
        let market = &self.markets[at];
        let phase = market.phase;
        if market.trades_on_entry() {
            return self.act(at, order, mode, out);
        }
        if phase == Phase::ClosingPriceCross {
            self.arrive(at, order, mode, out);
            return false;
        }
        let expires = match phase {
            Phase::Continuous => order.tif == TimeInForce::FillOrKill,
            _ if phase.is_call() => order.acts_at_once(),
            _ => order.kind == Kind::Market || order.acts_at_once(),
        };
        if expires {
            out.push(cancelled(market.spec.id, &order, CancelReason::NothingExecutes));
        } else {
            self.join(at, order, out);
        }
        false
    }

    /// After a breach in continuous trading, and after what is left of the incoming order has found its place.
    pub(super) fn begin_breaker_call(&mut self, at: usize, out: &mut Vec<Event>) {
        let ends = self.end_of_breaker_call(at);
        self.begin_session(at, Phase::VolatilityCall, Some(SessionReason::Breaker), Some(ends), out);
        self.inject(at, out);
        self.elect(at, out);
        self.act_elected(at, out);
    }

    pub(super) fn end_of_breaker_call(&self, at: usize) -> VenueNanos {
        VenueNanos(self.now.0.saturating_add(self.markets[at].rules().volatility_call_ns))
    }

    /// What a command says last of an instrument: what the call would come to, if that changed, and that the book did.
    pub(super) fn conclude(&mut self, at: usize, since: usize, out: &mut Vec<Event>) {
        let market = &mut self.markets[at];
        let instrument = market.spec.id;
        if market.indicates() {
            let now = market.indicated();
            if now != market.told || market.must_tell {
                let Indicated { price, volume, imbalance } = now;
                out.push(Event::Indicative { instrument, price, volume: Lots(volume), imbalance });
                market.told = now;
            }
        }
        market.must_tell = false;
        let changes = |event: &Event| event.is_public() && !matches!(event, Event::PhaseChanged { .. });
        if out[since..].iter().any(changes) {
            market.change_id += 1;
            out.push(Event::BookChanged { instrument, change_id: market.change_id });
        }
    }
}
