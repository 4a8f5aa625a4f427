//! Sessions: what begins, what ends, and in which order; settings of an instrument and of the venue day.

use pitwire_model::{
    Allocation, CancelReason, Command, Derivation, Event, InstrumentId, Lots, OrderId, Phase, Reject, SessionReason,
    Ticks, TimeInForce, TradingRules, VenueNanos,
};

use super::auction::Indicated;
use super::entering::legal_price;
use super::tables::permits;
use super::{Kind, Market, Order, Place, ReferenceEngine};

/// A change of session: what a command asked for, or what became of it.
#[derive(Clone, Copy, Debug)]
struct Change {
    to: Phase,
    /// None: said as a change of phase, as the first release did.
    reason: Option<SessionReason>,
    ends: Option<VenueNanos>,
}

const fn stops_a_call(to: Phase) -> bool {
    matches!(to, Phase::Halted | Phase::HaltAndClose | Phase::Pause)
}

/// Whether an operator may ask for it.
fn operators_may(from: Phase, to: Phase) -> bool {
    use Phase::{Continuous, HaltAndClose, Halted, Pause, ReopeningCall, VolatilityCall};
    match to {
        Halted | HaltAndClose | Pause => from != Phase::Closed,
        ReopeningCall => matches!(from, Halted | Pause),
        VolatilityCall => from == Continuous,
        _ => matches!(from, Halted | HaltAndClose | Pause | VolatilityCall | ReopeningCall),
    }
}

pub(super) fn legal_rules(rules: &TradingRules) -> bool {
    let tolerances = rules.tolerances.iter().flat_map(|both| [both.static_bps, both.dynamic_bps]);
    legal_price(rules.improvement) && rules.minimum_reserve != Some(Lots(0)) && tolerances.flatten().all(|bps| bps > 0)
}

impl ReferenceEngine {
    pub(super) fn run_sessions(&mut self, command: &Command, out: &mut Vec<Event>) -> Result<(), Reject> {
        match command {
            Command::SetPhase { instrument, phase } => self.set_phase(*instrument, *phase, out),
            Command::ChangeSession { instrument, to, reason, ends, .. } => {
                let market = self.market(*instrument).ok_or(Reject::UnknownInstrument)?;
                let from = market.phase;
                let deleted = from == Phase::Deleted || *to == Phase::Deleted;
                if from == *to || deleted || (*reason == SessionReason::Operator && !operators_may(from, *to)) {
                    return Err(Reject::SessionNotAllowed);
                }
                self.change(*instrument, Change { to: *to, reason: Some(*reason), ends: *ends }, out);
                Ok(())
            }
            Command::ExtendSession { instrument, ends } => self.extend(*instrument, *ends, out),
            Command::SetRemaining { instrument, remaining } => {
                let at = self.standing(*instrument)?;
                self.markets[at].remaining = *remaining;
                out.push(Event::RemainingSet { instrument: *instrument });
                Ok(())
            }
            Command::BeginDay { day, closes } => {
                (self.day, self.closes) = (*day, *closes);
                out.push(Event::DayBegun { day: *day });
                Ok(())
            }
            Command::PassTime => {
                self.pass_time(out);
                Ok(())
            }
            Command::FilterHidden { instrument } => {
                let at = self.standing(*instrument)?;
                let since = out.len();
                self.markets[at].touch = None;
                self.settle(at, None, out);
                self.conclude(at, since, out);
                Ok(())
            }
            Command::RunBatch { instrument } => {
                let at = self.standing(*instrument)?;
                self.run_batch(at, out);
                Ok(())
            }
            Command::SetTradingRules { instrument, rules } => self.set_rules(*instrument, rules, out),
            Command::SetClosingPrice { instrument, price } => self.set_closing(*instrument, *price, out),
            other => unreachable!("{other:?} is dispatched elsewhere"),
        }
    }

    fn set_phase(&mut self, instrument: InstrumentId, phase: Phase, out: &mut Vec<Event>) -> Result<(), Reject> {
        self.market(instrument).ok_or(Reject::UnknownInstrument)?;
        if phase == Phase::Deleted {
            return Err(Reject::BadDefinition);
        }
        let at = self.standing(instrument)?;
        if self.markets[at].phase == phase {
            out.push(Event::PhaseChanged { instrument, phase });
        } else {
            self.change(instrument, Change { to: phase, reason: None, ends: None }, out);
        }
        Ok(())
    }

    fn extend(&mut self, instrument: InstrumentId, ends: VenueNanos, out: &mut Vec<Event>) -> Result<(), Reject> {
        let at = self.standing(instrument)?;
        let market = &mut self.markets[at];
        if !market.phase.is_call() || ends < self.now {
            return Err(Reject::SessionNotAllowed);
        }
        let since = out.len();
        market.ends = Some(ends);
        let (from, to) = (market.phase, market.phase);
        let ends = market.ends;
        out.push(Event::SessionChanged { instrument, from, to, reason: SessionReason::Extended, ends });
        self.conclude(at, since, out);
        Ok(())
    }

    fn set_rules(
        &mut self,
        instrument: InstrumentId,
        rules: &TradingRules,
        out: &mut Vec<Event>,
    ) -> Result<(), Reject> {
        let at = self.standing(instrument)?;
        let market = &mut self.markets[at];
        if !legal_rules(rules) {
            return Err(Reject::BadDefinition);
        }
        if rules.allocation != market.allocation() && !market.phase.is_quiet() {
            return Err(Reject::SessionNotAllowed);
        }
        market.spec.rules = Some(Box::new(rules.clone()));
        out.push(Event::TradingRulesSet { instrument, rules: Box::new(rules.clone()) });
        Ok(())
    }

    fn set_closing(&mut self, instrument: InstrumentId, price: Ticks, out: &mut Vec<Event>) -> Result<(), Reject> {
        let at = self.standing(instrument)?;
        let market = &mut self.markets[at];
        if matches!(market.phase, Phase::ClosingPriceCross | Phase::PostClose | Phase::Closed) {
            return Err(Reject::SessionNotAllowed);
        }
        if !legal_price(price) {
            return Err(Reject::PriceOutOfRange);
        }
        let since = out.len();
        market.closing = Some((price, Derivation::Manual));
        out.push(Event::ClosingPriceSet { instrument, price, derivation: Derivation::Manual });
        self.conclude(at, since, out);
        Ok(())
    }

    fn change(&mut self, instrument: InstrumentId, change: Change, out: &mut Vec<Event>) {
        let at = instrument.0 as usize;
        let since = out.len();
        self.transit(at, change, out);
        self.conclude(at, since, out);
    }

    fn transit(&mut self, at: usize, mut change: Change, out: &mut Vec<Event>) {
        let market = &mut self.markets[at];
        let (from, was_missed) = (market.phase, market.missed);
        let passes_by = change.reason == Some(SessionReason::Missed) && change.to.is_call();
        let absorbs = !passes_by && from.is_triggered_call() && change.to.is_scheduled_call();
        if was_missed || absorbs {
        } else if from.is_call() && stops_a_call(change.to) {
            market.unfinished.insert(from as u8);
        } else if !self.end_session(at, change.to, out) {
            return;
        }
        let held = from.is_call() && !was_missed;
        let market = &self.markets[at];
        if change.to == Phase::Continuous
            && market.allocation() != Allocation::FrequentBatch
            && !held
            && market.is_crossed()
        {
            match self.uncross(at, Phase::ReopeningCall, out) {
                Ok(_) => _ = self.elect(at, out),
                Err(breach) => {
                    out.push(breach.event(self.markets[at].spec.id));
                    let ends = Some(self.end_of_breaker_call(at));
                    change = Change { to: Phase::VolatilityCall, reason: Some(SessionReason::Breaker), ends };
                }
            }
        }
        self.begin_session(at, change.to, change.reason, change.ends, out);
        if passes_by {
            self.markets[at].missed = true;
            return;
        }
        if matches!(change.to, Phase::ClosingPricePublication | Phase::HaltAndClose) {
            self.markets[at].publish_close(out);
        }
        self.inject(at, out);
        if change.to == Phase::ClosingPriceCross {
            self.open_cross(at, out);
        }
        if !self.act_elected(at, out) && change.to == Phase::Continuous {
            self.settle(at, None, out);
        }
    }

    /// Steps 3 to 5. Says whether the session ended; a breach of a call's price has begun another call instead.
    fn end_session(&mut self, at: usize, to: Phase, out: &mut Vec<Event>) -> bool {
        let from = self.markets[at].phase;
        if from.is_call() {
            match self.uncross(at, from, out) {
                Ok(None) => {}
                Ok(Some(price)) => {
                    let market = &mut self.markets[at];
                    let goes_on = from == Phase::VolatilityCall && market.continues == Some(Phase::ClosingCall);
                    if from == Phase::ClosingCall || goes_on {
                        market.closing_call = Some(price);
                    }
                }
                Err(breach) => {
                    out.push(breach.event(self.markets[at].spec.id));
                    self.markets[at].unfinished.insert(from as u8);
                    let ends = Some(self.end_of_breaker_call(at));
                    self.begin_session(at, Phase::VolatilityCall, Some(SessionReason::Breaker), ends, out);
                    self.markets[at].continues = Some(from);
                    self.markets[at].must_tell = true;
                    self.inject(at, out);
                    return false;
                }
            }
        }
        self.elect(at, out);
        self.expire_with_session(at, to, out);
        true
    }

    fn expire_with_session(&mut self, at: usize, to: Phase, out: &mut Vec<Event>) {
        let market = &self.markets[at];
        let from = market.phase;
        let waits = to.is_call() || stops_a_call(to);
        let counts = !market.unfinished.is_empty() && (from.is_call() || !waits);
        let mut words = permits(from).expire.clone();
        if counts {
            for call in &market.unfinished {
                words.extend(permits(Phase::ALL[usize::from(*call)]).expire.iter().cloned());
            }
        }
        for id in market.numbers(|_| true) {
            if let Some(reason) = self.reason_to_end(at, id, &words) {
                self.markets[at].expel(id, reason, out);
            }
        }
        if from.is_call() || counts {
            self.park_all(at, out);
        }
        if counts {
            self.markets[at].unfinished.clear();
        }
    }

    fn reason_to_end(&self, at: usize, id: OrderId, words: &[String]) -> Option<CancelReason> {
        let market = &self.markets[at];
        let order = market.get(id)?;
        let listed = |word: &str| words.iter().any(|listed| listed == word);
        if order.is_active() {
            let is_market = order.kind == Kind::Market;
            if market.is_batching() && (is_market || order.tif == TimeInForce::ImmediateOrCancel) {
                return Some(CancelReason::ImmediateRemainder);
            }
            if is_market && listed("market") && !matches!(order.tif, TimeInForce::AnyCall | TimeInForce::ClosingCross) {
                let pauses = market.phase == Phase::Pause;
                return Some(if pauses { CancelReason::PauseEnded } else { CancelReason::CallEnded });
            }
            match order.tif {
                TimeInForce::OpeningCall | TimeInForce::IntradayCall | TimeInForce::ClosingCall
                    if listed(order.tif.name()) =>
                {
                    return Some(CancelReason::CallEnded);
                }
                TimeInForce::ClosingCross if listed("cpx") => return Some(CancelReason::CrossEnded),
                _ => {}
            }
        }
        self.has_passed(order).then_some(CancelReason::TimeReached)
    }

    pub(super) fn has_passed(&self, order: &Order) -> bool {
        matches!(order.tif, TimeInForce::GoodTillTime { at } if at <= self.now)
    }

    /// Sets every active GFA order aside.
    fn park_all(&mut self, at: usize, out: &mut Vec<Event>) {
        for id in self.markets[at].numbers(|order| order.is_active() && order.tif == TimeInForce::AnyCall) {
            self.markets[at].park(id, out);
        }
    }

    /// Step 7, and what the state notes of it.
    pub(super) fn begin_session(
        &mut self,
        at: usize,
        to: Phase,
        reason: Option<SessionReason>,
        ends: Option<VenueNanos>,
        out: &mut Vec<Event>,
    ) {
        let now = self.now;
        let market = &mut self.markets[at];
        let (instrument, from) = (market.spec.id, market.phase);
        if from == Phase::Continuous {
            market.continuous_ended = Some(now);
        }
        market.phase = to;
        market.ends = ends;
        market.missed = false;
        market.continues = None;
        market.touch = None;
        market.told = Indicated::default();
        market.remaining.take_one(to);
        out.push(match reason {
            Some(reason) => Event::SessionChanged { instrument, from, to, reason, ends },
            None => Event::PhaseChanged { instrument, phase: to },
        });
    }

    /// Parked orders that the session is for come to the book.
    pub(super) fn inject(&mut self, at: usize, out: &mut Vec<Event>) {
        let market = &mut self.markets[at];
        let takes = &permits(market.phase).inject;
        let waits = |order: &Order| order.place == Place::Parked && takes.iter().any(|tif| tif == order.tif.name());
        for id in market.numbers(waits) {
            let instrument = market.spec.id;
            let order = market.get_mut(id);
            order.place = Place::Active;
            order.mode = None;
            order.shown = order.first_show();
            let order = *order;
            out.push(Event::Injected { order: id, account: order.account, instrument });
            market.tell_level_of(&order, out);
        }
    }

    fn run_batch(&mut self, at: usize, out: &mut Vec<Event>) {
        if !self.markets[at].is_batching() {
            return;
        }
        let since = out.len();
        let times = self.times;
        self.markets[at].batch_ends.push(times);
        let breach = self.uncross(at, Phase::Continuous, out).err();
        if let Some(breach) = breach {
            out.push(breach.event(self.markets[at].spec.id));
        }
        let reason = if breach.is_some() { CancelReason::Breaker } else { CancelReason::ImmediateRemainder };
        let ends = |order: &Order| {
            order.is_active() && (order.kind == Kind::Market || order.tif == TimeInForce::ImmediateOrCancel)
        };
        for id in self.markets[at].numbers(ends) {
            self.markets[at].expel(id, reason, out);
        }
        if breach.is_some() {
            self.begin_breaker_call(at, out);
        } else {
            self.elect(at, out);
            self.act_elected(at, out);
        }
        self.conclude(at, since, out);
    }
}

impl Market {
    /// Halted, and nothing else: an engine that failed does as little as it can.
    pub(super) fn be_quarantined(&mut self, now: VenueNanos) {
        if self.phase == Phase::Halted {
            return;
        }
        if self.phase.is_call() && !self.missed {
            self.unfinished.insert(self.phase as u8);
        }
        if self.phase == Phase::Continuous {
            self.continuous_ended = Some(now);
        }
        (self.phase, self.ends, self.missed) = (Phase::Halted, None, false);
        (self.continues, self.touch, self.told) = (None, None, Indicated::default());
    }

    fn is_crossed(&self) -> bool {
        use pitwire_model::Side::{Buy, Sell};
        matches!((self.best(Buy), self.best(Sell)), (Some(bid), Some(offer)) if bid >= offer)
    }

    /// Sets an order aside until a session that it is for.
    pub(super) fn park(&mut self, id: OrderId, out: &mut Vec<Event>) {
        let instrument = self.spec.id;
        let order = self.get_mut(id);
        let before = *order;
        order.place = Place::Parked;
        order.shown = 0;
        out.push(Event::Parked { order: id, account: before.account, instrument, open: Lots(before.open) });
        self.tell_level_of(&before, out);
    }
}
