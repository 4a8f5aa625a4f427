//! Opens a directory for writing: inspects it, repairs a torn tail, and records that the rest is
//! durable.

use std::{collections::VecDeque, sync::Arc};

use crate::records::{JournalPosition, NamedSnapshots, Superblock, group::BLOCK_BYTES};
use crate::{File, LogError, Storage};

use crate::{
    Journal, JournalConfig, OpenError, Recovery, StartAt, TornTail,
    batch::{ChainEnd, GroupBatch},
    error::while_doing,
    inspect::inspect,
    journal::SEGMENTS_AHEAD,
    names::{self, Listing},
    snapshots,
    spare::{Segment, prepare},
    superblock::SuperblockFile,
};

const SCRUB_BYTES: u64 = 1 << 20;

impl Journal {
    /// Opens or creates a journal. The caller holds the directory's lock, restores the snapshot of
    /// the recovery and replays its tail before it appends.
    ///
    /// # Errors
    ///
    /// Returns damage that must not be repaired, or an I/O error.
    pub fn open(storage: Arc<dyn Storage>, config: JournalConfig) -> Result<(Journal, Recovery), OpenError> {
        let recovery = inspect(storage.as_ref(), &config, StartAt::NewestSnapshot)?;
        remove_unfinished(storage.as_ref())?;
        let superblock = match recovery.superblock {
            Some(current) => SuperblockFile::open(storage.as_ref(), current)?,
            None => SuperblockFile::create(storage.as_ref())?,
        };
        let active = if recovery.is_fresh {
            first_segment(storage.as_ref(), &config)?
        } else {
            repaired_segment(storage.as_ref(), &recovery)?
        };
        let ahead = segments_ahead(storage.as_ref(), &config, active.number, recovery.last_segment)?;
        storage.sync_directory().map_err(while_doing("sync", "the journal's directory"))?;
        let journal = Journal {
            chain: chain_end(&config, &recovery),
            storage,
            config,
            committed: JournalPosition { segment: active.number, offset: active.offset, ..recovery.end },
            active,
            ahead,
            is_preparing: false,
            is_short_of_space: false,
            superblock,
            batch: GroupBatch::default(),
            record: Vec::new(),
            appended: recovery.last,
            durable: recovery.last,
            unfinished: None,
            is_poisoned: false,
            quarantined: recovery.quarantined.clone(),
        };
        journal.with_superblock(&recovery).map(|journal| (journal, recovery))
    }

    /// Records at once that everything recovered is durable, so that later damage to it is
    /// recognised.
    ///
    /// A superblock of an earlier build names no snapshot. Then the snapshots that exist are
    /// trusted this once, and named.
    fn with_superblock(mut self, recovery: &Recovery) -> Result<Journal, OpenError> {
        let current = *self.superblock.current();
        if recovery.snapshot.is_some() && current.snapshots == NamedSnapshots::default() {
            let snapshots = snapshots::newest_two(self.storage.as_ref(), &self.config)?;
            self.write_superblock_slot(Superblock { snapshots, ..current }, None).map_err(open_error)?;
        }
        if self.superblock.current().watermark != self.durable {
            self.write_superblock(None).map_err(open_error)?;
        }
        Ok(self)
    }
}

fn chain_end(config: &JournalConfig, recovery: &Recovery) -> ChainEnd {
    ChainEnd {
        rule_version: config.rule_version,
        watermark: recovery.last,
        group: recovery.end.group,
        previous: recovery.end.previous,
    }
}

/// Removes files that the last process was constructing when it ended. Nothing refers to them.
fn remove_unfinished(storage: &dyn Storage) -> Result<(), OpenError> {
    let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
    for name in Listing::new(names).unfinished {
        storage.remove(&name).map_err(while_doing("remove", &name))?;
    }
    Ok(())
}

fn first_segment(storage: &dyn Storage, config: &JournalConfig) -> Result<Segment, OpenError> {
    let unfinished = names::unfinished(&names::segment(1));
    let prepared = prepare(storage, unfinished, config.segment_bytes).map_err(open_error)?;
    prepared.name(storage, 1).map_err(open_error)
}

/// Returns the last written segment without its torn tail, synced, because the data read may have
/// come from the page cache of a killed process.
fn repaired_segment(storage: &dyn Storage, recovery: &Recovery) -> Result<Segment, OpenError> {
    if let Some(torn) = &recovery.torn {
        scrub(storage, torn)?;
    }
    let number = recovery.end.segment;
    let name = names::segment(number);
    let mut file = storage.open(&name).map_err(while_doing("open", &name))?;
    file.sync().map_err(while_doing("sync", &name))?;
    let bytes = usable_bytes(file.as_ref(), &name)?;
    let identity = file.identity().map_err(while_doing("identify", &name))?;
    Ok(Segment { number, name, file, identity, bytes, offset: recovery.end.offset })
}

/// Writes zeros over everything after the last whole group and syncs, before anything is appended.
fn scrub(storage: &dyn Storage, torn: &TornTail) -> Result<(), OpenError> {
    let name = names::segment(torn.segment);
    let mut file = storage.open(&name).map_err(while_doing("open", &name))?;
    let zeros = vec![0; usize::try_from(torn.bytes.min(SCRUB_BYTES)).unwrap_or(BLOCK_BYTES)];
    let (mut offset, end) = (torn.offset, torn.offset + torn.bytes);
    while offset < end {
        let count = usize::try_from(end - offset).unwrap_or(usize::MAX).min(zeros.len());
        let chunk = zeros.get(..count).unwrap_or_default();
        file.write_at(offset, chunk).map_err(while_doing("scrub", &name))?;
        offset += chunk.len() as u64;
    }
    file.sync().map_err(while_doing("sync", &name))
}

/// Returns the prepared segments after the last written one. They are all zeros, or opening would
/// have been refused. A segment of the wrong size is replaced when its turn comes.
fn segments_ahead(
    storage: &dyn Storage,
    config: &JournalConfig,
    active: u32,
    last_segment: u32,
) -> Result<VecDeque<Segment>, OpenError> {
    let mut ahead = VecDeque::new();
    for number in (active + 1..=last_segment).take(SEGMENTS_AHEAD) {
        let name = names::segment(number);
        let file = storage.open(&name).map_err(while_doing("open", &name))?;
        if file.len().map_err(while_doing("measure", &name))? != config.segment_bytes {
            break;
        }
        let identity = file.identity().map_err(while_doing("identify", &name))?;
        ahead.push_back(Segment { number, name, file, identity, bytes: config.segment_bytes, offset: 0 });
    }
    Ok(ahead)
}

/// Size in whole blocks: a truncated file is used as far as it reaches.
fn usable_bytes(file: &dyn File, name: &str) -> Result<u64, OpenError> {
    let bytes = file.len().map_err(while_doing("measure", name))?;
    Ok(bytes - bytes % BLOCK_BYTES as u64)
}

fn open_error(error: LogError) -> OpenError {
    match error {
        LogError::Io { doing, file, source } => OpenError::Io { doing, file, source },
        other => OpenError::Io {
            doing: "begin",
            file: "the journal".to_owned(),
            source: std::io::Error::other(other.to_string()),
        },
    }
}
