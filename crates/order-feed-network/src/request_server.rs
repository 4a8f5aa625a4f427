//! The request port of MoldUDP64: sends missed messages again, over UDP.
//!
//! Holds       1. a request has at most one answer, which is one packet;
//!             2. each address has a limit of requests. Requests above it, for another session or
//!                for messages that are not available get no answer and are counted.
//! Start at    [`RequestServer::serve`].

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use pitwire_order_feed::{MoldKind, MoldPacket};
use tracing::warn;

use crate::counters::count;
use crate::feed_state::FeedState;
use crate::rate_limit::RateLimit;

/// Requests of an address: 2,000 at once, then 1,000 a second.
const REQUEST_LIMIT: (Duration, u32) = (Duration::from_millis(1), 2_000);
/// A request has 20 bytes; a longer datagram is not one.
const MAX_REQUEST_BYTES: usize = 64;
/// Most requests that are answered in one turn of the feed thread.
const TURN_REQUESTS: usize = 64;
/// Pause after a failed receive, so that a broken socket does not keep a core busy.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct RequestServer {
    socket: UdpSocket,
    limit: RateLimit,
    /// When requests are received next. `None` until a datagram arrives.
    pub receive_at: Option<Instant>,
}

impl RequestServer {
    pub fn new(socket: UdpSocket) -> io::Result<RequestServer> {
        socket.set_nonblocking(true)?;
        Ok(RequestServer { socket, limit: RateLimit::new(REQUEST_LIMIT.0, REQUEST_LIMIT.1), receive_at: None })
    }

    /// Notes that a datagram may have arrived.
    pub fn wake(&mut self, now: Instant) {
        self.receive_at.get_or_insert(now);
    }

    /// Answers requests that have arrived, a bounded number of them.
    pub fn serve(&mut self, feed: &FeedState, now: Instant) {
        if self.receive_at.is_none_or(|receive_at| now < receive_at) {
            return;
        }
        let mut buffer = [0; MAX_REQUEST_BYTES];
        for _ in 0..TURN_REQUESTS {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, peer)) => self.answer(buffer.get(..length).unwrap_or_default(), peer, feed, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.receive_at = None;
                    return;
                }
                Err(error) => {
                    // A closed port of a reader is reported here too.
                    warn!(%error, "the request port of the order feed cannot receive");
                    self.receive_at = Some(now + FAILURE_PAUSE);
                    return;
                }
            }
        }
    }

    fn answer(&mut self, datagram: &[u8], peer: SocketAddr, feed: &FeedState, now: Instant) {
        let request = MoldPacket::read(datagram).filter(|packet| packet.kind == MoldKind::Request);
        let is_allowed = self.limit.take(peer.ip().to_canonical(), now);
        count(match (&request, is_allowed) {
            (None, _) => &feed.counters.invalid,
            (_, false) => &feed.counters.limited,
            _ => &feed.counters.replays,
        });
        if let Some(answer) = request.filter(|_| is_allowed).and_then(|request| feed.repeat(&request.header)) {
            // UDP gives no guarantee, and the reader asks again.
            drop(self.socket.send_to(&answer, peer));
        }
    }
}
