//! The servers of the splitter: shards for their readers, and metrics for Prometheus.
//!
//! Does        runs a server of the common network layer on its own thread for each listener.
//! Holds       1. a reader costs at most one outbox beyond the log, and may send small messages
//!                only;
//!             2. connections above the limit, and requests that are not complete in time, are
//!                closed;
//!             3. nothing here can slow the feed.
//! Start at    [`serve`].

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use pitwire_net::{Application, Limits, ServerThread, Waker};

use crate::metrics_application::MetricsApplication;
use crate::shard_application::ShardApplication;
use crate::shared_stats::SharedStats;
use crate::transport::{Transport, TransportOptions};
use crate::transport_error::TransportError;
use crate::ws_transport::{SharedShards, WsTransport};

/// Most connections of one listener.
const CONNECTIONS: usize = 256;
/// Longest message of a reader, in bytes.
const MESSAGE_BYTES: usize = 4096;
/// Most fragments of one message of a reader.
const MESSAGE_FRAGMENTS: u32 = 16;
/// A reader of a shard may stay silent for as long as it likes, in nanoseconds.
const UNLIMITED_NS: u64 = u64::MAX / 2;

/// Running servers. Dropping them ends them.
pub struct ShardServer {
    metrics: Option<ServerThread>,
    shards: Option<ServerThread>,
}

/// Starts servers for shards (with their transport), metrics, or both.
///
/// # Errors
/// An address cannot be listened on, or a thread cannot be started.
pub fn serve(
    options: &TransportOptions,
    stats: Arc<SharedStats>,
    shards_at: Option<SocketAddr>,
    metrics_at: Option<SocketAddr>,
) -> Result<(Option<Box<dyn Transport>>, ShardServer), TransportError> {
    let mut server = ShardServer { metrics: None, shards: None };
    let mut transport: Option<Box<dyn Transport>> = None;
    if let Some(address) = shards_at {
        let shards = Arc::new(SharedShards::new(options.workers, options.policy, options.gap_records));
        let application = ShardApplication::new(Arc::clone(&shards));
        server.shards = Some(start("serve-shards", application, address, Some(shards.waker()))?);
        transport = Some(Box::new(WsTransport::new(shards, Arc::clone(&options.stop))));
    }
    if let Some(address) = metrics_at {
        server.metrics = Some(start("serve-metrics", MetricsApplication::new(stats), address, None)?);
    }
    Ok((transport, server))
}

impl ShardServer {
    /// Returns the address at which metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(ServerThread::address)
    }

    /// Returns the address at which shards are served.
    pub fn shards(&self) -> Option<SocketAddr> {
        self.shards.as_ref().map(ServerThread::address)
    }
}

fn start<A: Application + Send + 'static>(
    name: &'static str,
    application: A,
    address: SocketAddr,
    waker: Option<&Waker>,
) -> Result<ServerThread, TransportError> {
    let started = TcpListener::bind(address)
        .and_then(|listener| ServerThread::start(name, application, listener, limits(), waker));
    started.map_err(|error| {
        TransportError::new(
            format!("cannot listen on {address}: {error}"),
            "choose another address or port; port 0 takes any free one",
        )
    })
}

fn limits() -> Limits {
    let messages = pitwire_websocket::MessageLimits { message_bytes: MESSAGE_BYTES, fragments: MESSAGE_FRAGMENTS };
    Limits { messages, idle_ns: UNLIMITED_NS, connections: Some(CONNECTIONS), hosts: Vec::new(), ..Limits::default() }
}

#[cfg(test)]
mod tests;
