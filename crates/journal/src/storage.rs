//! A flat directory of files, with the operations that a journal needs.
//!
//! Holds       a power cut may lose, tear (at any 512-byte sector) or reorder writes that were not
//!             synced, and may undo creations, renames and removals until the directory is synced.
//!             Every method returns the error of the operating system.

// The header states the errors once for all methods.
#![allow(clippy::missing_errors_doc)]

use std::io;

/// Identity of a file or directory. Renaming does not change it. A storage without identities uses
/// zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
}

/// One directory. Names are plain file names without separators.
pub trait Storage: Send + Sync {
    /// Names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Creates a file of `bytes` zero bytes, written rather than only reserved, and synced.
    /// Replaces a file of that name.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn sync_directory(&self) -> io::Result<()>;
    /// Fails if an operator has deleted or replaced the file `name` or the opened directory. Later
    /// writes to either would be lost.
    fn check_in_place(&self, name: &str, identity: FileIdentity) -> io::Result<()> {
        let _ = (name, identity);
        Ok(())
    }
}

pub trait File: Send {
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `into` from `offset`. Returns fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns once every earlier write would survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
    /// Returns another handle to the same file, for a sync on another thread. If both handles sync
    /// at the same time, an error of the device may be reported to one of them only.
    fn duplicate(&self) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(FileIdentity::default())
    }
}
