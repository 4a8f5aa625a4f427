//! A gateway without sockets: requests of clients in, replies and messages out, questions to the
//! venue.
//!
//! Does        Handles subscription requests and heartbeats, forwards every other public method to
//!             the venue, and refuses private ones with the venue's address.
//! Leaves out  Sockets, clocks and waiting. [`Node::next_question`] returns what to ask the venue,
//!             [`Node::answered`] takes the answers. Channels and their messages: `subscriptions`.
//! Start at    [`Node::text`].

use pitwire_deribit::codec::{Heartbeat, Json, Params, Request, RpcError, is_login, write_result};
use pitwire_url_streams::{StreamConnection, StreamRefusal};
use pitwire_websocket::CloseCode;
use pitwire_websocket::head::split_target;

use crate::client::{Client, reply_error};
use crate::directory::InstrumentDirectory;
use crate::protocol::Reply;
use crate::sink::{ClientSink, GatewayTime, NodeFigures, VenueCall};
use crate::subscriptions::Subscriptions;
use crate::upstream::VenueQuestion;

mod streams;
mod subscribe;

pub struct Node {
    /// The version in the answer to `public/hello`.
    version: &'static str,
    /// HTTP address of the venue, for clients that must connect there.
    pub venue: String,
    /// Start of the venue that announced this address.
    pub venue_epoch: u64,
    pub is_venue_up: bool,
    pub subscriptions: Subscriptions,
    directory: InstrumentDirectory,
    /// Calls forwarded to the venue.
    calls: u64,
}

impl Node {
    /// Creates a node whose history holds at most `history_bytes` bytes of batches.
    pub fn new(version: &'static str, history_bytes: usize) -> Self {
        Node {
            version,
            venue: String::new(),
            venue_epoch: 0,
            is_venue_up: false,
            subscriptions: Subscriptions::new(history_bytes),
            directory: InstrumentDirectory::default(),
            calls: 0,
        }
    }

    pub fn figures(&self) -> NodeFigures {
        NodeFigures { calls: self.calls, ..self.subscriptions.figures() }
    }

    /// Whether the gateway knows the venue's instruments and misses no message.
    pub fn can_serve(&self) -> bool {
        self.directory.is_known && self.subscriptions.follower.is_up_to_date()
    }

    /// Whether a position message of this start may change the venue's address. One of an earlier
    /// start is a recording: the server that now has that address would receive the clients'
    /// requests and credentials.
    pub fn may_follow(&self, epoch: u64) -> bool {
        epoch >= self.subscriptions.follower.epoch().unwrap_or(self.venue_epoch)
    }

    /// Tells every connection why the gateway stops.
    pub fn send_logout(&self, why: &str, sink: &mut dyn ClientSink) {
        self.subscriptions.connections.send_logout(why, sink);
    }

    /// Returns why a handshake with this target is refused, if it is.
    pub fn refusal(&self, target: &str) -> Option<StreamRefusal> {
        self.directory.refusal(target)
    }

    /// Parses the subscriptions in a URL. Returns `None` if it names no stream.
    pub fn read_url(&self, path: &str, query: &str) -> Option<Result<StreamConnection, StreamRefusal>> {
        self.directory.read_url(path, query)
    }

    pub fn connected(&mut self, id: u64) {
        self.subscriptions.connections.clients.insert(id, Client::default());
    }

    /// Adds a connection whose socket a delivery thread owns: it gets messages by
    /// [`ClientSink::publish`].
    pub fn connected_delegated(&mut self, id: u64) {
        self.subscriptions.connections.clients.insert(id, Client { is_delegated: true, ..Client::default() });
    }

    /// Handles the target of a handshake: path and query. `envelope`, `channels` and `from` are the
    /// gateway's own parameters.
    pub fn opened(&mut self, id: u64, target: &str, now: GatewayTime, sink: &mut dyn ClientSink) {
        let (path, query) = split_target(target);
        if pitwire_url_streams::is_stream_path(path) {
            return self.open_streams(id, path, query, now, sink);
        }
        let Ok(request) = Request::from_query("public/subscribe", query) else {
            return sink.close(id, CloseCode::Policy, "bad percent-encoding in the query");
        };
        let has_envelope = query.split('&').any(|pair| matches!(pair, "envelope" | "envelope=true" | "envelope=1"));
        let Some(client) = self.subscriptions.connections.clients.get_mut(&id) else { return };
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
                self.subscriptions.grant_or_wait(pending, now, sink);
            }
            Err(error) => sink.close(id, CloseCode::Policy, &error.reason),
        }
    }

    pub fn disconnected(&mut self, id: u64) {
        self.subscriptions.disconnected(id);
    }

    /// Handles one message. Returns a call if the venue has to answer it: its answer goes to
    /// [`Self::call_answered`].
    pub fn text(&mut self, id: u64, text: &str, now: GatewayTime, sink: &mut dyn ClientSink) -> Option<VenueCall> {
        if self.subscriptions.connections.clients.get(&id).is_some_and(|client| client.session.is_some()) {
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
            "public/set_heartbeat" => Heartbeat::from_params(&request.params, now.steady_ns).map(|heartbeat| {
                self.subscriptions.connections.set_heartbeat(id, Some(heartbeat));
                Json::new(&mut result).string("ok");
            }),
            "public/disable_heartbeat" => {
                self.subscriptions.connections.set_heartbeat(id, None);
                Json::new(&mut result).string("ok");
                Ok(())
            }
            "public/subscribe" => match self.subscribe_request(id, &request, now) {
                Ok(pending) => {
                    self.subscriptions.grant_or_wait(pending, now, sink);
                    return None;
                }
                Err(error) => Err(error),
            },
            "public/unsubscribe" => self.subscriptions.unsubscribe(id, &request.params, &mut result, sink),
            "public/unsubscribe_all" => self.subscriptions.unsubscribe_all(id, &mut result, sink),
            method if method.starts_with("private/") => Err(self.not_here(method)),
            method => match self.subscriptions.connections.add_waiting(id) {
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
        let Some(client) = self.subscriptions.connections.clients.get_mut(&id) else { return };
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
        let client = self.subscriptions.connections.clients.get_mut(&id);
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
        self.subscriptions.connections.beat(now_ns, sink);
    }

    /// Handles the venue's answer to a question, or the reason why there is none.
    pub fn answered(
        &mut self,
        question: &VenueQuestion,
        answer: Result<Reply, String>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        self.is_venue_up = answer.is_ok();
        if let (VenueQuestion::Instruments, Ok(reply)) = (question, &answer) {
            self.directory.set(&reply.names);
        }
        self.subscriptions.answered(question, answer, now, sink);
    }

    /// Returns the next question to the venue, if one is due.
    pub fn next_question(&mut self, now_ns: u64) -> Option<VenueQuestion> {
        self.subscriptions.next_question(now_ns)
    }

    /// Returns the time at which [`Self::next_question`] or [`Self::beat`] may have something to
    /// do, in nanoseconds.
    pub fn due_ns(&self) -> u64 {
        self.subscriptions.due_ns()
    }

    /// Whether a delivery thread can serve a connection with this target: all its messages are the
    /// same as for other connections, and begin now.
    pub fn suits_delivery_thread(path: &str, query: &str) -> bool {
        let is_ours = matches!(path, "/ws/api/v2" | "/ws/api/v2/") || pitwire_url_streams::is_stream_path(path);
        let is_plain = !query.split('&').any(|pair| pair.starts_with("envelope") || pair.starts_with("from="));
        let has_own_numbers = || {
            let wish = pitwire_url_streams::gemini::read_target(path, query);
            wish.is_some_and(|wish| !wish.entries.by_stream)
        };
        is_ours && is_plain && !has_own_numbers()
    }
}

#[cfg(test)]
mod tests;
