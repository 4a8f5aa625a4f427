//! Puts the terminal into raw mode, and restores it at the end, after an error, and in a panic.

use std::io::{self, IsTerminal, stdin, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use pitwire_failure::Failure;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};

/// Whether the terminal is in raw mode and shows the alternate screen.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// Restores the terminal when it is dropped.
#[derive(Debug)]
pub struct TerminalGuard(());

impl TerminalGuard {
    /// Puts the terminal into raw mode and shows the alternate screen. A panic in any thread
    /// restores it before the message is printed.
    ///
    /// # Errors
    ///
    /// Fails if the terminal refuses.
    pub fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                previous(info);
            }));
        });
        enable_raw_mode()?;
        IS_RAW.store(true, Ordering::SeqCst);
        let guard = TerminalGuard(());
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(guard)
    }

    /// Returns whether the terminal is still in raw mode. A panic in another thread ends it.
    pub fn is_intact(&self) -> bool {
        IS_RAW.load(Ordering::SeqCst)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if IS_RAW.swap(false, Ordering::SeqCst) {
        // The terminal may be gone. Then there is nothing to restore.
        drop(execute!(stdout(), LeaveAlternateScreen, cursor::Show));
        drop(disable_raw_mode());
    }
}

/// Checks that standard input and standard output are terminals.
///
/// # Errors
///
/// Names the stream that is not.
pub fn require() -> Result<(), Failure> {
    let missing = [("input", stdin().is_terminal()), ("output", stdout().is_terminal())];
    match missing.into_iter().find(|(_, is_terminal)| !is_terminal) {
        None => Ok(()),
        Some((stream, _)) => Err(Failure::usage(format!("standard {stream} is not a terminal"))
            .remedy("run it in a terminal, over SSH with `ssh -t`; for scripts use `pitwire trade --json`")),
    }
}
