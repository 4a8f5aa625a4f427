//! The feed thread: sends the messages of the venue thread and heartbeats, and serves recovery.
//!
//! Start at    [`spawn`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::counters::FeedCounters;
use crate::feed_state::{Line, SharedFeed};
use crate::recovery_server;

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Where the feed is sent.
#[derive(Debug)]
pub struct FeedAddresses {
    /// Destinations of line A and, if there is one, of line B: hosts or multicast groups.
    pub lines: Vec<SocketAddr>,
    /// Listens for requests for missed messages and snapshots.
    pub recovery: TcpListener,
}

/// Starts the thread. It ends after the queue is closed and empty.
pub(crate) fn spawn(
    addresses: FeedAddresses,
    counters: Arc<FeedCounters>,
) -> io::Result<(UnboundedSender<Vec<u8>>, JoinHandle<()>)> {
    let lines = addresses.lines.into_iter().map(Line::open).collect::<io::Result<Vec<Line>>>()?;
    addresses.recovery.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (queue, batches) = unbounded_channel();
    let shared = SharedFeed::new(lines, counters);
    let run = move || {
        runtime.block_on(async {
            let served = recovery_server::serve(addresses.recovery, shared.clone());
            tokio::select! {
                () = send_batches(batches, &shared) => {}
                Err(error) = served => warn!(%error, "the order feed stops: its recovery port failed"),
            }
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
