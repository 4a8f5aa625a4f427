//! `pitwire tape serve`: serves a feed to every client that connects.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pitwire_net::listen_options::{self, listen};
use pitwire_net::stop_signals;
use pitwire_recorder::dialect::FeedDialect;
use pitwire_recorder::framing::MessageSizes;
use pitwire_recorder::rate::{Rate, parse_sizes};
use pitwire_recorder::serve_summary::{ServeSummary, cpu_seconds};
use pitwire_recorder::server::{Disconnect, FeedMode, Hello, Protocol, ServiceConfig, TapeServer};
use pitwire_recorder::stream::StreamConfig;
use pitwire_recorder::symbols;
use pitwire_tls::ServerConfig;

use super::live::{self, LiveOptions, LiveSource, LiveTransport};
use super::source::{FeedSource, Plan};
use pitwire_failure::Failure;
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_terminal::output::say;
use pitwire_tls::server_certificate;

const EXAMPLES: &str = "A reader can verify what it received: see docs/tape.md.

Examples:
  pitwire tape serve --listen 127.0.0.1:9000 --rate open-close --frame-trades cutoff:1000
      6,000 symbols, a market's day in a minute
  pitwire tape serve --listen 127.0.0.1:9000 --file day.tape --rate x10
      a recording, ten times as fast";

/// Serve a feed over WebSocket, and report at the end what was sent.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    listen: SocketAddr,
    /// Generate the trades from --seed (the default).
    #[arg(long)]
    synthetic: bool,
    /// Serve this file instead: a recording, a Parquet file or a .csv.
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    file: Option<PathBuf>,
    /// Format of the generated messages: a provider's trades, or a venue's dialect.
    #[arg(long, value_enum, default_value = "trades")]
    dialect: DialectName,
    /// Number of markets in a venue's dialect; the URL may name others.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = market_count)]
    markets: usize,
    /// Number of symbols in the synthetic market, from 1 to 100000.
    #[arg(long, value_name = "N", default_value_t = 6_000, value_parser = symbol_count)]
    symbols: usize,
    /// Trades per message: a number, a random number in a range (A-B), or all trades that fall due
    /// within a number of
    /// microseconds (cutoff:US) [default: 128]. With a recording, its messages are regrouped;
    /// without this option they stay
    /// unchanged.
    #[arg(long, value_name = "N|A-B|cutoff:US", value_parser = parse_sizes)]
    frame_trades: Option<MessageSizes>,
    /// Rate: max, trades per second (messages, for an unchanged recording), open-close or
    /// midday-burst; for a file also original or xN.
    #[arg(long, value_name = "RATE", default_value = "max")]
    rate: Rate,
    /// End after this many trades.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    trades: Option<u64>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Send this provider's greeting and wait for auth and subscribe.
    #[arg(long, value_enum, default_value = "none")]
    hello: HelloName,
    /// Key that auth must give [default: any].
    #[arg(long, value_name = "KEY")]
    auth: Option<String>,
    /// Split each message into frames of at most this many bytes.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    fragment: Option<u32>,
    /// Interval of pings in milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    ping_every: Option<u64>,
    /// End each connection after this many trades; the next connection continues.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    disconnect_every: Option<u64>,
    /// How --disconnect-every ends a connection.
    #[arg(long, value_enum, default_value = "close")]
    disconnect_how: DisconnectName,
    /// Give each connection its own stream, from the beginning.
    #[arg(long)]
    per_client: bool,
    /// Also compute the checksum of the content (costs a few nanoseconds per trade).
    #[arg(long)]
    content: bool,
    /// Serve wss:// with a certificate made for this run; prints which file to trust.
    #[arg(long, conflicts_with = "tls_cert")]
    tls: bool,
    /// Certificate chain (PEM) for serving wss://.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File to write atomically once the feed is served:
    /// {"http":"ADDR:PORT","pid":N,"url":"ws://…"}.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    live: LiveOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HelloName {
    None,
    Polygon,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DisconnectName {
    /// Close frame, then the end of the connection; nothing is lost.
    Close,
    /// End in the middle of a frame; data passed to the kernel still arrives.
    Cut,
    /// Reset in the middle of a frame; data in transit is lost.
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DialectName {
    Trades,
    Binance,
    Bithumb,
    Gemini,
    /// Objects of --payload-bytes; only with --live.
    Plain,
}

impl DialectName {
    fn venue(self) -> FeedDialect {
        match self {
            DialectName::Trades | DialectName::Plain | DialectName::Binance => FeedDialect::Binance,
            DialectName::Bithumb => FeedDialect::Bithumb,
            DialectName::Gemini => FeedDialect::Gemini,
        }
    }
}

fn market_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1_024).contains(count));
    count.ok_or_else(|| "give a number from 1 to 1024".into())
}

fn symbol_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=symbols::MOST).contains(count));
    count.ok_or_else(|| format!("give a number from 1 to {}", symbols::MOST))
}

impl Serve {
    /// Serves a feed until a signal, or until it ends.
    ///
    /// # Errors
    /// If an option, a file or a certificate is wrong, or the address cannot be opened.
    pub fn run(self) -> Result<(), Failure> {
        let plan = self.plan()?;
        if self.dialect == DialectName::Plain && !self.live.live {
            return Err(Failure::usage("--dialect plain is a live feed").remedy("add --live"));
        }
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        let listener = listen(self.listen, "--listen")?;
        let signals = stop_signals()?;
        if self.live.live {
            return self.run_live(listener, plan, signals.as_fd(), &ready_file);
        }
        let (tls, authority) = self.tls()?;
        let is_tls = tls.is_some();
        let server = TapeServer::new(listener, self.service(&plan, tls)?);
        self.announce(server.local_address()?, is_tls, authority.as_deref(), &ready_file)?;
        let before_s = cpu_seconds();
        let report = server.run(signals.as_fd());
        let took_s = cpu_seconds() - before_s;
        ready_file.remove()?;
        if let Some(path) = &authority {
            fs::remove_file(path)?;
        }
        let report = report?;
        let summary = ServeSummary::of(&report, took_s, plan.ceiling_per_s());
        say(&if self.json { summary.json() } else { summary.text() });
        match report.failure {
            Some(reason) => Err(Failure::new(reason).remedy("record it again, or cut the file before that")),
            None => Ok(()),
        }
    }

    fn run_live(
        &self,
        listener: TcpListener,
        plan: Plan,
        stop: BorrowedFd<'_>,
        ready_file: &ReadyFile,
    ) -> Result<(), Failure> {
        // A relay takes nothing from its source.
        let is_plain = self.dialect == DialectName::Plain || self.live.is_relay();
        let source = if is_plain { LiveSource::Plain } else { LiveSource::Messages(plan.what) };
        let (tls, authority) = self.tls()?;
        let is_tls = tls.is_some();
        let transport = LiveTransport { tls, fragment_bytes: self.fragment_bytes() };
        let feed = self.live.feed(listener, source, self.rate, self.trades, self.seed, transport)?;
        self.announce(feed.local_address()?, is_tls, authority.as_deref(), ready_file)?;
        let done = live::run(feed, stop, self.json);
        ready_file.remove()?;
        if let Some(path) = &authority {
            fs::remove_file(path)?;
        }
        done
    }

    /// Tells users and programs where the feed is served.
    ///
    /// # Errors
    ///
    /// The ready file cannot be written.
    fn announce(
        &self,
        address: SocketAddr,
        is_tls: bool,
        authority: Option<&Path>,
        ready_file: &ReadyFile,
    ) -> Result<(), Failure> {
        let url = format!("{}://{address}/", if is_tls { "wss" } else { "ws" });
        if !self.json {
            say(&format!("Serving {url}; Ctrl-C stops it and says what was sent."));
            if let Some(path) = authority {
                say(&format!("Its certificate is signed by {}: trust that file.", path.display()));
            }
        }
        let served = ServedAt { http: address, tls: is_tls.then(|| (address, authority.map(Path::to_owned))) };
        let mut ready = served.fields();
        ready["url"] = url.into();
        ready_file.write(ready)
    }

    fn fragment_bytes(&self) -> Option<usize> {
        self.fragment.and_then(|bytes| usize::try_from(bytes).ok())
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let what = match (&self.file, self.dialect) {
            (Some(_), _) if self.dialect != DialectName::Trades => {
                return Err(
                    Failure::usage("--dialect and --file exclude each other").remedy("leave --file or --dialect out")
                );
            }
            (Some(path), _) => FeedSource::of_file(path, self.frame_trades.is_some())?,
            (None, DialectName::Trades) => FeedSource::SyntheticFeed { symbols: self.symbols },
            (None, dialect) => {
                FeedSource::VenueFeed { venue: dialect.venue(), markets: self.markets, sizes: self.live.payload_bytes }
            }
        };
        if matches!(self.rate, Rate::Recorded(_)) && !what.has_times() {
            return Err(Failure::usage("--rate original and xN need times that came with the trades")
                .remedy("give a recording, or a table whose every row has a t, with --file"));
        }
        let config = StreamConfig {
            pace: self.rate.pace(),
            sizes: self.frame_trades.unwrap_or(MessageSizes::Between { least: 128, most: 128 }),
            fragment: self.fragment_bytes(),
            trades: self.trades,
            disconnect_every: self.disconnect_every,
            content: self.content,
            seed: self.seed,
        };
        Ok(Plan { what, config })
    }

    fn service(&self, plan: &Plan, tls: Option<Arc<ServerConfig>>) -> Result<ServiceConfig, Failure> {
        let feed = if self.per_client {
            let plan = plan.clone();
            FeedMode::PerClient(Box::new(move || plan.stream()))
        } else {
            FeedMode::One(Box::new(plan.stream().map_err(Failure::new)?))
        };
        let protocol = Protocol {
            hello: if self.hello == HelloName::Polygon { Hello::Polygon } else { Hello::None },
            auth: self.auth.clone(),
            ping_every: self.ping_every.map(Duration::from_millis),
            disconnect: match self.disconnect_how {
                DisconnectName::Close => Disconnect::Close,
                DisconnectName::Cut => Disconnect::Cut,
                DisconnectName::Reset => Disconnect::Reset,
            },
        };
        Ok(ServiceConfig { protocol, tls, feed })
    }

    /// Returns the TLS configuration, and the path of the authority's certificate if one was made.
    ///
    /// # Errors
    ///
    /// A certificate file cannot be used, or the authority's certificate cannot be written.
    fn tls(&self) -> Result<(Option<Arc<ServerConfig>>, Option<PathBuf>), Failure> {
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            return Ok((Some(server_certificate::from_files(certificate, key)?), None));
        }
        if !self.tls {
            return Ok((None, None));
        }
        let (config, pem) = server_certificate::temporary(self.listen.ip())?;
        let path = std::env::temp_dir().join(format!("pitwire-tape-ca-{}.pem", std::process::id()));
        fs::write(&path, pem).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", path.display()))
                .remedy("set TMPDIR to a writable directory")
        })?;
        Ok((Some(config), Some(path)))
    }
}
