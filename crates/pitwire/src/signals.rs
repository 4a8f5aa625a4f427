//! Signals that end a command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pitwire_failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

/// Returns a flag that the first SIGTERM or SIGINT sets.
///
/// # Errors
///
/// Returns a failure if a signal handler cannot be installed.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
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
///
/// Returns a failure if the signal handler cannot be installed.
pub fn report_file_size_limit() -> Result<(), Failure> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}
