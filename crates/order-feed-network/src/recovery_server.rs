//! The recovery port: replays missed messages and sends snapshots, over TCP.
//!
//! A request is a unit with one message. An answer is one or more units. With ITCH a connection has
//! one snapshot, by GLIMPSE ([`crate::glimpse_server`]).
//!
//! Holds       1. a client has [`LOGIN_PATIENCE`] to log in and to finish a request that it began,
//!                and [`SEND_PATIENCE`] to read each part of an answer. Otherwise it is closed;
//!             2. each address has limits of connections, replays and snapshots; a request above a
//!                limit gets an answer that says so, after [`LIMIT_PAUSE`];
//!             3. bytes that are not a valid request close the connection.
//! Start at    [`serve`].

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pitwire_order_feed::{
    FeedEncoding, Letter, LoginResponse, MAX_UNIT_BYTES, MitchEncode, MitchMessage, ReplayRequest, ReplayResponse,
    SnapshotResponse, UNIT_HEADER_BYTES, Unit, UnitWriter, full_number, wire_number,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::counters::count;
use crate::feed_state::SharedFeed;
use crate::rate_limit::RateLimit;

const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Snapshots that are sent at the same time. It bounds the memory for clients that read slowly.
const MAX_SNAPSHOTS_AT_ONCE: usize = 16;
/// Replays of an address: 100 at once, then 50 a second.
const REPLAY_LIMIT: (Duration, u32) = (Duration::from_millis(20), 100);
/// Snapshots of an address: 20 at once, then two a second.
const SNAPSHOT_LIMIT: (Duration, u32) = (Duration::from_millis(500), 20);
pub(crate) const LOGIN_PATIENCE: Duration = Duration::from_secs(5);
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer that a client must read within [`SEND_PATIENCE`].
const SEND_BYTES: usize = 64 * 1024;
/// Delay of an answer above a limit, so that a flood of requests does not keep the thread busy.
pub(crate) const LIMIT_PAUSE: Duration = Duration::from_millis(50);
/// Pause after a failed accept, so that a lack of file descriptors does not keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Idle time after which the system checks whether a client still exists.
const KEEPALIVE: Duration = Duration::from_secs(30);

const ACCEPTED: Letter = Letter(b'A');
const OUT_OF_RANGE: Letter = Letter(b'O');
const REPLAY_LIMIT_REACHED: Letter = Letter(b'D');
const SNAPSHOT_LIMIT_REACHED: Letter = Letter(b'b');
const TOO_MANY_SNAPSHOTS: Letter = Letter(b'c');

pub(crate) struct Recovery {
    pub feed: SharedFeed,
    send_patience: Duration,
    replays: Mutex<RateLimit>,
    snapshots: Mutex<RateLimit>,
    transfers: Semaphore,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

/// One of the connections of an address.
struct ConnectionPermit {
    recovery: Arc<Recovery>,
    address: IpAddr,
}

impl Recovery {
    fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = connections.values().sum();
        let own = connections.entry(address).or_default();
        if total >= MAX_CONNECTIONS || *own >= MAX_CONNECTIONS_PER_ADDRESS {
            return None;
        }
        *own += 1;
        Some(ConnectionPermit { recovery: Arc::clone(self), address })
    }

    /// Returns a snapshot and the permit to send it, or the status that refuses it.
    pub fn snapshot(&self, peer: SocketAddr) -> Result<(Arc<[u8]>, SemaphorePermit<'_>), Letter> {
        if !take(&self.snapshots, peer) {
            return Err(SNAPSHOT_LIMIT_REACHED);
        }
        let permit = self.transfers.try_acquire().map_err(|_| TOO_MANY_SNAPSHOTS)?;
        let mut feed = self.feed.lock();
        count(&feed.counters.snapshots);
        Ok((feed.snapshot(Instant::now()), permit))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut connections = self.recovery.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = connections.get_mut(&self.address) {
            *own -= 1;
        }
        connections.retain(|_, own| *own > 0);
    }
}

/// Serves the recovery port.
///
/// # Errors
///
/// Fails if the listener cannot be used.
pub(crate) async fn serve(listener: TcpListener, feed: SharedFeed) -> io::Result<()> {
    serve_with(SEND_PATIENCE, listener, feed).await
}

async fn serve_with(send_patience: Duration, listener: TcpListener, feed: SharedFeed) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let counters = Arc::clone(&feed.lock().counters);
    let recovery = Arc::new(Recovery {
        feed,
        send_patience,
        replays: Mutex::new(RateLimit::new(REPLAY_LIMIT.0, REPLAY_LIMIT.1)),
        snapshots: Mutex::new(RateLimit::new(SNAPSHOT_LIMIT.0, SNAPSHOT_LIMIT.1)),
        transfers: Semaphore::new(MAX_SNAPSHOTS_AT_ONCE),
        connections: Mutex::default(),
    });
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a recovery connection of the order feed");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = recovery.admit(peer.ip().to_canonical()) else {
            count(&counters.refused_connections);
            continue;
        };
        count(&counters.connections);
        let recovery = Arc::clone(&recovery);
        tokio::spawn(async move {
            if let Err(error) = (Client { socket, peer, recovery: &recovery }).serve().await {
                let counters = &recovery.feed.lock().counters;
                match error.kind() {
                    io::ErrorKind::TimedOut => count(&counters.slow),
                    io::ErrorKind::InvalidData => count(&counters.invalid),
                    _ => {}
                }
                info!(%peer, %error, "a recovery connection of the order feed ended");
            }
            drop(permit);
        });
    }
}

pub(crate) struct Client<'a> {
    pub socket: TcpStream,
    pub peer: SocketAddr,
    pub recovery: &'a Recovery,
}

impl Client<'_> {
    async fn serve(self) -> io::Result<()> {
        self.socket.set_nodelay(true)?;
        SockRef::from(&self.socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
        let encoding = self.recovery.feed.lock().encoding();
        match encoding {
            FeedEncoding::Mitch => self.serve_requests().await,
            FeedEncoding::Itch => self.serve_glimpse().await,
        }
    }

    async fn serve_requests(mut self) -> io::Result<()> {
        let first = timeout(LOGIN_PATIENCE, self.request()).await.map_err(|_| late("the login did not arrive"))??;
        match first {
            Some(MitchMessage::LoginRequest(_)) => self.send_message(&LoginResponse { status: ACCEPTED }).await?,
            Some(other) => return Err(invalid(format!("expected a Login Request, not {}", other.name()))),
            None => return Ok(()),
        }
        while let Some(request) = self.request().await? {
            match request {
                MitchMessage::ReplayRequest(request) => self.replay(&request).await?,
                MitchMessage::SnapshotRequest(_) => self.snapshot().await?,
                MitchMessage::LogoutRequest(_) => return Ok(()),
                other => return Err(invalid(format!("expected a request, not {}", other.name()))),
            }
        }
        Ok(())
    }

    /// Reads one request. `None` if the client closed the connection between requests.
    async fn request(&mut self) -> io::Result<Option<MitchMessage>> {
        let mut unit = vec![0; UNIT_HEADER_BYTES];
        if self.socket.read(&mut unit[..1]).await? == 0 {
            return Ok(None);
        }
        let rest = async {
            self.socket.read_exact(&mut unit[1..]).await?;
            let length = usize::from(u16::from_le_bytes([unit[0], unit[1]]));
            if !(UNIT_HEADER_BYTES..=MAX_UNIT_BYTES).contains(&length) {
                let expected = format!("{UNIT_HEADER_BYTES} to {MAX_UNIT_BYTES}");
                return Err(invalid(format!("a request states a length of {length} bytes: expected {expected}")));
            }
            unit.resize(length, 0);
            self.socket.read_exact(&mut unit[UNIT_HEADER_BYTES..]).await.map(|_| ())
        };
        timeout(LOGIN_PATIENCE, rest).await.map_err(|_| late("a request did not arrive whole"))??;
        let unit = Unit::read(&unit).map_err(|error| invalid(error.to_string()))?;
        let mut messages = unit.messages();
        match (messages.next(), messages.next()) {
            (Some(Ok(message)), None) => Ok(Some(message)),
            (Some(Err(error)), _) => Err(invalid(error.to_string())),
            _ => Err(invalid("a request is a unit with one message".into())),
        }
    }

    async fn replay(&mut self, request: &ReplayRequest) -> io::Result<()> {
        let ReplayRequest { market_data_group, first_message, count: wanted } = *request;
        let mut response = ReplayResponse { market_data_group, first_message, ..ReplayResponse::default() };
        if !take(&self.recovery.replays, self.peer) {
            response.status = REPLAY_LIMIT_REACHED;
            return self.refuse(&response).await;
        }
        let (replay, oldest) = {
            let feed = self.recovery.feed.lock();
            count(&feed.counters.replays);
            (feed.replay(full_number(first_message, feed.next_number()), wanted), feed.oldest_number())
        };
        let Some(replay) = replay else {
            let response = ReplayResponse { first_message: wire_number(oldest), status: OUT_OF_RANGE, ..response };
            return self.send_message(&response).await;
        };
        let first_message = wire_number(replay.first);
        self.send_message(&ReplayResponse { first_message, count: replay.count, status: ACCEPTED, ..response }).await?;
        self.send(&replay.units.concat()).await
    }

    async fn snapshot(&mut self) -> io::Result<()> {
        let recovery = self.recovery;
        match recovery.snapshot(self.peer) {
            Ok((snapshot, _permit)) => self.send(&snapshot).await,
            Err(status) => self.refuse(&SnapshotResponse { status, ..SnapshotResponse::default() }).await,
        }
    }

    /// Answers a request above a limit.
    async fn refuse(&mut self, response: &impl MitchEncode) -> io::Result<()> {
        count(&self.recovery.feed.lock().counters.limited);
        sleep(LIMIT_PAUSE).await;
        self.send_message(response).await
    }

    async fn send_message(&mut self, message: &impl MitchEncode) -> io::Result<()> {
        let mut encoded = Vec::with_capacity(64);
        message.encode(&mut encoded);
        let mut units = UnitWriter::unnumbered();
        let mut unit = Vec::new();
        units.add(&encoded, |_, _| {});
        units.finish(|_, bytes| unit.extend_from_slice(bytes));
        self.send(&unit).await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(SEND_BYTES) {
            timeout(self.recovery.send_patience, self.socket.write_all(part))
                .await
                .map_err(|_| late("the client does not read"))??;
        }
        Ok(())
    }
}

fn take(limit: &Mutex<RateLimit>, peer: SocketAddr) -> bool {
    limit.lock().unwrap_or_else(PoisonError::into_inner).take(peer.ip().to_canonical(), Instant::now())
}

pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(crate) fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;
    use std::sync::atomic::Ordering;
    use std::thread;

    use pitwire_order_feed::{AuctionTrade, LoginRequest};
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::counters::FeedCounters;
    use crate::packet_encoder::PacketEncoder;

    /// Bound of every wait. A test that passes does not come near it.
    const PATIENCE: Duration = Duration::from_secs(60);
    const MESSAGES: u16 = 60_000;

    fn request(message: &impl MitchEncode) -> Vec<u8> {
        let (mut encoded, mut units, mut request) = (Vec::new(), UnitWriter::unnumbered(), Vec::new());
        message.encode(&mut encoded);
        units.add(&encoded, |_, _| {});
        units.finish(|_, unit| request.extend_from_slice(unit));
        request
    }

    /// Connects with small buffers and logs in.
    fn log_in(address: SocketAddr) -> std::net::TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.connect(&address.into()).unwrap();
        let mut socket = std::net::TcpStream::from(socket);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&request(&LoginRequest::default())).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        socket
    }

    #[test]
    fn a_client_that_does_not_read_is_closed_and_others_are_served() {
        let counters = Arc::new(FeedCounters::default());
        let feed = SharedFeed::new(PacketEncoder::mitch(), Vec::new(), Arc::clone(&counters));
        let mut messages = Vec::new();
        (0..MESSAGES).for_each(|_| AuctionTrade::default().encode(&mut messages));
        feed.lock().take(&messages);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        SockRef::from(&listener).set_send_buffer_size(4_096).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        // The thread ends with the process.
        thread::spawn(move || {
            let server = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            server.block_on(serve_with(Duration::from_millis(100), listener, feed))
        });
        let mut silent = log_in(address);
        let replay = ReplayRequest { market_data_group: Letter(b'P'), first_message: 1, count: MESSAGES };
        // The answers have about 19 MB, and the buffers of both ends a few KB.
        silent.write_all(&request(&replay).repeat(4)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while counters.slow.load(Ordering::Relaxed) == 0 {
            drop(log_in(address));
            assert!(Instant::now() < deadline, "the venue waits for the client");
            thread::sleep(Duration::from_millis(5));
        }
        let mut rest = Vec::new();
        // A reset also ends the connection.
        drop(silent.read_to_end(&mut rest));
        assert!(rest.len() < messages.len(), "{} bytes were sent", rest.len());
        assert_eq!(counters.slow.load(Ordering::Relaxed), 1);
    }
}
