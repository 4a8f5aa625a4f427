//! URL streams at a gateway: the dialects of `crates/url-streams` over channels of the bus.
//!
//! Holds       1. URLs and messages are read exactly as the venue reads them.
//!             2. Where a dialect numbers the messages of each socket, the bus carries the stream's
//!                own numbers and the gateway replaces them.

use pitwire_deribit::codec::{Request, RpcError};
use pitwire_url_streams::{StreamConnection, StreamKey};
use pitwire_websocket::CloseCode;

use super::Node;
use crate::connections::WAITING_MAX;
use crate::pending::read_from;
use crate::sink::{ClientSink, GatewayTime};

impl Node {
    pub(super) fn open_streams(
        &mut self,
        id: u64,
        path: &str,
        query: &str,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        let opened = match self.read_url(path, query) {
            Some(Ok(opened)) => opened,
            // The handshake was accepted, so the venue's instruments have changed since.
            _ => return sink.close(id, CloseCode::TryAgainLater, "no such stream just now"),
        };
        let from = match Request::from_query("", query).and_then(|request| read_from(&request.params)) {
            Ok(from) => from,
            Err(error) => return sink.close(id, CloseCode::Policy, &error.reason),
        };
        if let Some(client) = self.subscriptions.connections.clients.get_mut(&id) {
            client.has_envelope = query.split('&').any(|pair| matches!(pair, "envelope" | "envelope=true"));
        }
        self.opened_streams(id, opened, from, now, sink);
    }

    /// Subscribes a connection to the streams of its URL.
    pub fn opened_streams(
        &mut self,
        id: u64,
        opened: StreamConnection,
        from: Option<(u64, u64)>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        if let Some(client) = self.subscriptions.connections.clients.get_mut(&id) {
            client.session = Some(opened.session);
            client.next_number = opened.join.iter().any(StreamKey::has_socket_numbers).then_some(0);
        }
        opened.words.iter().for_each(|word| sink.reply(id, word));
        self.join_streams(id, &opened.join, from, now, sink);
    }

    /// Handles a message of a stream connection.
    pub(super) fn stream_text(&mut self, id: u64, text: &str, now: GatewayTime, sink: &mut dyn ClientSink) {
        let Some(client) = self.subscriptions.connections.clients.get_mut(&id) else { return };
        if client.waiting >= WAITING_MAX {
            return sink.close(id, CloseCode::TryAgainLater, "too many requests: connect again in a moment");
        }
        let Some(session) = &mut client.session else { return };
        let outcome = session.handle_message(text, &self.directory.streams);
        outcome.answers.iter().for_each(|answer| sink.reply(id, answer));
        for key in &outcome.leave {
            let name = self.directory.channel_of(key);
            self.subscriptions.end_subscription(id, &name, sink);
        }
        self.join_streams(id, &outcome.join, None, now, sink);
    }

    fn join_streams(
        &mut self,
        id: u64,
        keys: &[StreamKey],
        from: Option<(u64, u64)>,
        now: GatewayTime,
        sink: &mut dyn ClientSink,
    ) {
        let names: Vec<String> = keys.iter().map(|key| self.directory.channel_of(key)).collect();
        if names.is_empty() {
            return;
        }
        match self.subscriptions.pending_for(id, names, Default::default(), from, now) {
            Ok(pending) => self.subscriptions.grant_or_wait(pending, now, sink),
            Err(RpcError { reason, .. }) => sink.close(id, CloseCode::TryAgainLater, &reason),
        }
    }
}
