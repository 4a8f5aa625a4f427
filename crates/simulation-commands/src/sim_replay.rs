//! `pitwire sim --replay`: a recorded tape in the engine, with orders of the user.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use pitwire_failure::Failure;
use pitwire_model::VenueNanos;
use pitwire_recorder::recording::{RecordingError, RecordingReader};
use pitwire_replay::{BinanceReader, RecordedTape, Replay, ReplayReport, read_export, read_lobster, read_own_orders};
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

/// Arguments of a run that a replay has no use for.
const NOT_OF_A_REPLAY: [&str; 12] = [
    "preset",
    "flow",
    "seed",
    "events",
    "horizon",
    "speed",
    "threads",
    "out",
    "report",
    "instruments",
    "clients",
    "progress",
];
/// Price of a tick of a LOBSTER file, in ten-thousandths of a dollar: a cent.
const LOBSTER_TICK: i64 = 100;

/// The arguments of a replay.
#[derive(Args)]
pub struct SimReplay {
    /// Replay recorded orders instead of a flow: the directory of `pitwire export`, a LOBSTER
    /// message file, or a recording of `pitwire tape record` with trades and depth in Binance's
    /// form (docs/replay.md).
    #[arg(long, value_name = "DIR|FILE", conflicts_with_all = NOT_OF_A_REPLAY)]
    pub replay: Option<PathBuf>,
    /// Instrument of the export, or symbol of the recording, to replay.
    #[arg(long, value_name = "NAME", requires = "replay")]
    instrument: Option<String>,
    /// Price of a tick of a LOBSTER file, in ten-thousandths of a dollar. The default is 100, a
    /// cent.
    #[arg(long, value_name = "N", requires = "replay", value_parser = clap::value_parser!(i64).range(1..))]
    lobster_tick: Option<i64>,
    /// Orders of your own that join the queue (docs/replay.md has the columns).
    #[arg(long, value_name = "ORDERS.CSV", requires = "replay")]
    own_orders: Option<PathBuf>,
}

fn opened(path: &Path) -> Result<BufReader<File>, Failure> {
    File::open(path).map(BufReader::new).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).remedy("look at the path of the file")
    })
}

/// The first bytes of a recording of `pitwire tape record`.
const RECORDING: &[u8] = b"PWTAPE1\n";

impl SimReplay {
    /// Reads a recording of `pitwire tape record`, or a LOBSTER message file.
    fn read_file(&self, path: &Path) -> Result<RecordedTape, Failure> {
        let mut input = opened(path)?;
        let head = input.fill_buf().map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display())).remedy("look at the path of the file")
        })?;
        if head.starts_with(RECORDING) {
            return self.read_recording(path);
        }
        if self.instrument.is_some() {
            return Err(Failure::usage("--instrument is not for a LOBSTER file, which has one instrument")
                .remedy("leave it out, or name an export or a recording"));
        }
        read_lobster(input, self.lobster_tick.unwrap_or(LOBSTER_TICK))
    }

    fn read_recording(&self, path: &Path) -> Result<RecordedTape, Failure> {
        let damaged = |error: RecordingError| {
            Failure::new(format!("cannot read {}: {error}", path.display()))
                .remedy("give a whole recording of `pitwire tape record`")
        };
        let mut recording = RecordingReader::open(path).map_err(damaged)?;
        let start_ns = recording.start_ns;
        let mut reader = BinanceReader::new(self.instrument.as_deref());
        while let Some((ns, _, text)) = recording.next_message().map_err(damaged)? {
            reader.message(VenueNanos(start_ns.saturating_add(ns)), text)?;
        }
        reader.tape()
    }

    pub fn run(&self, tape: &Path, as_json: bool) -> Result<(), Failure> {
        let own = self.own_orders.as_deref().map(|path| read_own_orders(opened(path)?)).transpose()?;
        let tape = if tape.is_dir() {
            let instrument = self.instrument.as_deref().ok_or_else(|| {
                Failure::usage("--replay of an export needs --instrument").remedy("name an instrument of the export")
            })?;
            if self.lobster_tick.is_some() {
                return Err(Failure::usage("--lobster-tick is for a LOBSTER file, and --replay is a directory")
                    .remedy("leave it out, or name the file"));
            }
            read_export(tape, instrument)?
        } else {
            self.read_file(tape)?
        };
        let progress = CommandProgress::new("replaying");
        let report = Replay::run(&tape, &own.unwrap_or_default(), &mut |done, total| progress.show(done, total))?;
        drop(progress);
        if as_json {
            let text = serde_json::to_string(&report).map_err(|error| Failure::new(error.to_string()))?;
            say(&text);
        } else {
            print(&report);
        }
        Ok(())
    }
}

fn print(report: &ReplayReport) {
    let ReplayReport { recorded_trades, reproduced_trades, hidden_trades, other_trades, .. } = report;
    if let Some([tick, lot]) = &report.units {
        say(&format!("tick and lot       {tick} {lot}"));
    }
    say(&format!("recorded trades    {recorded_trades}"));
    say(&format!("reproduced         {reproduced_trades} ({:.2} %)", 100.0 * report.reproduced_share));
    say(&format!("hidden             {hidden_trades}"));
    say(&format!("different          {other_trades}"));
    say(&format!("new trades         {}", report.new_trades));
    say(&format!("unknown orders     {}", report.unknown_orders));
    say(&format!("unsupported rows   {}", report.unsupported));
    say(&format!("own orders         {}", report.own_orders));
    for fill in &report.own_fills {
        let role = if fill.is_maker { "maker" } else { "taker" };
        say(&format!(
            "  {} order {} {} {} lots at {} ticks, {role}",
            fill.at_ns, fill.order, fill.side, fill.lots, fill.price_ticks
        ));
    }
}
