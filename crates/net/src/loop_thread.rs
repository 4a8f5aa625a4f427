//! Threads with an event loop.
//!
//! Start at    [`start_loop_thread`].

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Starts a thread that runs with what `open` returns. Calls `open` on the thread, because an event
/// loop belongs to the thread that made it, and returns when it is open.
///
/// # Errors
/// Fails if the thread cannot be started or `open` fails.
pub fn start_loop_thread<T>(
    name: &str,
    open: impl FnOnce() -> io::Result<T> + Send + 'static,
    run: impl FnOnce(T) -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let (opened, is_opened) = mpsc::sync_channel(1);
    let serve = move || {
        let (state, result) = match open() {
            Ok(state) => (Some(state), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The receiver waits for this report.
        let _ = opened.send(result);
        state.map_or(Ok(()), run)
    };
    let thread = std::thread::Builder::new().name(name.into()).spawn(serve)?;
    is_opened.recv().map_err(|_| io::Error::other("a thread has ended at its start"))??;
    Ok(thread)
}
