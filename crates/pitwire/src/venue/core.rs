//! The one writer with everything that listens to it: engine and log, views, public channels, hash chain.

use pitwire_deribit::{ExplainStatus, Venue, VenueStatus};
use pitwire_engine::Engine;
use pitwire_journal::Room;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Log, LogError, OutputHash};
use pitwire_market_data::Publisher;
use pitwire_model::{AccountId, Command, Event, FlowSetting, InstrumentId, OrderId, Phase, Seq, Stamped, VenueNanos};
use pitwire_projections::{Change, Views};
use pitwire_sequencer::{Sequencer, Timetable};
use pitwire_url_streams::Here;

use super::agenda::{Agenda, Due};
use super::audience::Audience;
use super::inquiry::Inquiries;
use super::ledger::Ledger;
use super::preset::house_of;
use super::streams::UrlStreams;
use super::{quarantine, room};
use pitwire_net::Waker;
use pitwire_order_flow::{Flow, FlowConfig};
use tracing::{info, warn};

pub struct Core {
    pub sequencer: Sequencer<Ledger>,
    pub views: Views,
    pub publisher: Publisher,
    pub streams: UrlStreams,
    pub(super) audience: Audience,
    /// Wakes the loop that this venue is served by.
    pub waker: Waker,
    pub chain: OutputChain,
    pub agenda: Agenda,
    /// What a flow is made from, where this venue can have one.
    pub flow_seed: Option<u64>,
    /// Time moves by [`Venue::advance`] alone.
    pub is_manual: bool,
    /// Nobody but the flow and the timetable may change anything.
    pub no_clients: bool,
    /// Into its own log, where it has one on disk.
    pub inquiries: Option<Inquiries>,
    pub(super) events: Vec<Event>,
    /// What accounts may want to hear, not yet told.
    pub changes: Vec<Change>,
    /// The venue's time for commands that carry none of their own.
    pub now: VenueNanos,
    /// The newest minute of venue time whose candles have begun.
    minute: u64,
    pub is_stopping: bool,
}

const MINUTE_NS: u64 = 60_000_000_000;
/// Candles that time has passed over all at once, as by hand, are told a day back.
const MOST_MINUTES: u64 = 1_440;

impl Core {
    pub fn new(sequencer: Sequencer<Ledger>, views: Views, chain: OutputChain, timetable: Timetable) -> Self {
        let waker = Waker::default();
        Core {
            publisher: Publisher::new(sequencer.engine()),
            streams: UrlStreams::new(sequencer.engine(), &views, &waker),
            audience: Audience::new(&waker),
            waker,
            now: sequencer.time(),
            minute: sequencer.time().0 / MINUTE_NS,
            sequencer,
            views,
            chain,
            agenda: Agenda::new(timetable),
            flow_seed: None,
            is_manual: false,
            no_clients: false,
            inquiries: None,
            events: Vec::new(),
            changes: Vec::new(),
            is_stopping: false,
        }
    }

    /// Submits a command for a given venue time and shows the outcome to everything that listens.
    pub fn submit_at(&mut self, at: VenueNanos, command: Command) -> Result<Seq, LogError> {
        self.events.clear();
        let (stamped, applied) = self.sequencer.submit_guarded(at, command, &mut self.events)?;
        self.now = self.now.max(stamped.at);
        if applied.is_err() {
            return quarantine::take_out(self, &stamped);
        }
        self.chain.absorb(&stamped, &self.events);
        self.views.observe(&stamped, &self.events, &mut self.changes);
        self.tell(&stamped);
        Ok(stamped.seq)
    }

    /// Shows what a command caused to everything that lives only now: no replay rebuilds it.
    pub(super) fn tell(&mut self, stamped: &Stamped) {
        self.publisher.observe(stamped, &self.events, self.sequencer.engine(), &self.views);
        self.publisher.take_lent(|message| self.audience.take(message));
        self.streams.observe(stamped, &self.events, self.sequencer.engine(), &self.views);
        self.agenda.observe(stamped, &self.events, self.sequencer.engine());
        if let [.., Event::FlowSet(setting)] = self.events[..] {
            self.renew_flow(setting, stamped.seq);
        }
    }

    /// A flow as it is set from now on. A new stretch must not repeat what an earlier one did, so each has a seed of
    /// its own, made of the venue's seed and the command that set it.
    fn renew_flow(&mut self, setting: FlowSetting, seq: Seq) {
        self.agenda.flow = None;
        let (Some(seed), true) = (self.flow_seed, setting.running) else { return };
        let engine = self.sequencer.engine();
        let config = FlowConfig::demo(engine, house_of(engine)).at_rate(setting.rate_percent);
        match Flow::new(config, seed ^ seq.0.wrapping_mul(0x9E37_79B9_7F4A_7C15), self.now, engine) {
            Ok(flow) => {
                info!(radius = flow.radius(), events_per_second = flow.expected_events_per_second(), "order flow");
                self.agenda.flow = Some(flow);
            }
            Err(error) => warn!(%error, remedy = error.remedy(), "the order flow does not start"),
        }
    }

    /// The last word of the last command.
    pub fn last_event(&self) -> Option<&Event> {
        self.events.last()
    }

    /// When something of the venue's own is due next, in venue time.
    pub fn next_due(&self) -> VenueNanos {
        let is_heard = self.publisher.has_candles() || self.streams.has_candles();
        let minute = if is_heard { self.minute.saturating_add(1).saturating_mul(MINUTE_NS) } else { u64::MAX };
        self.agenda.next_due().min(VenueNanos(minute))
    }

    /// Candles turn with the clock, also in a market where nothing happens. That is no command: an idle venue writes no
    /// log, and who listens must leave no trace in it.
    fn turn_minutes(&mut self, until: VenueNanos) {
        let minute = until.0 / MINUTE_NS;
        if minute <= self.minute {
            return;
        }
        if self.publisher.has_candles() || self.streams.has_candles() {
            let first = self.minute.max(minute.saturating_sub(MOST_MINUTES)) + 1;
            for at in (first..=minute).map(|minute| VenueNanos(minute * MINUTE_NS)) {
                let here = Here { engine: self.sequencer.engine(), views: &self.views, at };
                self.publisher.turn_minute(at, here.engine, here.views);
                // Before anybody joins elsewhere, who would have it twice.
                self.publisher.take_lent(|message| self.audience.take(message));
                self.streams.turn_minute(here);
            }
        }
        self.minute = minute;
    }

    /// Runs the next thing that is due by `until`; `false` when nothing is.
    pub fn step(&mut self, until: VenueNanos) -> Result<bool, LogError> {
        self.turn_minutes(until.min(self.agenda.next_due()));
        match self.agenda.take(until, self.sequencer.engine()) {
            Due::Nothing => return Ok(false),
            Due::Idle => {}
            Due::Timed(at, command) => {
                self.submit_at(at, command)?;
            }
            // What the disk has no room for the house does not say either.
            Due::Flow(at, command) if room::refuses(self, &command).is_none() => {
                self.submit_at(at, command)?;
            }
            Due::Flow(..) => {}
        }
        Ok(true)
    }

    pub fn commit(&mut self) -> Result<(), LogError> {
        if self.sequencer.has_uncommitted() {
            let output = self.chain.seal();
            self.sequencer.commit(OutputHash(output))?;
        }
        Ok(())
    }

    /// The venue as streams by URL want it.
    pub fn here(&self) -> Here<'_> {
        Here { engine: self.sequencer.engine(), views: &self.views, at: self.now }
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

    fn explain(&mut self, order: OrderId, member: Option<AccountId>) -> ExplainStatus {
        self.inquiries.as_mut().map_or(ExplainStatus::Nowhere, |inquiries| inquiries.ask(order, member))
    }

    fn views(&self) -> &Views {
        &self.views
    }

    fn now(&self) -> VenueNanos {
        self.now
    }

    fn takes_orders(&self) -> bool {
        !self.is_stopping && room::of(self) == Room::Orders
    }

    fn refuses(&self, command: &Command) -> Option<&'static str> {
        if self.no_clients {
            return Some("no_clients");
        }
        let opens = matches!(command, Command::Enter(_) | Command::Amend(_));
        (opens && self.is_stopping).then_some("shutting_down").or_else(|| room::refuses(self, command))
    }

    fn standing(&self) -> VenueStatus {
        VenueStatus {
            last: self.sequencer.last(),
            is_durable: self.sequencer.log().journal().is_some(),
            tape_hash: self.chain.tape(),
        }
    }

    fn scheduled(&self, instrument: InstrumentId) -> (Phase, Option<VenueNanos>) {
        self.agenda.scheduled(instrument, self.now)
    }

    fn advance(&mut self, ns: u64) -> Option<Result<VenueNanos, LogError>> {
        if !self.is_manual {
            return None;
        }
        let target = VenueNanos(self.now.0.saturating_add(ns));
        loop {
            match self.step(target) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Some(Err(error)),
            }
        }
        self.now = target;
        Some(Ok(target))
    }
}
