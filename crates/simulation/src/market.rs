//! The simulated market: a sequencer, and the queue that decides which command comes next.

use std::path::Path;
use std::time::Instant;

use pitwire_configuration::Preset;
use pitwire_disk::DirectoryLock;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_journal::records::OutputChain;
use pitwire_model::{Command, Event, Seq, SequencedCommand, VenueNanos};
use pitwire_projections::{Change, Views};
use pitwire_schedule::{TimerQueue, VenueCalendar};
use pitwire_venue::{DueEvent, EventQueue, LogBackend, Sequencer};

use crate::command_latency::CommandLatency;
use crate::run_directory;
use crate::run_report::RunReport;

/// Everything that follows the commands of a run and decides nothing.
#[derive(Default)]
pub struct RunObserver {
    pub chain: OutputChain,
    pub report: Option<RunReport>,
    views: Views,
    changes: Vec<Change>,
}

impl RunObserver {
    /// Takes a command with its events.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        self.chain.absorb(stamped, events);
        self.views.observe(stamped, events, &mut self.changes);
        self.changes.clear();
        if let Some(report) = &mut self.report {
            report.observe(stamped, events);
        }
    }
}

/// Everything that decides what happens next.
pub struct SimulatedMarket {
    pub sequencer: Sequencer<LogBackend>,
    pub event_queue: EventQueue,
    /// Events of the last command.
    pub events: Vec<Event>,
    /// Times of commands in the engine and in the buffer of the journal, if they are measured.
    pub latency: Option<CommandLatency>,
}

impl SimulatedMarket {
    /// Creates a market and submits its definitions, which `observer` follows.
    ///
    /// # Errors
    ///
    /// Returns a failure if the engine refuses a definition or the journal cannot be written.
    pub fn new(
        sequencer: Sequencer<LogBackend>,
        definitions: Vec<Command>,
        calendar: VenueCalendar,
        start: VenueNanos,
        observer: &mut RunObserver,
    ) -> Result<Self, Failure> {
        let timers = TimerQueue::starting(Box::new(calendar), sequencer.engine(), start, VenueNanos::ZERO);
        let event_queue = EventQueue::new(timers);
        let mut market = SimulatedMarket { sequencer, event_queue, events: Vec::new(), latency: None };
        for command in definitions {
            let stamped = market.submit(start, command)?;
            observer.observe(&stamped, &market.events);
        }
        Ok(market)
    }

    /// Creates the market of a preset. It is journaled to `directory`, if there is one, whose lock
    /// the caller must hold as long as the market exists.
    ///
    /// # Errors
    ///
    /// Returns a failure if the engine refuses a definition or the journal cannot be written.
    pub fn open(
        preset: &Preset,
        calendar: VenueCalendar,
        start: VenueNanos,
        directory: Option<&Path>,
        observer: &mut RunObserver,
    ) -> Result<(Self, Option<DirectoryLock>), Failure> {
        let (sequencer, lock) = match directory {
            Some(directory) => run_directory::begin(directory).map(|(sequencer, lock)| (sequencer, Some(lock)))?,
            None => (Sequencer::resume(Engine::new(), LogBackend::memory(), Seq(0), start), None),
        };
        Ok((SimulatedMarket::new(sequencer, preset.commands()?, calendar, start, observer)?, lock))
    }

    /// Executes a command. Its events are in [`SimulatedMarket::events`].
    ///
    /// # Errors
    ///
    /// Returns a failure if the journal cannot be written. A refusal by the engine is an event.
    pub fn submit(&mut self, at: VenueNanos, command: Command) -> Result<SequencedCommand, Failure> {
        self.events.clear();
        let started = self.latency.as_ref().map(|_| Instant::now());
        let stamped = self.sequencer.submit(at, command, &mut self.events)?;
        if let Some((latency, started)) = self.latency.as_mut().zip(started) {
            latency.record(started.elapsed());
        }
        let now = self.sequencer.time();
        self.event_queue.observe(&stamped, &self.events, self.sequencer.engine(), now);
        Ok(stamped)
    }

    /// Runs the next due event. Returns `None` if it led to no command.
    ///
    /// # Errors
    ///
    /// Returns a failure if the journal cannot be written.
    pub fn step(&mut self, until: VenueNanos) -> Result<Option<SequencedCommand>, Failure> {
        match self.event_queue.take(until, self.sequencer.engine()) {
            DueEvent::Nothing | DueEvent::Idle => Ok(None),
            DueEvent::Timed(at, command) | DueEvent::Flow(at, command) => self.submit(at, command).map(Some),
        }
    }

    /// Returns the number of commands of the order flow so far.
    pub fn flow_commands(&self) -> u64 {
        self.event_queue.flow().map_or(0, |flow| flow.counts().commands)
    }
}
