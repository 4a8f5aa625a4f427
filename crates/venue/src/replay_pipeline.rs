//! A replay on three threads: one reads, one matches, one hashes the events and passes them on.
//!
//! Holds       the same result as [`Replay::run`], to the byte. The reported error is the first one
//!             in the log's order.

use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_journal::Storage;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{OpenError, Recovery};
use pitwire_model::{Event, Seq, SequencedCommand};

use crate::read_ahead::{BATCHES_AHEAD, ReplayBatch, read_ahead};
use crate::replay::{Replay, ReplayError, ReplayProgress, check, report_progress};

/// A batch with the events of its commands.
struct ReplayedBatch {
    batch: ReplayBatch,
    events: Vec<Event>,
    /// End of each command's events in `events`.
    ends: Vec<usize>,
}

/// Buffers to be filled again.
type UsedBuffers = (Vec<Event>, Vec<usize>);

impl Replay {
    /// Applies the log up to its end and maintains the views.
    pub(crate) fn run_pipelined(
        &mut self,
        recovery: &Recovery,
        storage: &dyn Storage,
        progress: ReplayProgress<'_>,
    ) -> Result<(), ReplayError> {
        let (mut views, mut changes) = (take(&mut self.views), Vec::new());
        let visit = |stamped: &SequencedCommand, events: &[Event]| {
            changes.clear();
            views.observe(stamped, events, &mut changes);
            Ok(())
        };
        let applied = |_: &Engine, at| report_progress(progress, recovery.base(), at, recovery.last);
        self.run_observed(recovery, storage, recovery.last, visit, applied)?;
        self.views = views;
        Ok(())
    }

    /// Applies the log up to command `until`, or a little further, and compares the events with
    /// those that were sent. The views stay as they are.
    ///
    /// `visit` sees every command with its events, on another thread than the engine. `applied`
    /// sees the engine after each command.
    ///
    /// # Errors
    ///
    /// Returns the first failure of the log, of the comparison, of `visit`, or of the engine.
    pub fn run_observed(
        &mut self,
        recovery: &Recovery,
        storage: &dyn Storage,
        until: Seq,
        visit: impl FnMut(&SequencedCommand, &[Event]) -> Result<(), Failure> + Send,
        mut applied: impl FnMut(&Engine, Seq),
    ) -> Result<(), ReplayError> {
        let tail = recovery.tail(storage)?;
        let mut chain = take(&mut self.chain);
        let (matched, judged) = thread::scope(|scope| {
            let (ahead, batches) = sync_channel(BATCHES_AHEAD);
            let (batch_back, batches_used) = sync_channel(2 * BATCHES_AHEAD);
            scope.spawn(move || read_ahead(tail, &ahead, &batches_used));
            let (tell, replayed) = sync_channel(BATCHES_AHEAD);
            let (back, used) = sync_channel(2 * BATCHES_AHEAD);
            let chain = &mut chain;
            let listening = scope.spawn(move || compare(chain, visit, &replayed, &back, &batch_back));
            let matched = self.apply_batches(recovery, until, batches, &tell, &used, &mut applied);
            drop(tell);
            (matched, listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        judged?;
        matched?;
        self.chain = chain;
        Ok(())
    }

    fn apply_batches(
        &mut self,
        recovery: &Recovery,
        until: Seq,
        batches: Receiver<Result<ReplayBatch, OpenError>>,
        tell: &SyncSender<ReplayedBatch>,
        used: &Receiver<UsedBuffers>,
        applied: &mut impl FnMut(&Engine, Seq),
    ) -> Result<(), ReplayError> {
        for batch in batches {
            let mut batch = batch?;
            let (mut events, mut ends) = used.try_recv().unwrap_or_default();
            let matched = self.apply_batch(recovery, &batch, &mut events, &mut ends, applied);
            // Commands before the one that failed are still compared.
            batch.cut(ends.len());
            if tell.send(ReplayedBatch { batch, events, ends }).is_err() {
                // The other thread has found an error and will return it.
                return Ok(());
            }
            matched?;
            if self.last >= until {
                break;
            }
        }
        Ok(())
    }

    /// Appends the events of each command, and where they end.
    fn apply_batch(
        &mut self,
        recovery: &Recovery,
        batch: &ReplayBatch,
        events: &mut Vec<Event>,
        ends: &mut Vec<usize>,
        applied: &mut impl FnMut(&Engine, Seq),
    ) -> Result<(), ReplayError> {
        for (group, end) in &batch.groups {
            self.follow(group.rule_version);
            for (at, stamped) in batch.commands.iter().enumerate().take(*end).skip(ends.len()) {
                self.look_ahead(&batch.commands, at);
                self.apply(stamped, recovery, events)?;
                applied(&self.engine, self.last);
                ends.push(events.len());
            }
        }
        Ok(())
    }
}

fn compare(
    chain: &mut OutputChain,
    mut visit: impl FnMut(&SequencedCommand, &[Event]) -> Result<(), Failure>,
    replayed: &Receiver<ReplayedBatch>,
    back: &SyncSender<UsedBuffers>,
    batch_back: &SyncSender<ReplayBatch>,
) -> Result<(), ReplayError> {
    for ReplayedBatch { batch, mut events, mut ends } in replayed {
        let mut caused = batch.commands.iter().zip(&ends);
        let (mut applied, mut from) = (0, 0);
        for (group, end) in &batch.groups {
            let mut last = Seq(0);
            for (stamped, to) in caused.by_ref().take(end - applied) {
                let caused = events.get(from..*to).unwrap_or_default();
                chain.absorb(stamped, caused);
                visit(stamped, caused)?;
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
