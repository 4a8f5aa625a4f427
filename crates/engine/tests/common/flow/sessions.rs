//! Session commands of schedule and operators, in random order.

use std::collections::VecDeque;

use pitwire_model::{
    Allocation, Command, InstrumentId, Lots, Phase, RemainingSessions, SessionReason, Ticks, Tolerance, TradingRules,
    VenueDay, VenueNanos,
};

use super::{Flow, Kind};
use crate::common::SplitMix64;
use crate::common::world::INSTRUMENTS;

/// The sessions that a seed uses: a few or all.
pub(super) fn favourites(rng: &mut SplitMix64) -> Vec<Phase> {
    let all: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted).collect();
    if rng.one_in(3) {
        return all;
    }
    let mut few: Vec<Phase> = (0..1 + rng.below(4)).map(|_| rng.pick(&all)).collect();
    few.push(Phase::Continuous);
    few
}

/// Whether the session refuses all orders.
pub(super) fn sleeps(phase: Phase) -> bool {
    phase.is_quiet() && !matches!(phase, Phase::Pause | Phase::Deleted)
}

impl Flow {
    /// Moves an instrument whose session refuses orders to one that accepts them.
    pub(super) fn wake(&mut self) -> Command {
        let asleep: Vec<u32> = (0..INSTRUMENTS).filter(|id| sleeps(self.phases[*id as usize])).collect();
        let instrument = InstrumentId(self.rng.pick(&asleep));
        let awake: Vec<Phase> = self.favourites.iter().copied().filter(|phase| !phase.is_quiet()).collect();
        let to = if awake.is_empty() || self.rng.one_in(2) { Phase::Continuous } else { self.rng.pick(&awake) };
        if !self.by_the_book {
            return Command::SetPhase { instrument, phase: Phase::Continuous };
        }
        Command::ChangeSession { instrument, to, reason: SessionReason::Scheduled, due: self.at, ends: None }
    }

    /// Sets the rules of each instrument, the day, and its remaining sessions.
    pub(super) fn prelude(&mut self) -> VecDeque<Command> {
        let mut first = VecDeque::new();
        if !self.by_the_book {
            return first;
        }
        if !self.rng.one_in(8) {
            first.push_back(Command::BeginDay { day: VenueDay(self.day), closes: self.close() });
        }
        for id in 0..INSTRUMENTS {
            let instrument = InstrumentId(id);
            first.push_back(Command::SetPhase { instrument, phase: Phase::Closed });
            if self.rng.one_in(2) || self.allocations[id as usize] != Allocation::PriceTime {
                let rules = Box::new(self.rules(instrument));
                first.push_back(Command::SetTradingRules { instrument, rules });
            }
            first.push_back(Command::SetRemaining { instrument, remaining: self.remaining() });
            first.push_back(Command::SetPhase { instrument, phase: Phase::Continuous });
        }
        first
    }

    fn close(&mut self) -> VenueNanos {
        let length = self.rng.pick(&[40_000, 1_000_000, 1_000_000_000_000, 1_000_000_000_000]);
        VenueNanos(self.at.0 + length)
    }

    pub(super) fn run_the_day(&mut self, kind: Kind) -> Command {
        let instrument = self.instrument();
        match kind {
            Kind::ChangeSession => self.change_session(instrument),
            Kind::ExtendSession => {
                let ends = VenueNanos(self.at.0.saturating_add_signed(self.rng.pick(&[-1, 0, 1, 1_000_000])));
                Command::ExtendSession { instrument, ends }
            }
            Kind::SetRemaining => Command::SetRemaining { instrument, remaining: self.remaining() },
            Kind::BeginDay => {
                self.day += self.rng.pick(&[1, 1, 1, 2, 30, 89, 90]);
                Command::BeginDay { day: VenueDay(self.day), closes: self.close() }
            }
            Kind::PassTime => Command::PassTime,
            Kind::FilterHidden => Command::FilterHidden { instrument },
            Kind::RunBatch => Command::RunBatch { instrument },
            Kind::SetRules => {
                let mut rules = Box::new(self.rules(instrument));
                if self.rng.one_in(3) {
                    rules.allocation = self.rng.pick(&Allocation::ALL);
                }
                Command::SetTradingRules { instrument, rules }
            }
            _ => Command::SetClosingPrice { instrument, price: self.price(instrument) },
        }
    }

    fn change_session(&mut self, instrument: InstrumentId) -> Command {
        let from = self.phases.get(instrument.0 as usize).copied().unwrap_or(Phase::Closed);
        let to = match self.rng.below(12) {
            0 => self.rng.pick(&Phase::ALL),
            // An idle instrument tests little, so it soon returns to trading.
            1..=6 if from != Phase::Continuous => Phase::Continuous,
            7 if from.is_call() => self.rng.pick(&[Phase::Halted, Phase::Pause, Phase::HaltAndClose]),
            8 if from.is_quiet() => Phase::ReopeningCall,
            9 => self.rng.pick(&[Phase::ClosingPricePublication, Phase::ClosingPriceCross]),
            _ => self.rng.pick(&self.favourites),
        };
        // `Deleted` is not a session, so the request is refused.
        let to = if to == Phase::Deleted && !self.rng.one_in(10) { Phase::Continuous } else { to };
        let reason = match self.rng.below(12) {
            0..=2 => SessionReason::Operator,
            3 => SessionReason::Missed,
            _ => SessionReason::Scheduled,
        };
        let ends = self.rng.one_in(2).then(|| VenueNanos(self.at.0 + 1_000_000));
        Command::ChangeSession { instrument, to, reason, due: self.at, ends }
    }

    fn remaining(&mut self) -> RemainingSessions {
        let mut remaining = RemainingSessions::default();
        let most = self.rng.pick(&[1, 2, 4, 4]);
        for count in &mut remaining.counts {
            *count = u8::try_from(self.rng.below(most)).expect("a few");
        }
        remaining
    }

    /// Returns tolerances near the price range of this flow.
    fn rules(&mut self, instrument: InstrumentId) -> TradingRules {
        let mut rules = TradingRules {
            allocation: self.allocations.get(instrument.0 as usize).copied().unwrap_or_default(),
            ..TradingRules::default()
        };
        rules.improvement = Ticks(self.rng.pick(&[1, 1, 2, 5]));
        rules.minimum_reserve = self.rng.one_in(3).then(|| Lots(1 + self.rng.below(5)));
        rules.band_pct = self.rng.one_in(3).then(|| self.rng.pick(&[0, 1, 5, 90, 90, 400]));
        rules.volatility_call_ns = self.rng.pick(&[0, 5_000, 300_000_000_000]);
        if self.rng.one_in(2) {
            for tolerance in &mut rules.tolerances {
                let mut bps = || (!self.rng.one_in(3)).then(|| self.rng.pick(&[20, 30, 50, 60, 500, 5_000]));
                *tolerance = Tolerance { static_bps: bps(), dynamic_bps: bps() };
            }
        }
        rules.min_display_pct = self.rng.pick(&[1, 1, 2, 20, 50, 100]);
        match self.rng.below(60) {
            3 => rules.min_display_pct = self.rng.pick(&[0, 101]),
            0 => rules.improvement = Ticks(0),
            1 => rules.minimum_reserve = Some(Lots(0)),
            2 => rules.tolerances[3].static_bps = Some(0),
            _ => {}
        }
        rules
    }
}
