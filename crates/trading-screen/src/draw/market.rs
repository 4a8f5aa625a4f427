//! The panels of public trades and of latencies.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::cells::{compact, panel};
use crate::clock::time_of_day;
use crate::latency::{LatencyWindow, duration_text};
use crate::screen::Screen;
use crate::theme::Theme;

/// Lines of the latency panel with its border.
pub const LATENCY_LINES: u16 = 6;

pub fn draw_trades(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let room = usize::from(area.height.saturating_sub(2));
    let lines: Vec<Line<'_>> = screen
        .trades
        .iter()
        .take(room)
        .map(|trade| {
            let sign = if trade.direction == "buy" { "▲" } else { "▼" };
            let price = screen.instrument().price_text(trade.price);
            Line::from(vec![
                Span::styled(time_of_day(trade.timestamp), theme.faint()),
                Span::styled(format!(" {sign}{price:>11}"), theme.side(&trade.direction)),
                Span::raw(format!("{:>10}", compact(trade.amount, 9))),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(panel("trades".into(), false, theme)), area);
}

pub fn draw_latency(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen, theme: Theme, now: Instant) {
    let block = panel("latency".into(), false, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [text, curve] = Layout::vertical([Constraint::Length(3), Constraint::Min(0)]).areas(inner);
    let rate = screen.updates.per_second(now);
    let data = match screen.updates.silence(now) {
        Some(silence) => format!("data   {rate}/s, last {} ago", duration_text(silence)),
        None => "data   none yet".into(),
    };
    let lines = vec![
        Line::from(summary("order", &screen.order_latency)),
        Line::from(summary("ping", &screen.ping_latency)),
        Line::from(data),
    ];
    frame.render_widget(Paragraph::new(lines), text);
    let width = usize::from(curve.width);
    let recent = screen.ping_latency.recent_us();
    let skipped = recent.len().saturating_sub(width);
    let recent: Vec<u64> = recent.skip(skipped).collect();
    frame.render_widget(Sparkline::default().data(&recent).style(Style::new().patch(theme.faint())), curve);
}

/// Returns the latest value and the quantiles. A p99 needs a hundred values.
fn summary(name: &str, latencies: &LatencyWindow) -> String {
    let (Some(latest), Some(median)) = (latencies.latest(), latencies.quantile(0.5)) else {
        return format!("{name:<6} none yet");
    };
    let mut text = format!("{name:<6} {} p50 {}", duration_text(latest), duration_text(median));
    if latencies.count() >= 100
        && let Some(tail) = latencies.quantile(0.99)
    {
        text.push_str(&format!(" p99 {}", duration_text(tail)));
    }
    text
}
