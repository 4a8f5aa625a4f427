//! Settings of a connection.

use std::path::PathBuf;
use std::time::Duration;

use crate::Credentials;

/// Policy of a connection after its socket has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// The connection ends.
    Never,
    /// The connection tries again without end. The pauses double from `first` to `longest`, and
    /// each is shortened at random by up to half.
    WithPauses { first: Duration, longest: Duration },
}

/// Address of a venue, login, and limits of one connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// WebSocket URL, such as `ws://127.0.0.1:8080/ws/api/v2`.
    pub url: String,
    /// PEM file of certificates to trust for `wss://` instead of the system's.
    pub authority: Option<PathBuf>,
    /// Login of the connection. Without it only public methods work.
    pub credentials: Option<Credentials>,
    /// Further logins, one for each agent of a connection that many agents share. Each call of an
    /// agent carries its access token, so that its account decides. They replace `credentials`. See
    /// [`VenueConnection::open_for_agents`](crate::VenueConnection::open_for_agents).
    pub agents: Vec<Credentials>,
    /// Longest wait for a connection, and for the answer to one call. A socket that receives no
    /// byte for this long after a request counts as dead.
    pub timeout: Duration,
    pub reconnect: Reconnect,
    /// Interval of the venue's heartbeats, at least 10 s. A socket that is silent for three
    /// intervals counts as dead. `None` requests no heartbeats.
    pub heartbeat: Option<Duration>,
    /// Interval at which a book and a trader compare themselves with the venue. So they notice a
    /// message that is lost without a cut, although no later message shows it. `None` disables it.
    pub check_interval: Option<Duration>,
    /// Asks the venue to cancel the orders of this connection when its socket closes.
    pub cancel_on_disconnect: bool,
    /// Time for which the connection polls its socket after each call, before its thread sleeps. It
    /// saves the wake-up of the thread by an answer that arrives meanwhile, and uses a core for
    /// that time. Zero disables it.
    pub spin: Duration,
    /// Bound of the queue of each subscription, in bytes. A full queue discards its oldest messages
    /// and reports their number.
    pub queue_bytes: usize,
}

impl Settings {
    /// Returns the defaults for a long-lived connection: 10 s timeout, heartbeats and checks every
    /// 30 s, pauses from 100 ms to 10 s, no polling, and queues of 4 MiB.
    pub fn new(url: impl Into<String>) -> Self {
        Settings {
            url: url.into(),
            authority: None,
            credentials: None,
            agents: Vec::new(),
            timeout: Duration::from_secs(10),
            reconnect: Reconnect::WithPauses { first: Duration::from_millis(100), longest: Duration::from_secs(10) },
            heartbeat: Some(Duration::from_secs(30)),
            check_interval: Some(Duration::from_secs(30)),
            cancel_on_disconnect: false,
            spin: Duration::ZERO,
            queue_bytes: 4 << 20,
        }
    }
}
