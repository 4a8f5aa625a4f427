//! `pitwire relay`: a venue's messages for local clients, with faults on request.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pitwire_client::{Credentials, Error};
use pitwire_failure::{Failure, read_text};
use pitwire_fault_script::{FaultScript, Injector};
use pitwire_net::listen_options::{self, listen};
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_net::stop_signals;
use pitwire_terminal::output::say;
use tracing::info;

use crate::faults::FaultProxy;
use crate::serving::{Form, RelayServer, ServeOptions};
use crate::upstream::Upstream;

const EXAMPLES: &str = "See docs/relay.md for the messages and the fault script.

Examples:
  pitwire relay wss://www.deribit.com/ws/api/v2 --channel book.BTC-PERPETUAL.100ms
      local clients read that book at ws://127.0.0.1:8082/, with one connection to the venue
  pitwire relay ws://127.0.0.1:8080/ws/api/v2 --faults random --seed 7 --lasts 60
      a proxy that injects the faults of a script drawn from the seed, for a minute";

/// Serve a venue's channels on to local clients, or inject faults between clients and a venue.
///
/// With --channel the relay subscribes once, and numbers the messages for any number of clients.
/// With --faults it passes all messages on, and the script delays, drops, doubles, reorders or cuts
/// some of them.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("mode").required(true).args(["channel", "faults"]))]
pub struct Relay {
    /// WebSocket URL of the venue.
    url: String,
    /// Channel or stream to serve, such as book.BTC_USDC.100ms or btcusdc@trade. May be repeated.
    #[arg(long, value_name = "NAME", value_parser = channel)]
    channel: Vec<String>,
    /// Form of the venue's streams. Default: deribit if the path is /ws/api/v2, binance if it is
    /// /ws or /stream.
    #[arg(long, value_enum, requires = "channel")]
    form: Option<FormName>,
    /// Log in at the venue, for raw and private channels: with the credentials of the environment
    /// or of the file that `pitwire trade` uses.
    #[arg(long, requires = "channel")]
    login: bool,
    /// Fault script (TOML), or the word random.
    #[arg(long, value_name = "FILE|random", conflicts_with = "channel")]
    faults: Option<String>,
    /// Seed of the faults, unless the script has one.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "channel")]
    seed: u64,
    /// Let messages pass without faults after this many seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "channel", value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    lasts: Option<u64>,
    /// Address to listen on. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, default_value = "127.0.0.1:8082")]
    listen: SocketAddr,
    /// Host name under which clients reach the relay, besides localhost and the address. May be
    /// repeated.
    #[arg(long, value_name = "NAME", value_parser = listen_options::host_name)]
    host: Vec<String>,
    /// For wss://, trust only the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Write this file once the relay serves: {"http":"ADDR:PORT","pid":N}.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Print the counters as one JSON object at the end. Everything else goes to standard error.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormName {
    Deribit,
    Binance,
}

impl Relay {
    /// Serves until a signal stops it.
    ///
    /// # Errors
    ///
    /// Fails if an option is wrong, if the address cannot be served, or if the venue refuses a
    /// channel.
    pub fn run(self) -> Result<(), Failure> {
        match &self.faults {
            Some(faults) => self.inject(faults),
            None => self.serve(),
        }
    }

    /// Serves the channels of the venue.
    fn serve(&self) -> Result<(), Failure> {
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        let form = match self.form {
            Some(FormName::Deribit) => Some(Form::Deribit),
            Some(FormName::Binance) => Some(Form::Binance),
            None => Form::of(&self.url),
        };
        let form = form.ok_or_else(|| {
            Failure::usage(format!("the path of {:?} says nothing about the form of its streams", self.url))
                .remedy("name it with --form deribit or --form binance")
        })?;
        if let Some(twice) = (1..self.channel.len()).find(|&at| self.channel[..at].contains(&self.channel[at])) {
            return Err(Failure::usage(format!("--channel {} is given twice", self.channel[twice]))
                .remedy("give each channel once; clients share it"));
        }
        let credentials = self.login.then(Credentials::find).transpose().map_err(Error::from)?;
        let options = ServeOptions {
            url: self.url.clone(),
            form,
            authority: self.ca.clone(),
            credentials,
            channels: self.channel.clone(),
            listen: self.listen,
            hosts: self.host.clone(),
        };
        let figures = RelayServer::run(options, stop_signals()?, |address| self.announce(&ready_file, address))?;
        ready_file.remove()?;
        if self.json {
            let figures = serde_json::json!({
                "messages": figures.messages, "upstream_gaps": figures.upstream_gaps,
                "clients": figures.clients, "sent_bytes": figures.sent_bytes,
            });
            say(&figures.to_string());
        } else {
            let (messages, gaps, clients) = (figures.messages, figures.upstream_gaps, figures.clients);
            say(&format!("{messages} messages and {gaps} gaps from the venue, for {clients} clients"));
        }
        info!("stopped cleanly");
        Ok(())
    }

    /// Runs the proxy with a fault script.
    fn inject(&self, faults: &str) -> Result<(), Failure> {
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        let upstream = Upstream::parse(&self.url, self.ca.as_deref())?;
        let script = self.script(faults)?;
        let listener = listen(self.listen, "--listen")?;
        let mut signals = stop_signals()?;
        let proxy = FaultProxy::start(listener, upstream, script, &self.host)?;
        self.announce(&ready_file, proxy.address())?;
        signals.read_exact(&mut [0])?;
        ready_file.remove()?;
        self.report(&proxy);
        info!("stopped cleanly");
        Ok(())
    }

    fn announce(&self, ready_file: &ReadyFile, address: SocketAddr) -> Result<(), Failure> {
        if !self.json {
            say(&format!("Pitwire relay is up: ws://{address}, in front of {}", self.url));
        }
        ready_file.write(ServedAt { http: address, tls: None }.fields())
    }

    fn script(&self, faults: &str) -> Result<FaultScript, Failure> {
        let is_random = faults == "random";
        let script = if is_random {
            FaultScript::random(self.seed)
        } else {
            let text = File::open(faults).and_then(read_text).map_err(|error| {
                Failure::usage(format!("cannot read {faults}: {error}"))
                    .remedy("give --faults a script (docs/relay.md), or the word random")
            })?;
            FaultScript::parse(Injector::Relay, &text, self.seed).map_err(|error| {
                Failure::usage(format!("{faults} is not a fault script: {error}"))
                    .remedy("docs/relay.md describes its rules")
            })?
        };
        let script = match self.lasts {
            Some(seconds) => script.lasting(Duration::from_secs(seconds)),
            None => script,
        };
        if is_random {
            info!("the script of seed {}:\n{script}", self.seed);
        }
        Ok(script)
    }

    fn report(&self, proxy: &FaultProxy) {
        let counts = proxy.counts();
        let (connections, messages) = (counts.connections(), counts.messages());
        let faults = Injector::Relay.kinds().iter().map(|kind| (kind.name(), counts.faults(*kind)));
        if self.json {
            let faults: serde_json::Map<String, serde_json::Value> =
                faults.map(|(name, count)| (name.to_owned(), count.into())).collect();
            let figures = serde_json::json!({"connections": connections, "messages": messages, "faults": faults});
            say(&figures.to_string());
            return;
        }
        let faults: Vec<String> =
            faults.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
        let faults = if faults.is_empty() { "none".into() } else { faults.join(", ") };
        say(&format!("{messages} messages on {connections} connections; faults: {faults}"));
    }
}

fn channel(text: &str) -> Result<String, String> {
    match !text.is_empty()
        && text.len() <= 128
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#,".contains(&byte))
    {
        true => Ok(text.to_owned()),
        false => Err("give a name such as book.BTC_USDC.100ms or btcusdc@trade".into()),
    }
}
