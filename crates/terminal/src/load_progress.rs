//! Progress of a run, on standard error.

use std::io::IsTerminal;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pitwire_load_generator::{LoadPlan, NEVER, RunControl, mono_ns};

/// Interval of progress lines when standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
const OPENING: &str = "opening {bar:30} {pos}/{len} {msg}";
const MEASURING: &str = "{bar:30} {msg}";

pub struct Progress {
    bar: Option<ProgressBar>,
    connections: u32,
    duration: Duration,
    next_line: Instant,
    is_measuring: bool,
}

/// Current counts, summed over all processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCounts {
    pub opened: u64,
    pub failed: u64,
    pub deliveries: u64,
    pub late: u64,
    pub lost: u64,
    pub start_ns: i64,
}

impl RunCounts {
    pub fn of(control: &RunControl) -> Self {
        RunCounts {
            opened: control.opened.load(Relaxed),
            failed: control.failed.load(Relaxed),
            deliveries: control.deliveries.load(Relaxed),
            late: control.late.load(Relaxed),
            lost: control.lost.load(Relaxed),
            start_ns: control.start_ns(),
        }
    }
}

impl Progress {
    pub fn new(plan: &LoadPlan) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(u64::from(plan.share.total)), ProgressDrawTarget::stderr());
            bar.set_style(style(OPENING));
            bar
        });
        Progress {
            bar,
            connections: plan.share.total,
            duration: plan.duration,
            next_line: Instant::now() + LINE_EVERY,
            is_measuring: false,
        }
    }

    pub fn show(&mut self, control: &RunControl) {
        self.show_counts(&RunCounts::of(control));
    }

    pub fn show_counts(&mut self, now: &RunCounts) {
        let RunCounts { opened, failed, deliveries, late, lost, start_ns } = *now;
        let measured = measured(start_ns);
        match (&self.bar, measured) {
            (Some(bar), None) => {
                bar.set_position(opened);
                bar.set_message(if failed > 0 { format!("{failed} failed") } else { String::new() });
            }
            (Some(bar), Some(since)) => {
                if !self.is_measuring {
                    self.is_measuring = true;
                    bar.set_style(style(MEASURING));
                    bar.set_length(u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX));
                }
                bar.set_position(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
                bar.set_message(format!("{deliveries} deliveries, {late} late, {lost} lost"));
            }
            (None, _) if Instant::now() >= self.next_line => {
                self.next_line = Instant::now() + LINE_EVERY;
                match measured {
                    None => {
                        eprintln!("pitwire load: {opened} of {} connections open, {failed} failed", self.connections)
                    }
                    Some(since) => eprintln!(
                        "pitwire load: {:.0} of {:.0} s, {deliveries} deliveries, {late} late, {lost} lost",
                        since.as_secs_f64(),
                        self.duration.as_secs_f64()
                    ),
                }
            }
            (None, _) => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn measured(start_ns: i64) -> Option<Duration> {
    let since_ns = mono_ns().checked_sub(start_ns).filter(|_| start_ns != NEVER)?;
    u64::try_from(since_ns).ok().map(Duration::from_nanos)
}

/// Parses a progress bar template. Falls back to the library's default style if it is invalid.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
