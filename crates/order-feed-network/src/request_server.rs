//! The request port of MoldUDP64: sends missed messages again, over UDP.
//!
//! Holds       1. a request has at most one answer, which is one packet;
//!             2. each address has a limit of requests. Requests above it, for another session or
//!                for messages that are not available get no answer and are counted.
//! Start at    [`serve`].

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use pitwire_order_feed::{MoldKind, MoldPacket};
use tokio::time::sleep;
use tracing::warn;

use crate::counters::count;
use crate::feed_state::SharedFeed;
use crate::rate_limit::RateLimit;

/// Requests of an address: 2,000 at once, then 1,000 a second.
const REQUEST_LIMIT: (Duration, u32) = (Duration::from_millis(1), 2_000);
/// A request has 20 bytes; a longer datagram is not one.
const MAX_REQUEST_BYTES: usize = 64;
/// Pause after a failed receive, so that a broken socket does not keep a core busy.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// Serves the request port.
///
/// # Errors
///
/// Fails if the socket cannot be used.
pub(crate) async fn serve(socket: UdpSocket, feed: SharedFeed) -> io::Result<()> {
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    let mut limit = RateLimit::new(REQUEST_LIMIT.0, REQUEST_LIMIT.1);
    let mut buffer = [0; MAX_REQUEST_BYTES];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // A closed port of a reader is reported here too.
                warn!(%error, "the request port of the order feed cannot receive");
                sleep(FAILURE_PAUSE).await;
                continue;
            }
        };
        let request = buffer.get(..length).and_then(MoldPacket::read).filter(|packet| packet.kind == MoldKind::Request);
        let is_allowed = limit.take(peer.ip().to_canonical(), Instant::now());
        let answer = {
            let feed = feed.lock();
            let counter = match (&request, is_allowed) {
                (None, _) => &feed.counters.invalid,
                (_, false) => &feed.counters.limited,
                _ => &feed.counters.replays,
            };
            count(counter);
            request.filter(|_| is_allowed).and_then(|request| feed.repeat(&request.header))
        };
        if let Some(answer) = answer {
            // UDP gives no guarantee, and the reader asks again.
            drop(socket.try_send_to(&answer, peer));
        }
    }
}
