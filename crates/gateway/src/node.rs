//! A gateway without its sockets: requests of clients in, answers and messages out, questions for the venue.
//!
//! Does        serve subscriptions from its own history, ask the venue for what a channel begins with, pass on every other public
//!             method, refuse private ones with the venue's address.
//! Holds       1. a beginning and what follows it meet: nothing twice, nothing missing;
//!             2. messages of several channels reach a client in the venue's order;
//!             3. a client that cannot be told everything is told so: 1013 in the dialect, a notice in an envelope.
//! Leaves out  sockets, clocks, and waiting: what is asked of the venue is in [`Node::asks`], its answers come to [`Node::told`].
//! Start at    [`Node::text`], [`Node::pump`]; `delivery` has what happens to clients when the venue or the bus fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::protocol::{Outcome, Reply};
use pitwire_deribit::codec::{
    Channel, Heartbeat, Interval, Json, Params, Request, RequestId, RpcError, is_login, write_error, write_logout,
    write_result,
};
use pitwire_url_streams::{Directory, StreamKey};
use pitwire_websocket::CloseCode;

use crate::client::{Client, Step, Sub, wrap_first, write_gap};
use crate::follower::Follower;
use crate::history::{ChannelId, History};
use crate::upstream::Ask;

pub use merging::GoOn;

mod delivery;
mod merging;
mod resuming;
mod seats;
mod streams;

/// How many channels one connection may hear, as at the venue.
const MOST_CHANNELS: usize = 1_000;
/// Requests of one connection that may wait for the venue.
const MOST_WAITING: usize = 64;
/// A joiner is given a kept beginning and at most so many messages behind it; otherwise a new beginning is asked for.
const MOST_REPLAYED: usize = 64;
/// A channel that nobody hears stays on the bus for so long.
const UNHEARD_NS: u64 = 60_000_000_000;
/// How often the venue is told which channels are still wanted; its patience is four times as long.
const KEEP_NS: u64 = 15_000_000_000;
const REJOIN_NS: u64 = 500_000_000;
/// Names in one question of which channels are kept: far below what a request's body may hold.
const NAMES_AT_A_TIME: usize = 500;
/// Questions for channels that may wait for the venue; more would make everybody wait.
const MOST_JOINS: usize = 2_048;
/// One channel may be written in several ways. Beyond so many they are learnt anew.
const MOST_ALIASES: usize = 16_384;

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    /// Since an arbitrary start.
    pub steady_ns: u64,
    /// Since 1970.
    pub wall_us: u64,
}

/// What a gateway says to its connections.
pub trait Mouth {
    /// Asked for by the connection.
    fn reply(&mut self, to: u64, text: &[u8]);
    /// Not asked for.
    fn notify(&mut self, to: u64, text: &[u8]);
    fn close(&mut self, to: u64, code: CloseCode, reason: &str);
    /// A message, of this sequence, for all connections in halls that hear this channel.
    fn tell_all(&mut self, _: ChannelId, _seq: u64, _payload: &[u8]) {}
    /// Whole frames for a connection in a hall.
    fn frames(&mut self, _to: u64, _frames: Vec<u8>) {}
    /// A connection in a hall hears a channel from here on.
    fn seat(&mut self, _to: u64, _: ChannelId, _: Seat) {}
    /// It was behind when it had read up to this sequence, and goes on.
    fn go_on(&mut self, _to: u64, _: ChannelId, _read: u64, _: GoOn) {}
    /// ... and no longer.
    fn unseat(&mut self, _to: u64, _: ChannelId) {}
}

/// What a hall must know of a channel that somebody comes to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Only the latest message matters. Of other channels who falls behind is told what it has missed: see [`Node::behind`].
    pub is_state: bool,
    /// It has been told everything up to this sequence.
    pub read: u64,
    /// Nobody there hears it yet: what it will be told comes behind this sequence.
    pub begins: Option<u64>,
}

/// A request that the venue must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// To be echoed where the venue does not answer.
    pub id: RequestId,
    /// It brings credentials.
    pub is_login: bool,
}

/// For the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub clients: usize,
    pub channels: usize,
    pub joins: u64,
    pub calls: u64,
    pub overrun: u64,
    pub history_bytes: usize,
}

/// What is known of a channel besides its messages.
#[derive(Debug, Default)]
struct Facts {
    /// Its messages are on the bus and nothing of it is missed.
    is_joined: bool,
    conflates: bool,
    /// Who falls behind can be told in one change what it has missed.
    merges: bool,
    /// It is on the bus without a hole behind this sequence.
    since: u64,
    /// What it begins with, and where that stands.
    first: Vec<u8>,
    stands_at: u64,
    /// Those who are read to by [`Node::pump`], or are to be seated.
    subscribers: BTreeSet<u64>,
    /// Those who hear it in a hall.
    seated: BTreeSet<u64>,
    wanted_ns: u64,
}

/// A subscription that waits for the venue.
#[derive(Debug)]
struct Pending {
    to: u64,
    /// None where nobody waits for an answer: it was asked for in the URL.
    id: Option<RequestId>,
    us_in: u64,
    names: Vec<String>,
    missing: BTreeSet<String>,
    from: Option<(u64, u64)>,
    /// Channels to be come back to; and what the venue has said of them.
    wishes: resuming::Wishes,
    resumptions: BTreeMap<String, resuming::Resumption>,
    malformed: Option<String>,
    failed: Option<String>,
}

pub struct Node {
    /// What `public/hello` answers.
    version: &'static str,
    /// Where the venue is, for those who must go there.
    pub venue: String,
    /// The start of the venue that has said so.
    pub venue_epoch: u64,
    pub follower: Follower,
    history: History,
    facts: BTreeMap<ChannelId, Facts>,
    /// Names that clients use, and the channels they mean.
    aliases: BTreeMap<String, ChannelId>,
    /// Beyond so many, those that nobody waits for are forgotten.
    most_aliases: usize,
    clients: BTreeMap<u64, Client>,
    beats: BTreeSet<(u64, u64)>,
    pendings: BTreeMap<u64, Pending>,
    last_pending: u64,
    resuming: resuming::Resuming,
    /// Names that the venue was asked for, and who waits for each.
    joins: BTreeMap<String, Vec<u64>>,
    /// Channels to be joined anew, for those who have been told a gap.
    lost: BTreeSet<String>,
    merging: merging::Merging,
    rejoin_ns: u64,
    keep_ns: u64,
    /// Instruments, as streams by URL name them.
    directory: Directory,
    instruments: BTreeSet<String>,
    has_directory: bool,
    asks: VecDeque<Ask>,
    /// Channels of which something has come, and connections that have joined.
    dirty: BTreeSet<ChannelId>,
    fresh: BTreeSet<u64>,
    /// Connections in halls with channels that they do not hear yet.
    standing: BTreeSet<u64>,
    /// How many seats are taken in all channels.
    seats: usize,
    figures: Figures,
    pub is_venue_up: bool,
}

impl Node {
    pub fn new(version: &'static str, history_bytes: usize) -> Self {
        Node {
            version,
            venue: String::new(),
            venue_epoch: 0,
            follower: Follower::default(),
            history: History::new(history_bytes),
            facts: BTreeMap::new(),
            aliases: BTreeMap::new(),
            most_aliases: MOST_ALIASES,
            clients: BTreeMap::new(),
            beats: BTreeSet::new(),
            pendings: BTreeMap::new(),
            last_pending: 0,
            resuming: resuming::Resuming::default(),
            joins: BTreeMap::new(),
            lost: BTreeSet::new(),
            merging: merging::Merging::default(),
            rejoin_ns: 0,
            keep_ns: 0,
            directory: Directory::default(),
            instruments: BTreeSet::new(),
            has_directory: false,
            asks: VecDeque::new(),
            dirty: BTreeSet::new(),
            fresh: BTreeSet::new(),
            standing: BTreeSet::new(),
            seats: 0,
            figures: Figures::default(),
            is_venue_up: false,
        }
    }

    pub fn figures(&self) -> Figures {
        Figures {
            clients: self.clients.len(),
            channels: self.facts.values().filter(|facts| facts.is_joined).count(),
            history_bytes: self.history.held_bytes(),
            ..self.figures
        }
    }

    /// Whether whatever a client may ask for can be judged, and nothing is known to be missing.
    pub fn can_serve(&self) -> bool {
        self.has_directory && self.follower.is_up_to_date()
    }

    /// Whether a mark of this start may say where the venue is. One of an earlier start is a recording: whoever has that
    /// address now would be sent what clients ask, their credentials with it.
    pub fn may_follow(&self, epoch: u64) -> bool {
        epoch >= self.follower.epoch().unwrap_or(self.venue_epoch)
    }

    /// Everybody hears why this ends; readers of streams in halls hear it by the closing alone.
    pub fn bid_farewell(&self, why: &str, mouth: &mut dyn Mouth) {
        let mut out = Vec::new();
        write_logout(&mut out, why);
        for (id, _) in self.clients.iter().filter(|(_, client)| !client.is_in_hall || client.session.is_none()) {
            mouth.notify(*id, &out);
        }
    }

    pub fn connected(&mut self, id: u64) {
        self.clients.insert(id, Client::default());
    }

    /// One that a hall serves: what it hears comes by [`Mouth::tell_all`], once for all of them.
    pub fn connected_in_hall(&mut self, id: u64) {
        self.clients.insert(id, Client { is_in_hall: true, ..Client::default() });
    }

    /// `target` is the path and query of the handshake: `envelope`, `channels` and `from` are ours.
    pub fn opened(&mut self, id: u64, target: &str, now: Instant, mouth: &mut dyn Mouth) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if pitwire_url_streams::is_stream_path(path) {
            return self.open_streams(id, path, query, now, mouth);
        }
        let Ok(request) = Request::from_query("public/subscribe", query) else {
            return mouth.close(id, CloseCode::Policy, "bad percent-encoding in the query");
        };
        let has_envelope = query.split('&').any(|pair| matches!(pair, "envelope" | "envelope=true" | "envelope=1"));
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.has_envelope = has_envelope;
        if !request.params.has("channels") {
            return;
        }
        let names = request.params.list("channels").map(Option::unwrap_or_default);
        // In a query several names stand in one text, parted by commas.
        let names = names.map(|names| names.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect());
        let asked = names.and_then(|names| self.subscribe(id, &request, names, now));
        match asked {
            Ok(pending) => self.settle(Pending { id: None, ..pending }, now, mouth),
            Err(error) => mouth.close(id, CloseCode::Policy, &error.reason),
        }
    }

    pub fn disconnected(&mut self, id: u64) {
        let Some(client) = self.clients.remove(&id) else { return };
        for sub in &client.subs {
            self.leave(id, sub.channel);
        }
        if let Some(heartbeat) = client.heartbeat {
            self.beats.remove(&(heartbeat.due_ns, id));
        }
        self.pendings.retain(|_, pending| pending.to != id);
        self.fresh.remove(&id);
        self.standing.remove(&id);
    }

    fn leave(&mut self, id: u64, channel: ChannelId) {
        let still = self.clients.get(&id).is_some_and(|client| client.subs.iter().any(|sub| sub.channel == channel));
        if !still && let Some(facts) = self.facts.get_mut(&channel) {
            facts.subscribers.remove(&id);
            self.seats -= usize::from(facts.seated.remove(&id));
        }
    }

    /// Acts on one message. Says so where it is the venue's to answer: its answer goes to [`Self::called`].
    pub fn text(&mut self, id: u64, text: &str, now: Instant, mouth: &mut dyn Mouth) -> Option<Call> {
        if self.clients.get(&id).is_some_and(|client| client.session.is_some()) {
            self.said_to_streams(id, text, now, mouth);
            return None;
        }
        let request = match Request::parse(text, None) {
            Ok(request) => request,
            Err((request_id, error)) => {
                refuse(id, &request_id, &error, now, mouth);
                return None;
            }
        };
        let mut result = Vec::new();
        let done = match &*request.method {
            "public/hello" => self.hello(&mut result),
            "public/test" => self.test(id, &request.params, &mut result),
            "public/set_heartbeat" => self.set_heartbeat(id, &request.params, now, &mut result),
            "public/disable_heartbeat" => self.disable_heartbeat(id, &mut result),
            "public/subscribe" => match self.ask_subscribe(id, &request, now) {
                Ok(pending) => {
                    self.settle(pending, now, mouth);
                    return None;
                }
                Err(error) => Err(error),
            },
            "public/unsubscribe" => self.unsubscribe(id, &request.params, &mut result, mouth),
            "public/unsubscribe_all" => self.unsubscribe_all(id, &mut result, mouth),
            method if method.starts_with("private/") => Err(self.elsewhere(method)),
            method => match self.may_wait(id) {
                Ok(()) => {
                    self.figures.calls += 1;
                    let is_login = method == "public/auth";
                    return Some(Call { id: request.id, is_login });
                }
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => {
                let mut out = Vec::new();
                write_result(&mut out, &request.id, &result, now.wall_us, now.wall_us);
                mouth.reply(id, &out);
            }
            Err(error) => refuse(id, &request.id, &error, now, mouth),
        }
        None
    }

    /// A private method: the venue's own.
    pub fn elsewhere(&self, method: &str) -> RpcError {
        let shown: String = method.chars().take(80).collect();
        let venue = if self.venue.is_empty() { "the venue itself" } else { &self.venue };
        RpcError::new("not_on_this_server", format!("{shown} is answered by {venue}, not by a gateway"))
    }

    fn may_wait(&mut self, id: u64) -> Result<(), RpcError> {
        let Some(client) = self.clients.get_mut(&id) else { return Err(RpcError::named("retry")) };
        if client.waiting >= MOST_WAITING {
            let reason = format!("{MOST_WAITING} requests wait for the venue; wait for their answers");
            return Err(RpcError::new("too_many_requests", reason));
        }
        client.waiting += 1;
        Ok(())
    }

    /// The venue's answer to a call of a client, or why there is none.
    pub fn called(
        &mut self,
        id: u64,
        call: &Call,
        answer: Result<&[u8], &RpcError>,
        now: Instant,
        mouth: &mut dyn Mouth,
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.waiting = client.waiting.saturating_sub(1);
        match answer {
            Ok(body) => {
                client.is_known |= call.is_login && is_login(body);
                mouth.reply(id, body.trim_ascii());
            }
            Err(error) => refuse(id, &call.id, error, now, mouth),
        }
    }

    fn hello(&self, out: &mut Vec<u8>) -> Result<(), RpcError> {
        Json::new(out).object(|j| {
            j.key("version").string(self.version);
        });
        Ok(())
    }

    fn test(&mut self, id: u64, params: &Params<'_>, out: &mut Vec<u8>) -> Result<(), RpcError> {
        if let Some(heartbeat) = self.clients.get_mut(&id).and_then(|client| client.heartbeat.as_mut()) {
            heartbeat.tested();
        }
        if params.text("expected_result")?.as_deref() == Some("exception") {
            return Err(RpcError::new("internal_error", "the exception that was asked for"));
        }
        self.hello(out)
    }

    fn set_heartbeat(&mut self, id: u64, params: &Params<'_>, now: Instant, out: &mut Vec<u8>) -> Result<(), RpcError> {
        self.beat_by(id, Some(Heartbeat::asked(params, now.steady_ns)?));
        Json::new(out).string("ok");
        Ok(())
    }

    fn disable_heartbeat(&mut self, id: u64, out: &mut Vec<u8>) -> Result<(), RpcError> {
        self.beat_by(id, None);
        Json::new(out).string("ok");
        Ok(())
    }

    fn beat_by(&mut self, id: u64, heartbeat: Option<Heartbeat>) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let before = std::mem::replace(&mut client.heartbeat, heartbeat);
        if let Some(before) = before {
            self.beats.remove(&(before.due_ns, id));
        }
        if let Some(heartbeat) = &client.heartbeat {
            self.beats.insert((heartbeat.due_ns, id));
        }
    }

    /// Sends the heartbeats that are due, and closes who has not answered the last.
    pub fn beat(&mut self, now_ns: u64, mouth: &mut dyn Mouth) {
        while let Some((due_ns, id)) = self.beats.first().copied().filter(|(due_ns, _)| *due_ns <= now_ns) {
            self.beats.remove(&(due_ns, id));
            let Some(heartbeat) = self.clients.get_mut(&id).and_then(|client| client.heartbeat.as_mut()) else {
                continue;
            };
            if let Err(why) = heartbeat.beat(now_ns, |text| mouth.notify(id, text)) {
                let mut out = Vec::new();
                write_logout(&mut out, &why);
                mouth.notify(id, &out);
                mouth.close(id, CloseCode::Policy, &why);
                continue;
            }
            self.beats.insert((heartbeat.due_ns, id));
        }
    }

    fn ask_subscribe(&mut self, id: u64, request: &Request<'_>, now: Instant) -> Result<Pending, RpcError> {
        let names = request.params.list("channels")?;
        let names = names.ok_or_else(|| RpcError::invalid("channels", "channels is required"))?;
        self.subscribe(id, request, names, now)
    }

    /// Judges the names, and asks the venue for what is not known here.
    fn subscribe(
        &mut self,
        id: u64,
        request: &Request<'_>,
        names: Vec<String>,
        now: Instant,
    ) -> Result<Pending, RpcError> {
        let from = from_of(&request.params)?;
        let mut wishes = self.wishes(id, request, &names)?;
        let is_known = self.clients.get(&id).is_some_and(|client| client.is_known);
        let (mut accepted, mut malformed, mut seen) = (Vec::new(), None, BTreeSet::new());
        for name in names {
            match self.judge(&name, is_known)? {
                Name::Served if seen.insert(name.clone()) => accepted.push(name),
                Name::Served | Name::Unavailable => {}
                Name::Malformed => malformed = Some(name),
            }
        }
        if let Some(name) = malformed.as_ref().filter(|_| accepted.is_empty()) {
            return Err(unnamed(name));
        }
        let fresh = accepted.iter().filter(|name| !self.clients.get(&id).is_some_and(|client| client.hears(name)));
        let heard = self.clients.get(&id).map_or(0, |client| client.subs.len());
        if heard + fresh.count() > MOST_CHANNELS {
            let reason = format!("a connection hears at most {MOST_CHANNELS} channels; open another");
            return Err(RpcError::param("too_many_requests", "channels", reason));
        }
        wishes.retain(|name, _| accepted.contains(name));
        let pending = self.want(id, accepted, wishes, from, now)?;
        Ok(Pending { id: Some(request.id.clone()), malformed, ..pending })
    }

    /// A subscription to names that can be meant.
    fn want(
        &mut self,
        id: u64,
        accepted: Vec<String>,
        wishes: resuming::Wishes,
        from: Option<(u64, u64)>,
        now: Instant,
    ) -> Result<Pending, RpcError> {
        if self.follower.epoch().is_none() {
            return Err(RpcError::new("retry", "this gateway has not heard from its venue yet"));
        }
        let mut missing = self.unheard(id, &wishes)?;
        let others = accepted.iter().filter(|name| !wishes.contains_key(*name));
        missing.extend(others.filter(|name| !self.is_ready(name, from)).cloned());
        if !missing.is_empty() {
            if self.joins.len() + missing.len() > MOST_JOINS {
                return Err(RpcError::new(
                    "too_many_requests",
                    "many channels are being asked for; try again in a moment",
                ));
            }
            self.may_wait(id)?;
        }
        for channel in accepted.iter().filter_map(|name| self.aliases.get(name)) {
            if let Some(facts) = self.facts.get_mut(channel) {
                facts.wanted_ns = now.steady_ns;
            }
        }
        let us_in = now.wall_us;
        let (id, to, resumptions) = (None, id, BTreeMap::new());
        Ok(Pending {
            to,
            id,
            us_in,
            names: accepted,
            missing,
            from,
            wishes,
            resumptions,
            malformed: None,
            failed: None,
        })
    }

    fn judge(&self, name: &str, is_known: bool) -> Result<Name, RpcError> {
        let Some(channel) = Channel::parse(name) else {
            return Ok(if Channel::is_known_family(name) { Name::Unavailable } else { Name::Malformed });
        };
        if channel.is_private() || matches!(channel, Channel::DropCopy { .. }) {
            return Err(self.elsewhere(name));
        }
        // What the venue does not have it need not be asked for.
        if self.has_directory && channel.instrument().is_some_and(|name| !self.instruments.contains(name)) {
            return Ok(Name::Unavailable);
        }
        if channel.interval() == Interval::Raw && !is_known {
            return Err(RpcError::param("raw_requires_login", "channels", format!("{name} needs a login")));
        }
        Ok(Name::Served)
    }

    fn is_ready(&self, name: &str, from: Option<(u64, u64)>) -> bool {
        let Some(channel) = self.aliases.get(name) else { return false };
        match from {
            Some(from) => {
                self.resume(*channel, from).is_some() || (self.is_past(from) && self.begin(*channel).is_some())
            }
            None => self.begin(*channel).is_some(),
        }
    }

    /// Whether a place cannot be ahead of what is known here.
    fn is_past(&self, (epoch, seq): (u64, u64)) -> bool {
        self.follower.epoch() != Some(epoch) || seq <= self.follower.last()
    }

    /// Answers it if nothing is missing any longer; otherwise it waits.
    fn settle(&mut self, pending: Pending, now: Instant, mouth: &mut dyn Mouth) {
        if pending.missing.is_empty() {
            return self.grant(pending, now, mouth);
        }
        self.last_pending += 1;
        for name in pending.missing.iter().filter(|name| !pending.wishes.contains_key(*name)) {
            self.join(name, Some(self.last_pending));
        }
        self.ask_resume(self.last_pending, &pending);
        self.pendings.insert(self.last_pending, pending);
    }

    fn join(&mut self, name: &str, pending: Option<u64>) {
        if let Some(waiting) = self.joins.get_mut(name) {
            waiting.extend(pending);
            return;
        }
        self.joins.insert(name.to_owned(), pending.into_iter().collect());
        self.figures.joins += 1;
        self.asks.push_back(Ask::Join { name: name.to_owned() });
    }

    /// The answer, then what each channel begins with; messages follow by [`Self::pump`].
    fn grant(&mut self, pending: Pending, now: Instant, mouth: &mut dyn Mouth) {
        let Pending { to, id, us_in, names, from, wishes, mut resumptions, malformed, mut failed, .. } = pending;
        if resumptions.iter().any(|(name, resumption)| !self.follows(name, resumption)) {
            failed = Some("a channel was begun anew meanwhile".to_owned());
        }
        let names: Vec<String> = names.into_iter().filter(|name| self.aliases.contains_key(name)).collect();
        let refusal = match (failed, malformed) {
            (Some(why), _) => Some(RpcError::new("retry", why)),
            (None, Some(name)) if names.is_empty() => Some(unnamed(&name)),
            _ => None,
        };
        let now = Instant { wall_us: now.wall_us.max(us_in), ..now };
        match (id, refusal) {
            (Some(id), Some(error)) => return refuse(to, &id, &error, now, mouth),
            (None, Some(error)) => return mouth.close(to, CloseCode::TryAgainLater, &error.reason),
            (Some(id), None) => {
                let (mut result, mut out) = (Vec::new(), Vec::new());
                write_names(&mut result, &names);
                write_result(&mut out, &id, &result, us_in, now.wall_us);
                mouth.reply(to, &out);
            }
            (None, None) => {}
        }
        for name in names {
            if wishes.contains_key(&name) && self.clients.get(&to).is_some_and(|client| client.hears(&name)) {
                Self::say_heard(to, &name, mouth);
            }
            let resumption = resumptions.remove(&name);
            self.enter(to, name, from, resumption, mouth);
        }
        self.seat(to, mouth);
    }

    /// Lets a client hear a channel from where it wants to, or from a beginning.
    fn enter(
        &mut self,
        to: u64,
        name: String,
        from: Option<(u64, u64)>,
        resumption: Option<resuming::Resumption>,
        mouth: &mut dyn Mouth,
    ) {
        let (Some(channel), Some(epoch)) = (self.aliases.get(&name).copied(), self.follower.epoch()) else { return };
        let Some(client) = self.clients.get(&to).filter(|client| !client.hears(&name)) else { return };
        let has_envelope = client.has_envelope;
        for text in resumption.iter().flat_map(|resumption| &resumption.told) {
            mouth.reply(to, text);
        }
        let told = resumption.map(|resumption| resumption.after);
        let resumed = told.or_else(|| from.and_then(|from| self.resume(channel, from)));
        let begun = if resumed.is_none() { self.begin(channel) } else { None };
        let awaits = resumed.is_none() && begun.is_none();
        let mut after = resumed.unwrap_or(self.follower.last());
        if let Some((seq, first)) = begun {
            after = seq;
            if let Some((of, seen)) = from.filter(|(of, seen)| has_envelope && *of == epoch && *seen < seq) {
                let mut out = Vec::new();
                write_gap(&mut out, &name, of, seen + 1, seq);
                mouth.reply(to, &out);
            }
            let first = first.map(<[u8]>::to_vec);
            if let Some((first, client)) = first.zip(self.clients.get_mut(&to)) {
                say_first(to, has_envelope, epoch, seq, &client.numbered(&first), mouth);
            }
        }
        if awaits {
            // It has gone out of date meanwhile.
            self.lost.insert(name.clone());
        }
        if let Some(facts) = self.facts.get_mut(&channel) {
            facts.subscribers.insert(to);
        }
        if let Some(client) = self.clients.get_mut(&to) {
            client.subs.push(Sub { name, channel, after, awaits, step: Step::In, is_seated: false });
        }
        self.fresh.insert(to);
    }

    /// Where to go on after a place: `None` when something behind it is missing here.
    fn resume(&self, channel: ChannelId, (epoch, seq): (u64, u64)) -> Option<u64> {
        let facts = self.facts.get(&channel).filter(|facts| facts.is_joined)?;
        let is_whole = seq >= facts.since && seq >= self.history.complete_after();
        let has_been = seq <= self.follower.last().max(facts.stands_at);
        (self.follower.epoch() == Some(epoch) && is_whole && has_been).then_some(seq)
    }

    /// What a joiner is told first, and the sequence where that stands; `None` when the venue must be asked.
    fn begin(&self, channel: ChannelId) -> Option<(u64, Option<&[u8]>)> {
        let facts = self.facts.get(&channel).filter(|facts| facts.is_joined)?;
        if facts.conflates
            && let Some(newest) = self.history.newest(channel).filter(|newest| newest.seq > facts.stands_at)
        {
            return Some((newest.seq - 1, None));
        }
        if facts.first.is_empty() {
            return Some((facts.stands_at.max(self.follower.last()), None));
        }
        let is_near = self.history.count(channel, facts.stands_at) <= MOST_REPLAYED;
        (is_near && facts.stands_at >= self.history.complete_after()).then_some((facts.stands_at, Some(&facts.first)))
    }

    /// What is to be asked of the venue now.
    pub fn asks(&mut self, now_ns: u64) -> Option<Ask> {
        if let Some(ask) = self.follower.wish(now_ns) {
            return Some(ask);
        }
        if self.follower.epoch().is_some() && now_ns >= self.keep_ns {
            self.keep_ns = now_ns + KEEP_NS;
            let names = self.wanted(now_ns);
            // Without a channel to keep it is a question all the same: whether the venue is there.
            let first = names.len().min(NAMES_AT_A_TIME);
            let more = names[first..].chunks(NAMES_AT_A_TIME).map(|names| Ask::Keep { names: names.to_vec() });
            self.asks.extend(more);
            self.asks.push_back(Ask::Instruments);
            return Some(Ask::Keep { names: names[..first].to_vec() });
        }
        if !self.lost.is_empty() && now_ns >= self.rejoin_ns && self.follower.epoch().is_some() {
            self.rejoin_ns = now_ns + REJOIN_NS;
            for name in std::mem::take(&mut self.lost) {
                self.join(&name, None);
            }
        }
        self.ask_merged(now_ns).or_else(|| self.asks.pop_front()).or_else(|| self.next_resume())
    }

    /// When [`Self::asks`] or [`Self::beat`] may have something to do.
    pub fn due_ns(&self) -> u64 {
        if !self.asks.is_empty() || self.resuming.has_next() {
            return 0;
        }
        let keep = self.follower.epoch().map(|_| self.keep_ns);
        let rejoin = (!self.lost.is_empty()).then_some(self.rejoin_ns);
        let beat = self.beats.first().map(|(due_ns, _)| *due_ns);
        [self.follower.due_ns(), keep, rejoin, beat, self.merging.due_ns()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The channels that are to stay on the bus. Those that nobody has heard for a while are given up.
    fn wanted(&mut self, now_ns: u64) -> Vec<String> {
        let mut names = Vec::new();
        for (id, facts) in &mut self.facts {
            if !facts.subscribers.is_empty() || !facts.seated.is_empty() {
                facts.wanted_ns = now_ns;
            }
            facts.is_joined &= facts.wanted_ns + UNHEARD_NS > now_ns;
            if facts.is_joined {
                names.push(self.history.name(*id).to_owned());
            }
        }
        names
    }
}

enum Name {
    Served,
    Unavailable,
    Malformed,
}

fn unnamed(name: &str) -> RpcError {
    let shown: String = name.chars().take(80).collect();
    RpcError::invalid("channels", format!("no channel is named {shown:?}"))
}

/// `from` is EPOCH:SEQ.
fn from_of(params: &Params<'_>) -> Result<Option<(u64, u64)>, RpcError> {
    let Some(text) = params.text("from")? else { return Ok(None) };
    let place = text.split_once(':').and_then(|(epoch, seq)| Some((epoch.parse().ok()?, seq.parse().ok()?)));
    place.map(Some).ok_or_else(|| RpcError::invalid("from", "from is EPOCH:SEQ, as an envelope has them"))
}

fn write_names(out: &mut Vec<u8>, names: &[String]) {
    Json::new(out).array(|j| {
        for name in names {
            j.string(name);
        }
    });
}

fn refuse(to: u64, id: &RequestId, error: &RpcError, now: Instant, mouth: &mut dyn Mouth) {
    let mut out = Vec::new();
    write_error(&mut out, id, error, now.wall_us, now.wall_us);
    mouth.reply(to, &out);
}

fn say_first(to: u64, has_envelope: bool, epoch: u64, seq: u64, first: &[u8], mouth: &mut dyn Mouth) {
    if has_envelope {
        let mut out = Vec::with_capacity(first.len() + 80);
        wrap_first(&mut out, epoch, seq, first);
        mouth.reply(to, &out);
    } else {
        mouth.reply(to, first);
    }
}

#[cfg(test)]
mod tests;
