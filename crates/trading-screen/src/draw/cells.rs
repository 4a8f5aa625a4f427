//! Parts that several panels share: their border, and amounts that fit a column.

use pitwire_client::Value;
use ratatui::text::Line;
use ratatui::widgets::Block;

use crate::theme::Theme;

/// Returns a panel's border with its title.
pub fn panel<'a>(title: String, is_focused: bool, theme: Theme) -> Block<'a> {
    let style = if is_focused { theme.focus() } else { theme.faint() };
    let title_style = if is_focused { theme.focus() } else { theme.title() };
    Block::bordered().border_style(style).title(Line::styled(title, title_style))
}

/// Formats an amount for a column, with a suffix if it has too many digits. Zero is empty.
pub fn compact(amount: Value, width: usize) -> String {
    if amount.is_zero() {
        return String::new();
    }
    let text = amount.to_string();
    if text.len() <= width {
        return text;
    }
    let number = amount.to_f64();
    let rounded = format!("{number:.*}", width.saturating_sub(7).min(8));
    if number.abs() < 1e5 && rounded.len() <= width {
        return rounded;
    }
    let scaled = [(1e12, 'T'), (1e9, 'G'), (1e6, 'M'), (1e3, 'k')]
        .iter()
        .find(|(unit, _)| number.abs() >= *unit)
        .map(|(unit, suffix)| format!("{:.1}{suffix}", number / unit));
    match scaled {
        Some(text) if text.len() <= width => text,
        _ => "#".repeat(width.min(3)),
    }
}
