//! The gateway's connections, their heartbeats and their limits.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::codec::{Heartbeat, RpcError, write_logout};
use pitwire_websocket::CloseCode;

use crate::client::{Client, ReadState};
use crate::sink::ClientSink;
use pitwire_delivery::ChannelId;

/// Most requests of one connection that may wait for the venue.
pub(crate) const WAITING_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    pub clients: BTreeMap<u64, Client>,
    /// Times of the next heartbeats.
    beats: BTreeSet<(u64, u64)>,
    /// Connections that may have something to read although no message arrived.
    pub fresh: BTreeSet<u64>,
    /// Delegated connections with subscriptions that are not attached yet.
    pub unattached: BTreeSet<u64>,
}

impl ConnectionTable {
    pub fn remove(&mut self, id: u64) -> Option<Client> {
        let client = self.clients.remove(&id)?;
        if let Some(heartbeat) = &client.heartbeat {
            self.beats.remove(&(heartbeat.due_ns, id));
        }
        self.fresh.remove(&id);
        self.unattached.remove(&id);
        Some(client)
    }

    pub fn is_subscribed(&self, id: u64, name: &str) -> bool {
        self.clients.get(&id).is_some_and(|client| client.is_subscribed(name))
    }

    /// Counts a request that waits for the venue.
    ///
    /// # Errors
    ///
    /// The connection is closed or has reached [`WAITING_MAX`].
    pub fn add_waiting(&mut self, id: u64) -> Result<(), RpcError> {
        let Some(client) = self.clients.get_mut(&id) else { return Err(RpcError::named("retry")) };
        if client.waiting >= WAITING_MAX {
            let reason = format!("{WAITING_MAX} requests wait for the venue; wait for their answers");
            return Err(RpcError::new("too_many_requests", reason));
        }
        client.waiting += 1;
        Ok(())
    }

    /// Whether a connection waits for the change of a merged book since `change_id`.
    pub fn awaits_merge(&self, id: u64, channel: ChannelId, change_id: u64) -> bool {
        let subs = self.clients.get(&id).into_iter().flat_map(|client| &client.subs);
        subs.into_iter().any(|sub| sub.channel == channel && sub.state == ReadState::AwaitsMerge(change_id))
    }

    /// Whether a subscription with this name waits for a snapshot.
    pub fn awaits_snapshot(&self, name: &str) -> bool {
        let mut subs = self.clients.values().flat_map(|client| &client.subs);
        subs.any(|sub| sub.state == ReadState::AwaitsSnapshot && sub.name == name)
    }

    pub fn set_heartbeat(&mut self, id: u64, heartbeat: Option<Heartbeat>) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let before = std::mem::replace(&mut client.heartbeat, heartbeat);
        if let Some(before) = before {
            self.beats.remove(&(before.due_ns, id));
        }
        if let Some(heartbeat) = &client.heartbeat {
            self.beats.insert((heartbeat.due_ns, id));
        }
    }

    /// Returns the time of the next heartbeat.
    pub fn next_beat_ns(&self) -> Option<u64> {
        self.beats.first().map(|(due_ns, _)| *due_ns)
    }

    /// Sends the heartbeats that are due. Closes connections that did not answer the last one.
    pub fn beat(&mut self, now_ns: u64, sink: &mut dyn ClientSink) {
        while let Some((due_ns, id)) = self.beats.first().copied().filter(|(due_ns, _)| *due_ns <= now_ns) {
            self.beats.remove(&(due_ns, id));
            let Some(heartbeat) = self.clients.get_mut(&id).and_then(|client| client.heartbeat.as_mut()) else {
                continue;
            };
            if let Err(why) = heartbeat.beat(now_ns, |text| sink.notify(id, text)) {
                let mut out = Vec::new();
                write_logout(&mut out, &why);
                sink.notify(id, &out);
                sink.close(id, CloseCode::Policy, &why);
                continue;
            }
            self.beats.insert((heartbeat.due_ns, id));
        }
    }

    /// Tells every connection why the gateway stops. Delegated stream connections get a close frame
    /// only.
    pub fn send_logout(&self, why: &str, sink: &mut dyn ClientSink) {
        let mut out = Vec::new();
        write_logout(&mut out, why);
        for (id, _) in self.clients.iter().filter(|(_, client)| !client.is_delegated || client.session.is_none()) {
            sink.notify(*id, &out);
        }
    }
}
