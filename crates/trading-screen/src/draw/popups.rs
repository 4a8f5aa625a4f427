//! Windows above the panels: help, the list of instruments, the ticket, and questions.

use pitwire_client::Side;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use crate::instrument_list::InstrumentList;
use crate::keys::KEY_HELP;
use crate::screen::{Popup, Screen};
use crate::theme::Theme;
use crate::ticket::{Ticket, TicketField};

/// Width of the ticket and of questions.
const WIDTH: u16 = 46;
/// Instruments of the list that are visible at once.
const LIST_LINES: usize = 12;

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    match &screen.popup {
        None => {}
        Some(Popup::Help) => draw_help(frame, area, theme),
        Some(Popup::Instruments(list)) => draw_list(frame, area, screen, list, theme),
        Some(Popup::Ticket(ticket)) => draw_ticket(frame, area, ticket, theme),
        Some(Popup::Confirm { question, .. }) => {
            let lines = vec![Line::raw(question.clone()), Line::raw(""), Line::styled("y yes   n no", theme.faint())];
            let wrapped = question.len() / usize::from(WIDTH - 2) + 1;
            window(frame, area, (WIDTH, u16::try_from(wrapped).unwrap_or(1) + 4), "question", lines, theme.own());
        }
    }
}

/// Draws a window in the middle of the area.
fn window(
    frame: &mut Frame<'_>,
    area: Rect,
    (width, height): (u16, u16),
    title: &str,
    lines: Vec<Line<'_>>,
    style: Style,
) {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let at = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    let block = Block::bordered().border_style(style).title(Span::styled(title.to_owned(), style));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), at);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let lines: Vec<Line<'_>> = KEY_HELP
        .iter()
        .map(|(keys, effect)| Line::from(vec![Span::styled(format!("{keys:<20}"), theme.focus()), Span::raw(*effect)]))
        .collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    window(frame, area, (80, height), "keys: press any to close", lines, theme.focus());
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, screen: &Screen, list: &InstrumentList, theme: Theme) {
    let matching = list.matching(&screen.instruments);
    let skipped = (list.chosen + 1).saturating_sub(LIST_LINES);
    let mut lines =
        vec![Line::from(vec![Span::styled("name: ", theme.faint()), Span::raw(format!("{}_", list.filter))])];
    for (line, index) in matching.iter().enumerate().skip(skipped).take(LIST_LINES) {
        let style = if line == list.chosen { theme.cursor() } else { Style::new() };
        lines.push(Line::styled(screen.instruments[*index].name.clone(), style));
    }
    if matching.is_empty() {
        lines.push(Line::styled("no instrument has this name", theme.fault()));
    }
    let height = u16::try_from(LIST_LINES).unwrap_or(u16::MAX).saturating_add(3);
    window(frame, area, (WIDTH, height), "instrument: type, Up, Down, Enter, Esc", lines, theme.focus());
}

fn draw_ticket(frame: &mut Frame<'_>, area: Rect, ticket: &Ticket, theme: Theme) {
    let (verb, style) = match ticket.side {
        Side::Buy => ("buy", theme.buy()),
        Side::Sell => ("sell", theme.sell()),
    };
    let name = &ticket.instrument.name;
    let title = match ticket.edited() {
        Some(order_id) => format!("edit {verb} order {order_id} of {name}"),
        None => format!("{verb} {name}"),
    };
    let mut lines = Vec::new();
    for field in ticket.fields() {
        let (label, text) = match field {
            TicketField::Amount => ("amount", ticket.amount.clone()),
            TicketField::Price => ("price", ticket.price.clone()),
            TicketField::Type => ("type", format!("< {} >", ticket.order_type().name())),
            TicketField::TimeInForce => ("in force", format!("< {} >", ticket.time_in_force_name())),
        };
        let field_style = if *field == ticket.field { theme.cursor() } else { Style::new() };
        lines.push(Line::from(vec![
            Span::raw(format!("  {label:<10}")),
            Span::styled(format!("{text:<25}"), field_style),
        ]));
    }
    lines.push(Line::raw(""));
    lines.push(match &ticket.fault {
        Some(fault) => Line::styled(fault.clone(), theme.fault()),
        None => Line::styled("Enter send   Tab next   arrows change   Esc", theme.faint()),
    });
    window(frame, area, (WIDTH, 10), &title, lines, style.patch(theme.title()));
}
