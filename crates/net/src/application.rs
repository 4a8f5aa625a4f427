//! What the loop serves, as the loop sees it.
//!
//! Holds       whatever the application says it says through [`Notices`]; none of it leaves before its `commit`.
//! Start at    [`Application`].

use std::io;
use std::net::IpAddr;

use pitwire_websocket::CloseCode;

use crate::connection_id::ConnectionId;
use crate::handoff::Taken;
use crate::http::{HttpRequest, HttpResponse};
use crate::notices::Notices;

/// What the loop serves.
pub trait Application {
    /// What clients are told at the end: of whom it is that stops.
    const STOPPING: &'static str;

    /// Answers one HTTP request, now or ([`HttpResponse::later`]) by [`Notices::respond`] in this turn or a later one.
    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse;
    /// Whether a path is a WebSocket entrance.
    fn accepts_websocket(&self, path: &str) -> bool;
    /// Why a handshake at such an entrance is not taken, where it is not.
    fn refuses_handshake(&self, _: &HttpRequest<'_>) -> Option<HttpResponse> {
        None
    }
    /// `from` is its peer's address, if that is known.
    fn connected(&mut self, id: ConnectionId, from: Option<IpAddr>);
    /// What the handshake of a connection asked for, path and query; right after `connected`.
    fn opened(&mut self, _: ConnectionId, _target: &str, _: &mut Notices) {}
    /// Whether the application wants the socket of a WebSocket that comes for this for itself.
    fn takes_over(&self, _: &HttpRequest<'_>) -> bool {
        false
    }
    /// Takes a socket whose handshake is found good and not yet answered; from here on it is no business of the loop's.
    /// Whatever is to leave by it may not before the commit. Refused, it is left there, and answered like any request.
    fn take_over(&mut self, _: &HttpRequest<'_>, _: &mut Option<Taken>) -> Result<(), HttpResponse> {
        Err(HttpResponse::text(404, "not found"))
    }
    /// Whether a WebSocket that was [given away](Notices::give_away) may go now that all that was said to it is written, and
    /// whatever has been committed was [pumped](Self::pump) to it. One that may not stays.
    fn may_leave(&mut self, _: ConnectionId) -> bool {
        false
    }
    /// Takes its socket. Handshake and frames are behind it; what it is sent from here on is the application's business,
    /// until [`Notices::left`]. Its name stays.
    fn take_open(&mut self, _: ConnectionId, _: Taken) {}
    /// How many sockets taken over are still open: they count among the connections that there may be.
    fn still_taken(&self) -> usize {
        0
    }
    /// Acts on one text message. Answers go to `notices` like everything else.
    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices);
    /// Whether a request is answered also where its address has as many connections as it may: how the server is. At once,
    /// never [later](HttpResponse::later).
    fn answers_anybody(&self, _: &HttpRequest<'_>) -> bool {
        false
    }
    /// The body for one that may not come in, or not for this.
    fn refusal(&mut self, why: Refusal) -> HttpResponse {
        HttpResponse::text(why.status(), why.reason())
    }
    /// Answers have been handed to a socket. Called often: must be cheap.
    fn answered(&mut self, _: &Residence) {}
    /// Once for every `connected`, whoever has the socket; of one given away the application finds it out itself.
    fn disconnected(&mut self, id: ConnectionId, notices: &mut Notices);
    /// When [`Self::tick`] wants to be called next, in monotonic nanoseconds. Not asked once `stopping` was called.
    fn next_due_ns(&self) -> Option<u64>;
    fn tick(&mut self, now_ns: u64, notices: &mut Notices);
    /// Asked before `commit`: whether subscribers may read what is new without waiting for it. Only for who chose to have
    /// public data before it is durable; whoever this turn has a word for waits for the commit with it all the same.
    fn release_early(&mut self) -> bool {
        false
    }
    /// Makes everything done so far durable. Says whether subscribers have something new to read.
    fn commit(&mut self) -> io::Result<bool>;
    /// Those for whom [`Self::pump`] may have something: the others are not asked.
    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId));
    /// Copies ready frames for a connection to `out`, until it holds about `enough` bytes.
    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), Closing>;
    /// The process was asked to end: nothing new is taken, what is under way is finished. The loop closes every connection
    /// after whatever is said here, and gives [`Self::STOPPING`] as the reason.
    fn stopping(&mut self, notices: &mut Notices);
}

/// Why and how a WebSocket connection ends.
#[derive(Clone, Debug)]
pub struct Closing {
    pub code: CloseCode,
    pub reason: String,
}

/// Why a request is not served, whatever it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    UnknownHost,
    ForeignOrigin,
    TooManyConnections,
}

impl Refusal {
    pub fn status(self) -> u16 {
        match self {
            Refusal::UnknownHost => 421,
            Refusal::ForeignOrigin => 403,
            Refusal::TooManyConnections => 429,
        }
    }

    pub fn reason(self) -> &'static str {
        match self {
            Refusal::UnknownHost => "this venue does not answer to that Host; use its address or localhost",
            Refusal::ForeignOrigin => "pages from elsewhere may only call public methods",
            Refusal::TooManyConnections => "too many connections",
        }
    }
}

/// How long requests that are answered together have been in the process: from the return of the read that completed
/// them to the call that sends the answers.
#[derive(Clone, Copy, Debug)]
pub struct Residence {
    pub requests: u32,
    /// Until the turn had acted on all it would act on, others' requests included.
    pub acting_ns: u64,
    pub committing_ns: u64,
    /// Until the send call, others' sends included.
    pub sending_ns: u64,
}

impl Residence {
    pub fn whole_ns(&self) -> u64 {
        self.acting_ns + self.committing_ns + self.sending_ns
    }
}
