//! Signals of a process: SIGTERM and SIGINT stop it, and SIGXFSZ becomes an error of a write.
//!
//! Start at    [`stop_signals`].

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

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

/// Returns a flag that the first SIGTERM or SIGINT sets.
///
/// # Errors
/// Fails if a signal handler cannot be installed.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Lets a write beyond the file size limit (`ulimit -f`) fail with an error. Without a handler, the
/// signal of that limit ends the process.
///
/// # Errors
/// Fails if the signal handler cannot be installed.
pub fn report_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}
