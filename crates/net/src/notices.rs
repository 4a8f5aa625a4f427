//! What is said during one turn, in the order it was said.
//!
//! Does        keep every reply, notice and end of a connection until the commit, in one list over one buffer.
//! Holds       1. a connection gets its bytes in the order they were put here, whatever kind they are;
//!             2. nothing follows the end of a connection.
//! Leaves out  who is slow: that shows when the bytes meet the socket.
//! Start at    [`Notices::reply`], [`Notices::drain`].

use std::collections::BTreeSet;

use pitwire_websocket::{CloseCode, Opcode, write_close, write_frame, write_header};

use crate::connection_id::ConnectionId;
use crate::http::HttpResponse;

/// The buffer is given back when one turn has made it larger than this.
const KEPT_BYTES: usize = 1024 * 1024;

/// Messages on their way to connections, held until the commit.
#[derive(Debug, Default)]
pub struct Notices {
    bytes: Vec<u8>,
    items: Vec<Item>,
    ending: BTreeSet<ConnectionId>,
    given_away: Vec<ConnectionId>,
    left: Vec<ConnectionId>,
}

#[derive(Debug)]
struct Item {
    to: ConnectionId,
    kind: NoticeKind,
    /// Where its bytes end; they begin where those of the item before it do.
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// Asked for by the connection itself.
    Answer,
    /// The answer to a request that was put off: the next one may be acted on.
    LateResponse,
    /// Not asked for: a connection that does not read enough of these is closed.
    Notice,
    /// The last of a connection: a close frame, or nothing.
    End,
}

impl Notices {
    /// An answer: always queued, for the connection asked for it.
    pub fn reply(&mut self, to: ConnectionId, text: &[u8]) {
        self.put(to, NoticeKind::Answer, |out| write_frame(out, Opcode::Text, text));
    }

    /// Something nobody asked for just now: a connection that does not read enough is closed over it.
    pub fn notify(&mut self, to: ConnectionId, text: &[u8]) {
        self.put(to, NoticeKind::Notice, |out| write_frame(out, Opcode::Text, text));
    }

    /// The answer to an HTTP request that was put off; `keep_alive` is the request's.
    pub fn respond(&mut self, to: ConnectionId, response: &HttpResponse, keep_alive: bool, head_only: bool) {
        self.put(to, NoticeKind::LateResponse, |out| response.write(out, keep_alive, head_only));
        if !keep_alive {
            self.end(to);
        }
    }

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

    /// Ends a connection without a word.
    pub(crate) fn end(&mut self, to: ConnectionId) {
        self.put(to, NoticeKind::End, |_| {});
    }

    /// As soon as all that was said to a WebSocket is written, its socket is the application's: see
    /// [`Application::take_open`](crate::Application::take_open). Until then it is served as ever.
    pub fn give_away(&mut self, id: ConnectionId) {
        self.given_away.push(id);
    }

    /// A connection that was given away has ended.
    pub fn left(&mut self, id: ConnectionId) {
        self.left.push(id);
    }

    pub(crate) fn take_given_away(&mut self, into: &mut BTreeSet<ConnectionId>) {
        into.extend(self.given_away.drain(..));
    }

    pub(crate) fn take_left(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.left)
    }

    /// Bytes that are an answer as they stand.
    pub(crate) fn answer(&mut self, to: ConnectionId, write: impl FnOnce(&mut Vec<u8>)) {
        self.put(to, NoticeKind::Answer, write);
    }

    fn put(&mut self, to: ConnectionId, kind: NoticeKind, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_ending(to) || (kind == NoticeKind::End && !self.ending.insert(to)) {
            return;
        }
        write(&mut self.bytes);
        self.items.push(Item { to, kind, end: self.bytes.len() });
    }

    /// Whether this turn's last word to a connection has been said: nothing it sent may be acted on any more.
    pub(crate) fn is_ending(&self, id: ConnectionId) -> bool {
        self.ending.contains(&id)
    }

    /// Everyone this turn has a word for.
    pub(crate) fn addressees(&self) -> BTreeSet<ConnectionId> {
        self.items.iter().map(|item| item.to).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Hands everything over, in order.
    pub(crate) fn drain(&mut self, mut deliver: impl FnMut(ConnectionId, NoticeKind, &[u8])) {
        let mut start = 0;
        for Item { to, kind, end } in self.items.drain(..) {
            deliver(to, kind, &self.bytes[start..end]);
            start = end;
        }
        self.ending.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_comes_out_in_order_and_nothing_after_an_end() {
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
        notices.drain(|to, kind, bytes| out.push((to.0, kind, bytes.to_vec())));
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
