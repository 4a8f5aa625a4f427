//! The venue as order entry sees it: ask, command, nothing else.

use pitwire_engine::Engine;
use pitwire_model::{Command, Event, Seq, VenueNanos};
use pitwire_views::Views;

use crate::LogError;

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
}
