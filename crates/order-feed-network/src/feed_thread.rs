//! The feed thread: sends the messages of the venue thread and heartbeats, and serves recovery.
//!
//! Start at    [`spawn`].

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pitwire_order_feed::FeedEncoding;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::counters::FeedCounters;
use crate::feed_state::{Line, SharedFeed};
use crate::packet_encoder::PacketEncoder;
use crate::{recovery_server, request_server};

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

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            RecoveryPort::Mitch(listener) => listener.set_nonblocking(true),
            RecoveryPort::Itch { requests, snapshots } => {
                requests.set_nonblocking(true)?;
                snapshots.set_nonblocking(true)
            }
        }
    }

    async fn serve(self, feed: SharedFeed) -> io::Result<()> {
        match self {
            RecoveryPort::Mitch(listener) => recovery_server::serve(listener, feed).await,
            RecoveryPort::Itch { requests, snapshots } => tokio::select! {
                served = request_server::serve(requests, feed.clone()) => served,
                served = recovery_server::serve(snapshots, feed) => served,
            },
        }
    }
}

/// Starts the thread. It ends after the queue is closed and empty.
pub(crate) fn spawn(
    addresses: FeedAddresses,
    counters: Arc<FeedCounters>,
) -> io::Result<(UnboundedSender<Vec<u8>>, JoinHandle<()>)> {
    let lines = addresses.lines.into_iter().map(Line::open).collect::<io::Result<Vec<Line>>>()?;
    addresses.recovery.set_nonblocking()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (queue, batches) = unbounded_channel();
    let encoder = match addresses.recovery.encoding() {
        FeedEncoding::Mitch => PacketEncoder::mitch(),
        FeedEncoding::Itch => PacketEncoder::itch(),
    };
    let shared = SharedFeed::new(encoder, lines, counters);
    let run = move || {
        runtime.block_on(async {
            let served = addresses.recovery.serve(shared.clone());
            tokio::select! {
                () = send_batches(batches, &shared) => {}
                Err(error) = served => warn!(%error, "the order feed stops: its recovery port failed"),
            }
            shared.lock().end();
        });
    };
    let thread = thread::Builder::new().name("order-feed".into()).spawn(run)?;
    Ok((queue, thread))
}

async fn send_batches(mut batches: UnboundedReceiver<Vec<u8>>, shared: &SharedFeed) {
    let mut heartbeat = interval(HEARTBEAT_INTERVAL);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            batch = batches.recv() => match batch {
                Some(batch) => shared.lock().take(&batch),
                None => return,
            },
            _ = heartbeat.tick() => shared.lock().beat(),
        }
    }
}
