//! Connects the venue to the event loop: passes requests to the dispatcher and the time to the
//! venue, and sends frames to subscribers.
//!
//! Start at    [`VenueApplication`].

mod binary_entry;
mod thread_texts;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use pitwire_deribit::channels::{ChannelId, SubscriptionStart};
use pitwire_deribit::codec::{Channel, Request, Token, write_logout};
use pitwire_deribit::{
    Authorization, DispatchOutcome, Dispatcher, Effect, FailedLogin, LongAnswer, RESUMED_BYTES, RequestClock,
    RequestContext, Session, SignedRequest, Transport,
};
use pitwire_journal::LogError;
use pitwire_model::{AccountId, VenueNanos};
use pitwire_net::{
    Application, CloseReason, ConnectionId, Handoff, HttpRequest, HttpResponse, Notices, Refusal, ServerLatency,
    SystemClock,
};
use pitwire_sbe_gateway::BinaryEntry;
use pitwire_url_streams::VenueMoment;
use tracing::{error, warn};

use pitwire_venue::{Maintenance, VenueClock};

use crate::answer_delivery::AnswerDelivery;
use crate::api_route::{self, ApiRoute};
use crate::bus::Bus;
use crate::client_connection::{ClientConnection, ClientSubscription, TOO_SLOW, is_open, leave, leave_all};
use crate::delivery_context::DeliveryContext;
use crate::health::health;
use crate::heartbeats::Heartbeats;
use crate::long_answers::Recipient;
use crate::metrics::{self, Gauges, ServerCounters};
use crate::page;
use crate::private_delivery::PrivateDelivery;
use crate::private_events::NOTICES_WHILE_BEHIND;
use crate::public_connections::ConnectionOutput;
use crate::resume::{Resumption, RetainedChannels, VenueEpoch};
use crate::server_latency::LatencyHistograms;
use crate::service::{MarketData, VenueService};
use crate::window_sends::RECORDS_PER_TURN;

/// Interval in nanoseconds at which the order flow runs. Its commands carry their own times, and
/// those of one interval share a commit.
const FLOW_GRID_NS: u64 = 10_000_000;
/// Largest number of the venue's own commands in one turn of the loop. Bounds the wait of clients.
const STEPS_PER_TURN: usize = 2_000;
/// Lag in nanoseconds of real time above which venue time does not catch up, but continues from
/// where it is.
const MOST_LAG_NS: u64 = 2_000_000_000;

/// Interval in nanoseconds of venue time at which unused replay buffers are removed.
const REPLAY_EXPIRY_NS: u64 = 10_000_000_000;

/// Capacity in bytes that the reply buffer keeps after a long reply.
const KEPT_REPLY_BYTES: usize = 64 * 1024;

/// Close reason of a connection whose login has ended, with code 1008.
const LOGIN_ENDED: &str = "the login has ended: an operator or a logout revoked it";

pub struct VenueApplication {
    pub service: VenueService,
    dispatcher: Dispatcher,
    clients: BTreeMap<ConnectionId, ClientConnection>,
    /// Connections whose public channels the venue thread sends. The others are in the subscriber
    /// tables of the delivery threads.
    subscribers: BTreeSet<ConnectionId>,
    /// Buffer of the reply that is being written.
    reply: Vec<u8>,
    clock: SystemClock,
    venue_clock: VenueClock,
    maintenance: Option<Maintenance>,
    counters: ServerCounters,
    latency: LatencyHistograms,
    /// Public channels do not wait for the commit.
    is_early: bool,
    /// Set when the log has failed. After that nothing may be sent.
    failure: Option<LogError>,
    private: PrivateDelivery,
    answers: AnswerDelivery,
    heartbeats: Heartbeats,
    /// Clients of binary order entry.
    entry: BinaryEntry,
    /// Publication for gateways, if enabled.
    bus: Option<Bus>,
    life: VenueEpoch,
    held: RetainedChannels,
    replay_expiry_due: VenueNanos,
}

impl VenueApplication {
    /// Creates the application. `maintenance` is `None` if the venue keeps nothing on disk.
    pub fn new(
        mut service: VenueService,
        mut dispatcher: Dispatcher,
        clock: SystemClock,
        venue_clock: VenueClock,
        maintenance: Option<Maintenance>,
    ) -> Self {
        service.market_data.streams.set_clocks(clock, venue_clock);
        let life = VenueEpoch::new(service.venue.engine().epoch().0, maintenance.is_some(), clock.wall_ns());
        // Private channels wait for the commit, with early market data too.
        dispatcher.begin_epoch(life.epoch, life.remembers);
        VenueApplication {
            service,
            dispatcher,
            clients: BTreeMap::new(),
            subscribers: BTreeSet::new(),
            reply: Vec::with_capacity(4096),
            clock,
            venue_clock,
            maintenance,
            counters: ServerCounters::default(),
            latency: LatencyHistograms::default(),
            is_early: false,
            failure: None,
            private: PrivateDelivery::new(),
            answers: AnswerDelivery::default(),
            heartbeats: Heartbeats::default(),
            entry: BinaryEntry::new(0),
            bus: None,
            life,
            held: RetainedChannels::default(),
            replay_expiry_due: VenueNanos(0),
        }
    }

    /// Sends public channels before the commit if `is_early` is set. Answers and private notices
    /// still wait for the commit.
    pub fn with_early_market_data(mut self, is_early: bool) -> Self {
        self.is_early = is_early;
        // Events that were sent early and lost in a crash are not in the log, so readers cannot
        // resume from them.
        self.life.remembers &= !is_early;
        self
    }

    /// Serves binary order entry over the server's byte-stream listeners.
    pub fn with_entry(self, entry: BinaryEntry) -> Self {
        VenueApplication { entry, ..self }
    }

    pub fn with_bus(self, bus: Option<Bus>) -> Self {
        VenueApplication { bus, ..self }
    }

    pub fn into_parts(self) -> (VenueService, Option<Maintenance>) {
        (self.service, self.maintenance)
    }

    fn rpc_clock(&self) -> RequestClock {
        let steady_ns = self.clock.monotonic_ns();
        RequestClock { received_us: SystemClock::wall_us(), now_us: SystemClock::wall_us, steady_ns }
    }

    /// Returns the two deliveries, and the context for calls to them.
    fn delivery<'a>(
        &'a mut self,
        notices: &'a mut Notices,
    ) -> (&'a mut PrivateDelivery, &'a mut AnswerDelivery, DeliveryContext<'a>) {
        let context = DeliveryContext {
            service: &mut self.service,
            dispatcher: &mut self.dispatcher,
            clients: &mut self.clients,
            entry: &mut self.entry,
            counters: &mut self.counters,
            failure: &mut self.failure,
            clock: self.clock,
            notices,
        };
        (&mut self.private, &mut self.answers, context)
    }

    /// Ends a command: sends its private notices, and puts its public messages behind them.
    fn distribute(&mut self, notices: &mut Notices) {
        let (private, _, mut context) = self.delivery(notices);
        private.distribute(&mut context);
    }

    fn queue_answer(&mut self, to: Recipient, answer: LongAnswer, notices: &mut Notices) {
        let (private, answers, mut context) = self.delivery(notices);
        answers.queue(to, answer, private, &mut context);
    }

    fn close_private_windows(&mut self, notices: &mut Notices) {
        let (private, _, mut context) = self.delivery(notices);
        private.close_windows(&mut context);
    }

    /// Sends due heartbeats, and closes connections that have not answered the last one.
    fn beat(&mut self, now_ns: u64, notices: &mut Notices) {
        let mut output =
            ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections };
        while let Some(id) = self.heartbeats.take(now_ns) {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            match client.session.beat(now_ns, &mut |text| output.notify(id, text)) {
                Ok(()) => self.heartbeats.set(id, client.session.beat_due_ns()),
                Err(why) => expel(id, &why, &mut output),
            }
        }
    }

    fn note(&mut self, answer: &DispatchOutcome) {
        self.counters.errors += u64::from(answer.is_error);
        self.note_failures(answer.log_failed);
    }

    /// Logs a failed login, if there was one. Notes that the journal has failed if `log_failed`.
    fn note_failures(&mut self, log_failed: bool) {
        if let Some(FailedLogin { client_id, address }) = self.dispatcher.take_failed_login() {
            // Debug format escapes control characters, so that a client cannot forge a log line.
            warn!(?client_id, address = address.map(tracing::field::display), "login failed");
        }
        if log_failed {
            self.failure.get_or_insert(LogError::Poisoned);
        }
    }

    /// Closes the connections whose logins the last request has ended.
    fn close_ended_logins(&mut self, notices: &mut Notices) {
        let ended = self.dispatcher.take_ended_logins();
        if ended.is_empty() {
            return;
        }
        let concerned = self.clients.iter().filter(|(_, client)| client.session.has_ended_login(&ended));
        for id in concerned.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            client.session.end_login();
            leave_all(id, &mut client.public, &mut self.service.market_data);
            let public_connections = &mut self.service.market_data.public_connections;
            expel(id, LOGIN_ENDED, &mut ConnectionOutput { notices, public_connections });
            self.reindex(id);
        }
        self.end_entry_logins(&ended, notices);
    }

    /// Updates the indexes after a request: public channels, and accounts with private notices.
    fn reindex(&mut self, id: ConnectionId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.public.is_empty() || self.service.market_data.public_connections.has(id) {
            self.subscribers.remove(&id);
        } else {
            self.subscribers.insert(id);
        }
        self.private.set_accounts(id, client.session.subscribed_accounts());
    }

    /// Removes replay buffers of accounts without readers.
    fn expire_replay_buffers(&mut self) {
        if self.service.venue.now() >= self.replay_expiry_due {
            self.replay_expiry_due = VenueNanos(self.service.venue.now().0.saturating_add(REPLAY_EXPIRY_NS));
            self.dispatcher
                .expire_replay_buffers(self.clients.values().map(|client| &client.session), self.service.venue.now());
        }
    }

    /// Closes windows that ended because a request moved venue time.
    fn follow_manual_time(&mut self, notices: &mut Notices) {
        if self.service.options.manual_time {
            self.close_private_windows(notices);
        }
    }

    fn apply(&mut self, id: ConnectionId, effects: Vec<Effect>, notices: &mut Notices) {
        let mut room = RESUMED_BYTES;
        for effect in effects {
            let Some(client) = self.clients.get_mut(&id) else { return };
            let public_connections = &mut self.service.market_data.public_connections;
            match effect {
                Effect::Subscribe(name, channel) => self.join(id, (name, &channel), notices, None),
                Effect::Resume(name, channel, token) => {
                    self.join(id, (name, &channel), notices, Some((token, &mut room)));
                }
                Effect::Unsubscribe(name) => {
                    if let Some(at) = client.public.iter().position(|sub| sub.name == name) {
                        let sub = client.public.remove(at);
                        leave(id, &sub, &client.public, &mut self.service.market_data);
                    }
                }
                Effect::UnsubscribeAll => leave_all(id, &mut client.public, &mut self.service.market_data),
                Effect::Send(text) => ConnectionOutput { notices, public_connections }.reply(id, &text),
                Effect::Close => {
                    ConnectionOutput { notices, public_connections }.close(
                        id,
                        pitwire_net::CloseCode::Normal,
                        "logged out",
                    );
                }
                Effect::Expel(why) => expel(id, &why, &mut ConnectionOutput { notices, public_connections }),
            }
        }
    }

    /// Subscribes a connection to a public channel. With `resume` it also gets the missed messages,
    /// up to the limit in bytes.
    fn join(
        &mut self,
        id: ConnectionId,
        (name, channel): (String, &Channel),
        notices: &mut Notices,
        resume: Option<(Option<Token>, &mut usize)>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.public.iter().any(|sub| sub.name == name) {
            if resume.is_some() {
                let mut output =
                    ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections };
                output.reply(id, &Resumption::without_replay(&name).notice);
            }
            return;
        }
        let VenueService { venue, market_data, .. } = &mut self.service;
        let (engine, views, now) = (venue.engine(), venue.views(), venue.now());
        let Some(subscribed) = market_data.publisher.subscribe(channel, engine, views, now) else { return };
        let is_held = resume.is_some() && matches!(channel, Channel::Book { .. });
        let resumption = resume.map(|(token, room)| {
            Resumption::of_public(&self.service, self.life, (&name, channel), &subscribed, token, room)
        });
        let SubscriptionStart { feed, cursor, first } = subscribed;
        let MarketData { publisher, public_connections, .. } = &mut self.service.market_data;
        let mut output = ConnectionOutput { notices, public_connections };
        match &resumption {
            None => first.iter().for_each(|text| output.reply(id, text)),
            Some(Resumption { messages, notice }) => {
                messages.iter().chain([notice]).for_each(|text| output.reply(id, text));
            }
        }
        let is_away = public_connections.join(id, feed, publisher);
        let is_open = is_open(channel);
        client.public.push(ClientSubscription { name, feed, cursor, is_open, is_away, is_held });
    }

    /// Hands a connection that only reads public channels to a delivery thread, after everything
    /// that waits for it here was sent. It stays on that thread, even after a later login.
    fn hand_off_listener(&mut self, id: ConnectionId, notices: &mut Notices) {
        if let Some(client) = self.clients.get(&id)
            && !self.service.market_data.public_connections.has(id)
            && client.is_listener()
        {
            notices.hand_off(id);
        }
    }

    fn api(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        let clock = self.rpc_clock();
        let mut out = Vec::with_capacity(1024);
        let mut is_shared = api_route::names_shared_method(request);
        let answer = match api_route::call(request) {
            Ok(call) => {
                is_shared &= api_route::is_shared(&call.method);
                self.answer_http(request, &call, clock, &mut out)
            }
            Err((id, error)) => Dispatcher::refuse(&id, &error, clock, &mut out),
        };
        charge(request.connection, answer.account, notices);
        self.note(&answer);
        self.distribute(notices);
        self.close_ended_logins(notices);
        self.follow_manual_time(notices);
        if let Some(rest) = answer.rest {
            let (keep_alive, head_only) = (request.keep_alive, request.method == "HEAD");
            let to = Recipient::Http { connection: request.connection, keep_alive, head_only };
            self.queue_answer(to, rest, notices);
            return HttpResponse::later();
        }
        let mut response = HttpResponse::json(if answer.is_error { 400 } else { 200 }, out);
        if is_shared {
            api_route::share(&mut response);
        }
        response
    }

    fn answer_http(
        &mut self,
        request: &HttpRequest<'_>,
        call: &Request<'_>,
        clock: RequestClock,
        out: &mut Vec<u8>,
    ) -> DispatchOutcome {
        let mut session = request.headers.get("authorization").map_or_else(Session::new, |header| {
            let body = std::str::from_utf8(request.body).unwrap_or_default();
            let signed = SignedRequest { method: request.method, uri: request.target, body };
            self.dispatcher.session_of(Authorization(header), signed, request.from, clock)
        });
        session = session.coming_from(request.from);
        let visit =
            RequestContext { venue: &mut self.service, session: &mut session, transport: Transport::Http, clock };
        self.dispatcher.answer(visit, call, out)
    }

    fn metrics(&self) -> HttpResponse {
        let mut text = metrics::render(
            &self.counters,
            &Gauges {
                chain: self.service.venue.chain().state(),
                epoch: self.service.venue.engine().epoch().0,
                durable: self.service.venue.durable().0,
                shown_orders: self.service.venue.engine().shown_orders(),
                open_connections: self.clients.len()
                    + self.entry.open_connections()
                    + self.service.market_data.streams.open_connections(),
                listeners: self.handed_off(),
                open_channels: self.service.market_data.publisher.open_channels(),
                is_durable: self.maintenance.is_some(),
                is_early: self.is_early,
                login_failures: self.dispatcher.login_failures(),
            },
        );
        self.latency.render(&mut text);
        self.service.render_order_feed(&mut text);
        if let Some(bus) = &self.bus {
            bus.render(&mut text);
        }
        HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
    }

    /// Runs everything that is due by now.
    fn catch_up(&mut self, now_ns: u64, notices: &mut Notices) -> Result<(), LogError> {
        let target = self.venue_clock.at(now_ns);
        let mut steps = 0;
        while self.service.step(target)? {
            self.distribute(notices);
            steps += 1;
            if steps == STEPS_PER_TURN {
                break;
            }
        }
        if steps < STEPS_PER_TURN {
            self.service.venue.advance_to(target);
            self.close_private_windows(notices);
        } else if now_ns.saturating_sub(self.venue_clock.real(self.service.venue.now())) > MOST_LAG_NS {
            warn!(
                behind_ns = target.0.saturating_sub(self.service.venue.now().0),
                "venue time fell behind the clock, because the machine was suspended or is too slow for --speed; it \
                 continues from the last command"
            );
            self.venue_clock.resume_from(self.service.venue.now(), now_ns);
            self.service.market_data.streams.set_clocks(self.clock, self.venue_clock);
        }
        Ok(())
    }
}

/// Counts the unread bytes of a connection against an account.
fn charge(id: ConnectionId, account: Option<AccountId>, notices: &mut Notices) {
    if let Some(account) = account {
        notices.charge(id, u64::from(account.0));
    }
}

/// Sends the last notice to a connection and closes it.
fn expel(id: ConnectionId, why: &str, output: &mut ConnectionOutput<'_>) {
    let mut out = Vec::new();
    write_logout(&mut out, why);
    output.notify(id, &out);
    output.close(id, pitwire_net::CloseCode::Policy, why);
}

impl Application for VenueApplication {
    const STOPPING: &'static str = "the venue is stopping";

    fn answers_anybody(&self, request: &HttpRequest<'_>) -> bool {
        matches!(request.method, "GET" | "HEAD") && matches!(request.path(), "/healthz" | "/metrics")
    }

    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        self.counters.http_requests += 1;
        let path = request.path();
        match api_route::at(request) {
            ApiRoute::None => {}
            ApiRoute::Answered(response) => return response,
            ApiRoute::Open => return self.api(request, notices),
        }
        let is_bus = path.starts_with("/bus/");
        if request.is_foreign && (is_bus || matches!(path, "/metrics" | "/healthz")) {
            return api_route::refused(Refusal::ForeignOrigin);
        }
        if let Some(bus) = self.bus.as_mut().filter(|_| is_bus) {
            let markets = self.service.venue.engine().markets();
            let instruments = || markets.iter().map(|market| market.spec.name.to_string()).collect();
            return bus.request(request, instruments, SystemClock::wall_us() / 1000, self.clock.monotonic_ns());
        }
        if !matches!(request.method, "GET" | "HEAD") {
            let is_rest = pitwire_url_streams::is_rest_path(path);
            return match pitwire_url_streams::unserved(request.method, path).filter(|_| is_rest) {
                Some(answer) => HttpResponse::json(answer.status, answer.body),
                None => HttpResponse::text(405, "use GET"),
            };
        }
        if let Some(mut response) = self.service.rest(request) {
            api_route::share(&mut response);
            return response;
        }
        match path {
            "/metrics" => self.metrics(),
            "/healthz" => {
                let bus_is_connected = self.bus.as_ref().map(Bus::is_connected);
                let usage = self.maintenance.as_ref().and_then(Maintenance::disk_usage);
                health(&self.service, self.is_early, usage, bus_is_connected)
            }
            "/ws/api/v2" | "/ws/api/v2/" => HttpResponse::text(426, "this is a WebSocket endpoint"),
            _ if pitwire_url_streams::is_stream_path(path) => HttpResponse::text(426, "this is a WebSocket endpoint"),
            _ => page::serve(path).unwrap_or_else(|| {
                if path == "/" {
                    return page::missing();
                }
                HttpResponse::json(404, b"{\"error\":{\"code\":404,\"message\":\"not found\",\"data\":{\"remedy\":\"the page is at /, the API at /api/v2\"}}}\n".to_vec())
            }),
        }
    }

    fn accepts_websocket(&self, path: &str) -> bool {
        matches!(path, "/ws/api/v2" | "/ws/api/v2/")
    }

    fn takes_over(&self, request: &HttpRequest<'_>) -> bool {
        pitwire_url_streams::is_stream_path(request.path())
    }

    fn take_over(&mut self, request: &HttpRequest<'_>, taken: &mut Option<Handoff>) -> Result<(), HttpResponse> {
        if self.service.is_stopping {
            return Err(HttpResponse::text(503, Self::STOPPING));
        }
        let VenueService { venue, market_data, .. } = &mut self.service;
        let here = VenueMoment { engine: venue.engine(), views: venue.views(), at: venue.now() };
        market_data.streams.take_over(request, taken, here)
    }

    fn handed_off(&self) -> usize {
        self.service.market_data.streams.open_connections() + self.service.market_data.public_connections.len()
    }

    fn may_leave(&mut self, id: ConnectionId) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        let publisher = &self.service.market_data.publisher;
        let has_read_all = client.public.iter().all(|sub| publisher.is_at_end(sub.feed, sub.cursor));
        has_read_all && client.is_listener() && self.service.market_data.public_connections.is_open()
    }

    fn take_open(&mut self, id: ConnectionId, taken: Handoff) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.public.iter_mut().for_each(|sub| sub.is_away = true);
        let feeds: Vec<ChannelId> = client.public.iter().map(|sub| sub.feed).collect();
        let MarketData { public_connections, publisher, .. } = &mut self.service.market_data;
        public_connections.adopt(id, taken, &feeds, publisher);
        if let Some(account) = client.payer {
            public_connections.unread.charge(id, account);
        }
        self.subscribers.remove(&id);
        // These messages are committed, so they need not wait for the next turn.
        public_connections.release();
    }

    fn connected(&mut self, id: ConnectionId, from: Option<IpAddr>) {
        self.counters.connections += 1;
        let session = self.dispatcher.connect(self.service.venue.engine()).coming_from(from);
        self.clients.insert(id, ClientConnection { session, payer: None, public: Vec::new() });
    }

    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        self.counters.messages += 1;
        let clock = self.rpc_clock();
        let Some(client) = self.clients.get_mut(&id) else { return };
        let mut out = std::mem::take(&mut self.reply);
        out.clear();
        let transport = Transport::WebSocket;
        let visit = RequestContext { venue: &mut self.service, session: &mut client.session, transport, clock };
        let answer = self.dispatcher.answer_text(visit, text, None, &mut out);
        if answer.rest.is_none() {
            ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections }
                .reply(id, &out);
        }
        out.shrink_to(KEPT_REPLY_BYTES);
        self.reply = out;
        if client.session.has_pending_window() {
            self.private.arm_windows(self.service.venue.now());
        }
        self.heartbeats.set(id, client.session.beat_due_ns());
        if answer.account.is_some() && client.payer != answer.account {
            client.payer = answer.account;
            match answer.account {
                Some(account) if self.service.market_data.public_connections.has(id) => {
                    self.service.market_data.public_connections.unread.charge(id, account);
                }
                account => charge(id, account, notices),
            }
        }
        self.note(&answer);
        if let Some(rest) = answer.rest {
            self.queue_answer(Recipient::WebSocket(id), rest, notices);
        }
        self.apply(id, answer.effects, notices);
        self.reindex(id);
        self.distribute(notices);
        self.close_ended_logins(notices);
        self.follow_manual_time(notices);
        self.hand_off_listener(id, notices);
    }

    fn stream_opened(&mut self, id: ConnectionId, listener: usize, from: IpAddr, notices: &mut Notices) {
        self.counters.connections += 1;
        self.entry.opened(id, listener, from, self.clock.monotonic_ns(), notices);
    }

    fn stream_message(&mut self, id: ConnectionId, bytes: &[u8], notices: &mut Notices) -> Option<usize> {
        self.entry_message(id, bytes, notices)
    }

    fn refusal(&mut self, why: Refusal) -> HttpResponse {
        api_route::refused(why)
    }

    fn outbox_changed(&mut self, id: ConnectionId, has_room: bool) {
        self.private.set_room(id, has_room);
    }

    fn answered(&mut self, latency: &ServerLatency) {
        self.latency.record(latency);
    }

    fn disconnected(&mut self, id: ConnectionId, notices: &mut Notices) {
        let Some(mut client) = self.clients.remove(&id) else { return self.entry_disconnected(id, notices) };
        self.heartbeats.set(id, None);
        self.private.forget(id);
        self.answers.forget(id);
        for sub in client.public.iter().filter(|sub| sub.is_held) {
            self.held.hold(sub.feed, self.service.venue.now(), &mut self.service.market_data.publisher);
        }
        leave_all(id, &mut client.public, &mut self.service.market_data);
        self.service.market_data.public_connections.forget(id);
        self.subscribers.remove(&id);
        for cancel in self.dispatcher.disconnected(&mut client.session, self.service.venue.views()) {
            self.queue_answer(Recipient::Gone, cancel, notices);
        }
        self.distribute(notices);
    }

    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId)) {
        self.subscribers.iter().copied().for_each(visit);
    }

    fn next_due_ns(&self) -> Option<u64> {
        let due =
            self.private.next_window().map_or(self.service.next_due(), |window| window.min(self.service.next_due()));
        let venue = self.venue_clock.real(due);
        let on_grid = venue.div_ceil(FLOW_GRID_NS).saturating_mul(FLOW_GRID_NS);
        let journal = self.service.venue.journal();
        let superblock = journal.and_then(pitwire_journal::Journal::superblock_due_ns).unwrap_or(u64::MAX);
        let upkeep = self.maintenance.as_ref().map_or(u64::MAX, Maintenance::next_due_ns);
        let beat = self.heartbeats.next_due_ns().unwrap_or(u64::MAX);
        let beat = beat.min(self.private.blocked_due_ns().unwrap_or(u64::MAX)).min(self.entry.next_due_ns());
        if self.answers.has_next(&self.private)
            || self.private.has_next(|id| self.answers.is_waiting(id))
            || self.bus.as_ref().is_some_and(Bus::has_joins)
            || self.service.market_data.publisher.has_put_off()
        {
            return Some(0);
        }
        let stream_beat = self.service.market_data.streams.next_due_ns().unwrap_or(u64::MAX);
        Some(on_grid.min(superblock).min(upkeep).min(beat).min(stream_beat))
    }

    fn tick(&mut self, now_ns: u64, notices: &mut Notices) {
        if let Some(bus) = &mut self.bus {
            bus.attend(&mut self.service, self.life, now_ns, notices);
        }
        if self.service.is_stopping || self.failure.is_some() {
            return;
        }
        self.take_outbox_reports(now_ns);
        let budget = if notices.is_behind() { NOTICES_WHILE_BEHIND } else { RECORDS_PER_TURN };
        let (private, answers, mut context) = self.delivery(notices);
        private.begin_turn();
        private.send_waiting(budget, now_ns, |id| answers.is_waiting(id), &mut context);
        if let Err(error) = self.catch_up(now_ns, notices) {
            self.failure = Some(error);
        }
        let (private, _, mut context) = self.delivery(notices);
        private.close_slow(&mut context);
        self.beat(now_ns, notices);
        self.tick_entry(now_ns, notices);
        self.held.let_go(self.service.venue.now(), &mut self.service.market_data.publisher);
        self.expire_replay_buffers();
        let VenueService { venue, market_data, .. } = &mut self.service;
        let here = VenueMoment { engine: venue.engine(), views: venue.views(), at: venue.now() };
        market_data.streams.take_events(here, now_ns);
        let (private, answers, mut context) = self.delivery(notices);
        answers.continue_turn(private, &mut context);
        self.take_thread_events(notices);
    }

    fn release_early(&mut self) -> bool {
        if !self.is_early || self.failure.is_some() {
            return false;
        }
        // Gateways must not receive anything before it is durable, and they receive streams when
        // these are released.
        if self.bus.is_none() {
            self.service.market_data.streams.release(&mut |_, _| {});
        }
        self.service.market_data.public_connections.release_early();
        self.service.market_data.publisher.release()
    }

    fn commit(&mut self) -> io::Result<bool> {
        if let Some(error) = self.failure.take() {
            error!(%error, "the journal failed");
            self.failure = Some(LogError::Poisoned);
            return Err(io::Error::other(error));
        }
        let failed = |error: LogError| io::Error::other(error);
        if let Some(maintenance) = &mut self.maintenance {
            let (started, before) = (self.clock.monotonic_ns(), self.service.venue.durable());
            self.service.venue.commit().map_err(failed)?;
            let now = self.clock.monotonic_ns();
            if self.service.venue.durable() > before {
                self.counters.committed(now - started);
            }
            maintenance.attend(&mut self.service.venue, now).map_err(failed)?;
        } else {
            self.service.venue.commit().map_err(failed)?;
        }
        if let Err(error) = self.dispatcher.remove_surplus_credentials() {
            warn!(%error, "credentials of closed accounts stay sealed on disk until the next change or start");
        }
        let mut bus = self.bus.as_mut();
        let mut has_sent = false;
        self.service.market_data.streams.release(&mut |stream, payload| {
            if let Some(bus) = &mut bus {
                bus.take(stream, payload);
                has_sent = true;
            }
        });
        self.service.market_data.public_connections.release();
        self.service.release_order_feed();
        let fresh = self.service.market_data.publisher.release();
        // Gateways wait for the commit, even if the venue's own subscribers do not.
        if let Some(bus) = self.bus.as_mut().filter(|_| fresh || has_sent || self.is_early) {
            bus.collect(&self.service.market_data.publisher);
        }
        Ok(fresh)
    }

    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), CloseReason> {
        let Some(client) = self.clients.get_mut(&id) else { return Ok(()) };
        let too_slow = |_| CloseReason { code: pitwire_net::CloseCode::TryAgainLater, reason: TOO_SLOW.into() };
        // Merge the channels of a connection in the venue's order.
        while out.len() < enough {
            let mut next = None;
            for (at, sub) in client.public.iter_mut().enumerate() {
                let place = self.service.market_data.publisher.peek(sub.feed, &mut sub.cursor).map_err(too_slow)?;
                next = place.map(|place| (place, at)).into_iter().chain(next).min();
            }
            let Some((_, at)) = next else { break };
            let sub = &mut client.public[at];
            self.service.market_data.publisher.read(sub.feed, &mut sub.cursor, out).map_err(too_slow)?;
        }
        Ok(())
    }

    fn stopping(&mut self, notices: &mut Notices) {
        let (private, answers, mut context) = self.delivery(notices);
        answers.finish_cancels(private, &mut context);
        self.stop_entry(notices);
        let now_ns = self.clock.monotonic_ns();
        let (private, answers, mut context) = self.delivery(notices);
        private.send_waiting(usize::MAX, now_ns, |id| answers.is_waiting(id), &mut context);
        self.service.is_stopping = true;
        self.service.market_data.streams.stop();
        self.service.market_data.public_connections.stop();
        let mut output =
            ConnectionOutput { notices, public_connections: &mut self.service.market_data.public_connections };
        let mut out = Vec::new();
        write_logout(&mut out, Self::STOPPING);
        for id in self.clients.keys() {
            output.notify(*id, &out);
        }
    }
}

/// Returns the clock of a venue that starts at the wall time, or at its last command if that is
/// later.
pub fn venue_time(clock: &SystemClock, last: VenueNanos, speed: f64) -> VenueClock {
    VenueClock::start(clock.wall_ns(), last, clock.monotonic_ns(), speed)
}
