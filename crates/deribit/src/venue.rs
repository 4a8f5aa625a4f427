//! The venue as the dialect sees it.

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{AccountId, Command, Event, FlowSetting, InstrumentId, OrderId, Phase, Seq, VenueNanos};
use pitwire_projections::Views;

use pitwire_journal::LogError;

use crate::simulation_call::{SimulationCall, SimulationCaller, SimulationRefusal};

/// The one writer of the venue's state.
///
/// The effects of a submitted command are visible here at once, but the server sends nothing about
/// them until the command is durable.
pub trait Venue {
    /// Numbers, journals and applies one command. Its events are in [`Venue::events`] until the
    /// next command.
    ///
    /// # Errors
    ///
    /// Returns the error of the journal; the venue must then stop.
    fn submit(&mut self, command: Command) -> Result<Seq, LogError>;
    /// Events of the last submitted command.
    fn events(&self) -> &[Event];
    fn engine(&self) -> &Engine;
    fn views(&self) -> &Views;
    /// Venue time of the last command, or later.
    fn now(&self) -> VenueNanos;
    /// Whether new orders are accepted. Cancels always are.
    fn takes_orders(&self) -> bool;
    /// Returns why a command is refused now, as a name in `contracts/errors.toml`.
    fn refuses(&self, command: &Command) -> Option<&'static str> {
        let opens = matches!(command, Command::Enter(_) | Command::Amend(_));
        (opens && !self.takes_orders()).then_some("shutting_down")
    }
    fn standing(&self) -> VenueStatus;
    /// Returns the scheduled session of an instrument that an operator resumes, and when it ends.
    /// Without a schedule the instrument trades continuously.
    fn scheduled(&self, _instrument: InstrumentId) -> (Phase, Option<VenueNanos>) {
        (Phase::Continuous, None)
    }
    /// Returns the instruments whose generated flow has another setting than the default.
    fn instrument_flows(&self) -> &BTreeMap<InstrumentId, FlowSetting>;
    /// Sets how the generated flow trades one instrument until the venue stops.
    fn set_instrument_flow(&mut self, instrument: InstrumentId, setting: FlowSetting);
    /// Looks an order up in the journal, restricted to the view of `member` if there is one. The
    /// look-up runs on another thread, so the caller asks again until it is done.
    fn explain(&mut self, _order: OrderId, _member: Option<AccountId>) -> ExplainStatus {
        ExplainStatus::Nowhere
    }
    /// Passes a request about simulations on, and returns the answer as JSON. It waits for no disk
    /// and no process.
    ///
    /// # Errors
    ///
    /// Returns the reason of a refusal.
    fn simulation(&mut self, _by: &SimulationCaller, _asked: SimulationCall) -> Result<String, SimulationRefusal> {
        let reason = "this venue runs no simulations".into();
        Err(SimulationRefusal { name: "no_simulations", param: None, reason })
    }
    /// Advances venue time by `ns` nanoseconds and runs everything that falls due. `None` unless
    /// the clock is manual.
    fn advance(&mut self, ns: u64) -> Option<Result<VenueNanos, LogError>>;
}

/// The state of a look-up in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainStatus {
    /// The venue keeps no journal on disk.
    Nowhere,
    /// The look-up is under way.
    Working,
    /// A JSON array of notes: which rule decided, and with which numbers.
    Notes(String),
    Failed(String),
}

/// The state of the venue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VenueStatus {
    /// Number of the newest command.
    pub last: Seq,
    /// Whether commands are on disk before anything about them is sent.
    pub is_durable: bool,
    /// Hash over all public events.
    pub tape_hash: [u8; 32],
}
