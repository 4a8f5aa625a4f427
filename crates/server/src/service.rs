//! The venue together with the market data that it feeds, as the dialects and the event loop use
//! it.

use std::collections::BTreeMap;

use pitwire_deribit::channels::PublicChannels;
use pitwire_deribit::{
    ExplainStatus, SimulationCall, SimulationCaller, SimulationRefusal, Venue as DialectVenue, VenueStatus,
};
use pitwire_engine::Engine;
use pitwire_journal::{JournalSpace, LogError};
use pitwire_model::{
    AccountId, Command, Event, FlowSetting, InstrumentId, OrderId, Phase, Seq, SequencedCommand, VenueNanos,
};
use pitwire_net::{HttpRequest, HttpResponse, SystemClock, Waker};
use pitwire_order_feed_network::OrderFeed;
use pitwire_projections::Views;
use pitwire_sbe_gateway::CtxPublicData;
use pitwire_url_streams::VenueMoment;
use pitwire_venue::{EventObserver, ExplainService, LogExplanation, Venue};

use crate::public_connections::PublicConnections;
use crate::simulations::Simulations;
use crate::streams::UrlStreams;

const MINUTE_NS: u64 = 60_000_000_000;
/// Interval in nanoseconds at which an idle venue checks whether the order feed has caught up.
const FEED_CHECK_NS: u64 = 10_000_000;
/// Most candles that are sent for minutes without events after a jump of venue time: one day.
const MOST_MINUTES: u64 = 1_440;

/// The public channels and streams that are fed by the venue's events.
pub struct MarketData {
    pub publisher: PublicChannels,
    pub streams: UrlStreams,
    pub(crate) public_connections: PublicConnections,
    /// The order-by-order feed, if enabled.
    order_feed: Option<OrderFeed>,
    /// Public data for clients of binary order entry, while one follows it.
    pub(crate) entry_data: Option<CtxPublicData>,
    /// The newest minute of venue time whose candles have begun.
    minute: u64,
}

impl MarketData {
    fn new(venue: &Venue, waker: &Waker) -> Self {
        MarketData {
            publisher: PublicChannels::new(venue.engine()),
            streams: UrlStreams::new(venue.engine(), venue.views(), waker),
            public_connections: PublicConnections::new(waker),
            order_feed: None,
            entry_data: None,
            minute: venue.now().0 / MINUTE_NS,
        }
    }

    fn has_candles(&self) -> bool {
        self.publisher.has_candles() || self.streams.has_candles()
    }

    /// Begins the candles of the minutes up to `until`, also in a market where nothing happens.
    ///
    /// No command does this: an idle venue writes no log, and a subscriber must leave no trace in
    /// it.
    fn turn_minutes(&mut self, venue: &Venue, until: VenueNanos) {
        let minute = until.0 / MINUTE_NS;
        if minute <= self.minute {
            return;
        }
        if self.has_candles() {
            let first = self.minute.max(minute.saturating_sub(MOST_MINUTES)) + 1;
            for at in (first..=minute).map(|minute| VenueNanos(minute * MINUTE_NS)) {
                self.publisher.turn_minute(at, venue.engine(), venue.views());
                // Take the messages now: a subscriber that joins the streams below would get them
                // twice.
                self.publisher.take_copies(|message| self.public_connections.take(message));
                self.streams.turn_minute(VenueMoment { engine: venue.engine(), views: venue.views(), at });
            }
        }
        self.minute = minute;
    }

    /// Returns when the next candles begin, if anyone reads candles.
    fn next_minute(&self) -> VenueNanos {
        let minute = self.minute.saturating_add(1).saturating_mul(MINUTE_NS);
        VenueNanos(if self.has_candles() { minute } else { u64::MAX })
    }
}

impl EventObserver for MarketData {
    fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine, views: &Views) {
        self.publisher.observe(stamped, events, engine, views);
        self.publisher.take_copies(|message| self.public_connections.take(message));
        self.streams.observe(stamped, events, engine, views);
        if let Some(feed) = &mut self.order_feed {
            feed.observe(stamped.at, events, engine);
        }
        if let Some(data) = &mut self.entry_data {
            data.observe(stamped.at, events, engine, views);
        }
    }
}

/// The source of venue time, and the clients that may send commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceOptions {
    /// Venue time moves only by the request `private/pitwire_advance`.
    pub manual_time: bool,
    /// Only the order flow and the timers may change anything.
    pub no_clients: bool,
}

/// The venue, its market data and its explain service.
pub struct VenueService {
    pub venue: Venue,
    pub market_data: MarketData,
    pub options: ServiceOptions,
    /// Wakes the event loop that serves this venue.
    pub waker: Waker,
    /// Reads the venue's own log. `None` if there is no log on disk.
    explain: Option<(ExplainService, SystemClock)>,
    simulations: Option<Simulations>,
    pub is_stopping: bool,
}

impl VenueService {
    /// Starts market data on a venue. Events before this call reach no subscriber.
    pub fn new(venue: Venue, options: ServiceOptions) -> Self {
        let waker = Waker::default();
        let market_data = MarketData::new(&venue, &waker);
        VenueService { venue, market_data, options, waker, explain: None, simulations: None, is_stopping: false }
    }

    /// Lets operators and members ask for explanations from the venue's log.
    #[must_use]
    pub fn with_explain(mut self, explain: Option<ExplainService>, clock: SystemClock) -> Self {
        self.explain = explain.map(|explain| (explain, clock));
        self
    }

    /// Sends the order-by-order feed.
    #[must_use]
    pub fn with_order_feed(mut self, feed: Option<OrderFeed>) -> Self {
        self.market_data.order_feed = feed;
        self
    }

    /// Sends the committed messages of the order-by-order feed.
    pub(crate) fn release_order_feed(&mut self) {
        if let Some(feed) = &mut self.market_data.order_feed {
            feed.release(self.venue.engine(), self.venue.now());
        }
    }

    pub(crate) fn render_order_feed(&self, out: &mut String) {
        if let Some(feed) = &self.market_data.order_feed {
            feed.render(out);
        }
    }

    /// Lets operators run simulations, and members if `simulations` allows it.
    #[must_use]
    pub fn with_simulations(self, simulations: Simulations) -> Self {
        VenueService { simulations: Some(simulations), ..self }
    }

    /// Submits a command at a venue time.
    ///
    /// # Errors
    ///
    /// Returns an error if the log fails. The venue must then stop.
    pub fn submit_at(&mut self, at: VenueNanos, command: Command) -> Result<Seq, LogError> {
        self.venue.submit(at, command, &mut self.market_data)
    }

    /// Runs the next event that is due by `until`. Returns `false` if nothing is due.
    ///
    /// # Errors
    ///
    /// Returns an error if the log fails. The venue must then stop.
    pub fn step(&mut self, until: VenueNanos) -> Result<bool, LogError> {
        self.market_data.turn_minutes(&self.venue, until.min(self.venue.next_due()));
        self.venue.step(until, &mut self.market_data)
    }

    /// Returns the venue time at which [`VenueService::step`] has something to do next.
    pub fn next_due(&self) -> VenueNanos {
        let due = self.venue.next_due().min(self.market_data.next_minute());
        match &self.market_data.order_feed {
            Some(feed) if feed.is_behind() => due.min(VenueNanos(self.venue.now().0.saturating_add(FEED_CHECK_NS))),
            _ => due,
        }
    }

    /// Answers the REST requests that belong to URL streams.
    pub fn rest(&self, request: &HttpRequest<'_>) -> Option<HttpResponse> {
        let is_rest = pitwire_url_streams::is_rest_path(request.path());
        is_rest.then(|| self.market_data.streams.rest(request, self.here())).flatten()
    }

    /// Returns the venue's state as URL streams read it.
    pub fn here(&self) -> VenueMoment<'_> {
        VenueMoment { engine: self.venue.engine(), views: self.venue.views(), at: self.venue.now() }
    }
}

impl DialectVenue for VenueService {
    fn submit(&mut self, command: Command) -> Result<Seq, LogError> {
        self.submit_at(self.venue.now(), command)
    }

    fn events(&self) -> &[Event] {
        self.venue.events()
    }

    fn engine(&self) -> &Engine {
        self.venue.engine()
    }

    fn explain(&mut self, order: OrderId, member: Option<AccountId>) -> ExplainStatus {
        let Some((explain, clock)) = &mut self.explain else { return ExplainStatus::Nowhere };
        match explain.ask(order, member, clock.monotonic_ns()) {
            LogExplanation::Working => ExplainStatus::Working,
            LogExplanation::Notes(notes) => ExplainStatus::Notes(notes),
            LogExplanation::Failed(why) => ExplainStatus::Failed(why),
        }
    }

    fn simulation(&mut self, by: &SimulationCaller, asked: SimulationCall) -> Result<String, SimulationRefusal> {
        let Some(simulations) = &mut self.simulations else {
            let reason = "this venue runs no simulations".into();
            return Err(SimulationRefusal { name: "no_simulations", param: None, reason });
        };
        simulations.answer(by, asked)
    }

    fn views(&self) -> &Views {
        self.venue.views()
    }

    fn now(&self) -> VenueNanos {
        self.venue.now()
    }

    fn takes_orders(&self) -> bool {
        !self.is_stopping && self.venue.disk_space() == JournalSpace::Orders
    }

    fn refuses(&self, command: &Command) -> Option<&'static str> {
        if self.options.no_clients {
            return Some("no_clients");
        }
        let opens = matches!(command, Command::Enter(_) | Command::Amend(_));
        (opens && self.is_stopping).then_some("shutting_down").or_else(|| self.venue.refuses_for_space(command))
    }

    fn standing(&self) -> VenueStatus {
        VenueStatus {
            last: self.venue.last(),
            is_durable: self.venue.journal().is_some(),
            tape_hash: self.venue.chain().tape(),
        }
    }

    fn instrument_flows(&self) -> &BTreeMap<InstrumentId, FlowSetting> {
        self.venue.instrument_flows()
    }

    fn set_instrument_flow(&mut self, instrument: InstrumentId, setting: FlowSetting) {
        self.venue.set_instrument_flow(instrument, setting);
    }

    fn scheduled(&self, instrument: InstrumentId) -> (Phase, Option<VenueNanos>) {
        self.venue.scheduled(instrument)
    }

    fn advance(&mut self, ns: u64) -> Option<Result<VenueNanos, LogError>> {
        if !self.options.manual_time {
            return None;
        }
        let target = VenueNanos(self.venue.now().0.saturating_add(ns));
        loop {
            match self.step(target) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Some(Err(error)),
            }
        }
        self.venue.advance_to(target);
        Some(Ok(target))
    }
}
