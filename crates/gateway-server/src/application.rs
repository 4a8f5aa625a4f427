//! Connects the gateway to the event loop: handles batches of the bus, answers of the venue and
//! requests of clients.
//!
//! Holds       the event loop never waits: other threads ask the venue and read the bus, and wake
//!             the loop.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use pitwire_deribit::codec::{RequestId, RpcError, write_error};
use pitwire_gateway::protocol::Batch;
use pitwire_gateway::{BusEvent, BusReceiver, GatewayTime, Node, Upstream, VenueAnswer, VenueCall, WebRequest};
use pitwire_net::{
    Application, CloseReason, ConnectionId, Handoff, HttpRequest, HttpResponse, Notices, Refusal, SystemClock, Waker,
};
use tracing::{info, warn};

use crate::metrics::{self, GatewayCounters, GatewaySummary};
use crate::public_connections::{AllConnections, PublicConnections};
use pitwire_server::api_route::{self, ApiRoute};
use pitwire_server::delivery_threads::TurnBudget;
use pitwire_server::with_notes;

/// Largest number of bus events that one turn handles, so that clients do not wait longer.
const EVENTS_PER_TURN: usize = 256;
/// Bytes of missed messages after which one turn sends no further ones to lagging readers.
const MISSED_BYTES_PER_TURN: usize = 1024 * 1024;
/// Time without a message of the venue, in nanoseconds, after which it counts as silent. The venue
/// sends at least one message per second.
const SILENCE_NS: u64 = 3_500_000_000;

/// A request that waits for an answer of the venue.
enum PendingCall {
    Socket { id: u64, call: VenueCall },
    Http { id: ConnectionId, request: RequestId, keep_alive: bool, head_only: bool, is_public: bool },
}

/// The application that `pitwire gateway` gives to the event loop.
pub struct GatewayApplication {
    node: Node,
    public_connections: PublicConnections,
    inlet: BusReceiver,
    upstream: Upstream,
    clock: SystemClock,
    /// Whether the venue's address was given. Otherwise the bus announces it.
    has_fixed_venue: bool,
    pending_calls: BTreeMap<u64, PendingCall>,
    last_call: u64,
    /// Whether the last turn left bus events unread.
    has_more_events: bool,
    /// Whether the last turn left lagging readers without their missed messages.
    has_more_lagging: bool,
    /// Monotonic time of the last batch of the venue.
    last_batch_ns: u64,
    on_ready: Option<Box<dyn FnOnce()>>,
    is_stopping: bool,
    pub counters: GatewayCounters,
}

/// Parts of a gateway that the command opens.
pub struct GatewayParts {
    pub node: Node,
    pub inlet: BusReceiver,
    pub upstream: Upstream,
    pub clock: SystemClock,
    pub has_fixed_venue: bool,
    pub waker: Waker,
}

impl GatewayApplication {
    /// Creates the application. It calls `on_ready` when it first knows of no missing message.
    pub fn new(parts: GatewayParts, on_ready: Box<dyn FnOnce()>) -> Self {
        let GatewayParts { node, inlet, upstream, clock, has_fixed_venue, waker } = parts;
        GatewayApplication {
            node,
            public_connections: PublicConnections::new(&waker),
            inlet,
            upstream,
            clock,
            has_fixed_venue,
            pending_calls: BTreeMap::new(),
            last_call: 0,
            has_more_events: false,
            has_more_lagging: false,
            last_batch_ns: 0,
            on_ready: Some(on_ready),
            is_stopping: false,
            counters: GatewayCounters::default(),
        }
    }

    fn now(&self) -> GatewayTime {
        GatewayTime { steady_ns: self.clock.monotonic_ns(), wall_us: SystemClock::wall_us() }
    }

    /// Handles the events of the bus, up to the limit of a turn.
    fn handle_bus_events(&mut self, now_ns: u64, notices: &mut Notices) {
        let mut left = EVENTS_PER_TURN;
        while left > 0 {
            let Some(event) = self.inlet.next() else { break };
            left -= 1;
            match event {
                BusEvent::Batch(bytes) => {
                    // A recording of an earlier epoch does not show that the venue is up.
                    let epoch = Batch::parse(&bytes).map(|batch| batch.epoch);
                    if self.node.subscriptions.follower.epoch().is_none_or(|known| epoch == Some(known)) {
                        self.last_batch_ns = now_ns;
                    }
                    self.node.subscriptions.batch(bytes, &mut AllConnections(notices, &mut self.public_connections));
                }
                BusEvent::Venue { epoch, url } => self.venue_announced(epoch, &url),
            }
        }
        self.has_more_events = left == 0;
    }

    fn venue_announced(&mut self, epoch: u64, url: &str) {
        if self.has_fixed_venue || url.is_empty() || !self.node.may_follow(epoch) {
            return;
        }
        self.node.venue_epoch = epoch;
        if self.node.venue == url {
            return;
        }
        match self.upstream.set_venue(url) {
            Ok(()) => {
                info!(url, "found the venue");
                url.clone_into(&mut self.node.venue);
                self.node.subscriptions.follower.retry_now();
            }
            Err(failure) => {
                warn!(%failure, "cannot use the address that the venue announced on the bus; give it with --venue")
            }
        }
    }

    /// Handles requests, disconnects and lagging readers of the delivery threads.
    fn handle_thread_events(&mut self, notices: &mut Notices) {
        let mut budget = TurnBudget::default();
        while let Some((id, text)) = self.public_connections.next_event(&mut budget) {
            let now = self.now();
            match text {
                Some(text) => {
                    self.counters.messages += 1;
                    if let Some(call) = self.node.text(id, &text, now, &mut self.public_connections) {
                        self.call_venue(id, call, &text, notices);
                    }
                    self.public_connections.acknowledge(id, text.len());
                }
                None => self.node.disconnected(id),
            }
        }
        let mut sent_bytes = 0;
        self.has_more_lagging = true;
        while sent_bytes < MISSED_BYTES_PER_TURN {
            let Some((id, channel, read)) = self.public_connections.next_lagging() else {
                self.has_more_lagging = false;
                break;
            };
            sent_bytes += self.node.subscriptions.behind(id, channel, read, &mut self.public_connections);
        }
    }

    /// Handles the answers of the venue.
    fn take_answers(&mut self, notices: &mut Notices) {
        while let Some(answer) = self.upstream.next() {
            let now = self.now();
            match answer {
                VenueAnswer::Bus(ask, answer) => {
                    self.node.answered(&ask, answer, now, &mut AllConnections(notices, &mut self.public_connections))
                }
                VenueAnswer::Call(number, answer) => {
                    let Some(pending) = self.pending_calls.remove(&number) else { continue };
                    let answer =
                        answer.map_err(|why| RpcError::new("retry", format!("the venue does not answer: {why}")));
                    self.complete(pending, answer, now, notices);
                }
            }
        }
    }

    /// Gives the answer of the venue to the client that asked.
    fn complete(
        &mut self,
        pending: PendingCall,
        answer: Result<pitwire_gateway::WebAnswer, RpcError>,
        now: GatewayTime,
        notices: &mut Notices,
    ) {
        match pending {
            PendingCall::Socket { id, call } => {
                let body = answer.as_ref().map(|answer| answer.body.as_slice());
                self.node.call_answered(
                    id,
                    &call,
                    body,
                    now,
                    &mut AllConnections(notices, &mut self.public_connections),
                );
            }
            PendingCall::Http { id, request, keep_alive, head_only, is_public } => {
                let mut response = match answer {
                    Ok(answer) => HttpResponse::json(answer.status, answer.body),
                    Err(error) => refused(&request, &error, now),
                };
                if is_public {
                    api_route::share(&mut response);
                }
                notices.respond(id, response, keep_alive, head_only);
            }
        }
    }

    fn call(&mut self, pending: PendingCall, request: WebRequest, notices: &mut Notices) {
        self.last_call += 1;
        self.counters.calls += 1;
        if self.upstream.call(self.last_call, request) {
            self.pending_calls.insert(self.last_call, pending);
            return;
        }
        let error = RpcError::new("too_many_requests", "too many requests wait for the venue");
        self.complete(pending, Err(error), self.now(), notices);
    }

    /// Forwards the request of a connection to the venue.
    fn call_venue(&mut self, id: u64, call: VenueCall, text: &str, notices: &mut Notices) {
        let request = WebRequest { method: "POST".into(), target: "/api/v2".into(), body: text.as_bytes().to_vec() };
        self.call(PendingCall::Socket { id, call }, request, notices);
    }

    fn api(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        let now = self.now();
        let (id, method) = match api_route::call(request) {
            Ok(call) => (call.id, call.method),
            Err((id, error)) => return refused(&id, &error, now),
        };
        if !method.starts_with("public/") {
            return refused(&id, &self.node.not_here(&method), now);
        }
        let pending = PendingCall::Http {
            id: request.connection,
            request: id,
            keep_alive: request.keep_alive,
            head_only: request.method == "HEAD",
            is_public: api_route::names_shared_method(request) && api_route::is_shared(&method),
        };
        let (method, target) = (request.method.to_owned(), request.target.to_owned());
        self.call(pending, WebRequest { method, target, body: request.body.to_vec() }, notices);
        HttpResponse::later()
    }

    /// Forwards a REST request for a snapshot of a stream to the venue.
    fn forward_rest(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        let pending = PendingCall::Http {
            id: request.connection,
            request: RequestId::default(),
            keep_alive: request.keep_alive,
            head_only: false,
            is_public: false,
        };
        let target = request.target.to_owned();
        self.call(pending, WebRequest { method: "GET".into(), target, body: Vec::new() }, notices);
        HttpResponse::later()
    }

    fn status(&self) -> &'static str {
        let is_silent = self.clock.monotonic_ns().saturating_sub(self.last_batch_ns) > SILENCE_NS;
        match () {
            () if self.is_stopping => "stopping",
            () if !self.inlet.is_connected() => "bus_away",
            () if self.node.subscriptions.follower.epoch().is_none() => "starting",
            () if is_silent => "venue_silent",
            () if !self.node.is_venue_up => "venue_away",
            () if !self.node.subscriptions.follower.is_up_to_date() => "behind",
            () => "ok",
        }
    }

    fn health(&self) -> HttpResponse {
        let status = self.status();
        let follower = &self.node.subscriptions.follower;
        let body = format!(
            "{{\"status\":\"{status}\",\"epoch\":{},\"sequence\":{},\"venue\":{}}}\n",
            follower.epoch().unwrap_or(0),
            follower.last(),
            serde_json::Value::from(self.node.venue.as_str()),
        );
        HttpResponse::json(if status == "ok" { 200 } else { 503 }, body.into_bytes())
    }

    fn metrics(&self) -> HttpResponse {
        let mut text = String::new();
        metrics::render(&self.summary(), &mut text);
        HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
    }

    pub fn summary(&self) -> GatewaySummary {
        GatewaySummary {
            counters: self.counters,
            follower: self.node.subscriptions.follower.counts,
            node: self.node.figures(),
            epoch: self.node.subscriptions.follower.epoch().unwrap_or(0),
            sequence: self.node.subscriptions.follower.last(),
            forged: self.inlet.forged(),
            dropped: self.inlet.dropped(),
            is_ok: self.status() == "ok",
        }
    }
}

fn refused(id: &RequestId, error: &RpcError, now: GatewayTime) -> HttpResponse {
    let mut body = Vec::new();
    write_error(&mut body, id, error, now.wall_us, now.wall_us);
    let is_ours = matches!(error.name, "retry" | "too_many_requests");
    HttpResponse::json(if is_ours { 503 } else { 400 }, body)
}

impl Application for GatewayApplication {
    const STOPPING: &'static str = "the gateway is stopping";

    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        self.counters.http_requests += 1;
        let path = request.path();
        match api_route::at(request) {
            ApiRoute::None => {}
            ApiRoute::Answered(response) => return response,
            ApiRoute::Open => return self.api(request, notices),
        }
        if pitwire_url_streams::is_rest_path(path) && request.method == "GET" && !request.is_foreign {
            return self.forward_rest(request, notices);
        }
        if request.is_foreign {
            return api_route::refused(Refusal::ForeignOrigin);
        }
        if pitwire_url_streams::is_rest_path(path)
            && let Some(answer) = pitwire_url_streams::unserved(request.method, path)
        {
            return HttpResponse::json(answer.status, answer.body);
        }
        if !matches!(request.method, "GET" | "HEAD") {
            return HttpResponse::text(405, "use GET");
        }
        match path {
            "/metrics" => self.metrics(),
            "/healthz" => self.health(),
            _ if self.accepts_websocket(path) => HttpResponse::text(426, "this is a WebSocket endpoint"),
            _ => HttpResponse::text(
                404,
                "a gateway has /ws/api/v2, /api/v2/public, streams by URL, /healthz and /metrics",
            ),
        }
    }

    fn accepts_websocket(&self, path: &str) -> bool {
        matches!(path, "/ws/api/v2" | "/ws/api/v2/") || pitwire_url_streams::is_stream_path(path)
    }

    fn refuses_handshake(&self, request: &HttpRequest<'_>) -> Option<HttpResponse> {
        let refused = self.node.refusal(request.target)?;
        Some(HttpResponse::json(refused.status, refused.body.into_bytes()))
    }

    fn takes_over(&self, request: &HttpRequest<'_>) -> bool {
        Node::suits_delivery_thread(request.path(), request.query())
    }

    /// Hands a connection that has only public subscriptions to a delivery thread.
    fn take_over(&mut self, request: &HttpRequest<'_>, handoff: &mut Option<Handoff>) -> Result<(), HttpResponse> {
        if self.is_stopping {
            return Err(HttpResponse::text(503, Self::STOPPING));
        }
        let opened = match self.node.read_url(request.path(), request.query()) {
            Some(Ok(opened)) => Some(opened),
            Some(Err(refused)) => return Err(HttpResponse::json(refused.status, refused.body.into_bytes())),
            None if pitwire_url_streams::is_stream_path(request.path()) => {
                return Err(HttpResponse::text(404, "no stream has this path"));
            }
            None => None,
        };
        self.public_connections.start().map_err(|why| HttpResponse::text(503, &why))?;
        let Some(mut handoff) = handoff.take() else { return Err(HttpResponse::text(503, "connect again")) };
        if let Some(opened) = &opened {
            handoff.handshake = with_notes(handoff.handshake, opened);
        }
        self.counters.connections += 1;
        let (id, now) = (self.public_connections.adopt(handoff), self.now());
        self.node.connected_delegated(id);
        match opened {
            Some(opened) => self.node.opened_streams(id, opened, None, now, &mut self.public_connections),
            None => self.node.opened(id, request.target, now, &mut self.public_connections),
        }
        Ok(())
    }

    fn handed_off(&self) -> usize {
        self.public_connections.open_connections()
    }

    fn connected(&mut self, id: ConnectionId, _: Option<IpAddr>) {
        self.counters.connections += 1;
        self.node.connected(id.0);
    }

    fn opened(&mut self, id: ConnectionId, target: &str, notices: &mut Notices) {
        let now = self.now();
        self.node.opened(id.0, target, now, &mut AllConnections(notices, &mut self.public_connections));
    }

    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        self.counters.messages += 1;
        let now = self.now();
        if let Some(call) = self.node.text(id.0, text, now, &mut AllConnections(notices, &mut self.public_connections))
        {
            self.call_venue(id.0, call, text, notices);
        }
    }

    fn refusal(&mut self, why: Refusal) -> HttpResponse {
        api_route::refused(why)
    }

    fn disconnected(&mut self, id: ConnectionId, _: &mut Notices) {
        self.node.disconnected(id.0);
    }

    fn next_due_ns(&self) -> Option<u64> {
        Some(if self.has_more_events || self.has_more_lagging { 0 } else { self.node.due_ns() })
    }

    fn tick(&mut self, now_ns: u64, notices: &mut Notices) {
        self.node.subscriptions.clear_readers();
        self.handle_bus_events(now_ns, notices);
        self.take_answers(notices);
        self.handle_thread_events(notices);
        while let Some(ask) = self.node.next_question(now_ns) {
            self.upstream.ask(ask);
        }
        self.node.beat(now_ns, &mut AllConnections(notices, &mut self.public_connections));
        if self.node.can_serve()
            && let Some(on_ready) = self.on_ready.take()
        {
            on_ready();
        }
    }

    /// Stores nothing, because messages of the bus are durable at the venue.
    fn commit(&mut self) -> io::Result<bool> {
        self.public_connections.flush();
        Ok(self.node.subscriptions.has_readers())
    }

    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId)) {
        self.node.subscriptions.readers().map(ConnectionId).for_each(visit);
    }

    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), CloseReason> {
        self.node
            .subscriptions
            .read(id.0, out, enough)
            .map_err(|(code, reason)| CloseReason { code, reason: reason.into() })
    }

    fn stopping(&mut self, notices: &mut Notices) {
        self.is_stopping = true;
        self.node.send_logout(Self::STOPPING, &mut AllConnections(notices, &mut self.public_connections));
        self.public_connections.stop();
    }
}
