//! Draws the screen. Start at [`draw`].

mod account;
mod cells;
mod header;
mod ladder;
mod market;
mod popups;

use std::time::Instant;

use pitwire_client::OrderBook;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use crate::screen::{MessageKind, Screen};
use crate::theme::Theme;

/// The smallest terminal with room for all panels.
pub const SMALLEST: (u16, u16) = (80, 22);
/// From this width on, there are three columns.
const WIDE: u16 = 120;
/// Lines of the header, and of the message with the keys.
const HEADER_LINES: u16 = 2;
const FOOTER_LINES: u16 = 2;

/// The areas of the panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Panels {
    header: Rect,
    ladder: Rect,
    orders: Rect,
    positions: Rect,
    trades: Rect,
    latency: Rect,
    footer: Rect,
}

impl Panels {
    fn of(area: Rect) -> Self {
        let [header, body, footer] =
            Layout::vertical([Constraint::Length(HEADER_LINES), Constraint::Min(0), Constraint::Length(FOOTER_LINES)])
                .areas(area);
        if area.width >= WIDE {
            let [ladder, middle, right] =
                Layout::horizontal([Constraint::Length(ladder::WIDTH), Constraint::Min(0), Constraint::Length(34)])
                    .areas(body);
            let [orders, positions] = Layout::vertical([Constraint::Fill(3), Constraint::Fill(2)]).areas(middle);
            let [trades, latency] =
                Layout::vertical([Constraint::Min(0), Constraint::Length(market::LATENCY_LINES)]).areas(right);
            return Panels { header, ladder, orders, positions, trades, latency, footer };
        }
        let [ladder, right] = Layout::horizontal([Constraint::Length(ladder::WIDTH), Constraint::Min(0)]).areas(body);
        let [orders, positions, trades, latency] = Layout::vertical([
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Fill(2),
            Constraint::Length(market::LATENCY_LINES),
        ])
        .areas(right);
        Panels { header, ladder, orders, positions, trades, latency, footer }
    }
}

/// Draws the screen at a time. A terminal that is too small gets a sentence instead.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen, book: &OrderBook, theme: Theme, now: Instant) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!(
            "The terminal has {}x{} characters; {}x{} are needed. Make it larger, or press q.",
            area.width, area.height, SMALLEST.0, SMALLEST.1
        );
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let panels = Panels::of(area);
    // The border and the heading of the ladder take three lines.
    screen.settle_ladder(panels.ladder.height.saturating_sub(3), book);
    header::draw(frame, panels.header, screen, book, theme, now);
    ladder::draw(frame, panels.ladder, screen, book, theme);
    account::draw_orders(frame, panels.orders, screen, theme);
    account::draw_positions(frame, panels.positions, screen, theme);
    market::draw_trades(frame, panels.trades, screen, theme);
    market::draw_latency(frame, panels.latency, screen, theme, now);
    draw_footer(frame, panels.footer, screen, theme);
    popups::draw(frame, area, screen, theme);
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let (kind, text) = &screen.message;
    let style = match kind {
        MessageKind::Note => theme.title(),
        MessageKind::Buy => theme.buy(),
        MessageKind::Sell => theme.sell(),
        MessageKind::Fault => theme.fault(),
    };
    let keys = "b/s buy, sell  B/S best  t/T take  e edit  x/X cancel  +/- size  i list  ? help";
    let lines = vec![Line::styled(text.clone(), style), Line::styled(keys, theme.faint())];
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
pub(crate) mod tests;
