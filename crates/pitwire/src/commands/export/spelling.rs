//! Events as JSON, whatever events there are.
//!
//! Does        read the text that `derive(Debug)` gives an event and write it as a name and a JSON object.
//! Holds       a new kind of event, or a new field of one, is exported without a line being written here.
//! Leaves out  meaning: fields have the names and the units (ticks, lots, nanoseconds) of crates/model.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};

use pitwire_model::Event;

/// Numbers with names, and what merely says that something is there: told as what they hold.
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

/// One event, spelled out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spelled {
    /// In snake case.
    pub name: String,
    /// A JSON object.
    pub fields: String,
    pub instrument: Option<u32>,
    pub order: Option<u64>,
    pub account: Option<u32>,
}

#[derive(Debug, PartialEq)]
enum Node<'a> {
    /// A number, a truth value, or a name without fields.
    Word(&'a str),
    Text(String),
    Tuple(&'a str, Vec<Node<'a>>),
    Struct(&'a str, Vec<(&'a str, Node<'a>)>),
    List(Vec<Node<'a>>),
}

/// `None` only for a text that `derive(Debug)` cannot have written.
pub fn spell(event: &Event) -> Option<Spelled> {
    let text = format!("{event:?}");
    let mut reader = Reader { text: &text };
    let node = reader.node()?;
    reader.text.is_empty().then(|| node.spelled())
}

/// A name without fields, as the same thing is spelled inside an event.
pub fn word(name: &impl Debug) -> String {
    snake(&format!("{name:?}")).into_owned()
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn node(&mut self) -> Option<Node<'a>> {
        match self.text.as_bytes().first()? {
            b'"' => self.quoted().map(Node::Text),
            b'[' => self.list('[', ']').map(Node::List),
            b'(' => self.list('(', ')').map(Node::List),
            _ => {
                let name = self.word()?;
                if self.text.starts_with('(') {
                    return self.list('(', ')').map(|items| Node::Tuple(name, items));
                }
                if self.take(" { ") {
                    self.fields().map(|fields| Node::Struct(name, fields))
                } else {
                    Some(Node::Word(name))
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

    fn fields(&mut self) -> Option<Vec<(&'a str, Node<'a>)>> {
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

    fn list(&mut self, open: char, close: char) -> Option<Vec<Node<'a>>> {
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

    /// A Rust string literal.
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

impl Node<'_> {
    fn spelled(self) -> Spelled {
        let (name, fields) = match self {
            Node::Struct(name, fields) => (name, fields),
            // A kind that wraps one struct has that struct's fields.
            Node::Tuple(name, mut items) => match items.pop() {
                Some(Node::Struct(_, fields)) => (name, fields),
                Some(item) => (name, vec![("value", item)]),
                None => (name, Vec::new()),
            },
            Node::Word(name) => (name, Vec::new()),
            Node::Text(_) | Node::List(_) => ("", Vec::new()),
        };
        let mut spelled = Spelled { name: snake(name).into_owned(), ..Spelled::default() };
        for (name, node) in &fields {
            match *name {
                "instrument" => spelled.instrument = node.number(),
                "order" => spelled.order = node.number(),
                "account" => spelled.account = node.number(),
                _ => {}
            }
        }
        write_fields(&mut spelled.fields, None, &fields);
        spelled
    }

    fn number<N: std::str::FromStr>(&self) -> Option<N> {
        match self {
            Node::Word(word) => word.parse().ok(),
            Node::Tuple(_, items) => items.first().and_then(Node::number),
            _ => None,
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Node::Word("None") => out.push_str("null"),
            Node::Word(word @ ("true" | "false")) => out.push_str(word),
            Node::Word(word) if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => out.push_str(word),
            Node::Word(word) => write_text(out, &snake(word)),
            Node::Text(text) => write_text(out, text),
            Node::Tuple(name, items) => match items.as_slice() {
                [item] if TRANSPARENT.contains(name) => item.write(out),
                items => {
                    out.push('{');
                    write_text(out, &snake(name));
                    out.push(':');
                    write_list(out, items);
                    out.push('}');
                }
            },
            Node::Struct("Decimal", fields) => write_text(out, &decimal(fields).unwrap_or_default()),
            Node::Struct(name, fields) => write_fields(out, Some(name), fields),
            Node::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
        }
    }
}

/// One item stands for itself.
fn write_list(out: &mut String, items: &[Node<'_>]) {
    match items {
        [item] => item.write(out),
        items => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                item.write(out);
            }
            out.push(']');
        }
    }
}

fn write_fields(out: &mut String, name: Option<&str>, fields: &[(&str, Node<'_>)]) {
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

/// A decimal is told as people write it.
fn decimal(fields: &[(&str, Node<'_>)]) -> Option<String> {
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
        // A String takes everything.
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
    fn every_shape_of_an_event_is_spelled() {
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
            let spelled = spell(&event).unwrap();
            assert_eq!((spelled.name.as_str(), spelled.fields.as_str()), (name, fields), "{event:?}");
            assert!(serde_json::from_str::<serde_json::Value>(fields).is_ok());
        }
    }

    #[test]
    fn what_an_event_is_about_is_found() {
        let spelled = spell(&Event::CancelRefused {
            order: OrderId(u64::MAX),
            account: AccountId(2),
            reason: Reject::UnknownOrder,
        });
        let spelled = spelled.unwrap();
        assert_eq!((spelled.order, spelled.account, spelled.instrument), (Some(u64::MAX), Some(2), None));
    }

    #[test]
    fn structs_inside_are_named_and_decimals_are_texts() {
        let text = format!("{:?}", (Decimal::new(5, 1), [InstrumentId(3)]));
        let mut out = String::new();
        Reader { text: &text }.node().unwrap().write(&mut out);
        assert_eq!(out, r#"["0.5",[3]]"#);
    }

    #[test]
    fn a_text_cut_short_is_refused() {
        for text in ["", "A {", "A { x: 1", "A(", "A(1", "\"a", "\"\\u{d800}\"", "[1 2]", "A { x 1 }"] {
            let mut reader = Reader { text };
            assert!(reader.node().is_none() || !reader.text.is_empty(), "{text:?}");
        }
    }
}
