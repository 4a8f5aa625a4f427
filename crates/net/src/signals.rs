//! Being asked to end: SIGTERM and SIGINT make a socket readable.

use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

/// A stream that becomes readable with the first signal.
pub fn stop_signals() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, theirs.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGINT, theirs)?;
    Ok(ours)
}
