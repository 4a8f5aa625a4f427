//! One bar: the trades of a symbol in one bucket of time. Exact.

use pitwire_model::Decimal;

use crate::number::{NOTIONAL_DIGITS, Nano};
use crate::record::TradeRecord;

/// Largest value of a DECIMAL(38, ...) column.
const MOST: i128 = 10_i128.pow(38) - 1;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bar {
    /// Start time divided by the bucket length.
    pub number: i64,
    /// Prices of trades that count for the last price.
    pub open: Option<Nano>,
    pub close: Option<Nano>,
    pub high: Option<Nano>,
    pub low: Option<Nano>,
    /// Shares, in 10^-9.
    pub volume: i128,
    /// Price times shares of the same trades, in 10^-18.
    pub notional: i128,
    pub trades: u64,
    /// The off-exchange part of `volume`.
    pub off_exchange_volume: i128,
    pub off_exchange_trades: u64,
    /// Trades whose own bucket was already closed. They are counted here and change nothing else.
    pub late_volume: i128,
    pub late_trades: u64,
    /// Trades known only as part of a conflated record.
    pub merged_trades: u64,
}

impl Bar {
    pub fn new(number: i64) -> Self {
        Bar { number, ..Bar::default() }
    }

    /// HOT. Adds a trade. Returns false, and adds nothing, if a sum would exceed the limit
    /// of a file.
    #[must_use]
    pub fn add(&mut self, trade: &TradeRecord<'_>) -> bool {
        let trades = trade.merged.map_or(1, |merged| merged.trades);
        let size = i128::from(trade.size.0);
        if trade.counts.volume {
            let notional = trade.merged.map_or(i128::from(trade.price.0) * size, |merged| merged.notional);
            let (volume, notional) = (self.volume.saturating_add(size), self.notional.saturating_add(notional));
            if volume > MOST || notional > MOST {
                return false;
            }
            (self.volume, self.notional) = (volume, notional);
            self.trades = self.trades.saturating_add(trades);
            if trade.is_off_exchange {
                self.off_exchange_volume += size;
                self.off_exchange_trades = self.off_exchange_trades.saturating_add(trades);
            }
        }
        if let Some(merged) = trade.merged {
            self.merged_trades = self.merged_trades.saturating_add(merged.trades);
        }
        if trade.counts.last {
            self.open.get_or_insert(trade.merged.map_or(trade.price, |merged| merged.first));
            self.close = Some(trade.price);
        }
        if trade.counts.high_low {
            let (high, low) = trade.merged.map_or((trade.price, trade.price), |merged| (merged.high, merged.low));
            self.high = Some(self.high.map_or(high, |known| known.max(high)));
            self.low = Some(self.low.map_or(low, |known| known.min(low)));
        }
        true
    }

    pub fn add_late(&mut self, trade: &TradeRecord<'_>) {
        self.late_trades = self.late_trades.saturating_add(trade.merged.map_or(1, |merged| merged.trades));
        self.late_volume = self.late_volume.saturating_add(i128::from(trade.size.0)).min(MOST);
    }

    /// Returns the volume-weighted average price, truncated to nine decimals; `None` without
    /// volume.
    pub fn vwap(&self) -> Option<Nano> {
        let quotient = self.notional.checked_div(self.volume)?;
        i64::try_from(quotient).ok().map(Nano)
    }

    /// Returns the sum of price times size, exactly.
    pub fn notional(&self) -> Decimal {
        Decimal::new(self.notional, NOTIONAL_DIGITS)
    }
}
