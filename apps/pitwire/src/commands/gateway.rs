//! `pitwire gateway`: the venue's public channels from another process or machine.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pitwire_gateway::{Failure as BusFailure, Inlet, Node, Upstream, without_password};
use pitwire_host::{Server, SystemClock, Waker, stop_signals};
use tracing::{info, warn};

use super::up::{remove_old, write_ready};
use crate::bus_key;
use crate::failure::Failure;
use crate::gateway::application::{GatewayApplication, Parts};
use crate::output::say;

/// Of the venue's messages, for clients that come, come back or are slow.
const HISTORY_BYTES: usize = 64 * 1024 * 1024;

const EXAMPLES: &str = "Examples:
  pitwire up --publish nats://127.0.0.1:4222
  pitwire gateway --upstream nats://127.0.0.1:4222                    on 127.0.0.1:8081, key in ./pitwire-data/bus.key
  pitwire gateway --upstream nats://10.0.0.5:4222 --http 0.0.0.0:8080 --bus-key bus.key --venue http://10.0.0.6:8080";

/// Serve a venue's public channels from another process or machine, over NATS (docs/gateway.md).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Gateway {
    /// The NATS server that the venue publishes to.
    #[arg(long, value_name = "NATS_URL")]
    upstream: String,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    http: SocketAddr,
    /// The venue's HTTP address; without it, the one that the venue itself says over the bus.
    #[arg(long, value_name = "URL")]
    venue: Option<String>,
    /// A copy of the venue's bus.key, readable by you alone.
    #[arg(long, value_name = "FILE", default_value = "pitwire-data/bus.key")]
    bus_key: PathBuf,
    /// The NATS subject, as the venue's --publish-subject.
    #[arg(long, value_name = "SUBJECT", default_value = "pitwire.public")]
    subject: String,
    /// Written whole once everything that the venue has is there: {"http":"ADDR:PORT","pid":N}.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// At the end print the counters as one JSON object; everything else goes to standard error.
    #[arg(long)]
    json: bool,
}

impl Gateway {
    pub fn run(self) -> Result<(), Failure> {
        // An old one must not be taken for ours, whatever happens next.
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        let key = bus_key::read(&self.bus_key)?;
        let listener = TcpListener::bind(self.http).map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", self.http))
                .remedy("stop what uses the port, or give another with --http")
        })?;
        let address = listener.local_addr()?;
        let signals = stop_signals()?;
        let waker = Waker::default();
        let wake: Arc<dyn Fn() + Send + Sync> = {
            let waker = waker.clone();
            Arc::new(move || waker.wake())
        };
        let upstream = Upstream::open(&key, &wake)?;
        let mut node = Node::new(pitwire_order_entry::VERSION, HISTORY_BYTES);
        if let Some(url) = &self.venue {
            upstream.set_venue(url)?;
            url.trim_end_matches('/').clone_into(&mut node.venue);
        }
        let inlet = Inlet::open(&self.upstream, &self.subject, key, wake)?;
        let clock = SystemClock::start();
        let parts = Parts { node, inlet, upstream, clock, has_fixed_venue: self.venue.is_some() };
        let (ready_file, tells) = (self.ready_file.clone(), !self.json);
        let on_ready = Box::new(move || {
            if tells {
                say(&format!("Pitwire gateway is up: ws://{address}/ws/api/v2"));
            }
            info!(%address, "the gateway serves");
            if let Some(path) = &ready_file
                && let Err(failure) = write_ready(path, address)
            {
                warn!(%failure, "no ready file");
            }
        });
        info!("waiting for a venue on {} of {}", self.subject, without_password(&self.upstream));
        let app = GatewayApplication::new(parts, on_ready);
        let server = Server::new(app, listener, signals, clock)?.with_waker(&waker)?;
        let ended = server.run();
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        let app =
            ended.map_err(|error| Failure::new(format!("the gateway stopped: {error}")).remedy("start it again"))?;
        if self.json {
            say(&app.summary().json());
        }
        info!("stopped cleanly");
        Ok(())
    }
}

impl From<BusFailure> for Failure {
    fn from(failure: BusFailure) -> Self {
        Failure::usage(failure.what).remedy(failure.remedy)
    }
}
