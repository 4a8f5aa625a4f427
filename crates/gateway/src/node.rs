//! A gateway without sockets: requests of clients in, replies and messages out, questions to the
//! venue.
//!
//! Does        Serves subscriptions from its own history, asks the venue for snapshots, forwards
//!             every other public method to the venue, and refuses private ones with the venue's
//!             address.
//! Holds       1. A snapshot and the messages after it join without a gap or a duplicate.
//!             2. Messages of several channels reach a client in the venue's order.
//!             3. A client that misses messages gets close code 1013, or a notice for clients with
//!                envelopes.
//! Leaves out  Sockets, clocks and waiting. [`Node::next_question`] returns what to ask the venue,
//!             [`Node::answered`] takes the answers.
//! Start at    [`Node::text`] and [`Node::read`]; `messages` has what happens when the venue or the
//!             bus fails.

use pitwire_deribit::codec::{
    Heartbeat, Json, Params, Request, RequestId, RpcError, is_login, write_error, write_result,
};
use pitwire_url_streams::{Opened, Refused};
use pitwire_websocket::CloseCode;

use crate::channels::ChannelTable;
use crate::client::Client;
use crate::connections::ConnectionTable;
use crate::directory::InstrumentDirectory;
use crate::follower::Follower;
use crate::merge_queue::MergeQueue;
use crate::pending::PendingTable;
use crate::questions::QuestionQueue;
use crate::sink::{ClientSink, GatewayTime, NodeFigures, VenueCall};
use crate::upstream::VenueQuestion;

mod attach;
mod lagging;
mod messages;
mod resuming;
mod streams;
mod subscribe;

pub struct Node {
    /// What `public/hello` answers.
    version: &'static str,
    /// HTTP address of the venue, for clients that must connect there.
    pub venue: String,
    /// Start of the venue that announced this address.
    pub venue_epoch: u64,
    pub is_venue_up: bool,
    pub follower: Follower,
    channels: ChannelTable,
    connections: ConnectionTable,
    pending: PendingTable,
    questions: QuestionQueue,
    merging: MergeQueue,
    directory: InstrumentDirectory,
    /// Calls forwarded to the venue.
    calls: u64,
    /// Times that a client fell behind a channel.
    overrun: u64,
}

impl Node {
    /// Creates a node whose history holds at most `history_bytes` bytes of batches.
    pub fn new(version: &'static str, history_bytes: usize) -> Self {
        Node {
            version,
            venue: String::new(),
            venue_epoch: 0,
            is_venue_up: false,
            follower: Follower::default(),
            channels: ChannelTable::new(history_bytes),
            connections: ConnectionTable::default(),
            pending: PendingTable::default(),
            questions: QuestionQueue::default(),
            merging: MergeQueue::default(),
            directory: InstrumentDirectory::default(),
            calls: 0,
            overrun: 0,
        }
    }

    pub fn figures(&self) -> NodeFigures {
        NodeFigures {
            clients: self.connections.clients.len(),
            channels: self.channels.joined_count(),
            joins: self.questions.joined_total,
            calls: self.calls,
            overrun: self.overrun,
            history_bytes: self.channels.history.held_bytes(),
        }
    }

    /// Whether the gateway knows the venue's instruments and misses no message.
    pub fn can_serve(&self) -> bool {
        self.directory.is_known && self.follower.is_up_to_date()
    }

    /// Whether a position message of this start may change the venue's address. One of an earlier
    /// start is a recording: the server that now has that address would receive the clients'
    /// requests and credentials.
    pub fn may_follow(&self, epoch: u64) -> bool {
        epoch >= self.follower.epoch().unwrap_or(self.venue_epoch)
    }

    /// Tells every connection why the gateway stops.
    pub fn send_logout(&self, why: &str, sink: &mut dyn ClientSink) {
        self.connections.send_logout(why, sink);
    }

    /// Returns why a handshake with this target is refused, if it is.
    pub fn refusal(&self, target: &str) -> Option<Refused> {
        self.directory.refusal(target)
    }

    /// Parses the subscriptions in a URL. Returns `None` if it names no stream.
    pub fn read_url(&self, path: &str, query: &str) -> Option<Result<Opened, Refused>> {
        self.directory.read_url(path, query)
    }

    pub fn connected(&mut self, id: u64) {
        self.connections.clients.insert(id, Client::default());
    }

    /// Adds a connection whose socket a delivery thread owns: it gets messages by
    /// [`ClientSink::publish`].
    pub fn connected_delegated(&mut self, id: u64) {
        self.connections.clients.insert(id, Client { is_delegated: true, ..Client::default() });
    }

    /// Handles the target of a handshake: path and query. `envelope`, `channels` and `from` are the
    /// gateway's own parameters.
    pub fn opened(&mut self, id: u64, target: &str, now: GatewayTime, sink: &mut dyn ClientSink) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if pitwire_url_streams::is_stream_path(path) {
            return self.open_streams(id, path, query, now, sink);
        }
        let Ok(request) = Request::from_query("public/subscribe", query) else {
            return sink.close(id, CloseCode::Policy, "bad percent-encoding in the query");
        };
        let has_envelope = query.split('&').any(|pair| matches!(pair, "envelope" | "envelope=true" | "envelope=1"));
        let Some(client) = self.connections.clients.get_mut(&id) else { return };
        client.has_envelope = has_envelope;
        if !request.params.has("channels") {
            return;
        }
        let names = request.params.list("channels").map(Option::unwrap_or_default);
        // In a query one text may hold several names, separated by commas.
        let names = names.map(|names| names.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect());
        match names.and_then(|names| self.subscribe(id, &request, names, now)) {
            Ok(mut pending) => {
                pending.id = None;
                self.grant_or_wait(pending, now, sink);
            }
            Err(error) => sink.close(id, CloseCode::Policy, &error.reason),
        }
    }

    pub fn disconnected(&mut self, id: u64) {
        let Some(client) = self.connections.remove(id) else { return };
        for sub in &client.subs {
            self.leave(id, sub.channel);
        }
        self.pending.remove_connection(id);
    }

    /// Handles one message. Returns a call if the venue has to answer it: its answer goes to
    /// [`Self::call_answered`].
    pub fn text(&mut self, id: u64, text: &str, now: GatewayTime, sink: &mut dyn ClientSink) -> Option<VenueCall> {
        if self.connections.clients.get(&id).is_some_and(|client| client.session.is_some()) {
            self.stream_text(id, text, now, sink);
            return None;
        }
        let request = match Request::parse(text, None) {
            Ok(request) => request,
            Err((request_id, error)) => {
                reply_error(id, &request_id, &error, now, sink);
                return None;
            }
        };
        let mut result = Vec::new();
        let done = match &*request.method {
            "public/hello" => self.hello(&mut result),
            "public/test" => self.test(id, &request.params, &mut result),
            "public/set_heartbeat" => Heartbeat::asked(&request.params, now.steady_ns).map(|heartbeat| {
                self.connections.set_heartbeat(id, Some(heartbeat));
                Json::new(&mut result).string("ok");
            }),
            "public/disable_heartbeat" => {
                self.connections.set_heartbeat(id, None);
                Json::new(&mut result).string("ok");
                Ok(())
            }
            "public/subscribe" => match self.subscribe_request(id, &request, now) {
                Ok(pending) => {
                    self.grant_or_wait(pending, now, sink);
                    return None;
                }
                Err(error) => Err(error),
            },
            "public/unsubscribe" => self.unsubscribe(id, &request.params, &mut result, sink),
            "public/unsubscribe_all" => self.unsubscribe_all(id, &mut result, sink),
            method if method.starts_with("private/") => Err(self.not_here(method)),
            method => match self.connections.add_waiting(id) {
                Ok(()) => {
                    self.calls += 1;
                    let is_login = method == "public/auth";
                    return Some(VenueCall { id: request.id, is_login });
                }
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => {
                let mut out = Vec::new();
                write_result(&mut out, &request.id, &result, now.wall_us, now.wall_us);
                sink.reply(id, &out);
            }
            Err(error) => reply_error(id, &request.id, &error, now, sink),
        }
        None
    }

    /// Returns the error for a private method or channel: only the venue serves them.
    pub fn not_here(&self, method: &str) -> RpcError {
        let shown: String = method.chars().take(80).collect();
        let venue = if self.venue.is_empty() { "the venue itself" } else { &self.venue };
        RpcError::new("not_on_this_server", format!("{shown} is answered by {venue}, not by a gateway"))
    }

    /// Handles the venue's answer to a client's call, or the error if there is none.
    pub fn call_answered(
        &mut self,
        id: u64,
        call: &VenueCall,
        answer: Result<&[u8], &RpcError>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        let Some(client) = self.connections.clients.get_mut(&id) else { return };
        client.waiting = client.waiting.saturating_sub(1);
        match answer {
            Ok(body) => {
                client.is_logged_in |= call.is_login && is_login(body);
                sink.reply(id, body.trim_ascii());
            }
            Err(error) => reply_error(id, &call.id, error, now, sink),
        }
    }

    fn hello(&self, out: &mut Vec<u8>) -> Result<(), RpcError> {
        Json::new(out).object(|j| {
            j.key("version").string(self.version);
        });
        Ok(())
    }

    fn test(&mut self, id: u64, params: &Params<'_>, out: &mut Vec<u8>) -> Result<(), RpcError> {
        let client = self.connections.clients.get_mut(&id);
        if let Some(heartbeat) = client.and_then(|client| client.heartbeat.as_mut()) {
            heartbeat.tested();
        }
        if params.text("expected_result")?.as_deref() == Some("exception") {
            return Err(RpcError::new("internal_error", "the exception that was asked for"));
        }
        self.hello(out)
    }

    /// Sends the heartbeats that are due. Closes connections that did not answer the last one.
    pub fn beat(&mut self, now_ns: u64, sink: &mut dyn ClientSink) {
        self.connections.beat(now_ns, sink);
    }

    /// Returns the next question to the venue, if one is due.
    pub fn next_question(&mut self, now_ns: u64) -> Option<VenueQuestion> {
        if let Some(question) = self.follower.next_question(now_ns) {
            return Some(question);
        }
        if self.follower.epoch().is_some() {
            if self.questions.is_keep_due(now_ns) {
                let names = self.channels.needed(now_ns);
                return Some(self.questions.keep(&names, now_ns));
            }
            self.questions.join_lost(now_ns);
        }
        let merge = self.next_merge(now_ns);
        let question = merge.or_else(|| self.questions.next());
        question.or_else(|| self.questions.next_resume(|number| self.pending.get(number).is_some()))
    }

    /// Returns the time at which [`Self::next_question`] or [`Self::beat`] may have something to
    /// do, in nanoseconds.
    pub fn due_ns(&self) -> u64 {
        if self.questions.has_next() {
            return 0;
        }
        let [keep, rejoin] = self.questions.due_ns();
        let keep = keep.filter(|_| self.follower.epoch().is_some());
        let times = [self.follower.due_ns(), keep, rejoin, self.connections.next_beat_ns(), self.merging.due_ns()];
        times.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}

fn reply_error(to: u64, id: &RequestId, error: &RpcError, now: GatewayTime, sink: &mut dyn ClientSink) {
    let mut out = Vec::new();
    write_error(&mut out, id, error, now.wall_us, now.wall_us);
    sink.reply(to, &out);
}

#[cfg(test)]
mod tests;
