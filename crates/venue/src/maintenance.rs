//! Work that must not hold up the loop, on threads of its own: preparing segments, writing snapshots.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use pitwire_failure::Failure;
use pitwire_journal::records::SnapshotMeta;
use pitwire_journal::records::image::encode_state;
use pitwire_journal::{History, Journal, JournalSpace, PreparedSegment, retain, write_snapshot};
use pitwire_journal::{Log, LogError, Storage};
use pitwire_model::Seq;
use tracing::{error, info};

use crate::recovery::journal_config;
use crate::replay::Replay;
use crate::venue::Venue;

/// A snapshot after so many commands, or after so long, whichever comes first; less to replay against more to write.
const SNAPSHOT_COMMANDS: u64 = 500_000;
const SNAPSHOT_NS: u64 = 300_000_000_000;
const SNAPSHOTS_KEPT: usize = 2;
/// After a segment could not be prepared: the disk is full, and trying at once again would only wear it.
const RETRY_NS: u64 = 1_000_000_000;

enum Done {
    Segment(Result<PreparedSegment, LogError>),
    Snapshot(Seq, Result<(), String>),
}

/// The newest snapshot: what it holds, and when it was begun or found.
struct Newest {
    holds: Seq,
    at_ns: u64,
}

impl Newest {
    /// Whether the next one is due, with so much durable.
    fn is_due(&self, durable: Seq, now_ns: u64) -> bool {
        let behind = durable.0.saturating_sub(self.holds.0);
        behind >= SNAPSHOT_COMMANDS || (behind > 0 && now_ns.saturating_sub(self.at_ns) >= SNAPSHOT_NS)
    }
}

pub struct Maintenance {
    storage: Arc<dyn Storage>,
    done: Receiver<Done>,
    report: Sender<Done>,
    is_snapshotting: bool,
    newest: Newest,
    no_segment_before_ns: u64,
}

impl Maintenance {
    /// `last_snapshot` is what the snapshot on the disk holds: a venue that dies again and again before one was due
    /// would otherwise have more to replay with every start.
    pub fn new(storage: Arc<dyn Storage>, last_snapshot: Seq, now_ns: u64) -> Self {
        let (report, done) = channel();
        Maintenance {
            storage,
            done,
            report,
            is_snapshotting: false,
            newest: Newest { holds: last_snapshot, at_ns: now_ns },
            no_segment_before_ns: 0,
        }
    }

    /// Collects what is finished and starts what is due. Called with everything committed.
    pub fn attend(&mut self, venue: &mut Venue, now_ns: u64) -> Result<(), LogError> {
        while let Ok(done) = self.done.try_recv() {
            match done {
                Done::Segment(outcome) => {
                    if let Some(journal) = venue.journal_mut() {
                        self.take_segment(journal, outcome, now_ns);
                    }
                }
                Done::Snapshot(seq, Ok(())) => {
                    info!(seq = seq.0, "snapshot written");
                    self.is_snapshotting = false;
                }
                Done::Snapshot(seq, Err(error)) => {
                    error!(seq = seq.0, error, "snapshot failed; the journal before it is kept");
                    self.is_snapshotting = false;
                }
            }
        }
        let Some(journal) = venue.journal_mut() else { return Ok(()) };
        journal.write_superblock_if_due(now_ns)?;
        let may_prepare = now_ns >= self.no_segment_before_ns;
        if let Some(job) = may_prepare.then(|| journal.segment_wanted()).flatten() {
            let report = self.report.clone();
            // A receiver that is gone means the venue has ended: nobody wants the segment.
            thread::spawn(move || drop(report.send(Done::Segment(job.run()))));
        }
        let last = venue.durable();
        if self.newest.is_due(last, now_ns) && !self.is_snapshotting {
            self.start_snapshot(venue, now_ns);
        }
        Ok(())
    }

    /// A failure is not fatal: until there is space again only cancels are taken, into the segments already made.
    fn take_segment(&mut self, journal: &mut Journal, outcome: Result<PreparedSegment, LogError>, now_ns: u64) {
        let before = journal.room();
        if let Err(error) = journal.segment_ready(outcome) {
            self.no_segment_before_ns = now_ns + RETRY_NS;
            if before == JournalSpace::Orders {
                error!(%error, "cannot make the next segment: only cancels are taken until it can be made");
            }
        } else if before != JournalSpace::Orders && journal.room() == JournalSpace::Orders {
            info!("there is space again: orders are taken");
        }
    }

    /// A start that had so much to replay keeps what it came to before it serves anybody: a venue that dies again and
    /// again before a thread has written its snapshot would otherwise replay all of it each time. Called with everything
    /// committed. A failure is not fatal: the journal before it is kept.
    pub fn catch_up(&mut self, venue: &Venue, now_ns: u64) {
        if !self.newest.is_due(venue.durable(), now_ns) {
            return;
        }
        let Some((meta, payload)) = capture_snapshot(venue) else { return };
        match keep(self.storage.as_ref(), &meta, &payload) {
            Ok(()) => {
                info!(seq = meta.seq.0, "snapshot written");
                self.newest = Newest { holds: meta.seq, at_ns: now_ns };
            }
            Err(error) => error!(seq = meta.seq.0, %error, "snapshot failed; the journal before it is kept"),
        }
    }

    /// The loop pays for a handle and a thread: the state itself is made again from the disk.
    pub fn start_snapshot(&mut self, venue: &Venue, now_ns: u64) {
        let Some(journal) = venue.journal() else { return };
        self.is_snapshotting = true;
        let seq = journal.durable_position();
        self.newest = Newest { holds: seq, at_ns: now_ns };
        let (history, report) = (journal.history(), self.report.clone());
        thread::spawn(move || {
            // Whatever becomes of it, somebody waits to hear that it has ended.
            let outcome =
                catch_unwind(AssertUnwindSafe(|| replicate_snapshot(&history).map_err(|error| error.to_string())));
            drop(report.send(Done::Snapshot(seq, outcome.unwrap_or_else(|_| Err("the replica failed".into())))));
        });
    }

    /// Until the one under way has ended, if there is one.
    pub fn wait_for_snapshot(&mut self) {
        while self.is_snapshotting {
            let Ok(done) = self.done.recv() else { return };
            self.is_snapshotting &= !matches!(done, Done::Snapshot(..));
        }
    }

    /// The last snapshot of a clean end, written before the process goes.
    pub fn finish(mut self, venue: &Venue) -> Result<(), Failure> {
        let Some((meta, payload)) = capture_snapshot(venue) else { return Ok(()) };
        // Two must not retain at once.
        self.wait_for_snapshot();
        keep(self.storage.as_ref(), &meta, &payload)
    }
}

/// A snapshot of what is durable, by a replica that replays it from the snapshot before. What it is made of it has
/// thereby checked: the snapshot before can be read, and the log after it gives the events that were sent.
pub fn replicate_snapshot(history: &History) -> Result<(), Failure> {
    // Members come first.
    let _ = rustix::process::nice(10);
    let replica = Replay::whole(&history.recovery()?, history.storage())?;
    let mut payload = Vec::new();
    encode_state(&replica.engine.image(), &replica.views.image(), &mut payload);
    let meta = SnapshotMeta {
        rule_version: history.config().rule_version,
        seq: replica.last,
        at: replica.time,
        position: history.end(),
        chain: replica.chain.state().clone(),
    };
    drop(replica);
    keep(history.storage(), &meta, &payload)
}

/// The state as plain bytes, taken between two commands.
pub fn capture_snapshot(venue: &Venue) -> Option<(SnapshotMeta, Vec<u8>)> {
    let journal = venue.journal()?;
    let meta = SnapshotMeta {
        rule_version: journal.config().rule_version,
        seq: journal.durable_position(),
        at: venue.last_command_time(),
        position: journal.position(),
        chain: venue.chain().state().clone(),
    };
    let mut payload = Vec::new();
    encode_state(&venue.engine().image(), &venue.views().image(), &mut payload);
    Some((meta, payload))
}

fn keep(storage: &dyn Storage, meta: &SnapshotMeta, payload: &[u8]) -> Result<(), Failure> {
    write_snapshot(storage, meta, payload)?;
    retain(storage, &journal_config(), SNAPSHOTS_KEPT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pitwire_disk::DirectoryLock;
    use pitwire_model::{AccountId, Command, OrderId, VenueNanos};
    use pitwire_schedule::{TimerQueue, Unscheduled};

    use super::*;
    use crate::event_queue::EventQueue;
    use crate::recovery::{Recovered, recover};

    #[test]
    fn a_snapshot_is_due_by_what_has_come_behind_the_last_one_on_the_disk() {
        let start = 7_000_000_000;
        let found = Newest { holds: Seq(1_000), at_ns: start };
        for (durable, after_s, is_due) in [
            (1_000, 0, false),
            (1_000, 1_000, false),
            (1_001, 299, false),
            (1_001, 300, true),
            (500_999, 0, false),
            // Replayed at the start, say: it need not happen again.
            (501_000, 0, true),
        ] {
            let now_ns = start + after_s * 1_000_000_000;
            assert_eq!(found.is_due(Seq(durable), now_ns), is_due, "{durable} after {after_s} s");
        }
    }

    /// A start without sockets or setup.
    fn start(directory: &Path) -> (Venue, Maintenance, Seq, DirectoryLock) {
        let Recovered { sequencer, views, chain, base, storage, lock } = recover(directory).unwrap();
        let now = sequencer.time();
        let timers = TimerQueue::starting(Box::new(Unscheduled), sequencer.engine(), now, now);
        (Venue::new(sequencer, views, chain, EventQueue::new(timers)), Maintenance::new(storage, base, 0), base, lock)
    }

    fn nothing_much(venue: &mut Venue, maintenance: &mut Maintenance, commands: u64) {
        let cancel = Command::Cancel { account: AccountId(0), order: OrderId(u64::MAX) };
        for command in 1..=commands {
            venue.submit(VenueNanos(1), cancel.clone(), &mut ()).unwrap();
            if command % 10_000 == 0 || command == commands {
                venue.commit().unwrap();
                prepare_segments(venue, maintenance);
            }
        }
    }

    /// As `attend` does, and without the snapshot that it would begin.
    fn prepare_segments(venue: &mut Venue, maintenance: &mut Maintenance) {
        let journal = venue.journal_mut().unwrap();
        if let Some(job) = journal.segment_wanted() {
            maintenance.take_segment(journal, job.run(), 0);
        }
    }

    #[test]
    fn a_start_that_had_much_to_replay_leaves_less_to_the_next_one() {
        let directory = std::env::temp_dir().join(format!("pitwire-maintenance-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let mut bases = Vec::new();
        // The first is short of a snapshot by one command; each dies without having begun one.
        for commands in [SNAPSHOT_COMMANDS - 1, 1, 0, SNAPSHOT_COMMANDS - 1, 0] {
            let (mut venue, mut maintenance, base, lock) = start(&directory);
            maintenance.catch_up(&venue, 0);
            bases.push((base.0, maintenance.newest.holds.0, venue.last().0));
            nothing_much(&mut venue, &mut maintenance, commands);
            drop((venue, lock));
        }
        let (much, more) = (SNAPSHOT_COMMANDS, 2 * SNAPSHOT_COMMANDS - 1);
        assert_eq!(bases, [(0, 0, 0), (0, 0, much - 1), (0, much, much), (much, much, much), (much, much, more)]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
