//! Tests of the drawn screen, on a terminal in memory.

use std::time::{Duration, Instant};

use pitwire_client::{Order, OrderBook, Position, Side, Value};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::cells::compact;
use super::*;
use crate::instrument_list::InstrumentList;
use crate::ladder::tests::{book, order};
use crate::messages::{Balance, DayStatistics, OwnTrade, Ticker};
use crate::screen::tests::{public_trade, screen};
use crate::screen::{Focus, Link, Popup};

fn value(text: &str) -> Value {
    Value::parse(text).unwrap()
}

fn drawn(screen: &mut Screen, market: &OrderBook, (width, height): (u16, u16), now: Instant) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let theme = Theme::of(true, "xterm-256color", "");
    terminal.draw(|frame| draw(frame, screen, market, theme, now)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

/// Returns a text with one space in place of each run of white space.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn market() -> OrderBook {
    book(&[(10.0, 500), (9.98, 12)], &[(10.02, 40), (10.05, 7)])
}

/// A screen with every panel filled.
fn busy(now: Instant) -> Screen {
    let mut screen = screen();
    screen.book_changed(None, now);
    screen.take_ticker(
        Ticker {
            timestamp: 1_000,
            state: "open".into(),
            session: Some("continuous".into()),
            session_ends: Some(3_723_000),
            last_price: Some(value("10.02")),
            stats: DayStatistics { high: Some(value("11")), low: Some(value("9")), volume: Some(value("1500")) },
            ..Ticker::default()
        },
        now,
    );
    screen.take_trades(vec![public_trade("1")], Some(now));
    let stop = Order {
        order_type: "stop_market".into(),
        price: None,
        trigger_price: Some(value("10.05")),
        queue_ahead: None,
        ..order("3", "sell", "1", "4")
    };
    screen.take_account(
        vec![order("1", "buy", "10.00", "25"), stop],
        vec![Position {
            instrument_name: "BTC-PERPETUAL".into(),
            direction: "sell".into(),
            size: value("-120"),
            average_price: Some(value("60010.125")),
            floating_profit_loss: Some(value("-0.0001")),
        }],
    );
    if let Some(account) = &mut screen.account {
        let balance = |currency: &str, amount: &str, free: &str| Balance {
            currency: currency.into(),
            balance: value(amount),
            available_funds: Some(value(free)),
        };
        account.balances = vec![balance("BTC", "20", "20"), balance("ETH", "0", "0"), balance("ZAR", "10000", "9750")];
    }
    screen.order_latency.record(Duration::from_micros(1_240));
    screen.ping_latency.record(Duration::from_micros(310));
    screen
}

#[test]
fn every_panel_is_on_a_terminal_of_80_columns() {
    let now = Instant::now();
    let shown = drawn(&mut busy(now), &market(), (80, 24), now);
    for wanted in [
        "NPN_ZAR continuous ends in 1:02:02",
        "demo-a at 127.0.0.1:8080 connected",
        "10.00 / 10.02 spread 0.02 last 10.02 day 9.00 to 11.00 volume 1500",
        "ladder, amount 1",
        "25 500 10.00",
        "10.02◂ 40",
        "orders 2",
        "buy 25 10.00 7 limit",
        "sell 4 10.05 - stop",
        "BTC-PERPETUAL -120 P/L -0.0001",
        "ZAR 10000 free 9750",
        "01:01:01 ▲ 10.00 5",
        "order 1.2 ms p50 1.2 ms",
        "ping 310 µs p50 3",
        "press ? for the keys",
    ] {
        assert!(squeezed(&shown).contains(wanted), "{wanted:?} in\n{shown}");
    }
    assert!(!shown.contains("ETH"), "an empty balance of another currency\n{shown}");
}

#[test]
fn connection_beside_a_short_session_fits_80_columns() {
    let now = Instant::now();
    let mut screen = busy(now);
    (screen.account, screen.venue) = (None, "127.0.0.1:54321".into());
    let shown = drawn(&mut screen, &market(), (80, 24), now);
    assert!(shown.contains("not logged in at 127.0.0.1:54321 connected"), "{shown}");
}

#[test]
fn wide_terminal_has_three_columns() {
    let now = Instant::now();
    let shown = drawn(&mut busy(now), &market(), (140, 40), now);
    let line = shown.lines().find(|line| line.contains("ladder, amount")).unwrap();
    assert!(line.contains("orders 2") && line.contains("trades"), "{line}");
    assert!(squeezed(&shown).contains("gtc NPN_ZAR"), "{shown}");
}

#[test]
fn first_in_the_queue_and_a_lost_answer_are_named() {
    let now = Instant::now();
    let mut screen = busy(now);
    let account = screen.account.as_mut().unwrap();
    account.orders[1].queue_ahead = Some(Value::ZERO);
    account.unknown.push("pw-1-7".into());
    let shown = drawn(&mut screen, &market(), (140, 40), now);
    assert!(shown.contains("first") && shown.contains("unknown") && shown.contains("pw-1-7"), "{shown}");
}

#[test]
fn a_call_shows_its_indicative_price() {
    let now = Instant::now();
    let mut screen = busy(now);
    screen.ticker.indicative_price = Some(value("10.01"));
    screen.ticker.indicative_volume = Some(value("300"));
    screen.ticker.imbalance = Some(value("-20"));
    screen.ticker.imbalance_side = Some("sell".into());
    let shown = drawn(&mut screen, &market(), (100, 24), now);
    assert!(shown.contains("indicative 10.01 x 300  sell 20 more"), "{shown}");
}

#[test]
fn lost_connection_is_shown_with_its_cause() {
    let now = Instant::now();
    let mut screen = busy(now);
    screen.account.as_mut().unwrap().link = Link::Down { cause: "connection reset".into() };
    let shown = drawn(&mut screen, &market(), (80, 24), now);
    assert!(shown.contains("RECONNECTING") && shown.contains("connection reset"), "{shown}");
    screen.account.as_mut().unwrap().link = Link::Up;
    screen.book_changed(Some("gap".into()), now);
    assert!(drawn(&mut screen, &market(), (80, 24), now).contains("book: gap"));
}

#[test]
fn own_fill_is_announced() {
    let mut screen = screen();
    screen.take_own_trade(&OwnTrade {
        instrument_name: "NPN_ZAR".into(),
        direction: "sell".into(),
        price: value("10.02"),
        amount: value("5"),
    });
    let shown = drawn(&mut screen, &market(), (80, 24), Instant::now());
    assert!(shown.contains("sold 5 NPN_ZAR at 10.02"), "{shown}");
}

#[test]
fn windows_show_ticket_question_list_and_help() {
    let now = Instant::now();
    let mut screen = busy(now);
    screen.popup = Some(Popup::Ticket(screen.ticket(Side::Sell, Some(value("10.02")))));
    let shown = drawn(&mut screen, &market(), (80, 24), now);
    for wanted in
        ["sell NPN_ZAR", "amount    1", "price     10.02", "type      < limit >", "in force  < venue's default >"]
    {
        assert!(shown.contains(wanted), "{wanted:?} in\n{shown}");
    }
    screen.popup = Some(Popup::Ticket(crate::ticket::Ticket::of(&order("77", "buy", "9.9", "5"), screen.instrument())));
    assert!(drawn(&mut screen, &market(), (80, 24), now).contains("edit buy order 77 of NPN_ZAR"));
    let action = crate::screen::Action::CancelAll;
    screen.popup = Some(Popup::Confirm { question: "Cancel all 2 orders of NPN_ZAR?".into(), action });
    assert!(drawn(&mut screen, &market(), (80, 24), now).contains("Cancel all 2 orders of NPN_ZAR?"));
    screen.popup = Some(Popup::Instruments(InstrumentList { filter: "sb".into(), chosen: 0 }));
    let shown = drawn(&mut screen, &market(), (80, 24), now);
    assert!(shown.contains("name: sb_") && shown.contains("SBK_ZAR"), "{shown}");
    screen.popup = Some(Popup::Help);
    let shown = drawn(&mut screen, &market(), (80, 24), now);
    for (keys, effect) in crate::keys::KEY_HELP {
        assert!(shown.contains(keys) && shown.contains(effect), "{keys} in\n{shown}");
    }
}

#[test]
fn selected_order_is_visible_in_a_long_list() {
    let now = Instant::now();
    let mut screen = busy(now);
    let orders = (0..100).map(|id| order(&id.to_string(), "buy", &format!("9.{id:02}"), "1")).collect();
    screen.take_account(orders, Vec::new());
    screen.focus = Focus::Orders;
    screen.move_order(99);
    let shown = drawn(&mut screen, &market(), (80, 24), now);
    assert!(squeezed(&shown).contains("9.00 7 limit"), "the last and cheapest order\n{shown}");
}

#[test]
fn small_terminal_gets_a_sentence_and_any_size_is_drawn() {
    let now = Instant::now();
    let mut screen = busy(now);
    let shown = drawn(&mut screen, &market(), (60, 10), now);
    assert!(shown.contains("The terminal has 60x10 characters; 80x22 are needed."), "{shown}");
    screen.popup = Some(Popup::Help);
    for size in [(1, 1), (3, 40), (80, 22), (79, 22), (400, 5), (119, 30), (120, 22), (300, 100)] {
        drawn(&mut screen, &market(), size, now);
    }
}

#[test]
fn amounts_fit_their_column() {
    for (amount, width, expected) in [
        ("0", 8, ""),
        ("500", 8, "500"),
        ("12345678901", 8, "12.3G"),
        ("1234567.125", 8, "1.2M"),
        ("0.123456789", 8, "0.1"),
        ("-1234567890", 8, "-1.2G"),
        ("12345678901234567890", 5, "###"),
    ] {
        let text = compact(value(amount), width);
        assert_eq!(text, expected, "{amount}");
        assert!(text.len() <= width);
    }
}

#[test]
fn largest_amount_has_the_longest_bar() {
    let now = Instant::now();
    let mut screen = busy(now);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let theme = Theme::of(true, "xterm-256color", "");
    terminal.draw(|frame| draw(frame, &mut screen, &market(), theme, now)).unwrap();
    let buffer = terminal.backend().buffer();
    let bar = theme.bar(true).unwrap().bg.unwrap();
    let cells = |y: u16| (0..80).filter(|x| buffer[(*x, y)].bg == bar).count();
    let counts: Vec<usize> = (0..24).map(cells).filter(|count| *count > 0).collect();
    assert_eq!(counts, [9, 1], "500 and 12 shares are bid");
}
