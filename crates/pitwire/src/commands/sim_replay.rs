//! `pitwire sim --replay`: a recorded tape in the engine, with orders of the user.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use pitwire_failure::Failure;
use pitwire_replay::{Replay, ReplayReport, read_export, read_lobster, read_own_orders};
use pitwire_terminal::output::say;

/// The arguments of a replay.
#[derive(Args)]
pub struct SimReplay {
    /// Replay recorded orders instead of a flow: the directory of `pitwire export`, or a LOBSTER
    /// message file (docs/replay.md).
    #[arg(long, value_name = "DIR|FILE", conflicts_with_all = ["flow", "seed", "events", "horizon", "out", "report"])]
    pub replay: Option<PathBuf>,
    /// Instrument of the export to replay.
    #[arg(long, value_name = "NAME", requires = "replay")]
    instrument: Option<String>,
    /// Price of a tick of a LOBSTER file, in ten-thousandths of a dollar.
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 100)]
    lobster_tick: i64,
    /// Orders of your own that join the queue (docs/replay.md has the columns).
    #[arg(long, value_name = "ORDERS.CSV", requires = "replay")]
    own_orders: Option<PathBuf>,
}

fn opened(path: &Path) -> Result<BufReader<File>, Failure> {
    File::open(path).map(BufReader::new).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).remedy("look at the path of the file")
    })
}

impl SimReplay {
    pub fn run(&self, tape: &Path, as_json: bool) -> Result<(), Failure> {
        let own = self.own_orders.as_deref().map(|path| read_own_orders(opened(path)?)).transpose()?;
        let tape = if tape.is_dir() {
            let instrument = self.instrument.as_deref().ok_or_else(|| {
                Failure::usage("--replay of an export needs --instrument").remedy("name an instrument of the export")
            })?;
            read_export(tape, instrument)?
        } else {
            read_lobster(opened(tape)?, self.lobster_tick)?
        };
        let report = Replay::run(&tape, &own.unwrap_or_default())?;
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
