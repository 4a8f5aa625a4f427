//! The feed thread: sends the messages of the venue thread and heartbeats, and serves recovery.
//!
//! Start at    [`spawn`].

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pitwire_net::event_loop::{EventLoop, LoopEvent, LoopKind, LoopOptions};
use pitwire_net::{Waker, start_loop_thread};
use pitwire_order_feed::FeedEncoding;
use tracing::warn;

use crate::counters::FeedCounters;
use crate::feed_state::{FeedState, Line};
use crate::packet_encoder::PacketEncoder;
use crate::recovery_server::RecoveryServer;
use crate::request_server::RequestServer;

/// Requests are short.
pub(crate) const LOOP_OPTIONS: LoopOptions = LoopOptions { receive_bytes: 4_096, detaches: false };
/// The wake sources of the loop.
const BATCHES: u32 = 0;
const REQUESTS: u32 = 1;
/// Most batches that are sent before clients of the recovery port get a turn.
const TURN_BATCHES: usize = 64;
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Ports that are tried until one is free for TCP and for UDP.
const FREE_PORT_TRIES: u32 = 20;

/// Where the feed is sent.
#[derive(Debug)]
pub struct FeedAddresses {
    /// Destinations of line A and, if there is one, of line B: hosts or multicast groups.
    pub lines: Vec<SocketAddr>,
    /// Receives requests for missed messages. It decides the encoding of the feed.
    pub recovery: RecoveryPort,
}

/// The port for missed messages.
#[derive(Debug)]
pub enum RecoveryPort {
    /// The feed is MITCH, and the port has replays and snapshots.
    Mitch(TcpListener),
    /// The feed is ITCH. The port takes requests of MoldUDP64 over UDP, and sends snapshots of
    /// GLIMPSE over TCP.
    Itch { requests: UdpSocket, snapshots: TcpListener },
}

impl From<TcpListener> for RecoveryPort {
    fn from(listener: TcpListener) -> Self {
        RecoveryPort::Mitch(listener)
    }
}

impl RecoveryPort {
    /// Opens the port of a feed of ITCH: one number for UDP and TCP.
    ///
    /// # Errors
    ///
    /// Fails if the port is in use, or the address is not one of this host.
    pub fn open_itch(address: SocketAddr) -> io::Result<RecoveryPort> {
        let mut tries = if address.port() == 0 { FREE_PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            let snapshots = TcpListener::bind(address)?;
            match UdpSocket::bind(snapshots.local_addr()?) {
                // The system chose a free port of TCP, which UDP has in use.
                Err(_) if tries > 0 => {}
                requests => return Ok(RecoveryPort::Itch { requests: requests?, snapshots }),
            }
        }
    }

    pub fn encoding(&self) -> FeedEncoding {
        match self {
            RecoveryPort::Mitch(_) => FeedEncoding::Mitch,
            RecoveryPort::Itch { .. } => FeedEncoding::Itch,
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            RecoveryPort::Mitch(listener) => listener.local_addr(),
            RecoveryPort::Itch { snapshots, .. } => snapshots.local_addr(),
        }
    }

    /// Adds the sockets to an event loop.
    fn open(self, net: &mut dyn EventLoop) -> io::Result<(RecoveryServer, Option<RequestServer>)> {
        match self {
            RecoveryPort::Mitch(listener) => Ok((RecoveryServer::open(listener, net)?, None)),
            RecoveryPort::Itch { requests, snapshots } => {
                net.add_wake_source(requests.try_clone()?.into(), REQUESTS)?;
                Ok((RecoveryServer::open(snapshots, net)?, Some(RequestServer::new(requests)?)))
            }
        }
    }
}

/// Starts the thread. It ends after the queue is closed and empty, and `waker` was used.
pub(crate) fn spawn(
    addresses: FeedAddresses,
    batches: Receiver<Vec<u8>>,
    waker: &Waker,
    counters: Arc<FeedCounters>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let FeedAddresses { lines, recovery } = addresses;
    let lines = lines.into_iter().map(Line::open).collect::<io::Result<Vec<Line>>>()?;
    let encoder = match recovery.encoding() {
        FeedEncoding::Mitch => PacketEncoder::mitch(),
        FeedEncoding::Itch => PacketEncoder::itch(),
    };
    let feed = FeedState::new(encoder, lines, counters);
    let wake_source = waker.wake_source()?;
    let open = move || {
        let mut net = LoopKind::Epoll.open(LOOP_OPTIONS)?;
        net.add_wake_source(wake_source, BATCHES)?;
        let (recovery, requests) = recovery.open(&mut *net)?;
        Ok(FeedThread { net, batches, feed, recovery, requests })
    };
    start_loop_thread("order-feed", open, |thread: FeedThread| {
        thread.run().inspect_err(|error| warn!(%error, "the order feed stops: its event loop failed"))
    })
}

/// State of the queue of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    Empty,
    /// It may hold more.
    Waiting,
    /// It is empty and closed.
    Closed,
}

/// Everything that the feed thread owns.
pub(crate) struct FeedThread {
    pub net: Box<dyn EventLoop>,
    pub batches: Receiver<Vec<u8>>,
    pub feed: FeedState,
    pub recovery: RecoveryServer,
    pub requests: Option<RequestServer>,
}

impl FeedThread {
    /// Serves until the queue is closed and empty, and ends the session of the feed.
    ///
    /// # Errors
    ///
    /// Fails if the event loop cannot go on.
    pub fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        self.feed.end();
        served
    }

    fn serve(&mut self) -> io::Result<()> {
        let FeedThread { net, batches, feed, recovery, requests } = self;
        let (mut events, mut heartbeat_at) = (Vec::new(), Instant::now());
        loop {
            let queue = take_batches(batches, feed);
            if queue == QueueState::Closed {
                return Ok(());
            }
            let now = Instant::now();
            if now >= heartbeat_at {
                feed.beat();
                heartbeat_at = now + HEARTBEAT_INTERVAL;
            }
            recovery.serve(&mut **net, feed, now);
            requests.iter_mut().for_each(|requests| requests.serve(feed, now));
            let others = [
                (queue == QueueState::Waiting).then_some(now),
                recovery.due_at(now),
                requests.as_ref().and_then(|requests| requests.receive_at),
            ];
            let due = others.into_iter().flatten().fold(heartbeat_at, Instant::min);
            net.wait(Some(due.saturating_duration_since(Instant::now())), &mut events)?;
            for event in &events {
                match (event, &mut *requests) {
                    (LoopEvent::Woken(REQUESTS), Some(requests)) => requests.wake(now),
                    _ => recovery.note(*event, now),
                }
            }
        }
    }
}

/// Sends batches of the queue, a bounded number of them.
fn take_batches(batches: &Receiver<Vec<u8>>, feed: &mut FeedState) -> QueueState {
    for _ in 0..TURN_BATCHES {
        match batches.try_recv() {
            Ok(batch) => feed.take(&batch),
            Err(TryRecvError::Empty) => return QueueState::Empty,
            Err(TryRecvError::Disconnected) => return QueueState::Closed,
        }
    }
    QueueState::Waiting
}
