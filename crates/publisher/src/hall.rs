//! Halls and their threads, and the one to whom they are subject.
//!
//! Does        start as many halls as asked, on one address; give every one in use each message; find the hall that a
//!             connection is in.
//! Holds       whoever publishes never waits for a hall.
//! Start at    [`Publisher::start`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pitwire_tls::{ServerConfig, Session};
use pitwire_websocket::{CloseCode, Opcode};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tracing::warn;

use crate::board::Board;
use crate::floor::{Floor, Limits, Setting};
use crate::inbox::{Arrival, Errand, Inbox, Posted};
use crate::loops::{self, BatchingPolicy, Kind, Task};
use crate::programme::{GoOn, Opening, Programme, Tag};
use crate::request::Doors;
use pitwire_delivery::FrameHeader;
use pitwire_delivery::{StreamId, StreamSpec};

/// How a publisher is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nothing is accepted if absent: sockets come through [`Publisher::adopt`].
    pub listen: Option<SocketAddr>,
    pub threads: usize,
    pub kind: Kind,
    pub limits: Limits,
    pub batching: BatchingPolicy,
    /// Of each hall's queue.
    pub inbox_bytes: usize,
    /// Of each socket, in the kernel: what a reader that stops can hold there.
    pub send_buffer_bytes: usize,
    pub connections_most: usize,
    pub per_address: Option<u32>,
    pub per_account: Option<u32>,
    /// Names besides loopback and the bound address under which it is reached; origins of pages that may come.
    pub hosts: Vec<String>,
    pub origins: Vec<String>,
    /// Names this start in resume tokens: milliseconds since 1970.
    pub epoch: u64,
    /// Payloads of the answer that [`Reply::respond`](crate::Reply::respond) sends.
    pub answer: Vec<Vec<u8>>,
    pub seed: u64,
    /// Every reader gets messages in the envelope: of streams that are kept, this form is from the beginning.
    pub enveloped: bool,
    /// Whoever connects to `listen` speaks TLS. Served by epoll, whatever `kind` says.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: None,
            threads: 1,
            kind: Kind::default(),
            limits: Limits::default(),
            batching: BatchingPolicy::default(),
            inbox_bytes: 8 << 20,
            send_buffer_bytes: 256 * 1024,
            connections_most: usize::MAX,
            per_address: None,
            per_account: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            epoch: 0,
            answer: Vec::new(),
            seed: 1,
            enveloped: false,
            tls: None,
        }
    }
}

/// The halls of a process.
pub struct Publisher {
    inboxes: Vec<Arc<Inbox>>,
    threads: Mutex<Vec<JoinHandle<io::Result<()>>>>,
    board: Arc<Board>,
    /// Streams are made in the same order everywhere.
    streams: Mutex<u32>,
    address: Option<SocketAddr>,
    /// Its loops can go on with a session of TLS.
    knows_tls: bool,
}

/// Messages on their way into the halls. Kept and used again: it allocates nothing once it is large enough.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    messages: Vec<Posted>,
}

impl Batch {
    /// `seq` is above all before it in this stream. `key` says whose latest message this is; empty where all are one.
    pub fn text(&mut self, stream: StreamId, key: &[u8], seq: u64, payload: &[u8]) {
        self.push(stream, key, seq, payload, false);
    }

    pub fn binary(&mut self, stream: StreamId, key: &[u8], seq: u64, payload: &[u8]) {
        self.push(stream, key, seq, payload, true);
    }

    fn push(&mut self, stream: StreamId, key: &[u8], seq: u64, payload: &[u8], is_binary: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        self.messages.push(Posted { stream, seq, start, key_len: key.len(), len: payload.len(), is_binary });
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }
}

impl Publisher {
    pub fn start(options: Options, programme: Arc<dyn Programme>) -> io::Result<Self> {
        let kind = kind_of(&options);
        if kind == Kind::Uring {
            loops::uring::check()?;
        }
        let halls = options.threads.max(1);
        let board = Arc::new(Board::new(halls, options.per_address, options.per_account));
        let mut listeners = listen(&options, halls)?.into_iter();
        let mut address = None;
        let inboxes = (0..halls).map(|_| Inbox::new(options.inbox_bytes).map(Arc::new)).collect::<io::Result<_>>()?;
        let mut publisher = Publisher {
            inboxes,
            threads: Mutex::default(),
            board: Arc::clone(&board),
            streams: Mutex::new(0),
            address: None,
            knows_tls: kind == Kind::Epoll,
        };
        for (hall, inbox) in publisher.inboxes.iter().enumerate() {
            let listener = listeners.next();
            address = address.or(listener.as_ref().map(TcpListener::local_addr).transpose()?);
            let bound = address.map_or(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), |address| address.ip());
            let setting = Setting {
                programme: Arc::clone(&programme),
                board: Arc::clone(&board),
                hall,
                limits: options.limits.clone(),
                doors: Doors { bound, hosts: options.hosts.clone(), origins: options.origins.clone() },
                epoch: options.epoch,
                answer: frames(&options.answer),
                seed: options.seed.wrapping_add(hall as u64),
                enveloped: options.enveloped,
            };
            let task = Task {
                floor: Floor::new(setting),
                inbox: Arc::clone(inbox),
                board: Arc::clone(&board),
                hall,
                listener,
                tls: options.tls.clone(),
                connections_most: options.connections_most,
                batching: options.batching,
            };
            let thread = std::thread::Builder::new().name(format!("hall-{hall}")).spawn(move || match kind {
                Kind::Epoll => loops::epoll::run(task),
                Kind::Uring => loops::uring::run(task),
            })?;
            publisher.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        publisher.address = address;
        Ok(publisher)
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// A new stream. Its name may hold letters, digits and `-_.@/:`, nothing that JSON would have to escape.
    pub fn create(&self, spec: &StreamSpec) -> StreamId {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let id = StreamId(*streams);
        *streams += 1;
        self.board.add_stream();
        for inbox in &self.inboxes {
            inbox.run(Errand::Create(spec.clone()));
        }
        id
    }

    /// How many read a stream.
    pub fn listeners(&self, stream: StreamId) -> u32 {
        self.board.listeners(stream)
    }

    /// Gives every hall the batch's messages, and empties it.
    pub fn send(&self, batch: &mut Batch) {
        if !batch.messages.is_empty() {
            for inbox in &self.inboxes {
                inbox.put(&batch.messages, &batch.bytes);
            }
        }
        batch.bytes.clear();
        batch.messages.clear();
    }

    /// Whether no hall's queue is more than half full. Whoever must not lose anything here, and can wait, does.
    pub fn has_room(&self) -> bool {
        self.inboxes.iter().all(|inbox| inbox.has_room())
    }

    fn inbox(&self, tag: Tag) -> &Inbox {
        // There are as many as the board counts halls.
        &self.inboxes[self.board.hall_of(tag)]
    }

    /// Hands over a connection whose request, of which `received` has been read, the hall is to answer.
    pub fn adopt(&self, socket: TcpStream, tag: Tag, received: Vec<u8>) {
        self.inbox(tag).run(Errand::Adopt(Box::new(Arrival { socket, tls: None, tag, received, upgraded: None })));
    }

    /// Hands over a connection whose handshake has been done: `hello` is sent first (the 101 if it has not been sent,
    /// and frames), then what `opening` says; `received` is what was read behind the request.
    /// `tls`: the session in which all of it goes.
    pub fn adopt_open(
        &self,
        socket: TcpStream,
        tls: Option<Session>,
        tag: Tag,
        received: Vec<u8>,
        hello: Vec<u8>,
        opening: Opening,
    ) {
        if tls.is_some() && !self.knows_tls {
            warn!("a connection with TLS has come to a loop without: it is closed");
            return;
        }
        let upgraded = Some((hello, opening));
        self.inbox(tag).run(Errand::Adopt(Box::new(Arrival {
            socket,
            tls: tls.map(Box::new),
            tag,
            received,
            upgraded,
        })));
    }

    /// Says one text message to one subscriber, before anything of its streams that comes later.
    pub fn tell(&self, to: Tag, payload: &[u8]) {
        let header = FrameHeader::new(Opcode::Text, payload.len(), false);
        self.tell_frames(to, [header.as_bytes(), payload].concat());
    }

    /// The same with frames that are ready for the wire.
    pub fn tell_frames(&self, to: Tag, frames: Vec<u8>) {
        self.inbox(to).run(Errand::Tell { to, frames });
    }

    /// So much of what a subscriber said, and what was to [wait](crate::Reply::wait), has been acted on: the sum of its
    /// messages' [weights](crate::weight). Said after it has been told the answers.
    pub fn heard(&self, to: Tag, weight: u32) {
        self.inbox(to).run(Errand::Heard { to, weight });
    }

    pub fn join(&self, to: Tag, stream: StreamId) {
        self.inbox(to).run(Errand::Join { to, stream, read: None });
    }

    /// The same for a stream whose lag is [`Ask`](crate::LagPolicy::Ask), and one that has got all of it up to number `read`: what is
    /// not there of what follows, [`Programme::behind`] is asked for.
    pub fn join_behind(&self, to: Tag, stream: StreamId, read: u64) {
        self.inbox(to).run(Errand::Join { to, stream, read: Some(read) });
    }

    pub fn leave(&self, to: Tag, stream: StreamId) {
        self.inbox(to).run(Errand::Leave { to, stream });
    }

    /// The next message of a stream that nobody reads comes behind this number.
    pub fn begin(&self, stream: StreamId, seq: u64) {
        for inbox in &self.inboxes {
            inbox.run(Errand::Begin { stream, seq });
        }
    }

    /// Answers [`Programme::behind`]. Said behind all messages up to the number that it names. Whoever does not wait for it any
    /// more, or has read further, is not told.
    pub fn go_on(&self, to: Tag, stream: StreamId, read: u64, how: GoOn) {
        self.inbox(to).run(Errand::GoOn { to, stream, read, how });
    }

    pub fn close(&self, to: Tag, code: CloseCode, reason: &str) {
        self.inbox(to).run(Errand::Close { to, code, reason: reason.to_owned() });
    }

    /// Tells everybody goodbye (1001) and waits until they have gone, or have had their time.
    pub fn stop(&self, reason: &str) -> io::Result<()> {
        for inbox in &self.inboxes {
            inbox.run(Errand::Stop { reason: reason.to_owned() });
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a hall's thread panicked")))?;
        }
        Ok(())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // Whoever wants to know how it ended calls `stop`.
        let _ = self.stop("the publisher ends");
    }
}

/// TLS is epoll's alone.
fn kind_of(options: &Options) -> Kind {
    if options.tls.is_some() { Kind::Epoll } else { options.kind }
}

/// One listening socket a hall, on one address: the kernel deals connections out.
///
/// The first listens alone, so that it fails where anybody listens already, another publisher too; only then does it let
/// others beside it. Two that start at once so cannot both succeed, and nobody in between either.
fn listen(options: &Options, halls: usize) -> io::Result<Vec<TcpListener>> {
    let Some(mut address) = options.listen else { return Ok(Vec::new()) };
    let mut listeners = Vec::new();
    for hall in 0..halls {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        if hall > 0 {
            rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
        }
        // Accepted sockets inherit all of this: no call for each of them.
        socket.set_send_buffer_size(options.send_buffer_bytes)?;
        prepare_socket(SockRef::from(&socket));
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        if hall == 0 && halls > 1 {
            rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
        }
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Small frames leave at once; and of the congestion controls the one that does not collapse where processors are scarce.
/// Best effort: a machine without it has another.
pub(crate) fn prepare_socket(socket: SockRef<'_>) {
    let _ = socket.set_tcp_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_congestion(&*socket, "cubic");
}

fn frames(payloads: &[Vec<u8>]) -> Arc<[u8]> {
    let mut all = Vec::new();
    for payload in payloads {
        all.extend_from_slice(FrameHeader::new(Opcode::Text, payload.len(), false).as_bytes());
        all.extend_from_slice(payload);
    }
    all.into()
}
