//! `pitwire up`: the venue.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pitwire_host::{Server, SystemClock, stop_signals};
use pitwire_model::{Command, Epoch, FlowSetting, InstrumentSpec, VenueNanos};
use pitwire_order_entry::Desk;
use pitwire_ports::Clock;
use pitwire_sequencer::{Sequencer, Timetable};
use tracing::info;

use super::sim;
use crate::failure::Failure;
use crate::output::say;
use crate::venue::application::{VenueApplication, venue_time};
use crate::venue::chores::Chores;
use crate::venue::clock::VenueClock;
use crate::venue::core::{Core, FlowPlan};
use crate::venue::ledger::Ledger;
use crate::venue::preset::{self, Preset};
use crate::venue::recovery::{Recovered, recover};

const EXAMPLES: &str = "Examples:
  pitwire up                                    the demo venue on 127.0.0.1:8080, data in ./pitwire-data
  pitwire up --http 127.0.0.1:0 --ready-file r  any free port; r tells which, once it serves
  pitwire up --no-flow --durability memory      an empty venue that keeps nothing";

/// Start a venue: order entry, market data and the page on one port.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// Which market to start with.
    #[arg(long, value_enum, default_value = "demo")]
    preset: PresetName,
    /// Where the journal and snapshots are kept.
    #[arg(long, value_name = "DIR", default_value = "pitwire-data")]
    data: PathBuf,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    http: SocketAddr,
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
    /// Written whole once the venue serves: {"http":"ADDR:PORT","pid":N}.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PresetName {
    /// Eleven instruments in continuous trading with resident flow.
    Demo,
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
        // An old one must not be taken for ours, whatever happens next.
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        // The port before the data: a venue that cannot be reached must not touch its journal.
        let listener = TcpListener::bind(self.http).map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", self.http))
                .remedy("stop what uses the port, or give another with --http")
        })?;
        let signals = stop_signals()?;
        let clock = SystemClock::start();
        let preset = match self.preset {
            PresetName::Demo => preset::demo(),
        };
        let (core, chores, lock) = self.build(&preset, &clock)?;
        let desk = Desk::new(preset.credentials.clone(), random);
        let venue_clock = match self.clock {
            ClockMode::Manual => VenueClock::manual(),
            ClockMode::Venue | ClockMode::Real if self.no_clients => {
                VenueClock::start(0, core.now, clock.monotonic_ns(), self.speed)
            }
            ClockMode::Venue | ClockMode::Real => venue_time(&clock, core.now, self.speed),
        };
        let app = VenueApplication::new(core, desk, clock, venue_clock, chores);
        let server = Server::new(app, listener, signals, clock)?;
        let address = server.local_address()?;
        self.announce(&preset, address);
        if let Some(path) = &self.ready_file {
            write_ready(path, address)?;
        }
        let ended = server.run();
        if let Some(path) = &self.ready_file {
            remove_old(path)?;
        }
        let app = ended.map_err(|error| {
            Failure::new(format!("the venue stopped: {error}"))
                .remedy("look at the disk, then start again: nothing acknowledged is lost")
        })?;
        let (core, chores) = app.into_parts();
        if let Some(chores) = chores {
            chores.finish(&core)?;
        }
        if let Ledger::Disk(journal) = core.sequencer.into_log() {
            journal.close()?;
        }
        drop(lock);
        info!("stopped cleanly");
        Ok(())
    }

    /// Recovers or begins the venue, and opens a new epoch on it.
    fn build(
        &self,
        preset: &Preset,
        clock: &SystemClock,
    ) -> Result<(Core, Option<Chores>, Option<pitwire_host::DirectoryLock>), Failure> {
        let (sequencer, views, chain, keeping) = match self.durability {
            Durability::Disk => {
                let Recovered { sequencer, views, chain, storage, lock } = recover(&self.data)?;
                (sequencer, views, chain, Some((storage, lock)))
            }
            Durability::Memory => {
                let engine = pitwire_engine::Engine::new();
                let sequencer = Sequencer::resume(engine, Ledger::memory(), pitwire_model::Seq(0), VenueNanos(0));
                (sequencer, pitwire_views::Views::new(), pitwire_log::OutputChain::new(), None)
            }
        };
        let (last, last_seen) = (sequencer.last(), sequencer.time());
        // A run that must repeat exactly cannot start at whatever time it is.
        let repeats = self.no_clients || self.clock == ClockMode::Manual;
        let now = if repeats { sim::START } else { VenueNanos(clock.wall_ns()) }.max(last_seen);
        let mut core = Core::new(sequencer, views, chain, Timetable::starting(now, last_seen));
        core.is_manual = self.clock == ClockMode::Manual;
        core.flow_plan = Some(FlowPlan { house: preset.house.clone(), seed: self.seed });
        open_epoch(&mut core, preset, now, last.0 == 0, !self.no_flow)?;
        if core.is_manual {
            // What is due at the very start must not depend on who asks first.
            while core.step(now)? {}
            core.commit()?;
        }
        core.no_clients = self.no_clients;
        let (chores, lock) = match keeping {
            Some((storage, lock)) => (Some(Chores::new(storage, last, clock.monotonic_ns())), Some(lock)),
            None => (None, None),
        };
        Ok((core, chores, lock))
    }

    fn announce(&self, preset: &Preset, address: SocketAddr) {
        let shown = if address.ip().is_unspecified() {
            SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
        } else {
            address
        };
        say(&format!("Pitwire is up: the {} venue", preset.name));
        say(&format!("  page       http://{shown}/"));
        say(&format!("  WebSocket  ws://{shown}/ws/api/v2"));
        say(&format!("  HTTP       http://{shown}/api/v2"));
        for credential in &preset.credentials {
            say(&format!("  login      {} / {}", credential.client_id, credential.secret));
        }
        match self.durability {
            Durability::Disk => say(&format!("  data       {}", self.data.display())),
            Durability::Memory => say("  data       none: --durability memory, nothing survives this process"),
        }
        say("Ctrl-C stops it; nothing acknowledged is lost, however it ends.");
    }
}

/// A fresh venue gets its preset; an old one must be of the same preset. Either way a new epoch begins.
fn open_epoch(
    core: &mut Core,
    preset: &Preset,
    now: VenueNanos,
    is_fresh: bool,
    with_flow: bool,
) -> Result<(), Failure> {
    if is_fresh {
        for command in &preset.commands {
            core.submit_at(now, command.clone())?;
        }
    } else {
        check_preset(core, preset)?;
    }
    let epoch = Epoch(core.sequencer.engine().epoch().0 + 1);
    core.submit_at(now, Command::StartEpoch { epoch })?;
    // Each start decides by its options whether there is a flow; operators may change that until the next one.
    core.submit_at(now, Command::SetFlow(FlowSetting { running: with_flow, rate_percent: 100 }))?;
    core.commit()?;
    core.publisher.release();
    core.changes.clear();
    Ok(())
}

/// A preset that has changed under an old directory would change what its orders mean.
fn check_preset(core: &Core, preset: &Preset) -> Result<(), Failure> {
    let wanted = preset.commands.iter().filter_map(|command| match command {
        Command::AddInstrument(spec) => Some(spec.as_ref()),
        _ => None,
    });
    let held: Vec<&InstrumentSpec> = core.sequencer.engine().markets().iter().map(|market| &market.spec).collect();
    if wanted.eq(held) {
        return Ok(());
    }
    Err(Failure::new("the data directory holds other instruments than this preset defines")
        .remedy("give another directory with --data, or the preset it was made with"))
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without randomness every token would be guessable: better none at all.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

fn remove_old(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn write_ready(path: &Path, address: SocketAddr) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot write {}: {error}", path.display())).remedy("check --ready-file");
    let temporary = path.with_extension("tmp");
    let text = format!("{{\"http\":\"{address}\",\"pid\":{}}}\n", std::process::id());
    fs::write(&temporary, text).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}
