//! The publisher: starts the delivery threads and passes messages and instructions to them.
//!
//! Does        Starts the threads on one address, gives each thread every message, and finds the
//!             thread of a connection.
//! Holds       The publishing thread never waits for a delivery thread.
//! Start at    [`Publisher::start`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pitwire_net::{OriginPolicy, start_loop_thread};
use pitwire_tls::{ServerConfig, Session};
use pitwire_websocket::{CloseCode, Opcode};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::delivery_core::{CoreSettings, DeliveryCore, SubscriberLimits};
use crate::delivery_thread::{self, DeliveryThread, LOOP_OPTIONS, ThreadSetup, prepare_socket};
use crate::handler::{DeliveryHandler, LagAnswer, SubscriberId, SubscriberSetup};
use crate::inbox::{ControlMessage, HandedOffSocket, Inbox, QueuedMessage};
use crate::pass_timer::BatchingPolicy;
use pitwire_net::event_loop::LoopKind;

use crate::statistics::SharedStatistics;
use pitwire_delivery::FrameHeader;
use pitwire_delivery::{StreamId, StreamSpec};

/// Settings of a publisher.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on. Without one, sockets come through [`Publisher::adopt`].
    pub listen: Option<SocketAddr>,
    pub threads: usize,
    pub kind: LoopKind,
    pub limits: SubscriberLimits,
    pub batching: BatchingPolicy,
    /// Capacity of each thread's inbox in bytes.
    pub inbox_bytes: usize,
    /// Send buffer of each socket in the kernel, in bytes. A reader that stops can hold as much
    /// there.
    pub send_buffer_bytes: usize,
    pub connections_most: usize,
    pub per_address: Option<u32>,
    pub per_account: Option<u32>,
    /// Accepted host names besides loopback and the bound address, and accepted origins of pages.
    pub hosts: Vec<String>,
    pub origins: Vec<String>,
    /// Epoch in resume tokens: the start time in milliseconds since 1970.
    pub epoch: u64,
    /// Payloads that [`Reply::respond`](crate::Reply::respond) sends.
    pub answer: Vec<Vec<u8>>,
    pub seed: u64,
    /// Whether every subscriber gets messages in the envelope. Streams that keep messages keep them
    /// in this format.
    pub enveloped: bool,
    /// TLS settings of `listen`.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: None,
            threads: 1,
            kind: LoopKind::default(),
            limits: SubscriberLimits::default(),
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

/// The delivery threads of a process.
pub struct Publisher {
    inboxes: Vec<Arc<Inbox>>,
    threads: Mutex<Vec<JoinHandle<io::Result<()>>>>,
    statistics: Arc<SharedStatistics>,
    /// Number of streams. All threads create them in the same order.
    streams: Mutex<u32>,
    address: Option<SocketAddr>,
}

/// Messages on their way to the delivery threads. Reused, it allocates nothing once it is large
/// enough.
#[derive(Debug, Default)]
pub struct MessageBatch {
    bytes: Vec<u8>,
    messages: Vec<QueuedMessage>,
}

impl MessageBatch {
    /// Adds a text message. `seq` must exceed every earlier number of the stream. `key` names what
    /// this message is the latest of; it is empty for a stream without keys.
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
        self.messages.push(QueuedMessage { stream, seq, start, key_len: key.len(), len: payload.len(), is_binary });
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
    /// Binds the listener and starts the delivery threads.
    ///
    /// # Errors
    ///
    /// Returns an error if the event loop is not available or the address cannot be bound.
    pub fn start(options: Options, handler: Arc<dyn DeliveryHandler>) -> io::Result<Self> {
        let kind = options.kind;
        kind.check(LOOP_OPTIONS)?;
        let threads = options.threads.max(1);
        let statistics = Arc::new(SharedStatistics::new(threads, options.per_address, options.per_account));
        let mut listeners = listen(&options, threads)?.into_iter();
        let mut address = None;
        let inboxes = (0..threads).map(|_| Arc::new(Inbox::new(options.inbox_bytes))).collect();
        let mut publisher = Publisher {
            inboxes,
            threads: Mutex::default(),
            statistics: Arc::clone(&statistics),
            streams: Mutex::new(0),
            address: None,
        };
        for (thread, inbox) in publisher.inboxes.iter().enumerate() {
            let listener = listeners.next();
            address = address.or(listener.as_ref().map(TcpListener::local_addr).transpose()?);
            let bound = address.map_or(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), |address| address.ip());
            let settings = CoreSettings {
                handler: Arc::clone(&handler),
                statistics: Arc::clone(&statistics),
                thread,
                limits: options.limits.clone(),
                origins: OriginPolicy::new(bound, &options.hosts)
                    .with_origins(&options.origins)
                    .over_tls(options.tls.is_some()),
                epoch: options.epoch,
                answer: frames(&options.answer),
                seed: options.seed.wrapping_add(thread as u64),
                enveloped: options.enveloped,
            };
            let setup = ThreadSetup {
                core: DeliveryCore::new(settings),
                inbox: Arc::clone(inbox),
                statistics: Arc::clone(&statistics),
                thread,
                listener,
                tls: options.tls.clone(),
                connections_most: options.connections_most,
                batching: options.batching,
            };
            let name = format!("delivery-{thread}");
            let open = move || delivery_thread::open(setup, kind);
            let thread = start_loop_thread(&name, open, DeliveryThread::serve_all)?;
            publisher.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        publisher.address = address;
        Ok(publisher)
    }

    /// Returns io_uring if this machine offers it to delivery threads, else epoll and the reason.
    pub fn best_loop() -> (LoopKind, Option<io::Error>) {
        LoopKind::best(LOOP_OPTIONS)
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub fn statistics(&self) -> &Arc<SharedStatistics> {
        &self.statistics
    }

    /// Creates a stream. Its name may consist of letters, digits and `-_.@/:`, so that JSON needs
    /// no escapes.
    pub fn create(&self, spec: &StreamSpec) -> StreamId {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let id = StreamId(*streams);
        *streams += 1;
        self.statistics.add_stream();
        for inbox in &self.inboxes {
            inbox.control(ControlMessage::Create(spec.clone()));
        }
        id
    }

    /// Returns the number of subscribers of a stream.
    pub fn listeners(&self, stream: StreamId) -> u32 {
        self.statistics.listeners(stream)
    }

    /// Sends the messages of a batch to every thread and empties the batch.
    pub fn send(&self, batch: &mut MessageBatch) {
        if !batch.messages.is_empty() {
            for inbox in &self.inboxes {
                inbox.put(&batch.messages, &batch.bytes);
            }
        }
        batch.bytes.clear();
        batch.messages.clear();
    }

    /// Returns whether every inbox is at most half full. A source that can wait uses it to lose
    /// nothing.
    pub fn has_room(&self) -> bool {
        self.inboxes.iter().all(|inbox| inbox.has_room())
    }

    fn inbox(&self, id: SubscriberId) -> &Inbox {
        // The shared statistics know the same number of threads.
        &self.inboxes[self.statistics.thread_of(id)]
    }

    /// Hands over a connection whose request the delivery thread answers. `received` contains the
    /// bytes read so far.
    pub fn adopt(&self, socket: TcpStream, id: SubscriberId, received: Vec<u8>) {
        self.inbox(id).control(ControlMessage::Adopt(Box::new(HandedOffSocket {
            socket,
            tls: None,
            id,
            received,
            upgraded: None,
        })));
    }

    /// Hands over a connection after its handshake. `response` is sent first: the response to the
    /// handshake if it has not been sent, and frames. The setup in `setup` applies after that.
    /// `received` contains the bytes read after the request.
    pub fn adopt_open(
        &self,
        socket: TcpStream,
        tls: Option<Session>,
        id: SubscriberId,
        received: Vec<u8>,
        response: Vec<u8>,
        setup: SubscriberSetup,
    ) {
        let upgraded = Some((response, setup));
        self.inbox(id).control(ControlMessage::Adopt(Box::new(HandedOffSocket {
            socket,
            tls: tls.map(Box::new),
            id,
            received,
            upgraded,
        })));
    }

    /// Sends one text message to one subscriber, before later messages of its streams.
    pub fn send_text(&self, to: SubscriberId, payload: &[u8]) {
        let header = FrameHeader::new(Opcode::Text, payload.len(), false);
        self.send_frames(to, [header.as_bytes(), payload].concat());
    }

    /// Sends encoded frames to one subscriber, before later messages of its streams.
    pub fn send_frames(&self, to: SubscriberId, frames: Vec<u8>) {
        self.inbox(to).control(ControlMessage::Frames { to, frames });
    }

    /// Reports that waiting messages of a subscriber have been handled: `weight` is the sum of
    /// their [weights](crate::weight). Call it after their answers were sent.
    pub fn processed(&self, to: SubscriberId, weight: u32) {
        self.inbox(to).control(ControlMessage::Processed { to, weight });
    }

    pub fn join(&self, to: SubscriberId, stream: StreamId) {
        self.inbox(to).control(ControlMessage::Join { to, stream, read: None });
    }

    /// Subscribes a connection that has received everything up to number `read`, to a stream with
    /// [`LagPolicy::Ask`](crate::LagPolicy::Ask). If the ring has lost newer messages,
    /// [`DeliveryHandler::behind`] is called.
    pub fn join_behind(&self, to: SubscriberId, stream: StreamId, read: u64) {
        self.inbox(to).control(ControlMessage::Join { to, stream, read: Some(read) });
    }

    pub fn leave(&self, to: SubscriberId, stream: StreamId) {
        self.inbox(to).control(ControlMessage::Leave { to, stream });
    }

    /// Restarts a stream without subscribers: its next message follows number `seq`.
    pub fn restart(&self, stream: StreamId, seq: u64) {
        for inbox in &self.inboxes {
            inbox.control(ControlMessage::Restart { stream, seq });
        }
    }

    /// Answers [`DeliveryHandler::behind`]. Call it after sending all messages up to the number
    /// that it names. A subscriber that no longer waits for the answer ignores it.
    pub fn go_on(&self, to: SubscriberId, stream: StreamId, read: u64, answer: LagAnswer) {
        self.inbox(to).control(ControlMessage::LagAnswer { to, stream, read, answer });
    }

    pub fn close(&self, to: SubscriberId, code: CloseCode, reason: &str) {
        self.inbox(to).control(ControlMessage::Close { to, code, reason: reason.to_owned() });
    }

    /// Closes every connection with code 1001 and waits until they have closed or their time is up.
    ///
    /// # Errors
    /// The error with which a delivery thread ended.
    pub fn stop(&self, reason: &str) -> io::Result<()> {
        for inbox in &self.inboxes {
            inbox.control(ControlMessage::Stop { reason: reason.to_owned() });
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a delivery thread panicked")))?;
        }
        Ok(())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // A caller that needs the outcome calls `stop` before.
        let _ = self.stop("the publisher ends");
    }
}

/// Opens one listening socket per thread on one address; the kernel spreads connections over them.
///
/// The first socket listens before the address is shared, so that it fails if another process
/// listens there, even if that process shares its address. Of two publishers that start at once,
/// only one succeeds.
fn listen(options: &Options, threads: usize) -> io::Result<Vec<TcpListener>> {
    let Some(mut address) = options.listen else { return Ok(Vec::new()) };
    let mut listeners = Vec::new();
    for thread in 0..threads {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        if thread > 0 {
            rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
        }
        // Accepted sockets inherit these settings.
        socket.set_send_buffer_size(options.send_buffer_bytes)?;
        prepare_socket(SockRef::from(&socket));
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        if thread == 0 && threads > 1 {
            rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
        }
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn frames(payloads: &[Vec<u8>]) -> Arc<[u8]> {
    let mut all = Vec::new();
    for payload in payloads {
        all.extend_from_slice(FrameHeader::new(Opcode::Text, payload.len(), false).as_bytes());
        all.extend_from_slice(payload);
    }
    all.into()
}
