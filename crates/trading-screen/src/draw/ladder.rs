//! The ladder panel: own bids, bids, prices, offers, own offers.

use pitwire_client::{OrderBook, Value};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::cells::{compact, panel};
use crate::ladder::LadderRow;
use crate::screen::{Focus, Screen};
use crate::theme::Theme;

const OWN: usize = 6;
const AMOUNT: usize = 9;
const PRICE: usize = 11;
/// Width of the panel with its border.
pub const WIDTH: u16 = 43;

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, book: &OrderBook, theme: Theme) {
    let instrument = screen.instrument();
    let (rows, cursor) = screen.ladder.rows(instrument, book, screen.orders());
    let largest = rows.iter().map(|row| row.bid.max(row.ask)).max().unwrap_or(Value::ZERO);
    let last = screen.ticker.last_price;
    let per_row = instrument.price_at(screen.ladder.ticks_per_row());
    let mut lines = vec![heading(theme)];
    for (index, row) in rows.iter().enumerate() {
        let is_last = last.is_some_and(|last| row.price <= last && last < row.price.plus(per_row));
        let price = format!("{:>width$}", instrument.price_text(row.price), width = PRICE - 1);
        let price = format!("{price}{}", if is_last { "◂" } else { " " });
        lines.push(line(row, price, largest, Some(index) == cursor, theme));
    }
    let mut title = format!("ladder, amount {}", screen.amount());
    if screen.ladder.ticks_per_row() > 1 {
        title.push_str(&format!(", rows of {per_row}"));
    }
    if screen.ladder.is_fixed() {
        title.push_str(", fixed (c)");
    }
    let block = panel(title, screen.focus == Focus::Ladder, theme);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn heading<'a>(theme: Theme) -> Line<'a> {
    let text = format!("{:>OWN$}{:>AMOUNT$}{:>PRICE$}{:>AMOUNT$}{:>OWN$}", "own", "bid", "price ", "ask", "own");
    Line::styled(text, theme.faint())
}

fn line<'a>(row: &LadderRow, price: String, largest: Value, is_cursor: bool, theme: Theme) -> Line<'a> {
    let own = |amount| Span::styled(format!("{:>OWN$}", compact(amount, OWN - 1)), theme.own());
    let mut spans = vec![own(row.own_bid)];
    spans.extend(amount(row.bid, largest, true, theme));
    let style = if is_cursor { theme.cursor() } else { Style::new() };
    spans.push(Span::styled(price, style));
    spans.extend(amount(row.ask, largest, false, theme));
    spans.push(own(row.own_ask));
    Line::from(spans)
}

/// Returns an amount, with a bar behind it in proportion to the largest visible amount. The bars
/// begin at the prices.
fn amount<'a>(amount: Value, largest: Value, is_bid: bool, theme: Theme) -> Vec<Span<'a>> {
    let style = if is_bid { theme.buy() } else { theme.sell() };
    let text = format!("{:>AMOUNT$}", compact(amount, AMOUNT - 1));
    let Some(bar) = theme.bar(is_bid) else { return vec![Span::styled(text, style)] };
    let share = if largest.is_zero() { 0.0 } else { amount.to_f64() / largest.to_f64() };
    // The largest amount fills the column; every other amount above zero has one cell at least.
    let is_covered = |cell: &usize| (*cell == 1 && !amount.is_zero()) || *cell as f64 <= share * AMOUNT as f64;
    let cells = (1..=AMOUNT).take_while(is_covered).count();
    let (left, right) = text.split_at(if is_bid { AMOUNT - cells } else { cells });
    let (before, after) = if is_bid { (style, style.patch(bar)) } else { (style.patch(bar), style) };
    vec![Span::styled(left.to_owned(), before), Span::styled(right.to_owned(), after)]
}
