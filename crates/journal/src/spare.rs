//! Prepares the next segment before it is needed, on a thread that does not commit.
//!
//! Holds       a segment in use is never replaced: the job writes under a temporary name, and only
//!             the journal's thread gives a segment its final name.

use std::{io, sync::Arc};

use crate::{File, FileIdentity, LogError, Storage};

use crate::names;

/// The job of writing one segment of zeros. May run on any thread.
pub struct PrepareSegment {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) number: u32,
    pub(crate) bytes: u64,
}

/// A synced segment of zeros under a temporary name.
pub struct PreparedSegment {
    pub(crate) file: Box<dyn File>,
    pub(crate) unfinished: String,
    pub(crate) bytes: u64,
}

impl PrepareSegment {
    /// Writes and syncs the whole segment, which is slow.
    ///
    /// # Errors
    ///
    /// Returns the I/O error, for example when the disk is full. The journal is unaffected.
    pub fn run(self) -> Result<PreparedSegment, LogError> {
        let unfinished = names::unfinished(&format!("{}.prepared", names::segment(self.number)));
        prepare(self.storage.as_ref(), unfinished, self.bytes)
    }
}

pub(crate) fn prepare(storage: &dyn Storage, unfinished: String, bytes: u64) -> Result<PreparedSegment, LogError> {
    match storage.create(&unfinished, bytes) {
        Ok(file) => Ok(PreparedSegment { file, unfinished, bytes }),
        Err(source) => {
            // Frees the space, which cancels may need. A second failure changes nothing.
            let _ = storage.remove(&unfinished);
            Err(LogError::Io { doing: "prepare", file: unfinished, source })
        }
    }
}

/// A segment that is being written.
pub(crate) struct Segment {
    pub number: u32,
    pub name: String,
    pub file: Box<dyn File>,
    pub identity: FileIdentity,
    pub bytes: u64,
    /// Offset of the next group in bytes.
    pub offset: u64,
}

impl Segment {
    /// Checks that what was written here can be found by the next start.
    pub(crate) fn check_in_place(&self, storage: &dyn Storage) -> Result<(), LogError> {
        storage.check_in_place(&self.name, self.identity).map_err(displaced(&self.name))
    }
}

/// Returns the error for a file that is no longer where the next start would look for it.
pub(crate) fn displaced<'a>(file: &'a str) -> impl FnOnce(io::Error) -> LogError + use<'a> {
    move |source| LogError::Displaced { file: file.to_owned(), source }
}

impl PreparedSegment {
    /// Gives the segment its final name and syncs the directory.
    pub(crate) fn name(self, storage: &dyn Storage, number: u32) -> Result<Segment, LogError> {
        let name = names::segment(number);
        let failed = |doing: &'static str| move |source| LogError::Io { doing, file: names::segment(number), source };
        storage.rename(&self.unfinished, &name).map_err(failed("rename to"))?;
        storage.sync_directory().map_err(failed("sync the directory of"))?;
        let identity = self.file.identity().map_err(failed("identify"))?;
        Ok(Segment { number, name, file: self.file, identity, bytes: self.bytes, offset: 0 })
    }
}
