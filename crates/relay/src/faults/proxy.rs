//! The listener of the proxy and its thread.
//!
//! Start at    [`FaultProxy::start`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pitwire_fault_script::FaultScript;
use pitwire_net::OriginPolicy;
use tokio::sync::{Semaphore, watch};
use tracing::{debug, warn};

use crate::faults::counts::FaultCounts;
use crate::faults::exchange::{self, ProxyState};
use crate::upstream::Upstream;

/// Connections at the same time. A further client is not accepted until one leaves.
const CONNECTIONS_MAX: usize = 1024;
/// Pause after a failed accept, so that a lack of file descriptors does not keep a core busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running proxy, on its thread.
pub struct FaultProxy {
    address: SocketAddr,
    counts: Arc<FaultCounts>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Serves `listener` in front of a venue. `hosts` are names under which clients reach the
    /// proxy, besides localhost and its address.
    ///
    /// # Errors
    /// The listener or the thread cannot be set up.
    pub fn start(listener: TcpListener, upstream: Upstream, script: FaultScript, hosts: &[String]) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counts = Arc::new(FaultCounts::new(script.lasts()));
        let origins = OriginPolicy::new(address.ip(), hosts);
        let shared = Arc::new(ProxyState { upstream, script: Arc::new(script), counts: Arc::clone(&counts), origins });
        let (stop, stopped) = watch::channel(false);
        let serve = move || {
            if let Err(error) = runtime.block_on(accept_connections(listener, shared, stopped)) {
                warn!(%error, "the relay stopped");
            }
        };
        let thread = thread::Builder::new().name("relay".into()).spawn(serve)?;
        Ok(FaultProxy { address, counts, stop, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn counts(&self) -> &FaultCounts {
        &self.counts
    }

    /// Ends all faults. Delayed messages keep their delay, and silent connections stay silent.
    pub fn heal(&self) {
        self.counts.heal();
    }
}

impl Drop for FaultProxy {
    /// Ends all connections.
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread of the relay panicked");
        }
    }
}

async fn accept_connections(
    listener: TcpListener,
    shared: Arc<ProxyState>,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accept = async {
            let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
            let (socket, peer) = listener.accept().await?;
            Ok::<_, io::Error>((permit, socket, peer))
        };
        let accepted = tokio::select! {
            _ = stopped.changed() => return Ok(()),
            accepted = accept => accepted,
        };
        match accepted {
            Ok((permit, socket, peer)) => {
                let connection = shared.counts.count_connection();
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    if let Err(error) = exchange::serve(socket, &shared, connection).await {
                        debug!(%peer, connection, %error, "a connection of the relay ended");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection of the relay");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
