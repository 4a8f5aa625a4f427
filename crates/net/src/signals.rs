//! Stop signals of a process: SIGTERM and SIGINT make a socket readable.
//!
//! Start at    [`stop_signals`].

use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

/// Returns a stream that becomes readable with the first signal.
///
/// # Errors
/// Fails if the process is out of file descriptors or the signals cannot be caught.
pub fn stop_signals() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, theirs.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGINT, theirs)?;
    Ok(ours)
}
