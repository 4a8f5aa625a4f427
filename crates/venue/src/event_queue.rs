//! Commands of the venue itself, in their order: timed commands and the resident order flow.

use std::collections::BTreeMap;

use pitwire_configuration::house_accounts;
use pitwire_engine::Engine;
use pitwire_flow_models::FlowSource;
use pitwire_model::{Command, Event, FlowSetting, InstrumentId, Phase, Seq, SequencedCommand, VenueNanos};
use pitwire_order_flow::Flow;
use pitwire_schedule::TimerQueue;
use tracing::{info, warn};

/// Mixes the number of a command into the seed of the flow that it starts.
const SEED_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The venue's timers and, where there is one, its resident order flow. At the same time, timers go
/// first.
pub struct EventQueue {
    timers: TimerQueue,
    flow: Option<Flow>,
    /// `None` if this venue has no resident flow.
    flow_seed: Option<u64>,
    /// The flow that the next `SetFlow` starts.
    flow_source: FlowSource,
    /// Settings of instruments that differ from the default. They end with the process.
    instrument_settings: BTreeMap<InstrumentId, FlowSetting>,
    /// Number of changes of `instrument_settings`. It keeps the seeds of two changes apart.
    setting_changes: u64,
    /// Rate in percent by which prices move, if it is not that of the events.
    price_percent: Option<u32>,
}

/// Result of [`EventQueue::take`].
pub enum DueEvent {
    Nothing,
    /// The flow had an event that led to no command.
    Idle,
    Timed(VenueNanos, Command),
    Flow(VenueNanos, Command),
}

impl EventQueue {
    /// Creates a queue with timers and without order flow.
    pub fn new(timers: TimerQueue) -> Self {
        EventQueue {
            timers,
            flow: None,
            flow_seed: None,
            flow_source: FlowSource::WITHOUT_DEFINITION,
            instrument_settings: BTreeMap::new(),
            setting_changes: 0,
            price_percent: None,
        }
    }

    /// Sets the seed from which the flow is made when `SetFlow` starts it.
    pub fn set_flow_seed(&mut self, seed: u64) {
        self.flow_seed = Some(seed);
    }

    /// Lets prices of a flow that starts later move as at this percentage of its rate, or as at the
    /// rate of its events.
    pub fn set_price_percent(&mut self, percent: Option<u32>) {
        self.price_percent = percent;
    }

    /// Returns the instruments whose flow has another setting than the default.
    pub fn instrument_settings(&self) -> &BTreeMap<InstrumentId, FlowSetting> {
        &self.instrument_settings
    }

    /// Sets how the flow trades one instrument, in percent of the venue's rate. A running flow
    /// starts again with the new setting after command `seq`, at venue time `now`.
    pub fn set_instrument_flow(
        &mut self,
        (instrument, setting): (InstrumentId, FlowSetting),
        seq: Seq,
        now: VenueNanos,
        engine: &Engine,
    ) {
        if setting == FlowSetting::default() {
            self.instrument_settings.remove(&instrument);
        } else {
            self.instrument_settings.insert(instrument, setting);
        }
        self.setting_changes += 1;
        info!(
            instrument = instrument.0,
            setting.running, setting.rate_percent, "changed the order flow of an instrument"
        );
        if let (Some(seed), Some(_)) = (self.flow_seed, &self.flow) {
            self.flow = self.started_flow(seed, engine.flow(), seq, now, engine);
        }
    }

    /// Replaces the order flow.
    pub fn set_flow(&mut self, flow: Flow) {
        self.flow = Some(flow);
    }

    /// Returns the flow that the next `SetFlow` starts.
    pub fn flow_source(&self) -> &FlowSource {
        &self.flow_source
    }

    /// Returns the order flow, if one runs.
    pub fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }

    /// Returns the session that the schedule prescribes for an instrument at `at`, and its end.
    pub fn scheduled(&self, instrument: InstrumentId, at: VenueNanos) -> (Phase, Option<VenueNanos>) {
        self.timers.scheduled(instrument, at)
    }

    fn flow_due(&self) -> VenueNanos {
        self.flow.as_ref().and_then(Flow::next_due).unwrap_or(VenueNanos(u64::MAX))
    }

    /// Returns the venue time of the next event.
    pub fn next_due(&self) -> VenueNanos {
        self.timers.next_due().min(self.flow_due())
    }

    /// Takes the next event that is due by `until`.
    pub fn take(&mut self, until: VenueNanos, engine: &Engine) -> DueEvent {
        let flow_due = self.flow_due();
        if let Some((at, command)) = self.timers.take(until.min(flow_due), engine) {
            return DueEvent::Timed(at, command);
        }
        match &mut self.flow {
            Some(flow) if flow_due <= until => match flow.next(engine) {
                Some((at, command)) => DueEvent::Flow(at, command),
                None => DueEvent::Idle,
            },
            _ => DueEvent::Nothing,
        }
    }

    /// Arms timers and informs the flow after a command, at venue time `now`. `DefineFlow` selects
    /// the flow, and `SetFlow` starts or stops it, if this venue has a flow seed.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine, now: VenueNanos) {
        self.timers.observe(stamped, events, engine);
        if let Some(flow) = &mut self.flow {
            flow.observe(stamped, events);
        }
        if let (Command::DefineFlow { text }, [Event::FlowDefined]) = (&stamped.command, events) {
            match FlowSource::parse(text) {
                Ok(source) => self.flow_source = source,
                Err(failure) => warn!(%failure, "the order flow stays as it is"),
            }
        }
        if let (Some(seed), [.., Event::FlowSet(setting)]) = (self.flow_seed, events) {
            self.flow = self.started_flow(seed, *setting, stamped.seq, now, engine);
        }
    }

    /// Creates the flow of a setting. Every stretch of flow has its own seed, so that none repeats
    /// an earlier one.
    fn started_flow(
        &self,
        seed: u64,
        setting: FlowSetting,
        seq: Seq,
        now: VenueNanos,
        engine: &Engine,
    ) -> Option<Flow> {
        if !setting.running {
            return None;
        }
        let setting_of = |instrument| self.instrument_settings.get(&instrument).copied().unwrap_or_default();
        let config = match self.flow_source.config(engine, house_accounts(engine)) {
            Ok(config) => {
                let percent = self.price_percent.unwrap_or(setting.rate_percent);
                config.at_rates(setting.rate_percent, setting_of).moving_as_at(percent, setting.rate_percent)
            }
            Err(failure) => {
                warn!(%failure, "the order flow does not start");
                return None;
            }
        };
        let stretch = seq.0 ^ self.setting_changes.rotate_right(16);
        match Flow::new(config, seed ^ stretch.wrapping_mul(SEED_FACTOR), now, engine) {
            Ok(flow) => {
                info!(
                    radius = flow.radius(),
                    events_per_second = flow.expected_events_per_second(),
                    "started the order flow"
                );
                Some(flow)
            }
            Err(error) => {
                warn!(%error, remedy = error.remedy(), "the order flow does not start");
                None
            }
        }
    }
}
