//! Making the next segment before it is needed, away from the thread that commits.
//!
//! Holds       the job writes under an unfinished name of its own; only the journal's thread gives a segment its
//!             name. A job that comes late can therefore never replace a segment that is in use.

use std::sync::Arc;

use crate::{File, LogError, Storage};

use crate::names;

/// Writes a segment's worth of zeros. May run on any thread.
pub struct PrepareSegment {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) number: u32,
    pub(crate) bytes: u64,
}

/// A segment's worth of zeros, synced, waiting for its name.
pub struct PreparedSegment {
    pub(crate) file: Box<dyn File>,
    pub(crate) unfinished: String,
    pub(crate) bytes: u64,
}

impl PrepareSegment {
    /// Slow: writes and syncs the whole segment. No space is an error like any other here, and harms nothing.
    pub fn run(self) -> Result<PreparedSegment, LogError> {
        let unfinished = names::unfinished(&format!("{}.prepared", names::segment(self.number)));
        prepare(self.storage.as_ref(), unfinished, self.bytes)
    }
}

pub(crate) fn prepare(storage: &dyn Storage, unfinished: String, bytes: u64) -> Result<PreparedSegment, LogError> {
    match storage.create(&unfinished, bytes) {
        Ok(file) => Ok(PreparedSegment { file, unfinished, bytes }),
        Err(source) => {
            // Give the space back: it may be what cancels need. A second failure changes nothing.
            let _ = storage.remove(&unfinished);
            Err(LogError::Io { doing: "prepare", file: unfinished, source })
        }
    }
}

/// The segment that will be written next.
pub(crate) struct Segment {
    pub number: u32,
    pub name: String,
    pub file: Box<dyn File>,
    pub bytes: u64,
    /// Where the next group goes.
    pub offset: u64,
}

impl PreparedSegment {
    /// Gives it its name, for good.
    pub(crate) fn name(self, storage: &dyn Storage, number: u32) -> Result<Segment, LogError> {
        let name = names::segment(number);
        let failed = |doing: &'static str| move |source| LogError::Io { doing, file: names::segment(number), source };
        storage.rename(&self.unfinished, &name).map_err(failed("rename to"))?;
        storage.sync_directory().map_err(failed("sync the directory of"))?;
        Ok(Segment { number, name, file: self.file, bytes: self.bytes, offset: 0 })
    }
}
