//! The venue: one writer with its log, its projections, its hash chain and its own timed commands.
//!
//! Start at    [`Venue::submit`] for commands, [`Venue::step`] for time, [`Venue::commit`] for
//!             durability.

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Journal, JournalSpace, LogError, OutputHash};
use pitwire_model::{Command, Event, FlowSetting, InstrumentId, Phase, Seq, SequencedCommand, VenueNanos};
use pitwire_order_flow::Flow;
use pitwire_projections::{Change, Views};
use tracing::error;

use crate::disk_space;
use crate::event_queue::{DueEvent, EventQueue};
use crate::guard::{instrument_of, refusal};
use crate::log_backend::LogBackend;
use crate::observer::EventObserver;
use crate::quarantine::rebuild_without;
use crate::sequencer::Sequencer;

/// One market with its log.
///
/// A command's events are visible to queries at once. They must not leave the process before
/// [`Venue::commit`] has returned.
///
/// ```
/// use pitwire_engine::Engine;
/// use pitwire_model::{Command, Epoch, Event, Seq, VenueNanos};
/// use pitwire_schedule::{ContinuousCalendar, TimerQueue};
/// use pitwire_venue::{EventQueue, Venue};
///
/// let start = VenueNanos(1_000);
/// let calendar = Box::new(ContinuousCalendar);
/// let timers = TimerQueue::starting(calendar, &Engine::new(), start, VenueNanos::ZERO);
/// let mut venue = Venue::in_memory(EventQueue::new(timers));
/// let seq = venue.submit(start, Command::StartEpoch { epoch: Epoch(1) }, &mut ()).unwrap();
/// venue.commit().unwrap();
/// assert_eq!((seq, venue.durable()), (Seq(1), Seq(1)));
/// ```
pub struct Venue {
    sequencer: Sequencer<LogBackend>,
    views: Views,
    chain: OutputChain,
    event_queue: EventQueue,
    /// The events of the last command.
    events: Vec<Event>,
    /// Changes for accounts since the last call of [`Venue::clear_changes`].
    changes: Vec<Change>,
    now: VenueNanos,
}

impl Venue {
    /// Continues a recovered venue.
    pub fn new(sequencer: Sequencer<LogBackend>, views: Views, chain: OutputChain, event_queue: EventQueue) -> Self {
        let now = sequencer.time();
        Venue { sequencer, views, chain, event_queue, events: Vec::new(), changes: Vec::new(), now }
    }

    /// Creates an empty venue that keeps nothing on disk.
    pub fn in_memory(event_queue: EventQueue) -> Self {
        let sequencer = Sequencer::resume(Engine::new(), LogBackend::memory(), Seq(0), VenueNanos::ZERO);
        Venue::new(sequencer, Views::new(), OutputChain::new(), event_queue)
    }

    /// Numbers, times, logs and applies one command, and shows its outcome to `observer`.
    ///
    /// A time in the past counts as now. If the engine panics, the venue rebuilds it from the log
    /// without the command, quarantines the command and halts its instrument; the command's
    /// events are then its refusal.
    ///
    /// # Errors
    ///
    /// Returns an error if the log fails, or if the command cannot be quarantined. The venue
    /// must then stop.
    pub fn submit(
        &mut self,
        at: VenueNanos,
        command: Command,
        observer: &mut impl EventObserver,
    ) -> Result<Seq, LogError> {
        self.events.clear();
        let (stamped, applied) = self.sequencer.submit_guarded(at, command, &mut self.events)?;
        self.now = self.now.max(stamped.at);
        if applied.is_err() {
            return self.quarantine(&stamped, observer);
        }
        self.chain.absorb(&stamped, &self.events);
        self.views.observe(&stamped, &self.events, &mut self.changes);
        self.show(&stamped, observer);
        Ok(stamped.seq)
    }

    /// Shows a command to the observer, the timers and the order flow.
    fn show(&mut self, stamped: &SequencedCommand, observer: &mut impl EventObserver) {
        observer.observe(stamped, &self.events, self.sequencer.engine(), &self.views);
        self.event_queue.observe(stamped, &self.events, self.sequencer.engine(), self.now);
    }

    /// Continues as if `poison`, on which the engine panicked, had been refused.
    ///
    /// The log holds first the command, then the record that quarantines it. A process that stops
    /// between the two finds the command again at its next start.
    fn quarantine(&mut self, poison: &SequencedCommand, observer: &mut impl EventObserver) -> Result<Seq, LogError> {
        let seq = poison.seq;
        error!(seq = seq.0, command = ?poison.command, "engine panicked on this command; quarantining it");
        let failed = |why: String| LogError::Unquarantined { seq, why };
        if matches!(poison.command, Command::Quarantine { .. }) {
            return Err(failed("the command is a quarantine".into()));
        }
        self.events.clear();
        self.events.push(refusal(poison));
        self.chain.absorb(poison, &self.events);
        self.commit()?;
        let rebuilt =
            rebuild_without(self.journal(), self.chain.state(), seq).map_err(|failure| failed(failure.to_string()))?;
        let instrument = instrument_of(poison, &rebuilt.engine);
        self.sequencer.replace_engine(rebuilt.engine);
        self.views = rebuilt.views;
        self.show(poison, observer);
        self.submit(self.now, Command::Quarantine { seq, instrument }, observer)?;
        self.events.clear();
        self.events.push(refusal(poison));
        Ok(seq)
    }

    /// Runs the next event that is due by `until`. Returns `false` if nothing is due.
    ///
    /// # Errors
    ///
    /// As [`Venue::submit`].
    pub fn step(&mut self, until: VenueNanos, observer: &mut impl EventObserver) -> Result<bool, LogError> {
        match self.event_queue.take(until, self.sequencer.engine()) {
            DueEvent::Nothing => return Ok(false),
            DueEvent::Idle => {}
            DueEvent::Timed(at, command) => {
                self.submit(at, command, observer)?;
            }
            // The flow's orders need disk space like everyone's.
            DueEvent::Flow(at, command) if self.refuses_for_space(&command).is_none() => {
                self.submit(at, command, observer)?;
            }
            DueEvent::Flow(..) => {}
        }
        Ok(true)
    }

    /// Makes every submitted command durable: one write and one sync.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal cannot be written. The venue must then stop.
    pub fn commit(&mut self) -> Result<(), LogError> {
        if self.sequencer.has_uncommitted() {
            let output = self.chain.seal();
            self.sequencer.commit(OutputHash(output))?;
        }
        Ok(())
    }

    /// Returns the venue time at which [`Venue::step`] has something to do next.
    pub fn next_due(&self) -> VenueNanos {
        self.event_queue.next_due()
    }

    /// Returns the session that the schedule prescribes for an instrument now, and its end.
    pub fn scheduled(&self, instrument: InstrumentId) -> (Phase, Option<VenueNanos>) {
        self.event_queue.scheduled(instrument, self.now)
    }

    /// Returns the reject reason for a command that the journal has no space for.
    pub fn refuses_for_space(&self, command: &Command) -> Option<&'static str> {
        disk_space::refuses(self.disk_space(), self.engine(), command)
    }

    /// Returns which commands the journal has space for.
    pub fn disk_space(&self) -> JournalSpace {
        self.journal().map_or(JournalSpace::Orders, Journal::space)
    }

    /// Returns the events of the last command.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns what has changed for accounts since the last call of [`Venue::clear_changes`].
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Forgets the changes that have been sent to their accounts.
    pub fn clear_changes(&mut self) {
        self.changes.clear();
    }

    pub fn engine(&self) -> &Engine {
        self.sequencer.engine()
    }

    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Returns the hash chain over every event so far.
    pub fn chain(&self) -> &OutputChain {
        &self.chain
    }

    /// Returns the venue time for commands that carry none of their own.
    pub fn now(&self) -> VenueNanos {
        self.now
    }

    /// Moves venue time forward to `to`, after everything due before it has run. Venue time never
    /// goes back.
    pub fn advance_to(&mut self, to: VenueNanos) {
        self.now = self.now.max(to);
    }

    /// Returns the venue time of the last command.
    pub fn last_command_time(&self) -> VenueNanos {
        self.sequencer.time()
    }

    /// Returns the number of the last command.
    pub fn last(&self) -> Seq {
        self.sequencer.last()
    }

    /// Returns the number of the newest command that would survive a power cut.
    pub fn durable(&self) -> Seq {
        self.sequencer.durable()
    }

    /// Returns the journal, or `None` if the venue keeps nothing on disk.
    pub fn journal(&self) -> Option<&Journal> {
        self.sequencer.log().journal()
    }

    /// As [`Venue::journal`], for maintenance between two commits.
    pub fn journal_mut(&mut self) -> Option<&mut Journal> {
        self.sequencer.log_mut().journal_mut()
    }

    /// Sets the seed of the resident order flow. Without a seed there is no flow.
    pub fn set_flow_seed(&mut self, seed: u64) {
        self.event_queue.set_flow_seed(seed);
    }

    /// Returns the instruments whose flow has another setting than the default.
    pub fn instrument_flows(&self) -> &BTreeMap<InstrumentId, FlowSetting> {
        self.event_queue.instrument_settings()
    }

    /// Sets how the resident flow trades one instrument until this process ends. The rate is in
    /// percent of the venue's rate.
    pub fn set_instrument_flow(&mut self, instrument: InstrumentId, setting: FlowSetting) {
        let (seq, engine) = (self.sequencer.last(), self.sequencer.engine());
        self.event_queue.set_instrument_flow((instrument, setting), seq, self.now, engine);
    }

    /// Sets the rate in percent by which prices of the next flow move, if it is not that of its
    /// events.
    pub(crate) fn set_flow_price_percent(&mut self, percent: Option<u32>) {
        self.event_queue.set_price_percent(percent);
    }

    /// Returns the expected long-run rate of the resident order flow, in events per second; zero
    /// if no flow runs.
    pub fn flow_events_per_second(&self) -> f64 {
        self.event_queue.flow().map_or(0.0, Flow::expected_events_per_second)
    }

    /// Closes the journal cleanly.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal's last write fails.
    pub fn close(self) -> Result<(), LogError> {
        match self.sequencer.into_log() {
            LogBackend::Disk(journal) => journal.close(),
            LogBackend::Memory { .. } => Ok(()),
        }
    }
}
