//! Subscription requests: the names and limits.

use std::collections::BTreeSet;

use pitwire_deribit::codec::{IgnoredChannels, Request, RpcError};

use super::Node;
use crate::directory::ChannelName;
use crate::pending::{PendingSubscription, no_such_channel, read_from};
use crate::sink::GatewayTime;

/// Most channels of one connection, as at the venue.
const CHANNELS_MAX: usize = 1_000;

impl Node {
    pub(super) fn subscribe_request(
        &mut self,
        id: u64,
        request: &Request<'_>,
        now: GatewayTime,
    ) -> Result<PendingSubscription, RpcError> {
        let names = request.params.list("channels")?;
        let names = names.ok_or_else(|| RpcError::invalid("channels", "channels is required"))?;
        self.subscribe(id, request, names, now)
    }

    /// Checks the names of a request and finds which channels the venue must be asked for.
    ///
    /// # Errors
    ///
    /// A name or a parameter is invalid, or a limit is reached.
    pub(super) fn subscribe(
        &mut self,
        id: u64,
        request: &Request<'_>,
        names: Vec<String>,
        now: GatewayTime,
    ) -> Result<PendingSubscription, RpcError> {
        let from = read_from(&request.params)?;
        let mut wishes = self.subscriptions.read_wishes(id, request, &names)?;
        let is_logged_in = self.subscriptions.connections.clients.get(&id).is_some_and(|client| client.is_logged_in);
        let (mut accepted, mut malformed, mut seen) = (Vec::new(), None, BTreeSet::new());
        let mut ignored = IgnoredChannels::default();
        for name in names {
            if seen.contains(&name) {
                continue;
            }
            match self.directory.classify(&name, is_logged_in, |name| self.not_here(name))? {
                ChannelName::Served => accepted.push(name.clone()),
                ChannelName::Unavailable => ignored.add(&name, || self.directory.why_ignored(&name)),
                ChannelName::Malformed => {
                    ignored.add(&name, || self.directory.why_ignored(&name));
                    malformed = Some(name.clone());
                }
            }
            seen.insert(name);
        }
        if let Some(name) = malformed.as_ref().filter(|_| accepted.is_empty()) {
            return Err(no_such_channel(name, &ignored));
        }
        let added = accepted.iter().filter(|name| !self.subscriptions.connections.is_subscribed(id, name)).count();
        let subscribed = self.subscriptions.connections.clients.get(&id).map_or(0, |client| client.subs.len());
        if subscribed + added > CHANNELS_MAX {
            let reason = format!("a connection hears at most {CHANNELS_MAX} channels; open another");
            return Err(RpcError::param("too_many_requests", "channels", reason));
        }
        wishes.retain(|name, _| accepted.contains(name));
        let pending = self.subscriptions.pending_for(id, accepted, wishes, from, now)?;
        Ok(PendingSubscription { id: Some(request.id.clone()), malformed, ignored, ..pending })
    }
}
