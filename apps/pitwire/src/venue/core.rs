//! The one writer with everything that listens to it: engine and log, views, public channels, hash chain.

use pitwire_engine::Engine;
use pitwire_log::OutputChain;
use pitwire_market_data::Publisher;
use pitwire_model::{Command, Event, Seq, VenueNanos};
use pitwire_ports::{Log, LogError, OutputHash, Venue};
use pitwire_sequencer::{Sequencer, Timetable};
use pitwire_views::{Change, Views};

use super::ledger::Ledger;
use pitwire_flow::Flow;

pub struct Core {
    pub sequencer: Sequencer<Ledger>,
    pub views: Views,
    pub publisher: Publisher,
    pub chain: OutputChain,
    pub timetable: Timetable,
    pub flow: Option<Flow>,
    events: Vec<Event>,
    /// What accounts may want to hear, not yet told.
    pub changes: Vec<Change>,
    /// The venue's time for commands that carry none of their own.
    pub now: VenueNanos,
    pub is_stopping: bool,
}

impl Core {
    pub fn new(sequencer: Sequencer<Ledger>, views: Views, chain: OutputChain, timetable: Timetable) -> Self {
        Core {
            publisher: Publisher::new(sequencer.engine()),
            now: sequencer.time(),
            sequencer,
            views,
            chain,
            timetable,
            flow: None,
            events: Vec::new(),
            changes: Vec::new(),
            is_stopping: false,
        }
    }

    /// Submits a command for a given venue time and shows the outcome to everything that listens.
    pub fn submit_at(&mut self, at: VenueNanos, command: Command) -> Result<Seq, LogError> {
        self.events.clear();
        let stamped = self.sequencer.submit(at, command, &mut self.events)?;
        self.now = self.now.max(stamped.at);
        self.chain.absorb(&stamped, &self.events);
        self.views.observe(&stamped, &self.events, &mut self.changes);
        self.publisher.observe(&stamped, &self.events, self.sequencer.engine(), &self.views);
        self.timetable.observe(stamped.at, &self.events);
        if let Some(flow) = &mut self.flow {
            flow.observe(&stamped, &self.events);
        }
        Ok(stamped.seq)
    }

    /// When something of the venue's own is due next, in venue time.
    pub fn next_due(&self) -> VenueNanos {
        let flow = self.flow.as_ref().and_then(Flow::next_due).unwrap_or(VenueNanos(u64::MAX));
        self.timetable.next_due().min(flow)
    }

    /// Runs the next thing that is due by `until`: the venue's timed commands before the flow's at one instant.
    /// `false` when nothing is due.
    pub fn step(&mut self, until: VenueNanos) -> Result<bool, LogError> {
        let flow_due = self.flow.as_ref().and_then(Flow::next_due).unwrap_or(VenueNanos(u64::MAX));
        if let Some((at, command)) = self.timetable.take(until.min(flow_due)) {
            return self.submit_at(at, command).map(|_| true);
        }
        if flow_due > until {
            return Ok(false);
        }
        if let Some(flow) = &mut self.flow
            && let Some((at, command)) = flow.next(self.sequencer.engine())
        {
            self.submit_at(at, command)?;
        }
        Ok(true)
    }

    pub fn commit(&mut self) -> Result<(), LogError> {
        if self.sequencer.has_uncommitted() {
            self.sequencer.commit(OutputHash(self.chain.output()))?;
        }
        Ok(())
    }

    pub fn durable(&self) -> Seq {
        self.sequencer.log().durable_position()
    }
}

impl Venue for Core {
    fn submit(&mut self, command: Command) -> Result<Seq, LogError> {
        self.submit_at(self.now, command)
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn engine(&self) -> &Engine {
        self.sequencer.engine()
    }

    fn views(&self) -> &Views {
        &self.views
    }

    fn now(&self) -> VenueNanos {
        self.now
    }

    fn takes_orders(&self) -> bool {
        !self.is_stopping
    }
}
