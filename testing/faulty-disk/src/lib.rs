//! A faulty disk: it loses, tears, reorders and misdirects writes that were not synced.
//!
//! Does        replace the disk below the real journal, and produce every state in which a power
//!             cut, a kill or a failing device could leave it.
//! Holds       1. equal seeds give equal disks;
//!             2. synced data (bytes by the file, names by the directory) survives every crash,
//!                unless the disk is configured to lie;
//!             3. a sector of 512 bytes is written completely or not at all, and so is a name
//!                change.
//! Leaves out  bit rot and truncation, which tests apply with [`FaultyStorage::edit`].
//! Costs       contents are shared until written, so a copy of the disk costs a few pointers.
//! Start at    [`FaultyStorage::crash`]. The journal's crash tests are in `tests`.

mod crash;
mod disk;
mod storage;

pub use crash::Crash;
pub use storage::{DiskFaults, FaultyStorage, Image};
