//! One line a second with the rate of a feed, for a terminal.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pitwire_failure::Failure;
use pitwire_splitter::{SharedStats, SplitterStats};

const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that prints the lines. It ends when this value is dropped.
pub struct RateLines {
    /// Dropped to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RateLines {
    /// Starts to print lines to `out`.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(stats: Arc<SharedStats>, mut out: Box<dyn Write + Send>) -> Result<Self, Failure> {
        let (running, ended) = channel::<()>();
        let print = move || {
            let mut before = stats.read();
            while ended.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now = stats.read();
                // If the terminal is gone, the feed goes on without lines.
                if writeln!(out, "{}", line(&before, &now)).and_then(|()| out.flush()).is_err() {
                    break;
                }
                before = now;
            }
        };
        let thread = std::thread::Builder::new().name("rate-lines".into()).spawn(print)?;
        Ok(RateLines { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for RateLines {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has no result that is needed here.
            let _ = thread.join();
        }
    }
}

/// Formats the difference of two readings of the statistics. The columns have fixed widths, so
/// that the numbers of successive lines stand below each other.
fn line(before: &SplitterStats, now: &SplitterStats) -> String {
    if !now.is_connected {
        return format!("not connected: {}", now.news);
    }
    let passed_ns = u128::from(now.mono_ns.saturating_sub(before.mono_ns)).max(1);
    let per_s = |now: u64, before: u64| u128::from(now.saturating_sub(before)) * 1_000_000_000 / passed_ns;
    // The first reading has no time before it.
    let is_first = before.mono_ns == 0;
    let rate = |now: u64, before: u64| if is_first { 0 } else { per_s(now, before) };
    format!(
        "{:>12} trades/s  {:>9.1} MB/s  {:>16} trades  p99 {:>9} µs  {:>6} gaps  {:>9} dropped",
        grouped(rate(now.totals.trades, before.totals.trades)),
        in_millions(rate(now.totals.bytes, before.totals.bytes)),
        grouped(u128::from(now.totals.trades)),
        grouped(u128::from(now.lag.p99_ns / 1_000)),
        grouped(u128::from(now.totals.gaps)),
        grouped(u128::from(now.dealt.dropped)),
    )
}

#[allow(clippy::cast_precision_loss)]
fn in_millions(bytes: u128) -> f64 {
    bytes as f64 / 1e6
}

/// Writes a number with a comma after each three digits.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_between_two_readings() {
        let reading = |mono_ns, trades, bytes| {
            let mut stats = SplitterStats { mono_ns, is_connected: true, ..SplitterStats::default() };
            (stats.totals.trades, stats.totals.bytes) = (trades, bytes);
            stats
        };
        let (before, now) = (reading(1_000_000_000, 1_000, 100), reading(3_000_000_000, 2_001_000, 7_000_100));
        assert_eq!(
            line(&before, &now),
            "   1,000,000 trades/s        3.5 MB/s         2,001,000 trades  p99         0 µs       0 gaps          0 dropped"
        );
        // Equal readings have no rate, and the first has none before it.
        assert!(line(&now, &now).starts_with("           0 trades/s"));
        assert!(line(&SplitterStats::default(), &now).starts_with("           0 trades/s"));
    }

    #[test]
    fn a_lost_connection_is_named_with_its_news() {
        let stats = SplitterStats { news: "refused; trying again in 1.0 s".into(), ..SplitterStats::default() };
        assert_eq!(line(&stats, &stats), "not connected: refused; trying again in 1.0 s");
    }

    #[test]
    fn thousands_are_grouped() {
        let numbers = [(0, "0"), (999, "999"), (1_000, "1,000"), (155_727_346, "155,727,346")];
        for (number, text) in numbers {
            assert_eq!(grouped(number), text);
        }
    }
}
