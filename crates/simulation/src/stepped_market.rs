//! A market whose caller decides when time passes, and enters commands in between.

use std::path::PathBuf;

use pitwire_configuration::Preset;
use pitwire_disk::DirectoryLock;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_flow_models::FlowSource;
use pitwire_journal::records::OutputChain;
use pitwire_model::{Command, Event, Seq, VenueNanos};
use pitwire_schedule::RandomEnds;

use crate::flow_set::{START, definition, start_flow};
use crate::market::{RunObserver, SimulatedMarket};
use crate::run_directory;

/// The plan of a [`SteppedMarket`].
pub struct SteppedPlan {
    pub preset: Preset,
    /// The order flow; `None` leaves the market to its caller.
    pub flow: Option<FlowSource>,
    pub seed: u64,
    /// Directory for the journal of the run.
    pub directory: Option<PathBuf>,
    /// Whether the tape hash is computed. A run with a directory always computes it.
    pub has_tape_hash: bool,
}

/// Result of [`SteppedMarket::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketStep {
    /// One command was executed.
    Command,
    /// An event of the flow led to no command.
    Idle,
    /// Nothing more is due, and the time is now the requested one.
    Done,
}

/// A market that its caller drives.
///
/// The same plan and the same calls give the same tape hash. A market without commands of its
/// caller gives the tape hash of a [`SimulationPlan`](crate::SimulationPlan) with the same seed.
pub struct SteppedMarket {
    market: SimulatedMarket,
    chain: OutputChain,
    has_tape_hash: bool,
    now: VenueNanos,
    /// Holds the directory for as long as the market exists.
    _lock: Option<DirectoryLock>,
}

impl SteppedMarket {
    /// Creates the market with its definitions and its flow.
    ///
    /// # Errors
    ///
    /// Returns a failure if the directory has another owner, holds a run, or cannot be written.
    pub fn open(plan: &SteppedPlan) -> Result<Self, Failure> {
        let calendar = plan.preset.setup.calendar(RandomEnds::from_seed(plan.seed))?;
        let start = plan.preset.start(&calendar, START, VenueNanos::ZERO);
        let mut observer = RunObserver::default();
        let directory = plan.directory.as_deref();
        let (mut market, lock) = SimulatedMarket::open(&plan.preset, calendar, start, directory, &mut observer)?;
        if let Some(source) = &plan.flow {
            if let Some(command) = definition(source)? {
                let stamped = market.submit(start, command)?;
                observer.observe(&stamped, &market.events);
            }
            let flow = start_flow(source, &plan.preset, plan.seed, start, market.sequencer.engine())?;
            market.event_queue.set_flow(flow);
        }
        let has_tape_hash = plan.has_tape_hash || lock.is_some();
        Ok(SteppedMarket { market, chain: observer.chain, has_tape_hash, now: start, _lock: lock })
    }

    /// Executes a command at the current time and returns its number. [`SteppedMarket::events`] has
    /// its events.
    ///
    /// # Errors
    ///
    /// Returns a failure if the journal cannot be written. The market must then be closed.
    pub fn submit(&mut self, command: Command) -> Result<Seq, Failure> {
        let stamped = self.market.submit(self.now, command)?;
        if self.has_tape_hash {
            self.chain.absorb(&stamped, &self.market.events);
            run_directory::commit_full_group(&mut self.market.sequencer, &mut self.chain)?;
        }
        Ok(stamped.seq)
    }

    /// Executes the next command of the flow or the schedule that is due by `until`.
    ///
    /// # Errors
    ///
    /// As [`SteppedMarket::submit`].
    pub fn step(&mut self, until: VenueNanos) -> Result<MarketStep, Failure> {
        if self.market.event_queue.next_due() > until {
            self.now = self.now.max(until);
            return Ok(MarketStep::Done);
        }
        let Some(stamped) = self.market.step(until)? else { return Ok(MarketStep::Idle) };
        self.now = stamped.at;
        if self.has_tape_hash {
            self.chain.absorb(&stamped, &self.market.events);
            run_directory::commit_full_group(&mut self.market.sequencer, &mut self.chain)?;
        }
        Ok(MarketStep::Command)
    }

    /// Events of the last command.
    pub fn events(&self) -> &[Event] {
        &self.market.events
    }

    pub fn engine(&self) -> &Engine {
        self.market.sequencer.engine()
    }

    /// Returns the current venue time.
    pub fn now(&self) -> VenueNanos {
        self.now
    }

    /// Returns the number of the last command.
    pub fn last(&self) -> Seq {
        self.market.sequencer.last()
    }

    /// Returns the number of commands of the order flow so far.
    pub fn flow_commands(&self) -> u64 {
        self.market.flow_commands()
    }

    pub fn has_flow(&self) -> bool {
        self.market.event_queue.flow().is_some()
    }

    /// Returns the hash of all public output, or `None` if it is not computed.
    pub fn tape_hash(&self) -> Option<[u8; 32]> {
        self.has_tape_hash.then(|| self.chain.tape())
    }

    /// Commits the last commands and closes the journal.
    ///
    /// # Errors
    ///
    /// Returns a failure if the journal cannot be written.
    pub fn close(mut self) -> Result<(), Failure> {
        run_directory::finish(self.market.sequencer, &mut self.chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulationPlan;
    use pitwire_configuration::PresetName;

    fn market(flow: Option<FlowSource>) -> SteppedMarket {
        let preset = PresetName::Demo.preset();
        SteppedMarket::open(&SteppedPlan { preset, flow, seed: 7, directory: None, has_tape_hash: true }).unwrap()
    }

    fn advance(market: &mut SteppedMarket, by_ns: u64) {
        let until = VenueNanos(market.now().0 + by_ns);
        while market.step(until).unwrap() != MarketStep::Done {}
        assert_eq!(market.now(), until);
    }

    #[test]
    fn a_market_in_steps_has_the_tape_of_a_simulation() {
        let plan = SimulationPlan::new(PresetName::Demo.preset(), FlowSource::Demo, 7);
        let plan = SimulationPlan { horizon_s: Some(20), ..plan };
        let result = plan.run(&mut |_, _| Ok(())).unwrap();
        let mut market = market(Some(FlowSource::Demo));
        for by_ns in [1, 999_999_999, 7_000_000_000, 12_000_000_000] {
            advance(&mut market, by_ns);
        }
        assert_eq!(market.tape_hash(), Some(result.tape_hash));
        assert_eq!(market.flow_commands(), result.events);
    }

    #[test]
    fn a_market_without_flow_executes_only_the_commands_of_its_schedule() {
        let mut market = market(None);
        advance(&mut market, 1_000_000_000);
        assert_eq!((market.flow_commands(), market.engine().live_orders()), (0, 0));
    }
}
