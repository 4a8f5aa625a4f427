//! A record of the splitter, parsed as far as bars need it.
//!
//! Does        reads a trade's symbol, price, size, time and conditions in one pass, without
//!             allocation.
//! Holds       1. a trade in any other JSON form (spaces, escapes, exponents, nested values) is
//!                read too, more slowly;
//!             2. what cannot be read exactly is refused, never rounded.
//! Start at    [`read`].

use std::borrow::Cow;

use pitwire_model::Decimal;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::number::{NOTIONAL_DIGITS, Nano, parse_count};
use crate::rules::{BarRules, RecordKind, TradeEffects};

/// A trade, or the conflated trades of one symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TradeRecord<'a> {
    pub symbol: Cow<'a, [u8]>,
    pub time_ns: i64,
    pub price: Nano,
    /// Shares of the trade, or of all conflated trades.
    pub size: Nano,
    /// The columns of a bar that its sale conditions let it affect.
    pub counts: TradeEffects,
    pub is_off_exchange: bool,
    pub merged: Option<MergedTrades>,
}

/// The contents of a conflated record besides the last price and the sum of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergedTrades {
    pub trades: u64,
    /// In 10^-18. Exact, because prices and sizes have nine decimals each.
    pub notional: i128,
    pub first: Nano,
    pub high: Nano,
    pub low: Nano,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ShardRecord<'a> {
    Trade(TradeRecord<'a>),
    /// Records are missing: the feed was interrupted, or a worker was too slow.
    Gap,
    /// Something else that a feed sends, such as a status or a quote.
    Other,
    /// A trade without a price or with ten decimals, or not JSON at all.
    Unreadable,
}

/// HOT. Reads one record.
pub fn read<'a>(text: &'a [u8], rules: &BarRules) -> ShardRecord<'a> {
    match parse_fast(text, rules) {
        Some(fields) => fields.classify(rules),
        None => parse_json(text, rules),
    }
}

/// The fields of a record that matter here.
#[derive(Default)]
struct RecordFields<'a> {
    kind: RecordKind,
    symbol: Option<Cow<'a, [u8]>>,
    price: Option<Nano>,
    size: Option<Nano>,
    time: Option<u64>,
    exchange: Option<u64>,
    tape: Option<u64>,
    trf: Option<u64>,
    counts: TradeEffects,
    merged: MergedFields,
}

#[derive(Default)]
struct MergedFields {
    is_merged: bool,
    trades: Option<u64>,
    volume: Option<Nano>,
    notional: Option<i128>,
    first: Option<Nano>,
    high: Option<Nano>,
    low: Option<Nano>,
}

impl<'a> RecordFields<'a> {
    fn classify(self, rules: &BarRules) -> ShardRecord<'a> {
        match self.kind {
            RecordKind::Gap => ShardRecord::Gap,
            RecordKind::Other => ShardRecord::Other,
            RecordKind::Trade => self.trade(rules).map_or(ShardRecord::Unreadable, ShardRecord::Trade),
        }
    }

    fn trade(self, rules: &BarRules) -> Option<TradeRecord<'a>> {
        let merged = if self.merged.is_merged { Some(self.merged.whole()?) } else { None };
        let size = if self.merged.is_merged { self.merged.volume } else { self.size };
        let price = self.price.filter(|price| price.0 > 0)?;
        let size = size.filter(|size| size.0 >= 0)?;
        let time_ns = i64::try_from(self.time?).ok()?.checked_mul(rules.time_unit_ns)?;
        let symbol = self.symbol.filter(|symbol| !symbol.is_empty())?;
        let is_off_exchange = rules.is_off_exchange(self.exchange, self.tape, self.trf);
        Some(TradeRecord { symbol, time_ns, price, size, counts: self.counts, is_off_exchange, merged })
    }
}

impl MergedFields {
    fn whole(&self) -> Option<MergedTrades> {
        let (first, high, low) = (self.first?, self.high?, self.low?);
        let merged = MergedTrades { trades: self.trades?, notional: self.notional?, first, high, low };
        (low.0 > 0 && low <= first && first <= high).then_some(merged)
    }
}

/// Parses the usual form: one flat object without spaces or escapes. `None` for any other form.
fn parse_fast<'a>(text: &'a [u8], rules: &BarRules) -> Option<RecordFields<'a>> {
    let mut fields = RecordFields::default();
    let mut at = TextCursor { text, at: 0 };
    at.expect(b'{')?;
    loop {
        let key = at.quoted()?;
        at.expect(b':')?;
        match key {
            b"sym" => fields.symbol = Some(Cow::Borrowed(at.quoted()?)),
            b"ev" => fields.kind = rules.kind(at.quoted()?),
            b"p" => fields.price = Some(Nano::parse(at.number())?),
            b"s" => fields.size = Some(Nano::parse(at.number())?),
            b"t" => fields.time = Some(parse_count(at.number())?),
            b"x" => fields.exchange = Some(parse_count(at.number())?),
            b"z" => fields.tape = Some(parse_count(at.number())?),
            b"trfi" => fields.trf = Some(parse_count(at.number())?),
            b"c" => fields.counts = at.conditions(rules)?,
            // Conflated records are rare, so the JSON parser may read them.
            b"conflated" => return None,
            _ => at.skip()?,
        }
        match at.next()? {
            b',' => {}
            b'}' if at.at == text.len() => return Some(fields),
            _ => return None,
        }
    }
}

struct TextCursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> TextCursor<'a> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Reads a string without escapes.
    fn quoted(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        if rest[len] != b'"' {
            return None;
        }
        self.at += len + 1;
        Some(&rest[..len])
    }

    fn number(&mut self) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b'-';
        let len = rest.iter().position(|&byte| !is_part(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Reads `[14,41]`.
    fn conditions(&mut self, rules: &BarRules) -> Option<TradeEffects> {
        let mut counts = TradeEffects::default();
        self.expect(b'[')?;
        if self.text.get(self.at) == Some(&b']') {
            self.at += 1;
            return Some(counts);
        }
        loop {
            counts = counts.and(rules.counts(parse_count(self.number())?));
            match self.next()? {
                b',' => {}
                b']' => return Some(counts),
                _ => return None,
            }
        }
    }

    /// Skips a value that is not needed.
    fn skip(&mut self) -> Option<()> {
        match *self.text.get(self.at)? {
            b'"' => self.quoted().map(drop),
            b'-' | b'0'..=b'9' => (!self.number().is_empty()).then_some(()),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }
}

#[derive(Deserialize)]
struct JsonRecord<'a> {
    #[serde(borrow, default)]
    ev: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sym: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    p: Option<&'a RawValue>,
    #[serde(borrow, default)]
    s: Option<&'a RawValue>,
    #[serde(default)]
    t: Option<u64>,
    #[serde(default)]
    x: Option<u64>,
    #[serde(default)]
    z: Option<u64>,
    #[serde(default)]
    trfi: Option<u64>,
    #[serde(default)]
    c: Option<Vec<u64>>,
    #[serde(default)]
    conflated: bool,
    #[serde(default)]
    count: Option<u64>,
    #[serde(borrow, default)]
    volume: Option<&'a RawValue>,
    #[serde(borrow, default)]
    notional: Option<&'a RawValue>,
    #[serde(borrow, default)]
    first: Option<&'a RawValue>,
    #[serde(borrow, default)]
    high: Option<&'a RawValue>,
    #[serde(borrow, default)]
    low: Option<&'a RawValue>,
}

/// Parses any JSON form.
#[cold]
fn parse_json<'a>(text: &'a [u8], rules: &BarRules) -> ShardRecord<'a> {
    // An array of values would be read as a record without keys.
    if !text.trim_ascii_start().starts_with(b"{") {
        return ShardRecord::Unreadable;
    }
    let Ok(form) = serde_json::from_slice::<JsonRecord<'a>>(text) else { return ShardRecord::Unreadable };
    let nano = |value: Option<&RawValue>| value.and_then(|value| Nano::parse(plain(value).as_bytes()));
    let codes = form.c.unwrap_or_default();
    let fields = RecordFields {
        kind: rules.kind(form.ev.as_deref().unwrap_or("").as_bytes()),
        symbol: form.sym.map(|symbol| match symbol {
            Cow::Borrowed(symbol) => Cow::Borrowed(symbol.as_bytes()),
            Cow::Owned(symbol) => Cow::Owned(symbol.into_bytes()),
        }),
        price: nano(form.p),
        size: nano(form.s),
        time: form.t,
        exchange: form.x,
        tape: form.z,
        trf: form.trfi,
        counts: codes.into_iter().fold(TradeEffects::default(), |counts, code| counts.and(rules.counts(code))),
        merged: MergedFields {
            is_merged: form.conflated,
            trades: form.count,
            volume: nano(form.volume),
            notional: form.notional.and_then(|value| parse_notional(plain(value))),
            first: nano(form.first),
            high: nano(form.high),
            low: nano(form.low),
        },
    };
    fields.classify(rules)
}

/// Exact numbers may be JSON numbers or strings.
fn plain(value: &RawValue) -> &str {
    let text = value.get();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// Parses a product of a price and a size, in 10^-18.
fn parse_notional(text: &str) -> Option<i128> {
    Decimal::parse_units(text.as_bytes(), NOTIONAL_DIGITS).filter(|notional| *notional >= 0)
}

#[cfg(test)]
mod tests;
