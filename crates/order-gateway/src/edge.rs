//! State that all sessions of a gateway share.

use std::sync::atomic::AtomicU64;

use pitwire_net::OriginPolicy;
use pitwire_relay::Upstream;
use tokio::sync::watch;

use crate::outbox::WaitingBytes;
use crate::throttle::Throttle;
use crate::uplink::Uplink;

/// The connections to the venue that all clients share.
#[derive(Clone)]
pub(crate) struct Uplinks {
    /// Carries the requests. This connection has no login: each request has the token of its
    /// client.
    pub requests: Uplink,
    /// Carries the logins. A login replaces the one before it, so they have a connection of their
    /// own.
    pub logins: Uplink,
}

/// State that all sessions share.
pub(crate) struct Edge {
    pub venue: Upstream,
    pub url: String,
    pub throttle: Throttle,
    pub forwarded: AtomicU64,
    pub refused: AtomicU64,
    pub connections: AtomicU64,
    /// Texts for all clients.
    pub waiting: WaitingBytes,
    pub origins: OriginPolicy,
    /// The connections to the venue, while it is there.
    pub uplinks: watch::Sender<Option<Uplinks>>,
}
