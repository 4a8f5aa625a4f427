//! Events as JSON, for every kind of event.
//!
//! Does        parse the `derive(Debug)` text of an event and write it as a name and a JSON object.
//!             The five most frequent kinds are written directly, which takes a tenth of the time.
//! Holds       1. a new kind of event or a new field is exported without a change here;
//!             2. times in force, sessions and reasons have the words of scenarios.
//! Leaves out  conversions: fields have the names and the units (ticks, lots, nanoseconds) of
//!             crates/model.

use std::borrow::Cow;
use std::fmt::Write as _;

use pitwire_model::{CancelReason, Event, OrderType, Side, TimeInForce, TradeKind};

/// Tuple types that are written as the value that they contain.
const TRANSPARENT: &[&str] = &[
    "Some",
    "Label",
    "Ticks",
    "Lots",
    "VenueNanos",
    "Seq",
    "OrderId",
    "TradeSeq",
    "Epoch",
    "AccountId",
    "InstrumentId",
    "CurrencyId",
    "SessionId",
];

/// Times in force: the name in the code, and the word of scenarios.
const TIMES_IN_FORCE: &[(&str, &str)] = &[
    ("Day", "day"),
    ("GoodTillCancel", "gtc"),
    ("GoodTillDate", "gtd"),
    ("GoodTillTime", "gtt"),
    ("ImmediateOrCancel", "ioc"),
    ("FillOrKill", "fok"),
    ("OpeningCall", "opg"),
    ("AnyCall", "gfa"),
    ("IntradayCall", "gfx"),
    ("ClosingCall", "atc"),
    ("ClosingCross", "cpx"),
];
/// Sessions and reasons for which the word of scenarios is not the name in the code.
const WORDS: &[(&str, &str)] = &[
    ("Halted", "halt"),
    ("OpeningCall", "opening_auction"),
    ("FcoCall", "fco_auction"),
    ("VolatilityCall", "volatility_auction"),
    ("IntradayCall", "intraday_auction"),
    ("ClosingCall", "closing_auction"),
    ("ReopeningCall", "reopening_auction"),
    ("CallEnded", "auction_ended"),
];

/// Returns the word for a value of the field `key`.
fn word<'a>(key: &str, name: &'a str) -> Cow<'a, str> {
    let words = if key == "tif" { TIMES_IN_FORCE } else { WORDS };
    match words.iter().find(|(code, _)| *code == name) {
        Some((_, word)) => Cow::Borrowed(word),
        None => snake(name),
    }
}

/// The columns of an event besides its fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EventHead {
    /// Name of the event in snake case.
    pub name: Cow<'static, str>,
    pub instrument: Option<u32>,
    pub order: Option<u64>,
    pub account: Option<u32>,
}

/// A part of a `Debug` text.
#[derive(Debug, PartialEq)]
enum DebugNode<'a> {
    /// A number, a truth value, or a name without fields.
    Word(&'a str),
    Text(String),
    Tuple(&'a str, Vec<DebugNode<'a>>),
    Struct(&'a str, Vec<(&'a str, DebugNode<'a>)>),
    List(Vec<DebugNode<'a>>),
}

/// Appends the fields of an event as a JSON object. Returns `None` only if its `Debug` text does
/// not come from `derive(Debug)`.
pub fn describe(event: &Event, fields: &mut String) -> Option<EventHead> {
    frequent(event, fields).or_else(|| parsed(event, fields))
}

/// Describes an event by its `Debug` text.
fn parsed(event: &Event, fields: &mut String) -> Option<EventHead> {
    let text = format!("{event:?}");
    let mut reader = DebugParser { text: &text };
    let node = reader.node()?;
    reader.text.is_empty().then(|| node.described(fields))
}

/// Describes an event of a frequent kind as [`parsed`] does. Returns `None` for all others and
/// writes nothing then.
fn frequent(event: &Event, fields: &mut String) -> Option<EventHead> {
    let side_word = |side| match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    };
    let (name, instrument, order, account) = match event {
        Event::Level { instrument, side, price, lots } => {
            put(fields, r#"{"instrument":"#, instrument.0);
            put_word(fields, r#","side":""#, side_word(*side));
            put(fields, r#"","price":"#, price.0);
            put(fields, r#","lots":"#, lots.0);
            ("level", Some(*instrument), None, None)
        }
        Event::BookChanged { instrument, change_id } => {
            put(fields, r#"{"instrument":"#, instrument.0);
            put(fields, r#","change_id":"#, *change_id);
            ("book_changed", Some(*instrument), None, None)
        }
        Event::Accepted { order, account, instrument, side, order_type, lots, tif, display: None } => {
            if matches!(tif, TimeInForce::GoodTillDate { .. } | TimeInForce::GoodTillTime { .. }) {
                return None;
            }
            let price = match order_type {
                OrderType::Limit { price } => Some(price.0),
                OrderType::Market => None,
                _ => return None,
            };
            put(fields, r#"{"order":"#, order.0);
            put(fields, r#","account":"#, account.0);
            put(fields, r#","instrument":"#, instrument.0);
            put_word(fields, r#","side":""#, side_word(*side));
            match price {
                Some(price) => {
                    put(fields, r#"","order_type":{"is":"limit","price":"#, price);
                    fields.push('}');
                }
                None => fields.push_str(r#"","order_type":"market""#),
            }
            put(fields, r#","lots":"#, lots.0);
            put_word(fields, r#","tif":""#, tif.name());
            fields.push_str(r#"","display":null"#);
            ("accepted", Some(*instrument), Some(*order), Some(*account))
        }
        Event::Cancelled { order, account, instrument, side, price, open, reason } => {
            let reason = match reason {
                CancelReason::Requested => "requested",
                CancelReason::ImmediateRemainder => "immediate_remainder",
                _ => return None,
            };
            put(fields, r#"{"order":"#, order.0);
            put(fields, r#","account":"#, account.0);
            put(fields, r#","instrument":"#, instrument.0);
            put_word(fields, r#","side":""#, side_word(*side));
            put(fields, r#"","price":"#, price.0);
            put(fields, r#","open":"#, open.0);
            put_word(fields, r#","reason":""#, reason);
            fields.push('"');
            ("cancelled", Some(*instrument), Some(*order), Some(*account))
        }
        Event::Trade {
            instrument,
            trade_seq,
            price,
            lots,
            taker_side,
            maker,
            maker_account,
            maker_open,
            taker,
            taker_account,
            taker_open,
            kind: TradeKind::Continuous,
        } => {
            put(fields, r#"{"instrument":"#, instrument.0);
            put(fields, r#","trade_seq":"#, trade_seq.0);
            put(fields, r#","price":"#, price.0);
            put(fields, r#","lots":"#, lots.0);
            put_word(fields, r#","taker_side":""#, side_word(*taker_side));
            put(fields, r#"","maker":"#, maker.0);
            put(fields, r#","maker_account":"#, maker_account.0);
            put(fields, r#","maker_open":"#, maker_open.0);
            put(fields, r#","taker":"#, taker.0);
            put(fields, r#","taker_account":"#, taker_account.0);
            put(fields, r#","taker_open":"#, taker_open.0);
            fields.push_str(r#","kind":"continuous""#);
            ("trade", Some(*instrument), None, None)
        }
        _ => return None,
    };
    fields.push('}');
    Some(EventHead {
        name: Cow::Borrowed(name),
        instrument: instrument.map(|id| id.0),
        order: order.map(|id| id.0),
        account: account.map(|id| id.0),
    })
}

/// Appends `before` and a number.
fn put(fields: &mut String, before: &str, number: impl itoa::Integer) {
    fields.push_str(before);
    fields.push_str(itoa::Buffer::new().format(number));
}

/// Appends `before` and a word that needs no escapes.
fn put_word(fields: &mut String, before: &str, word: &str) {
    fields.push_str(before);
    fields.push_str(word);
}

/// Parses a `Debug` text from left to right.
struct DebugParser<'a> {
    text: &'a str,
}

impl<'a> DebugParser<'a> {
    fn node(&mut self) -> Option<DebugNode<'a>> {
        match self.text.as_bytes().first()? {
            b'"' => self.quoted().map(DebugNode::Text),
            b'[' => self.list('[', ']').map(DebugNode::List),
            b'(' => self.list('(', ')').map(DebugNode::List),
            _ => {
                let name = self.word()?;
                if self.text.starts_with('(') {
                    return self.list('(', ')').map(|items| DebugNode::Tuple(name, items));
                }
                if self.take(" { ") {
                    self.fields().map(|fields| DebugNode::Struct(name, fields))
                } else {
                    Some(DebugNode::Word(name))
                }
            }
        }
    }

    fn take(&mut self, expected: &str) -> bool {
        match self.text.strip_prefix(expected) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let end = self.text.find(|c| !is_word(c)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at_checked(end).filter(|(word, _)| !word.is_empty())?;
        self.text = rest;
        Some(word)
    }

    fn fields(&mut self) -> Option<Vec<(&'a str, DebugNode<'a>)>> {
        let mut fields = Vec::new();
        loop {
            let name = self.word()?;
            if !self.take(": ") {
                return None;
            }
            fields.push((name, self.node()?));
            if self.take(" }") {
                return Some(fields);
            }
            if !self.take(", ") {
                return None;
            }
        }
    }

    fn list(&mut self, open: char, close: char) -> Option<Vec<DebugNode<'a>>> {
        self.text = self.text.strip_prefix(open)?;
        let mut items = Vec::new();
        loop {
            if let Some(rest) = self.text.strip_prefix(close) {
                self.text = rest;
                return Some(items);
            }
            if !items.is_empty() && !self.take(", ") {
                return None;
            }
            items.push(self.node()?);
        }
    }

    /// Parses a Rust string literal.
    fn quoted(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut chars = self.text.char_indices().skip(1);
        loop {
            match chars.next()? {
                (at, '"') => {
                    self.text = self.text.get(at + 1..)?;
                    return Some(out);
                }
                (_, '\\') => out.push(match chars.next()?.1 {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    '0' => '\0',
                    'u' => {
                        let digits: String = chars.by_ref().skip(1).map(|(_, c)| c).take_while(|c| *c != '}').collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                    }
                    other => other,
                }),
                (_, other) => out.push(other),
            }
        }
    }
}

impl DebugNode<'_> {
    fn described(self, out: &mut String) -> EventHead {
        let (name, fields) = match self {
            DebugNode::Struct(name, fields) => (name, fields),
            // A variant that wraps one struct has the fields of that struct.
            DebugNode::Tuple(name, mut items) => match items.pop() {
                Some(DebugNode::Struct(_, fields)) => (name, fields),
                Some(item) => (name, vec![("value", item)]),
                None => (name, Vec::new()),
            },
            DebugNode::Word(name) => (name, Vec::new()),
            DebugNode::Text(_) | DebugNode::List(_) => ("", Vec::new()),
        };
        let mut head = EventHead { name: Cow::Owned(snake(name).into_owned()), ..EventHead::default() };
        for (name, node) in &fields {
            match *name {
                "instrument" => head.instrument = node.number(),
                "order" => head.order = node.number(),
                "account" => head.account = node.number(),
                _ => {}
            }
        }
        write_fields(out, None, &fields);
        head
    }

    fn number<N: std::str::FromStr>(&self) -> Option<N> {
        match self {
            DebugNode::Word(word) => word.parse().ok(),
            DebugNode::Tuple(_, items) => items.first().and_then(DebugNode::number),
            _ => None,
        }
    }

    /// Appends the value of the field `key`.
    fn write(&self, out: &mut String, key: &str) {
        match self {
            DebugNode::Word("None") => out.push_str("null"),
            DebugNode::Word(word @ ("true" | "false")) => out.push_str(word),
            DebugNode::Word(word) if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => out.push_str(word),
            DebugNode::Word(name) => write_text(out, &word(key, name)),
            DebugNode::Text(text) => write_text(out, text),
            DebugNode::Tuple(name, items) => match items.as_slice() {
                [item] if TRANSPARENT.contains(name) => item.write(out, key),
                items => {
                    out.push('{');
                    write_text(out, &word(key, name));
                    out.push(':');
                    write_list(out, items);
                    out.push('}');
                }
            },
            DebugNode::Struct("Decimal", fields) => write_text(out, &decimal(fields).unwrap_or_default()),
            DebugNode::Struct(name, fields) => write_fields(out, Some(&word(key, name)), fields),
            DebugNode::List(items) => write_array(out, items),
        }
    }
}

/// Writes a list. A single item is written without brackets.
fn write_list(out: &mut String, items: &[DebugNode<'_>]) {
    match items {
        [item] => item.write(out, ""),
        items => write_array(out, items),
    }
}

fn write_array(out: &mut String, items: &[DebugNode<'_>]) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item.write(out, "");
    }
    out.push(']');
}

fn write_fields(out: &mut String, name: Option<&str>, fields: &[(&str, DebugNode<'_>)]) {
    out.push('{');
    if let Some(name) = name {
        out.push_str("\"is\":");
        write_text(out, name);
    }
    for (index, (key, node)) in fields.iter().enumerate() {
        if index > 0 || name.is_some() {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        node.write(out, key);
    }
    out.push('}');
}

/// Formats the fields of a `Decimal` as a decimal number.
fn decimal(fields: &[(&str, DebugNode<'_>)]) -> Option<String> {
    let field = |name| fields.iter().find(|(key, _)| *key == name).map(|(_, node)| node);
    let (mantissa, scale) = (field("mantissa")?.number()?, field("scale")?.number()?);
    Some(pitwire_model::Decimal::new(mantissa, scale).to_string())
}

fn snake(name: &str) -> Cow<'_, str> {
    if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len() + 4);
    for (index, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    Cow::Owned(out)
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        // Writing into a String cannot fail.
        let _ = match c {
            '"' => write!(out, "\\\""),
            '\\' => write!(out, "\\\\"),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::{
        AccountId, Decimal, Epoch, InstrumentId, KillScope, Label, Lots, OrderId, Phase, Reject, SessionReason, Ticks,
        TradeSeq, VenueNanos,
    };

    #[test]
    fn a_time_in_force_is_written_without_its_fields() {
        assert_eq!(TimeInForce::ImmediateOrCancel.name(), "ioc");
        assert_eq!(TimeInForce::GoodTillTime { at: VenueNanos(7) }.name(), "gtt");
    }

    #[test]
    fn every_shape_of_an_event_becomes_json() {
        let accepted = Event::Accepted {
            order: OrderId(7),
            account: AccountId(3),
            instrument: InstrumentId(1),
            side: Side::Buy,
            order_type: OrderType::Limit { price: Ticks(-5) },
            lots: Lots(9),
            tif: TimeInForce::GoodTillCancel,
            display: Some(Lots(2)),
        };
        let table = [
            (Event::WindowClosed, "window_closed", "{}"),
            (Event::EpochStarted { epoch: Epoch(4) }, "epoch_started", r#"{"epoch":4}"#),
            (
                accepted,
                "accepted",
                r#"{"order":7,"account":3,"instrument":1,"side":"buy","order_type":{"is":"limit","price":-5},"lots":9,"tif":"gtc","display":2}"#,
            ),
            (
                Event::Rejected { order: OrderId(1), account: AccountId(2), reason: Reject::NotEnoughFunds },
                "rejected",
                r#"{"order":1,"account":2,"reason":"not_enough_funds"}"#,
            ),
            (
                Event::Killed {
                    scope: KillScope::Account(AccountId(5)),
                    cancelled: 2,
                    reason: Label::new("a \"b\"\n{ x: 1 }, ü\u{1b}").unwrap(),
                },
                "killed",
                "{\"scope\":{\"account\":5},\"cancelled\":2,\"reason\":\"a \\\"b\\\"\\u000a{ x: 1 }, ü\\u001b\"}",
            ),
            (
                Event::Killed { scope: KillScope::Venue, cancelled: 0, reason: Label::NONE },
                "killed",
                r#"{"scope":"venue","cancelled":0,"reason":null}"#,
            ),
        ];
        for (event, name, fields) in table {
            let mut written = String::new();
            let head = describe(&event, &mut written).unwrap();
            assert_eq!((&*head.name, written.as_str()), (name, fields), "{event:?}");
            assert!(serde_json::from_str::<serde_json::Value>(fields).is_ok());
        }
    }

    #[test]
    fn frequent_events_are_written_as_their_debug_text_says() {
        let (order, account, instrument, side) = (OrderId(7), AccountId(3), InstrumentId(1), Side::Sell);
        let accepted = |order_type, tif, display| Event::Accepted {
            order,
            account,
            instrument,
            side,
            order_type,
            lots: Lots(9),
            tif,
            display,
        };
        let limit = OrderType::Limit { price: Ticks(-5) };
        let cancelled =
            |reason| Event::Cancelled { order, account, instrument, side, price: Ticks(8), open: Lots(2), reason };
        let trade = |kind| Event::Trade {
            instrument,
            trade_seq: TradeSeq(4),
            price: Ticks(8),
            lots: Lots(2),
            taker_side: side,
            maker: OrderId(5),
            maker_account: AccountId(6),
            maker_open: Lots(0),
            taker: order,
            taker_account: account,
            taker_open: Lots(1),
            kind,
        };
        let mut direct = 0;
        for event in [
            Event::Level { instrument, side, price: Ticks(-5), lots: Lots(0) },
            Event::BookChanged { instrument, change_id: u64::MAX },
            accepted(limit, TimeInForce::GoodTillCancel, None),
            accepted(OrderType::Market, TimeInForce::ImmediateOrCancel, None),
            accepted(limit, TimeInForce::Day, Some(Lots(2))),
            accepted(limit, TimeInForce::GoodTillTime { at: VenueNanos(7) }, None),
            accepted(OrderType::Stop { stop: Ticks(1) }, TimeInForce::ClosingCall, None),
            cancelled(CancelReason::Requested),
            cancelled(CancelReason::ImmediateRemainder),
            cancelled(CancelReason::SelfMatch),
            trade(TradeKind::Continuous),
            trade(TradeKind::Call(Phase::OpeningCall)),
        ] {
            let (mut quick, mut slow) = (String::new(), String::new());
            let expected = parsed(&event, &mut slow).unwrap();
            match frequent(&event, &mut quick) {
                Some(head) => {
                    assert_eq!((head, quick), (expected, slow), "{event:?}");
                    direct += 1;
                }
                None => assert_eq!(quick, "", "{event:?}"),
            }
        }
        assert_eq!(direct, 7);
    }

    #[test]
    fn sessions_times_in_force_and_reasons_have_the_words_of_scenarios() {
        for phase in Phase::ALL {
            assert_eq!(word("to", &format!("{phase:?}")), phase.name());
        }
        for tif in [
            TimeInForce::Day,
            TimeInForce::GoodTillCancel,
            TimeInForce::ImmediateOrCancel,
            TimeInForce::FillOrKill,
            TimeInForce::OpeningCall,
            TimeInForce::AnyCall,
            TimeInForce::IntradayCall,
            TimeInForce::ClosingCall,
            TimeInForce::ClosingCross,
        ] {
            assert_eq!(word("tif", &format!("{tif:?}")), tif.name());
        }
        assert_eq!(word("reason", "CallEnded"), "auction_ended");
        for (event, fields) in [
            (
                Event::SessionChanged {
                    instrument: InstrumentId(1),
                    from: Phase::StartOfTrading,
                    to: Phase::OpeningCall,
                    reason: SessionReason::Scheduled,
                    ends: None,
                },
                r#"{"instrument":1,"from":"start_of_trading","to":"opening_auction","reason":"scheduled","ends":null}"#,
            ),
            (
                Event::Accepted {
                    order: OrderId(7),
                    account: AccountId(3),
                    instrument: InstrumentId(1),
                    side: Side::Buy,
                    order_type: OrderType::Market,
                    lots: Lots(9),
                    tif: TimeInForce::GoodTillTime { at: VenueNanos(5) },
                    display: None,
                },
                r#"{"order":7,"account":3,"instrument":1,"side":"buy","order_type":"market","lots":9,"tif":{"is":"gtt","at":5},"display":null}"#,
            ),
        ] {
            let mut written = String::new();
            describe(&event, &mut written).unwrap();
            assert_eq!(written, fields);
        }
    }

    #[test]
    fn order_account_and_instrument_are_extracted() {
        let event =
            Event::CancelRefused { order: OrderId(u64::MAX), account: AccountId(2), reason: Reject::UnknownOrder };
        let head = describe(&event, &mut String::new()).unwrap();
        assert_eq!((head.order, head.account, head.instrument), (Some(u64::MAX), Some(2), None));
    }

    #[test]
    fn decimals_are_written_as_texts() {
        let text = format!("{:?}", (Decimal::new(5, 1), [InstrumentId(3)]));
        let mut out = String::new();
        DebugParser { text: &text }.node().unwrap().write(&mut out, "");
        assert_eq!(out, r#"["0.5",[3]]"#);
    }

    #[test]
    fn a_truncated_text_is_refused() {
        for text in ["", "A {", "A { x: 1", "A(", "A(1", "\"a", "\"\\u{d800}\"", "[1 2]", "A { x 1 }"] {
            let mut reader = DebugParser { text };
            assert!(reader.node().is_none() || !reader.text.is_empty(), "{text:?}");
        }
    }
}
