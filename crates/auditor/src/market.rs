//! The state of one instrument, composed of session, prices, call, closing prices, trade reporting
//! and book.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    Allocation, InstrumentSpec, Lots, Phase, RemainingSessions, Seq, Ticks, TradeReport, TradeSeq, TradingRules,
    VenueNanos,
};

use crate::book::ShadowBook;
use crate::closing::{ClosingPrices, DayStatistics};
use crate::money::SettlementTerms;
use crate::rule_tables::tables;

/// One instrument as the events have described it.
#[derive(Debug)]
pub struct MarketState {
    pub spec: InstrumentSpec,
    pub rules: TradingRules,
    pub terms: SettlementTerms,
    pub session: AuditedSession,
    pub prices: MarketPrices,
    pub call: CallState,
    pub closing: ClosingPrices,
    pub day: DayStatistics,
    pub change_id: u64,
    /// Number of the last trade.
    pub trades: u64,
    pub busted: BTreeSet<TradeSeq>,
    pub reporting: ReportingState,
    pub book: ShadowBook,
}

/// The session of an instrument and what earlier sessions left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedSession {
    pub phase: Phase,
    pub ends: Option<VenueNanos>,
    /// The session is a call whose whole time passed while the venue was down. It does not uncross.
    pub missed: bool,
    /// Sessions that the schedule still holds for this day.
    pub remaining: RemainingSessions,
    /// Times in force, and `market`, that an interrupted call still has to expire.
    /// `None` if no call was interrupted.
    pub unfinished: Option<BTreeSet<String>>,
    /// The call that the current volatility call continues.
    pub continues: Option<Phase>,
}

/// The last price and the references of the price controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketPrices {
    pub last: Option<Ticks>,
    pub dynamic: Option<Ticks>,
    pub static_reference: Option<Ticks>,
}

/// Figures that calls and batches have published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallState {
    /// The last published indicative price, volume and imbalance.
    pub indicated: (Option<Ticks>, Lots, i64),
    /// The priority numbers at which batches ended, ascending.
    pub batch_ends: Vec<u64>,
}

/// Trade reporting of one instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportingState {
    /// `Some` while reporting is open. The inner value is the end of the hours, if it was
    /// announced.
    pub hours: Option<Option<VenueNanos>>,
    /// Number of the last off-book trade.
    pub trades: u64,
    /// Reports that the counterparty has not answered.
    pub waiting: BTreeMap<Seq, TradeReport>,
}

impl AuditedSession {
    pub fn new(phase: Phase) -> AuditedSession {
        AuditedSession {
            phase,
            ends: None,
            missed: false,
            remaining: RemainingSessions::default(),
            unfinished: None,
            continues: None,
        }
    }

    /// Stores the expiries of an interrupted call until a later session ends.
    pub fn interrupt_call(&mut self, call: Phase) {
        let expire = tables().permits(call).expire.iter().cloned();
        self.unfinished.get_or_insert_default().extend(expire);
    }
}

impl MarketState {
    /// An instrument that has not traded yet.
    pub fn new(spec: &InstrumentSpec, terms: SettlementTerms, phase: Phase) -> MarketState {
        MarketState {
            rules: spec.rules.as_deref().cloned().unwrap_or_default(),
            prices: MarketPrices { last: None, dynamic: None, static_reference: Some(spec.start_price) },
            spec: spec.clone(),
            terms,
            session: AuditedSession::new(phase),
            call: CallState::default(),
            closing: ClosingPrices::default(),
            day: DayStatistics::default(),
            change_id: 0,
            trades: 0,
            busted: BTreeSet::new(),
            reporting: ReportingState::default(),
            book: ShadowBook::default(),
        }
    }

    /// Halts the instrument after a quarantined command, without the events that end a session.
    pub fn halt(&mut self, now: VenueNanos) {
        if self.session.phase == Phase::Halted {
            return;
        }
        if self.session.phase.is_call() && !self.session.missed {
            self.session.interrupt_call(self.session.phase);
        }
        self.set_phase(Phase::Halted, None, now);
    }

    /// Begins a session and resets what belongs to one session only.
    pub fn set_phase(&mut self, phase: Phase, ends: Option<VenueNanos>, now: VenueNanos) {
        if self.session.phase == Phase::Continuous {
            self.closing.ended = Some(now);
        }
        (self.session.phase, self.session.ends) = (phase, ends);
        (self.session.missed, self.session.continues) = (false, None);
        self.call.indicated = Default::default();
    }

    /// Whether orders meet in frequent batches.
    pub fn is_batched(&self) -> bool {
        self.rules.allocation == Allocation::FrequentBatch
    }

    /// Whether a frequent batch collects orders now.
    pub fn is_batched_now(&self) -> bool {
        self.is_batched() && self.session.phase == Phase::Continuous
    }
}
