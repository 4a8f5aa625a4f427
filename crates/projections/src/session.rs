//! One instrument's session as the public knows it: from public events alone, so that nothing hidden can show.

use pitwire_model::{Derivation, Event, Lots, Phase, SessionReason, Side, Ticks, VenueNanos};

use crate::day::Day;

/// What a call would do if it ended now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indicative {
    pub price: Option<Ticks>,
    pub volume: Lots,
    /// What buys are more than sells at that price.
    pub imbalance: i64,
}

impl Indicative {
    /// The side that has more; `None` when both have as much.
    pub const fn heavy(&self) -> Option<Side> {
        match self.imbalance {
            0 => None,
            1.. => Some(Side::Buy),
            _ => Some(Side::Sell),
        }
    }

    /// What one side has at the indicative price: the volume, and on the heavy side the imbalance.
    pub fn willing(&self, side: Side) -> u64 {
        let more = if self.heavy() == Some(side) { self.imbalance.unsigned_abs() } else { 0 };
        self.volume.0.saturating_add(more)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncross {
    pub call: Phase,
    pub price: Ticks,
    pub volume: Lots,
    pub at: VenueNanos,
}

/// Tolerances that an execution would have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breach {
    pub price: Ticks,
    pub reference: Ticks,
    pub at: VenueNanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub phase: Phase,
    pub from: Phase,
    pub reason: SessionReason,
    pub since: VenueNanos,
    /// `None` where nobody has said.
    pub ends: Option<VenueNanos>,
    /// While a call (or a batch) collects orders and has said something.
    pub indicative: Option<Indicative>,
    /// The latest.
    pub uncross: Option<Uncross>,
    /// The one that led to the session that runs.
    pub breach: Option<Breach>,
    /// The day's, once there is one.
    pub closing: Option<(Ticks, Derivation)>,
    pub previous_close: Option<Ticks>,
    pub day: Day,
}

impl Default for SessionView {
    fn default() -> Self {
        SessionView {
            phase: Phase::Closed,
            from: Phase::Closed,
            reason: SessionReason::Operator,
            since: VenueNanos::ZERO,
            ends: None,
            indicative: None,
            uncross: None,
            breach: None,
            closing: None,
            previous_close: None,
            day: Day::default(),
        }
    }
}

impl SessionView {
    pub fn closing_price(&self) -> Option<Ticks> {
        self.closing.map(|(price, _)| price)
    }

    /// Takes in what one event says of this instrument; trades are told apart, by the tape.
    pub(crate) fn observe(&mut self, event: &Event, at: VenueNanos) {
        match event {
            Event::PhaseChanged { phase, .. } => self.turn(self.phase, *phase, SessionReason::Operator, None, at),
            Event::SessionChanged { from, to, reason, ends, .. } => self.turn(*from, *to, *reason, *ends, at),
            Event::Indicative { price, volume, imbalance, .. } => {
                self.indicative = Some(Indicative { price: *price, volume: *volume, imbalance: *imbalance });
            }
            Event::Uncrossed { call, price, volume, .. } => {
                self.uncross = Some(Uncross { call: *call, price: *price, volume: *volume, at });
            }
            Event::Breached { price, reference, .. } => {
                self.breach = Some(Breach { price: *price, reference: *reference, at });
            }
            Event::ClosingPriceSet { price, derivation, .. } => self.closing = Some((*price, *derivation)),
            _ => {}
        }
    }

    fn turn(&mut self, from: Phase, to: Phase, reason: SessionReason, ends: Option<VenueNanos>, at: VenueNanos) {
        self.reason = reason;
        self.ends = ends;
        // An extension ends no session and begins none.
        if from == to {
            return;
        }
        (self.from, self.phase, self.since) = (from, to, at);
        self.indicative = None;
        // A breach is told before the session that it leads to.
        self.breach = self.breach.filter(|breach| reason == SessionReason::Breaker && breach.at == at);
    }

    pub(crate) fn day_ended(&mut self) {
        self.previous_close = self.closing_price().or(self.previous_close);
        self.closing = None;
        self.day = Day::default();
    }
}
