//! A progress bar with the time left, on standard error.
//!
//! Holds       nothing is written if standard error is not a terminal, or if `TERM` is `dumb`.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "{msg} {bar:30} {percent:>3} %  {eta} left";

/// Time between two looks at the counts of [`CommandProgress::watch`].
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Progress of a long command. The bar disappears when it is dropped.
pub struct CommandProgress {
    bar: ProgressBar,
}

impl CommandProgress {
    /// Shows an empty bar with the text `doing`, for example "exporting".
    pub fn new(doing: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(doing);
        bar.tick();
        CommandProgress { bar }
    }

    /// Shows how many of `total` steps are done.
    pub fn show(&self, done: u64, total: u64) {
        self.bar.set_length(total.max(1));
        self.bar.set_position(done.min(total));
    }

    /// Runs `work`, and shows the counts of `read` meanwhile: the steps that are done, and all
    /// steps. Another thread draws, so that a measurement is not interrupted.
    pub fn watch<T>(&self, read: impl Fn() -> (u64, u64) + Send, work: impl FnOnce() -> T) -> T {
        if self.bar.is_hidden() {
            return work();
        }
        thread::scope(|scope| {
            let (running, ended) = channel::<()>();
            scope.spawn(move || {
                while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let (done, total) = read();
                    self.show(done, total);
                }
            });
            let done = work();
            drop(running);
            done
        })
    }

    /// Runs `write` while the bar is hidden, so that its lines stay whole.
    pub fn hide_for<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for CommandProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
