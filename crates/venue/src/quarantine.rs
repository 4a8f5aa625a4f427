//! Rebuilding the engine without a command on which it panicked.

use pitwire_failure::Failure;
use pitwire_journal::Journal;
use pitwire_journal::records::ChainState;
use pitwire_model::Seq;

use crate::replay::Replay;

/// Replays the log as if command `seq` had been refused, and returns the state after it.
///
/// # Errors
///
/// Returns a failure if there is no log, if it cannot be read, or if the replay produces other
/// events than `sent`, the chain of the events that have been sent.
pub fn rebuild_without(journal: Option<&Journal>, sent: &ChainState, seq: Seq) -> Result<Replay, Failure> {
    let Some(journal) = journal else {
        return Err(Failure::new("with --durability memory there is no log to build the engine anew from"));
    };
    let mut history = journal.history();
    history.skip(seq);
    let replay = Replay::whole(&history.recovery()?, history.storage())?;
    if replay.chain.state() != sent {
        return Err(Failure::new("without it the log gives other events than were sent"));
    }
    Ok(replay)
}
