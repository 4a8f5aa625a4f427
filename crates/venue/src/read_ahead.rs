//! Reads the journal ahead of a replay, in batches.
//!
//! An idle venue writes one group per command. Handing each group to another thread would cost more
//! than replaying it, so a batch has many groups.

use std::sync::mpsc::{Receiver, SyncSender};

use pitwire_journal::{GroupEnd, OpenError, Tail};
use pitwire_model::SequencedCommand;

/// Number of batches that are read ahead. Bounds the memory in use.
pub(crate) const BATCHES_AHEAD: usize = 4;
/// A batch ends with the group that reaches this many commands.
const BATCH_COMMANDS: usize = 1_024;

/// Complete groups, in order.
#[derive(Default)]
pub(crate) struct ReplayBatch {
    pub commands: Vec<SequencedCommand>,
    /// The end of each group, with the index in `commands` after its last command.
    pub groups: Vec<(GroupEnd, usize)>,
}

impl ReplayBatch {
    /// Removes the groups that end after this many commands.
    pub fn cut(&mut self, commands: usize) {
        self.groups.retain(|(_, end)| *end <= commands);
        self.commands.truncate(self.groups.last().map_or(0, |(_, end)| *end));
    }

    fn clear(&mut self) {
        self.commands.clear();
        self.groups.clear();
    }
}

/// Reads batches until the log ends, an error occurs or the receiver is gone. Refills the batches
/// that the receiver has used.
pub(crate) fn read_ahead(
    mut tail: Tail<'_>,
    ahead: &SyncSender<Result<ReplayBatch, OpenError>>,
    used: &Receiver<ReplayBatch>,
) {
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
            // If the receiver is gone, the error can be dropped.
            Err(error) => return drop(ahead.send(Err(error))),
        }
    }
}

/// Fills a batch. Returns whether the log may have more. Keeps the groups before an error.
fn fill(batch: &mut ReplayBatch, tail: &mut Tail<'_>) -> Result<bool, OpenError> {
    while batch.commands.len() < BATCH_COMMANDS {
        let Some(group) = tail.next_onto(&mut batch.commands) else { return Ok(false) };
        batch.groups.push((group?, batch.commands.len()));
    }
    Ok(true)
}
