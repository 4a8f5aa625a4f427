//! The order flow of a run, and the time at which runs start.

use pitwire_configuration::{Preset, house_accounts};
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{InstrumentId, VenueNanos};
use pitwire_order_flow::{Flow, FlowConfig, ParameterSet};

/// Start of venue time: Monday, 2026-01-05 09:00:00 UTC. A simulation has no wall clock to start
/// from.
pub const START: VenueNanos = VenueNanos(1_767_603_600_000_000_000);

/// The order flow of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSet {
    /// Symmetric, with lifetimes and a market maker. It can run for days.
    Demo,
    /// The published set of eight event types, on the first instrument, without cancels.
    Paper,
    /// The published set as the original program loaded it.
    PaperAsLoaded,
}

impl FlowSet {
    /// Creates the flow of a market that has all its definitions.
    pub(crate) fn start(self, preset: &Preset, seed: u64, start: VenueNanos, engine: &Engine) -> Result<Flow, Failure> {
        let house = house_accounts(engine);
        let config = match self {
            FlowSet::Demo => FlowConfig::demo(engine, house).at_rate(preset.flow_percent),
            FlowSet::Paper => FlowConfig::paper(InstrumentId(0), house, ParameterSet::File),
            FlowSet::PaperAsLoaded => FlowConfig::paper(InstrumentId(0), house, ParameterSet::AsLoaded),
        };
        Flow::new(config, seed, start, engine).map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))
    }
}
