//! A gateway as the event loop sees it: batches from the bus, answers from the venue, requests of
//! clients.
//!
//! Holds       the loop waits for nobody: what must be asked is asked by other threads, who wake
//!             it.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use pitwire_deribit::codec::{RequestId, RpcError, write_error};
use pitwire_gateway::protocol::Batch;
use pitwire_gateway::{BusEvent, BusReceiver, GatewayTime, Node, Upstream, VenueAnswer, VenueCall, WebRequest};
use pitwire_net::{
    Application, Closing, ConnectionId, Handoff, HttpRequest, HttpResponse, Notices, Refusal, SystemClock, Waker,
};
use tracing::{info, warn};

use super::metrics::{self, Counters};
use super::public_connections::{PublicConnections, Voice};
use pitwire_server::delivery_threads::TurnBudget;
use pitwire_server::doors::{self, Door};
use pitwire_server::with_notes;

/// Most pieces of news in one turn; clients must not wait for more.
const NEWS_PER_TURN: usize = 256;
/// Bytes of what readers in halls have missed that they are told in one turn, about.
const MISSED_PER_TURN: usize = 1024 * 1024;
/// The venue says every second where it is: after so long without a word it is away, or the bus is.
const SILENCE_NS: u64 = 3_500_000_000;

/// Who waits for an answer of the venue.
enum Asker {
    Socket { id: u64, call: VenueCall },
    Http { id: ConnectionId, request: RequestId, keep_alive: bool, head_only: bool, is_public: bool },
}

pub struct GatewayApplication {
    node: Node,
    audience: PublicConnections,
    inlet: BusReceiver,
    upstream: Upstream,
    clock: SystemClock,
    /// The venue's address was given, and is not learnt from the bus.
    has_fixed_venue: bool,
    askers: BTreeMap<u64, Asker>,
    last_call: u64,
    /// There was more news than a turn takes in, and more who are behind than it tells what they
    /// have missed.
    has_more_news: bool,
    has_more_behind: bool,
    heard_ns: u64,
    on_ready: Option<Box<dyn FnOnce()>>,
    is_stopping: bool,
    pub counters: Counters,
}

/// Where a gateway's parts come together.
pub struct Parts {
    pub node: Node,
    pub inlet: BusReceiver,
    pub upstream: Upstream,
    pub clock: SystemClock,
    pub has_fixed_venue: bool,
    pub waker: Waker,
}

impl GatewayApplication {
    /// `on_ready` is called once nothing is known to be missing.
    pub fn new(parts: Parts, on_ready: Box<dyn FnOnce()>) -> Self {
        let Parts { node, inlet, upstream, clock, has_fixed_venue, waker } = parts;
        GatewayApplication {
            node,
            audience: PublicConnections::new(&waker),
            inlet,
            upstream,
            clock,
            has_fixed_venue,
            askers: BTreeMap::new(),
            last_call: 0,
            has_more_news: false,
            has_more_behind: false,
            heard_ns: 0,
            on_ready: Some(on_ready),
            is_stopping: false,
            counters: Counters::default(),
        }
    }

    fn now(&self) -> GatewayTime {
        GatewayTime { steady_ns: self.clock.monotonic_ns(), wall_us: SystemClock::wall_us() }
    }

    /// What has come over the bus.
    fn hear(&mut self, now_ns: u64, notices: &mut Notices) {
        let mut left = NEWS_PER_TURN;
        while left > 0 {
            let Some(news) = self.inlet.next() else { break };
            left -= 1;
            match news {
                BusEvent::Batch(bytes) => {
                    // A recording of an earlier start is not a word of the venue.
                    let epoch = Batch::parse(&bytes).map(|batch| batch.epoch);
                    if self.node.follower.epoch().is_none_or(|known| epoch == Some(known)) {
                        self.heard_ns = now_ns;
                    }
                    self.node.batch(bytes, &mut Voice(notices, &mut self.audience));
                }
                BusEvent::Venue { epoch, url } => self.learn(epoch, &url),
            }
        }
        self.has_more_news = left == 0;
    }

    fn learn(&mut self, epoch: u64, url: &str) {
        if self.has_fixed_venue || url.is_empty() || !self.node.may_follow(epoch) {
            return;
        }
        self.node.venue_epoch = epoch;
        if self.node.venue == url {
            return;
        }
        match self.upstream.set_venue(url) {
            Ok(()) => {
                info!(url, "the venue is there");
                url.clone_into(&mut self.node.venue);
                self.node.follower.retry_now();
            }
            Err(failure) => warn!(%failure, "the bus names no venue that can be asked; give it by --venue"),
        }
    }

    /// What readers in halls have said, and who of them has left.
    fn hear_halls(&mut self, notices: &mut Notices) {
        let mut attention = TurnBudget::default();
        while let Some((id, text)) = self.audience.hear(&mut attention) {
            let now = self.now();
            match text {
                Some(text) => {
                    self.counters.messages += 1;
                    if let Some(call) = self.node.text(id, &text, now, &mut self.audience) {
                        self.call_venue(id, call, &text, notices);
                    }
                    self.audience.heard(id, text.len());
                }
                None => self.node.disconnected(id),
            }
        }
        let mut told = 0;
        self.has_more_behind = true;
        while told < MISSED_PER_TURN {
            let Some((id, channel, read)) = self.audience.next_behind() else {
                self.has_more_behind = false;
                break;
            };
            told += self.node.behind(id, channel, read, &mut self.audience);
        }
    }

    /// What the venue has answered.
    fn take_answers(&mut self, notices: &mut Notices) {
        while let Some(told) = self.upstream.next() {
            let now = self.now();
            match told {
                VenueAnswer::Bus(ask, answer) => {
                    self.node.answered(&ask, answer, now, &mut Voice(notices, &mut self.audience))
                }
                VenueAnswer::Call(number, answer) => {
                    let Some(asker) = self.askers.remove(&number) else { continue };
                    let answer =
                        answer.map_err(|why| RpcError::new("retry", format!("the venue does not answer: {why}")));
                    self.pass_on(asker, answer, now, notices);
                }
            }
        }
    }

    fn pass_on(
        &mut self,
        asker: Asker,
        answer: Result<pitwire_gateway::WebAnswer, RpcError>,
        now: GatewayTime,
        notices: &mut Notices,
    ) {
        match asker {
            Asker::Socket { id, call } => {
                let body = answer.as_ref().map(|answer| answer.body.as_slice());
                self.node.call_answered(id, &call, body, now, &mut Voice(notices, &mut self.audience));
            }
            Asker::Http { id, request, keep_alive, head_only, is_public } => {
                let mut response = match answer {
                    Ok(answer) => HttpResponse::json(answer.status, answer.body),
                    Err(error) => refused(&request, &error, now),
                };
                if is_public {
                    doors::share(&mut response);
                }
                notices.respond(id, &response, keep_alive, head_only);
            }
        }
    }

    fn call(&mut self, asker: Asker, request: WebRequest, notices: &mut Notices) {
        self.last_call += 1;
        self.counters.calls += 1;
        if self.upstream.call(self.last_call, request) {
            self.askers.insert(self.last_call, asker);
            return;
        }
        let error = RpcError::new("too_many_requests", "too many requests wait for the venue");
        self.pass_on(asker, Err(error), self.now(), notices);
    }

    /// What a connection has said is the venue's to answer.
    fn call_venue(&mut self, id: u64, call: VenueCall, text: &str, notices: &mut Notices) {
        let request = WebRequest { method: "POST".into(), target: "/api/v2".into(), body: text.as_bytes().to_vec() };
        self.call(Asker::Socket { id, call }, request, notices);
    }

    fn api(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        let now = self.now();
        let (id, method) = match doors::call(request) {
            Ok(call) => (call.id, call.method),
            Err((id, error)) => return refused(&id, &error, now),
        };
        if !method.starts_with("public/") {
            return refused(&id, &self.node.not_here(&method), now);
        }
        let asker = Asker::Http {
            id: request.connection,
            request: id,
            keep_alive: request.keep_alive,
            head_only: request.method == "HEAD",
            is_public: doors::is_public(request),
        };
        let (method, target) = (request.method.to_owned(), request.target.to_owned());
        self.call(asker, WebRequest { method, target, body: request.body.to_vec() }, notices);
        HttpResponse::later()
    }

    /// A request by which readers of streams join: the venue's to answer.
    fn pass_rest(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        let asker = Asker::Http {
            id: request.connection,
            request: RequestId::default(),
            keep_alive: request.keep_alive,
            head_only: false,
            is_public: false,
        };
        let target = request.target.to_owned();
        self.call(asker, WebRequest { method: "GET".into(), target, body: Vec::new() }, notices);
        HttpResponse::later()
    }

    fn status(&self) -> &'static str {
        let is_silent = self.clock.monotonic_ns().saturating_sub(self.heard_ns) > SILENCE_NS;
        match () {
            () if self.is_stopping => "stopping",
            () if !self.inlet.is_connected() => "bus_away",
            () if self.node.follower.epoch().is_none() => "starting",
            () if is_silent => "venue_silent",
            () if !self.node.is_venue_up => "venue_away",
            () if !self.node.follower.is_up_to_date() => "behind",
            () => "ok",
        }
    }

    fn health(&self) -> HttpResponse {
        let status = self.status();
        let follower = &self.node.follower;
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

    pub fn summary(&self) -> metrics::Summary {
        metrics::Summary {
            counters: self.counters,
            follower: self.node.follower.counts,
            node: self.node.figures(),
            epoch: self.node.follower.epoch().unwrap_or(0),
            sequence: self.node.follower.last(),
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
        match doors::at(request) {
            Door::None => {}
            Door::Answered(response) => return response,
            Door::Open => return self.api(request, notices),
        }
        if pitwire_url_streams::is_rest_path(path) && request.method == "GET" && !request.is_foreign {
            return self.pass_rest(request, notices);
        }
        if request.is_foreign {
            return doors::refused(Refusal::ForeignOrigin);
        }
        if !matches!(request.method, "GET" | "HEAD") {
            return HttpResponse::text(405, "use GET");
        }
        match path {
            "/metrics" => self.metrics(),
            "/healthz" => self.health(),
            _ if self.accepts_websocket(path) => HttpResponse::text(426, "this is a WebSocket entrance"),
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

    /// Those for whom every message is what it is for everybody leave the loop.
    fn take_over(&mut self, request: &HttpRequest<'_>, taken: &mut Option<Handoff>) -> Result<(), HttpResponse> {
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
        self.audience.start().map_err(|why| HttpResponse::text(503, &why))?;
        let Some(mut taken) = taken.take() else { return Err(HttpResponse::text(503, "connect again")) };
        if let Some(opened) = &opened {
            taken.handshake = with_notes(taken.handshake, opened);
        }
        self.counters.connections += 1;
        let (id, now) = (self.audience.adopt(taken), self.now());
        self.node.connected_delegated(id);
        match opened {
            Some(opened) => self.node.opened_streams(id, opened, None, now, &mut self.audience),
            None => self.node.opened(id, request.target, now, &mut self.audience),
        }
        Ok(())
    }

    fn handed_off(&self) -> usize {
        self.audience.open_connections()
    }

    fn connected(&mut self, id: ConnectionId, _: Option<IpAddr>) {
        self.counters.connections += 1;
        self.node.connected(id.0);
    }

    fn opened(&mut self, id: ConnectionId, target: &str, notices: &mut Notices) {
        let now = self.now();
        self.node.opened(id.0, target, now, &mut Voice(notices, &mut self.audience));
    }

    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        self.counters.messages += 1;
        let now = self.now();
        if let Some(call) = self.node.text(id.0, text, now, &mut Voice(notices, &mut self.audience)) {
            self.call_venue(id.0, call, text, notices);
        }
    }

    fn refusal(&mut self, why: Refusal) -> HttpResponse {
        doors::refused(why)
    }

    fn disconnected(&mut self, id: ConnectionId, _: &mut Notices) {
        self.node.disconnected(id.0);
    }

    fn next_due_ns(&self) -> Option<u64> {
        Some(if self.has_more_news || self.has_more_behind { 0 } else { self.node.due_ns() })
    }

    fn tick(&mut self, now_ns: u64, notices: &mut Notices) {
        self.node.clear_readers();
        self.hear(now_ns, notices);
        self.take_answers(notices);
        self.hear_halls(notices);
        while let Some(ask) = self.node.next_question(now_ns) {
            self.upstream.ask(ask);
        }
        self.node.beat(now_ns, &mut Voice(notices, &mut self.audience));
        if self.node.can_serve()
            && let Some(on_ready) = self.on_ready.take()
        {
            on_ready();
        }
    }

    /// There is nothing here to keep: what comes over the bus is durable at the venue.
    fn commit(&mut self) -> io::Result<bool> {
        self.audience.flush();
        Ok(self.node.has_readers())
    }

    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId)) {
        self.node.readers().map(ConnectionId).for_each(visit);
    }

    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), Closing> {
        self.node.read(id.0, out, enough).map_err(|(code, reason)| Closing { code, reason: reason.into() })
    }

    fn stopping(&mut self, notices: &mut Notices) {
        self.is_stopping = true;
        self.node.send_logout(Self::STOPPING, &mut Voice(notices, &mut self.audience));
        self.audience.stop();
    }
}
