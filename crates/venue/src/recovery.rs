//! Recovery: from a data directory to a venue that continues where it stopped.
//!
//! Start at    [`recover`].

use std::path::Path;
use std::sync::Arc;

use pitwire_disk::{DirectoryLock, DirectoryStorage, IrregularEntry};
use pitwire_engine::RULE_VERSION;
use pitwire_failure::Failure;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Journal, JournalConfig, OpenError, OutputHash, Recovery, StartAt, Storage, inspect};
use pitwire_model::{Command, Seq};
use pitwire_projections::Views;
use tracing::{info, warn};

use crate::log_backend::LogBackend;
use crate::replay::{Replay, ReplayProgress, UnrecordedPanic};
use crate::sequencer::Sequencer;

/// Attempts to read a journal that a running venue is writing, before an error is accepted.
const MOST_LOOKS: u32 = 10;

pub struct RecoveredVenue {
    pub sequencer: Sequencer<LogBackend>,
    pub views: Views,
    pub chain: OutputChain,
    /// The last command of the snapshot that was used. Everything after it was replayed.
    pub base: Seq,
    pub storage: Arc<DirectoryStorage>,
    /// Must live as long as the venue writes.
    pub lock: DirectoryLock,
}

/// Inspects a directory from its oldest snapshot on, without locking it.
///
/// A running venue can be caught between two pages of a group while later groups are already
/// complete. That looks like damage. Real damage looks the same on the next attempt.
///
/// # Errors
///
/// Returns the error that two attempts in a row agree on.
pub fn inspect_settled(storage: &DirectoryStorage) -> Result<Recovery, OpenError> {
    let mut before = None;
    for _ in 0..MOST_LOOKS {
        match inspect(storage, &journal_config(), StartAt::Oldest) {
            Err(error) if before != Some(error.to_string()) => before = Some(error.to_string()),
            judged => return judged,
        }
    }
    inspect(storage, &journal_config(), StartAt::Oldest)
}

/// Returns the journal settings of every command. Segments are small, so that a fresh venue starts
/// quickly.
pub fn journal_config() -> JournalConfig {
    JournalConfig { segment_bytes: 16 << 20, rule_version: RULE_VERSION, ..JournalConfig::default() }
}

/// Whether a venue writes a file of this name to its data directory.
pub(crate) fn is_venue_file(name: &str) -> bool {
    is_journal_file(name) || ["configuration.json", "credentials.sealed", "bus.key", "lock"].contains(&name)
}

fn is_journal_file(name: &str) -> bool {
    name == "superblock" || name.starts_with("journal-") || name.starts_with("snapshot-")
}

/// Returns the refusal of an entry that should be a regular file.
pub(crate) fn irregular(path: &Path, entry: IrregularEntry) -> Failure {
    Failure::new(format!("{} is {entry}, expected a regular file", path.display()))
        .remedy("put the file itself in its place, or move the entry out of the data directory")
}

/// Checks the types of a venue's files. The log would seem to lack a segment that is a link, and a
/// start would make a new one.
fn check_entries(storage: &DirectoryStorage) -> Result<(), Failure> {
    for (name, entry) in storage.list_irregular()? {
        if is_journal_file(&name) || (is_venue_file(&name) && entry != IrregularEntry::Link) {
            return Err(irregular(&storage.path().join(name), entry));
        }
    }
    Ok(())
}

/// Opens or creates a data directory, and replays its log.
///
/// # Errors
///
/// Returns a failure if the directory cannot be used, or if its log is damaged.
pub fn recover(directory: &Path) -> Result<RecoveredVenue, Failure> {
    recover_with_progress(directory, &mut |_, _| {})
}

/// As [`recover`], and reports the progress of the replay.
///
/// # Errors
///
/// As [`recover`].
pub fn recover_with_progress(directory: &Path, progress: ReplayProgress<'_>) -> Result<RecoveredVenue, Failure> {
    let opened = DirectoryStorage::open_or_create(directory);
    let storage = opened.map_err(|error| {
        Failure::new(format!("cannot use the data directory {}: {error}", directory.display()))
            .remedy("give another with --data, or make it writable")
    })?;
    check_entries(&storage)?;
    let lock =
        DirectoryLock::acquire(&storage).map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))?;
    let storage = Arc::new(storage);
    let (journal, recovery) = Journal::open(Arc::clone(&storage) as Arc<dyn Storage>, journal_config())?;
    for damaged in &recovery.damaged_snapshots {
        warn!("{damaged}");
    }
    if let Some(torn) = &recovery.torn {
        warn!(%torn, "cut an unfinished group off the journal; none of its commands was acknowledged");
    }
    let replay = Replay::whole_with_progress(&recovery, storage.as_ref(), progress)?;
    if !recovery.is_fresh {
        let (snapshot, last) = (recovery.base().0, replay.last.0);
        info!(snapshot, replayed = last - snapshot, last, "recovered the venue from its journal");
    }
    let Replay { mut engine, mut views, mut chain, last, time, found, .. } = replay;
    engine.follow(RULE_VERSION);
    let mut sequencer = Sequencer::resume(engine, LogBackend::Disk(Box::new(journal)), last, time);
    // The venue stopped between such a command and the record that quarantines it.
    for UnrecordedPanic { seq, instrument } in found {
        let mut events = Vec::new();
        let stamped = sequencer.submit(time, Command::Quarantine { seq, instrument }, &mut events)?;
        chain.absorb(&stamped, &events);
        views.observe(&stamped, &events, &mut Vec::new());
    }
    if sequencer.has_uncommitted() {
        sequencer.commit(OutputHash(chain.seal()))?;
    }
    Ok(RecoveredVenue { sequencer, views, chain, base: recovery.base(), storage, lock })
}
