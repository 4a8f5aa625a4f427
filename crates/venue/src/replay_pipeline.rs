//! A replay on three threads, when only its end matters: one reads, one matches, one maintains
//! views and hashes.
//!
//! Holds       the same result as [`Replay::run`], to the byte. The reported error is the first one
//!             in the log's order.

use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pitwire_journal::Storage;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{OpenError, Recovery};
use pitwire_model::{Event, Seq};
use pitwire_projections::Views;

use crate::read_ahead::{BATCHES_AHEAD, Batch, read_ahead};
use crate::replay::{Interrupted, Replay, check, observe};

/// A batch with the events of its commands.
struct ReplayedBatch {
    batch: Batch,
    events: Vec<Event>,
    /// End of each command's events in `events`.
    ends: Vec<usize>,
}

/// UsedBuffers buffers, to be filled again.
type UsedBuffers = (Vec<Event>, Vec<usize>);

impl Replay {
    pub(crate) fn run_pipelined(&mut self, recovery: &Recovery, storage: &dyn Storage) -> Result<(), Interrupted> {
        let tail = recovery.tail(storage)?;
        let (mut chain, mut views) = (take(&mut self.chain), take(&mut self.views));
        let (applied, judged) = thread::scope(|scope| {
            let (ahead, batches) = sync_channel(BATCHES_AHEAD);
            let (batch_back, batches_used) = sync_channel(2 * BATCHES_AHEAD);
            scope.spawn(move || read_ahead(tail, &ahead, &batches_used));
            let (tell, replayed) = sync_channel(BATCHES_AHEAD);
            let (back, used) = sync_channel(2 * BATCHES_AHEAD);
            let (chain, views) = (&mut chain, &mut views);
            let listening = scope.spawn(move || compare(chain, views, &replayed, &back, &batch_back));
            let applied = self.apply_batches(recovery, batches, &tell, &used);
            drop(tell);
            (applied, listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        judged?;
        applied?;
        (self.chain, self.views) = (chain, views);
        Ok(())
    }

    fn apply_batches(
        &mut self,
        recovery: &Recovery,
        batches: Receiver<Result<Batch, OpenError>>,
        tell: &SyncSender<ReplayedBatch>,
        used: &Receiver<UsedBuffers>,
    ) -> Result<(), Interrupted> {
        for batch in batches {
            let mut batch = batch?;
            let (mut events, mut ends) = used.try_recv().unwrap_or_default();
            let applied = self.apply_batch(recovery, &batch, &mut events, &mut ends);
            // Commands before the one that failed are still compared.
            batch.cut(ends.len());
            if tell.send(ReplayedBatch { batch, events, ends }).is_err() {
                // The other thread has found an error and will return it.
                return Ok(());
            }
            applied?;
        }
        Ok(())
    }

    /// Appends the events of each command, and where they end.
    fn apply_batch(
        &mut self,
        recovery: &Recovery,
        batch: &Batch,
        events: &mut Vec<Event>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Interrupted> {
        for (group, end) in &batch.groups {
            self.follow(group.rule_version);
            for (at, stamped) in batch.commands.iter().enumerate().take(*end).skip(ends.len()) {
                self.look_ahead(&batch.commands, at);
                self.apply(stamped, recovery, events)?;
                ends.push(events.len());
            }
        }
        Ok(())
    }
}

fn compare(
    chain: &mut OutputChain,
    views: &mut Views,
    replayed: &Receiver<ReplayedBatch>,
    back: &SyncSender<UsedBuffers>,
    batch_back: &SyncSender<Batch>,
) -> Result<(), Interrupted> {
    let mut changes = Vec::new();
    for ReplayedBatch { batch, mut events, mut ends } in replayed {
        let mut caused = batch.commands.iter().zip(&ends);
        let (mut applied, mut from) = (0, 0);
        for (group, end) in &batch.groups {
            let mut last = Seq(0);
            for (stamped, to) in caused.by_ref().take(end - applied) {
                changes.clear();
                observe(chain, views, stamped, events.get(from..*to).unwrap_or_default(), &mut changes);
                (from, last) = (*to, stamped.seq);
            }
            applied = *end;
            check(chain, last, group.output)?;
        }
        events.clear();
        ends.clear();
        // Both receivers may have ended already.
        let _ = back.try_send((events, ends));
        let _ = batch_back.try_send(batch);
    }
    Ok(())
}
