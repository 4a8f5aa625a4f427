//! `pitwire split --view`: live statistics on a terminal, four times a second.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pitwire_splitter::{LAG_OCTAVES, SharedStats, SplitterStats};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline};
use ratatui::{Frame, Terminal};
use signal_hook::consts::SIGTERM;

use pitwire_failure::Failure;

const REDRAW: Duration = Duration::from_millis(250);
/// Number of rates that the curve keeps: as many as a wide terminal has columns.
const REMEMBERED: usize = 400;
const BAR: usize = 24;

pub struct View {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    is_on_stdout: bool,
}

impl View {
    /// Opens the view on standard output if that is a terminal, otherwise on standard error.
    ///
    /// # Errors
    ///
    /// Neither of them is a terminal, or the thread cannot be started.
    pub fn open(stats: Arc<SharedStats>) -> Result<Self, Failure> {
        let is_on_stdout = stdout().is_terminal();
        if !is_on_stdout && !stderr().is_terminal() {
            return Err(Failure::usage("--view needs a terminal on standard output or standard error"));
        }
        let out: Box<dyn Write + Send> = if is_on_stdout { Box::new(stdout()) } else { Box::new(stderr()) };
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        // If the terminal goes away, the view ends and the feed continues.
        let thread = std::thread::Builder::new().name("view".into()).spawn(move || drop(show(&stats, out, &over)))?;
        Ok(View { is_over, thread: Some(thread), is_on_stdout })
    }

    pub fn is_on_stdout(&self) -> bool {
        self.is_on_stdout
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the view panicked, its result is of no use here.
            let _ = thread.join();
        }
    }
}

fn show(stats: &SharedStats, mut out: Box<dyn Write + Send>, is_over: &AtomicBool) -> io::Result<()> {
    enable_raw_mode()?;
    let shown = execute!(out, EnterAlternateScreen, cursor::Hide).and_then(|()| {
        let mut terminal = Terminal::new(CrosstermBackend::new(&mut out))?;
        let mut model = Model::default();
        while !is_over.load(Ordering::Relaxed) {
            model.take(stats.read());
            terminal.draw(|frame| draw(frame, &model))?;
            if event::poll(REDRAW)? && is_end(&event::read()?) {
                // Ends the run like a signal from another process does.
                signal_hook::low_level::raise(SIGTERM)?;
            }
        }
        Ok(())
    });
    let restored = execute!(out, LeaveAlternateScreen, cursor::Show);
    disable_raw_mode()?;
    shown.and(restored)
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// State of the view: the latest statistics and the history of rates.
#[derive(Default)]
struct Model {
    latest: SplitterStats,
    trades_per_s: u64,
    rates: VecDeque<u64>,
}

impl Model {
    fn take(&mut self, snapshot: SplitterStats) {
        let ns = u128::from(snapshot.mono_ns.saturating_sub(self.latest.mono_ns));
        if ns == 0 {
            return;
        }
        let trades = u128::from(snapshot.totals.trades.saturating_sub(self.latest.totals.trades));
        // A rate needs two readings.
        if self.latest.mono_ns > 0 {
            self.trades_per_s = u64::try_from(trades * 1_000_000_000 / ns).unwrap_or(u64::MAX);
            self.rates.push_back(self.trades_per_s);
            if self.rates.len() > REMEMBERED {
                self.rates.pop_front();
            }
        }
        self.latest = snapshot;
    }
}

fn draw(frame: &mut Frame<'_>, model: &Model) {
    let rows = Layout::vertical([Constraint::Length(4), Constraint::Length(6), Constraint::Min(4)]).split(frame.area());
    let columns = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).split(rows[2]);
    frame.render_widget(Paragraph::new(head(model)), rows[0]);
    let width = usize::from(rows[1].width.saturating_sub(2));
    let skipped = model.rates.len().saturating_sub(width);
    let rates: Vec<u64> = model.rates.iter().skip(skipped).copied().collect();
    let curve = Sparkline::default().block(Block::bordered().title("trades a second")).data(&rates);
    frame.render_widget(curve, rows[1]);
    let waiting = Paragraph::new(workers(&model.latest)).block(Block::bordered().title("waiting for each worker"));
    frame.render_widget(waiting, columns[0]);
    let lag = Paragraph::new(histogram(&model.latest)).block(Block::bordered().title("from a read to its hand-over"));
    frame.render_widget(lag, columns[1]);
}

fn head(model: &Model) -> Vec<Line<'static>> {
    let SplitterStats { totals, dealt, lag, .. } = &model.latest;
    let state = if model.latest.is_connected { "connected" } else { "NOT CONNECTED" };
    vec![
        Line::from(format!("pitwire split: {state}; {} (q ends)", model.latest.news)),
        Line::from(format!(
            "{} trades a second   {} trades   {} bytes   {} frames   {} reads",
            model.trades_per_s, totals.trades, totals.bytes, totals.frames, totals.reads
        )),
        Line::from(format!(
            "{} connections   {} lost   {} gap records   {} dropped   {} spilled   {} conflated   {} restarts",
            totals.connections, totals.gaps, dealt.gaps, dealt.dropped, dealt.spilled, dealt.conflated, dealt.restarts
        )),
        Line::from(format!(
            "hand-over p50 {} µs   p99 {} µs   max {} µs",
            lag.p50_ns / 1_000,
            lag.p99_ns / 1_000,
            lag.max_ns / 1_000
        )),
    ]
}

fn workers(snapshot: &SplitterStats) -> Vec<Line<'static>> {
    let most = snapshot.waiting_bytes.iter().copied().max().unwrap_or(0);
    let line = |(worker, bytes): (usize, &u64)| Line::from(format!("{worker:4} {} {bytes}", bar(*bytes, most)));
    snapshot.waiting_bytes.iter().enumerate().map(line).collect()
}

/// Draws the lag histogram with two octaves per row, so that it fits a terminal of 24 lines. The
/// last row counts the
/// values above the last bound.
fn histogram(snapshot: &SplitterStats) -> Vec<Line<'static>> {
    const BEYOND: usize = LAG_OCTAVES - 1;
    let octaves = &snapshot.lag_octaves;
    let within = octaves[..BEYOND].chunks(2).enumerate().map(|(row, reads)| {
        let bound = (2 * row + 1).min(BEYOND - 1);
        (format!("< {} µs", 1 << bound), reads.iter().sum::<u64>())
    });
    let beyond = (format!("> {} µs", 1 << (BEYOND - 1)), octaves[BEYOND]);
    let rows: Vec<(String, u64)> = within.chain([beyond]).collect();
    let most = rows.iter().map(|(_, reads)| *reads).max().unwrap_or(0);
    let last = rows.iter().rposition(|(_, reads)| *reads > 0).unwrap_or(0);
    let line = |(name, reads): &(String, u64)| Line::from(format!("{name:>10} {} {reads}", bar(*reads, most)));
    rows[..=last].iter().map(line).collect()
}

/// Draws a bar in proportion to `part` of `most`. A value above zero gets at least one cell.
fn bar(part: u64, most: u64) -> String {
    let cells = if most == 0 { 0 } else { (u128::from(part) * BAR as u128).div_ceil(u128::from(most)) };
    let cells = usize::try_from(cells).unwrap_or(BAR);
    format!("{}{}", "█".repeat(cells), " ".repeat(BAR - cells.min(BAR)))
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;

    fn drawn(model: &Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(|y| row(y) + "\n").collect()
    }

    fn snapshot(mono_ns: u64, trades: u64) -> SplitterStats {
        let mut snapshot =
            SplitterStats { mono_ns, is_connected: true, news: "connected to a".into(), ..SplitterStats::default() };
        snapshot.totals.trades = trades;
        snapshot.waiting_bytes = vec![0, 500, 1_000];
        snapshot.lag_octaves[3] = 8;
        snapshot.lag_octaves[LAG_OCTAVES - 1] = 1;
        snapshot
    }

    #[test]
    fn screen_shows_rate_workers_and_histogram() {
        let mut model = Model::default();
        model.take(snapshot(1_000_000_000, 1_000));
        model.take(snapshot(1_500_000_000, 3_000));
        let screen = drawn(&model);
        for wanted in ["connected; connected to a", "4000 trades a second", "3000 trades ", "< 8 µs", "> 65536 µs"] {
            assert!(screen.contains(wanted), "{wanted:?} in\n{screen}");
        }
        let bars = |start: &str| {
            let line = screen.lines().find(|line| line.contains(start)).unwrap();
            // The histogram is on the right half of the line.
            line.split("││").next().unwrap_or_default().matches('█').count()
        };
        assert!(screen.contains(&format!("   2 {} 1000", "█".repeat(BAR))), "{screen}");
        assert_eq!(bars("   1 █"), BAR / 2, "{screen}");
    }

    #[test]
    fn unchanged_statistics_do_not_lower_the_rate() {
        let mut model = Model::default();
        for (mono_ns, trades) in [(1_000_000_000, 0), (2_000_000_000, 500), (2_000_000_000, 500)] {
            model.take(snapshot(mono_ns, trades));
        }
        assert_eq!((model.trades_per_s, model.rates.len()), (500, 1));
        (3..1_000).for_each(|second| model.take(snapshot(second * 1_000_000_000, 500)));
        assert_eq!((model.trades_per_s, model.rates.len()), (0, REMEMBERED));
    }

    #[test]
    fn view_draws_on_a_terminal_of_any_size() {
        let mut model = Model::default();
        model.take(snapshot(1_000_000_000, 1_000));
        for (width, height) in [(1, 1), (10, 3), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &model)).unwrap();
        }
    }
}
