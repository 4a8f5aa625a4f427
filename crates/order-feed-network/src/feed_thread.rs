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
    /// The feed is ITCH, and the port takes requests of MoldUDP64.
    Itch(UdpSocket),
}

impl From<TcpListener> for RecoveryPort {
    fn from(listener: TcpListener) -> Self {
        RecoveryPort::Mitch(listener)
    }
}

impl RecoveryPort {
    pub fn encoding(&self) -> FeedEncoding {
        match self {
            RecoveryPort::Mitch(_) => FeedEncoding::Mitch,
            RecoveryPort::Itch(_) => FeedEncoding::Itch,
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            RecoveryPort::Mitch(listener) => listener.local_addr(),
            RecoveryPort::Itch(socket) => socket.local_addr(),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            RecoveryPort::Mitch(listener) => listener.set_nonblocking(true),
            RecoveryPort::Itch(socket) => socket.set_nonblocking(true),
        }
    }

    async fn serve(self, feed: SharedFeed) -> io::Result<()> {
        match self {
            RecoveryPort::Mitch(listener) => recovery_server::serve(listener, feed).await,
            RecoveryPort::Itch(socket) => request_server::serve(socket, feed).await,
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
