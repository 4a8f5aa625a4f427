//! Taking out a command that made the engine fail, while everybody else is served on.
//!
//! Does        build the engine anew from the disk, without that command; halt its instrument; say all this in the log.
//! Holds       the log tells every later replay to do the same: first the command, then the record that names it. A
//!             process that dies in between finds the command again at its next start.
//! Leaves out  failures of anything but the engine.

use pitwire_journal::LogError;
use pitwire_model::{Command, Seq, Stamped};
use pitwire_sequencer::guard::{instrument_of, refusal};
use tracing::error;

use super::core::Core;
use super::recovery::Replay;
use pitwire_failure::Failure;

/// Goes on as if the command had been refused. Its events are then the refusal.
pub fn take_out(core: &mut Core, poison: &Stamped) -> Result<Seq, LogError> {
    let seq = poison.seq;
    error!(seq = seq.0, command = ?poison.command, "this command made the engine fail: it is quarantined");
    let failed = |why: String| LogError::Unquarantined { seq, why };
    if matches!(poison.command, Command::Quarantine { .. }) {
        return Err(failed("it is a quarantine itself".into()));
    }
    core.events.clear();
    core.events.push(refusal(poison));
    core.chain.absorb(poison, &core.events);
    core.commit()?;
    let rebuilt = rebuild(core, seq).map_err(|failure| failed(failure.to_string()))?;
    let instrument = instrument_of(poison, &rebuilt.engine);
    core.sequencer.replace_engine(rebuilt.engine);
    core.views = rebuilt.views;
    core.tell(poison);
    core.submit_at(core.now, Command::Quarantine { seq, instrument })?;
    core.events.clear();
    core.events.push(refusal(poison));
    Ok(seq)
}

/// The state after the command, had it been refused; it must have put out the same as the venue has.
fn rebuild(core: &Core, seq: Seq) -> Result<Replay, Failure> {
    let Some(journal) = core.sequencer.log().journal() else {
        return Err(Failure::new("with --durability memory there is no log to build the engine anew from"));
    };
    let mut history = journal.history();
    history.skip(seq);
    let replay = Replay::whole(&history.recovery()?, history.storage())?;
    if replay.chain.state() != core.chain.state() {
        return Err(Failure::new("without it the log gives other events than were sent"));
    }
    Ok(replay)
}

#[cfg(all(test, debug_assertions))]
mod tests;
