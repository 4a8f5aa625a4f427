//! `pitwire up`: the venue.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pitwire_aeron_transport::AeronChannels;
use pitwire_configuration::{AccountDef, Preset, PresetName, Setup, random_below, read_setup};
use pitwire_deribit::{Access, Credential, CredentialStore, DialectLimits, Dispatcher, NoCredentialStore};
use pitwire_disk::DirectoryLock;
use pitwire_engine::Engine;
use pitwire_failure::{Failure, without_password};
use pitwire_flow_models::FlowSource;
use pitwire_gateway::VenuePublication;
use pitwire_journal::{Keep, LogError, Storage};
use pitwire_model::{FlowSetting, VenueNanos};
use pitwire_nats::{Wildcards, check_address, check_subject};
use pitwire_net::listen_options::{self, listen};
use pitwire_net::local_addresses::{own_addresses, reachable};
use pitwire_net::{Server, SystemClock, stop_signals};
use pitwire_order_feed_network::{FeedAddresses, OrderFeed, RecoveryPort};
use pitwire_sbe_gateway::{BinaryEntry, CtxMembers, EntrySchema};
use pitwire_schedule::{RandomEnds, TimerQueue, duration_ns};
use pitwire_server::{
    Bus, RunBounds, SealedVault, ServiceOptions, Simulations, StoredCredentials, VenueApplication, VenueService,
    connection_limits, default_key_file, request_limits, venue_time,
};
use pitwire_venue::{
    ClockRelation, EventQueue, ExplainService, Maintenance, RecoveredVenue, StartOptions, Venue, VenueClock,
    check_clock, recover_with_progress, start_epoch, warm_up,
};
use tracing::{info, warn};

use crate::bus_key;
use crate::commands::arguments::CertificateFiles;
use crate::commands::feed_check::{OrderFeedEncoding, check_lines};
use crate::commands::idle::Idle;
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;
use pitwire_tls::server_certificate::{self, ServerCertificate};

const EXAMPLES: &str = "Examples:
  pitwire up
      the demo venue on 127.0.0.1:8080, data in ./pitwire-data
  pitwire up --preset jse --speed 60 --tls 0.0.0.0:8443
      a day of sessions in ten minutes, from 08:25, over https and wss too";

/// Start a venue: order entry, market data and the web page on one port.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// Market to start with
    #[arg(long, value_enum, default_value = "demo")]
    preset: PresetName,
    /// Configuration file: more instruments and accounts, and limits (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Journal the changes of the configuration since the data directory was last opened
    #[arg(long)]
    apply_config: bool,
    /// Directory of the journal and the snapshots
    #[arg(long, value_name = "DIR", default_value = "pitwire-data")]
    data: PathBuf,
    /// History that stays on disk: all, a venue time such as 6h or 7d, or a size such as 20GB. Old
    /// segments are compressed. The log warns one snapshot (five minutes) before the first drop.
    #[arg(long, value_name = "all|TIME|SIZE", default_value = "all")]
    keep: Keep,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// Accept the preset's public credentials (demo-a, demo-b, demo-operator) on addresses that are
    /// not loopback. Without it, such a venue makes secrets for these accounts and shows them once.
    #[arg(long)]
    demo_credentials: bool,
    /// Let members run simulations, too. A member sees the runs that it started.
    #[arg(long)]
    member_simulations: bool,
    /// Address for TLS, which serves the same venue over https and wss; port 0 takes a free one.
    /// Without --tls-cert the venue creates its own certificate authority in the data directory
    /// once and prints how to trust it.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    tls: Option<SocketAddr>,
    #[command(flatten)]
    tls_files: CertificateFiles,
    /// Loopback address for binary order entry by SBE over TCP (docs/sbe.md); port 0 takes a free
    /// one
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    sbe: Option<SocketAddr>,
    /// Binary order entry over Aeron (docs/aeron.md): the channels of requests and answers. May be
    /// repeated. Needs the build of make aeron and a media driver; --idle busy makes it quick
    #[arg(long, value_name = "REQUESTS,ANSWERS", value_parser = AeronChannels::parse)]
    sbe_aeron: Vec<AeronChannels>,
    /// Directory of the media driver of --sbe-aeron; the default is that of Aeron
    #[arg(long, value_name = "DIR", requires = "sbe_aeron")]
    sbe_aeron_directory: Option<String>,
    /// Loopback address for orders by the SBE schemas of CoinTossX over TCP
    /// (docs/cointossx-profile.md); port 0 takes a free one. Without an address it is
    /// 127.0.0.1:5000, the port of CoinTossX's first client
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, num_args = 0..=1, default_missing_value = "127.0.0.1:5000")]
    cointossx: Option<SocketAddr>,
    /// CSV file of the members of --cointossx: CompID,Password,ClientID,ClientSecret. Without it
    /// CoinTossX's clients 1 and 2 are the accounts demo-a and demo-b
    #[arg(long, value_name = "FILE", requires = "cointossx")]
    cointossx_members: Option<PathBuf>,
    /// Destinations of lines A and B of the order-by-order feed over UDP: hosts or multicast groups
    /// (docs/order-feed.md). One address sends line A only
    #[arg(long, value_name = "ADDR:PORT[,ADDR:PORT]", value_parser = feed_line, value_delimiter = ',', requires = "order_feed_recovery")]
    order_feed: Vec<SocketAddr>,
    /// Address for replays and snapshots of the order-by-order feed over TCP; port 0 takes a free
    /// one. It needs no login and has no encryption
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address, requires = "order_feed")]
    order_feed_recovery: Option<SocketAddr>,
    /// Encoding of the order-by-order feed. With itch, --order-feed-recovery takes requests of
    /// MoldUDP64 over UDP and sends snapshots of GLIMPSE over TCP
    #[arg(long, value_enum, value_name = "NAME", default_value = "mitch", requires = "order_feed")]
    order_feed_encoding: OrderFeedEncoding,
    /// Seed of the resident order flow
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Trading that a venue in an empty directory simulates before it serves: 30m, 6h, or 0 for
    /// none. The default is 6h for demo and crypto24x7, and none for jse.
    #[arg(long, value_name = "TIME", value_parser = warm_up_length)]
    warm_up: Option<u64>,
    /// Start without order flow
    #[arg(long)]
    no_flow: bool,
    /// The order flow: a name that `pitwire flow list` prints, or a file (docs/flow.md). It is
    /// journaled
    #[arg(long, value_name = "NAME|FILE", default_value = FlowSource::default().name(), conflicts_with = "no_flow")]
    flow: String,
    /// Event rate of the order flow in one instrument, in percent of its rate in the preset; 0
    /// stops it. May be given for several instruments.
    #[arg(long, value_name = "NAME=PERCENT", value_parser = instrument_flow, conflicts_with = "no_flow")]
    flow_rate: Vec<(String, FlowSetting)>,
    /// Speed of venue time relative to the wall clock (0.001 to 1000)
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Source of venue time: venue (the machine's clock, scaled by --speed), real (the machine's
    /// clock, unscaled) or manual (only requests private/pitwire_advance {"ns":N} move time, for
    /// runs that repeat exactly)
    #[arg(long, value_enum, default_value = "venue")]
    clock: ClockMode,
    /// Start although the machine's clock is more than a day ahead of the last command in the data
    /// directory, or behind it
    #[arg(long)]
    accept_clock: bool,
    /// Refuse all commands of clients, so that two runs with the same seed produce the same tape
    #[arg(long)]
    no_clients: bool,
    /// Where commands are stored before they are acknowledged
    #[arg(long, value_enum, default_value = "disk")]
    durability: Durability,
    /// Publish market data before it is on disk. After a crash, clients may have seen events that
    /// never happened. Answers and private notices still wait for the disk.
    #[arg(long)]
    early_market_data: bool,
    /// Key file that encrypts the API secrets made at run time; created on first use
    #[arg(long, value_name = "PATH")]
    key_file: Option<PathBuf>,
    /// How the venue thread waits for the next request
    #[arg(long, value_enum, default_value = "spin")]
    idle: Idle,
    /// Publish the public channels on NATS for gateways (docs/gateway.md)
    #[arg(long, value_name = "NATS_URL")]
    publish: Option<String>,
    /// NATS subject of --publish
    #[arg(long, value_name = "SUBJECT", default_value = "pitwire.public", requires = "publish")]
    publish_subject: String,
    /// HTTP address at which gateways reach this venue, if it differs from --http
    #[arg(long, value_name = "URL", requires = "publish")]
    publish_from: Option<String>,
    /// Key file shared with the gateways, created on first use; the default is bus.key in the data
    /// directory
    #[arg(long, value_name = "FILE", requires = "publish")]
    bus_key: Option<PathBuf>,
    /// File to write once the venue serves: {"http":"ADDR:PORT","pid":N}; with --tls also
    /// "tls":"ADDR:PORT" and, if the venue created the authority, "ca":"PATH"; with --sbe also
    /// "sbe":"ADDR:PORT", with --cointossx "cointossx":"ADDR:PORT", and with --order-feed-recovery
    /// "order_feed_recovery":"ADDR:PORT"
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
    /// Synced to disk before they are acknowledged
    Disk,
    /// In memory only; nothing survives the process
    Memory,
}

/// Parses the destination of a line of the order feed.
fn feed_line(text: &str) -> Result<SocketAddr, String> {
    let address = listen_options::address(text)?;
    if address.port() == 0 || address.ip().is_unspecified() {
        return Err(
            "give the address and the port of a reader or a multicast group: 127.0.0.1:9100, 239.1.1.1:9100".into()
        );
    }
    Ok(address)
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.001..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("give a number from 0.001 to 1000".into()),
    }
}

/// Parses the length of a warm-up, in nanoseconds.
fn warm_up_length(text: &str) -> Result<u64, String> {
    let length = if text == "0" { Some(0) } else { duration_ns(text) };
    length.ok_or_else(|| "give at most 24 hours, such as 30m or 6h, or 0 for none".into())
}

/// Reads `NAME=PERCENT` of the order flow in one instrument.
fn instrument_flow(text: &str) -> Result<(String, FlowSetting), String> {
    let most = FlowSetting::MOST_RATE_PERCENT;
    let (name, rate) = text.rsplit_once('=').unwrap_or((text, ""));
    match rate.parse() {
        Ok(0) => Ok((name.to_owned(), FlowSetting { running: false, rate_percent: 100 })),
        Ok(rate_percent) if rate_percent <= most => Ok((name.to_owned(), FlowSetting { running: true, rate_percent })),
        _ => Err(format!("give an instrument and a percentage from 0 to {most}, such as NPN_ZAR=50")),
    }
}

/// The data directory of a venue, unless it is in memory.
struct OpenDirectory {
    maintenance: Maintenance,
    vault: SealedVault,
    stored: StoredCredentials,
    /// Must live as long as the venue writes.
    lock: DirectoryLock,
}

impl Up {
    /// Runs the venue until a signal.
    ///
    /// # Errors
    /// If options contradict each other, an address or a file cannot be used, the data directory
    /// does not replay, or the journal fails while the venue runs.
    pub fn run(self) -> Result<(), Failure> {
        if self.clock != ClockMode::Venue && (self.speed - 1.0).abs() > f64::EPSILON {
            return Err(Failure::usage("--speed scales --clock venue only").remedy("leave one of the two out"));
        }
        if self.publish.is_some() && self.bus_key.is_none() && self.durability == Durability::Memory {
            return Err(Failure::usage("--durability memory has no directory for the bus key")
                .remedy("name the key file with --bus-key FILE"));
        }
        if self.no_flow && self.warm_up.is_some_and(|ns| ns > 0) {
            return Err(Failure::usage("--warm-up needs the order flow that --no-flow leaves out")
                .remedy("leave one of the two out"));
        }
        if let Some(url) = &self.publish {
            check_address(url)?;
            check_subject(&self.publish_subject, Wildcards::Refused)?;
        }
        if self.tls.is_some() && self.tls_files.pair().is_none() && self.durability == Durability::Memory {
            return Err(Failure::usage("--durability memory has no directory for a certificate authority")
                .remedy("give a certificate and its key with --tls-cert and --tls-key"));
        }
        let members = self.binary_order_entry()?;
        check_lines(&self.order_feed, "--order-feed")?;
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        // Bind the port before opening the data: a venue without a port must not touch its journal.
        let listener = listen(self.http, "--http")?;
        let secure = self.tls.map(|address| listen(address, "--tls")).transpose()?;
        let binary = self.sbe.map(|address| listen(address, "--sbe")).transpose()?;
        let cointossx = self.cointossx.map(|address| listen(address, "--cointossx")).transpose()?;
        let recovery = self.order_feed_recovery.map(|address| self.recovery_port(address)).transpose()?;
        let aeron = (!self.sbe_aeron.is_empty())
            .then(|| pitwire_aeron_transport::open(&self.sbe_aeron, self.sbe_aeron_directory.as_deref()))
            .transpose()?;
        // Check the certificate before opening the data, too.
        let files = self.tls_files.pair();
        let mut tls = match (&secure, files) {
            (Some(listener), Some(_)) => {
                Some(server_certificate::server_certificate(files, &self.data, listener.local_addr()?)?)
            }
            _ => None,
        };
        let signals = stop_signals()?;
        let clock = SystemClock::start();
        let preset = self.preset.preset();
        let setup = match &self.config {
            Some(path) => preset.setup.clone().with(read_setup(path)?),
            None => preset.setup.clone(),
        };
        let (service, open) = self.build(&preset, &setup, &clock)?;
        let (maintenance, lock, vault) = match open {
            Some(open) => (Some(open.maintenance), Some(open.lock), Some((open.vault, open.stored))),
            None => (None, None, None),
        };
        let (dispatcher, logins) = self.dispatcher(&preset, &setup, service.venue.engine(), vault)?;
        let venue_clock = match self.clock {
            ClockMode::Manual => VenueClock::manual(),
            ClockMode::Venue | ClockMode::Real if self.no_clients || self.has_own_start(&preset) => {
                VenueClock::start(0, service.venue.now(), clock.monotonic_ns(), self.speed)
            }
            ClockMode::Venue | ClockMode::Real => venue_time(&clock, service.venue.now(), self.speed),
        };
        let bus = self.bus(&clock, listener.local_addr()?)?;
        let feed = recovery.map(|recovery| self.order_feed(recovery, &service)).transpose()?;
        let feed_address = feed.as_ref().map(OrderFeed::recovery_address);
        let service = service.with_order_feed(feed);
        let entry_ports = [
            ("sbe", "SBE      ", "docs/sbe.md", binary, EntrySchema::Pitwire),
            ("cointossx", "CoinTossX", "docs/cointossx-profile.md", cointossx, EntrySchema::CoinTossX(members)),
        ];
        let mut entry = BinaryEntry::new(clock.wall_ns());
        let mut streams = Vec::new();
        for (field, name, page, listener, schema) in entry_ports {
            if let Some(listener) = listener {
                entry = entry.with_listener(schema);
                streams.push((field, name, page, listener));
            }
        }
        if aeron.is_some() {
            entry = entry.with_listener(EntrySchema::Pitwire);
        }
        let mut app = VenueApplication::new(service, dispatcher, clock, venue_clock, maintenance)
            .with_early_market_data(self.early_market_data)
            .with_entry(entry)
            .with_bus(bus);
        let limits = connection_limits(setup.limits.as_ref());
        let waker = app.service.waker.clone();
        app.service.market_data.streams.limit_addresses(limits.connections_per_address);
        let mut server = Server::new(app, listener, signals, clock)?.with_limits(limits)?.with_waker(&waker)?;
        server = server.with_idle_strategy(self.idle.strategy());
        let address = server.local_address()?;
        self.announce(&preset, &logins, address);
        if let Some(recovery) = feed_address {
            let lines: Vec<String> = self.order_feed.iter().map(ToString::to_string).collect();
            say(&format!("  order feed udp {}, recovery {recovery} (docs/order-feed.md)", lines.join(" and ")));
        }
        let mut served = ServedAt { http: address, tls: None };
        if let Some(listener) = secure {
            let address = listener.local_addr()?;
            let ServerCertificate { config, authority } = match tls.take() {
                Some(shown) => shown,
                None => server_certificate::server_certificate(None, &self.data.join("tls"), address)?,
            };
            announce_tls(address, authority.as_deref());
            served.tls = Some((address, authority));
            server = server.with_tls(listener, config)?;
        }
        let mut fields = served.fields();
        for (field, name, page, listener) in streams {
            let address = listener.local_addr()?.to_string();
            say(&format!("  {name}  {address} ({page})"));
            fields[field] = address.into();
            server = server.with_streams(listener)?;
        }
        for AeronChannels { requests, answers } in &self.sbe_aeron {
            say(&format!("  Aeron     {requests}, answers {answers} (docs/aeron.md)"));
        }
        say(match self.durability {
            Durability::Disk => "Ctrl-C stops it; every acknowledged command is kept.",
            Durability::Memory => "Ctrl-C stops it; nothing is kept.",
        });
        if let Some(recovery) = feed_address {
            fields["order_feed_recovery"] = recovery.to_string().into();
        }
        ready_file.write(fields)?;
        let ended = match aeron {
            Some(transport) => server.run_with_transport(transport),
            None => server.run(),
        };
        ready_file.remove()?;
        let app = ended.map_err(|error| {
            let of_log = error.get_ref().and_then(|inner| inner.downcast_ref::<LogError>());
            let remedy = match of_log {
                Some(displaced @ LogError::Displaced { .. }) => displaced.remedy(),
                _ => "check the disk and start again; every acknowledged command is kept",
            };
            Failure::new(format!("the venue stopped: {error}")).remedy(remedy)
        })?;
        let (mut service, maintenance) = app.into_parts();
        if let Some(maintenance) = maintenance
            && let Err(failure) = maintenance.finish(&mut service.venue)
        {
            // The disk may be full. The log is complete, and the next start replays more of it.
            warn!(%failure, "cannot write the final snapshot; no command is lost, and the next start takes longer");
        }
        service.venue.close()?;
        drop(lock);
        info!("stopped cleanly");
        Ok(())
    }

    fn recovery_port(&self, address: SocketAddr) -> Result<RecoveryPort, Failure> {
        const OPTION: &str = "--order-feed-recovery";
        match self.order_feed_encoding {
            OrderFeedEncoding::Mitch => Ok(listen(address, OPTION)?.into()),
            OrderFeedEncoding::Itch => RecoveryPort::open_itch(address).map_err(|error| {
                Failure::new(format!("{OPTION} {address} cannot be opened: {error}"))
                    .remedy("give it a port of this host that no other program uses, over UDP or TCP")
            }),
        }
    }

    /// Starts the order-by-order feed.
    fn order_feed(&self, recovery: RecoveryPort, service: &VenueService) -> Result<OrderFeed, Failure> {
        let (engine, at) = (service.venue.engine(), service.venue.now());
        let encoding = recovery.encoding();
        if self.order_feed_encoding == OrderFeedEncoding::Itch
            && let Some(market) = engine.markets().iter().find(|market| !encoding.includes(&market.spec))
        {
            let (name, tick) = (&market.spec.name, market.spec.tick);
            return Err(Failure::new(format!(
                "--order-feed-encoding itch has no room for {name} with ticks of {tick}: expected at most four \
                 decimals, prices up to 429,496.7295 and an instrument id up to 65,535"
            ))
            .remedy("use --order-feed-encoding mitch, or define the instrument with coarser ticks"));
        }
        OrderFeed::start(FeedAddresses { lines: self.order_feed.clone(), recovery }, engine, at).map_err(|error| {
            Failure::new(format!("cannot start the order feed: {error}"))
                .remedy("check --order-feed, or start without it")
        })
    }

    /// Checks the addresses of binary order entry, and reads the members of CoinTossX.
    fn binary_order_entry(&self) -> Result<CtxMembers, Failure> {
        for (option, address) in [("--sbe", self.sbe), ("--cointossx", self.cointossx)] {
            if let Some(address) = address.filter(|address| !address.ip().to_canonical().is_loopback()) {
                let remedy =
                    format!("give {option} an address such as 127.0.0.1:9001, and tunnel to it from other hosts");
                let what =
                    format!("{option} {address} is not a loopback address, and binary order entry has no encryption");
                return Err(Failure::usage(what).remedy(remedy));
            }
        }
        match &self.cointossx_members {
            None => Ok(CtxMembers::demo()),
            Some(path) => CtxMembers::read(path).map_err(|error| {
                let remedy = "write the header CompID,Password,ClientID,ClientSecret and one member per line";
                Failure::usage(format!("--cointossx-members: {error}")).remedy(remedy)
            }),
        }
    }

    /// Opens the publication for gateways, if one was requested.
    fn bus(&self, clock: &SystemClock, address: SocketAddr) -> Result<Option<Bus>, Failure> {
        let Some(url) = &self.publish else { return Ok(None) };
        let key = self.bus_key.clone().unwrap_or_else(|| self.data.join(bus_key::FILE));
        let publication = VenuePublication {
            url: url.clone(),
            subject: self.publish_subject.clone(),
            // Differs between starts, also without a log. Milliseconds are exact as a JSON number.
            epoch: clock.wall_ns() / 1_000_000,
            venue_url: self.publish_from.clone().unwrap_or_else(|| format!("http://{}", reachable(address))),
            key: bus_key::read_or_make(&key)?,
        };
        Bus::open(publication).map(Some)
    }

    /// Returns the venue time that a fresh venue simulates before it serves, in nanoseconds. A run
    /// that must repeat exactly, and one without flow, simulates only on request.
    fn warm_up_ns(&self, preset: &Preset) -> u64 {
        let by_default = !(self.no_flow || self.no_clients || self.clock == ClockMode::Manual);
        let preset_ns = if by_default { u64::from(preset.warm_up_s) * 1_000_000_000 } else { 0 };
        self.warm_up.unwrap_or(preset_ns)
    }

    /// Returns whether venue time starts at the preset's time instead of the wall clock's.
    fn has_own_start(&self, preset: &Preset) -> bool {
        preset.starts.is_some() && self.clock == ClockMode::Venue
    }

    /// Returns how venue time relates to the machine's clock, unless it starts elsewhere.
    fn clock_relation(&self) -> ClockRelation {
        match self.speed {
            speed if speed > 1.0 => ClockRelation::Faster,
            speed if speed < 1.0 => ClockRelation::Slower,
            _ => ClockRelation::Follows,
        }
    }

    /// Recovers or creates the venue, and begins a new epoch.
    fn build(
        &self,
        preset: &Preset,
        setup: &Setup,
        clock: &SystemClock,
    ) -> Result<(VenueService, Option<OpenDirectory>), Failure> {
        // Before the directory is created.
        let flow = FlowSource::named(&self.flow)?;
        let recovered = match self.durability {
            Durability::Disk => {
                let progress = CommandProgress::new("recovering");
                Some(recover_with_progress(&self.data, &mut |done, total| progress.show(done, total))?)
            }
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
        let has_own_start = repeats || self.has_own_start(preset);
        let now = if has_own_start { preset.start(&calendar, wall, last_seen) } else { wall.max(last_seen) };
        let is_fresh = recovered.as_ref().is_none_or(|recovered| recovered.sequencer.last().0 == 0);
        if !is_fresh && !has_own_start && !self.accept_clock {
            check_clock(self.clock_relation(), wall, last_seen)?;
        }
        let simulated_ns = if is_fresh { self.warm_up_ns(preset) } else { 0 };
        let begin = VenueNanos(now.0.saturating_sub(simulated_ns));
        let event_queue = EventQueue::new(TimerQueue::starting(Box::new(calendar), engine, begin, last_seen));
        let (mut venue, keeping) = match recovered {
            Some(RecoveredVenue { sequencer, views, chain, base, storage, lock }) => {
                (Venue::new(sequencer, views, chain, event_queue), Some((storage, base, lock)))
            }
            None => (Venue::in_memory(event_queue), None),
        };
        venue.set_flow_seed(self.seed);
        // Before the configuration adds accounts.
        let opened = match &keeping {
            Some((storage, ..)) => {
                let key_file = self.key_file.clone().or_else(default_key_file);
                Some(SealedVault::open(Arc::clone(storage), key_file, venue.engine())?)
            }
            None => None,
        };
        let options = StartOptions {
            setup,
            directory: keeping.as_ref().map(|(storage, ..)| storage.as_ref()),
            apply_config: self.apply_config,
            with_flow: !self.no_flow,
            flow: &flow,
            flow_percent: flow.percent(preset.flow_percent),
            instrument_flows: &self.flow_rate,
        };
        start_epoch(&mut venue, &options, begin)?;
        if simulated_ns > 0 {
            let progress = CommandProgress::new("simulating a past");
            warm_up(&mut venue, &options, now, &mut |done, total| progress.show(done, total))?;
        }
        if self.clock == ClockMode::Manual {
            // What is due at the start must not depend on the first client.
            while venue.step(now, &mut ())? {}
            venue.commit()?;
        }
        let open = keeping.zip(opened).map(|((storage, base, lock), (vault, stored))| {
            let now_ns = clock.monotonic_ns();
            let storage = storage as Arc<dyn Storage>;
            let mut maintenance = Maintenance::new(storage, self.keep, base, now_ns).with_usage_of(&self.data);
            maintenance.catch_up(&mut venue, now_ns);
            maintenance.compress_old_segments();
            OpenDirectory { maintenance, vault, stored, lock }
        });
        let options = ServiceOptions { manual_time: self.clock == ClockMode::Manual, no_clients: self.no_clients };
        let explain = open.as_ref().map(|_| ExplainService::new(&self.data));
        let mut service = VenueService::new(venue, options).with_explain(explain, *clock);
        // Simulations need the path of this program. Without it operators get `no_simulations`.
        if let Ok(program) = std::env::current_exe() {
            service = service.with_simulations(self.simulations(program).for_members(self.member_simulations));
        }
        Ok((service, open))
    }

    /// Whether the preset's credentials are accepted. Their secrets are public, so by default only
    /// clients on this machine may use them.
    fn takes_demo_credentials(&self) -> bool {
        let is_here = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        self.demo_credentials || [Some(self.http), self.tls].into_iter().flatten().all(is_here)
    }

    /// Finds the simulations in the data directory. A venue in memory has a temporary directory.
    fn simulations(&self, program: PathBuf) -> Simulations {
        match self.durability {
            Durability::Disk => {
                let directory = self.data.join("simulations");
                Simulations::open(program, &directory, RunBounds::default(), false)
            }
            Durability::Memory => {
                let name = format!("pitwire-simulations-{}", hex::encode(&random()[..8]));
                Simulations::open(program, &std::env::temp_dir().join(name), RunBounds::default(), true)
            }
        }
    }

    /// Creates the dispatcher with the stored credentials, those of the preset, and new ones for
    /// configured accounts without any. Returns the logins to show.
    fn dispatcher(
        &self,
        preset: &Preset,
        setup: &Setup,
        engine: &Engine,
        vault: Option<(SealedVault, StoredCredentials)>,
    ) -> Result<(Dispatcher, ShownLogins), Failure> {
        let public = if self.takes_demo_credentials() { known_credentials(preset, setup, engine) } else { Vec::new() };
        let (mut vault, stored): (Box<dyn CredentialStore>, _) = match vault {
            None => (Box::new(NoCredentialStore), StoredCredentials::default()),
            Some((vault, stored)) => (Box::new(vault.with_preset(public.clone())), stored),
        };
        let StoredCredentials { mut credentials, removed } = stored;
        // A stored credential replaces the public one of the same name, and a removed one stays
        // removed.
        let is_settled = |credentials: &[Credential], name: &str| {
            removed.contains(name) || credentials.iter().any(|credential| credential.client_id == name)
        };
        let is_closed = |name: &str| engine.account_named(name).is_some_and(|account| account.is_closed());
        let is_valid = |credential: &Credential| {
            !is_settled(&credentials, &credential.client_id) && !is_closed(&credential.account_name)
        };
        let public: Vec<Credential> = public.into_iter().filter(is_valid).collect();
        credentials.extend(public.iter().cloned());
        let without = setup
            .accounts
            .iter()
            .filter(|def| !def.house && !is_settled(&credentials, &def.name) && !is_closed(&def.name));
        let fresh: Vec<Credential> = without.filter_map(|def| credential(def, hex::encode(random()), engine)).collect();
        credentials.extend(fresh.iter().cloned());
        if !fresh.is_empty() {
            vault.keep(&credentials, &removed).map_err(|error| {
                Failure::new(format!("cannot keep the new credentials: {error}")).remedy("check --data and --key-file")
            })?;
        }
        let dispatcher = Dispatcher::new(credentials, random).with_credential_store(vault).without_client_ids(removed);
        let dispatcher = match &setup.limits {
            Some(limits) => dispatcher
                .with_limits(request_limits(limits))
                .with_max_open_orders(limits.open_orders_per_account.unwrap_or(DialectLimits::MAX_OPEN_ORDERS))
                .with_max_stop_orders(limits.stop_orders_per_account.unwrap_or(DialectLimits::MAX_STOP_ORDERS)),
            None => dispatcher,
        };
        Ok((dispatcher, ShownLogins { public, fresh }))
    }

    fn announce(&self, preset: &Preset, logins: &ShownLogins, address: SocketAddr) {
        let reach = reachable(address);
        say(&format!("Pitwire is up: the {} venue", preset.name));
        say(&format!("  page       http://{reach}/"));
        if address.ip().is_unspecified() {
            for own in own_addresses().into_iter().filter(|own| address.is_ipv6() || own.is_ipv4()) {
                say(&format!("             http://{}/", SocketAddr::new(own, address.port())));
            }
            say(&format!("  listens    on {address}: every host that reaches this machine can connect"));
        }
        say(&format!("  WebSocket  ws://{reach}/ws/api/v2"));
        say(&format!("  HTTP       http://{reach}/api/v2"));
        say(&format!("  streams    ws://{reach}/ws/<symbol>@trade and other forms: docs/streams.md"));
        for credential in &logins.public {
            say(&format!("  login      {} / {}", credential.client_id, credential.secret.reveal()));
        }
        if !self.takes_demo_credentials() {
            say("  note       demo credentials work on loopback only; --demo-credentials accepts them here too");
        } else if self.demo_credentials && !logins.public.is_empty() {
            say("  warning    the secrets above are public: every host that reaches this venue can operate it");
        }
        for credential in &logins.fresh {
            say(&format!("  new login  {} / {} (shown this once)", credential.client_id, credential.secret.reveal()));
        }
        if let Some(url) = &self.publish {
            say(&format!("  bus        {} on {}", self.publish_subject, without_password(url)));
        }
        if self.keep != Keep::All && self.durability == Durability::Disk {
            say(&format!("  history    --keep allows {}; the venue drops what is older", self.keep));
        }
        match self.durability {
            Durability::Disk => say(&format!("  data       {}", self.data.display())),
            Durability::Memory => say("  data       none: --durability memory, nothing survives this process"),
        }
        if self.early_market_data {
            say(
                "  channels   early: public data leaves before it is on disk, and a crash may take back published events",
            );
        }
    }
}

pub(super) fn announce_tls(address: SocketAddr, authority: Option<&Path>) {
    let reach = reachable(address);
    say(&format!("  TLS        https://{reach}/  wss://{reach}/ws/api/v2"));
    if let Some(authority) = authority {
        let path = authority.display();
        say(&format!("  trust      {path}: curl --cacert {path} https://{reach}/healthz, or SSL_CERT_FILE={path}"));
    }
}

/// The logins that the start shows.
struct ShownLogins {
    /// Credentials of the preset. Their secrets are in the documentation.
    public: Vec<Credential>,
    /// Credentials that this start made. Their secrets are shown once.
    fresh: Vec<Credential>,
}

/// Returns the credentials of the preset.
fn known_credentials(preset: &Preset, setup: &Setup, engine: &Engine) -> Vec<Credential> {
    let defined = |name: &str| setup.accounts.iter().find(|def| def.name == name);
    let logins = preset.logins.iter().filter_map(|(name, secret)| Some((defined(name)?, secret.clone())));
    logins.filter_map(|(def, secret)| credential(def, secret, engine)).collect()
}

fn credential(def: &AccountDef, secret: String, engine: &Engine) -> Option<Credential> {
    let account = engine.account_named(&def.name)?.spec.id;
    Some(Credential {
        client_id: def.name.clone(),
        secret: secret.into(),
        account,
        account_name: def.name.clone(),
        access: Access::of(def.operator),
    })
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without randomness every token could be guessed, so panic instead.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
