//! Maintenance tasks on their own threads: preparing journal segments, writing snapshots, and
//! compressing or dropping old segments.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use pitwire_disk::{DiskUsage, disk_usage};
use pitwire_failure::Failure;
use pitwire_journal::records::image::encode_state;
use pitwire_journal::records::{NamedSnapshot, SnapshotMeta};
use pitwire_journal::{
    History, Journal, JournalSpace, Keep, PreparedSegment, compress_segments, surplus, write_snapshot,
};
use pitwire_journal::{Log, LogError, Storage};
use pitwire_model::Seq;
use tracing::{error, info, warn};

use crate::recovery::journal_config;
use crate::replay::Replay;
use crate::venue::Venue;

/// A snapshot is due after this many commands or after this many nanoseconds, whichever comes
/// first. Smaller values shorten the next recovery and write more.
const SNAPSHOT_COMMANDS: u64 = 500_000;
const SNAPSHOT_NS: u64 = 300_000_000_000;
/// Pause in nanoseconds after a segment could not be prepared, usually because the disk is full.
const RETRY_NS: u64 = 1_000_000_000;
/// Interval of [`Maintenance::attend`] in nanoseconds for a venue without commits. It bounds how
/// late the venue notices returned disk space, or a data directory that was deleted.
const ATTEND_NS: u64 = 1_000_000_000;
/// Interval between two measurements of the disk use, in nanoseconds.
const USAGE_EVERY_NS: u64 = 10_000_000_000;

enum TaskResult {
    Segment(Result<PreparedSegment, LogError>),
    /// A snapshot has its name in the directory. The superblock must name it.
    Written(NamedSnapshot),
    /// The snapshot at this command, and the compression after it, have ended.
    Snapshot(Seq, Result<(), String>),
    /// The compression at the start has ended.
    Compression,
    Usage(Option<DiskUsage>),
}

/// The newest snapshot: its last command, and the time at which it was started or found.
struct NewestSnapshot {
    holds: Seq,
    at_ns: u64,
}

impl NewestSnapshot {
    /// Returns whether the next snapshot is due, given the newest durable command.
    fn is_due(&self, durable: Seq, now_ns: u64) -> bool {
        let behind = durable.0.saturating_sub(self.holds.0);
        behind >= SNAPSHOT_COMMANDS || (behind > 0 && now_ns.saturating_sub(self.at_ns) >= SNAPSHOT_NS)
    }
}

pub struct Maintenance {
    storage: Arc<dyn Storage>,
    keep: Keep,
    done: Receiver<TaskResult>,
    report: Sender<TaskResult>,
    /// Whether a thread writes a snapshot, or compresses or drops old segments. There is at most
    /// one.
    is_archiving: bool,
    /// Tells that thread to stop before the next segment.
    stops_compressing: Arc<AtomicBool>,
    /// The log has announced the segments that the next snapshot drops, or there are none.
    has_warned: bool,
    newest: NewestSnapshot,
    no_segment_before_ns: u64,
    /// When the data directory is checked next without a commit.
    next_check_ns: u64,
    /// The data directory, if its disk use is measured.
    directory: Option<PathBuf>,
    usage: Option<DiskUsage>,
    next_usage_ns: u64,
}

impl Maintenance {
    /// Creates the tasks. `last_snapshot` is the last command of the newest snapshot on disk. With
    /// it, a venue that crashes repeatedly still gets its snapshot in time. `keep` says how much
    /// history stays on disk.
    pub fn new(storage: Arc<dyn Storage>, keep: Keep, last_snapshot: Seq, now_ns: u64) -> Self {
        let (report, done) = channel();
        Maintenance {
            storage,
            keep,
            done,
            report,
            is_archiving: false,
            stops_compressing: Arc::default(),
            has_warned: false,
            newest: NewestSnapshot { holds: last_snapshot, at_ns: now_ns },
            no_segment_before_ns: 0,
            next_check_ns: now_ns + ATTEND_NS,
            directory: None,
            usage: None,
            next_usage_ns: 0,
        }
    }

    /// Returns when [`Maintenance::attend`] must be called, in monotonic nanoseconds.
    pub fn next_due_ns(&self) -> u64 {
        self.next_check_ns
    }

    /// Measures the disk use of this directory from time to time.
    #[must_use]
    pub fn with_usage_of(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_path_buf());
        self
    }

    /// Returns the newest measurement of the disk use, a few seconds old.
    pub fn disk_usage(&self) -> Option<DiskUsage> {
        self.usage
    }

    /// Collects finished tasks and starts due tasks. Call it when everything is committed.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal's superblock cannot be written, or if the data directory is
    /// no longer in its place. The venue must then stop.
    pub fn attend(&mut self, venue: &mut Venue, now_ns: u64) -> Result<(), LogError> {
        while let Ok(done) = self.done.try_recv() {
            match done {
                TaskResult::Segment(outcome) => {
                    if let Some(journal) = venue.journal_mut() {
                        self.take_segment(journal, outcome, now_ns);
                    }
                }
                TaskResult::Written(named) => {
                    if let Some(journal) = venue.journal_mut() {
                        journal.name_snapshot(named)?;
                    }
                }
                TaskResult::Snapshot(seq, Ok(())) => {
                    info!(seq = seq.0, "snapshot written");
                    self.is_archiving = false;
                }
                TaskResult::Snapshot(seq, Err(error)) => {
                    error!(seq = seq.0, error, "snapshot failed; the journal before it is kept");
                    self.is_archiving = false;
                }
                TaskResult::Compression => self.is_archiving = false,
                TaskResult::Usage(usage) => self.usage = usage,
            }
        }
        self.measure_usage(now_ns);
        let Some(journal) = venue.journal_mut() else { return Ok(()) };
        journal.write_superblock_if_due(now_ns)?;
        if now_ns >= self.next_check_ns {
            self.next_check_ns = now_ns + ATTEND_NS;
            journal.check_in_place()?;
        }
        let may_prepare = now_ns >= self.no_segment_before_ns;
        if let Some(job) = may_prepare.then(|| journal.segment_wanted()).flatten() {
            let report = self.report.clone();
            // If the receiver is gone, the venue has ended and does not need the segment.
            thread::spawn(move || drop(report.send(TaskResult::Segment(job.run()))));
        }
        let last = venue.durable();
        if self.newest.is_due(last, now_ns) && !self.is_archiving {
            self.start_snapshot(venue, now_ns);
        }
        Ok(())
    }

    /// Starts a measurement of the disk use on another thread, if one is due.
    fn measure_usage(&mut self, now_ns: u64) {
        if now_ns < self.next_usage_ns {
            return;
        }
        let Some(directory) = self.directory.clone() else { return };
        self.next_usage_ns = now_ns + USAGE_EVERY_NS;
        let report = self.report.clone();
        // Without a measurement, the disk use is unknown. If the receiver is gone, the venue has
        // ended.
        thread::spawn(move || drop(report.send(TaskResult::Usage(disk_usage(&directory).ok().flatten()))));
    }

    /// Hands a prepared segment to the journal. On failure, the venue takes only cancels until a
    /// later attempt succeeds.
    fn take_segment(&mut self, journal: &mut Journal, outcome: Result<PreparedSegment, LogError>, now_ns: u64) {
        let before = journal.space();
        if let Err(error) = journal.segment_ready(outcome) {
            self.no_segment_before_ns = now_ns + RETRY_NS;
            if before == JournalSpace::Orders {
                error!(%error, "cannot make the next segment: only cancels are taken until it can be made");
            }
        } else if before != JournalSpace::Orders && journal.space() == JournalSpace::Orders {
            info!("there is space again: orders are taken");
        }
    }

    /// Writes a snapshot before the venue serves clients, if recovery had to replay enough commands
    /// for one.
    ///
    /// Otherwise a venue that crashes before its snapshot thread is done would replay the same
    /// commands at each start. Call it when everything is committed. A failure is logged only,
    /// because the journal is complete.
    pub fn catch_up(&mut self, venue: &mut Venue, now_ns: u64) {
        if !self.newest.is_due(venue.durable(), now_ns) {
            return;
        }
        let Some((meta, payload)) = capture_snapshot(venue) else { return };
        let retention = self.next_retention();
        match write_and_name(venue, self.storage.as_ref(), retention, &meta, &payload) {
            Ok(()) => {
                info!(seq = meta.seq.0, "snapshot written");
                self.newest = NewestSnapshot { holds: meta.seq, at_ns: now_ns };
            }
            Err(error) => error!(seq = meta.seq.0, %error, "snapshot failed; the journal before it is kept"),
        }
    }

    /// Returns the treatment of old history by the next snapshot. The first snapshot of a process
    /// only warns, so that an operator can correct a wrong bound.
    fn next_retention(&mut self) -> Retention {
        let may_drop = std::mem::replace(&mut self.has_warned, true);
        Retention { keep: self.keep, may_drop }
    }

    /// Starts a thread that compresses the segments that earlier runs left. A snapshot waits until
    /// it has ended.
    pub fn compress_old_segments(&mut self) {
        self.is_archiving = true;
        let (storage, stops, report) =
            (Arc::clone(&self.storage), Arc::clone(&self.stops_compressing), self.report.clone());
        thread::spawn(move || {
            let _ = rustix::process::nice(10);
            // Report the end in every case, because `wait_for_snapshot` may be waiting for it.
            let _ = catch_unwind(AssertUnwindSafe(|| compress_and_log(storage.as_ref(), &stops)));
            drop(report.send(TaskResult::Compression));
        });
    }

    /// Starts a snapshot thread. The calling thread pays only for a handle and a thread: the new
    /// thread rebuilds the state from disk.
    pub fn start_snapshot(&mut self, venue: &Venue, now_ns: u64) {
        let Some(journal) = venue.journal() else { return };
        self.is_archiving = true;
        let seq = journal.durable_position();
        self.newest = NewestSnapshot { holds: seq, at_ns: now_ns };
        let (history, report) = (journal.history(), self.report.clone());
        let (retention, stops) = (self.next_retention(), Arc::clone(&self.stops_compressing));
        thread::spawn(move || {
            // Report the end in every case, because `wait_for_snapshot` may be waiting for it.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let written = |named| drop(report.send(TaskResult::Written(named)));
                replicate_snapshot(&history, retention, written).map_err(|error| error.to_string())?;
                compress_and_log(history.storage(), &stops);
                Ok(())
            }));
            drop(report.send(TaskResult::Snapshot(seq, outcome.unwrap_or_else(|_| Err("the replica failed".into())))));
        });
    }

    /// Waits until the running snapshot or compression, if any, has ended.
    pub fn wait_for_snapshot(&mut self, venue: &mut Venue) {
        while self.is_archiving {
            let Ok(done) = self.done.recv() else { return };
            if let (TaskResult::Written(named), Some(journal)) = (&done, venue.journal_mut())
                && let Err(error) = journal.name_snapshot(*named)
            {
                error!(seq = named.seq.0, %error, "cannot name the snapshot; the next start does not use it");
            }
            self.is_archiving &= !matches!(done, TaskResult::Snapshot(..) | TaskResult::Compression);
        }
    }

    /// Writes the last snapshot before a clean exit.
    ///
    /// # Errors
    ///
    /// Returns a failure if the snapshot cannot be written. The journal is complete without it.
    pub fn finish(mut self, venue: &mut Venue) -> Result<(), Failure> {
        let Some((meta, payload)) = capture_snapshot(venue) else { return Ok(()) };
        // Two threads must not delete old segments at the same time.
        self.stops_compressing.store(true, Relaxed);
        self.wait_for_snapshot(venue);
        // A stop drops nothing, so that an operator can still correct a wrong bound.
        let retention = Retention { keep: self.keep, may_drop: false };
        write_and_name(venue, self.storage.as_ref(), retention, &meta, &payload)
    }
}

/// Treatment of the history that exceeds its bound.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    pub keep: Keep,
    /// The snapshot drops the surplus. If false, the log announces it for the next snapshot.
    pub may_drop: bool,
}

/// Writes a snapshot of everything durable, by replaying the log from the previous snapshot. Then
/// applies `retention`.
///
/// `written` gets the snapshot at once. The caller names it by [`Journal::name_snapshot`].
///
/// The replay also verifies that the previous snapshot is readable and that the log after it
/// produces the events that were sent.
///
/// # Errors
///
/// Returns a failure if the log cannot be replayed, or if the snapshot cannot be written.
pub fn replicate_snapshot(
    history: &History,
    retention: Retention,
    written: impl FnOnce(NamedSnapshot),
) -> Result<(), Failure> {
    // The venue's own thread has priority.
    let _ = rustix::process::nice(10);
    let recovery = history.recovery()?;
    let replica = Replay::whole(&recovery, history.storage())?;
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
    written(write_snapshot(history.storage(), &meta, &payload)?);
    retain(history.storage(), retention)
}

/// Compresses old segments. A failure is logged only, because the segments stay readable.
fn compress_and_log(storage: &dyn Storage, stops: &AtomicBool) {
    match compress_segments(storage, &journal_config(), || !stops.load(Relaxed)) {
        Ok(0) => {}
        Ok(compressed) => info!(compressed, "compressed old segments of the journal"),
        Err(error) => warn!(%error, "cannot compress old segments; they stay as they are until the next snapshot"),
    }
}

/// Returns the state between two commands as a snapshot, or `None` if the venue keeps nothing on
/// disk.
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

/// Writes a snapshot of a venue, names it and applies `retention`.
fn write_and_name(
    venue: &mut Venue,
    storage: &dyn Storage,
    retention: Retention,
    meta: &SnapshotMeta,
    payload: &[u8],
) -> Result<(), Failure> {
    let named = write_snapshot(storage, meta, payload)?;
    if let Some(journal) = venue.journal_mut() {
        journal.name_snapshot(named)?;
    }
    retain(storage, retention)
}

/// Drops the history that exceeds its bound.
fn retain(storage: &dyn Storage, retention: Retention) -> Result<(), Failure> {
    let Retention { keep, may_drop } = retention;
    let surplus = surplus(storage, &journal_config(), keep)?;
    if let Some(Seq(last)) = surplus.dropped_up_to {
        if !may_drop {
            warn!(
                last,
                "the next snapshot drops the history up to this command, because --keep allows {keep}; to keep it, \
                 stop the venue now and start it with --keep all"
            );
            return Ok(());
        }
        warn!(last, "dropping the history up to this command: --keep allows {keep}");
    }
    surplus.remove(storage)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use pitwire_disk::{DirectoryLock, DirectoryStorage};
    use pitwire_model::{AccountId, Command, OrderId, VenueNanos};
    use pitwire_schedule::{ContinuousCalendar, TimerQueue};

    use super::*;
    use crate::event_queue::EventQueue;
    use crate::recovery::{RecoveredVenue, inspect_settled, recover};

    #[test]
    fn snapshot_is_due_by_commands_and_time_since_the_last() {
        let start = 7_000_000_000;
        let found = NewestSnapshot { holds: Seq(1_000), at_ns: start };
        for (durable, after_s, is_due) in [
            (1_000, 0, false),
            (1_000, 1_000, false),
            (1_001, 299, false),
            (1_001, 300, true),
            (500_999, 0, false),
            // For example after a start that replayed this many commands.
            (501_000, 0, true),
        ] {
            let now_ns = start + after_s * 1_000_000_000;
            assert_eq!(found.is_due(Seq(durable), now_ns), is_due, "{durable} after {after_s} s");
        }
    }

    /// Starts a venue without sockets and without a setup.
    fn start(directory: &Path) -> (Venue, Maintenance, Seq, DirectoryLock) {
        let RecoveredVenue { sequencer, views, chain, base, storage, lock } = recover(directory).unwrap();
        let now = sequencer.time();
        let timers = TimerQueue::starting(Box::new(ContinuousCalendar), sequencer.engine(), now, now);
        (
            Venue::new(sequencer, views, chain, EventQueue::new(timers)),
            Maintenance::new(storage, Keep::All, base, 0),
            base,
            lock,
        )
    }

    fn submit_cancels(venue: &mut Venue, maintenance: &mut Maintenance, commands: u64) {
        let cancel = Command::Cancel { account: AccountId(0), order: OrderId(u64::MAX) };
        for command in 1..=commands {
            venue.submit(VenueNanos(1), cancel.clone(), &mut ()).unwrap();
            if command % 10_000 == 0 || command == commands {
                venue.commit().unwrap();
                prepare_segments(venue, maintenance);
            }
        }
    }

    /// As [`Maintenance::attend`], but without starting a snapshot.
    fn prepare_segments(venue: &mut Venue, maintenance: &mut Maintenance) {
        let journal = venue.journal_mut().unwrap();
        if let Some(job) = journal.segment_wanted() {
            maintenance.take_segment(journal, job.run(), 0);
        }
    }

    #[test]
    fn long_replay_writes_a_snapshot_before_serving() {
        let directory = std::env::temp_dir().join(format!("pitwire-maintenance-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let mut bases = Vec::new();
        // The first run is one command short of a snapshot. Each run crashes before it has started
        // one.
        for commands in [SNAPSHOT_COMMANDS - 1, 1, 0, SNAPSHOT_COMMANDS - 1, 0] {
            let (mut venue, mut maintenance, base, lock) = start(&directory);
            maintenance.catch_up(&mut venue, 0);
            bases.push((base.0, maintenance.newest.holds.0, venue.last().0));
            submit_cancels(&mut venue, &mut maintenance, commands);
            drop((venue, lock));
        }
        let (much, more) = (SNAPSHOT_COMMANDS, 2 * SNAPSHOT_COMMANDS - 1);
        assert_eq!(bases, [(0, 0, 0), (0, 0, much - 1), (0, much, much), (much, much, much), (much, much, more)]);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn whole_run_stays_on_disk_and_old_segments_are_compressed() {
        let directory = std::env::temp_dir().join(format!("pitwire-history-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let (mut venue, mut maintenance, _, lock) = start(&directory);
        for _ in 0..3 {
            submit_cancels(&mut venue, &mut maintenance, SNAPSHOT_COMMANDS);
            maintenance.start_snapshot(&venue, 0);
            maintenance.wait_for_snapshot(&mut venue);
        }
        let names: Vec<String> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.iter().any(|name| name == "journal-00000001.seg.zst"), "{names:?}");
        assert!(!names.iter().any(|name| name == "journal-00000001.seg"), "{names:?}");
        assert_eq!(names.iter().filter(|name| name.starts_with("snapshot-")).count(), 2);
        let storage = DirectoryStorage::read_only(&directory).unwrap();
        let recovery = inspect_settled(&storage).unwrap();
        assert_eq!((recovery.base(), recovery.last), (Seq(0), Seq(3 * SNAPSHOT_COMMANDS)));
        drop((venue, lock));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
