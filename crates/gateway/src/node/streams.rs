//! Streams by URL at a gateway: the forms of `crates/url-streams` over channels of the bus.
//!
//! Holds       1. what a URL or a message asks for is read as the venue reads it;
//!             2. where each socket numbers its messages for itself, what is on the bus is the stream under its own numbers, and
//!                the socket's are put in their place here.

use pitwire_deribit::codec::{Request, RpcError};
use pitwire_url_streams::{Opened, Refused, Session};

use super::{CloseCode, Directory, Instant, MOST_WAITING, Mouth, Node, StreamKey, from_of};
use crate::STREAM;

impl Node {
    pub(super) fn learn(&mut self, names: &[String]) {
        self.directory = Directory::named(names.iter().map(String::as_str));
        self.instruments = names.iter().cloned().collect();
        self.has_directory = true;
    }

    /// Why a handshake of this target is not taken, if it is not.
    pub fn refuses(&self, target: &str) -> Option<Refused> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !pitwire_url_streams::is_stream_path(path) {
            return None;
        }
        self.read_url(path, query)?.err()
    }

    /// What a URL asks for; `None` if it is no stream's.
    pub fn read_url(&self, path: &str, query: &str) -> Option<Result<Opened, Refused>> {
        Session::open(path, query, &self.directory)
    }

    pub(super) fn open_streams(&mut self, id: u64, path: &str, query: &str, now: Instant, mouth: &mut dyn Mouth) {
        let opened = match self.read_url(path, query) {
            Some(Ok(opened)) => opened,
            // It was refused before; here the venue has changed since.
            _ => return mouth.close(id, CloseCode::TryAgainLater, "no such stream just now"),
        };
        let from = match Request::from_query("", query).and_then(|request| from_of(&request.params)) {
            Ok(from) => from,
            Err(error) => return mouth.close(id, CloseCode::Policy, &error.reason),
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.has_envelope = query.split('&').any(|pair| matches!(pair, "envelope" | "envelope=true"));
        }
        self.opened_streams(id, opened, from, now, mouth);
    }

    /// A connection has come for what its URL was read as.
    pub fn opened_streams(
        &mut self,
        id: u64,
        opened: Opened,
        from: Option<(u64, u64)>,
        now: Instant,
        mouth: &mut dyn Mouth,
    ) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.session = Some(opened.session);
            client.next_number = opened.join.iter().any(StreamKey::has_socket_numbers).then_some(0);
        }
        opened.words.iter().for_each(|word| mouth.reply(id, word));
        self.hear_streams(id, &opened.join, from, now, mouth);
    }

    /// Acts on what a reader of streams says.
    pub(super) fn said_to_streams(&mut self, id: u64, text: &str, now: Instant, mouth: &mut dyn Mouth) {
        let Node { clients, directory, .. } = self;
        let Some(client) = clients.get_mut(&id) else { return };
        if client.waiting >= MOST_WAITING {
            return mouth.close(id, CloseCode::TryAgainLater, "too many requests: connect again in a moment");
        }
        let Some(session) = &mut client.session else { return };
        let said = session.said(text, directory);
        said.answers.iter().for_each(|answer| mouth.reply(id, answer));
        for key in &said.leave {
            let name = self.channel_of(key);
            self.unseat(id, &name, mouth);
        }
        self.hear_streams(id, &said.join, None, now, mouth);
    }

    fn channel_of(&self, key: &StreamKey) -> String {
        let key = key.under_its_own_numbers();
        format!("{STREAM}{}", key.label(key.instrument.and_then(|of| self.directory.names(of))))
    }

    fn hear_streams(
        &mut self,
        id: u64,
        keys: &[StreamKey],
        from: Option<(u64, u64)>,
        now: Instant,
        mouth: &mut dyn Mouth,
    ) {
        let names: Vec<String> = keys.iter().map(|key| self.channel_of(key)).collect();
        if names.is_empty() {
            return;
        }
        match self.want(id, names, Default::default(), from, now) {
            Ok(pending) => self.settle(pending, now, mouth),
            Err(RpcError { reason, .. }) => mouth.close(id, CloseCode::TryAgainLater, &reason),
        }
    }
}
