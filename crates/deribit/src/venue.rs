//! The venue as order entry sees it: ask, command, nothing else.

use pitwire_engine::Engine;
use pitwire_model::{AccountId, Command, Event, InstrumentId, OrderId, Phase, Seq, VenueNanos};
use pitwire_projections::Views;

use pitwire_journal::LogError;

/// The one writer, behind whatever schedules it.
///
/// What a submitted command caused is visible at once to whoever asks here, but whatever is told about it to the
/// world is held by the host until the command is durable.
pub trait Venue {
    /// Numbers, logs and applies one command. Its events are in [`Venue::events`] until the next one.
    fn submit(&mut self, command: Command) -> Result<Seq, LogError>;
    /// What the last submitted command caused.
    fn events(&self) -> &[Event];
    fn engine(&self) -> &Engine;
    fn views(&self) -> &Views;
    /// Venue time of the last command, or later.
    fn now(&self) -> VenueNanos;
    /// Whether new orders are taken; cancels always are.
    fn takes_orders(&self) -> bool;
    /// Why a member's or operator's command is not taken now, by its name in `contracts/errors.toml`.
    fn refuses(&self, command: &Command) -> Option<&'static str> {
        let opens = matches!(command, Command::Enter(_) | Command::Amend(_));
        (opens && !self.takes_orders()).then_some("shutting_down")
    }
    fn standing(&self) -> VenueStatus;
    /// The session that an instrument goes on with when an operator lets it, and when that ends, by its schedule; without
    /// one it trades continuously.
    fn scheduled(&self, _instrument: InstrumentId) -> (Phase, Option<VenueNanos>) {
        (Phase::Continuous, None)
    }
    /// What the log says about an order: to the member of an account what that may know, else everything. Looked up apart,
    /// so that nobody waits: whoever asked asks again.
    fn explain(&mut self, _order: OrderId, _member: Option<AccountId>) -> ExplainStatus {
        ExplainStatus::Nowhere
    }
    /// Moves venue time forward and runs everything due on the way. `None` where time moves by itself.
    fn advance(&mut self, ns: u64) -> Option<Result<VenueNanos, LogError>>;
}

/// An answer from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainStatus {
    /// There is no log to look into.
    Nowhere,
    /// It is being looked up.
    Working,
    /// A JSON array: which rule decided, and with which numbers.
    Notes(String),
    Failed(String),
}

/// What the venue says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VenueStatus {
    /// The newest command.
    pub last: Seq,
    /// Whether commands are on disk before anything is said of them.
    pub is_durable: bool,
    /// Over every public event so far.
    pub tape_hash: [u8; 32],
}
