//! The trait through which market data follows the venue.

use pitwire_engine::Engine;
use pitwire_model::{Event, SequencedCommand};
use pitwire_projections::Views;

/// Derives state that exists only in this process, such as market data. A replay does not rebuild
/// it.
///
/// An observer must not send anything before the venue has committed the command.
pub trait EventObserver {
    /// Takes in one command, its events, and the state after it.
    fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], engine: &Engine, views: &Views);
}

/// An observer that ignores everything, for venues without market data.
impl EventObserver for () {
    fn observe(&mut self, _: &SequencedCommand, _: &[Event], _: &Engine, _: &Views) {}
}
