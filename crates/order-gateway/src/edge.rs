//! The gateway as an application of the event loop: clients on one side, the venue on the other.
//!
//! Does        routes the requests of the clients, and passes each answer of the venue to its
//!             client.
//! Start at    [`Edge::text`] for a request, [`Edge::deliver`] for an answer.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use pitwire_net::{Application, CloseCode, ConnectionId, HttpRequest, HttpResponse, Notices, Refusal as HttpRefusal};
use pitwire_relay::Upstream;
use serde_json::json;
use serde_json::value::RawValue;
use tracing::{info, warn};

use crate::links::{LinkRole, Links};
use crate::login_pace::LoginPace;
use crate::members::{MemberId, MemberName, Members, SharedConnection};
use crate::request::{Refusal, Request, Route, VenueAnswer};
use crate::session::{
    Grant, GrantedLogin, LoginAnswer, Session, address_name, no_cancel_on_disconnect, not_logged_in, too_many_logins,
};
use crate::throttle::{Rate, Throttle};
use crate::timers::{Timer, Timers};

/// Longest wait for the venue's handshake, and for an answer to a login, in nanoseconds.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Time between two pings over each connection to the venue, in nanoseconds. The venue closes one
/// that is silent for 10 minutes.
const PING_NS: u64 = 120_000_000_000;
const SHORTEST_PAUSE_NS: u64 = 50_000_000;
const LONGEST_PAUSE_NS: u64 = 2_000_000_000;
/// Requests of one client without an answer. Further ones wait, so that a client that does not
/// read its answers cannot collect more of them here.
const IN_FLIGHT_MAX: usize = 128;

const AWAY: &str = "the venue is away";
const MEMBER_LINK_LOST: &str = "the venue closed the connection that carries the requests of this client";

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayFigures {
    pub connections: u64,
    /// Requests that were sent to the venue, without logins and those for channels.
    pub forwarded: u64,
    /// Requests that the gateway refused.
    pub refused: u64,
    /// How often the gateway has connected to the venue.
    pub uplinks: u64,
}

/// A request at the venue.
#[derive(Debug)]
enum PendingRequest {
    OfClient {
        client: ConnectionId,
        /// The member whose connection carries it.
        member: MemberId,
        /// The id that the client chose.
        id: Option<Box<RawValue>>,
        /// The client's next request waits for the answer.
        is_put_off: bool,
    },
    Login {
        client: ConnectionId,
        id: Option<Box<RawValue>>,
        client_id: Option<String>,
        /// It continues the present login.
        continues: bool,
    },
    Renewal {
        client: ConnectionId,
        login: u64,
    },
}

impl PendingRequest {
    /// Says whether it took the connection for logins.
    fn is_login(&self) -> bool {
        matches!(self, PendingRequest::Login { .. } | PendingRequest::Renewal { .. })
    }
}

/// A gateway. `R` is called once the venue is there.
pub(crate) struct Edge<R> {
    ready: Option<R>,
    connections_max: usize,
    throttle: Throttle,
    login_pace: LoginPace,
    sessions: HashMap<ConnectionId, Session>,
    members: Members,
    links: Links,
    /// Requests at the venue, by number.
    pending: HashMap<u64, PendingRequest>,
    last_number: u64,
    timers: Timers,
    /// Pause before the next attempt to reach the venue.
    pause_ns: u64,
    /// When this turn began.
    now_ns: u64,
    pub figures: GatewayFigures,
}

impl<R> Edge<R> {
    pub fn new(
        venue: Upstream,
        sharing: SharedConnection,
        connections_max: usize,
        rate: Option<Rate>,
        ready: R,
    ) -> Self {
        let mut timers = Timers::default();
        timers.set(0, Timer::OpenLogins);
        timers.set(PING_NS, Timer::Ping);
        Edge {
            ready: Some(ready),
            connections_max,
            throttle: Throttle::new(rate),
            login_pace: LoginPace::new(),
            sessions: HashMap::new(),
            members: Members::new(sharing),
            links: Links::new(venue),
            pending: HashMap::new(),
            last_number: 0,
            timers,
            pause_ns: SHORTEST_PAUSE_NS,
            now_ns: 0,
            figures: GatewayFigures::default(),
        }
    }

    fn refuse(&mut self, to: ConnectionId, request: Option<&Request<'_>>, refusal: &Refusal, notices: &mut Notices) {
        self.figures.refused += 1;
        notices.reply(to, refusal.answer(request.and_then(|request| request.id)).as_bytes());
    }

    /// Sends a request of a client over the connection of its member.
    fn forward(&mut self, from: ConnectionId, request: &Request<'_>, notices: &mut Notices) {
        let Some(member) = self.sessions.get(&from).map(|session| session.member) else { return };
        let Some(link) = self.member_link(member, notices) else { return close(from, AWAY, notices) };
        let Some(session) = self.sessions.get_mut(&from) else { return };
        let is_put_off = self.members.count_request(member) || session.in_flight >= IN_FLIGHT_MAX;
        session.in_flight += 1;
        self.figures.forwarded += 1;
        self.last_number += 1;
        let text = request.forwarded(&self.last_number.to_string(), session.token());
        let id = request.id.map(RawValue::to_owned);
        self.pending.insert(self.last_number, PendingRequest::OfClient { client: from, member, id, is_put_off });
        if is_put_off {
            notices.put_off(from);
        }
        self.send(link, text, notices);
    }

    /// Returns the connection of a member, which opens with its first request.
    fn member_link(&mut self, member: MemberId, notices: &mut Notices) -> Option<ConnectionId> {
        if let Some(link) = self.members.link(member) {
            return Some(link);
        }
        if !self.links.is_venue_there() {
            return None;
        }
        let opened = self.links.open(LinkRole::Member(member), notices);
        let link = opened.inspect_err(|error| warn!(error, "cannot open a connection for requests")).ok()?;
        self.members.set_link(member, link);
        self.timers.set(self.now_ns + PATIENCE_NS, Timer::Handshake(link));
        // Its answers cost time here, which counts against the member like its requests.
        notices.charge(link, member.0);
        Some(link)
    }

    /// Closes the connection of a member that needs it no more.
    fn release(&mut self, member: MemberId, notices: &mut Notices) {
        if let Some(link) = self.members.take_unused(member) {
            self.links.close(link, notices);
        }
    }

    /// Sends a request over the connection for logins.
    fn ask(&mut self, request: &Request<'_>, pending: PendingRequest, notices: &mut Notices) {
        let Some(logins) = self.links.logins else { return };
        self.last_number += 1;
        self.pending.insert(self.last_number, pending);
        self.timers.set(self.now_ns + PATIENCE_NS, Timer::Answer(self.last_number));
        self.send(logins, request.forwarded(&self.last_number.to_string(), None), notices);
    }

    fn log_in(&mut self, from: ConnectionId, request: &Request<'_>, notices: &mut Notices) {
        if let Err(wait) = self.login_pace.admit(self.now_ns) {
            return self.refuse(from, Some(request), &too_many_logins(wait), notices);
        }
        let Some(session) = self.sessions.get(&from) else { return };
        let (client_id, continues) = session.named_in(request);
        let id = request.id.map(RawValue::to_owned);
        // The next requests of this client need the login, so they wait for its answer.
        notices.put_off(from);
        self.ask(request, PendingRequest::Login { client: from, id, client_id, continues }, notices);
    }

    /// Passes a request to the client's own connection to the venue.
    fn pass_to_feed(&mut self, from: ConnectionId, request: &Request<'_>, notices: &mut Notices) {
        let Some(session) = self.sessions.get_mut(&from) else { return };
        let feed = match session.feed {
            Some(feed) => feed,
            None => match self.links.open(LinkRole::Feed(from), notices) {
                Ok(feed) => {
                    self.timers.set(self.now_ns + PATIENCE_NS, Timer::Handshake(feed));
                    *session.feed.insert(feed)
                }
                Err(error) => {
                    warn!(error, "cannot open the feed connection of a client");
                    return close(from, AWAY, notices);
                }
            },
        };
        // A test needs no login, and raw public channels need one.
        let token = session.token().filter(|_| request.method.contains("subscribe"));
        let text = request.forwarded(request.id.map_or("null", RawValue::get), token);
        self.send(feed, text, notices);
    }

    fn send(&mut self, link: ConnectionId, text: String, notices: &mut Notices) {
        if let Err(cause) = self.links.send(link, text, notices) {
            self.lose(link, &cause, notices);
        }
    }

    /// Forwards a text of the venue to its client.
    fn deliver(&mut self, role: LinkRole, text: &str, notices: &mut Notices) {
        if let LinkRole::Feed(client) = role {
            return notices.notify(client, text.as_bytes());
        }
        let Some(answer) = VenueAnswer::parse(text) else { return };
        let pending = self.pending.remove(&answer.number);
        let login = pending.as_ref().filter(|pending| pending.is_login()).map(|_| LoginAnswer::parse(text));
        if let Some(login) = &login {
            self.login_pace.note_answer(self.now_ns, matches!(login, LoginAnswer::TooFast));
        }
        match pending {
            Some(PendingRequest::OfClient { client, member, id, is_put_off }) => {
                self.members.count_answer(member);
                let Some(session) = self.sessions.get_mut(&client) else { return };
                session.in_flight -= 1;
                let text = answer.with_id(id.as_deref());
                if is_put_off {
                    notices.reply_late(client, text.into_bytes());
                } else {
                    notices.reply_owned(client, text.into_bytes());
                }
            }
            Some(PendingRequest::Login { client, id, client_id, continues }) if self.sessions.contains_key(&client) => {
                if let Some(LoginAnswer::Granted(grant)) = login {
                    self.set_login(client, client_id, (answer.number, grant), notices);
                    if !continues {
                        // A new login starts without channels.
                        self.close_feed(client, notices);
                    }
                }
                notices.reply_late(client, answer.with_id(id.as_deref()).into_bytes());
            }
            Some(PendingRequest::Renewal { client, login: number }) => match login {
                Some(LoginAnswer::Granted(grant)) => self.take_renewal(client, number, Some(grant), notices),
                Some(LoginAnswer::TooFast) => self.renew_later(client, number, self.login_pace.pause(self.now_ns)),
                Some(LoginAnswer::Refused) | None => self.take_renewal(client, number, None, notices),
            },
            Some(PendingRequest::Login { .. }) | None => {}
        }
    }

    fn set_login(
        &mut self,
        client: ConnectionId,
        client_id: Option<String>,
        (number, grant): (u64, Grant),
        notices: &mut Notices,
    ) {
        self.forget_login(client);
        let renewal_ns = self.now_ns.saturating_add(grant.renewed_after_ns());
        self.timers.set(renewal_ns, Timer::Renewal { client, login: number });
        let login = GrantedLogin { client_id, grant, number, renewal_ns };
        let name = login.member_name(client);
        if let Some(session) = self.sessions.get_mut(&client) {
            session.login = Some(login);
            // Joining before leaving keeps the connection of a member that stays the same.
            let member = self.members.join(name);
            let former = std::mem::replace(&mut session.member, member);
            // Clients without a login have no payer: strangers could stop the logins of others.
            notices.charge(client, member.0);
            self.members.leave(former);
            self.release(former, notices);
        }
    }

    fn forget_login(&mut self, client: ConnectionId) {
        if let Some(login) = self.sessions.get_mut(&client).and_then(|session| session.login.take()) {
            self.timers.remove(login.renewal_ns, Timer::Renewal { client, login: login.number });
        }
    }

    fn close_feed(&mut self, client: ConnectionId, notices: &mut Notices) {
        if let Some(feed) = self.sessions.get_mut(&client).and_then(|session| session.feed.take()) {
            self.links.close(feed, notices);
        }
    }

    /// Renews a login after a wait. Its tokens should last until then, because the first attempt is
    /// after 70 % of their life.
    fn renew_later(&mut self, client: ConnectionId, login: u64, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let renewal_ns = self.now_ns.saturating_add(wait_ns);
        let session = self.sessions.get_mut(&client);
        if let Some(login) = session.and_then(|session| session.login.as_mut()).filter(|held| held.number == login) {
            login.renewal_ns = renewal_ns;
            self.timers.set(renewal_ns, Timer::Renewal { client, login: login.number });
        }
    }

    /// Asks for new tokens of a login, if it still lasts.
    fn renew(&mut self, client: ConnectionId, login: u64, notices: &mut Notices) {
        let Some(GrantedLogin { grant, .. }) = self.login(client, login) else { return };
        let params = json!({"grant_type": "refresh_token", "refresh_token": grant.refresh_token});
        let Ok(params) = RawValue::from_string(params.to_string()) else { return };
        let request = Request { id: None, method: "public/auth".into(), params: Some(&params) };
        if let Err(wait) = self.login_pace.admit(self.now_ns) {
            return self.renew_later(client, login, wait);
        }
        self.ask(&request, PendingRequest::Renewal { client, login }, notices);
    }

    /// Takes the answer to [`Self::renew`]. `grant` is `None` if the venue refused the renewal, for
    /// example because an operator has revoked the credential, or did not answer.
    fn take_renewal(&mut self, client: ConnectionId, login: u64, grant: Option<Grant>, notices: &mut Notices) {
        let Some(GrantedLogin { client_id, .. }) = self.login(client, login) else { return };
        let client_id = client_id.clone();
        match grant {
            Some(grant) => self.set_login(client, client_id, (login, grant), notices),
            None => close(client, "the venue has ended the login", notices),
        }
    }

    fn login(&self, client: ConnectionId, number: u64) -> Option<&GrantedLogin> {
        self.sessions.get(&client)?.login.as_ref().filter(|login| login.number == number)
    }

    fn open_logins(&mut self, notices: &mut Notices) {
        match self.links.open_logins(notices) {
            Ok(logins) => self.timers.set(self.now_ns + PATIENCE_NS, Timer::Handshake(logins)),
            Err(cause) => {
                warn!(cause, "the venue is away");
                self.try_again(false, notices);
            }
        }
    }

    /// Closes the connection for logins, and opens it again at once or after a pause.
    fn try_again(&mut self, is_lost: bool, notices: &mut Notices) {
        let mut due_ns = self.now_ns;
        if !self.links.close_logins(is_lost, notices) {
            due_ns += self.pause_ns;
            self.pause_ns = (self.pause_ns * 2).min(LONGEST_PAUSE_NS);
        }
        self.timers.set(due_ns, Timer::OpenLogins);
    }

    /// Acts on the end of a connection to the venue.
    fn lose(&mut self, link: ConnectionId, cause: &str, notices: &mut Notices) {
        let (was_open, was_there) = (self.links.is_open(link), self.links.is_venue_there());
        match self.links.close(link, notices) {
            None => {}
            Some(LinkRole::Feed(client)) => {
                if let Some(session) = self.sessions.get_mut(&client) {
                    session.feed = None;
                }
                if was_open {
                    return close(client, "the venue closed the connection of the channels", notices);
                }
                warn!(cause, "cannot open the feed connection of a client");
                close(client, AWAY, notices);
            }
            Some(LinkRole::Member(member)) => {
                warn!(cause, "lost a connection for requests; closing its clients");
                let reason = if was_open { MEMBER_LINK_LOST } else { AWAY };
                // Clients with a login ask for their orders after they have connected again.
                // Clients without one may not know each other, although they share an address. Of
                // these, only those that wait for an answer are closed.
                let is_of_member = |session: &Session| session.member == member && session.login.is_some();
                let clients = self.sessions.iter().filter(|(_, session)| is_of_member(session));
                clients.for_each(|(client, _)| close(*client, reason, notices));
                self.pending.retain(|_, pending| match pending {
                    PendingRequest::OfClient { client, member: of, .. } if *of == member => {
                        close(*client, reason, notices);
                        false
                    }
                    _ => true,
                });
                self.members.lose_link(member);
            }
            Some(LinkRole::Logins) => {
                if was_there {
                    warn!(cause, "lost the venue; closing all clients");
                    self.sessions.keys().for_each(|client| close(*client, AWAY, notices));
                    self.pending.clear();
                    self.login_pace = LoginPace::new();
                    for link in self.members.lose_links() {
                        self.links.close(link, notices);
                    }
                } else {
                    warn!(cause, "the venue is away");
                }
                self.try_again(was_there, notices);
            }
        }
    }

    /// Keeps the connections to the venue open while no client sends a request.
    fn ping(&mut self, notices: &mut Notices) {
        self.timers.set(self.now_ns + PING_NS, Timer::Ping);
        if let Err((link, cause)) = self.links.ping(notices) {
            self.lose(link, &cause, notices);
        }
    }

    fn note_opened(&mut self, role: LinkRole) {
        if role == LinkRole::Logins {
            info!("connected to the venue");
            self.figures.uplinks += 1;
            self.pause_ns = SHORTEST_PAUSE_NS;
        }
    }

    /// Acts on a request that the venue has not answered in time.
    fn give_up(&mut self, number: u64, notices: &mut Notices) {
        let pending = self.pending.remove(&number);
        if pending.as_ref().is_some_and(PendingRequest::is_login) {
            self.login_pace.note_answer(self.now_ns, false);
        }
        match pending {
            Some(PendingRequest::Renewal { client, login }) => self.take_renewal(client, login, None, notices),
            Some(PendingRequest::Login { client, .. } | PendingRequest::OfClient { client, .. }) => {
                close(client, AWAY, notices)
            }
            None => {}
        }
    }
}

/// Closes a client, which resumes elsewhere.
fn close(client: ConnectionId, reason: &str, notices: &mut Notices) {
    notices.close(client, CloseCode::Restart, reason);
}

fn is_health_check(path: &str) -> bool {
    path == "/healthz"
}

impl<R: FnOnce() -> io::Result<()>> Application for Edge<R> {
    const STOPPING: &'static str = "the gateway stops";

    fn request(&mut self, request: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        if request.is_foreign {
            return self.refusal(HttpRefusal::ForeignOrigin);
        }
        if !self.links.is_venue_there() {
            return HttpResponse::text(503, "the venue is away; try another gateway");
        }
        if is_health_check(request.path()) {
            return HttpResponse::text(200, "ok");
        }
        match request.upgrade_response() {
            Ok(_) => HttpResponse::text(426, "WebSocket is spoken here"),
            Err(refusal) => refusal,
        }
    }

    fn accepts_websocket(&self, path: &str) -> bool {
        !is_health_check(path)
    }

    fn refuses_handshake(&self, _: &HttpRequest<'_>) -> Option<HttpResponse> {
        if !self.links.is_venue_there() {
            return Some(HttpResponse::text(503, "the venue is away; try another gateway"));
        }
        let is_full = self.sessions.len() >= self.connections_max;
        is_full.then(|| HttpResponse::text(503, "this gateway has too many connections; try another one"))
    }

    fn refusal(&mut self, refusal: HttpRefusal) -> HttpResponse {
        match refusal {
            HttpRefusal::UnknownHost => {
                HttpResponse::text(421, "the Host is not a name of this server; allow it with --host")
            }
            HttpRefusal::ForeignOrigin => HttpResponse::text(403, "pages of other origins may not connect here"),
            HttpRefusal::TooManyConnections => {
                HttpResponse::text(503, "this gateway has too many connections; try another one")
            }
        }
    }

    fn connected(&mut self, id: ConnectionId, from: Option<IpAddr>) {
        self.figures.connections += 1;
        let address = address_name(from);
        let member = self.members.join(MemberName::Address(address.clone()));
        self.sessions.insert(id, Session::new(address, member));
    }

    /// Handles one message of a client. A message that is refused counts against the rate, too.
    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        let Some(session) = self.sessions.get(&id) else { return };
        let parsed = Request::parse(text);
        if let Err(refusal) = session.admit(&mut self.throttle) {
            return self.refuse(id, parsed.as_ref().ok(), &refusal, notices);
        }
        let is_logged_in = session.login.is_some();
        let request = match parsed {
            Ok(request) => request,
            Err(refusal) => return self.refuse(id, None, &refusal, notices),
        };
        if request.is_private() && !is_logged_in {
            return self.refuse(id, Some(&request), &not_logged_in(), notices);
        }
        match request.route() {
            Route::Refused => self.refuse(id, Some(&request), &no_cancel_on_disconnect(), notices),
            Route::Login => self.log_in(id, &request, notices),
            Route::Logout => {
                // As at the venue, a logout ends the connection. The gateway forgets its tokens.
                self.forget_login(id);
                close(id, "logged out", notices);
            }
            Route::Feed => self.pass_to_feed(id, &request, notices),
            Route::Member => self.forward(id, &request, notices),
        }
    }

    /// Clients of the dialect send texts. Others are ignored.
    fn binary(&mut self, _: ConnectionId, _: &[u8], _: &mut Notices) {}

    /// Acts on bytes of the venue.
    fn stream_message(&mut self, id: ConnectionId, bytes: &[u8], notices: &mut Notices) -> Option<usize> {
        let Some((mut link, role)) = self.links.take(id) else { return Some(bytes.len()) };
        let was_open = link.is_open();
        let mut out = Vec::new();
        let received = link.receive(bytes, &mut out, |text| self.deliver(role, text, notices));
        let is_opened = !was_open && link.is_open();
        self.links.put_back(id, link, role);
        if let LinkRole::Member(member) = role {
            self.release(member, notices);
        }
        if !out.is_empty() {
            notices.reply_bytes(id, &out);
        }
        match received {
            Ok(()) if is_opened => self.note_opened(role),
            Ok(()) => {}
            Err(cause) => self.lose(id, &cause, notices),
        }
        Some(bytes.len())
    }

    fn outbox_changed(&mut self, id: ConnectionId, has_room: bool) {
        if let Some(LinkRole::Member(member)) = self.links.role(id) {
            self.members.set_full(member, !has_room);
        }
    }

    fn disconnected(&mut self, id: ConnectionId, notices: &mut Notices) {
        if self.sessions.contains_key(&id) {
            self.forget_login(id);
            self.close_feed(id, notices);
            if let Some(session) = self.sessions.remove(&id) {
                self.members.leave(session.member);
                self.release(session.member, notices);
            }
            return;
        }
        let cause = if self.links.is_open(id) {
            "the venue closed the connection".into()
        } else {
            format!("{} refuses the connection, or closes it during the handshake", self.links.authority())
        };
        self.lose(id, &cause, notices);
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.timers.next_due_ns()
    }

    fn tick(&mut self, now_ns: u64, notices: &mut Notices) {
        self.now_ns = now_ns;
        while let Some(timer) = self.timers.pop(now_ns) {
            match timer {
                Timer::OpenLogins => self.open_logins(notices),
                Timer::Ping => self.ping(notices),
                Timer::Handshake(link) if self.links.is_open(link) => {}
                Timer::Handshake(link) => self.lose(link, "the venue does not answer the WebSocket handshake", notices),
                Timer::Answer(number) => self.give_up(number, notices),
                Timer::Renewal { client, login } => self.renew(client, login, notices),
            }
        }
    }

    /// Nothing is stored here. The first turn with a venue says that the gateway is ready.
    fn commit(&mut self) -> io::Result<bool> {
        if self.ready.is_some()
            && self.links.is_venue_there()
            && let Some(ready) = self.ready.take()
        {
            ready()?;
        }
        Ok(false)
    }

    fn stopping(&mut self, notices: &mut Notices) {
        // Clients get a close frame, and resume elsewhere.
        self.sessions.keys().for_each(|client| close(*client, Self::STOPPING, notices));
        self.links.clear();
        self.timers.clear();
    }
}
