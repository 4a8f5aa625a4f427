//! Conflation: one record per symbol that summarises many trades, for a worker that is too slow for
//! all of them.
//!
//! Does        computes last, count, volume, notional, first, high and low of the fields `p` and
//!             `s` exactly. Prices and sizes are integers in billionths and their products in
//!             billionths of billionths, so order does not change a sum.
//! Holds       1. a symbol's records stay in order: a summary is later than everything that was
//!                handed over before;
//!             2. memory is fixed at the start; a trade that does not fit is refused, never dropped
//!                silently.
//! Leaves out  objects that are not trades (no `p`, no `s`, or `ev` other than "T"): refused, and
//!             the caller declares them.
//! Start at    [`Conflation::add`].

use std::fmt::Write;

mod decimal;

use crate::fields::Fields;
use decimal::{BILLIONTHS, Billionths, SQUARED};
use pitwire_model::Decimal;

const SYMBOL_BYTES: usize = 32;
const TEXT_BYTES: usize = 24;
const EMPTY_SLOT: u32 = u32::MAX;

/// A short text, stored inline.
#[derive(Clone, Copy)]
struct InlineText<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> InlineText<N> {
    const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    fn of(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { bytes, len: u8::try_from(text.len()).ok()? })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The summary of one symbol's trades.
#[derive(Clone, Copy)]
struct SymbolSummary {
    /// With its quotes, as received.
    symbol: InlineText<SYMBOL_BYTES>,
    count: u64,
    first: Billionths,
    last: Billionths,
    high: Billionths,
    low: Billionths,
    last_size: Billionths,
    volume: Billionths,
    notional: i128,
    first_time: InlineText<TEXT_BYTES>,
    last_time: InlineText<TEXT_BYTES>,
    exchange: InlineText<TEXT_BYTES>,
    number: InlineText<TEXT_BYTES>,
}

/// Summaries by symbol, oldest first.
pub struct Conflation {
    /// A ring with one entry per symbol.
    sums: Box<[SymbolSummary]>,
    front: usize,
    len: usize,
    /// Indexes into `sums` by hash. Open addressing; a slot is looked up by its symbol.
    slots: Box<[u32]>,
    trades: u64,
}

const EMPTY: SymbolSummary = SymbolSummary {
    symbol: InlineText::EMPTY,
    count: 0,
    first: Billionths::ZERO,
    last: Billionths::ZERO,
    high: Billionths::ZERO,
    low: Billionths::ZERO,
    last_size: Billionths::ZERO,
    volume: Billionths::ZERO,
    notional: 0,
    first_time: InlineText::EMPTY,
    last_time: InlineText::EMPTY,
    exchange: InlineText::EMPTY,
    number: InlineText::EMPTY,
};

impl Conflation {
    /// Creates room for `symbols` symbols at a time, rounded up to a power of two.
    pub fn new(symbols: usize) -> Self {
        let symbols = symbols.next_power_of_two().max(16);
        Self {
            sums: vec![EMPTY; symbols].into_boxed_slice(),
            front: 0,
            len: 0,
            slots: vec![EMPTY_SLOT; symbols * 2].into_boxed_slice(),
            trades: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many trades the pending summaries contain.
    pub fn trades(&self) -> u64 {
        self.trades
    }

    /// Adds a trade. Returns false, and changes nothing, if it cannot be summarised.
    pub fn add(&mut self, object: &[u8]) -> bool {
        let Some(trade) = TradeFields::of(object) else { return false };
        let slot = self.slot_of(trade.symbol.as_bytes());
        let added = match self.slots[slot] {
            EMPTY_SLOT => self.open(slot, &trade),
            place => self.sums[place as usize].add(&trade),
        };
        self.trades += u64::from(added);
        added
    }

    /// Appends the record of the oldest symbol to `out`. Returns false if there is none.
    pub fn front(&self, out: &mut String) -> bool {
        if self.len == 0 {
            return false;
        }
        self.sums[self.front].write(out);
        true
    }

    /// Removes the oldest symbol's summary and returns how many trades it contained.
    pub fn pop(&mut self) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let sum = self.sums[self.front];
        self.close(self.slot_of(sum.symbol.as_bytes()));
        self.front = (self.front + 1) & (self.sums.len() - 1);
        self.len -= 1;
        self.trades -= sum.count;
        sum.count
    }

    fn open(&mut self, slot: usize, trade: &TradeFields) -> bool {
        if self.len == self.sums.len() {
            return false;
        }
        let Some(sum) = SymbolSummary::of(trade) else { return false };
        let place = (self.front + self.len) & (self.sums.len() - 1);
        let Ok(number) = u32::try_from(place) else { return false };
        self.sums[place] = sum;
        self.slots[slot] = number;
        self.len += 1;
        true
    }

    /// Returns the slot of a symbol, or the empty slot where it belongs.
    fn slot_of(&self, symbol: &[u8]) -> usize {
        let mut slot = self.home(symbol);
        loop {
            let place = self.slots[slot];
            if place == EMPTY_SLOT || self.sums[place as usize].symbol.as_bytes() == symbol {
                return slot;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // masked
    fn home(&self, symbol: &[u8]) -> usize {
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        for byte in symbol {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        }
        (hash ^ (hash >> 32)) as usize & (self.slots.len() - 1)
    }

    /// Empties a slot and moves back the entries that had been displaced past it.
    fn close(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.slots[at];
            if place == EMPTY_SLOT {
                break;
            }
            let home = self.home(self.sums[place as usize].symbol.as_bytes());
            // An entry may move to the hole unless its home slot is behind the hole.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = place;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY_SLOT;
    }
}

/// The fields of an object that a summary needs.
struct TradeFields {
    symbol: InlineText<SYMBOL_BYTES>,
    price: Billionths,
    size: Billionths,
    time: InlineText<TEXT_BYTES>,
    exchange: InlineText<TEXT_BYTES>,
    number: InlineText<TEXT_BYTES>,
}

impl TradeFields {
    fn of(object: &[u8]) -> Option<Self> {
        let (mut symbol, mut price, mut size) = (None, None, None);
        let (mut time, mut exchange, mut number) = (InlineText::EMPTY, InlineText::EMPTY, InlineText::EMPTY);
        let mut fields = Fields::of(object)?;
        while let Some((name, value)) = fields.next_field()? {
            match name {
                b"sym" if value.starts_with(b"\"") => symbol = Some(InlineText::of(value)?),
                b"p" => price = Some(Billionths::parse(value)?),
                b"s" => size = Some(Billionths::parse(value)?),
                b"t" => time = InlineText::of(value)?,
                b"x" => exchange = InlineText::of(value)?,
                b"i" => number = InlineText::of(value)?,
                b"ev" if value != b"\"T\"" => return None,
                _ => {}
            }
        }
        Some(Self { symbol: symbol?, price: price?, size: size?, time, exchange, number })
    }
}

impl SymbolSummary {
    fn of(trade: &TradeFields) -> Option<Self> {
        Some(Self {
            symbol: trade.symbol,
            count: 1,
            first: trade.price,
            last: trade.price,
            high: trade.price,
            low: trade.price,
            last_size: trade.size,
            volume: trade.size,
            notional: trade.price.times(trade.size)?,
            first_time: trade.time,
            last_time: trade.time,
            exchange: trade.exchange,
            number: trade.number,
        })
    }

    /// Adds a trade. Returns false, and changes nothing, if a sum would exceed 128 bits.
    fn add(&mut self, trade: &TradeFields) -> bool {
        let notional = trade.price.times(trade.size).and_then(|more| self.notional.checked_add(more));
        let (Some(notional), Some(volume)) = (notional, self.volume.plus(trade.size)) else { return false };
        (self.notional, self.volume) = (notional, volume);
        self.count += 1;
        self.last = trade.price;
        self.high = self.high.max(trade.price);
        self.low = self.low.min(trade.price);
        self.last_size = trade.size;
        self.last_time = trade.time;
        self.exchange = trade.exchange;
        self.number = trade.number;
        true
    }

    fn write(&self, out: &mut String) {
        let text = |out: &mut String, name: &str, bytes: &[u8]| {
            if !bytes.is_empty() {
                // Text from the feed that is not UTF-8 is replaced rather than passed on.
                let _ = write!(out, "\"{name}\":{},", String::from_utf8_lossy(bytes));
            }
        };
        let decimal = |out: &mut String, name: &str, value: Billionths| {
            let _ = write!(out, "\"{name}\":{:#},", Decimal::new(value.0, BILLIONTHS));
        };
        out.push_str("{\"ev\":\"T\",");
        text(out, "sym", self.symbol.as_bytes());
        let _ = write!(out, "\"conflated\":true,\"count\":{},", self.count);
        text(out, "i", self.number.as_bytes());
        text(out, "x", self.exchange.as_bytes());
        for (name, value) in [("p", self.last), ("s", self.last_size)] {
            decimal(out, name, value);
        }
        text(out, "t", self.last_time.as_bytes());
        text(out, "first_t", self.first_time.as_bytes());
        for (name, value) in [("first", self.first), ("high", self.high), ("low", self.low), ("volume", self.volume)] {
            decimal(out, name, value);
        }
        let _ = write!(out, "\"notional\":{:#}}}", Decimal::new(self.notional, SQUARED));
    }
}

#[cfg(test)]
mod tests;
