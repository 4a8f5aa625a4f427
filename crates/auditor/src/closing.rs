//! Day statistics and the inputs of the closing price (rulebook 13).
//!
//! Holds       1. the window of ten minutes counts whole seconds of venue time;
//!             2. a busted trade leaves the window, but last prices stay.

use std::collections::VecDeque;

use pitwire_model::{Bust, Derivation, Lots, Ticks, VenueNanos};

const SECOND: u64 = 1_000_000_000;

/// Length of the averaging window, in seconds.
const WINDOW: u64 = 600;

/// The inputs of the closing price.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosingPrices {
    pub closing: Option<(Ticks, Derivation)>,
    pub previous: Option<Ticks>,
    /// The price of today's closing call.
    pub closing_call: Option<Ticks>,
    /// Today's last trade outside the closing price cross.
    pub last: Option<Ticks>,
    /// The last time at which continuous trading ended.
    pub ended: Option<VenueNanos>,
    /// Trades of continuous trading within the window, oldest first.
    pub runs: VecDeque<WindowRun>,
}

/// Consecutive trades within one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowRun {
    pub second: u64,
    pub first: u64,
    pub last: u64,
    pub lots: i128,
    /// Sum of price times lots.
    pub value: i128,
}

/// Prices and volumes of the venue day. Busted trades leave the volumes, but not the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayStatistics {
    pub open: Option<Ticks>,
    pub high: Option<Ticks>,
    pub low: Option<Ticks>,
    pub volume: u64,
    /// Sum of price times lots.
    pub turnover: i128,
    pub trades: u64,
}

impl ClosingPrices {
    pub fn count(&mut self, at: VenueNanos, number: u64, price: Ticks, lots: u64) {
        let second = at.0 / SECOND;
        let value = i128::from(price.0) * i128::from(lots);
        match self.runs.back_mut() {
            Some(run) if run.second == second && run.last + 1 == number => {
                run.last = number;
                run.lots += i128::from(lots);
                run.value += value;
            }
            _ => {
                self.runs.retain(|run| run.second + WINDOW >= second);
                self.runs.push_back(WindowRun { second, first: number, last: number, lots: i128::from(lots), value });
            }
        }
    }

    pub fn remove_busted(&mut self, bust: &Bust) {
        let number = bust.trade_seq.0;
        if let Some(run) = self.runs.iter_mut().find(|run| (run.first..=run.last).contains(&number)) {
            run.lots -= i128::from(bust.lots.0);
            run.value -= i128::from(bust.price.0) * i128::from(bust.lots.0);
        }
    }

    fn vwap(&self) -> Option<Ticks> {
        let end = self.ended?.0 / SECOND;
        let window = || self.runs.iter().filter(|run| run.second + WINDOW >= end);
        let (lots, value): (i128, i128) = (window().map(|run| run.lots).sum(), window().map(|run| run.value).sum());
        if lots <= 0 {
            return None;
        }
        // Halves round up.
        let price = i64::try_from((2 * value + lots).div_euclid(2 * lots)).ok()?;
        (Ticks(1)..=Ticks::MAX_PRICE).contains(&Ticks(price)).then_some(Ticks(price))
    }

    pub fn derive(&self) -> Option<(Ticks, Derivation)> {
        let from = |price: Option<Ticks>, derivation| price.map(|price| (price, derivation));
        from(self.closing_call, Derivation::ClosingAuction)
            .or_else(|| from(self.vwap(), Derivation::Vwap))
            .or_else(|| from(self.last, Derivation::LastTrade))
            .or_else(|| from(self.previous, Derivation::PreviousClose))
    }

    /// Returns the price at which the closing price cross trades.
    pub fn cross_price(&self) -> Option<Ticks> {
        self.closing.map(|(price, _)| price).or(self.previous)
    }

    /// Keeps the closing price as the previous one and clears the rest.
    pub fn end_day(&mut self) {
        let previous = self.cross_price();
        *self = ClosingPrices { previous, ..ClosingPrices::default() };
    }
}

impl DayStatistics {
    /// Takes a busted trade out of the volumes. Prices stay.
    pub fn remove_busted(&mut self, price: Ticks, lots: Lots) {
        self.volume = self.volume.saturating_sub(lots.0);
        self.turnover -= i128::from(price.0) * i128::from(lots.0);
        self.trades = self.trades.saturating_sub(1);
    }

    pub fn count(&mut self, price: Ticks, lots: u64, makes_price: bool) {
        self.volume += lots;
        self.turnover += i128::from(price.0) * i128::from(lots);
        self.trades += 1;
        if makes_price {
            self.open = self.open.or(Some(price));
            self.high = self.high.max(Some(price));
            self.low = Some(self.low.map_or(price, |low| low.min(price)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vwap_window_is_600_seconds_and_rounds_halves_up() {
        let mut close = ClosingPrices::default();
        let at = |second: u64| VenueNanos(second * SECOND + 7);
        close.count(at(399), 1, Ticks(50), 1_000);
        close.count(at(400), 2, Ticks(100), 1);
        close.count(at(1_000), 3, Ticks(101), 1);
        close.ended = Some(at(1_000));
        // 201 / 2 rounds up. The trade that is 601 seconds old is outside the window.
        assert_eq!(close.derive(), Some((Ticks(101), Derivation::Vwap)));
        close.ended = Some(at(1_001));
        assert_eq!(close.vwap(), Some(Ticks(101)));
        close.runs.pop_back();
        close.last = Some(Ticks(9));
        assert_eq!(close.derive(), Some((Ticks(9), Derivation::LastTrade)));
        close.end_day();
        assert_eq!((close.derive(), close.previous), (None, None));
    }
}
