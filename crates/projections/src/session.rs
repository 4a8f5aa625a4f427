//! The public state of one instrument's session, derived from public events only, so that it cannot
//! reveal hidden orders.

use pitwire_model::{Derivation, Event, Lots, Phase, SessionReason, Side, Ticks, VenueNanos};

use crate::day::Day;

/// Result of a call if it ended now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indicative {
    pub price: Option<Ticks>,
    pub volume: Lots,
    /// Buy volume minus sell volume at that price.
    pub imbalance: i64,
}

impl Indicative {
    /// Returns the side with more volume, or `None` if both have the same.
    pub const fn heavy(&self) -> Option<Side> {
        match self.imbalance {
            0 => None,
            1.. => Some(Side::Buy),
            _ => Some(Side::Sell),
        }
    }

    /// Returns one side's volume at the indicative price: the matched volume, plus the imbalance on
    /// the larger side.
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

/// A breach of price tolerances that stopped an execution.
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
    /// `None` if the end is unknown.
    pub ends: Option<VenueNanos>,
    /// Set while a call or a batch collects orders and has published an indicative price.
    pub indicative: Option<Indicative>,
    /// The latest uncross.
    pub uncross: Option<Uncross>,
    /// The breach that led to the running session.
    pub breach: Option<Breach>,
    /// The closing price of the day, once it exists.
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

    /// Takes in an event of this instrument. Trades go to the tape instead.
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
        // An extension neither ends nor begins a session.
        if from == to {
            return;
        }
        (self.from, self.phase, self.since) = (from, to, at);
        self.indicative = None;
        // A breach is reported before the session that it leads to.
        self.breach = self.breach.filter(|breach| reason == SessionReason::Breaker && breach.at == at);
    }

    pub(crate) fn day_ended(&mut self) {
        self.previous_close = self.closing_price().or(self.previous_close);
        self.closing = None;
        self.day = Day::default();
    }
}
