//! `pitwire up`: the venue.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pitwire_configuration::{AccountDef, Preset, PresetName, Setup, random_below, read_setup};
use pitwire_deribit::{Access, Credential, CredentialStore, Dispatcher, NoCredentialStore};
use pitwire_disk::DirectoryLock;
use pitwire_engine::Engine;
use pitwire_failure::{Failure, more_files};
use pitwire_gateway::VenuePublication;
use pitwire_model::VenueNanos;
use pitwire_nats::{Wildcards, check_address, check_subject, without_password};
use pitwire_net::{Server, SystemClock, stop_signals};
use pitwire_schedule::{RandomEnds, TimerQueue};
use pitwire_server::{
    Bus, SealedVault, ServiceOptions, VenueApplication, VenueService, connection_limits, default_key_file,
    request_limits, venue_time,
};
use pitwire_venue::{
    EventQueue, ExplainService, Maintenance, Recovered, StartOptions, Venue, VenueClock, recover, start_epoch,
};
use tracing::{info, warn};

use crate::bus_key;
use crate::certificate::{self, Shown};
use crate::commands::arguments;
use crate::commands::idle::Idle;
use crate::output::{hex, say};

const EXAMPLES: &str = "Examples:
  pitwire up                                    the demo venue on 127.0.0.1:8080, data in ./pitwire-data
  pitwire up --http 127.0.0.1:0 --ready-file r  any free port; r tells which, once it serves
  pitwire up --no-flow --durability memory      an empty venue that keeps nothing
  pitwire up --tls 0.0.0.0:8443                 https and wss as well; says whom to trust
  pitwire up --preset jse --speed 60            a day of sessions in ten minutes, from 08:25
  pitwire up --publish nats://127.0.0.1:4222    public channels for `pitwire gateway` too (docs/gateway.md)";

/// Start a venue: order entry, market data and the page on one port.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// Which market to start with.
    #[arg(long, value_enum, default_value = "demo")]
    preset: PresetName,
    /// Instruments and accounts besides the preset's, and limits (docs/configuration.md).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Journal what has changed in the configuration since the directory was last opened.
    #[arg(long)]
    apply_config: bool,
    /// Where the journal and snapshots are kept.
    #[arg(long, value_name = "DIR", default_value = "pitwire-data")]
    data: PathBuf,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// Where to listen for TLS as well: the same venue, https and wss; port 0 takes any free one. Without --tls-cert an
    /// authority is made under the data directory, once, and it is said how to trust it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address)]
    tls: Option<SocketAddr>,
    /// The server's certificate and what it hangs on, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Seed of the resident order flow.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// No resident order flow: the books are yours alone.
    #[arg(long)]
    no_flow: bool,
    /// Venue time runs this many times as fast as the wall clock (0.001 to 1000).
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
    speed: f64,
    /// What moves venue time: the machine's clock (venue, scaled by --speed; real, never scaled) or requests
    /// (manual: only private/pitwire_advance {"ns":N}, for runs that must repeat exactly).
    #[arg(long, value_enum, default_value = "venue")]
    clock: ClockMode,
    /// Take no command from anyone: two runs with one seed make one tape.
    #[arg(long)]
    no_clients: bool,
    /// Whether commands are on disk before anything is said about them.
    #[arg(long, value_enum, default_value = "disk")]
    durability: Durability,
    /// Let public channels tell what is not on disk yet: after a crash they may have told what never happened. Answers
    /// and private notices wait for the disk as ever.
    #[arg(long)]
    early_market_data: bool,
    /// Key under which API secrets made at run time are sealed in the data directory; made on first use.
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// How the venue thread waits for the next request.
    #[arg(long, value_enum, default_value = "spin")]
    idle: Idle,
    /// Put public channels on NATS for gateways (docs/gateway.md).
    #[arg(long, value_name = "NATS_URL")]
    publish: Option<String>,
    /// The NATS subject of --publish.
    #[arg(long, value_name = "SUBJECT", default_value = "pitwire.public", requires = "publish")]
    publish_subject: String,
    /// Where gateways reach this venue over HTTP, if not at the address of --http.
    #[arg(long, value_name = "URL", requires = "publish")]
    publish_from: Option<String>,
    /// The key that gateways share, made on first use; by default bus.key in the data directory.
    #[arg(long, value_name = "FILE", requires = "publish")]
    bus_key: Option<PathBuf>,
    /// Written whole once the venue serves: {"http":"ADDR:PORT","pid":N}, with --tls also "tls":"ADDR:PORT" and, where the
    /// authority was made here, "ca":"PATH".
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockMode {
    Venue,
    Real,
    Manual,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Durability {
    /// Synced before it is acknowledged.
    Disk,
    /// Nothing survives the process.
    Memory,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.001..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("give a number from 0.001 to 1000".into()),
    }
}

impl Up {
    pub fn run(self) -> Result<(), Failure> {
        if self.clock != ClockMode::Venue && (self.speed - 1.0).abs() > f64::EPSILON {
            return Err(Failure::usage("--speed scales --clock venue only").remedy("leave one of the two out"));
        }
        if self.publish.is_some() && self.bus_key.is_none() && self.durability == Durability::Memory {
            return Err(Failure::usage("--durability memory has no directory for the bus key")
                .remedy("say where it is, or may be made, by --bus-key FILE"));
        }
        if let Some(url) = &self.publish {
            check_address(url)?;
            check_subject(&self.publish_subject, Wildcards::Refused)?;
        }
        if self.tls.is_some() && self.tls_cert.is_none() && self.durability == Durability::Memory {
            return Err(Failure::usage("--durability memory has no directory for an authority of its own")
                .remedy("give a certificate and its key by --tls-cert and --tls-key"));
        }
        // An old one must not be taken for ours, whatever happens next.
        if let Some(path) = &self.ready_file {
            prepare_ready(path)?;
        }
        // The port before the data: a venue that cannot be reached must not touch its journal.
        let listener = listen(self.http, "--http")?;
        let secure = self.tls.map(|address| listen(address, "--tls")).transpose()?;
        // Nor must one whose certificate nobody would believe.
        let files = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let mut tls = match (&secure, files) {
            (Some(listener), Some(_)) => Some(certificate::shown(files, &self.data, listener.local_addr()?)?),
            _ => None,
        };
        let signals = stop_signals()?;
        let clock = SystemClock::start();
        let preset = self.preset.preset();
        let setup = match &self.config {
            Some(path) => preset.setup.clone().with(read_setup(path)?),
            None => preset.setup.clone(),
        };
        let (service, maintenance, lock) = self.build(&preset, &setup, &clock)?;
        let (desk, shown) = self.desk(&preset, &setup, service.venue.engine())?;
        let venue_clock = match self.clock {
            ClockMode::Manual => VenueClock::manual(),
            ClockMode::Venue | ClockMode::Real if self.no_clients || self.has_own_start(&preset) => {
                VenueClock::start(0, service.venue.now(), clock.monotonic_ns(), self.speed)
            }
            ClockMode::Venue | ClockMode::Real => venue_time(&clock, service.venue.now(), self.speed),
        };
        let bus = self.bus(&clock, listener.local_addr()?)?;
        let mut app = VenueApplication::new(service, desk, clock, venue_clock, maintenance)
            .with_early_market_data(self.early_market_data)
            .with_bus(bus);
        let doors = connection_limits(setup.limits.as_ref());
        let waker = app.service.waker.clone();
        app.service.market_data.streams.limit_addresses(doors.connections_per_address);
        let mut server = Server::new(app, listener, signals, clock)?.with_limits(doors)?.with_waker(&waker)?;
        server = server.with_idle_strategy(self.idle.strategy());
        let address = server.local_address()?;
        self.announce(&preset, &shown, address);
        let mut ready = Ready::new(address);
        if let Some(listener) = secure {
            let address = listener.local_addr()?;
            let Shown { config, authority } = match tls.take() {
                Some(shown) => shown,
                None => certificate::shown(None, &self.data.join("tls"), address)?,
            };
            announce_tls(address, authority.as_deref());
            ready.tls = Some((address, authority));
            server = server.with_tls(listener, config)?;
        }
        say("Ctrl-C stops it; nothing acknowledged is lost, however it ends.");
        if let Some(path) = &self.ready_file {
            ready.write(path)?;
        }
        let ended = server.run();
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        let app = ended.map_err(|error| {
            Failure::new(format!("the venue stopped: {error}"))
                .remedy("look at the disk, then start again: nothing acknowledged is lost")
        })?;
        let (service, maintenance) = app.into_parts();
        if let Some(maintenance) = maintenance
            && let Err(failure) = maintenance.finish(&service.venue)
        {
            // A full disk, perhaps. The log is whole, and a start without this snapshot reads more of it.
            warn!(%failure, "no snapshot at the end; nothing is lost");
        }
        service.venue.close()?;
        drop(lock);
        info!("stopped cleanly");
        Ok(())
    }

    /// What gateways are served from, if any are to be.
    fn bus(&self, clock: &SystemClock, address: SocketAddr) -> Result<Option<Bus>, Failure> {
        let Some(url) = &self.publish else { return Ok(None) };
        let key = self.bus_key.clone().unwrap_or_else(|| self.data.join(bus_key::FILE));
        let publication = VenuePublication {
            url: url.clone(),
            subject: self.publish_subject.clone(),
            // Every start has another, also where nothing of earlier ones is kept; as JSON it is exact in every language.
            epoch: clock.wall_ns() / 1_000_000,
            venue_url: self.publish_from.clone().unwrap_or_else(|| format!("http://{}", reachable(address))),
            key: bus_key::read_or_make(&key)?,
        };
        Bus::open(publication).map(Some)
    }

    /// Whether venue time begins where the preset says and not at the wall clock.
    fn has_own_start(&self, preset: &Preset) -> bool {
        preset.starts.is_some() && self.clock == ClockMode::Venue
    }

    /// Recovers or begins the venue, and opens a new epoch on it.
    fn build(
        &self,
        preset: &Preset,
        setup: &Setup,
        clock: &SystemClock,
    ) -> Result<(VenueService, Option<Maintenance>, Option<DirectoryLock>), Failure> {
        let recovered = match self.durability {
            Durability::Disk => Some(recover(&self.data)?),
            Durability::Memory => None,
        };
        let empty = Engine::new();
        let (engine, last_seen) = match &recovered {
            Some(recovered) => (recovered.sequencer.engine(), recovered.sequencer.time()),
            None => (&empty, VenueNanos::ZERO),
        };
        // A run that must repeat exactly cannot start at the wall clock's time.
        let repeats = self.no_clients || self.clock == ClockMode::Manual;
        let random_ends =
            if repeats { RandomEnds::from_seed(self.seed) } else { RandomEnds::Unpredictable(random_below) };
        let calendar = setup.calendar(random_ends)?;
        let wall = if repeats { pitwire_simulation::START } else { VenueNanos(clock.wall_ns()) };
        let now = if repeats || self.has_own_start(preset) {
            preset.start(&calendar, wall, last_seen)
        } else {
            wall.max(last_seen)
        };
        let event_queue = EventQueue::new(TimerQueue::starting(Box::new(calendar), engine, now, last_seen));
        let (mut venue, keeping) = match recovered {
            Some(Recovered { sequencer, views, chain, base, storage, lock }) => {
                (Venue::new(sequencer, views, chain, event_queue), Some((storage, base, lock)))
            }
            None => (Venue::in_memory(event_queue), None),
        };
        venue.set_flow_seed(self.seed);
        let directory = (self.durability == Durability::Disk).then_some(self.data.as_path());
        let options = StartOptions {
            setup,
            directory,
            apply_config: self.apply_config,
            with_flow: !self.no_flow,
            flow_percent: preset.flow_percent,
        };
        start_epoch(&mut venue, &options, now)?;
        if self.clock == ClockMode::Manual {
            // What is due at the start must not depend on the first client.
            while venue.step(now, &mut ())? {}
            venue.commit()?;
        }
        let (maintenance, lock) = match keeping {
            Some((storage, base, lock)) => {
                let now_ns = clock.monotonic_ns();
                let mut maintenance = Maintenance::new(storage, base, now_ns);
                maintenance.catch_up(&venue, now_ns);
                (Some(maintenance), Some(lock))
            }
            None => (None, None),
        };
        let options = ServiceOptions { manual_time: self.clock == ClockMode::Manual, no_clients: self.no_clients };
        let service = VenueService::new(venue, options).with_explain(directory.map(ExplainService::new), *clock);
        Ok((service, maintenance, lock))
    }

    /// The desk with the preset's credentials, those that operators have made, and new ones for accounts of the
    /// configuration that have none: these are given back, to be shown once.
    fn desk(&self, preset: &Preset, setup: &Setup, engine: &Engine) -> Result<(Dispatcher, Vec<Credential>), Failure> {
        let known = known_credentials(preset, setup, engine);
        let (mut vault, made): (Box<dyn CredentialStore>, _) = match self.durability {
            Durability::Memory => (Box::new(NoCredentialStore), Vec::new()),
            Durability::Disk => {
                let (vault, made) =
                    SealedVault::open(&self.data, self.key_file.clone().or_else(default_key_file), &known)?;
                (Box::new(vault), made)
            }
        };
        let mut credentials = known;
        credentials.extend(made);
        let has_login = |name: &str| credentials.iter().any(|credential| credential.client_id == name);
        let without = setup.accounts.iter().filter(|def| !def.house && !has_login(&def.name));
        let fresh: Vec<Credential> = without.filter_map(|def| credential(def, hex(&random()), engine)).collect();
        credentials.extend(fresh.iter().cloned());
        if !fresh.is_empty() {
            vault.keep(&credentials).map_err(|error| {
                Failure::new(format!("cannot keep the new credentials: {error}"))
                    .remedy("look at --data and --key-file")
            })?;
        }
        let desk = Dispatcher::new(credentials, random).with_credential_store(vault);
        let desk = match &setup.limits {
            Some(limits) => desk.with_limits(request_limits(limits)),
            None => desk,
        };
        Ok((desk, fresh))
    }

    fn announce(&self, preset: &Preset, shown: &[Credential], address: SocketAddr) {
        let reach = reachable(address);
        say(&format!("Pitwire is up: the {} venue", preset.name));
        say(&format!("  page       http://{reach}/"));
        say(&format!("  WebSocket  ws://{reach}/ws/api/v2"));
        say(&format!("  HTTP       http://{reach}/api/v2"));
        say(&format!("  streams    ws://{reach}/ws/<symbol>@trade and other forms: docs/streams.md"));
        for (client_id, secret) in &preset.logins {
            say(&format!("  login      {client_id} / {secret}"));
        }
        for credential in shown {
            say(&format!("  new login  {} / {} (shown this once)", credential.client_id, credential.secret.reveal()));
        }
        if let Some(url) = &self.publish {
            say(&format!("  bus        {} on {}", self.publish_subject, without_password(url)));
        }
        match self.durability {
            Durability::Disk => say(&format!("  data       {}", self.data.display())),
            Durability::Memory => say("  data       none: --durability memory, nothing survives this process"),
        }
        if self.early_market_data {
            say("  channels   early: public data leaves before it is on disk, and a crash may take back what it told");
        }
    }
}

pub(super) fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}")).remedy(
            more_files(&error)
                .map_or_else(|| format!("stop what uses the port, or give another with {flag}"), Into::into),
        )
    })
}

pub(super) fn announce_tls(address: SocketAddr, authority: Option<&Path>) {
    let reach = reachable(address);
    say(&format!("  TLS        https://{reach}/  wss://{reach}/ws/api/v2"));
    if let Some(authority) = authority {
        let path = authority.display();
        say(&format!("  trust      {path}: curl --cacert {path} https://{reach}/healthz, or SSL_CERT_FILE={path}"));
    }
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
    } else {
        address
    }
}

/// The logins that come with the preset.
fn known_credentials(preset: &Preset, setup: &Setup, engine: &Engine) -> Vec<Credential> {
    let defined = |name: &str| setup.accounts.iter().find(|def| def.name == name);
    let logins = preset.logins.iter().filter_map(|(name, secret)| Some((defined(name)?, secret.clone())));
    logins.filter_map(|(def, secret)| credential(def, secret, engine)).collect()
}

fn credential(def: &AccountDef, secret: String, engine: &Engine) -> Option<Credential> {
    let account = engine.account_named(&def.name)?.spec.id;
    Some(Credential { client_id: def.name.clone(), secret: secret.into(), account, access: Access::of(def.operator) })
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without randomness every token would be guessable: better none at all.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

pub(super) fn remove_old(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Before a server starts: no old file is taken for its own, and it will be able to write one.
pub(super) fn prepare_ready(path: &Path) -> Result<(), Failure> {
    remove_old(path)?;
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, "").and_then(|()| fs::remove_file(&temporary)).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display())).remedy("check --ready-file")
}

/// What whoever started it waits for.
pub(super) struct Ready {
    pub http: SocketAddr,
    /// The second door, and the file by which to trust it.
    pub tls: Option<(SocketAddr, Option<PathBuf>)>,
}

impl Ready {
    fn new(http: SocketAddr) -> Ready {
        Ready { http, tls: None }
    }

    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut ready = serde_json::json!({ "http": self.http.to_string(), "pid": std::process::id() });
        if let Some((address, authority)) = &self.tls {
            ready["tls"] = address.to_string().into();
            if let Some(authority) = authority {
                ready["ca"] = authority.display().to_string().into();
            }
        }
        let temporary = path.with_extension("tmp");
        let written = fs::write(&temporary, format!("{ready}\n")).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|error| cannot_write(path, &error))
    }
}
