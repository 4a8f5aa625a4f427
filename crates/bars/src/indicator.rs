//! Indicators of one series of bars. `docs/bars.md` has every formula and its source.
//!
//! Does        RSI and ATR with Wilder's smoothing, Heikin-Ashi, and a parabolic SAR whose speed
//!             follows volatility.
//! Leaves out  exactness: indicators are floats; prices and sums are not.
//! Start at    [`IndicatorSet`].

use crate::rules::IndicatorSettings;

/// Time constant of the long average of relative ATR, in ATR periods.
const LONG: f64 = 5.0;
/// Volatility changes the speed of the SAR at most by this factor, in either direction.
const MOST_PACE: f64 = 2.0;

/// The prices of a finished bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarPrices {
    pub open: f64,
    pub high: f64,
    pub low: f64,
    pub close: f64,
}

/// The indicator values after a bar. `None` until enough bars have been seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IndicatorValues {
    pub rsi: Option<f64>,
    pub atr: Option<f64>,
    pub heikin_ashi: Option<BarPrices>,
    pub sar: Option<f64>,
    /// Whether the SAR is below the market.
    pub sar_is_long: Option<bool>,
}

/// All indicators of one series.
#[derive(Debug, Clone)]
pub struct IndicatorSet {
    rsi: Rsi,
    atr: Atr,
    heikin_ashi: HeikinAshi,
    sar: Sar,
    reading: IndicatorValues,
}

impl IndicatorSet {
    pub fn new(set: &IndicatorSettings) -> Self {
        IndicatorSet {
            rsi: Rsi::new(set.rsi_bars),
            atr: Atr::new(set.atr_bars),
            heikin_ashi: HeikinAshi::default(),
            sar: Sar::new(set),
            reading: IndicatorValues::default(),
        }
    }

    /// Returns the values after the newest finished bar.
    pub fn reading(&self) -> &IndicatorValues {
        &self.reading
    }

    /// Adds a finished bar.
    pub fn push(&mut self, bar: BarPrices) -> &IndicatorValues {
        let pace = self.atr.push(bar);
        let (sar, is_long) = self.sar.push(bar, pace).unzip();
        self.reading = IndicatorValues {
            rsi: self.rsi.push(bar.close),
            atr: self.atr.value(),
            heikin_ashi: Some(self.heikin_ashi.push(bar)),
            sar,
            sar_is_long: is_long,
        };
        &self.reading
    }
}

/// Wilder's average: the mean of the first `bars` values, then `(previous · (bars − 1) + value) /
/// bars`.
#[derive(Debug, Clone)]
struct Wilder {
    bars: u32,
    seen: u32,
    value: f64,
}

impl Wilder {
    fn new(bars: u32) -> Self {
        Wilder { bars, seen: 0, value: 0.0 }
    }

    fn push(&mut self, value: f64) {
        let bars = f64::from(self.bars);
        if self.seen < self.bars {
            self.seen += 1;
            self.value += value / bars;
        } else {
            self.value += (value - self.value) / bars;
        }
    }

    fn get(&self) -> Option<f64> {
        (self.seen == self.bars).then_some(self.value)
    }
}

#[derive(Debug, Clone)]
struct Rsi {
    last: Option<f64>,
    gains: Wilder,
    losses: Wilder,
}

impl Rsi {
    fn new(bars: u32) -> Self {
        Rsi { last: None, gains: Wilder::new(bars), losses: Wilder::new(bars) }
    }

    fn push(&mut self, close: f64) -> Option<f64> {
        let change = close - self.last.replace(close)?;
        self.gains.push(change.max(0.0));
        self.losses.push((-change).max(0.0));
        let (gain, loss) = (self.gains.get()?, self.losses.get()?);
        // Neither gains nor losses: the middle.
        Some(if gain + loss > 0.0 { 100.0 * gain / (gain + loss) } else { 50.0 })
    }
}

/// Average true range, and its ratio to its own past.
#[derive(Debug, Clone)]
struct Atr {
    last_close: Option<f64>,
    range: Wilder,
    /// Long average of ATR ÷ close, so that a higher price alone does not count as more volatile.
    usual: Option<f64>,
}

impl Atr {
    fn new(bars: u32) -> Self {
        Atr { last_close: None, range: Wilder::new(bars), usual: None }
    }

    fn value(&self) -> Option<f64> {
        self.range.get()
    }

    /// Adds a bar and returns the speed for the SAR: 1 at usual volatility, less above it, more
    /// below it.
    fn push(&mut self, bar: BarPrices) -> f64 {
        let range = match self.last_close.replace(bar.close) {
            Some(close) => bar.high.max(close) - bar.low.min(close),
            None => bar.high - bar.low,
        };
        self.range.push(range);
        let Some(now) = self.range.get().map(|atr| atr / bar.close) else { return 1.0 };
        let usual = self.usual.get_or_insert(now);
        *usual += (now - *usual) / (LONG * f64::from(self.range.bars));
        if now > 0.0 { (*usual / now).clamp(1.0 / MOST_PACE, MOST_PACE) } else { 1.0 }
    }
}

#[derive(Debug, Clone, Default)]
struct HeikinAshi {
    last: Option<BarPrices>,
}

impl HeikinAshi {
    fn push(&mut self, bar: BarPrices) -> BarPrices {
        let close = (bar.open + bar.high + bar.low + bar.close) / 4.0;
        let open = self.last.map_or((bar.open + bar.close) / 2.0, |last| (last.open + last.close) / 2.0);
        let smooth = BarPrices { open, high: bar.high.max(open).max(close), low: bar.low.min(open).min(close), close };
        self.last = Some(smooth);
        smooth
    }
}

/// Wilder's parabolic SAR. Its acceleration is multiplied by the speed of [`Atr::push`].
#[derive(Debug, Clone)]
struct Sar {
    step: f64,
    most: f64,
    first: Option<BarPrices>,
    trend: Option<Trend>,
}

#[derive(Debug, Clone)]
struct Trend {
    is_long: bool,
    /// The stop for the next bar.
    stop: f64,
    /// The highest high of a rise, or the lowest low of a fall.
    extreme: f64,
    acceleration: f64,
    last: BarPrices,
}

impl Sar {
    fn new(set: &IndicatorSettings) -> Self {
        Sar { step: set.sar_step, most: set.sar_most, first: None, trend: None }
    }

    /// Adds a bar. Returns the stop for the next bar, and whether it is below the market.
    fn push(&mut self, bar: BarPrices, pace: f64) -> Option<(f64, bool)> {
        match &mut self.trend {
            Some(trend) => trend.push(bar, pace, self.step, self.most),
            // The second bar determines the direction.
            None => self.trend = Some(Trend::begin(self.first.replace(bar)?, bar, self.step)),
        }
        self.trend.as_ref().map(|trend| (trend.stop, trend.is_long))
    }
}

impl Trend {
    fn begin(first: BarPrices, second: BarPrices, step: f64) -> Self {
        let (high, low) = (first.high.max(second.high), first.low.min(second.low));
        let is_long = second.close >= first.close;
        let (stop, extreme) = if is_long { (low, high) } else { (high, low) };
        Trend { is_long, stop, extreme, acceleration: step, last: second }
    }

    fn push(&mut self, bar: BarPrices, pace: f64, step: f64, most: f64) {
        let is_through = if self.is_long { bar.low < self.stop } else { bar.high > self.stop };
        if is_through {
            // Stop and reverse: the old extreme becomes the new stop, but not inside the last two
            // bars.
            let (high, low) = (bar.high.max(self.last.high), bar.low.min(self.last.low));
            self.is_long = !self.is_long;
            self.stop = if self.is_long { self.extreme.min(low) } else { self.extreme.max(high) };
            self.extreme = if self.is_long { bar.high } else { bar.low };
            self.acceleration = step;
        } else {
            let is_new = if self.is_long { bar.high > self.extreme } else { bar.low < self.extreme };
            if is_new {
                self.extreme = if self.is_long { bar.high } else { bar.low };
                self.acceleration = (self.acceleration + step).min(most);
            }
            self.stop += (self.acceleration * pace).min(most) * (self.extreme - self.stop);
            let within = if self.is_long { self.last.low.min(bar.low) } else { self.last.high.max(bar.high) };
            self.stop = if self.is_long { self.stop.min(within) } else { self.stop.max(within) };
        }
        self.last = bar;
    }
}

#[cfg(test)]
mod tests;
