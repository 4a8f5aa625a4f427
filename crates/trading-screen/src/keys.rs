//! What each key does.

use pitwire_client::{OrderBook, Side, Value};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::instrument_list::InstrumentList;
use crate::screen::{Action, Focus, MessageKind, Popup, Screen};
use crate::ticket::{Ticket, TicketField, TicketOrder};

/// Rows that Page Up and Page Down move by.
const PAGE: i64 = 10;

/// The keys and their effects, in groups, for the help window and the documentation.
pub const KEY_HELP: &[(&str, &str)] = &[
    ("Up Down, PgUp PgDn", "move the cursor over prices or orders"),
    ("c", "centre the ladder on the market"),
    ("[ ]", "finer or coarser price rows"),
    ("Tab", "switch between ladder and own orders"),
    ("+ -", "larger or smaller amount of the next order"),
    ("b s", "buy or sell at the cursor"),
    ("B S", "buy at the best bid, sell at the best offer"),
    ("t T", "take the best offer, or the best bid"),
    ("e", "edit the selected order"),
    ("x", "cancel the selected order, or your orders at the cursor"),
    ("X", "cancel all your orders of the instrument"),
    ("i /", "choose an instrument"),
    ("n p", "next or previous instrument"),
    ("Ctrl-L", "draw the screen again"),
    ("q Ctrl-C", "quit; your orders stay in the market"),
];

impl Screen {
    /// Handles a key. Returns the request for the connections, if the key makes one.
    pub fn press(&mut self, key: KeyEvent, book: &OrderBook) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'C') => Some(Action::Quit),
                KeyCode::Char('l' | 'L') => Some(Action::Redraw),
                _ => None,
            };
        }
        match self.popup.take() {
            None => self.press_in_panels(key.code, book),
            // Any key closes the help.
            Some(Popup::Help) => None,
            Some(Popup::Confirm { question, action }) => self.press_in_question(key.code, question, action),
            Some(Popup::Instruments(list)) => self.press_in_list(key.code, list),
            Some(Popup::Ticket(ticket)) => self.press_in_ticket(key.code, ticket),
        }
    }

    fn press_in_panels(&mut self, code: KeyCode, book: &OrderBook) -> Option<Action> {
        match code {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Char('?' | 'h') => self.popup = Some(Popup::Help),
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = match self.focus {
                    Focus::Ladder if self.account.is_some() => Focus::Orders,
                    _ => Focus::Ladder,
                };
            }
            KeyCode::Up | KeyCode::Char('k') => self.move_up(1),
            KeyCode::Down | KeyCode::Char('j') => self.move_up(-1),
            KeyCode::PageUp => self.move_up(PAGE),
            KeyCode::PageDown => self.move_up(-PAGE),
            KeyCode::Home | KeyCode::Char('c') => self.ladder.centre(),
            KeyCode::Char('[') => self.ladder.zoom(-1),
            KeyCode::Char(']') => self.ladder.zoom(1),
            KeyCode::Char('+' | '=') => self.set_amount(self.amount().plus(self.instrument().lot)),
            KeyCode::Char('-') => self.set_amount(self.amount().minus(self.instrument().lot)),
            KeyCode::Char('i' | '/') => self.popup = Some(Popup::Instruments(InstrumentList::default())),
            KeyCode::Char('n') => return Some(Action::Select((self.selected + 1) % self.instruments.len())),
            KeyCode::Char('p') => {
                let count = self.instruments.len();
                return Some(Action::Select((self.selected + count - 1) % count));
            }
            KeyCode::Char('b') => return self.begin_order(Side::Buy, None),
            KeyCode::Char('s') => return self.begin_order(Side::Sell, None),
            KeyCode::Char('B') => return self.begin_at(Side::Buy, best_bid(book)),
            KeyCode::Char('S') => return self.begin_at(Side::Sell, best_ask(book)),
            KeyCode::Char('t') => return self.begin_at(Side::Buy, best_ask(book)),
            KeyCode::Char('T') => return self.begin_at(Side::Sell, best_bid(book)),
            KeyCode::Char('e') => self.begin_edit(),
            KeyCode::Char('x') | KeyCode::Delete => return self.cancel(),
            KeyCode::Char('X') => self.ask_cancel_all(),
            _ => {}
        }
        None
    }

    fn move_up(&mut self, rows: i64) {
        match self.focus {
            Focus::Ladder => self.ladder.move_cursor(rows),
            Focus::Orders => self.move_order(isize::try_from(-rows).unwrap_or(0)),
        }
    }

    fn must_log_in(&mut self) -> bool {
        if self.account.is_none() {
            self.note(MessageKind::Fault, "no credentials: start `pitwire tui` with a login to trade");
        }
        self.account.is_none()
    }

    fn begin_at(&mut self, side: Side, price: Option<Value>) -> Option<Action> {
        if price.is_none() {
            self.note(MessageKind::Fault, "that side of the book is empty");
            return None;
        }
        self.begin_order(side, price)
    }

    /// Opens a ticket, or sends it at once with one key.
    fn begin_order(&mut self, side: Side, price: Option<Value>) -> Option<Action> {
        if self.must_log_in() {
            return None;
        }
        let ticket = self.ticket(side, price);
        if self.is_one_key {
            return self.send_ticket(ticket);
        }
        self.popup = Some(Popup::Ticket(ticket));
        None
    }

    fn begin_edit(&mut self) {
        let order = match self.focus {
            Focus::Orders => self.selected_order(),
            Focus::Ladder => self.ladder.own_at_cursor(self.instrument(), self.orders()).into_iter().next(),
        };
        let Some(order) = order else {
            self.note(MessageKind::Fault, "no own order is selected: press Tab to choose one");
            return;
        };
        let of = self.instruments.iter().find(|instrument| instrument.name == order.instrument_name);
        self.popup = Some(Popup::Ticket(Ticket::of(order, of.unwrap_or(self.instrument()))));
    }

    fn cancel(&mut self) -> Option<Action> {
        let order_ids: Vec<String> = match self.focus {
            Focus::Orders => self.selected_order().map(|order| order.order_id.clone()).into_iter().collect(),
            Focus::Ladder => {
                let orders = self.ladder.own_at_cursor(self.instrument(), self.orders());
                orders.into_iter().map(|order| order.order_id.clone()).collect()
            }
        };
        if order_ids.is_empty() {
            self.note(MessageKind::Fault, "no own order is here: press Tab to choose one");
            return None;
        }
        Some(Action::Cancel { order_ids })
    }

    fn ask_cancel_all(&mut self) {
        if self.must_log_in() {
            return;
        }
        let name = &self.instrument().name;
        let count = self.orders().iter().filter(|order| order.instrument_name == *name).count();
        let question = format!("Cancel all {count} orders of {name}?");
        self.popup = Some(Popup::Confirm { question, action: Action::CancelAll });
    }

    fn press_in_question(&mut self, code: KeyCode, question: String, action: Action) -> Option<Action> {
        match code {
            KeyCode::Char('y' | 'Y') => Some(action),
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {
                self.note(MessageKind::Note, "nothing was sent");
                None
            }
            _ => {
                self.popup = Some(Popup::Confirm { question, action });
                None
            }
        }
    }

    fn press_in_list(&mut self, code: KeyCode, mut list: InstrumentList) -> Option<Action> {
        match code {
            KeyCode::Esc => return None,
            KeyCode::Enter => return list.choice(&self.instruments).map(Action::Select),
            KeyCode::Up => list.move_choice(-1, &self.instruments),
            KeyCode::Down => list.move_choice(1, &self.instruments),
            KeyCode::Backspace => list.erase(),
            KeyCode::Char(character) if !character.is_control() => list.type_character(character),
            _ => {}
        }
        self.popup = Some(Popup::Instruments(list));
        None
    }

    fn press_in_ticket(&mut self, code: KeyCode, mut ticket: Ticket) -> Option<Action> {
        let is_choice = matches!(ticket.field, TicketField::Type | TicketField::TimeInForce);
        match code {
            KeyCode::Esc | KeyCode::Char('q') => {
                self.note(MessageKind::Note, "nothing was sent");
                return None;
            }
            KeyCode::Enter => return self.send_ticket(ticket),
            KeyCode::Tab => ticket.move_field(1),
            KeyCode::BackTab => ticket.move_field(-1),
            // In a choice the arrows to the sides change it, and those up and down leave it.
            KeyCode::Down if is_choice => ticket.move_field(1),
            KeyCode::Up if is_choice => ticket.move_field(-1),
            KeyCode::Up | KeyCode::Right | KeyCode::Char('+' | ' ') => ticket.step(1),
            KeyCode::Down | KeyCode::Left | KeyCode::Char('-') => ticket.step(-1),
            KeyCode::Backspace => ticket.erase(),
            KeyCode::Char(character) if character.is_ascii_digit() || character == '.' => {
                ticket.type_character(character);
            }
            _ => {}
        }
        self.popup = Some(Popup::Ticket(ticket));
        None
    }

    /// Sends a ticket, or asks before a large order.
    fn send_ticket(&mut self, mut ticket: Ticket) -> Option<Action> {
        let order = match ticket.order() {
            Ok(order) => order,
            Err(fault) => {
                ticket.fault = Some(fault);
                self.popup = Some(Popup::Ticket(ticket));
                return None;
            }
        };
        let (amount, action) = match order {
            TicketOrder::Enter(request) => {
                if let Some(amount) = Value::parse(request.amount.as_str()) {
                    self.set_amount(amount);
                }
                (request.amount.clone(), Action::Enter(request))
            }
            TicketOrder::Edit { order_id, amount, price } => (amount.clone(), Action::Edit { order_id, amount, price }),
        };
        match self.confirmation.reason(&amount) {
            Some(reason) => {
                self.popup = Some(Popup::Confirm { question: format!("Send it? {reason}."), action });
                None
            }
            None => Some(action),
        }
    }
}

fn best_bid(book: &OrderBook) -> Option<Value> {
    book.bids().next().map(|(price, _)| price)
}

fn best_ask(book: &OrderBook) -> Option<Value> {
    book.asks().next().map(|(price, _)| price)
}

#[cfg(test)]
mod tests {
    use pitwire_client::Number;

    use super::*;
    use crate::ladder::tests::{book, order};
    use crate::screen::tests::screen;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    /// Presses each character of a text, and `>` for Enter, `<` for Escape, `|` for Tab.
    fn press_all(screen: &mut Screen, book: &OrderBook, text: &str) -> Option<Action> {
        let mut last = None;
        for character in text.chars() {
            let code = match character {
                '>' => KeyCode::Enter,
                '<' => KeyCode::Esc,
                '|' => KeyCode::Tab,
                '^' => KeyCode::Up,
                'v' => KeyCode::Down,
                other => KeyCode::Char(other),
            };
            last = screen.press(key(code), book);
        }
        last
    }

    fn market() -> OrderBook {
        book(&[(10.0, 5)], &[(10.02, 4)])
    }

    fn ready() -> Screen {
        let mut screen = screen();
        screen.settle_ladder(11, &market());
        screen
    }

    fn request(action: Option<Action>) -> String {
        match action {
            Some(Action::Enter(request)) => {
                format!("{} {}", request.side.method(), serde_json::to_string(&request.params()).unwrap())
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn buy_at_the_cursor_opens_a_ticket_that_enter_sends() {
        let mut screen = ready();
        assert!(press_all(&mut screen, &market(), "v++b").is_none());
        let sent = request(press_all(&mut screen, &market(), ">"));
        assert_eq!(sent, r#"private/buy {"instrument_name":"NPN_ZAR","amount":3,"type":"limit","price":10.00}"#);
        assert!(screen.popup.is_none());
        assert!(press_all(&mut screen, &market(), "s<").is_none());
        assert!(screen.popup.is_none());
        assert_eq!(screen.message.1, "nothing was sent");
    }

    #[test]
    fn keys_for_the_best_prices_join_and_take_them() {
        let mut screen = ready();
        screen.is_one_key = true;
        for (pressed, expected) in [("B", "buy 10.00"), ("S", "sell 10.02"), ("t", "buy 10.02"), ("T", "sell 10.00")] {
            let (side, price) = expected.split_once(' ').unwrap();
            let sent = request(press_all(&mut screen, &market(), pressed));
            assert!(sent.starts_with(&format!("private/{side} ")), "{pressed}: {sent}");
            assert!(sent.contains(&format!(r#""price":{price}}}"#)), "{pressed}: {sent}");
        }
        assert!(press_all(&mut screen, &book(&[], &[]), "B").is_none());
        assert_eq!(screen.message.1, "that side of the book is empty");
    }

    #[test]
    fn ticket_takes_typed_numbers_and_keeps_a_faulty_one_open() {
        let mut screen = ready();
        let sent = request(press_all(&mut screen, &market(), "s25|9.5>"));
        assert_eq!(sent, r#"private/sell {"instrument_name":"NPN_ZAR","amount":25,"type":"limit","price":9.5}"#);
        assert_eq!(screen.amount(), Value::parse("25").unwrap(), "the next order has the same amount");
        assert!(press_all(&mut screen, &market(), "b|1.2.3>").is_none());
        let Some(Popup::Ticket(ticket)) = &screen.popup else { panic!("no ticket") };
        assert!(ticket.fault.as_ref().unwrap().contains("1.2.3"), "{ticket:?}");
    }

    #[test]
    fn large_order_is_sent_after_y_only() {
        let mut screen = ready();
        screen.confirmation = "10".parse::<Number>().unwrap().into();
        assert!(press_all(&mut screen, &market(), "b11>").is_none());
        assert!(press_all(&mut screen, &market(), ">z").is_none(), "only y answers yes");
        assert!(request(press_all(&mut screen, &market(), "y")).contains(r#""amount":11"#));
        assert!(press_all(&mut screen, &market(), "b11>n").is_none());
        assert!(screen.popup.is_none());
        assert!(request(press_all(&mut screen, &market(), "b10>")).contains(r#""amount":10"#));
    }

    #[test]
    fn large_order_with_one_key_is_confirmed_too() {
        let mut screen = ready();
        screen.is_one_key = true;
        screen.confirmation = "10".parse::<Number>().unwrap().into();
        screen.set_amount(Value::parse("11").unwrap());
        assert!(press_all(&mut screen, &market(), "b").is_none());
        assert!(matches!(screen.popup, Some(Popup::Confirm { .. })));
    }

    #[test]
    fn x_cancels_the_selected_order_or_those_at_the_cursor() {
        let mut screen = ready();
        let orders = vec![order("1", "buy", "10.00", "5"), order("2", "buy", "9.98", "5")];
        screen.take_account(orders, Vec::new());
        let ids = |action: Option<Action>| match action {
            Some(Action::Cancel { order_ids }) => order_ids,
            other => panic!("{other:?}"),
        };
        assert_eq!(ids(press_all(&mut screen, &market(), "vx")), ["1"]);
        assert_eq!(ids(press_all(&mut screen, &market(), "|vx")), ["2"]);
        assert!(press_all(&mut screen, &market(), "|vvvvx").is_none(), "none at 9.96");
        assert!(press_all(&mut screen, &market(), "X").is_none());
        let Some(Popup::Confirm { question, .. }) = &screen.popup else { panic!("no question") };
        assert_eq!(question, "Cancel all 2 orders of NPN_ZAR?");
        assert!(matches!(press_all(&mut screen, &market(), "y"), Some(Action::CancelAll)));
    }

    #[test]
    fn edit_of_the_order_at_the_cursor_changes_its_price() {
        let mut screen = ready();
        screen.take_account(vec![order("1", "buy", "10.00", "5")], Vec::new());
        let action = press_all(&mut screen, &market(), "ve^^>");
        let Some(Action::Edit { order_id, amount, price }) = action else { panic!("{action:?}") };
        assert_eq!((order_id.as_str(), amount.as_str(), price.as_str()), ("1", "5", "10.02"));
    }

    #[test]
    fn instrument_is_chosen_by_its_name() {
        let mut screen = ready();
        assert!(matches!(press_all(&mut screen, &market(), "/sbk>"), Some(Action::Select(1))));
        assert!(matches!(press_all(&mut screen, &market(), "p"), Some(Action::Select(1))));
        assert!(matches!(press_all(&mut screen, &market(), "n"), Some(Action::Select(1))));
        assert!(press_all(&mut screen, &market(), "/nothing>").is_none());
        assert!(screen.popup.is_none());
    }

    #[test]
    fn without_a_login_no_key_sends_an_order() {
        let mut screen = Screen::new("x", screen().instruments, 0, None);
        screen.settle_ladder(11, &market());
        screen.is_one_key = true;
        for pressed in ["b", "s", "B", "S", "t", "T", "e", "x", "X", "|x"] {
            assert!(press_all(&mut screen, &market(), pressed).is_none(), "{pressed}");
            assert!(screen.popup.is_none(), "{pressed}");
            assert_eq!(screen.message.0, MessageKind::Fault, "{pressed}");
        }
    }

    #[test]
    fn any_sequence_of_keys_is_harmless() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut screen = ready();
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let code = match random % 10 {
                0 => KeyCode::Up,
                1 => KeyCode::Down,
                2 => KeyCode::Enter,
                3 => KeyCode::Tab,
                4 => KeyCode::Esc,
                5 => KeyCode::Backspace,
                _ => KeyCode::Char(char::from(u8::try_from(32 + random / 16 % 95).unwrap())),
            };
            if let Some(Action::Select(index)) = screen.press(key(code), &market()) {
                screen.select(index);
            }
            screen.settle_ladder(u16::try_from(random % 60).unwrap(), &market());
            let rows = screen.ladder.rows(screen.instrument(), &market(), screen.orders()).0;
            assert!(rows.len() <= 60);
        }
    }
}
