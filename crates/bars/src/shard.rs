//! The bars of one shard: which bucket a trade belongs to, and when a bucket is finished.
//!
//! Does        keeps bars and indicators of every symbol and length; returns each bar once, when it
//!             is finished.
//! Holds       1. time is that of the trades: the same records give the same bars, however fast
//!                they arrive;
//!             2. a bucket closes when the shard's clock (its newest trade) passes its end by the
//!                grace. Later trades are counted as late and change nothing else;
//!             3. one wrong time does not move the clock: a trade far ahead must be confirmed by
//!                the next one;
//!             4. a bucket is incomplete if it overlaps a gap, or the time before the first or
//!                after the last trade.
//! Start at    [`BarShard::take`].

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::bar::Bar;
use crate::indicator::{BarPrices, IndicatorSet, IndicatorValues};
use crate::record::{self, ShardRecord, TradeRecord};
use crate::rules::BarRules;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Most symbols. Bounds the memory that a feed with invented symbols can take.
const MOST_SYMBOLS: usize = 100_000;
pub(crate) const LONGEST_SYMBOL: usize = 64;
/// Most gaps stored separately. Further ones are joined.
const MOST_GAPS: usize = 64;

/// Counts of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BarTotals {
    pub records: u64,
    pub trades: u64,
    /// Conflated records among them.
    pub merged: u64,
    pub bars: u64,
    pub late: u64,
    /// Trades with a time far ahead of all others that no later trade confirmed.
    pub strays: u64,
    pub gaps: u64,
    pub other: u64,
    pub unreadable: u64,
    pub symbols: u64,
    /// Trades of symbols beyond the limit.
    pub refused: u64,
}

impl BarTotals {
    pub fn add(&mut self, other: &BarTotals) {
        self.records += other.records;
        self.trades += other.trades;
        self.merged += other.merged;
        self.bars += other.bars;
        self.late += other.late;
        self.strays += other.strays;
        self.gaps += other.gaps;
        self.other += other.other;
        self.unreadable += other.unreadable;
        self.symbols += other.symbols;
        self.refused += other.refused;
    }
}

/// A bar with everything known about it.
#[derive(Debug, Clone, PartialEq)]
pub struct BarRow {
    pub symbol: Arc<str>,
    pub bucket_s: u32,
    pub bar: Bar,
    /// Trades of this bucket are missing, or may be.
    pub is_incomplete: bool,
    /// For a finished bar: the values after it. For an open bar: after the previous one.
    pub reading: IndicatorValues,
}

impl BarRow {
    pub fn start_ns(&self) -> i64 {
        self.bar.number.saturating_mul(i64::from(self.bucket_s) * NANOS_PER_SECOND)
    }
}

pub struct BarShard {
    rules: Arc<BarRules>,
    lengths: Vec<BucketLength>,
    symbols: HashMap<Box<[u8]>, u32>,
    symbol_bars: Vec<SymbolBars>,
    /// The newest accepted time.
    clock: Option<i64>,
    /// A trade far ahead that waits for confirmation.
    ahead: Option<TradeRecord<'static>>,
    gaps: GapTracker,
    /// When the next bucket of any symbol closes.
    sweep_at: i64,
    finished: Vec<BarRow>,
    totals: BarTotals,
    /// Symbols whose open bar changed since the last call of [`BarShard::changed`].
    changed: Vec<u32>,
    watches_changes: bool,
}

#[derive(Debug, Clone, Copy)]
struct BucketLength {
    seconds: u32,
    ns: i64,
}

/// The bars of one symbol.
struct SymbolBars {
    symbol: Arc<str>,
    series: Vec<BarSeries>,
    is_changed: bool,
}

/// The bars of one symbol and one length.
struct BarSeries {
    current: Option<Bar>,
    /// The bar before, still open for the grace.
    previous: Option<Bar>,
    indicators: IndicatorSet,
}

impl BarShard {
    pub fn new(rules: Arc<BarRules>, buckets_s: &[u32]) -> Self {
        let lengths =
            buckets_s.iter().map(|&seconds| BucketLength { seconds, ns: i64::from(seconds) * NANOS_PER_SECOND });
        BarShard {
            rules,
            lengths: lengths.collect(),
            symbols: HashMap::new(),
            symbol_bars: Vec::new(),
            clock: None,
            ahead: None,
            gaps: GapTracker::since_ever(),
            sweep_at: i64::MAX,
            finished: Vec::new(),
            totals: BarTotals::default(),
            changed: Vec::new(),
            watches_changes: false,
        }
    }

    /// Enables [`BarShard::changed`].
    pub fn watch_changes(&mut self) {
        self.watches_changes = true;
    }

    /// HOT. Adds one record.
    pub fn take(&mut self, text: &[u8]) {
        self.totals.records += 1;
        match record::read(text, &self.rules) {
            ShardRecord::Trade(trade) => self.check_time(trade),
            ShardRecord::Gap => {
                self.totals.gaps += 1;
                self.gaps.begin(self.clock);
            }
            ShardRecord::Other => self.totals.other += 1,
            ShardRecord::Unreadable => self.totals.unreadable += 1,
        }
    }

    /// Ends the shard: returns all open bars as they are.
    pub fn finish(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            // A feed with a single trade has nothing to confirm it.
            if self.clock.is_none() { self.accept_trade(&ahead) } else { self.totals.strays += 1 }
        }
        self.gaps.begin(self.clock);
        for index in 0..self.symbol_bars.len() {
            self.close_due(index, i64::MAX);
        }
    }

    /// Returns how many finished bars wait.
    pub fn pending(&self) -> usize {
        self.finished.len()
    }

    /// Takes the finished bars, each once.
    pub fn finished(&mut self) -> std::vec::Drain<'_, BarRow> {
        self.finished.drain(..)
    }

    /// Calls `show` with the open bars of every symbol that changed since the last call.
    pub fn changed(&mut self, mut show: impl FnMut(BarRow)) {
        for index in std::mem::take(&mut self.changed) {
            let symbol_bars = &mut self.symbol_bars[index as usize];
            symbol_bars.is_changed = false;
            for (length, series) in self.lengths.iter().zip(&symbol_bars.series) {
                if let Some(bar) = &series.current {
                    show(BarRow {
                        symbol: Arc::clone(&symbol_bars.symbol),
                        bucket_s: length.seconds,
                        bar: bar.clone(),
                        is_incomplete: self.gaps.touch(bar.number, length.ns),
                        reading: *series.indicators.reading(),
                    });
                }
            }
        }
    }

    pub fn totals(&self) -> BarTotals {
        BarTotals { symbols: self.symbol_bars.len() as u64, ..self.totals }
    }

    /// Accepts a trade if its time is plausible.
    fn check_time(&mut self, trade: TradeRecord<'_>) {
        let horizon = self.rules.ahead_ns;
        let is_near = |clock: i64| trade.time_ns <= clock.saturating_add(horizon);
        if self.clock.is_some_and(is_near) {
            if self.ahead.take().is_some() {
                self.totals.strays += 1;
            }
            return self.accept_trade(&trade);
        }
        match self.ahead.take() {
            Some(ahead) if ahead.time_ns.abs_diff(trade.time_ns) <= horizon.unsigned_abs() => {
                self.accept_trade(&ahead);
                self.accept_trade(&trade);
            }
            earlier => {
                self.totals.strays += u64::from(earlier.is_some());
                self.ahead = Some(TradeRecord { symbol: trade.symbol.into_owned().into(), ..trade });
            }
        }
    }

    fn accept_trade(&mut self, trade: &TradeRecord<'_>) {
        self.gaps.end(trade.time_ns);
        if self.clock.is_none_or(|clock| trade.time_ns > clock) {
            self.clock = Some(trade.time_ns);
            if trade.time_ns >= self.sweep_at || self.sweep_at == i64::MAX {
                self.sweep(trade.time_ns);
            }
        }
        let Some(index) = self.symbol(&trade.symbol) else {
            self.totals.refused += 1;
            return;
        };
        self.totals.trades += 1;
        self.totals.merged += u64::from(trade.merged.is_some());
        if self.watches_changes && !self.symbol_bars[index].is_changed {
            self.symbol_bars[index].is_changed = true;
            self.changed.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
        self.place(index, trade);
    }

    /// HOT. Adds a trade to its bucket of every length.
    fn place(&mut self, index: usize, trade: &TradeRecord<'_>) {
        let clock = self.clock.unwrap_or(trade.time_ns);
        let mut is_late = false;
        let mut is_whole = true;
        for slot in 0..self.lengths.len() {
            let BucketLength { ns, .. } = self.lengths[slot];
            let number = trade.time_ns.div_euclid(ns);
            let due = due(number, ns, self.rules.grace_ns);
            let series = &mut self.symbol_bars[index].series[slot];
            let current = series.current.as_ref().map(|bar| bar.number);
            let bar = if current == Some(number) {
                series.current.as_mut()
            } else if clock >= due {
                is_late = true;
                series.current.get_or_insert_with(|| Bar::new(clock.div_euclid(ns))).add_late(trade);
                None
            } else if current.is_none_or(|current| number > current) {
                let ended = series.current.replace(Bar::new(number));
                if ended.is_some() {
                    let previous = std::mem::replace(&mut series.previous, ended);
                    self.close(index, slot, previous);
                }
                self.symbol_bars[index].series[slot].current.as_mut()
            } else if series.previous.as_ref().is_some_and(|bar| bar.number == number) {
                series.previous.as_mut()
            } else {
                let previous = series.previous.replace(Bar::new(number));
                self.close(index, slot, previous);
                self.symbol_bars[index].series[slot].previous.as_mut()
            };
            is_whole &= bar.is_none_or(|bar| bar.add(trade));
        }
        self.totals.late += u64::from(is_late);
        self.totals.unreadable += u64::from(!is_whole);
    }

    fn symbol(&mut self, symbol: &[u8]) -> Option<usize> {
        if let Some(&index) = self.symbols.get(symbol) {
            return Some(index as usize);
        }
        let text = std::str::from_utf8(symbol).ok().filter(|text| text.len() <= LONGEST_SYMBOL)?;
        let index = self.symbol_bars.len();
        if index >= MOST_SYMBOLS {
            return None;
        }
        let indicators = IndicatorSet::new(&self.rules.indicators);
        let series =
            self.lengths.iter().map(|_| BarSeries { current: None, previous: None, indicators: indicators.clone() });
        self.symbol_bars.push(SymbolBars { symbol: text.into(), series: series.collect(), is_changed: false });
        self.symbols.insert(symbol.into(), u32::try_from(index).ok()?);
        Some(index)
    }

    /// Closes every bucket that is due, also of symbols that no longer trade, and computes when the
    /// next one is.
    fn sweep(&mut self, clock: i64) {
        let grace = self.rules.grace_ns;
        let next = self
            .lengths
            .iter()
            .map(|length| due((clock.saturating_sub(grace)).div_euclid(length.ns), length.ns, grace));
        self.sweep_at = next.min().unwrap_or(i64::MAX);
        for index in 0..self.symbol_bars.len() {
            self.close_due(index, clock);
        }
        self.gaps.forget(clock, self.lengths.last().map_or(0, |length| length.ns) + grace);
    }

    fn close_due(&mut self, index: usize, clock: i64) {
        for slot in 0..self.lengths.len() {
            let (ns, grace) = (self.lengths[slot].ns, self.rules.grace_ns);
            let series = &mut self.symbol_bars[index].series[slot];
            let is_due = |bar: &mut Bar| clock >= due(bar.number, ns, grace);
            let previous = series.previous.take_if(is_due);
            let current = series.current.take_if(is_due);
            self.close(index, slot, previous);
            self.close(index, slot, current);
        }
    }

    fn close(&mut self, index: usize, slot: usize, bar: Option<Bar>) {
        let Some(bar) = bar else { return };
        let BucketLength { seconds, ns } = self.lengths[slot];
        let symbol_bars = &mut self.symbol_bars[index];
        let indicators = &mut symbol_bars.series[slot].indicators;
        let reading = match prices(&bar) {
            Some(prices) => *indicators.push(prices),
            None => *indicators.reading(),
        };
        let is_incomplete = self.gaps.touch(bar.number, ns);
        self.totals.bars += 1;
        self.finished.push(BarRow {
            symbol: Arc::clone(&symbol_bars.symbol),
            bucket_s: seconds,
            bar,
            is_incomplete,
            reading,
        });
    }
}

/// Returns when bucket `number` closes.
fn due(number: i64, ns: i64, grace: i64) -> i64 {
    number.saturating_add(1).saturating_mul(ns).saturating_add(grace)
}

/// Returns the prices of a bar. A bar without a last price (odd lots only, say) changes no
/// indicator.
fn prices(bar: &Bar) -> Option<BarPrices> {
    Some(BarPrices {
        open: bar.open?.as_f64(),
        high: bar.high?.as_f64(),
        low: bar.low?.as_f64(),
        close: bar.close?.as_f64(),
    })
}

/// Times at which trades are missing or may be: from the last trade before a gap to the first one
/// after it.
#[derive(Debug)]
struct GapTracker {
    ended: VecDeque<(i64, i64)>,
    /// Start of the gap that has not ended.
    open: Option<i64>,
}

impl GapTracker {
    /// The time before the first trade counts as a gap.
    fn since_ever() -> Self {
        GapTracker { ended: VecDeque::new(), open: Some(i64::MIN) }
    }

    fn begin(&mut self, clock: Option<i64>) {
        self.open.get_or_insert(clock.unwrap_or(i64::MIN));
    }

    /// HOT. Ends the open gap at `time`.
    fn end(&mut self, time: i64) {
        let Some(from) = self.open.take() else { return };
        // The first trade after a gap may be older than the last one before it.
        let gap = (from, time.max(from));
        let is_full = self.ended.len() >= MOST_GAPS;
        match self.ended.back_mut() {
            Some(last) if last.1 >= gap.0 || is_full => last.1 = last.1.max(gap.1),
            _ => self.ended.push_back(gap),
        }
    }

    fn touch(&self, number: i64, ns: i64) -> bool {
        let start = number.saturating_mul(ns);
        let end = start.saturating_add(ns);
        // A trade exactly at the end of a bucket belongs to the next one, so only a bucket that was
        // over is complete.
        self.open.is_some_and(|from| from < end) || self.ended.iter().any(|&(from, to)| from < end && to >= start)
    }

    /// Forgets gaps that no open bucket can overlap.
    fn forget(&mut self, clock: i64, longest: i64) {
        let since = clock.saturating_sub(longest.saturating_mul(2));
        while self.ended.front().is_some_and(|&(_, to)| to < since) {
            self.ended.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
