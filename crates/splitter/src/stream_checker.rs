//! Counts and checks of one worker's records.
//!
//! Does        counts trades and bytes, sums a checksum, and checks per symbol that sequence
//!             numbers (field `i`, digits in quotes) are consecutive.
//! Why         the usual form is recognised byte by byte, because a counter shares a core with the
//! feed that it verifies.
//! Start at    [`StreamChecker::record`].

use pitwire_shard::Fields;

/// The counts of a built-in worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// All records, including those that are not trades.
    pub records: u64,
    pub trades: u64,
    pub bytes: u64,
    /// Sum over trades of fnv1a64(symbol) times sequence number, modulo 2^64; see docs/tape.md.
    pub checksum: u64,
    pub symbols: u64,
    /// Steps from one trade of a symbol to the next whose number is the next one.
    pub consecutive: u64,
    /// Steps to any other number, without a gap record in between.
    pub irregular: u64,
    /// Trades that a symbol's numbers skip, without a gap record since its last trade.
    pub lost: u64,
    /// Trades that the numbers skip, with a gap record.
    pub lost_declared: u64,
    /// Numbers before the first trade of a symbol.
    pub before_first: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub gaps: u64,
    /// Objects that gap records declare as dropped.
    pub dropped_declared: u64,
    /// Conflated records, and the trades that they summarise (`trades` includes these).
    pub conflated: u64,
    pub conflated_trades: u64,
    /// Records without symbol or number.
    pub unnumbered: u64,
    /// Trades of symbols beyond the limit: counted and summed, but their sequence is not checked.
    pub unchecked: u64,
    /// Streams that ended inside a record, or were invalid.
    pub faults: u64,
}

impl StreamCounts {
    /// Returns the sum of all counts.
    pub fn sum(all: &[Self]) -> Self {
        all.iter().fold(Self::default(), |sum, one| Self {
            records: sum.records + one.records,
            trades: sum.trades + one.trades,
            bytes: sum.bytes + one.bytes,
            checksum: sum.checksum.wrapping_add(one.checksum),
            symbols: sum.symbols + one.symbols,
            consecutive: sum.consecutive + one.consecutive,
            irregular: sum.irregular + one.irregular,
            lost: sum.lost + one.lost,
            lost_declared: sum.lost_declared + one.lost_declared,
            before_first: sum.before_first + one.before_first,
            duplicated: sum.duplicated + one.duplicated,
            reordered: sum.reordered + one.reordered,
            gaps: sum.gaps + one.gaps,
            dropped_declared: sum.dropped_declared.saturating_add(one.dropped_declared),
            conflated: sum.conflated + one.conflated,
            conflated_trades: sum.conflated_trades.saturating_add(one.conflated_trades),
            unnumbered: sum.unnumbered + one.unnumbered,
            unchecked: sum.unchecked + one.unchecked,
            faults: sum.faults + one.faults,
        })
    }

    /// Returns whether the feed numbers the trades of each symbol, so that a missing number is a
    /// lost trade. Ids that are random, or common to all symbols, rarely rise by one.
    pub fn is_numbered(&self) -> bool {
        self.unnumbered.saturating_mul(2) <= self.trades && self.irregular <= self.consecutive
    }
}

/// The usual form: `{"ev":"T","sym":"`, the symbol, `","i":"` and twelve digits.
const BEFORE_SYMBOL: &[u8; 17] = b"{\"ev\":\"T\",\"sym\":\"";
const BEFORE_NUMBER: &[u8; 7] = b"\",\"i\":\"";
const DIGITS: usize = 12;
const SYMBOLS_AT_FIRST: usize = 1024;
/// Symbols that all counters together follow, and the least per counter. Bounds the memory that a
/// feed can take.
const SYMBOLS_MOST: usize = 1 << 18;
const SYMBOLS_FLOOR: usize = 1 << 10;

#[derive(Clone, Copy, Default)]
struct Symbol {
    /// 0 marks an empty entry.
    key: u64,
    hash: u64,
    /// Number of its last trade.
    last: u64,
    /// Gap records seen when the last trade arrived.
    gaps: u64,
}

pub(crate) struct StreamChecker {
    counted: StreamCounts,
    /// Hash table with open addressing; a power of two, at most half full.
    symbols: Vec<Symbol>,
    symbols_most: u64,
}

impl StreamChecker {
    /// Creates a checker for one of `workers` workers.
    pub fn new(workers: usize) -> Self {
        let symbols_most = (SYMBOLS_MOST / workers.max(1)).max(SYMBOLS_FLOOR) as u64;
        Self { counted: StreamCounts::default(), symbols: vec![Symbol::default(); SYMBOLS_AT_FIRST], symbols_most }
    }

    pub fn counted(&self) -> StreamCounts {
        self.counted
    }

    pub fn fault(&mut self) {
        self.counted.faults += 1;
    }

    /// HOT. Counts and checks one record.
    pub fn record(&mut self, record: &[u8]) {
        self.counted.records += 1;
        self.counted.bytes += record.len() as u64;
        match usual(record) {
            Some((symbol, number)) => self.trade(symbol, number, 1),
            None => self.unusual(record),
        }
    }

    fn trade(&mut self, symbol: &[u8], number: u64, stands_for: u64) {
        self.counted.trades += stands_for;
        let gaps = self.counted.gaps;
        let Some(place) = self.place(symbol) else {
            self.counted.unchecked += stands_for;
            self.counted.checksum = self.counted.checksum.wrapping_add(fnv(symbol).wrapping_mul(number));
            return;
        };
        let before = self.symbols[place];
        let known = &mut self.symbols[place];
        (known.last, known.gaps) = (number, gaps);
        self.counted.checksum = self.counted.checksum.wrapping_add(before.hash.wrapping_mul(number));
        if before.last == 0 {
            self.counted.before_first += number.saturating_sub(stands_for);
            return;
        }
        let expected = before.last.saturating_add(stands_for);
        if number == expected {
            self.counted.consecutive += 1;
            return;
        }
        if before.gaps == gaps {
            self.counted.irregular += 1;
        }
        if number > expected {
            let skipped = number - expected;
            *if before.gaps == gaps { &mut self.counted.lost } else { &mut self.counted.lost_declared } += skipped;
        } else if number == before.last {
            self.counted.duplicated += 1;
        } else {
            self.counted.reordered += 1;
        }
        self.symbols[place].last = number.max(before.last);
    }

    #[cold]
    fn unusual(&mut self, record: &[u8]) {
        let (mut symbol, mut number, mut dropped, mut count) = (&b""[..], None, 0, None);
        let mut is_gap = false;
        let mut fields = Fields::of(record);
        while let Some(Some((name, value))) = fields.as_mut().and_then(Fields::next_field) {
            let plain = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
            match name {
                b"ev" => is_gap = plain == b"gap",
                b"sym" => symbol = plain,
                b"i" => number = digits(plain),
                b"dropped" => dropped = digits(plain).unwrap_or(0),
                b"count" => count = digits(plain),
                _ => {}
            }
        }
        if is_gap {
            self.counted.gaps += 1;
            self.counted.dropped_declared = self.counted.dropped_declared.saturating_add(dropped);
            return;
        }
        if let Some(count) = count {
            self.counted.conflated += 1;
            self.counted.conflated_trades = self.counted.conflated_trades.saturating_add(count);
        }
        match number {
            Some(number) if !symbol.is_empty() => self.trade(symbol, number, count.unwrap_or(1)),
            _ => {
                self.counted.trades += count.unwrap_or(1);
                self.counted.unnumbered += 1;
            }
        }
    }

    /// Returns the entry of a symbol, and adds it if it is new and there is room.
    fn place(&mut self, symbol: &[u8]) -> Option<usize> {
        let key = key(symbol);
        let mut place = self.home(key);
        loop {
            match self.symbols[place].key {
                found if found == key => return Some(place),
                0 => break,
                _ => place = (place + 1) & (self.symbols.len() - 1),
            }
        }
        if self.counted.symbols == self.symbols_most {
            return None;
        }
        self.counted.symbols += 1;
        self.symbols[place] = Symbol { key, hash: fnv(symbol), last: 0, gaps: 0 };
        if self.counted.symbols * 2 <= self.symbols.len() as u64 {
            return Some(place);
        }
        self.grow();
        self.place(symbol)
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Symbol::default(); self.symbols.len() * 2];
        for symbol in std::mem::replace(&mut self.symbols, larger) {
            if symbol.key != 0 {
                let mut place = self.home(symbol.key);
                while self.symbols[place].key != 0 {
                    place = (place + 1) & (self.symbols.len() - 1);
                }
                self.symbols[place] = symbol;
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)] // masked
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.symbols.len() - 1)
    }
}

/// Returns the symbol's bytes if they fit, else their hash. Never 0.
#[inline]
fn key(symbol: &[u8]) -> u64 {
    if symbol.len() > 8 {
        return fnv(symbol) | 1;
    }
    symbol.iter().rev().fold(0, |key, byte| key << 8 | u64::from(*byte)).max(1)
}

fn fnv(symbol: &[u8]) -> u64 {
    symbol.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

/// Returns symbol and number of a trade in the usual form.
#[inline]
fn usual(record: &[u8]) -> Option<(&[u8], u64)> {
    let rest = record.strip_prefix(BEFORE_SYMBOL)?;
    let symbol = quote_in(u64::from_le_bytes(*rest.first_chunk()?))?;
    let (symbol, rest) = rest.split_at(symbol);
    let rest = rest.strip_prefix(BEFORE_NUMBER)?;
    let (number, rest) = rest.split_first_chunk::<DIGITS>()?;
    // A conflated record has a field before its number. An empty symbol is invalid.
    let is_unencrypted = rest.first() == Some(&b'"') && !symbol.is_empty();
    let number = twelve_digits(number)?;
    is_unencrypted.then_some((symbol, number))
}

/// Returns the index of the first quote in eight bytes.
#[inline]
fn quote_in(bytes: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let zeros = bytes ^ (ONES * 0x22);
    let found = zeros.wrapping_sub(ONES) & !zeros & (ONES << 7);
    (found != 0).then_some((found.trailing_zeros() / 8) as usize)
}

#[inline]
fn twelve_digits(text: &[u8; DIGITS]) -> Option<u64> {
    let high = eight_digits(u64::from_le_bytes(*text.first_chunk()?))?;
    let low = eight_digits(u64::from_le_bytes(*text.last_chunk()?))?;
    // The four digits in the middle are in both halves.
    Some(high * 10_000 + low % 10_000)
}

/// Converts eight digits at once: pairs, then fours, then all.
#[inline]
fn eight_digits(text: u64) -> Option<u64> {
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    if (text & HIGH) != ZEROS || (text.wrapping_add(0x0606_0606_0606_0606) & HIGH) != ZEROS {
        return None;
    }
    let ones = text & !HIGH;
    let pairs = (ones * 10 + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF)
}

/// Parses one to eighteen digits.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    let mut number = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

#[cfg(test)]
mod tests;
