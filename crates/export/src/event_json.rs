//! Events as JSON, for every kind of event.
//!
//! Does        parse the `derive(Debug)` text of an event and write it as a name and a JSON object.
//! Holds       a new kind of event or a new field is exported without a change here.
//! Leaves out  conversions: fields have the names and the units (ticks, lots, nanoseconds) of
//!             crates/model.

use std::borrow::Cow;
use std::fmt::Write as _;

use pitwire_model::Event;

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

/// An event as a name and a JSON object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EventDescription {
    /// Name of the event in snake case.
    pub name: String,
    /// A JSON object.
    pub fields: String,
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

/// Describes an event. Returns `None` only if its `Debug` text does not come from `derive(Debug)`.
pub fn describe(event: &Event) -> Option<EventDescription> {
    let text = format!("{event:?}");
    let mut reader = DebugParser { text: &text };
    let node = reader.node()?;
    reader.text.is_empty().then(|| node.described())
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
    fn described(self) -> EventDescription {
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
        let mut description = EventDescription { name: snake(name).into_owned(), ..EventDescription::default() };
        for (name, node) in &fields {
            match *name {
                "instrument" => description.instrument = node.number(),
                "order" => description.order = node.number(),
                "account" => description.account = node.number(),
                _ => {}
            }
        }
        write_fields(&mut description.fields, None, &fields);
        description
    }

    fn number<N: std::str::FromStr>(&self) -> Option<N> {
        match self {
            DebugNode::Word(word) => word.parse().ok(),
            DebugNode::Tuple(_, items) => items.first().and_then(DebugNode::number),
            _ => None,
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            DebugNode::Word("None") => out.push_str("null"),
            DebugNode::Word(word @ ("true" | "false")) => out.push_str(word),
            DebugNode::Word(word) if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => out.push_str(word),
            DebugNode::Word(word) => write_text(out, &snake(word)),
            DebugNode::Text(text) => write_text(out, text),
            DebugNode::Tuple(name, items) => match items.as_slice() {
                [item] if TRANSPARENT.contains(name) => item.write(out),
                items => {
                    out.push('{');
                    write_text(out, &snake(name));
                    out.push(':');
                    write_list(out, items);
                    out.push('}');
                }
            },
            DebugNode::Struct("Decimal", fields) => write_text(out, &decimal(fields).unwrap_or_default()),
            DebugNode::Struct(name, fields) => write_fields(out, Some(name), fields),
            DebugNode::List(items) => write_array(out, items),
        }
    }
}

/// Writes a list. A single item is written without brackets.
fn write_list(out: &mut String, items: &[DebugNode<'_>]) {
    match items {
        [item] => item.write(out),
        items => write_array(out, items),
    }
}

fn write_array(out: &mut String, items: &[DebugNode<'_>]) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item.write(out);
    }
    out.push(']');
}

fn write_fields(out: &mut String, name: Option<&str>, fields: &[(&str, DebugNode<'_>)]) {
    out.push('{');
    if let Some(name) = name {
        out.push_str("\"is\":");
        write_text(out, &snake(name));
    }
    for (index, (key, node)) in fields.iter().enumerate() {
        if index > 0 || name.is_some() {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        node.write(out);
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
        AccountId, Decimal, Epoch, InstrumentId, KillScope, Label, Lots, OrderId, OrderType, Reject, Side, Ticks,
        TimeInForce,
    };

    #[test]
    fn a_time_in_force_is_written_without_its_fields() {
        assert_eq!(TimeInForce::ImmediateOrCancel.name(), "ioc");
        assert_eq!(TimeInForce::GoodTillTime { at: pitwire_model::VenueNanos(7) }.name(), "gtt");
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
                r#"{"order":7,"account":3,"instrument":1,"side":"buy","order_type":{"is":"limit","price":-5},"lots":9,"tif":"good_till_cancel","display":2}"#,
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
            let description = describe(&event).unwrap();
            assert_eq!((description.name.as_str(), description.fields.as_str()), (name, fields), "{event:?}");
            assert!(serde_json::from_str::<serde_json::Value>(fields).is_ok());
        }
    }

    #[test]
    fn order_account_and_instrument_are_extracted() {
        let description = describe(&Event::CancelRefused {
            order: OrderId(u64::MAX),
            account: AccountId(2),
            reason: Reject::UnknownOrder,
        });
        let description = description.unwrap();
        assert_eq!((description.order, description.account, description.instrument), (Some(u64::MAX), Some(2), None));
    }

    #[test]
    fn decimals_are_written_as_texts() {
        let text = format!("{:?}", (Decimal::new(5, 1), [InstrumentId(3)]));
        let mut out = String::new();
        DebugParser { text: &text }.node().unwrap().write(&mut out);
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
