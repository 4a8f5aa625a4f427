//! The recovery port: replays missed messages and sends snapshots, over TCP.
//!
//! A request is a unit with one message. An answer is one or more units. With ITCH a connection has
//! one snapshot, by GLIMPSE ([`crate::glimpse_server`]).
//!
//! Holds       1. a client that is late is closed: see [`crate::served_client`];
//!             2. each address has limits of connections, replays and snapshots; a request above a
//!                limit gets an answer that says so, after a pause;
//!             3. bytes that are not a valid request close the connection;
//!             4. a turn accepts a bounded number of clients, and for each client it acts on one
//!                request and sends a bounded part of one answer.
//! Start at    [`RecoveryServer::serve`].

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_net::event_loop::{AcceptedSocket, EventLoop, ListenerId, LoopEvent};
use pitwire_order_feed::{
    FeedEncoding, GlimpseLogin, Letter, LoginResponse, MAX_UNIT_BYTES, MitchEncode, MitchMessage, ReplayRequest,
    ReplayResponse, SnapshotResponse, UNIT_HEADER_BYTES, Unit, UnitWriter, full_number, wire_number,
};
use socket2::{SockRef, TcpKeepalive};
use tracing::{info, warn};

use crate::counters::{FeedCounters, count};
use crate::feed_state::FeedState;
use crate::glimpse_server::{rejection, take_login};
use crate::rate_limit::RateLimit;
use crate::served_client::{Answer, Reply, ServedClient, invalid};

const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Snapshots that are sent at the same time. It bounds the memory for clients that read slowly.
const MAX_SNAPSHOTS_AT_ONCE: usize = 16;
/// Replays of an address: 100 at once, then 50 a second.
const REPLAY_LIMIT: (Duration, u32) = (Duration::from_millis(20), 100);
/// Snapshots of an address: 20 at once, then two a second.
const SNAPSHOT_LIMIT: (Duration, u32) = (Duration::from_millis(500), 20);
/// Time to read each part of an answer.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// Most connections accepted in one turn.
const ACCEPTS: usize = 64;
/// Pause after a failed accept, so that a lack of file descriptors does not keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Idle time after which the system checks whether a client still exists.
const KEEPALIVE: Duration = Duration::from_secs(30);

const ACCEPTED: Letter = Letter(b'A');
const OUT_OF_RANGE: Letter = Letter(b'O');
const REPLAY_LIMIT_REACHED: Letter = Letter(b'D');
const SNAPSHOT_LIMIT_REACHED: Letter = Letter(b'b');
const TOO_MANY_SNAPSHOTS: Letter = Letter(b'c');

pub(crate) struct RecoveryServer {
    listener: ListenerId,
    /// When connections are accepted next. `None` until one waits.
    accept_at: Option<Instant>,
    /// Clients by token.
    clients: Vec<Option<ServedClient>>,
    replays: RateLimit,
    snapshots: RateLimit,
    send_patience: Duration,
}

impl RecoveryServer {
    /// Adds the listener to an event loop.
    ///
    /// # Errors
    ///
    /// Fails if the listener cannot be used.
    pub fn open(listener: TcpListener, net: &mut dyn EventLoop) -> io::Result<RecoveryServer> {
        // Accepted connections inherit both options.
        let socket = SockRef::from(&listener);
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
        Ok(RecoveryServer {
            listener: net.add_listener(listener)?,
            accept_at: None,
            clients: Vec::new(),
            replays: RateLimit::new(REPLAY_LIMIT.0, REPLAY_LIMIT.1),
            snapshots: RateLimit::new(SNAPSHOT_LIMIT.0, SNAPSHOT_LIMIT.1),
            send_patience: SEND_PATIENCE,
        })
    }

    pub fn note(&mut self, event: LoopEvent, now: Instant) {
        match event {
            LoopEvent::Acceptable(_) => drop(self.accept_at.get_or_insert(now)),
            LoopEvent::Readable(token) | LoopEvent::Writable(token) => {
                self.clients.get_mut(token.index()).into_iter().flatten().for_each(ServedClient::wake);
            }
            LoopEvent::Woken(_) => {}
        }
    }

    /// Returns when a turn is due. `None` if all wait for their sockets.
    pub fn due_at(&self, now: Instant) -> Option<Instant> {
        let clients = self.clients.iter().flatten().filter_map(|client| client.due_at(now));
        clients.chain(self.accept_at).min()
    }

    /// Takes a turn: accepts clients and serves them.
    pub fn serve(&mut self, net: &mut dyn EventLoop, feed: &mut FeedState, now: Instant) {
        if self.accept_at.is_some_and(|accept_at| now >= accept_at) {
            self.accept(net, &feed.counters, now);
        }
        for at in 0..self.clients.len() {
            let is_due = |client: &mut ServedClient| client.due_at(now).is_some_and(|due_at| now >= due_at);
            let Some(mut client) = self.clients.get_mut(at).and_then(|client| client.take_if(is_due)) else { continue };
            let served = self.serve_client(&mut client, net, feed, now);
            if let Ok(true) = served {
                self.clients[at] = Some(client);
                continue;
            }
            if let Err(error) = served {
                match error.kind() {
                    io::ErrorKind::TimedOut => count(&feed.counters.slow),
                    io::ErrorKind::InvalidData => count(&feed.counters.invalid),
                    _ => {}
                }
                info!(peer = %client.address, %error, "a recovery connection of the order feed ended");
            }
            client.close(net);
        }
    }

    fn accept(&mut self, net: &mut dyn EventLoop, counters: &FeedCounters, now: Instant) {
        for _ in 0..ACCEPTS {
            match net.accept(self.listener) {
                Ok(Some(accepted)) => self.admit(accepted, net, counters, now),
                Ok(None) => {
                    self.accept_at = None;
                    return;
                }
                Err(error) => {
                    warn!(%error, "cannot accept a recovery connection of the order feed");
                    self.accept_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, accepted: AcceptedSocket, net: &mut dyn EventLoop, counters: &FeedCounters, now: Instant) {
        let AcceptedSocket { token, peer } = accepted;
        let Some(address) = peer.map(|peer| peer.to_canonical()) else { return net.close(token) };
        let open = self.clients.iter().flatten();
        let own = open.clone().filter(|client| client.address == address).count();
        if open.count() >= MAX_CONNECTIONS || own >= MAX_CONNECTIONS_PER_ADDRESS {
            count(&counters.refused_connections);
            return net.close(token);
        }
        count(&counters.connections);
        if self.clients.len() <= token.index() {
            self.clients.resize_with(token.index() + 1, || None);
        }
        self.clients[token.index()] = Some(ServedClient::new(token, address, self.send_patience, now));
    }

    /// Serves a client for one turn. Returns whether the connection goes on.
    fn serve_client(
        &mut self,
        client: &mut ServedClient,
        net: &mut dyn EventLoop,
        feed: &mut FeedState,
        now: Instant,
    ) -> io::Result<bool> {
        if !client.check_deadline(now)? {
            return Ok(false);
        }
        if client.awaits_request() {
            let mut reply = self.act(client, feed, now)?;
            if reply.is_none() {
                if !client.receive(net, now)? {
                    return Ok(false);
                }
                reply = self.act(client, feed, now)?;
            }
            if reply.is_some_and(|reply| !client.reply(reply, now)) {
                return Ok(false);
            }
        }
        let goes_on = client.go_on(net, now)?;
        if client.is_answered() {
            match feed.encoding() {
                FeedEncoding::Mitch => client.await_request(now),
                FeedEncoding::Itch => client.end(net, now),
            }
        }
        Ok(goes_on)
    }

    /// Acts on the request at the front of the input. `None` if it is not complete.
    fn act(&mut self, client: &mut ServedClient, feed: &mut FeedState, now: Instant) -> io::Result<Option<Reply>> {
        match feed.encoding() {
            FeedEncoding::Mitch => {
                let request = take_request(&mut client.input)?;
                request.map(|request| self.answer(client, &request, feed, now)).transpose()
            }
            FeedEncoding::Itch => {
                let login = take_login(&mut client.input)?;
                Ok(login.map(|login| self.send_glimpse(&login, client.address, feed, now)))
            }
        }
    }

    fn answer(
        &mut self,
        client: &ServedClient,
        request: &MitchMessage,
        feed: &mut FeedState,
        now: Instant,
    ) -> io::Result<Reply> {
        Ok(match request {
            MitchMessage::LoginRequest(_) if client.is_logging_in() => {
                Reply::Now(message(&LoginResponse { status: ACCEPTED }))
            }
            other if client.is_logging_in() => {
                return Err(invalid(format!("expected a Login Request, not {}", other.name())));
            }
            MitchMessage::ReplayRequest(request) => self.replay(request, client.address, feed, now),
            MitchMessage::SnapshotRequest(_) => match self.snapshot(client.address, feed, now) {
                Ok(snapshot) => Reply::Now(Answer::snapshot(snapshot)),
                Err(status) => limited(feed, message(&SnapshotResponse { status, ..SnapshotResponse::default() })),
            },
            MitchMessage::LogoutRequest(_) => Reply::Close,
            other => return Err(invalid(format!("expected a request, not {}", other.name()))),
        })
    }

    fn replay(&mut self, request: &ReplayRequest, address: IpAddr, feed: &FeedState, now: Instant) -> Reply {
        let ReplayRequest { market_data_group, first_message, count: wanted } = *request;
        let mut response = ReplayResponse { market_data_group, first_message, ..ReplayResponse::default() };
        if !self.replays.take(address, now) {
            response.status = REPLAY_LIMIT_REACHED;
            return limited(feed, message(&response));
        }
        count(&feed.counters.replays);
        let Some(replay) = feed.replay(full_number(first_message, feed.next_number()), wanted) else {
            response =
                ReplayResponse { first_message: wire_number(feed.oldest_number()), status: OUT_OF_RANGE, ..response };
            return Reply::Now(message(&response));
        };
        response = ReplayResponse {
            first_message: wire_number(replay.first),
            count: replay.count,
            status: ACCEPTED,
            ..response
        };
        Reply::Now(message(&response).with(replay.units))
    }

    fn send_glimpse(&mut self, login: &GlimpseLogin, address: IpAddr, feed: &mut FeedState, now: Instant) -> Reply {
        if !login.is_for(feed.session()) {
            count(&feed.counters.invalid);
            return Reply::Now(rejection());
        }
        match self.snapshot(address, feed, now) {
            Ok(snapshot) => Reply::Now(Answer::snapshot(snapshot)),
            Err(_) => limited(feed, rejection()),
        }
    }

    /// Returns a snapshot, or the status that refuses it.
    fn snapshot(&mut self, address: IpAddr, feed: &mut FeedState, now: Instant) -> Result<Arc<[u8]>, Letter> {
        if !self.snapshots.take(address, now) {
            return Err(SNAPSHOT_LIMIT_REACHED);
        }
        let sending = self.clients.iter().flatten().filter(|client| client.reads_snapshot());
        if sending.count() >= MAX_SNAPSHOTS_AT_ONCE {
            return Err(TOO_MANY_SNAPSHOTS);
        }
        count(&feed.counters.snapshots);
        Ok(feed.snapshot(now))
    }
}

/// Takes a request off the front of received bytes. `None` if it is not complete.
fn take_request(input: &mut Vec<u8>) -> io::Result<Option<MitchMessage>> {
    let Some(header) = input.first_chunk::<UNIT_HEADER_BYTES>() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
    if !(UNIT_HEADER_BYTES..=MAX_UNIT_BYTES).contains(&length) {
        let expected = format!("{UNIT_HEADER_BYTES} to {MAX_UNIT_BYTES}");
        return Err(invalid(format!("a request states a length of {length} bytes: expected {expected}")));
    }
    let Some(bytes) = input.get(..length) else { return Ok(None) };
    let unit = Unit::read(bytes).map_err(|error| invalid(error.to_string()))?;
    let mut messages = unit.messages();
    let request = match (messages.next(), messages.next()) {
        (Some(Ok(message)), None) => message,
        (Some(Err(error)), _) => return Err(invalid(error.to_string())),
        _ => return Err(invalid("a request is a unit with one message".into())),
    };
    input.drain(..length);
    Ok(Some(request))
}

/// Returns the answer to a request above a limit.
fn limited(feed: &FeedState, answer: Answer) -> Reply {
    count(&feed.counters.limited);
    Reply::Limited(answer)
}

/// Returns an answer of one message.
fn message(message: &impl MitchEncode) -> Answer {
    let mut encoded = Vec::with_capacity(64);
    message.encode(&mut encoded);
    let mut units = UnitWriter::unnumbered();
    let mut unit = Vec::new();
    units.add(&encoded, |_, _| {});
    units.finish(|_, bytes| unit.extend_from_slice(bytes));
    Answer::message(unit)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;
    use std::thread;

    use pitwire_net::event_loop::LoopKind;
    use pitwire_order_feed::{AuctionTrade, LoginRequest};
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::feed_thread::{FeedThread, LOOP_OPTIONS};
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
        let mut feed = FeedState::new(PacketEncoder::mitch(), Vec::new(), Arc::clone(&counters));
        let mut messages = Vec::new();
        (0..MESSAGES).for_each(|_| AuctionTrade::default().encode(&mut messages));
        feed.take(&messages);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        SockRef::from(&listener).set_send_buffer_size(4_096).unwrap();
        let address = listener.local_addr().unwrap();
        // The thread ends with the process, because its queue stays open.
        let (queue, batches) = channel();
        thread::spawn(move || {
            let mut net = LoopKind::Epoll.open(LOOP_OPTIONS).unwrap();
            let mut recovery = RecoveryServer::open(listener, &mut *net).unwrap();
            recovery.send_patience = Duration::from_millis(100);
            FeedThread { net, batches, feed, recovery, requests: None }.run()
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
        drop(queue);
    }
}
