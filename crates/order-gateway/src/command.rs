//! `pitwire gateway --orders`: order entry from another process or machine.

use std::net::SocketAddr;

use clap::Args;
use pitwire_failure::Failure;
use pitwire_net::listen_options::listen;
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_net::stop_signals;
use pitwire_terminal::output::say;
use tracing::info;

use crate::gateway::{GatewayOptions, OrderGateway};
use crate::members::SharedConnection;
use crate::throttle::Rate;

/// Limits of an order gateway.
#[derive(Args)]
pub struct OrderLimits {
    /// For wss://, trust only the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE", requires = "orders")]
    ca: Option<std::path::PathBuf>,
    /// Requests per second of each client id. Without it only the venue limits them.
    #[arg(long, value_name = "N", requires = "orders", value_parser = clap::value_parser!(u32).range(1..))]
    per_second: Option<u32>,
    /// Requests that a client id may send at once. Default: those of one second.
    #[arg(long, value_name = "N", requires = "per_second", value_parser = clap::value_parser!(u32).range(1..))]
    burst: Option<u32>,
    /// Send the requests of all client ids over one connection to the venue, instead of one for
    /// each client id. Then one client can hold up all others: use it for clients of one owner.
    #[arg(long, requires = "orders")]
    one_connection: bool,
    /// Maximum number of client connections. Further ones get a 503.
    #[arg(long, value_name = "N", requires = "orders", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
}

impl OrderLimits {
    /// Serves order entry of the venue `url` on `http` until a signal stops it.
    ///
    /// # Errors
    /// Returns an error if the address cannot be served or the ready file cannot be written.
    pub fn serve(
        &self,
        url: String,
        http: SocketAddr,
        hosts: Vec<String>,
        ready_file: &ReadyFile,
        json: bool,
    ) -> Result<(), Failure> {
        let rate = self.per_second.map(|per_second| {
            let burst = self.burst.unwrap_or(per_second);
            Rate { per_second: per_second.into(), burst: burst.into() }
        });
        let sharing = if self.one_connection { SharedConnection::OfAll } else { SharedConnection::OfClientId };
        let options = GatewayOptions {
            url,
            authority: self.ca.clone(),
            hosts,
            rate,
            sharing,
            connections_max: self.connections as usize,
        };
        let listener = listen(http, "--http")?;
        let address = listener.local_addr()?;
        let prints = !json;
        let ready = || {
            if prints {
                say(&format!("Pitwire order gateway is up: ws://{address}/ws/api/v2"));
            }
            info!(%address, "the order gateway serves");
            ready_file.write(ServedAt { http: address, tls: None }.fields())
        };
        let figures = OrderGateway::run(options, listener, stop_signals()?, ready)?;
        ready_file.remove()?;
        if json {
            let figures = serde_json::json!({
                "connections": figures.connections, "forwarded": figures.forwarded,
                "refused": figures.refused, "uplinks": figures.uplinks,
            });
            say(&figures.to_string());
        }
        info!("stopped cleanly");
        Ok(())
    }
}
