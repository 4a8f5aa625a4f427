//! The world's double: a disk that loses, tears, reorders and misdirects unsynced writes.
//!
//! Does        stand in for the disk in front of the real journal, and show every state in which a power cut, a
//!             kill or a failing device could have left it.
//! Holds       1. equal seeds give equal disks;
//!             2. what was synced (bytes by the file, names by the directory) survives every crash, unless the disk
//!                was told to lie;
//!             3. a sector of 512 bytes is written whole or not at all; a name is changed whole or not at all.
//! Leaves out  bit rot and truncation, which tests do themselves with [`FaultyStorage::edit`].
//! Costs       contents are shared until written: a copy of the disk costs a few pointers.
//! Start at    [`FaultyStorage::crash`]. The journal's crash tests stand in `tests`.

mod crash;
mod disk;
mod random;
mod storage;

pub use crash::Crash;
pub use random::SplitMix64;
pub use storage::{FaultyStorage, Image, Trouble};
