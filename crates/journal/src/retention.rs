//! Removal of files that no recovery can need.

use crate::Storage;
use pitwire_model::Seq;

use crate::{
    JournalConfig, OpenError,
    error::while_doing,
    names::{self, Listing},
    snapshots,
};

/// Names of removed files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedFiles {
    pub snapshots: Vec<String>,
    pub segments: Vec<String>,
}

/// Keeps the newest `keep` readable snapshots and every segment that the oldest of them needs. May
/// run on any thread while the journal is written. With fewer readable snapshots nothing is
/// removed, because recovery then needs the log from its start. A damaged snapshot newer than the
/// oldest kept one stays as evidence.
///
/// # Errors
///
/// Returns an I/O error; nothing that recovery needs has been removed.
pub fn retain(storage: &dyn Storage, config: &JournalConfig, keep: usize) -> Result<RemovedFiles, OpenError> {
    let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
    let listing = Listing::new(names);
    let Some((oldest, first_segment)) = nth_newest(storage, &listing, config, keep.max(1))? else {
        return Ok(RemovedFiles::default());
    };
    let snapshots: Vec<String> =
        listing.snapshots.iter().filter(|seq| **seq < oldest).map(|seq| names::snapshot(*seq)).collect();
    let segments: Vec<String> = listing
        .segments
        .iter()
        .filter(|number| **number < first_segment)
        .flat_map(|number| listing.files_of(*number))
        .collect();
    // Snapshots are removed first and synced: a snapshot without its segments would look like
    // damage.
    remove_all(storage, &snapshots)?;
    remove_all(storage, &segments)?;
    Ok(RemovedFiles { snapshots, segments })
}

/// Returns the readable snapshot that has this rank from the newest one, counted from 1: its last
/// command, and the segment in which the log continues after it.
pub(crate) fn nth_newest(
    storage: &dyn Storage,
    listing: &Listing,
    config: &JournalConfig,
    rank: usize,
) -> Result<Option<(Seq, u32)>, OpenError> {
    let mut found = 0;
    for seq in listing.snapshots.iter().rev() {
        let Ok(snapshot) = snapshots::load(storage, *seq, config)? else { continue };
        found += 1;
        if found == rank {
            return Ok(Some((*seq, snapshot.meta.position.segment)));
        }
    }
    Ok(None)
}

pub(crate) fn remove_all(storage: &dyn Storage, names: &[String]) -> Result<(), OpenError> {
    for name in names {
        storage.remove(name).map_err(while_doing("remove", name))?;
    }
    if names.is_empty() {
        return Ok(());
    }
    storage.sync_directory().map_err(while_doing("sync", "the journal's directory"))
}
