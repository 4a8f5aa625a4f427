//! One connection's memory at a gateway: what it hears, from where on, and how it is told.

use std::borrow::Cow;

use pitwire_deribit::codec::{Heartbeat, Json};
use pitwire_url_streams::Session;
use pitwire_url_streams::gemini::renumber;

use crate::history::{ChannelId, Found};

/// A channel that a connection hears.
#[derive(Debug)]
pub(crate) struct Sub {
    /// As the client wrote it.
    pub name: String,
    pub channel: ChannelId,
    /// It has been told everything up to here.
    pub after: u64,
    /// It must be told a beginning before anything else.
    pub awaits: bool,
    pub step: Step,
    /// It is told by its hall.
    pub is_seated: bool,
}

impl Sub {
    /// Whether it can be told the channel's next message.
    pub fn is_read_to(&self) -> bool {
        !(self.awaits || self.is_seated || matches!(self.step, Step::Asked(_)))
    }

    /// Whether the channel's next message leads on from what it holds.
    pub fn is_in_step(&self) -> bool {
        !self.awaits && self.step == Step::In
    }
}

/// How a reader of a book that can be told in one change stands to the channel's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    #[default]
    In,
    /// It has fallen behind, and the venue is asked what leads on from this `change_id`, which it holds.
    Asked(u64),
    /// So it was; nothing had changed in the end. What it holds has a number that no message leads on from.
    Out(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Its socket is a hall's.
    pub is_in_hall: bool,
    /// Messages come with their epoch and sequence around them.
    pub has_envelope: bool,
    /// The venue has taken its credentials.
    pub is_known: bool,
    pub subs: Vec<Sub>,
    /// Of one that came for streams by URL.
    pub session: Option<Session>,
    /// The number of its next message, where each socket numbers for itself.
    pub next_number: Option<u64>,
    /// Requests that wait for the venue.
    pub waiting: usize,
    pub heartbeat: Option<Heartbeat>,
}

impl Client {
    /// A message as this connection gets it.
    pub fn numbered<'a>(&mut self, payload: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(number) = &mut self.next_number else { return Cow::Borrowed(payload) };
        let mut out = Vec::with_capacity(payload.len() + 20);
        renumber(payload, *number, &mut out);
        *number += 1;
        Cow::Owned(out)
    }

    pub fn hears(&self, name: &str) -> bool {
        self.subs.iter().any(|sub| sub.name == name)
    }
}

/// The `change_id` of the book that a message changes; zero where there is none.
pub(crate) fn prev_change_id(payload: &[u8]) -> u64 {
    let key = b"\"prev_change_id\":";
    let at = payload.windows(key.len()).position(|window| window == key).map_or(payload.len(), |at| at + key.len());
    let digits = payload.iter().skip(at).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |id: u64, digit| id.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

/// A message with its place around it.
pub(crate) fn wrap(out: &mut Vec<u8>, epoch: u64, found: &Found<'_>, payload: &[u8]) {
    Json::new(out).object(|j| {
        j.key("epoch").uint(epoch).key("seq").uint(found.seq).key("prev").uint(found.prev);
        j.key("message").raw(payload);
    });
}

/// What a channel begins with, and the sequence where that stands.
pub(crate) fn wrap_first(out: &mut Vec<u8>, epoch: u64, seq: u64, first: &[u8]) {
    Json::new(out).object(|j| {
        j.key("epoch").uint(epoch).key("seq").uint(seq).key("snapshot").bool(true);
        j.key("message").raw(first);
    });
}

/// Messages of a channel that will not come, both ends included.
pub(crate) fn write_gap(out: &mut Vec<u8>, channel: &str, epoch: u64, from: u64, to: u64) {
    Json::new(out).object(|j| {
        j.key("type").string("gap").key("from").uint(from).key("to").uint(to);
        j.key("epoch").uint(epoch).key("channel").string(channel);
    });
}

/// The venue has begun anew: sequences of before mean nothing any longer.
pub(crate) fn write_epoch(out: &mut Vec<u8>, epoch: u64) {
    Json::new(out).object(|j| {
        j.key("type").string("epoch").key("epoch").uint(epoch);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_websocket::payload_of;

    #[test]
    fn a_books_message_says_which_change_it_leads_on_from() {
        assert_eq!(prev_change_id(br#"{"data":{"prev_change_id":17,"change_id":19,"bids":[]}}"#), 17);
        let none: [&[u8]; 4] = [b"", br#"{"change_id":4}"#, br#"{"prev_change_id":"x"}"#, br#"{"prev_change_id":"#];
        assert_eq!(none.map(prev_change_id), [0; 4]);
    }

    #[test]
    fn envelopes_hold_the_venues_bytes() {
        let found = Found { seq: 7, prev: 5, frame: b"\x81\x0d{\"a\":[1.50]}\n" };
        let mut out = Vec::new();
        wrap(&mut out, 3, &found, payload_of(found.frame));
        assert_eq!(out, b"{\"epoch\":3,\"seq\":7,\"prev\":5,\"message\":{\"a\":[1.50]}\n}");
        out.clear();
        write_gap(&mut out, "book.X.raw", 3, 8, 9);
        assert_eq!(out, br#"{"type":"gap","from":8,"to":9,"epoch":3,"channel":"book.X.raw"}"#);
    }
}
