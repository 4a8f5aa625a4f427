//! The messages of one turn, in order, until the commit.
//!
//! Does        keeps every answer, notice and close frame in one list over one buffer.
//! Holds       1. a connection gets its bytes in the order in which they were added, whatever kind
//!                they are;
//!             2. nothing follows the end of a connection.
//! Leaves out  slow readers, which show only when the bytes meet the socket.
//! Start at    [`Notices::reply`], [`Notices::drain`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use pitwire_websocket::{CloseCode, Opcode, write_close, write_frame, write_header};

use crate::connection_id::ConnectionId;
use crate::http::HttpResponse;

/// A response of this many bytes is not copied if the caller gives it away.
const OWNED_BYTES: usize = 64 * 1024;
/// Capacity of the buffer between turns, in bytes.
const SPARE_BYTES: usize = 1024 * 1024;
/// Names of outgoing connections begin here, so that they differ from those of accepted ones.
const FIRST_OUTGOING: u64 = 1 << 63;

/// Messages to connections, held until the commit.
#[derive(Debug, Default)]
pub struct Notices {
    bytes: Vec<u8>,
    items: Vec<QueuedNotice>,
    ending: BTreeSet<ConnectionId>,
    leaving: Vec<ConnectionId>,
    closed_elsewhere: Vec<ConnectionId>,
    charges: Vec<(ConnectionId, u64)>,
    put_off: BTreeSet<ConnectionId>,
    /// Connections to open in this turn.
    outgoing: Vec<(ConnectionId, SocketAddr)>,
    outgoing_count: u64,
    is_behind: bool,
}

#[derive(Debug)]
struct QueuedNotice {
    to: ConnectionId,
    kind: NoticeKind,
    /// End of its bytes, which begin at the end of the item before it.
    end: usize,
    /// The bytes of a long response, instead of those in the common buffer.
    owned: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// The connection has asked for it.
    Answer,
    /// The response to a request that was put off: the next request may be acted on.
    LateResponse,
    /// The connection has not asked for it. It is closed if it does not read enough of these.
    Notice,
    /// The last of a connection: a close frame, or nothing.
    End,
}

impl Notices {
    /// Adds an answer, a text message that the connection has asked for. It is always queued.
    pub fn reply(&mut self, to: ConnectionId, text: &[u8]) {
        self.put(to, NoticeKind::Answer, |out| write_frame(out, Opcode::Text, text));
    }

    /// Adds an answer as [`Self::reply`] does, and does not copy a long one.
    pub fn reply_owned(&mut self, to: ConnectionId, text: Vec<u8>) {
        self.put_text(to, NoticeKind::Answer, text);
    }

    /// Adds an answer to a byte stream, as [`Self::reply`] does for a WebSocket.
    pub fn reply_bytes(&mut self, to: ConnectionId, bytes: &[u8]) {
        self.put(to, NoticeKind::Answer, |out| out.extend_from_slice(bytes));
    }

    /// Adds a notice to a byte stream, as [`Self::notify`] does for a WebSocket.
    pub fn notify_bytes(&mut self, to: ConnectionId, bytes: &[u8]) {
        self.put(to, NoticeKind::Notice, |out| out.extend_from_slice(bytes));
    }

    /// Adds the answer to a byte stream that was [put off](Self::put_off).
    pub fn reply_bytes_late(&mut self, to: ConnectionId, bytes: &[u8]) {
        self.put(to, NoticeKind::LateResponse, |out| out.extend_from_slice(bytes));
    }

    /// Puts off the answer to the message that is being acted on. Until [`Self::reply_late`] the
    /// connection acts on nothing more, and what is sent to a WebSocket waits.
    pub fn put_off(&mut self, id: ConnectionId) {
        self.put_off.insert(id);
    }

    /// Adds the answer that was [put off](Self::put_off). Notices that waited follow it.
    pub fn reply_late(&mut self, to: ConnectionId, text: Vec<u8>) {
        self.put_text(to, NoticeKind::LateResponse, text);
    }

    pub(crate) fn take_put_off(&mut self, id: ConnectionId) -> bool {
        self.put_off.remove(&id)
    }

    /// Adds a notice, a text message that the connection has not asked for. A connection that does
    /// not read enough of them is closed.
    pub fn notify(&mut self, to: ConnectionId, text: &[u8]) {
        self.put(to, NoticeKind::Notice, |out| write_frame(out, Opcode::Text, text));
    }

    /// Adds the response to an HTTP request that was put off; `keep_alive` is the request's.
    pub fn respond(&mut self, to: ConnectionId, response: HttpResponse, keep_alive: bool, head_only: bool) {
        if head_only || response.body.len() < OWNED_BYTES {
            self.put(to, NoticeKind::LateResponse, |out| response.write(out, keep_alive, head_only));
        } else {
            self.put(to, NoticeKind::Answer, |out| response.write(out, keep_alive, true));
            self.put_owned(to, NoticeKind::LateResponse, response.body);
        }
        if !keep_alive {
            self.end(to);
        }
    }

    /// Adds a close frame, after which nothing follows.
    pub fn close(&mut self, to: ConnectionId, code: CloseCode, reason: impl Into<String>) {
        self.put(to, NoticeKind::End, |out| write_close(out, code, &reason.into()));
    }

    /// Answers a peer's close frame with its own code (RFC 6455 section 5.5.1).
    pub(crate) fn echo_close(&mut self, to: ConnectionId, code: Option<u16>) {
        let code = code.unwrap_or(CloseCode::Normal as u16);
        self.put(to, NoticeKind::End, |out| {
            write_header(out, Opcode::Close, 2);
            out.extend_from_slice(&code.to_be_bytes());
        });
    }

    /// Ends a connection without a close frame, as byte streams end.
    pub fn end(&mut self, to: ConnectionId) {
        self.put(to, NoticeKind::End, |_| {});
    }

    /// Hands a WebSocket to the application as soon as everything addressed to it is written: see
    /// [`Application::take_open`](crate::Application::take_open). Until then it is served as
    /// before.
    pub fn hand_off(&mut self, id: ConnectionId) {
        self.leaving.push(id);
    }

    /// Connects to `address`. The connection is a byte stream, and bytes may be added for it at
    /// once: they leave when the peer has accepted. A connection that cannot be opened ends with
    /// [`Application::disconnected`](crate::Application::disconnected), like any other.
    pub fn connect(&mut self, address: SocketAddr) -> ConnectionId {
        let id = ConnectionId(FIRST_OUTGOING + self.outgoing_count);
        self.outgoing_count += 1;
        self.outgoing.push((id, address));
        id
    }

    pub(crate) fn take_outgoing(&mut self) -> Vec<(ConnectionId, SocketAddr)> {
        std::mem::take(&mut self.outgoing)
    }

    /// Tells the loop that a connection that was handed off has ended.
    pub fn closed_elsewhere(&mut self, id: ConnectionId) {
        self.closed_elsewhere.push(id);
    }

    /// Counts the unread bytes of a connection against `payer`, such as an account, from this turn
    /// on: see [`Limits::outbox_bytes_per_payer`](crate::Limits::outbox_bytes_per_payer).
    pub fn charge(&mut self, id: ConnectionId, payer: u64) {
        self.charges.push((id, payer));
    }

    pub(crate) fn take_charges(&mut self) -> Vec<(ConnectionId, u64)> {
        std::mem::take(&mut self.charges)
    }

    pub(crate) fn take_handoffs(&mut self, into: &mut BTreeSet<ConnectionId>) {
        into.extend(self.leaving.drain(..));
    }

    pub(crate) fn take_closed_elsewhere(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.closed_elsewhere)
    }

    /// Adds an answer that `write` writes as it goes over the wire.
    pub(crate) fn answer(&mut self, to: ConnectionId, write: impl FnOnce(&mut Vec<u8>)) {
        self.put(to, NoticeKind::Answer, write);
    }

    fn put(&mut self, to: ConnectionId, kind: NoticeKind, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_ending(to) || (kind == NoticeKind::End && !self.ending.insert(to)) {
            return;
        }
        write(&mut self.bytes);
        self.items.push(QueuedNotice { to, kind, end: self.bytes.len(), owned: None });
    }

    fn put_text(&mut self, to: ConnectionId, kind: NoticeKind, text: Vec<u8>) {
        if text.len() < OWNED_BYTES {
            return self.put(to, kind, |out| write_frame(out, Opcode::Text, &text));
        }
        self.put(to, NoticeKind::Answer, |out| write_header(out, Opcode::Text, text.len()));
        self.put_owned(to, kind, text);
    }

    fn put_owned(&mut self, to: ConnectionId, kind: NoticeKind, bytes: Vec<u8>) {
        if !self.is_ending(to) {
            self.items.push(QueuedNotice { to, kind, end: self.bytes.len(), owned: Some(bytes) });
        }
    }

    /// Notes whether the last turn has left notices unwritten for want of time.
    pub(crate) fn set_behind(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    /// Says whether the last turn has left notices or published messages unwritten for want of
    /// time. The application should then add only notices that cannot wait.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Says whether a connection ends with this turn: nothing more that it sent may be acted on.
    pub(crate) fn is_ending(&self, id: ConnectionId) -> bool {
        self.ending.contains(&id)
    }

    /// Returns the connections for which this turn has something.
    pub(crate) fn addressees(&self) -> BTreeSet<ConnectionId> {
        self.items.iter().map(|item| item.to).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Passes everything to `deliver`, in order. The bytes of a long answer are owned.
    pub(crate) fn drain(&mut self, mut deliver: impl FnMut(ConnectionId, NoticeKind, Cow<'_, [u8]>)) {
        let mut start = 0;
        for QueuedNotice { to, kind, end, owned } in self.items.drain(..) {
            deliver(to, kind, owned.map_or(Cow::Borrowed(&self.bytes[start..end]), Cow::Owned));
            start = end;
        }
        self.ending.clear();
        self.bytes.clear();
        self.bytes.shrink_to(SPARE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_keep_their_place_and_are_not_copied() {
        let to = ConnectionId(1);
        let mut notices = Notices::default();
        let long = vec![b'x'; OWNED_BYTES];
        let place = long.as_ptr();
        notices.reply(to, b"a");
        notices.reply_owned(to, long);
        notices.reply_owned(to, b"b".to_vec());
        let mut out = Vec::new();
        notices.drain(|_, kind, bytes| {
            assert_eq!(kind, NoticeKind::Answer, "none ends a put-off");
            if let Cow::Owned(bytes) = &bytes {
                assert_eq!(bytes.as_ptr(), place);
            }
            out.extend_from_slice(&bytes);
        });
        let mut expected = vec![0x81, 1, b'a', 0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0];
        expected.extend(vec![b'x'; OWNED_BYTES]);
        expected.extend([0x81, 1, b'b']);
        assert_eq!(out, expected);
    }

    #[test]
    fn notices_come_out_in_order_and_none_after_an_end() {
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        let mut notices = Notices::default();
        notices.notify(one, b"a");
        notices.reply(two, b"b");
        notices.reply(one, b"c");
        notices.close(one, CloseCode::Normal, "");
        notices.reply(one, b"late");
        notices.close(one, CloseCode::Policy, "later");
        notices.echo_close(two, Some(3001));
        assert!(notices.is_ending(one) && notices.is_ending(two));
        let mut out = Vec::new();
        notices.drain(|to, kind, bytes| {
            out.push((to.0, kind, bytes.to_vec()));
        });
        let expected = [
            (1, NoticeKind::Notice, vec![0x81, 1, b'a']),
            (2, NoticeKind::Answer, vec![0x81, 1, b'b']),
            (1, NoticeKind::Answer, vec![0x81, 1, b'c']),
            (1, NoticeKind::End, vec![0x88, 2, 0x03, 0xE8]),
            (2, NoticeKind::End, vec![0x88, 2, 0x0B, 0xB9]),
        ];
        assert_eq!(out, expected);
        assert!(!notices.is_ending(one) && notices.bytes() == 0);
    }
}
