//! What the loop serves, as the loop sees it.
//!
//! Holds       whatever the application says it says through [`Notices`]; none of it leaves before its `commit`.
//! Start at    [`Application`].

use std::io;

use pitwire_websocket::CloseCode;

use crate::http::{HttpRequest, HttpResponse};
use crate::notices::Notices;

/// Names one connection for as long as it lives; a later one never gets the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What the loop serves.
pub trait Application {
    /// Answers one HTTP request.
    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse;
    /// Whether a path is a WebSocket entrance.
    fn accepts_websocket(&self, path: &str) -> bool;
    fn connected(&mut self, id: ConnectionId);
    /// Acts on one text message. Answers go to `notices` like everything else.
    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices);
    /// Once for every `connected`.
    fn disconnected(&mut self, id: ConnectionId, notices: &mut Notices);
    /// When [`Self::tick`] wants to be called next, in monotonic nanoseconds. Not asked once `stopping` was called.
    fn next_due_ns(&self) -> Option<u64>;
    fn tick(&mut self, now_ns: u64, notices: &mut Notices);
    /// Makes everything done so far durable. Says whether subscribers have something new to read.
    fn commit(&mut self) -> io::Result<bool>;
    /// Copies ready frames for a connection to `out`, until it holds about `enough` bytes.
    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), Closing>;
    /// The process was asked to end: nothing new is taken, what is under way is finished.
    fn stopping(&mut self);
}

/// Why and how a WebSocket connection ends.
#[derive(Clone, Debug)]
pub struct Closing {
    pub code: CloseCode,
    pub reason: String,
}
