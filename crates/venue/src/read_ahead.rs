//! Reading ahead of a replay, in batches: a venue with little to do writes a group a command, and handing each to another
//! thread would cost more than replaying it.

use std::sync::mpsc::{Receiver, SyncSender};

use pitwire_journal::{GroupEnd, OpenError, Tail};
use pitwire_model::Stamped;

/// Batches that are read before they are needed; with them in flight memory stays bounded.
pub(crate) const BATCHES_AHEAD: usize = 4;
/// A batch ends with the group that brings it here.
const BATCH_COMMANDS: usize = 1_024;

/// Whole groups, one behind the other.
#[derive(Default)]
pub(crate) struct Batch {
    pub commands: Vec<Stamped>,
    /// Each with the place behind its last command in `commands`.
    pub groups: Vec<(GroupEnd, usize)>,
}

impl Batch {
    /// Without the groups that end behind so many commands.
    pub fn cut(&mut self, commands: usize) {
        self.groups.retain(|(_, end)| *end <= commands);
        self.commands.truncate(self.groups.last().map_or(0, |(_, end)| *end));
    }

    fn clear(&mut self) {
        self.commands.clear();
        self.groups.clear();
    }
}

/// Until the log ends, cannot be read, or nobody wants any more. Batches come back to be filled again.
pub(crate) fn read_ahead(mut tail: Tail<'_>, ahead: &SyncSender<Result<Batch, OpenError>>, used: &Receiver<Batch>) {
    loop {
        let mut batch = used.try_recv().unwrap_or_default();
        batch.clear();
        let end = fill(&mut batch, &mut tail);
        if !batch.groups.is_empty() && ahead.send(Ok(batch)).is_err() {
            return;
        }
        match end {
            Ok(true) => {}
            Ok(false) => return,
            // Nobody wants to hear it where the receiver has gone.
            Err(error) => return drop(ahead.send(Err(error))),
        }
    }
}

/// Whether there may be more. What was whole before an error is in the batch.
fn fill(batch: &mut Batch, tail: &mut Tail<'_>) -> Result<bool, OpenError> {
    while batch.commands.len() < BATCH_COMMANDS {
        let Some(group) = tail.next_onto(&mut batch.commands) else { return Ok(false) };
        batch.groups.push((group?, batch.commands.len()));
    }
    Ok(true)
}
