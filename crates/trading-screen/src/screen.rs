//! The state of the screen: what the venue reported, and what the user is doing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pitwire_client::{ConnectionState, Order, OrderBook, OrderRequest, Position, Side, Value};
use pitwire_client_commands::confirmation::ConfirmationBound;
use pitwire_terminal::output::printable;

use crate::clock::{MarketClock, countdown};
use crate::instrument::Instrument;
use crate::instrument_list::InstrumentList;
use crate::ladder::{Ladder, middle};
use crate::latency::{LatencyWindow, MessageRate};
use crate::messages::{Balance, OwnTrade, PublicTrade, Ticker};
use crate::ticket::Ticket;

/// Trades that the screen remembers, more than any terminal has lines.
const TRADES_MAX: usize = 500;

/// What the user asks for. The connections carry it out.
#[derive(Clone, Debug)]
pub enum Action {
    Enter(OrderRequest),
    Edit {
        order_id: String,
        amount: pitwire_client::Number,
        price: pitwire_client::Number,
    },
    Cancel {
        order_ids: Vec<String>,
    },
    /// Cancels all orders of the selected instrument.
    CancelAll,
    /// Shows the instrument with this index.
    Select(usize),
    /// Draws every cell again, after another program has written to the terminal.
    Redraw,
    Quit,
}

/// The panel that the arrow keys move in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    Ladder,
    Orders,
}

/// A window over the panels that receives all keys.
#[derive(Clone, Debug)]
pub enum Popup {
    Help,
    Instruments(InstrumentList),
    Ticket(Ticket),
    Confirm { question: String, action: Action },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    Note,
    Buy,
    Sell,
    Fault,
}

/// State of a connection as the screen shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    /// The connection tries again.
    Down {
        cause: String,
    },
}

impl From<&ConnectionState> for Link {
    fn from(state: &ConnectionState) -> Self {
        match state {
            ConnectionState::Ready { .. } => Link::Up,
            ConnectionState::Reconnecting { cause } | ConnectionState::Ended { cause } => {
                Link::Down { cause: printable(cause) }
            }
        }
    }
}

/// The own account. Absent without a login.
#[derive(Clone, Debug)]
pub struct AccountState {
    pub client_id: String,
    pub link: Link,
    /// Open orders of all instruments, those of the selected one first.
    pub orders: Vec<Order>,
    pub positions: Vec<Position>,
    pub balances: Vec<Balance>,
    /// Orders whose answer was lost, by label, until it is known whether they exist.
    pub unknown: Vec<String>,
    /// Index of the selected order.
    pub selected: usize,
}

#[derive(Debug)]
pub struct Screen {
    /// Address of the venue without the scheme.
    pub venue: String,
    pub instruments: Vec<Instrument>,
    pub selected: usize,
    pub ladder: Ladder,
    /// `None` while the book is complete, otherwise the reason.
    pub book_fault: Option<String>,
    pub ticker: Ticker,
    pub clock: MarketClock,
    /// Newest first.
    pub trades: VecDeque<PublicTrade>,
    pub link: Link,
    pub account: Option<AccountState>,
    /// Time from the request of an order, edit or cancel to its answer.
    pub order_latency: LatencyWindow,
    /// Round trips of `public/test`.
    pub ping_latency: LatencyWindow,
    pub updates: MessageRate,
    pub focus: Focus,
    pub popup: Option<Popup>,
    pub message: (MessageKind, String),
    /// Amount of the next order, by instrument.
    amounts: Vec<Value>,
    pub confirmation: ConfirmationBound,
    /// Whether the order keys send without a ticket.
    pub is_one_key: bool,
}

impl Screen {
    /// Makes the screen of a venue. `client_id` is absent without a login.
    pub fn new(venue: &str, instruments: Vec<Instrument>, selected: usize, client_id: Option<&str>) -> Self {
        let account = client_id.map(|client_id| AccountState {
            client_id: printable(client_id),
            link: Link::Up,
            orders: Vec::new(),
            positions: Vec::new(),
            balances: Vec::new(),
            unknown: Vec::new(),
            selected: 0,
        });
        let note = match &account {
            Some(_) => "press ? for the keys",
            None => "no credentials: market data only; press ? for the keys",
        };
        Screen {
            venue: printable(venue),
            amounts: instruments.iter().map(|instrument| instrument.lot).collect(),
            instruments,
            selected,
            ladder: Ladder::default(),
            book_fault: Some("loading".into()),
            ticker: Ticker::default(),
            clock: MarketClock::default(),
            trades: VecDeque::new(),
            link: Link::Up,
            account,
            order_latency: LatencyWindow::default(),
            ping_latency: LatencyWindow::default(),
            updates: MessageRate::default(),
            focus: Focus::Ladder,
            popup: None,
            message: (MessageKind::Note, note.into()),
            confirmation: ConfirmationBound::default(),
            is_one_key: false,
        }
    }

    pub fn instrument(&self) -> &Instrument {
        &self.instruments[self.selected]
    }

    /// Returns the amount of the next order.
    pub fn amount(&self) -> Value {
        self.amounts[self.selected]
    }

    pub fn set_amount(&mut self, amount: Value) {
        let lot = self.instrument().lot;
        self.amounts[self.selected] = amount.max(lot);
    }

    pub fn orders(&self) -> &[Order] {
        self.account.as_ref().map_or(&[], |account| &account.orders)
    }

    pub fn selected_order(&self) -> Option<&Order> {
        let account = self.account.as_ref()?;
        account.orders.get(account.selected)
    }

    pub fn note(&mut self, kind: MessageKind, text: &str) {
        self.message = (kind, printable(text));
    }

    /// Clears the data of the instrument, and selects another.
    pub fn select(&mut self, index: usize) {
        self.selected = index.min(self.instruments.len() - 1);
        self.ladder.reset();
        self.book_fault = Some("loading".into());
        self.ticker = Ticker::default();
        self.trades.clear();
        self.updates = MessageRate::default();
        let chosen = self.chosen_order_id();
        self.sort_orders(chosen);
    }

    /// Records a change of the book. `fault` says why the book is not complete.
    pub fn book_changed(&mut self, fault: Option<String>, at: Instant) {
        self.book_fault = fault.map(|fault| printable(&fault));
        self.updates.record(at);
    }

    pub fn take_ticker(&mut self, ticker: Ticker, at: Instant) {
        self.clock.synchronise(ticker.timestamp, at);
        self.ticker = ticker;
        self.updates.record(at);
    }

    /// Adds trades, of which the last is the newest. A trade that the screen has already is left
    /// out.
    pub fn take_trades(&mut self, trades: Vec<PublicTrade>, at: Option<Instant>) {
        for trade in trades {
            if !self.trades.iter().any(|known| known.trade_id == trade.trade_id) {
                self.trades.push_front(trade);
            }
        }
        // A list of older trades may arrive after newer ones.
        self.trades.make_contiguous().sort_by_key(|trade| std::cmp::Reverse(trade.timestamp));
        self.trades.truncate(TRADES_MAX);
        if let Some(at) = at {
            self.updates.record(at);
        }
    }

    pub fn take_own_trade(&mut self, trade: &OwnTrade) {
        let (kind, verb) =
            if trade.direction == "buy" { (MessageKind::Buy, "bought") } else { (MessageKind::Sell, "sold") };
        let OwnTrade { instrument_name, price, amount, .. } = trade;
        self.note(kind, &format!("{verb} {amount} {instrument_name} at {price}"));
    }

    /// Takes over the open orders and positions. The selected order stays selected.
    pub fn take_account(&mut self, orders: Vec<Order>, positions: Vec<Position>) {
        let chosen = self.chosen_order_id();
        if let Some(account) = &mut self.account {
            account.orders = orders;
            account.positions = positions;
        }
        self.sort_orders(chosen);
    }

    fn chosen_order_id(&self) -> Option<String> {
        self.selected_order().map(|order| order.order_id.clone())
    }

    /// Sorts the own orders: those of the selected instrument first, then by falling price. The
    /// order `chosen` stays selected, because the next key may cancel it.
    fn sort_orders(&mut self, chosen: Option<String>) {
        let name = self.instrument().name.clone();
        if let Some(account) = &mut self.account {
            account.orders.sort_by(|a, b| {
                let key = |order: &Order| (order.instrument_name != name, order.instrument_name.clone());
                let price = |order: &Order| order.price.or(order.trigger_price).unwrap_or(Value::ZERO);
                key(a).cmp(&key(b)).then(price(b).cmp(&price(a))).then(a.order_id.cmp(&b.order_id))
            });
            let position = account.orders.iter().position(|order| Some(&order.order_id) == chosen.as_ref());
            account.selected = position.unwrap_or(account.selected).min(account.orders.len().saturating_sub(1));
        }
    }

    /// Moves the selection among the own orders.
    pub fn move_order(&mut self, rows: isize) {
        if let Some(account) = &mut self.account {
            account.selected = account.selected.saturating_add_signed(rows).min(account.orders.len().saturating_sub(1));
        }
    }

    /// Returns the session in words, and the time until it ends. On a venue without sessions it is
    /// the state of the instrument.
    pub fn session(&self, now: Instant) -> (String, Option<String>) {
        let ticker = &self.ticker;
        let words = ticker.session.as_deref().unwrap_or(&ticker.state).replace('_', " ");
        let words = if ticker.state == "halted" { "HALTED".into() } else { printable(&words) };
        let left =
            ticker.session_ends.zip(self.clock.now_ms(now)).map(|(ends, now)| countdown(ends.saturating_sub(now)));
        (words, left)
    }

    /// Opens a ticket at the price under the cursor, or at the last price.
    pub fn ticket(&self, side: Side, price: Option<Value>) -> Ticket {
        let instrument = self.instrument();
        let price = price.or_else(|| self.ladder.cursor_price(instrument)).or(self.ticker.last_price);
        Ticket::new(instrument, side, self.amount(), price)
    }

    /// Reports the end of a request of the user.
    pub fn take_answer(&mut self, took: Option<Duration>, result: Result<String, String>) {
        if let Some(took) = took {
            self.order_latency.record(took);
        }
        match result {
            Ok(text) => self.note(MessageKind::Note, &text),
            Err(text) => self.note(MessageKind::Fault, &text),
        }
    }

    /// Fits the ladder into its window.
    pub fn settle_ladder(&mut self, height: u16, book: &OrderBook) {
        let market = middle(self.instrument(), book, self.ticker.last_price);
        self.ladder.settle(height, market);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::instrument::tests::share;
    use crate::ladder::tests::order;

    pub fn screen() -> Screen {
        let other = Instrument { name: "SBK_ZAR".into(), ..share() };
        Screen::new("127.0.0.1:8080", vec![share(), other], 0, Some("demo-a"))
    }

    pub fn public_trade(id: &str) -> PublicTrade {
        let text = format!(r#"{{"trade_id":"{id}","price":10,"amount":5,"direction":"buy","timestamp":3661000}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn trade_is_shown_once_and_newest_first() {
        let mut screen = screen();
        screen.take_trades(vec![public_trade("1"), public_trade("2")], None);
        screen.take_trades(vec![public_trade("2"), public_trade("3")], None);
        let ids: Vec<&str> = screen.trades.iter().map(|trade| trade.trade_id.as_str()).collect();
        assert_eq!(ids, ["3", "2", "1"]);
        screen.take_trades((0..2 * TRADES_MAX).map(|id| public_trade(&format!("x{id}"))).collect(), None);
        assert_eq!(screen.trades.len(), TRADES_MAX);
    }

    #[test]
    fn selected_order_stays_selected_when_another_instrument_is_chosen() {
        let mut screen = screen();
        let mut other = order("2", "buy", "9", "1");
        other.instrument_name = "SBK_ZAR".into();
        screen.take_account(vec![other, order("1", "buy", "9", "1")], Vec::new());
        assert_eq!(screen.selected_order().unwrap().order_id, "1");
        screen.select(1);
        assert_eq!(screen.selected_order().unwrap().order_id, "1");
    }

    #[test]
    fn selected_order_stays_selected_when_others_come_and_go() {
        let mut screen = screen();
        screen.take_account(vec![order("1", "buy", "9", "1"), order("2", "sell", "11", "1")], Vec::new());
        screen.move_order(1);
        assert_eq!(screen.selected_order().unwrap().order_id, "1");
        let orders = vec![order("1", "buy", "9", "1"), order("3", "sell", "12", "1"), order("2", "sell", "11", "1")];
        screen.take_account(orders, Vec::new());
        assert_eq!(screen.selected_order().unwrap().order_id, "1");
        screen.take_account(vec![order("2", "sell", "11", "1")], Vec::new());
        assert_eq!(screen.selected_order().unwrap().order_id, "2");
        screen.take_account(Vec::new(), Vec::new());
        assert_eq!(screen.selected_order(), None);
        screen.move_order(5);
    }

    #[test]
    fn orders_of_the_selected_instrument_come_first() {
        let mut screen = screen();
        let elsewhere = Order { instrument_name: "SBK_ZAR".into(), ..order("9", "sell", "500", "1") };
        screen.take_account(vec![elsewhere, order("1", "buy", "9", "1"), order("2", "sell", "11", "1")], Vec::new());
        let ids =
            |screen: &Screen| -> Vec<String> { screen.orders().iter().map(|order| order.order_id.clone()).collect() };
        assert_eq!(ids(&screen), ["2", "1", "9"]);
        screen.select(1);
        assert_eq!(ids(&screen), ["9", "2", "1"]);
    }

    #[test]
    fn session_counts_down_in_venue_time() {
        let mut screen = screen();
        let now = Instant::now();
        let ticker = Ticker {
            timestamp: 1_000,
            state: "open".into(),
            session: Some("intraday_auction".into()),
            session_ends: Some(91_000),
            ..Ticker::default()
        };
        screen.take_ticker(ticker.clone(), now);
        let at = now + Duration::from_secs(30);
        assert_eq!(screen.session(at), ("intraday auction".into(), Some("1:00".into())));
        screen.take_ticker(Ticker { state: "halted".into(), session: None, session_ends: None, ..ticker }, at);
        assert_eq!(screen.session(at), ("HALTED".into(), None));
    }

    #[test]
    fn amounts_belong_to_their_instrument_and_are_at_least_a_lot() {
        let mut screen = screen();
        screen.set_amount(Value::parse("50").unwrap());
        screen.select(1);
        screen.set_amount(Value::ZERO);
        assert_eq!(screen.amount(), Value::parse("1").unwrap());
        screen.select(0);
        assert_eq!(screen.amount(), Value::parse("50").unwrap());
    }

    #[test]
    fn texts_of_the_venue_cannot_steer_the_terminal() {
        let mut screen = screen();
        screen.note(MessageKind::Fault, "bad\u{1b}[2J");
        assert_eq!(screen.message.1, "bad?[2J");
        let state = ConnectionState::Reconnecting { cause: "\u{9b}x".into() };
        assert_eq!(Link::from(&state), Link::Down { cause: "?x".into() });
    }
}
