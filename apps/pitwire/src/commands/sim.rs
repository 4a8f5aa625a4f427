//! `pitwire sim`: the same engine and flow without sockets.

use std::time::Instant;

use clap::{Args, ValueEnum};
use pitwire_flow::{Flow, FlowConfig, Reading};
use pitwire_log::OutputChain;
use pitwire_model::{InstrumentId, Seq, VenueNanos};
use pitwire_sequencer::{Sequencer, Timetable};
use pitwire_views::Views;

use crate::failure::Failure;
use crate::output::say;
use crate::venue::core::Core;
use crate::venue::ledger::Ledger;
use crate::venue::preset;

const EXAMPLES: &str = "Examples:
  pitwire sim --seed 7 --events 100000          the same seed gives the same tape_hash, on any machine
  pitwire sim --seed 7 --horizon 3600 --json    an hour of venue time, figures as one JSON object";

/// Monday, 2026-01-05 09:00:00 UTC: a simulation has no wall clock to start from.
const START: VenueNanos = VenueNanos(1_767_603_600_000_000_000);

/// Run a market without sockets or disk, as fast as it goes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Sim {
    /// Which market.
    #[arg(long, value_enum, default_value = "demo")]
    preset: PresetName,
    /// Which order flow.
    #[arg(long, value_enum, default_value = "demo")]
    flow: FlowName,
    /// Equal seeds give equal tapes.
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Stop after so many flow commands.
    #[arg(long, value_name = "N", required_unless_present = "horizon", conflicts_with = "horizon")]
    events: Option<u64>,
    /// Stop after so many seconds of venue time.
    #[arg(long, value_name = "SECONDS")]
    horizon: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PresetName {
    Demo,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FlowName {
    /// Symmetric, with lifetimes and a market maker: can run for days.
    Demo,
    /// The published eight-type set, on the first instrument, without cancels.
    Paper,
    /// The published set as the original program loaded it.
    PaperAsLoaded,
}

impl Sim {
    pub fn run(self) -> Result<(), Failure> {
        let preset = match self.preset {
            PresetName::Demo => preset::demo(),
        };
        let sequencer = Sequencer::resume(pitwire_engine::Engine::new(), Ledger::memory(), Seq(0), START);
        let timetable = Timetable::starting(START, VenueNanos::ZERO);
        let mut core = Core::new(sequencer, Views::new(), OutputChain::new(), timetable);
        for command in preset.commands {
            core.submit_at(START, command)?;
        }
        let engine = core.sequencer.engine();
        let config = match self.flow {
            FlowName::Demo => FlowConfig::demo(engine, preset.house),
            FlowName::Paper => FlowConfig::paper(InstrumentId(0), preset.house, Reading::File),
            FlowName::PaperAsLoaded => FlowConfig::paper(InstrumentId(0), preset.house, Reading::AsLoaded),
        };
        let flow = Flow::new(config, self.seed, START, engine);
        core.flow = Some(flow.map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))?);
        let started = Instant::now();
        self.advance(&mut core)?;
        self.report(&core, started.elapsed().as_secs_f64());
        Ok(())
    }

    fn advance(&self, core: &mut Core) -> Result<(), Failure> {
        let end =
            self.horizon.map_or(u64::MAX, |seconds| START.0.saturating_add(seconds.saturating_mul(1_000_000_000)));
        let most = self.events.unwrap_or(u64::MAX);
        while commands(core) < most && core.next_due().0 <= end {
            core.step(VenueNanos(end))?;
            core.changes.clear();
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn report(&self, core: &Core, wall_s: f64) {
        let (events, chain) = (commands(core), core.chain.state());
        let tape: String = chain.tape.iter().map(|byte| format!("{byte:02x}")).collect();
        let per_second = events as f64 / wall_s.max(1e-9);
        if self.json {
            say(&format!(
                "{{\"events\":{events},\"orders\":{},\"trades\":{},\"wall_s\":{wall_s:.6},\"events_per_s\":{per_second:.1},\"tape_hash\":\"{tape}\"}}",
                chain.orders, chain.trades
            ));
            return;
        }
        say(&format!("events        {events}"));
        say(&format!("orders        {}", chain.orders));
        say(&format!("trades        {}", chain.trades));
        say(&format!("wall_s        {wall_s:.3}"));
        say(&format!("events_per_s  {per_second:.0}"));
        say(&format!("tape_hash     {tape}"));
    }
}

fn commands(core: &Core) -> u64 {
    core.flow.as_ref().map_or(0, |flow| flow.counts().commands)
}
