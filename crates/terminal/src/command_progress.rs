//! A progress bar with the time left, on standard error.
//!
//! Holds       nothing is written if standard error is not a terminal, or if `TERM` is `dumb`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "{msg} {bar:30} {percent:>3} %  {eta} left";

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
