//! The workers' ends of pipes or rings.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The workers' ends of a set of channels.
pub(crate) enum WorkerEnds {
    Pipes(Vec<OwnedFd>),
    Rings(Vec<PathBuf>),
}
