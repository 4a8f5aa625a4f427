//! The interface between the event loop and its application.
//!
//! Holds       everything that the application sends goes through [`Notices`], and none of it
//!             leaves before the application's `commit`.
//! Start at    [`Application`].

use std::io;
use std::net::IpAddr;

use pitwire_websocket::CloseCode;

use crate::connection_id::ConnectionId;
use crate::handoff::Handoff;
use crate::http::{HttpRequest, HttpResponse};
use crate::notices::Notices;

/// The application of a server. The event loop calls all methods on its own thread.
pub trait Application {
    /// Close reason sent to clients at shutdown.
    const STOPPING: &'static str;

    /// Answers an HTTP request. To answer by [`Notices::respond`] in this turn or a later one,
    /// returns [`HttpResponse::later`].
    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse;
    /// Says whether WebSocket handshakes for this path are accepted.
    fn accepts_websocket(&self, path: &str) -> bool;
    /// Returns a response if the handshake is refused although its path is accepted.
    fn refuses_handshake(&self, _: &HttpRequest<'_>) -> Option<HttpResponse> {
        None
    }
    /// Called when a WebSocket was opened. `from` is the address of the peer, if the connection
    /// counts against the limit of its address.
    fn connected(&mut self, _: ConnectionId, _from: Option<IpAddr>) {}
    /// Called right after `connected` with the target of the handshake: path and query.
    fn opened(&mut self, _: ConnectionId, _target: &str, _: &mut Notices) {}
    /// Says whether the application takes the socket of this handshake to serve it elsewhere.
    fn takes_over(&self, _: &HttpRequest<'_>) -> bool {
        false
    }
    /// Takes a socket whose handshake is valid and not yet answered. Nothing may be sent over it
    /// before the next commit.
    ///
    /// # Errors
    /// Returns the response to a handshake that is refused. The socket then stays in the option.
    fn take_over(&mut self, _: &HttpRequest<'_>, _: &mut Option<Handoff>) -> Result<(), HttpResponse> {
        Err(HttpResponse::text(404, "not found"))
    }
    /// Says whether a connection that was [handed off](Notices::hand_off) may leave now, after
    /// everything addressed to it was written and everything committed was
    /// [pumped](Self::pump). If not, it stays.
    fn may_leave(&mut self, _: ConnectionId) -> bool {
        false
    }
    /// Takes the socket of an open WebSocket. The id of the connection stays valid until
    /// [`Notices::closed_elsewhere`].
    fn take_open(&mut self, _: ConnectionId, _: Handoff) {}
    /// Returns the number of open sockets that were taken over. They count as connections.
    fn handed_off(&self) -> usize {
        0
    }
    /// Acts on one text message. Answers go to `notices`.
    fn text(&mut self, _: ConnectionId, _text: &str, _: &mut Notices) {}

    /// Acts on one binary message. By default the connection is closed.
    fn binary(&mut self, id: ConnectionId, _: &[u8], notices: &mut Notices) {
        notices.close(id, CloseCode::Unsupported, "send JSON as text frames");
    }
    /// Called when the byte-stream listener number `listener` has accepted a connection, see
    /// [`Server::with_streams`](crate::Server::with_streams).
    fn stream_opened(&mut self, _: ConnectionId, _listener: usize, _from: IpAddr, _: &mut Notices) {}
    /// Acts on the message at the front of the bytes that a stream has sent. Returns its length, or
    /// `None` if it is not complete.
    fn stream_message(&mut self, _: ConnectionId, bytes: &[u8], _: &mut Notices) -> Option<usize> {
        Some(bytes.len())
    }
    /// Says whether this request is answered even if its address has too many connections, as a
    /// request for the state of the server is. It must be answered at once, not
    /// [later](HttpResponse::later).
    fn answers_anybody(&self, _: &HttpRequest<'_>) -> bool {
        false
    }
    /// Returns the response to a request that is refused.
    fn refusal(&mut self, refusal: Refusal) -> HttpResponse {
        HttpResponse::text(refusal.status(), refusal.reason())
    }
    /// Called when answers were passed to a socket. Called often, so it must be cheap.
    fn answered(&mut self, _: &ServerLatency) {}
    /// Called when the outbox of a connection has filled up, and with `has_room` when less than 64
    /// KiB wait in it again or the connection ends. Optional messages should wait for room.
    fn outbox_changed(&mut self, _: ConnectionId, _has_room: bool) {}
    /// Called once when a connection that was `connected` or `stream_opened` has ended, except for
    /// connections that were handed off: the application itself sees their end.
    fn disconnected(&mut self, _: ConnectionId, _: &mut Notices) {}
    /// Returns when [`Self::tick`] has to be called next, in monotonic nanoseconds. Not called
    /// after `stopping`.
    fn next_due_ns(&self) -> Option<u64> {
        None
    }
    /// Does the timed work. Called at the start of each turn.
    fn tick(&mut self, _now_ns: u64, _: &mut Notices) {}
    /// Says, before `commit`, whether subscribers may read new public data without waiting for it.
    /// Connections that get an answer or a notice in this turn still wait for the commit.
    fn release_early(&mut self) -> bool {
        false
    }
    /// Makes everything up to now durable. Returns whether subscribers have something new to read.
    /// The default suits an application that neither stores nor publishes anything.
    ///
    /// # Errors
    /// Fails if the commit has failed. The loop then ends without sending anything.
    fn commit(&mut self) -> io::Result<bool> {
        Ok(false)
    }
    /// Visits the connections for which [`Self::pump`] may have something.
    fn for_each_subscriber(&self, _visit: impl FnMut(ConnectionId)) {}
    /// Adds ready frames for a connection to `out`, until it holds about `enough` bytes. `out` may
    /// begin with answers.
    ///
    /// # Errors
    /// Returns how to close a connection that has fallen behind.
    fn pump(&mut self, _: ConnectionId, _out: &mut Vec<u8>, _enough: usize) -> Result<(), CloseReason> {
        Ok(())
    }
    /// Called when the process has to end. The application finishes its work and accepts nothing
    /// new. The loop then closes every connection with [`Self::STOPPING`] as the reason.
    fn stopping(&mut self, _: &mut Notices) {}
}

/// Why and how a WebSocket connection ends.
#[derive(Clone, Debug)]
pub struct CloseReason {
    /// The code of the close frame.
    pub code: CloseCode,
    /// The reason in the close frame.
    pub reason: String,
}

/// Why a request is refused before its content is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The `Host` is not a name of this server.
    UnknownHost,
    /// A browser asks on behalf of a page of another origin.
    ForeignOrigin,
    /// The server or the address of the peer has too many connections.
    TooManyConnections,
}

impl Refusal {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Refusal::UnknownHost => 421,
            Refusal::ForeignOrigin => 403,
            Refusal::TooManyConnections => 429,
        }
    }

    /// Returns the text of the response.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::UnknownHost => "this venue does not answer to that Host; use its address or localhost",
            Refusal::ForeignOrigin => "pages of other origins may only call public methods",
            Refusal::TooManyConnections => "too many connections",
        }
    }
}

/// Server latency of requests that are answered together: from the return of the read that
/// completed them to the call that sends the answers.
#[derive(Clone, Copy, Debug)]
pub struct ServerLatency {
    pub requests: u32,
    /// From the read until the turn had handled its requests, those of other connections included.
    pub acting_ns: u64,
    /// From then until the commit had returned.
    pub committing_ns: u64,
    /// From then until the send call, sends to other connections included.
    pub sending_ns: u64,
}

impl ServerLatency {
    /// Returns the sum of the parts.
    pub fn whole_ns(&self) -> u64 {
        self.acting_ns + self.committing_ns + self.sending_ns
    }
}
