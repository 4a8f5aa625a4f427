//! What the venue does of its own accord, and in which order.

use pitwire_engine::Engine;
use pitwire_model::{Command, Event, InstrumentId, Phase, Stamped, VenueNanos};
use pitwire_order_flow::Flow;
use pitwire_sequencer::Timetable;

/// The timetable and, where there is one, the resident flow. At one instant the timetable goes first.
pub struct Agenda {
    timetable: Timetable,
    pub flow: Option<Flow>,
}

/// What was due.
pub enum Due {
    Nothing,
    /// Something of the flow that came to nothing.
    Idle,
    Timed(VenueNanos, Command),
    Flow(VenueNanos, Command),
}

impl Agenda {
    pub fn new(timetable: Timetable) -> Self {
        Agenda { timetable, flow: None }
    }

    /// What the schedule says is current for an instrument, and when that ends.
    pub fn scheduled(&self, instrument: InstrumentId, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        self.timetable.scheduled(instrument, at)
    }

    fn flow_due(&self) -> VenueNanos {
        self.flow.as_ref().and_then(Flow::next_due).unwrap_or(VenueNanos(u64::MAX))
    }

    /// When something is due next, in venue time.
    pub fn next_due(&self) -> VenueNanos {
        self.timetable.next_due().min(self.flow_due())
    }

    /// Takes the next thing that is due by `until`.
    pub fn take(&mut self, until: VenueNanos, engine: &Engine) -> Due {
        let flow_due = self.flow_due();
        if let Some((at, command)) = self.timetable.take(until.min(flow_due), engine) {
            return Due::Timed(at, command);
        }
        match &mut self.flow {
            Some(flow) if flow_due <= until => match flow.next(engine) {
                Some((at, command)) => Due::Flow(at, command),
                None => Due::Idle,
            },
            _ => Due::Nothing,
        }
    }

    /// Learns from what a command caused.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event], engine: &Engine) {
        self.timetable.observe(stamped, events, engine);
        if let Some(flow) = &mut self.flow {
            flow.observe(stamped, events);
        }
    }
}
