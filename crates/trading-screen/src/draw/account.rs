//! The panels of the own account: open orders with their queue positions; positions and balances.

use pitwire_client::{Order, Value};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::cells::{compact, panel};
use crate::screen::{AccountState, Focus, Screen};
use crate::theme::Theme;

const NOT_LOGGED_IN: &str = "not logged in";
/// From this width on, the orders have their instrument and time in force.
const WIDE_ORDERS: u16 = 56;

pub fn draw_orders(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let is_focused = screen.focus == Focus::Orders;
    let Some(account) = &screen.account else {
        let block = panel("orders".into(), false, theme);
        frame.render_widget(Paragraph::new(NOT_LOGGED_IN).style(theme.faint()).block(block), area);
        return;
    };
    let block = panel(format!("orders {}", account.orders.len()), is_focused, theme);
    let is_wide = area.width >= WIDE_ORDERS;
    let room = usize::from(area.height.saturating_sub(3));
    let unknown = account.unknown.iter().map(|label| unknown_row(label, is_wide, theme));
    // The selected order stays visible.
    let room_for_orders = room.saturating_sub(account.unknown.len());
    let skipped = (account.selected + 1).saturating_sub(room_for_orders.max(1));
    let orders = account.orders.iter().enumerate().skip(skipped).map(|(index, order)| {
        let row = order_row(order, screen, is_wide, theme);
        if is_focused && index == account.selected { row.style(theme.cursor()) } else { row }
    });
    let mut heads = vec!["side", "left", "price", "ahead", "type"];
    let mut widths = vec![
        Constraint::Length(4),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Min(5),
    ];
    if is_wide {
        heads.extend(["in force", "instrument"]);
        widths[4] = Constraint::Length(8);
        widths.extend([Constraint::Length(8), Constraint::Min(8)]);
    }
    let heads = Row::new(heads.into_iter().map(|head| right_if(head, matches!(head, "left" | "price" | "ahead"))));
    let table = Table::new(unknown.chain(orders), widths).header(heads.style(theme.faint())).block(block);
    frame.render_widget(table, area);
}

fn right_if<'a>(text: impl Into<Text<'a>>, is_right: bool) -> Cell<'a> {
    let text = text.into();
    Cell::from(if is_right { text.right_aligned() } else { text })
}

fn order_row<'a>(order: &Order, screen: &Screen, is_wide: bool, theme: Theme) -> Row<'a> {
    let of = screen.instruments.iter().find(|instrument| instrument.name == order.instrument_name);
    let price = order.price.or(order.trigger_price);
    let price = price.map_or("market".into(), |price| of.map_or(price.to_string(), |one| one.price_text(price)));
    let left = order.amount.minus(order.filled_amount);
    let ahead = match order.queue_ahead {
        Some(ahead) if ahead.is_zero() => "first".into(),
        Some(ahead) => compact(ahead, 6),
        None => "-".into(),
    };
    let kind = if order.hidden { "hidden".into() } else { order.order_type.replace("_market", "") };
    let side = Span::styled(order.direction.clone(), theme.side(&order.direction));
    let mut cells = vec![
        Cell::from(side),
        right_if(compact(left, 7), true),
        right_if(price, true),
        right_if(ahead, true),
        Cell::from(kind),
    ];
    if is_wide {
        cells.push(Cell::from(time_in_force(order)));
        cells.push(Cell::from(order.instrument_name.clone()));
    }
    Row::new(cells)
}

/// Returns the time in force in the short words of `pitwire trade`.
fn time_in_force(order: &Order) -> String {
    let word = order.tif_ext.as_ref().unwrap_or(&order.time_in_force);
    match word.as_str() {
        "good_til_cancelled" => "gtc".into(),
        "good_til_day" => "day".into(),
        "immediate_or_cancel" => "ioc".into(),
        "fill_or_kill" => "fok".into(),
        other => other.into(),
    }
}

fn unknown_row<'a>(label: &str, is_wide: bool, theme: Theme) -> Row<'a> {
    let mut cells = vec![Cell::from("?"), Cell::from(""), Cell::from("unknown"), Cell::from("")];
    cells.push(Cell::from(if is_wide { String::new() } else { label.to_owned() }));
    if is_wide {
        cells.extend([Cell::from(""), Cell::from(label.to_owned())]);
    }
    Row::new(cells).style(theme.fault())
}

pub fn draw_positions(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let block = panel("positions and balances".into(), false, theme);
    let Some(account) = &screen.account else {
        frame.render_widget(Paragraph::new(NOT_LOGGED_IN).style(theme.faint()).block(block), area);
        return;
    };
    let mut lines: Vec<Line<'_>> = account
        .positions
        .iter()
        .map(|position| {
            let mut spans = vec![
                Span::raw(format!("{:<13}", position.instrument_name)),
                Span::styled(format!("{:>9}", compact(position.size, 9)), theme.side(&position.direction)),
            ];
            if let Some(profit) = position.floating_profit_loss {
                let style = if profit < Value::ZERO { theme.sell() } else { theme.buy() };
                spans.push(Span::styled(format!(" P/L {profit}"), style));
            }
            if let Some(average) = position.average_price {
                spans.push(Span::raw(format!(" at {}", compact(average, 10))));
            }
            Line::from(spans)
        })
        .collect();
    lines.extend(balances(screen, account, theme));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Returns the balances: the currencies of the selected instrument first, then the others that are
/// not empty.
fn balances<'a>(screen: &Screen, account: &AccountState, theme: Theme) -> Vec<Line<'a>> {
    let instrument = screen.instrument();
    let is_here = |currency: &str| currency == instrument.base || currency == instrument.quote;
    let mut shown: Vec<_> =
        account.balances.iter().filter(|balance| is_here(&balance.currency) || !balance.balance.is_zero()).collect();
    shown.sort_by_key(|balance| (!is_here(&balance.currency), balance.currency.clone()));
    shown
        .into_iter()
        .map(|balance| {
            let style = if is_here(&balance.currency) { theme.title() } else { Style::new() };
            let amount = balance.balance.to_string();
            let mut text = format!("{:<6}{amount:>14}", balance.currency);
            if let Some(available) = balance.available_funds.filter(|available| *available != balance.balance) {
                text.push_str(&format!("  free {available}"));
            }
            Line::styled(text, style)
        })
        .collect()
}
