//! One session ends and another begins (rulebook 5, 10.4, 16).
//!
//! Does        hold a change of session against the order of operations: uncross, elect, expire, park, the word of it,
//!             closing price, injections, what elected stops do.
//! Leaves out  what the schedule says: the journal alone tells which session was due.
//! Start at    [`Auditor::judge_session`].

use std::collections::BTreeSet;

use pitwire_model::{
    CancelReason, Event, InstrumentId, OrderId, Phase, Reject, SessionReason, TimeInForce, VenueNanos,
};

use crate::book::{Live, Place};
use crate::fault::{Judged, offence};
use crate::tables::tables;
use crate::turn::Turn;
use crate::{Auditor, Market};

/// A session that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub to: Phase,
    pub reason: SessionReason,
    pub ends: Option<VenueNanos>,
    /// By the command of the first release, which is answered in its own word.
    pub is_old: bool,
}

impl Market {
    /// Whether this change of session is to be refused.
    pub fn session_due(&self, to: Phase, reason: SessionReason) -> Result<(), Reject> {
        let from = self.phase;
        let is_way = match (reason, to) {
            (SessionReason::Operator, Phase::Halted | Phase::HaltAndClose | Phase::Pause) => {
                !matches!(from, Phase::Closed | Phase::Deleted)
            }
            (SessionReason::Operator, Phase::ReopeningCall) => matches!(from, Phase::Halted | Phase::Pause),
            (SessionReason::Operator, Phase::VolatilityCall) => from == Phase::Continuous,
            (SessionReason::Operator, _) => matches!(
                from,
                Phase::Halted | Phase::HaltAndClose | Phase::Pause | Phase::VolatilityCall | Phase::ReopeningCall
            ),
            _ => true,
        };
        let is_possible = from != to && from != Phase::Deleted && to != Phase::Deleted;
        if is_way && is_possible { Ok(()) } else { Err(Reject::SessionNotAllowed) }
    }
}

impl Auditor {
    pub(crate) fn judge_session(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, change: Change) -> Judged {
        let from = self.market_of(instrument).phase;
        let was_missed = self.market_of(instrument).missed;
        let is_missed_call = change.reason == SessionReason::Missed && change.to.is_call();
        let is_absorbed = from.is_triggered_call() && change.to.is_scheduled_call() && !is_missed_call;
        if !was_missed && !is_absorbed {
            if from.is_call() && is_standstill(change.to) {
                self.market_mut(instrument).interrupt(from);
            } else if self.follow_end(turn, instrument, from, change.to)? {
                return self.follow_call_breach(turn, instrument, from);
            }
        }
        let mut change = change;
        let market = self.market_of(instrument);
        if change.to == Phase::Continuous
            && !market.is_batched()
            && (!from.is_call() || was_missed)
            && market.book.is_crossed().is_some()
        {
            if self.follow_uncross(turn, instrument, Phase::ReopeningCall)? {
                change = Change { to: Phase::VolatilityCall, reason: SessionReason::Breaker, ..change };
            } else {
                self.see_elections(turn, instrument)?;
            }
        }
        self.see_change(turn, instrument, change)?;
        if is_missed_call {
            self.market_mut(instrument).missed = true;
            return Ok(());
        }
        self.follow_beginning(turn, instrument, change.to)
    }

    /// What a session's end brings about; whether a tolerance kept the call from uncrossing.
    fn follow_end(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, from: Phase, to: Phase) -> Judged<bool> {
        if from.is_call() && self.follow_uncross(turn, instrument, from)? {
            return Ok(true);
        }
        self.see_elections(turn, instrument)?;
        let counts = from.is_call() || !(to.is_call() || is_standstill(to));
        let market = self.market_mut(instrument);
        let unfinished = if counts { market.unfinished.take() } else { None };
        self.see_expiries(turn, instrument, from, unfinished.as_ref())?;
        if from.is_call() || unfinished.is_some() {
            let waits = |order: &&Live| {
                order.instrument == instrument && order.is_active() && order.tif == TimeInForce::AnyCall
            };
            let due: Vec<Live> = self.orders.values().filter(waits).copied().collect();
            for order in &due {
                self.see_parked(turn, order)?;
            }
        }
        Ok(false)
    }

    fn see_expiries(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        from: Phase,
        unfinished: Option<&BTreeSet<String>>,
    ) -> Judged {
        let ends =
            |what: &str| tables().expires(from, what) || unfinished.is_some_and(|unfinished| unfinished.contains(what));
        let market = self.market_of(instrument);
        let is_batch = from == Phase::Continuous && market.is_batched();
        let now = self.at;
        let reason = |order: &Live| {
            let tif = order.tif.name();
            let waits = matches!(order.tif, TimeInForce::AnyCall | TimeInForce::ClosingCross);
            if order.is_active() && is_batch && (order.is_market() || order.is_immediate()) {
                return Some(CancelReason::ImmediateRemainder);
            }
            if order.is_active() && order.is_market() && !waits && ends("market") {
                return Some(if from == Phase::Pause { CancelReason::PauseEnded } else { CancelReason::CallEnded });
            }
            match order.tif {
                TimeInForce::OpeningCall | TimeInForce::IntradayCall | TimeInForce::ClosingCall => {
                    (order.is_active() && ends(tif)).then_some(CancelReason::CallEnded)
                }
                TimeInForce::ClosingCross => (order.is_active() && ends(tif)).then_some(CancelReason::CrossEnded),
                TimeInForce::GoodTillTime { at } => (at <= now && ends(tif)).then_some(CancelReason::TimeReached),
                _ => None,
            }
        };
        let mine = self.orders.values().filter(|order| order.instrument == instrument);
        let due: Vec<(OrderId, CancelReason)> = mine.filter_map(|order| Some((order.id, reason(order)?))).collect();
        for (order, reason) in due {
            self.see_leaving(turn, order, reason)?;
        }
        Ok(())
    }

    /// A call whose price breaches goes on as a volatility call; nothing of it has ended.
    fn follow_call_breach(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, from: Phase) -> Judged {
        self.market_mut(instrument).interrupt(from);
        self.see_session(turn, instrument, Phase::VolatilityCall, SessionReason::Breaker, None)?;
        self.market_mut(instrument).continues = Some(from);
        self.see_injections(turn, instrument)?;
        self.judge_outlook(turn, instrument, true)
    }

    fn see_change(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, change: Change) -> Judged {
        if change.is_old {
            let phase = change.to;
            match self.peek(turn)? {
                Some(Event::PhaseChanged { instrument: of, phase: to }) if (*of, *to) == (instrument, phase) => {
                    turn.pass();
                }
                Some(Event::SessionChanged { .. }) if change.reason == SessionReason::Breaker => {
                    return self.see_session(turn, instrument, phase, change.reason, None);
                }
                told => offence!(M8, "instrument {instrument} was to become {} and {told:?} was said", phase.name()),
            }
            self.enter_session(instrument, phase, change.ends);
            return Ok(());
        }
        let ends = (change.reason != SessionReason::Breaker).then_some(change.ends);
        self.see_session(turn, instrument, change.to, change.reason, ends)
    }

    /// The word that a session begins. When it ends is judged where a command said it.
    pub(crate) fn see_session(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        phase: Phase,
        why: SessionReason,
        until: Option<Option<VenueNanos>>,
    ) -> Judged {
        let before = self.market_of(instrument).phase;
        let ends = match self.peek(turn)? {
            Some(Event::SessionChanged { instrument: of, from, to, reason, ends })
                if (*of, *from, *to, *reason) == (instrument, before, phase, why)
                    && until.is_none_or(|until| until == *ends) =>
            {
                turn.pass();
                *ends
            }
            Some(Event::Cancelled { order, reason, .. }) => {
                offence!(M5, "order {order} was cancelled ({reason:?}) and nothing of {} ends it", before.name())
            }
            Some(Event::Parked { order, .. }) => offence!(M5, "order {order} was parked and had no reason to be"),
            Some(Event::Triggered { order, .. }) => offence!(M5, "order {order} was elected and was not due"),
            Some(Event::Trade { trade_seq, .. }) => {
                offence!(M8, "trade {trade_seq} where {} ends, and no trade was due", before.name())
            }
            told => offence!(
                M8,
                "instrument {instrument} was to go from {} to {} ({}) and {told:?} was said",
                before.name(),
                phase.name(),
                why.name()
            ),
        };
        self.enter_session(instrument, phase, ends);
        Ok(())
    }

    fn enter_session(&mut self, instrument: InstrumentId, phase: Phase, ends: Option<VenueNanos>) {
        let now = self.at;
        let market = self.market_mut(instrument);
        if market.phase == Phase::Continuous {
            market.close.ended = Some(now);
        }
        market.phase = phase;
        market.ends = ends;
        market.missed = false;
        market.continues = None;
        market.indicated = Default::default();
        market.remaining.take_one(phase);
    }

    /// What a session's beginning brings about, after the word of it.
    fn follow_beginning(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, phase: Phase) -> Judged {
        if matches!(phase, Phase::ClosingPricePublication | Phase::HaltAndClose) {
            self.see_closing_price(turn, instrument)?;
        }
        self.see_injections(turn, instrument)?;
        if phase == Phase::ClosingPriceCross {
            self.follow_cross_opening(turn, instrument)?;
        }
        let waiting = self.waiting(instrument);
        if phase == Phase::Continuous && !self.market_of(instrument).is_batched() {
            for (at, order) in waiting.iter().enumerate() {
                if self.act(turn, *order)?.is_some() {
                    return self.follow_breach(turn, instrument, &waiting[at + 1..]);
                }
            }
        } else if phase == Phase::ClosingPriceCross {
            for order in waiting {
                self.arrive_elected(turn, order)?;
            }
        } else {
            self.join_all(turn, &waiting)?;
        }
        self.settle_book(turn, instrument, None, None)
    }

    /// Elected stops that have not acted yet, in the order of their election.
    fn waiting(&self, instrument: InstrumentId) -> Vec<OrderId> {
        let is_waiting = |order: &&Live| order.instrument == instrument && order.place == Place::Elected;
        let mut waiting: Vec<&Live> = self.orders.values().filter(is_waiting).collect();
        waiting.sort_by_key(|order| order.arrival);
        waiting.iter().map(|order| order.id).collect()
    }

    pub(crate) fn judge_extension(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        ends: VenueNanos,
    ) -> Judged {
        let phase = self.market_of(instrument).phase;
        let reason = SessionReason::Extended;
        let due = Event::SessionChanged { instrument, from: phase, to: phase, reason, ends: Some(ends) };
        self.expect(turn, &due)?;
        self.market_mut(instrument).ends = Some(ends);
        Ok(())
    }
}

/// A session that interrupts a call: nothing of the call ends.
const fn is_standstill(phase: Phase) -> bool {
    matches!(phase, Phase::Halted | Phase::HaltAndClose | Phase::Pause)
}
