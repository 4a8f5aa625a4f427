//! The two lines above the panels: instrument, session, connection; prices of the day or of a call.

use std::time::Instant;

use pitwire_client::{OrderBook, Value};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::instrument::Instrument;
use crate::screen::{Link, Screen};
use crate::theme::Theme;

pub fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, book: &OrderBook, theme: Theme, now: Instant) {
    let (session, ends_in) = screen.session(now);
    let mut spans = vec![Span::styled(format!(" {}", screen.instrument().name), theme.focus()), Span::raw("  ")];
    spans.push(Span::styled(session, theme.title()));
    if let Some(ends_in) = ends_in {
        spans.push(Span::raw(format!(" ends in {ends_in}")));
    }
    let (left, connection) = (Line::from(spans), connection(screen, theme));
    // A long name of a session is cut at the middle of the line, that of a venue at the session.
    let cells = |line: &Line<'_>| u16::try_from(line.width()).unwrap_or(u16::MAX);
    let width = cells(&connection).min(area.width - cells(&left).min(area.width / 2));
    let [first, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(width)]).areas(Rect { height: 1, ..area });
    let second = Rect { y: area.y + 1, height: 1, ..area };
    frame.render_widget(Paragraph::new(left), first);
    frame.render_widget(Paragraph::new(connection), right);
    frame.render_widget(Paragraph::new(prices(screen, book, theme)), second);
}

/// Returns the login, the venue, and whether both connections are up.
fn connection<'a>(screen: &Screen, theme: Theme) -> Line<'a> {
    let who = screen.account.as_ref().map_or("not logged in", |account| account.client_id.as_str());
    let down = [Some(&screen.link), screen.account.as_ref().map(|account| &account.link)];
    let is_down = down.into_iter().flatten().any(|link| matches!(link, Link::Down { .. }));
    let state =
        if is_down { Span::styled("RECONNECTING ", theme.fault()) } else { Span::styled("connected ", theme.buy()) };
    Line::from(vec![Span::raw(format!("{who} at {} ", screen.venue)), state])
}

fn prices<'a>(screen: &Screen, book: &OrderBook, theme: Theme) -> Line<'a> {
    let instrument = screen.instrument();
    let ticker = &screen.ticker;
    let mut spans = Vec::new();
    if let Some(Link::Down { cause }) = first_down(screen) {
        return Line::styled(format!(" {cause}"), theme.fault());
    }
    if let Some(fault) = &screen.book_fault {
        spans.push(Span::styled(format!(" book: {fault} "), theme.fault()));
    }
    let bid = book.bids().next().map(|(price, _)| price);
    let ask = book.asks().next().map(|(price, _)| price);
    spans.push(Span::styled(format!(" {}", text(instrument, bid)), theme.buy()));
    spans.push(Span::raw(" / "));
    spans.push(Span::styled(text(instrument, ask), theme.sell()));
    // In a call the sides may cross.
    if let (Some(bid), Some(ask)) = (bid, ask)
        && ask > bid
    {
        spans.push(Span::raw(format!("  spread {}", ask.minus(bid))));
    }
    spans.push(Span::raw(format!("  last {}", text(instrument, ticker.last_price))));
    if let Some(volume) = ticker.indicative_volume {
        let price = text(instrument, ticker.indicative_price);
        spans.push(Span::styled(format!("  indicative {price} x {volume}"), theme.own()));
        if let (Some(imbalance), Some(side)) = (ticker.imbalance, &ticker.imbalance_side)
            && !imbalance.is_zero()
        {
            let size = imbalance.max(Value::ZERO.minus(imbalance));
            spans.push(Span::raw(format!("  {side} {size} more")));
        }
    } else {
        let stats = &ticker.stats;
        let (low, high) = (text(instrument, stats.low), text(instrument, stats.high));
        spans.push(Span::styled(format!("  day {low} to {high}"), theme.faint()));
        if let Some(volume) = stats.volume {
            spans.push(Span::styled(format!("  volume {volume}"), theme.faint()));
        }
    }
    Line::from(spans)
}

fn first_down(screen: &Screen) -> Option<&Link> {
    let links = [Some(&screen.link), screen.account.as_ref().map(|account| &account.link)];
    links.into_iter().flatten().find(|link| matches!(link, Link::Down { .. }))
}

/// Formats a price, or a dash if there is none. Some venues send zero for none.
fn text(instrument: &Instrument, price: Option<Value>) -> String {
    price.filter(|price| !price.is_zero()).map_or_else(|| "-".into(), |price| instrument.price_text(price))
}
