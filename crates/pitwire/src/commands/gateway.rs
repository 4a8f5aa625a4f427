//! `pitwire gateway`: the venue's public channels from another process or machine.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pitwire_gateway::{BusReceiver, Node, Upstream};
use pitwire_net::listen_options::{self, listen};
use pitwire_net::{Limits, Server, SystemClock, Waker, stop_signals};
use tracing::{info, warn};

use super::up::announce_tls;
use crate::bus_key;
use crate::commands::arguments::CertificateFiles;
use pitwire_failure::{Failure, without_password};
use pitwire_gateway_server::{GatewayApplication, GatewayParts};
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_order_gateway::OrderLimits;
use pitwire_terminal::output::say;
use pitwire_tls::server_certificate::{self, ServerCertificate};

/// Most bytes of messages stored for clients that connect, resume or lag.
const HISTORY_BYTES: usize = 64 * 1024 * 1024;

const EXAMPLES: &str = "The venue publishes with `pitwire up --publish nats://127.0.0.1:4222`. See docs/gateway.md.

Examples:
  pitwire gateway --upstream nats://127.0.0.1:4222
      on 127.0.0.1:8081, with the key in ./pitwire-data/bus.key
  pitwire gateway --orders ws://10.0.0.5:8080/ws/api/v2 --per-second 50
      an order gateway: logins and throttles here, one connection to the venue for each client id,
      or with --one-connection for all";

/// Serve a venue's public channels over NATS, or its order entry, from another process or machine.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Gateway {
    /// NATS server to which the venue publishes.
    #[arg(long, value_name = "NATS_URL", required_unless_present = "orders")]
    upstream: Option<String>,
    /// Serve order entry instead of public channels: WebSocket URL of the venue. See
    /// docs/order-gateways.md.
    #[arg(long, value_name = "WS_URL", conflicts_with_all = ["upstream", "tls", "venue", "bus_key", "subject"])]
    orders: Option<String>,
    #[command(flatten)]
    order_limits: OrderLimits,
    /// Address to listen on. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, default_value = "127.0.0.1:8081")]
    http: SocketAddr,
    /// Address to listen on for TLS (https and wss). Port 0 takes any free port. Without --tls-cert
    /// the gateway makes an authority under --tls-dir once and prints how to trust it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    tls: Option<SocketAddr>,
    #[command(flatten)]
    tls_files: CertificateFiles,
    /// Directory of the authority that the gateway makes.
    #[arg(long, value_name = "DIR", requires = "tls", default_value = "pitwire-tls")]
    tls_dir: PathBuf,
    /// Host name under which clients reach this gateway, besides localhost and the address. May be
    /// repeated.
    #[arg(long, value_name = "NAME", value_parser = listen_options::host_name)]
    host: Vec<String>,
    /// HTTP address of the venue. The default is the address that the venue announces on the bus.
    #[arg(long, value_name = "URL")]
    venue: Option<String>,
    /// Copy of the venue's bus.key. Only its owner may be able to read it.
    #[arg(long, value_name = "FILE", default_value = "pitwire-data/bus.key")]
    bus_key: PathBuf,
    /// NATS subject, as given to the venue with --publish-subject.
    #[arg(long, value_name = "SUBJECT", default_value = "pitwire.public")]
    subject: String,
    /// Write this file once the gateway has everything that the venue has:
    /// {"http":"ADDR:PORT","pid":N}, with --tls also "tls":"ADDR:PORT" and, for its own authority,
    /// "ca":"PATH".
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Print the counters as one JSON object at the end. Everything else goes to standard error.
    #[arg(long)]
    json: bool,
}

impl Gateway {
    /// Runs a gateway node, or an order gateway, until a signal.
    ///
    /// # Errors
    /// If the key, a certificate or the ready file cannot be used, or an address cannot be opened.
    pub fn run(self) -> Result<(), Failure> {
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        let Some(upstream_url) = &self.upstream else {
            let url = self.orders.unwrap_or_default();
            return self.order_limits.serve(url, self.http, self.host, &ready_file, self.json);
        };
        let key = bus_key::read(&self.bus_key)?;
        let listener = listen(self.http, "--http")?;
        let address = listener.local_addr()?;
        let secure = self.tls_listener()?;
        let signals = stop_signals()?;
        let waker = Waker::default();
        let wake: Arc<dyn Fn() + Send + Sync> = {
            let waker = waker.clone();
            Arc::new(move || waker.wake())
        };
        let upstream = Upstream::open(&key, &wake)?;
        let mut node = Node::new(pitwire_deribit::VERSION, HISTORY_BYTES);
        if let Some(url) = &self.venue {
            upstream.set_venue(url)?;
            url.trim_end_matches('/').clone_into(&mut node.venue);
        }
        let inlet = BusReceiver::open(upstream_url, &self.subject, key, wake)?;
        let clock = SystemClock::start();
        let parts =
            GatewayParts { node, inlet, upstream, clock, has_fixed_venue: self.venue.is_some(), waker: waker.clone() };
        let tls = secure
            .as_ref()
            .map(|(listener, shown)| Ok::<_, Failure>((listener.local_addr()?, shown.authority.clone())));
        let served = ServedAt { http: address, tls: tls.transpose()? };
        let (file, prints) = (ready_file.clone(), !self.json);
        let on_ready = Box::new(move || announce(&served, &file, prints));
        info!("waiting for a venue on {} of {}", self.subject, without_password(upstream_url));
        let app = GatewayApplication::new(parts, on_ready);
        let mut limits = Limits::default();
        limits.hosts.extend(self.host.iter().cloned());
        let mut server = Server::new(app, listener, signals, clock)?.with_limits(limits)?.with_waker(&waker)?;
        if let Some((listener, shown)) = secure {
            server = server.with_tls(listener, shown.config)?;
        }
        let ended = server.run();
        ready_file.remove()?;
        let app =
            ended.map_err(|error| Failure::new(format!("the gateway stopped: {error}")).remedy("start it again"))?;
        if self.json {
            say(&app.summary().json());
        }
        info!("stopped cleanly");
        Ok(())
    }

    /// Opens the TLS listener with its certificate.
    fn tls_listener(&self) -> Result<Option<(TcpListener, ServerCertificate)>, Failure> {
        let Some(address) = self.tls else { return Ok(None) };
        let listener = listen(address, "--tls")?;
        let shown =
            server_certificate::server_certificate(self.tls_files.pair(), &self.tls_dir, listener.local_addr()?)?;
        Ok(Some((listener, shown)))
    }
}

/// Announces that the gateway serves: on standard output and in the ready file.
fn announce(served: &ServedAt, file: &ReadyFile, prints: bool) {
    let address = served.http;
    if prints {
        say(&format!("Pitwire gateway is up: ws://{address}/ws/api/v2"));
        if let Some((address, authority)) = &served.tls {
            announce_tls(*address, authority.as_deref());
        }
    }
    info!(%address, "the gateway serves");
    if let Err(failure) = file.write(served.fields()) {
        warn!(%failure, "cannot write the ready file");
    }
}
