//! State of one connection: its subscriptions and read positions.

use std::borrow::Cow;

use pitwire_deribit::codec::{Heartbeat, Json, RequestId, RpcError, write_error};
use pitwire_url_streams::StreamSession;
use pitwire_url_streams::gemini::renumber;

use crate::history::HistoryMessage;
use crate::sink::{ClientSink, GatewayTime};
use pitwire_delivery::ChannelId;

/// One subscription of a connection.
#[derive(Debug)]
pub(crate) struct ClientSubscription {
    /// The channel's name as the client wrote it.
    pub name: String,
    pub channel: ChannelId,
    /// Sequence up to which the client has everything.
    pub after: u64,
    pub state: ReadState,
}

/// How a subscription stands to its channel's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadState {
    /// The client needs a snapshot before any message.
    AwaitsSnapshot,
    /// The client gets the next message from the history.
    Reading,
    /// A delivery thread sends the messages.
    Attached,
    /// The client fell behind on a merged book and waits for the change since this
    /// `change_id`.
    AwaitsMerge(u64),
    /// As before, but the book had not changed. The client's book has a `change_id` that no message
    /// refers to.
    OutOfStep(u64),
}

impl ClientSubscription {
    /// Whether the client can be sent a message from the history.
    pub fn reads_history(&self) -> bool {
        matches!(self.state, ReadState::Reading | ReadState::OutOfStep(_))
    }

    /// Whether the channel's next message applies to the client's book.
    pub fn is_in_step(&self) -> bool {
        matches!(self.state, ReadState::Reading | ReadState::Attached)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    /// A delivery thread owns the socket.
    pub is_delegated: bool,
    /// The client gets each message inside an envelope with epoch and sequence.
    pub has_envelope: bool,
    /// The venue has accepted the client's credentials.
    pub is_logged_in: bool,
    pub subs: Vec<ClientSubscription>,
    /// State of a URL stream connection.
    pub session: Option<StreamSession>,
    /// Number of the next message, for dialects that number the messages of each socket.
    pub next_number: Option<u64>,
    /// Number of requests that wait for the venue.
    pub waiting: usize,
    pub heartbeat: Option<Heartbeat>,
}

impl Client {
    /// Returns a message with this connection's number, if its dialect numbers messages.
    pub fn numbered<'a>(&mut self, payload: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(number) = &mut self.next_number else { return Cow::Borrowed(payload) };
        let mut out = Vec::with_capacity(payload.len() + 20);
        renumber(payload, *number, &mut out);
        *number += 1;
        Cow::Owned(out)
    }

    pub fn is_subscribed(&self, name: &str) -> bool {
        self.subs.iter().any(|sub| sub.name == name)
    }
}

/// Writes a message in its envelope.
pub(crate) fn write_envelope(out: &mut Vec<u8>, epoch: u64, found: &HistoryMessage<'_>, payload: &[u8]) {
    Json::new(out).object(|j| {
        j.key("epoch").uint(epoch).key("seq").uint(found.seq).key("prev").uint(found.prev);
        j.key("message").raw(payload);
    });
}

/// Writes the snapshot of a channel at `seq` in an envelope.
fn write_snapshot(out: &mut Vec<u8>, epoch: u64, seq: u64, snapshot: &[u8]) {
    Json::new(out).object(|j| {
        j.key("epoch").uint(epoch).key("seq").uint(seq).key("snapshot").bool(true);
        j.key("message").raw(snapshot);
    });
}

/// Sends the error that answers a request.
pub(crate) fn reply_error(to: u64, id: &RequestId, error: &RpcError, now: GatewayTime, sink: &mut dyn ClientSink) {
    let mut out = Vec::new();
    write_error(&mut out, id, error, now.wall_us, now.wall_us);
    sink.reply(to, &out);
}

/// Sends the snapshot of a channel at `seq`, in an envelope if the client wants one.
pub(crate) fn reply_snapshot(
    to: u64,
    has_envelope: bool,
    (epoch, seq): (u64, u64),
    snapshot: &[u8],
    sink: &mut dyn ClientSink,
) {
    if has_envelope {
        let mut out = Vec::with_capacity(snapshot.len() + 80);
        write_snapshot(&mut out, epoch, seq, snapshot);
        sink.reply(to, &out);
    } else {
        sink.reply(to, snapshot);
    }
}

/// Writes the notice that a channel's messages `from` to `to`, both included, are lost.
pub(crate) fn write_gap(out: &mut Vec<u8>, channel: &str, epoch: u64, from: u64, to: u64) {
    Json::new(out).object(|j| {
        j.key("type").string("gap").key("from").uint(from).key("to").uint(to);
        j.key("epoch").uint(epoch).key("channel").string(channel);
    });
}

/// Writes the notice of a restart of the venue: earlier sequences are invalid.
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
    fn envelope_contains_the_venues_bytes_unchanged() {
        let found = HistoryMessage { seq: 7, prev: 5, frame: b"\x81\x0d{\"a\":[1.50]}\n" };
        let mut out = Vec::new();
        write_envelope(&mut out, 3, &found, payload_of(found.frame));
        assert_eq!(out, b"{\"epoch\":3,\"seq\":7,\"prev\":5,\"message\":{\"a\":[1.50]}\n}");
        out.clear();
        write_gap(&mut out, "book.X.raw", 3, 8, 9);
        assert_eq!(out, br#"{"type":"gap","from":8,"to":9,"epoch":3,"channel":"book.X.raw"}"#);
    }
}
