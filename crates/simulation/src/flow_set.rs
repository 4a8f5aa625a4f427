//! The order flow of a run, and the time at which runs start.

use pitwire_configuration::{Preset, house_accounts};
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_flow_models::FlowSource;
use pitwire_model::{Command, VenueNanos};
use pitwire_order_flow::Flow;

/// Start of venue time: Monday, 2026-01-05 09:00:00 UTC. A simulation has no wall clock to start
/// from.
pub const START: VenueNanos = VenueNanos(1_767_603_600_000_000_000);

/// Creates the flow of a market that has all its definitions.
///
/// # Errors
/// If the flow cannot be read, is not stable, or names instruments that the market lacks.
pub fn start_flow(
    source: &FlowSource,
    preset: &Preset,
    seed: u64,
    start: VenueNanos,
    engine: &Engine,
) -> Result<Flow, Failure> {
    let config = source.config(engine, house_accounts(engine))?.at_rate(source.percent(preset.flow_percent));
    Flow::new(config, seed, start, engine).map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))
}

/// Returns the command that journals a flow from a file. Built-in flows need none: their names are
/// in the report and in the arguments of the run.
///
/// # Errors
/// If the file of the flow cannot be read.
pub fn definition(source: &FlowSource) -> Result<Option<Command>, Failure> {
    match source {
        FlowSource::File(_) => Ok(Some(Command::DefineFlow { text: source.text()?.into() })),
        _ => Ok(None),
    }
}
