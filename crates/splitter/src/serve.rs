//! The server thread: metrics for Prometheus, and shards for their readers.
//!
//! Does        accepts and answers; sends each reader its shard's log, at the reader's
//!             own speed.
//! Holds       1. a reader costs at most [`OUT_BYTES`] beyond the log, and may send small messages
//!                only;
//!             2. connections above the limit, and requests that are not complete in time, are
//!                closed;
//!             3. nothing here can slow the feed.
//! Start at    [`serve`], then `ServerLoop::run`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use pitwire_shard::GapRecord;
use pitwire_websocket::{CloseCode, Decoder, Incoming, Limits, Opcode, write_close, write_frame};
use rustix::event::{PollFd, PollFlags, poll};
use tracing::warn;

use crate::clock::{epoch_ns, mono_ns, timespec};
use crate::http::{HttpRequest, answer, parse, refusal, switching};
use crate::metrics;
use crate::policy::SlowWorkerPolicy;
use crate::retained_log::{LogCursor, LogEntry};
use crate::shared_stats::SharedStats;
use crate::transport::{Transport, TransportOptions};
use crate::transport_error::TransportError;
use crate::ws_transport::{SharedShards, WsTransport};

const CONNECTIONS: usize = 256;
const REQUEST_NS: u64 = 5_000_000_000;
/// Time for a reader to receive the close frame.
const PARTING_NS: u64 = 1_000_000_000;
/// Frames are gathered for one write up to this many bytes. The last one may exceed it.
const OUT_BYTES: usize = 64 * 1024;
/// Out of file descriptors: time until the next accept.
const DEAF_NS: u64 = 500_000_000;
const TURN_NS: u64 = 500_000_000;
const MESSAGE_BYTES: usize = 4096;

/// A running server. Dropping it ends the server.
pub struct ShardServer {
    pub metrics: Option<SocketAddr>,
    pub shards: Option<SocketAddr>,
    stand: Arc<SharedShards>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server for shards (with their transport), metrics, or both.
///
/// # Errors
/// An address cannot be listened on, or the thread cannot be started.
pub fn serve(
    options: &TransportOptions,
    board: Arc<SharedStats>,
    shards_at: Option<SocketAddr>,
    metrics_at: Option<SocketAddr>,
) -> Result<(Option<Box<dyn Transport>>, ShardServer), TransportError> {
    let shards = if shards_at.is_some() { options.workers } else { 0 };
    let stand = SharedShards::new(shards, options.policy, options.gap_records)?;
    let server = ShardServer::start(Arc::clone(&stand), board, shards_at, metrics_at)?;
    let transport =
        shards_at.map(|_| Box::new(WsTransport::new(stand, Arc::clone(&options.stop))) as Box<dyn Transport>);
    Ok((transport, server))
}

struct ServerListener {
    socket: TcpListener,
    address: SocketAddr,
    is_metrics: bool,
}

enum ConnectionState {
    /// The request is not complete.
    Asking(Vec<u8>),
    /// The last bytes are being sent; then the connection is closed.
    Leaving,
    Reading(Box<ShardReader>),
}

struct ShardReader {
    shard: usize,
    cursor: LogCursor,
    received: Vec<u8>,
    decoder: Decoder,
    /// Frames taken from the log under the lock; empty otherwise.
    fetched: Vec<LogEntry>,
}

struct ServerConnection {
    socket: TcpStream,
    state: ConnectionState,
    out: Vec<u8>,
    sent: usize,
    until_ns: u64,
    address: SocketAddr,
    is_metrics: bool,
}

impl ShardServer {
    fn start(
        stand: Arc<SharedShards>,
        board: Arc<SharedStats>,
        listen: Option<SocketAddr>,
        metrics: Option<SocketAddr>,
    ) -> Result<Self, TransportError> {
        let mut listeners = Vec::new();
        for (wanted, is_metrics) in [(listen, false), (metrics, true)] {
            let Some(wanted) = wanted else { continue };
            let failed = |error: io::Error| {
                TransportError::new(
                    format!("cannot listen on {wanted}: {error}"),
                    "choose another address or port; port 0 takes any free one",
                )
            };
            let socket = TcpListener::bind(wanted).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            let address = socket.local_addr().map_err(failed)?;
            listeners.push(ServerListener { socket, address, is_metrics });
        }
        let address_of = |wanted| listeners.iter().find(|listener| listener.is_metrics == wanted).map(|it| it.address);
        let (metrics, shards) = (address_of(true), address_of(false));
        let (stand_of_turn, connections) = (Arc::clone(&stand), Vec::new());
        let turn =
            ServerLoop { stand: stand_of_turn, board, listeners, connections, deaf_until_ns: 0, is_deaf_told: false };
        let thread = std::thread::Builder::new().name("serve".into()).spawn(move || turn.run());
        let thread = thread.map_err(|error| {
            TransportError::new(format!("cannot start a thread: {error}"), "raise the limit of processes")
        })?;
        Ok(ShardServer { metrics, shards, stand, thread: Some(thread) })
    }
}

impl Drop for ShardServer {
    fn drop(&mut self) {
        self.stand.is_ending.store(true, Ordering::SeqCst);
        self.stand.ring();
        if let Some(thread) = self.thread.take() {
            // A server that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

struct ServerLoop {
    stand: Arc<SharedShards>,
    board: Arc<SharedStats>,
    listeners: Vec<ServerListener>,
    connections: Vec<ServerConnection>,
    /// Out of file descriptors: stop accepting until this time, or poll would spin.
    deaf_until_ns: u64,
    is_deaf_told: bool,
}

impl ServerLoop {
    fn run(mut self) {
        let mut ending_ns = None;
        loop {
            if self.stand.is_ending.load(Ordering::SeqCst) && ending_ns.is_none() {
                ending_ns = Some(mono_ns() + PARTING_NS);
                self.say_goodbye();
            }
            let is_over = ending_ns.is_some_and(|ending_ns| self.connections.is_empty() || mono_ns() >= ending_ns);
            if is_over {
                return;
            }
            self.wait();
            if ending_ns.is_none() {
                self.accept();
            }
            self.serve();
        }
    }

    fn wait(&self) {
        self.stand.fall_asleep();
        let is_ready = self.connections.iter().any(|connection| self.has_something(connection));
        let mut fds = vec![PollFd::new(&self.stand.bell, PollFlags::IN)];
        let at_door = if mono_ns() < self.deaf_until_ns { PollFlags::empty() } else { PollFlags::IN };
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(&listener.socket, at_door)));
        fds.extend(self.connections.iter().map(|connection| {
            let wanted = if connection.out.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            PollFd::new(&connection.socket, wanted)
        }));
        // A failed poll is a pass without events.
        let _ = poll(&mut fds, Some(&timespec(if is_ready { 0 } else { TURN_NS })));
        self.stand.wake_up();
    }

    /// Returns whether a frame could be written at once.
    fn has_something(&self, connection: &ServerConnection) -> bool {
        let ConnectionState::Reading(reader) = &connection.state else { return false };
        connection.out.is_empty() && self.stand.shards[reader.shard].lock().log.waiting_bytes(reader.cursor) > 0
    }

    fn accept(&mut self) {
        if mono_ns() < self.deaf_until_ns {
            return;
        }
        for listener in &self.listeners {
            loop {
                let socket = match listener.socket.accept() {
                    Ok((socket, _)) => socket,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // The client is already gone.
                    Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {
                        continue;
                    }
                    Err(error) => {
                        self.deaf_until_ns = mono_ns() + DEAF_NS;
                        if !std::mem::replace(&mut self.is_deaf_told, true) {
                            warn!("cannot let anybody in: {error}; allow more open files (ulimit -n)");
                        }
                        return;
                    }
                };
                self.is_deaf_told = false;
                // A connection above the limit is closed at once, as is a socket that cannot be set
                // up.
                if self.connections.len() >= CONNECTIONS || socket.set_nonblocking(true).is_err() {
                    continue;
                }
                // Frames are gathered here, so the kernel need not delay them.
                let _ = socket.set_nodelay(true);
                self.connections.push(ServerConnection {
                    socket,
                    state: ConnectionState::Asking(Vec::new()),
                    out: Vec::new(),
                    sent: 0,
                    until_ns: mono_ns() + REQUEST_NS,
                    address: listener.address,
                    is_metrics: listener.is_metrics,
                });
            }
        }
    }

    fn serve(&mut self) {
        let now_ns = mono_ns();
        let ServerLoop { stand, board, connections, .. } = self;
        connections.retain_mut(|connection| {
            let stays = connection.turn(stand, board, now_ns);
            if !stays && let ConnectionState::Reading(reader) = &connection.state {
                stand.shards[reader.shard].lock().readers -= 1;
                stand.shards[reader.shard].has_moved();
            }
            stays
        });
        for (index, shard) in stand.shards.iter().enumerate() {
            let of_shard = connections.iter().filter_map(|connection| match &connection.state {
                ConnectionState::Reading(reader) if reader.shard == index => Some(reader.cursor),
                _ => None,
            });
            if let Some(slowest) = of_shard.min() {
                let mut state = shard.lock();
                state.slowest = slowest;
                state.log.forget(slowest);
                drop(state);
                shard.has_moved();
            }
        }
    }

    fn say_goodbye(&mut self) {
        for connection in &mut self.connections {
            if let ConnectionState::Reading(_) = &connection.state {
                connection.part(&self.stand, CloseCode::GoingAway, "the splitter ends");
            } else {
                connection.until_ns = 0;
            }
        }
    }
}

impl ServerConnection {
    /// Reads, answers and writes. Returns whether the connection stays open.
    fn turn(&mut self, stand: &SharedShards, board: &SharedStats, now_ns: u64) -> bool {
        if !matches!(self.state, ConnectionState::Reading(_)) && now_ns >= self.until_ns {
            return false;
        }
        let (mut bytes, mut is_open) = ([0; MESSAGE_BYTES], true);
        match self.socket.read(&mut bytes) {
            Ok(0) => is_open = false,
            Ok(count) => self.hear(&bytes[..count], stand, board),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        if !is_open {
            return false;
        }
        self.fetch(stand);
        self.write() && !(matches!(self.state, ConnectionState::Leaving) && self.out.is_empty())
    }

    fn hear(&mut self, bytes: &[u8], stand: &SharedShards, board: &SharedStats) {
        match &mut self.state {
            ConnectionState::Asking(received) => {
                received.extend_from_slice(bytes);
                let parsed = parse(received, self.address);
                self.respond(parsed, stand, board);
            }
            ConnectionState::Leaving => {}
            ConnectionState::Reading(reader) => {
                reader.received.extend_from_slice(bytes);
                self.listen(stand);
            }
        }
    }

    fn respond(&mut self, parsed: HttpRequest, stand: &SharedShards, board: &SharedStats) {
        let last_words = match parsed {
            HttpRequest::NeedMore => return,
            HttpRequest::Upgrade { path, accept } if !self.is_metrics => match shard_of(&path, stand.shards.len()) {
                Some(shard) => {
                    self.out = switching(&accept);
                    let mut state = stand.shards[shard].lock();
                    let cursor = state.log.end();
                    if state.readers == 0 {
                        state.slowest = cursor;
                    }
                    state.readers += 1;
                    let limits = Limits { message_bytes: MESSAGE_BYTES, fragments: 16 };
                    let (received, decoder, fetched) = (Vec::new(), Decoder::new(limits), Vec::new());
                    self.state =
                        ConnectionState::Reading(Box::new(ShardReader { shard, cursor, received, decoder, fetched }));
                    return;
                }
                None => refusal(404, "no such shard; /shard/0 is the first"),
            },
            HttpRequest::Get { path } if self.is_metrics && path == "/metrics" => {
                answer(200, "text/plain; version=0.0.4; charset=utf-8", &metrics::text(&board.read()))
            }
            HttpRequest::Get { path } if path == "/healthz" => answer(200, "application/json", "{\"status\":\"ok\"}\n"),
            HttpRequest::Get { .. } | HttpRequest::Upgrade { .. } if self.is_metrics => {
                refusal(404, "/metrics is what there is")
            }
            HttpRequest::Get { .. } | HttpRequest::Upgrade { .. } => {
                refusal(404, "shards are read over WebSocket, from /shard/0 on")
            }
            HttpRequest::Refuse(status, why) => refusal(status, why),
        };
        self.out = last_words;
        self.state = ConnectionState::Leaving;
    }

    /// Handles a reader's frames: answers pings and closes, ignores everything else.
    fn listen(&mut self, stand: &SharedShards) {
        loop {
            let ConnectionState::Reading(reader) = &mut self.state else { return };
            let ShardReader { received, decoder, .. } = reader.as_mut();
            let used = match decoder.decode(received) {
                Ok((0, _)) => return,
                Ok((used, incoming)) => {
                    match incoming {
                        // Bounds the answers to a reader that sends pings and never reads.
                        Some(Incoming::Ping(body)) if self.out.len() < OUT_BYTES => {
                            write_frame(&mut self.out, Opcode::Pong, body)
                        }
                        Some(Incoming::Close(_)) => return self.part(stand, CloseCode::Normal, ""),
                        _ => {}
                    }
                    used
                }
                Err(error) => return self.part(stand, error.code, error.reason),
            };
            received.drain(..used);
        }
    }

    fn part(&mut self, stand: &SharedShards, code: CloseCode, reason: &str) {
        if let ConnectionState::Reading(reader) = &self.state {
            stand.shards[reader.shard].lock().readers -= 1;
            stand.shards[reader.shard].has_moved();
        }
        write_close(&mut self.out, code, reason);
        self.state = ConnectionState::Leaving;
        self.until_ns = mono_ns() + PARTING_NS;
    }

    /// Takes frames from the log, once the earlier ones are written.
    fn fetch(&mut self, stand: &SharedShards) {
        if !self.out.is_empty() {
            return;
        }
        let ConnectionState::Reading(reader) = &mut self.state else { return };
        let mut fetched = std::mem::take(&mut reader.fetched);
        stand.shards[reader.shard].lock().log.take(&mut reader.cursor, OUT_BYTES, &mut fetched);
        // Copied without the lock, because the routing thread may be waiting for it.
        for next in fetched.drain(..) {
            match next {
                LogEntry::Nothing => {}
                LogEntry::Frame(frame) => self.out.extend_from_slice(&frame),
                LogEntry::Missed(objects) => {
                    stand.dropped.fetch_add(objects, Ordering::Relaxed);
                    if stand.policy == SlowWorkerPolicy::Restart {
                        return self.part(stand, CloseCode::TryAgainLater, "too slow for this feed; connect again");
                    }
                    if stand.gap_records {
                        stand.gaps.fetch_add(1, Ordering::Relaxed);
                        let connection = stand.connection.load(Ordering::Relaxed);
                        let gap = GapRecord { connection, at_ns: epoch_ns(), dropped: Some(objects), restarts: None };
                        write_frame(&mut self.out, Opcode::Text, format!("[{}]", gap.text()).as_bytes());
                    }
                }
            }
        }
        if let ConnectionState::Reading(reader) = &mut self.state {
            reader.fetched = fetched;
        }
    }

    /// Writes as much as the socket accepts. Returns whether the connection is still open.
    fn write(&mut self) -> bool {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(0) => return false,
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        self.out.clear();
        self.sent = 0;
        true
    }
}

/// Parses `/shard/N` and checks that the shard exists.
fn shard_of(path: &str, shards: usize) -> Option<usize> {
    let digits = path.strip_prefix("/shard/")?;
    let is_unencrypted =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|shard| is_unencrypted && *shard < shards)
}

#[cfg(test)]
mod tests {
    use super::shard_of;

    #[test]
    fn shard_paths_are_parsed_strictly() {
        for (path, expected) in [
            ("/shard/0", Some(0)),
            ("/shard/3", Some(3)),
            ("/shard/4", None),
            ("/shard/00", None),
            ("/shard/+1", None),
            ("/shard/", None),
            ("/shard/1/", None),
            ("/", None),
            ("/shard/99999999999999999999", None),
        ] {
            assert_eq!(shard_of(path, 4), expected, "{path}");
        }
    }
}
