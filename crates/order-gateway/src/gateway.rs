//! The settings of a gateway, and its run.
//!
//! Start at    [`OrderGateway::run`].

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use pitwire_failure::Failure;
use pitwire_net::{Limits, Server, SystemClock};
use pitwire_relay::Upstream;

use crate::edge::{Edge, GatewayFigures};
use crate::members::SharedConnection;
use crate::throttle::Rate;

/// Time in nanoseconds in which a client must read 64 KiB of its answers.
const UNREAD_NS: u64 = 10_000_000_000;
/// Bytes that wait for all clients. Above it, the clients with the most unread bytes are closed.
const OUTBOX_BYTES: usize = 256 << 20;

/// Settings of a gateway.
pub struct GatewayOptions {
    /// WebSocket URL of the venue.
    pub url: String,
    /// PEM file of certificates to trust for `wss://` instead of the system's.
    pub authority: Option<PathBuf>,
    /// Names under which clients reach the gateway, besides localhost and its address.
    pub hosts: Vec<String>,
    /// Requests of each client id. `None` leaves the limits to the venue.
    pub rate: Option<Rate>,
    pub sharing: SharedConnection,
    pub connections_max: usize,
}

/// An order gateway.
pub struct OrderGateway;

impl OrderGateway {
    /// Serves until `stop` is readable. Calls `ready` once the venue is there.
    ///
    /// # Errors
    /// The URL is wrong, or a socket cannot be set up. If the venue is away, the gateway waits for
    /// it.
    pub fn run(
        options: GatewayOptions,
        listener: TcpListener,
        stop: UnixStream,
        ready: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<GatewayFigures, Failure> {
        let venue = Upstream::parse(&options.url, options.authority.as_deref())?;
        let mut failure = None;
        let ready = || {
            ready().map_err(|error| {
                let text = error.to_string();
                failure = Some(error);
                io::Error::other(text)
            })
        };
        let edge = Edge::new(venue, options.sharing, options.connections_max, options.rate, ready);
        let limits =
            Limits { unread_ns: UNREAD_NS, outbox_bytes: OUTBOX_BYTES, hosts: options.hosts, ..Limits::default() };
        let server = Server::new(edge, listener, stop, SystemClock::start())?.with_limits(limits)?;
        let figures = server.run().map(|edge| edge.figures);
        figures.map_err(|error| failure.unwrap_or_else(|| error.into()))
    }
}
