//! The latest bar of every symbol and length: workers write it, readers read it.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use pitwire_model::Decimal;

use crate::indicator::IndicatorValues;
use crate::number::{DIGITS, Nano};
use crate::shard::BarRow;

/// One list per shard, so that workers do not wait for each other.
pub struct LatestBars {
    shards: Vec<Mutex<ShardBars>>,
}

#[derive(Default)]
struct ShardBars {
    places: HashMap<(std::sync::Arc<str>, u32), usize>,
    latest: Vec<LatestBar>,
    version: u64,
}

struct LatestBar {
    row: BarRow,
    is_final: bool,
    version: u64,
}

/// How far one reader has read each shard.
pub struct ReadPosition {
    versions: Vec<u64>,
}

/// The symbols that a reader wants.
#[derive(Default)]
pub struct BarSubscription {
    pub everything: bool,
    pub symbols: HashSet<String>,
}

impl BarSubscription {
    fn has(&self, symbol: &str) -> bool {
        self.everything || self.symbols.contains(symbol)
    }
}

impl LatestBars {
    pub fn new(shards: usize) -> Self {
        LatestBars { shards: (0..shards).map(|_| Mutex::default()).collect() }
    }

    /// Stores a worker's rows. A later row replaces an earlier one of the same symbol and length.
    pub fn post(&self, shard: usize, rows: impl Iterator<Item = (BarRow, bool)>) {
        let mut posted = lock(&self.shards[shard]);
        posted.version += 1;
        for (row, is_final) in rows {
            posted.put(row, is_final);
        }
    }

    pub fn mark(&self) -> ReadPosition {
        ReadPosition { versions: vec![0; self.shards.len()] }
    }

    /// Shows the subscribed bars that changed since `mark`, which advances; and those in `fresh`,
    /// changed or not.
    pub fn look(
        &self,
        mark: &mut ReadPosition,
        subscription: &BarSubscription,
        fresh: &BarSubscription,
        mut show: impl FnMut(&str),
    ) {
        let mut text = String::new();
        for (shard, seen) in self.shards.iter().zip(&mut mark.versions) {
            let posted = lock(shard);
            for latest in &posted.latest {
                let symbol = &latest.row.symbol;
                if (latest.version > *seen && subscription.has(symbol)) || fresh.has(symbol) {
                    text.clear();
                    write_latest(&mut text, latest);
                    show(&text);
                }
            }
            *seen = posted.version;
        }
    }
}

/// Locks a shard. A worker that panicked left complete rows, because each is replaced at once.
fn lock(shard: &Mutex<ShardBars>) -> MutexGuard<'_, ShardBars> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ShardBars {
    fn put(&mut self, row: BarRow, is_final: bool) {
        let version = self.version;
        let key = (std::sync::Arc::clone(&row.symbol), row.bucket_s);
        let place = *self.places.entry(key).or_insert(self.latest.len());
        let latest = LatestBar { row, is_final, version };
        match self.latest.get_mut(place) {
            // A bar that closed late must not replace a newer open one.
            Some(known) if known.row.bar.number > latest.row.bar.number => {}
            Some(known) => *known = latest,
            None => self.latest.push(latest),
        }
    }
}

fn write_latest(out: &mut String, latest: &LatestBar) {
    use std::fmt::Write;
    let LatestBar { row, is_final, .. } = latest;
    let bar = &row.bar;
    let price = |price: Option<Nano>| price.map_or("null".to_string(), |price| price.to_string());
    let symbol = serde_json::Value::from(&*row.symbol);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{{\"sym\":{symbol},\"bucket_s\":{},\"start_ms\":{},\"final\":{is_final},\"incomplete\":{},\"open\":{},\"high\":{},\
         \"low\":{},\"close\":{},\"volume\":{:#},\"notional\":{:#},\"vwap\":{},\"trades\":{},\"off_exchange_volume\":{:#},\
         \"off_exchange_trades\":{},\"late_volume\":{:#},\"late_trades\":{},\"merged_trades\":{}",
        row.bucket_s,
        row.start_ns() / 1_000_000,
        row.is_incomplete,
        price(bar.open),
        price(bar.high),
        price(bar.low),
        price(bar.close),
        shares(bar.volume),
        bar.notional(),
        price(bar.vwap()),
        bar.trades,
        shares(bar.off_exchange_volume),
        bar.off_exchange_trades,
        shares(bar.late_volume),
        bar.late_trades,
        bar.merged_trades,
    );
    write_reading(out, &row.reading);
    out.push('}');
}

fn shares(units: i128) -> Decimal {
    Decimal::new(units, DIGITS)
}

fn write_reading(out: &mut String, reading: &IndicatorValues) {
    use std::fmt::Write;
    let smooth = reading.heikin_ashi;
    let values = [
        ("rsi", reading.rsi),
        ("atr", reading.atr),
        ("ha_open", smooth.map(|smooth| smooth.open)),
        ("ha_high", smooth.map(|smooth| smooth.high)),
        ("ha_low", smooth.map(|smooth| smooth.low)),
        ("ha_close", smooth.map(|smooth| smooth.close)),
        ("sar", reading.sar),
    ];
    for (name, value) in values {
        let value = value.filter(|value| value.is_finite()).map_or("null".to_string(), |value| value.to_string());
        let _ = write!(out, ",\"{name}\":{value}");
    }
    let is_long = reading.sar_is_long.map_or("null".to_string(), |is_long| is_long.to_string());
    let _ = write!(out, ",\"sar_is_long\":{is_long}");
}
