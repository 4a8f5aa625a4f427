//! Trades and depth of one symbol in Binance's form: `S@trade` or `S@aggTrade`, and `S@depth`.
//!
//! Depth has levels, not orders, so orders are made for it by these rules:
//! 1. A level that grows gets an order at the end of its queue.
//! 2. A level that shrinks loses lots of its last orders.
//! 3. A trade takes the first orders of its level, and every better level of that side is cancelled
//!    before it: a trade at a worse price shows that they are gone.
//! 4. A level cancels the levels of the other side that it would trade with, for the same reason.
//!
//! Holds       without orders of the user, the book of the replay is that of the messages.
//! Start at    [`BinanceReader::message`], then [`BinanceReader::tape`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_failure::Failure;
use pitwire_model::{Decimal, Lots, Side, Ticks, VenueNanos};
use serde_json::Value;

use crate::tape::{RecordedTape, RecordedTrade, TapeAction, TapeStep};

/// Most decimals of a price or a quantity.
const MOST_DECIMALS: u8 = 18;
/// Form of the changes of a side.
const LEVELS: &str = r#"levels such as ["100.10","2.5"]"#;

/// A message of the symbol.
enum BinanceMessage {
    /// Changes of levels, bids before offers; whether earlier changes are missing.
    Depth { levels: Vec<(Side, Decimal, Decimal)>, has_gap: bool },
    /// The side is that of the resting order.
    Trade { maker: Side, price: Decimal, quantity: Decimal },
}

/// Reads messages into a tape.
pub struct BinanceReader {
    symbol: Option<String>,
    symbols: BTreeSet<String>,
    /// The kind of the first trade. Trades of the other kind repeat them and are ignored.
    trades: Option<String>,
    rows: Vec<(VenueNanos, BinanceMessage)>,
    last_update: Option<u64>,
    messages: u64,
}

fn unreadable(what: String) -> Failure {
    Failure::new(format!("cannot read the recording: {what}"))
        .remedy("record S@trade and S@depth of a symbol in Binance's form with `pitwire tape record`")
}

impl BinanceReader {
    /// Starts to read the messages of one symbol. `None` is for a recording with one symbol.
    pub fn new(symbol: Option<&str>) -> BinanceReader {
        BinanceReader {
            symbol: symbol.map(str::to_uppercase),
            symbols: BTreeSet::new(),
            trades: None,
            rows: Vec::new(),
            last_update: None,
            messages: 0,
        }
    }

    /// Takes a message with the time of its arrival. Messages of other streams are ignored.
    ///
    /// # Errors
    ///
    /// Returns a failure with the number of a message that is not JSON, or has a field that is
    /// missing or malformed, with the name of the field.
    pub fn message(&mut self, at: VenueNanos, text: &[u8]) -> Result<(), Failure> {
        self.messages += 1;
        let number = self.messages;
        let message: Value =
            serde_json::from_slice(text).map_err(|error| unreadable(format!("message {number}: {error}")))?;
        let event = message.get("data").unwrap_or(&message);
        let (Some(kind), Some(symbol)) = (event["e"].as_str(), event["s"].as_str()) else { return Ok(()) };
        if !matches!(kind, "trade" | "aggTrade" | "depthUpdate") {
            return Ok(());
        }
        self.symbols.insert(symbol.to_owned());
        if self.symbol.as_deref().is_some_and(|wanted| wanted != symbol.to_uppercase()) {
            return Ok(());
        }
        let malformed = |what: String| unreadable(format!("message {number} ({kind}): {what}"));
        let row = if kind == "depthUpdate" {
            self.depth(event).map_err(malformed)?
        } else if self.trades.get_or_insert_with(|| kind.to_owned()) == kind {
            trade(event).map_err(malformed)?
        } else {
            return Ok(());
        };
        self.rows.push((at, row));
        Ok(())
    }

    fn depth(&mut self, event: &Value) -> Result<BinanceMessage, String> {
        let number = |name: &str| event[name].as_u64().ok_or_else(|| unexpected(event, name, "a whole number"));
        let (first, last) = (number("U")?, number("u")?);
        let has_gap = self.last_update.is_some_and(|before| first > before.saturating_add(1));
        self.last_update = Some(last);
        let mut levels = Vec::new();
        for (side, name) in [(Side::Buy, "b"), (Side::Sell, "a")] {
            let changes = event[name].as_array().ok_or_else(|| unexpected(event, name, LEVELS))?;
            for level in changes {
                let numbers = decimal(&level[0]).zip(decimal(&level[1]));
                let (price, quantity) =
                    numbers.ok_or_else(|| format!("{name:?} has the level {level}, expected {LEVELS}"))?;
                levels.push((side, price, quantity));
            }
        }
        Ok(BinanceMessage::Depth { levels, has_gap })
    }

    /// Returns the tape of the symbol. Prices are in units of the last decimal that any of them
    /// has, and so are quantities.
    ///
    /// # Errors
    ///
    /// Returns a failure if the symbol has no messages, or the recording has several symbols and
    /// none was named, or a number is out of range.
    pub fn tape(self) -> Result<RecordedTape, Failure> {
        let names = || self.symbols.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if self.symbol.is_none() && self.symbols.len() > 1 {
            return Err(Failure::usage("the recording has several symbols, and --instrument names none")
                .remedy(format!("give one of {}", names())));
        }
        if self.rows.is_empty() {
            let what = match &self.symbol {
                Some(symbol) => format!("it has no trade and no depth of {symbol:?}"),
                None => "it has no trade and no depth".into(),
            };
            let failure = unreadable(what);
            return Err(if self.symbols.is_empty() {
                failure
            } else {
                failure.remedy(format!("give one of {}", names()))
            });
        }
        let (mut price_scale, mut lot_scale) = (0, 0);
        for (_, row) in &self.rows {
            let one;
            let numbers = match row {
                BinanceMessage::Depth { levels, .. } => levels,
                BinanceMessage::Trade { maker, price, quantity } => {
                    one = vec![(*maker, *price, *quantity)];
                    &one
                }
            };
            for (_, price, quantity) in numbers {
                price_scale = price_scale.max(significant(*price));
                lot_scale = lot_scale.max(significant(*quantity));
            }
        }
        let mut book = MadeBook { price_scale, lot_scale, ..MadeBook::default() };
        for (at, row) in &self.rows {
            book.at = *at;
            book.take(row)?;
        }
        Ok(RecordedTape { units: Some([price_scale, lot_scale].map(|scale| Decimal::new(1, scale))), ..book.tape })
    }
}

fn decimal(value: &Value) -> Option<Decimal> {
    let found = Decimal::parse(value.as_str()?).ok()?;
    (found.mantissa >= 0 && found.scale <= MOST_DECIMALS).then_some(found)
}

fn trade(event: &Value) -> Result<BinanceMessage, String> {
    let number = |name: &str| {
        decimal(&event[name]).ok_or_else(|| unexpected(event, name, "a number of at most 18 decimals in quotes"))
    };
    let is_buyer_maker = event["m"].as_bool().ok_or_else(|| unexpected(event, "m", "true or false"))?;
    let maker = if is_buyer_maker { Side::Buy } else { Side::Sell };
    Ok(BinanceMessage::Trade { maker, price: number("p")?, quantity: number("q")? })
}

/// Describes the fault of a field of a message.
fn unexpected(event: &Value, name: &str, expected: &str) -> String {
    match event.get(name) {
        Some(value) => format!("the field {name:?} is {value}, expected {expected}"),
        None => format!("it has no field {name:?}, expected {expected}"),
    }
}

/// Returns the number of decimals without zeros at the end.
fn significant(value: Decimal) -> u8 {
    let Decimal { mut mantissa, mut scale } = value;
    while scale > 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale -= 1;
    }
    scale
}

/// Returns a value in units of the decimal `scale`.
fn units(value: Decimal, scale: u8) -> Option<u64> {
    let whole = if value.scale > scale {
        value.mantissa / 10_i128.checked_pow(u32::from(value.scale - scale))?
    } else {
        value.mantissa.checked_mul(10_i128.checked_pow(u32::from(scale - value.scale))?)?
    };
    u64::try_from(whole).ok()
}

/// Orders of one price: id and open lots, first in the queue first.
type Queue = VecDeque<(u64, u64)>;

/// The book of the messages, with orders that are made for its levels.
#[derive(Default)]
struct MadeBook {
    price_scale: u8,
    lot_scale: u8,
    at: VenueNanos,
    bids: BTreeMap<i64, Queue>,
    asks: BTreeMap<i64, Queue>,
    last_id: u64,
    tape: RecordedTape,
}

impl MadeBook {
    fn side(&mut self, side: Side) -> &mut BTreeMap<i64, Queue> {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    fn step(&mut self, action: TapeAction, trades: Vec<RecordedTrade>) {
        self.tape.steps.push(TapeStep { at: self.at, action, trades });
    }

    fn price(&self, price: Decimal) -> Result<i64, Failure> {
        let found = units(price, self.price_scale).and_then(|ticks| i64::try_from(ticks).ok());
        found.filter(|ticks| (1..=Ticks::MAX_PRICE.0).contains(ticks)).ok_or_else(|| {
            unreadable(format!("the price {price} is not 1 to {} in units of its last decimal", Ticks::MAX_PRICE.0))
        })
    }

    fn lots(&self, quantity: Decimal) -> Result<u64, Failure> {
        let found = units(quantity, self.lot_scale).filter(|lots| *lots <= Lots::MAX_ORDER.0);
        found.ok_or_else(|| {
            unreadable(format!("{quantity} has more than {} units of its last decimal", Lots::MAX_ORDER.0))
        })
    }

    fn take(&mut self, row: &BinanceMessage) -> Result<(), Failure> {
        match row {
            BinanceMessage::Trade { maker, price, quantity } => {
                let (price, lots) = (self.price(*price)?, self.lots(*quantity)?);
                self.trade(*maker, price, lots);
            }
            BinanceMessage::Depth { levels, has_gap } => {
                self.tape.unsupported += u64::from(*has_gap);
                let mut grown = Vec::new();
                for (side, price, quantity) in levels {
                    let (price, lots) = (self.price(*price)?, self.lots(*quantity)?);
                    let open = self.side(*side).get(&price).map_or(0, |queue| queue.iter().map(|(_, lots)| lots).sum());
                    if lots < open {
                        self.shrink(*side, price, open - lots);
                    } else if lots > open {
                        grown.push((*side, price, lots - open));
                    }
                }
                for (side, price, lots) in grown {
                    self.clear_through(side.opposite(), price, true);
                    self.last_id += 1;
                    let id = self.last_id;
                    self.side(side).entry(price).or_default().push_back((id, lots));
                    let action =
                        TapeAction::Enter { id, side, price: Some(Ticks(price)), lots: Lots(lots), rests: true };
                    self.step(action, Vec::new());
                }
            }
        }
        Ok(())
    }

    /// Cancels the orders of a side at better prices than `price`, and at it if `inclusive`.
    fn clear_through(&mut self, side: Side, price: i64, inclusive: bool) {
        let goes = |level: i64| match side {
            Side::Buy => level > price || inclusive && level == price,
            Side::Sell => level < price || inclusive && level == price,
        };
        let gone: Vec<i64> = self.side(side).keys().copied().filter(|level| goes(*level)).collect();
        for level in gone {
            for (id, _) in self.side(side).remove(&level).unwrap_or_default() {
                self.step(TapeAction::Delete { id }, Vec::new());
            }
        }
    }

    fn shrink(&mut self, side: Side, price: i64, mut lots: u64) {
        while lots > 0 {
            let Some(queue) = self.side(side).get_mut(&price) else { return };
            let Some((id, open)) = queue.pop_back() else { break };
            if open > lots {
                queue.push_back((id, open - lots));
                self.step(TapeAction::Reduce { id, lots: Lots(lots) }, Vec::new());
                return;
            }
            lots -= open;
            self.step(TapeAction::Delete { id }, Vec::new());
        }
        self.forget_empty(side, price);
    }

    fn trade(&mut self, maker: Side, price: i64, mut lots: u64) {
        self.clear_through(maker, price, false);
        while lots > 0 {
            let Some(front) = self.side(maker).get_mut(&price).and_then(VecDeque::front_mut) else { break };
            let taken = front.1.min(lots);
            let id = front.0;
            front.1 -= taken;
            let is_gone = front.1 == 0;
            if is_gone && let Some(queue) = self.side(maker).get_mut(&price) {
                queue.pop_front();
            }
            lots -= taken;
            let trade = RecordedTrade { maker: id, price: Ticks(price), lots: Lots(taken) };
            let action = TapeAction::Take { maker: id, side: maker.opposite(), price: Ticks(price), lots: Lots(taken) };
            self.step(action, vec![trade]);
        }
        self.tape.hidden_trades += u64::from(lots > 0);
        self.forget_empty(maker, price);
    }

    fn forget_empty(&mut self, side: Side, price: i64) {
        if self.side(side).get(&price).is_some_and(VecDeque::is_empty) {
            self.side(side).remove(&price);
        }
    }
}
