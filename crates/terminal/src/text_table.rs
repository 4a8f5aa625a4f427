//! Text for a terminal: tables with aligned columns, and the colours of buy and sell.
//!
//! The text contains colour codes. [`say_styled`](crate::output::say_styled) removes them where
//! standard output is no terminal, or where `NO_COLOR` is set.

use std::fmt::Write;

use crate::output::printable;
use clap::builder::styling::{AnsiColor, Style};

const HEAD: Style = Style::new().bold();
const BUY: Style = AnsiColor::Green.on_default();
const SELL: Style = AnsiColor::Red.on_default();
const PLAIN: Style = Style::new();
const GAP: &str = "  ";

/// The colour of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellColour {
    #[default]
    Plain,
    Buy,
    Sell,
}

impl CellColour {
    /// Returns the colour of a side of the book or of a direction. Other words are plain.
    pub fn of(word: &str) -> Self {
        match word {
            "buy" | "bid" => CellColour::Buy,
            "sell" | "ask" => CellColour::Sell,
            _ => CellColour::Plain,
        }
    }

    const fn style(self) -> Style {
        match self {
            CellColour::Plain => PLAIN,
            CellColour::Buy => BUY,
            CellColour::Sell => SELL,
        }
    }
}

/// A table of [`printable`] cells, whose columns of numbers are aligned to the right, and all
/// others to the left.
pub struct TextTable {
    heads: Vec<String>,
    rows: Vec<Vec<(String, CellColour)>>,
}

impl TextTable {
    pub fn new(heads: &[&str]) -> Self {
        TextTable { heads: heads.iter().map(|head| printable(head)).collect(), rows: Vec::new() }
    }

    /// Adds a row. A word of direction, such as `buy`, gets its colour.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let coloured = cells.into_iter().map(|cell| {
            let colour = CellColour::of(&cell);
            (cell, colour)
        });
        self.coloured_row(coloured.collect());
    }

    pub fn coloured_row(&mut self, cells: Vec<(String, CellColour)>) {
        self.rows.push(cells.into_iter().map(|(cell, colour)| (printable(&cell), colour)).collect());
    }

    /// Returns the table as lines. Spaces at the end of a line are left out.
    pub fn text(&self) -> String {
        let columns: Vec<(usize, bool)> =
            (0..self.heads.len()).map(|column| (self.width(column), self.is_numeric(column))).collect();
        let mut text = String::new();
        let heads: Vec<(&str, Style)> = self.heads.iter().map(|head| (head.as_str(), HEAD)).collect();
        write_line(&mut text, &columns, &heads);
        for row in &self.rows {
            let cells: Vec<(&str, Style)> = row.iter().map(|(cell, colour)| (cell.as_str(), colour.style())).collect();
            write_line(&mut text, &columns, &cells);
        }
        text
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| Some(row.get(column)?.0.as_str()))
    }

    fn width(&self, column: usize) -> usize {
        let head = self.heads.get(column).map_or("", String::as_str);
        self.cells(column).chain([head]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.cells(column).all(|cell| cell.is_empty() || is_number(cell))
    }
}

/// Returns whether a cell is a number. A number may have a sign, decimals and an exponent.
pub fn is_number(cell: &str) -> bool {
    cell.strip_prefix('-').unwrap_or(cell).starts_with(|first: char| first.is_ascii_digit())
        && cell.parse::<f64>().is_ok()
}

fn write_line(text: &mut String, columns: &[(usize, bool)], cells: &[(&str, Style)]) {
    let last = cells.iter().rposition(|(cell, _)| !cell.is_empty());
    let shown = last.map_or(0, |last| last + 1);
    for (index, ((cell, style), (width, is_right))) in cells.iter().zip(columns).take(shown).enumerate() {
        let space = width.saturating_sub(cell.chars().count());
        let (before, after) = if *is_right { (space, 0) } else { (0, space) };
        let (before, after) = (before, if index + 1 == shown { 0 } else { after });
        let gap = if index == 0 { "" } else { GAP };
        let (on, off) = if cell.is_empty() { (PLAIN, PLAIN) } else { (*style, *style) };
        // Writing to a String cannot fail.
        let _ = write!(text, "{gap}{:before$}{on}{cell}{off:#}{:after$}", "", "");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(&["side", "price", "label"]);
        table.row(["buy".into(), "9.5".into(), "a".into()]);
        table.row(["sell".into(), "-120.25".into(), String::new()]);
        table
    }

    #[test]
    fn numbers_are_right_aligned_and_words_left_aligned() {
        let plain = anstream::adapter::strip_str(&table().text()).to_string();
        assert_eq!(plain, "side    price  label\nbuy       9.5  a\nsell  -120.25\n");
    }

    #[test]
    fn directions_have_colours_and_heads_are_bold() {
        let text = table().text();
        assert!(text.contains("\u{1b}[32mbuy\u{1b}[0m") && text.contains("\u{1b}[31msell\u{1b}[0m"), "{text:?}");
        assert!(text.starts_with("\u{1b}[1mside\u{1b}[0m"), "{text:?}");
    }

    #[test]
    fn a_number_has_digits_first() {
        assert!(["0", "-1.5", "1e2", "007"].iter().all(|text| is_number(text)));
        assert!(["", "-", "inf", "NaN", "1.2.3", "12:30", "a1", "[]"].iter().all(|text| !is_number(text)));
    }
}
