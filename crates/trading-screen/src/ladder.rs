//! The ladder: a window of price rows around the market, and the price under the cursor.

use pitwire_client::{Order, OrderBook, Value};

use crate::instrument::Instrument;

/// Ticks of one row, from fine to coarse.
const TICKS_PER_ROW: [i64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Prices beyond this many ticks are not shown, so that no sum of row numbers overflows.
const FARTHEST_TICKS: i64 = 1 << 50;

/// One row: all bids from this price up to the next row, all offers down to the row below, and the
/// open amounts of own orders among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LadderRow {
    pub price: Value,
    pub bid: Value,
    pub ask: Value,
    pub own_bid: Value,
    pub own_ask: Value,
}

/// The visible window of the ladder. Rows are numbered by their price in units of the row's height.
#[derive(Clone, Debug, Default)]
pub struct Ladder {
    /// Index into [`TICKS_PER_ROW`].
    zoom: usize,
    /// The row in the middle of the window. `None` until a price is known.
    centre: Option<i64>,
    /// The price under the cursor, in ticks.
    cursor_ticks: i64,
    /// Whether the window moves with the market.
    is_fixed: bool,
    /// Rows of the window.
    height: i64,
}

impl Ladder {
    pub fn ticks_per_row(&self) -> i64 {
        TICKS_PER_ROW[self.zoom]
    }

    /// Whether the window stays where it is when the market moves.
    pub fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Forgets the position, for another instrument.
    pub fn reset(&mut self) {
        *self = Ladder { zoom: self.zoom, height: self.height, ..Ladder::default() };
    }

    /// Takes over the height of the window, and moves the window after the market has left its
    /// middle half. `market` is the middle of the market in ticks.
    pub fn settle(&mut self, height: u16, market: Option<i64>) {
        self.height = i64::from(height);
        let Some(market) = market else { return };
        let market_row = market.div_euclid(self.ticks_per_row());
        match self.centre {
            None => {
                self.centre = Some(market_row);
                self.cursor_ticks = market;
            }
            Some(centre) if !self.is_fixed && (market_row - centre).abs() > self.height / 4 => {
                self.centre = Some(market_row);
                self.clamp_cursor();
            }
            Some(_) => {}
        }
    }

    /// Moves the window and the cursor to the market.
    pub fn centre(&mut self) {
        self.centre = None;
        self.is_fixed = false;
    }

    /// Moves the cursor up by this many rows. The window follows it and then stays there.
    pub fn move_cursor(&mut self, rows: i64) {
        let Some(centre) = self.centre else { return };
        let per_row = self.ticks_per_row();
        let row = (self.cursor_row() + rows).max(0);
        self.cursor_ticks = row.saturating_mul(per_row);
        let (top, bottom) = self.bounds(centre);
        let beyond = (row - top).max(0) + (row - bottom).min(0);
        if beyond != 0 {
            self.centre = Some(centre + beyond);
            self.is_fixed = true;
        }
    }

    /// Makes rows finer by a negative number of steps, or coarser by a positive one. The cursor is
    /// then in the middle.
    pub fn zoom(&mut self, steps: isize) {
        self.zoom = self.zoom.saturating_add_signed(steps).min(TICKS_PER_ROW.len() - 1);
        self.centre = self.centre.map(|_| self.cursor_row());
    }

    fn cursor_row(&self) -> i64 {
        self.cursor_ticks.div_euclid(self.ticks_per_row())
    }

    /// Returns the top and the bottom row of the window.
    fn bounds(&self, centre: i64) -> (i64, i64) {
        let top = centre + self.height / 2;
        (top, top - (self.height - 1).max(0))
    }

    fn clamp_cursor(&mut self) {
        if let Some(centre) = self.centre {
            let (top, bottom) = self.bounds(centre);
            let row = self.cursor_row();
            if row > top || row < bottom {
                self.cursor_ticks = row.clamp(bottom, top) * self.ticks_per_row();
            }
        }
    }

    /// Returns the price of the row under the cursor. `None` until a price is known.
    pub fn cursor_price(&self, instrument: &Instrument) -> Option<Value> {
        self.centre?;
        Some(instrument.price_at(self.cursor_row() * self.ticks_per_row()))
    }

    /// Returns the rows of the window from the top, and the index of the row under the cursor.
    pub fn rows(&self, instrument: &Instrument, book: &OrderBook, own: &[Order]) -> (Vec<LadderRow>, Option<usize>) {
        let Some(centre) = self.centre else { return (Vec::new(), None) };
        let per_row = self.ticks_per_row();
        let (top, bottom) = self.bounds(centre);
        let mut rows: Vec<LadderRow> = (bottom..=top)
            .rev()
            .map(|row| LadderRow { price: instrument.price_at(row.saturating_mul(per_row)), ..LadderRow::default() })
            .collect();
        let index = |row: i64| usize::try_from(top - row).ok().filter(|index| *index < rows.len());
        let bid_row = |price: Value| Some(ticks(price, instrument)?.div_euclid(per_row));
        // An offer belongs to the row at or above its price.
        let ask_row = |price: Value| Some(-(-ticks(price, instrument)?).div_euclid(per_row));
        let mut cells = Vec::new();
        for (price, amount) in book.bids() {
            let Some(row) = bid_row(price).filter(|row| *row >= bottom) else { break };
            cells.push((index(row), amount, Column::Bid));
        }
        for (price, amount) in book.asks() {
            let Some(row) = ask_row(price).filter(|row| *row <= top) else { break };
            cells.push((index(row), amount, Column::Ask));
        }
        for order in own.iter().filter(|order| order.instrument_name == instrument.name && order.is_open()) {
            let Some(price) = order.price.or(order.trigger_price) else { continue };
            let open = order.amount.minus(order.filled_amount);
            let is_buy = order.direction == "buy";
            let row = if is_buy { bid_row(price) } else { ask_row(price) };
            cells.push((row.and_then(&index), open, if is_buy { Column::OwnBid } else { Column::OwnAsk }));
        }
        for (index, amount, column) in cells {
            let Some(row) = index.and_then(|index| rows.get_mut(index)) else { continue };
            let cell = match column {
                Column::Bid => &mut row.bid,
                Column::Ask => &mut row.ask,
                Column::OwnBid => &mut row.own_bid,
                Column::OwnAsk => &mut row.own_ask,
            };
            *cell = cell.plus(amount);
        }
        let cursor = usize::try_from(top - self.cursor_row()).ok().filter(|index| *index < rows.len());
        (rows, cursor)
    }

    /// Returns the open own orders of the row under the cursor.
    pub fn own_at_cursor<'a>(&self, instrument: &Instrument, own: &'a [Order]) -> Vec<&'a Order> {
        let per_row = self.ticks_per_row();
        let is_here = |order: &&Order| {
            let price = order.price.or(order.trigger_price);
            let Some(ticks) = price.and_then(|price| ticks(price, instrument)) else { return false };
            let row = if order.direction == "buy" { ticks.div_euclid(per_row) } else { -(-ticks).div_euclid(per_row) };
            order.instrument_name == instrument.name && order.is_open() && row == self.cursor_row()
        };
        own.iter().filter(is_here).collect()
    }
}

#[derive(Clone, Copy)]
enum Column {
    Bid,
    Ask,
    OwnBid,
    OwnAsk,
}

/// Returns a price in ticks, rounded down. `None` if it is too far from zero to be shown.
fn ticks(price: Value, instrument: &Instrument) -> Option<i64> {
    price.steps(instrument.tick).filter(|ticks| (-FARTHEST_TICKS..=FARTHEST_TICKS).contains(ticks))
}

/// Returns the middle of the market in ticks: between the best prices, at the only one, or at the
/// last trade.
pub fn middle(instrument: &Instrument, book: &OrderBook, last: Option<Value>) -> Option<i64> {
    let ticks = |price: Option<Value>| price.and_then(|price| ticks(price, instrument));
    let bid = ticks(book.bids().next().map(|(price, _)| price));
    let ask = ticks(book.asks().next().map(|(price, _)| price));
    match (bid, ask) {
        (Some(bid), Some(ask)) => Some(bid + (ask - bid) / 2),
        (one, other) => one.or(other).or_else(|| ticks(last.filter(|price| !price.is_zero()))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::instrument::tests::share;

    pub fn book(bids: &[(f64, u32)], asks: &[(f64, u32)]) -> OrderBook {
        let side = |levels: &[(f64, u32)]| {
            let levels: Vec<String> =
                levels.iter().map(|(price, amount)| format!("[\"new\",{price},{amount}]")).collect();
            levels.join(",")
        };
        let text = format!("{{\"change_id\":1,\"bids\":[{}],\"asks\":[{}]}}", side(bids), side(asks));
        let mut book = OrderBook::default();
        book.apply(&RawValue::from_string(text).unwrap()).unwrap();
        book
    }

    pub fn order(id: &str, direction: &str, price: &str, amount: &str) -> Order {
        let text = format!(
            r#"{{"order_id":"{id}","instrument_name":"NPN_ZAR","direction":"{direction}","order_state":"open",
                "amount":{amount},"price":{price},"order_type":"limit","time_in_force":"good_til_cancelled",
                "queue_ahead":7,"last_update_timestamp":1}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn value(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    /// Returns the filled rows as price, bid, ask, own bid and own offer.
    fn filled(ladder: &Ladder, book: &OrderBook, own: &[Order]) -> Vec<[String; 5]> {
        let (rows, _) = ladder.rows(&share(), book, own);
        let is_filled = |row: &&LadderRow| *row != &LadderRow { price: row.price, ..LadderRow::default() };
        let texts = |row: &LadderRow| [row.price, row.bid, row.ask, row.own_bid, row.own_ask].map(|v| v.to_string());
        rows.iter().filter(is_filled).map(texts).collect()
    }

    #[test]
    fn bids_round_down_and_offers_round_up_to_their_row() {
        let market = book(&[(100.04, 3), (100.01, 5)], &[(100.06, 2), (100.11, 4)]);
        let mut ladder = Ladder::default();
        ladder.zoom(2);
        ladder.settle(10, middle(&share(), &market, None));
        let own = [order("1", "buy", "100.01", "5"), order("2", "sell", "100.11", "4")];
        assert_eq!(
            filled(&ladder, &market, &own),
            [
                ["100.15", "0", "4", "0", "4"].map(String::from),
                ["100.1", "0", "2", "0", "0"].map(String::from),
                ["100", "8", "0", "5", "0"].map(String::from),
            ]
        );
    }

    #[test]
    fn window_follows_the_market_only_out_of_its_middle_half() {
        let mut ladder = Ladder::default();
        ladder.settle(20, Some(1000));
        ladder.settle(20, Some(1005));
        let top = |ladder: &Ladder| ladder.rows(&share(), &OrderBook::default(), &[]).0[0].price;
        assert_eq!(top(&ladder), value("10.10"));
        ladder.settle(20, Some(1006));
        assert_eq!(top(&ladder), value("10.16"));
    }

    #[test]
    fn cursor_beyond_the_window_moves_and_fixes_it() {
        let mut ladder = Ladder::default();
        ladder.settle(11, Some(1000));
        ladder.move_cursor(-7);
        assert_eq!(ladder.cursor_price(&share()), Some(value("9.93")));
        assert!(ladder.is_fixed());
        let (rows, cursor) = ladder.rows(&share(), &OrderBook::default(), &[]);
        assert_eq!((rows.len(), cursor), (11, Some(10)));
        ladder.settle(11, Some(2000));
        assert_eq!(ladder.cursor_price(&share()), Some(value("9.93")), "a fixed window stays");
        ladder.centre();
        ladder.settle(11, Some(2000));
        assert_eq!(ladder.cursor_price(&share()), Some(value("20")));
    }

    #[test]
    fn cursor_never_goes_below_zero() {
        let mut ladder = Ladder::default();
        ladder.settle(10, Some(3));
        ladder.move_cursor(-100);
        assert_eq!(ladder.cursor_price(&share()), Some(Value::ZERO));
    }

    #[test]
    fn zoom_keeps_the_price_under_the_cursor() {
        let mut ladder = Ladder::default();
        ladder.settle(10, Some(12_345));
        for steps in [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1] {
            ladder.zoom(steps);
            let (rows, cursor) = ladder.rows(&share(), &OrderBook::default(), &[]);
            let price = ladder.cursor_price(&share()).unwrap();
            assert_eq!(rows[cursor.unwrap()].price, price);
            let height = share().price_at(ladder.ticks_per_row());
            assert!(price <= value("123.45") && price.plus(height) > value("123.45"), "{ladder:?}");
        }
        assert_eq!(ladder.cursor_price(&share()), Some(value("123.45")));
    }

    #[test]
    fn middle_needs_one_price_at_least() {
        let empty = OrderBook::default();
        assert_eq!(middle(&share(), &book(&[(10.0, 1)], &[(10.05, 1)]), None), Some(1002));
        assert_eq!(middle(&share(), &book(&[], &[(10.05, 1)]), None), Some(1005));
        assert_eq!(middle(&share(), &empty, Some(value("9"))), Some(900));
        assert_eq!(middle(&share(), &empty, Some(Value::ZERO)), None);
    }

    #[test]
    fn absurd_prices_are_left_out() {
        let instrument = share();
        let text = r#"{"change_id":1,"bids":[["new",-9e16,1],["new",9e16,1]],"asks":[["new",9e16,1],["new",9e18,1]]}"#;
        let mut absurd = OrderBook::default();
        absurd.apply(&RawValue::from_string(text.into()).unwrap()).unwrap();
        assert_eq!(middle(&instrument, &absurd, None), None);
        let mut ladder = Ladder::default();
        ladder.settle(10, Some(FARTHEST_TICKS));
        ladder.move_cursor(1_000);
        ladder.zoom(9);
        assert!(filled(&ladder, &absurd, &[order("1", "sell", "-9e16", "1")]).is_empty());
    }

    #[test]
    fn own_orders_are_found_at_the_cursor() {
        let mut ladder = Ladder::default();
        ladder.settle(11, Some(1000));
        let own = [order("1", "buy", "10", "5"), order("2", "sell", "10", "5"), order("3", "buy", "9.99", "5")];
        let ids = |ladder: &Ladder| -> Vec<String> {
            ladder.own_at_cursor(&share(), &own).into_iter().map(|order| order.order_id.clone()).collect()
        };
        assert_eq!(ids(&ladder), ["1", "2"]);
        ladder.move_cursor(-1);
        assert_eq!(ids(&ladder), ["3"]);
    }
}
