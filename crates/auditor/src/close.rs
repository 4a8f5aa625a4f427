//! Day statistics and the closing price with its derivation (rulebook 13).
//!
//! Holds       1. the window of ten minutes counts whole seconds of venue time;
//!             2. a busted trade leaves the window; last prices stay.

use std::collections::VecDeque;

use pitwire_model::{Bust, Derivation, Event, InstrumentId, Lots, Phase, Ticks, TradeKind, VenueNanos};

use crate::Auditor;
use crate::fault::{Judged, offence};
use crate::turn::Turn;

const SECOND: u64 = 1_000_000_000;
/// How far back the window reaches, in seconds.
const WINDOW: u64 = 600;

/// What a closing price may be made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Close {
    pub closing: Option<(Ticks, Derivation)>,
    pub previous: Option<Ticks>,
    /// The price of today's closing call.
    pub closing_call: Option<Ticks>,
    /// Today's last trade outside the cross.
    pub last: Option<Ticks>,
    /// When continuous trading ended last.
    pub ended: Option<VenueNanos>,
    /// Of continuous trading, oldest first.
    pub runs: VecDeque<Run>,
}

/// Trades with consecutive numbers in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub second: u64,
    pub first: u64,
    pub last: u64,
    pub lots: i128,
    /// Σ price × lots.
    pub value: i128,
}

/// What a day has traded; busted trades are taken out but for the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    pub open: Option<Ticks>,
    pub high: Option<Ticks>,
    pub low: Option<Ticks>,
    pub volume: u64,
    /// Σ price × lots.
    pub turnover: i128,
    pub trades: u64,
}

impl Close {
    fn count(&mut self, at: VenueNanos, number: u64, price: Ticks, lots: u64) {
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
                self.runs.push_back(Run { second, first: number, last: number, lots: i128::from(lots), value });
            }
        }
    }

    pub fn take_out(&mut self, bust: &Bust) {
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
        // Halves up.
        let price = i64::try_from((2 * value + lots).div_euclid(2 * lots)).ok()?;
        (Ticks(1)..=Ticks::MAX_PRICE).contains(&Ticks(price)).then_some(Ticks(price))
    }

    fn derive(&self) -> Option<(Ticks, Derivation)> {
        let from = |price: Option<Ticks>, derivation| price.map(|price| (price, derivation));
        from(self.closing_call, Derivation::ClosingAuction)
            .or_else(|| from(self.vwap(), Derivation::Vwap))
            .or_else(|| from(self.last, Derivation::LastTrade))
            .or_else(|| from(self.previous, Derivation::PreviousClose))
    }

    /// The day turns.
    pub fn end_day(&mut self) {
        let previous = self.closing.map(|(price, _)| price).or(self.previous);
        *self = Close { previous, ..Close::default() };
    }
}

impl Day {
    /// A busted trade counts no more; prices stay.
    pub fn take_out(&mut self, price: Ticks, lots: Lots) {
        self.volume = self.volume.saturating_sub(lots.0);
        self.turnover -= i128::from(price.0) * i128::from(lots.0);
        self.trades = self.trades.saturating_sub(1);
    }

    fn count(&mut self, price: Ticks, lots: u64, makes_price: bool) {
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

impl Auditor {
    /// What the day has traded so far.
    pub fn day(&self, instrument: InstrumentId) -> Option<Day> {
        self.markets.get(instrument.0 as usize).map(|market| market.day)
    }

    pub(crate) fn count_trade(
        &mut self,
        instrument: InstrumentId,
        number: u64,
        price: Ticks,
        lots: u64,
        kind: TradeKind,
    ) {
        let at = self.at;
        let market = self.market_mut(instrument);
        market.trades = number;
        let makes_price = kind != TradeKind::Cross;
        market.day.count(price, lots, makes_price);
        if makes_price {
            market.last = Some(price);
            market.dynamic = Some(price);
            market.close.last = Some(price);
        }
        if market.phase == Phase::Continuous {
            market.close.count(at, number, price, lots);
        }
    }

    /// A call has had its price.
    pub(crate) fn set_references(&mut self, instrument: InstrumentId, call: Phase, price: Ticks) {
        let market = self.market_mut(instrument);
        market.static_reference = Some(price);
        if call == Phase::ClosingCall || (call == Phase::VolatilityCall && market.continues == Some(Phase::ClosingCall))
        {
            market.close.closing_call = Some(price);
        }
    }

    pub(crate) fn see_closing_price(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged {
        let derived = self.market_of(instrument).close.derive();
        let told = match self.peek(turn)? {
            Some(Event::ClosingPriceSet { instrument: of, price, derivation }) if *of == instrument => {
                Some((*price, *derivation))
            }
            _ => None,
        };
        if told != derived {
            offence!(M6, "the closing price was told as {told:?} and is {derived:?}");
        }
        if told.is_some() {
            turn.pass();
        }
        self.market_mut(instrument).close.closing = told;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_reaches_back_six_hundred_seconds_and_rounds_halves_up() {
        let mut close = Close::default();
        let at = |second: u64| VenueNanos(second * SECOND + 7);
        close.count(at(399), 1, Ticks(50), 1_000);
        close.count(at(400), 2, Ticks(100), 1);
        close.count(at(1_000), 3, Ticks(101), 1);
        close.ended = Some(at(1_000));
        // 201 / 2 rounds up; what was 601 seconds old is out.
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
