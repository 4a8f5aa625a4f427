//! The inputs of the closing price and its derivation.

use pitwire_model::{Derivation, Phase, Ticks, TradeKind, VenueNanos};

/// Length of the window that the closing price averages, in seconds.
const WINDOW_SECONDS: u64 = 600;

/// Today's inputs of the closing price.
#[derive(Debug, Default)]
pub struct ClosingInputs {
    /// Today's closing price, once it is set.
    pub price: Option<(Ticks, Derivation)>,
    /// The closing price of the previous day.
    pub previous: Option<Ticks>,
    /// The last trade outside the closing price cross.
    pub last_trade: Option<Ticks>,
    /// The price of the closing call.
    pub closing_call: Option<Ticks>,
    /// The last time at which continuous trading ended.
    pub continuous_ended: Option<VenueNanos>,
    /// Trades in continuous sessions, oldest first.
    pub trades: Vec<ContinuousTrade>,
}

/// A trade of continuous trading. A bust takes its lots out again.
#[derive(Clone, Copy, Debug)]
pub struct ContinuousTrade {
    pub seq: u64,
    pub second: u64,
    pub lots: i128,
    /// Price times lots.
    pub tick_lots: i128,
}

/// Consecutive trades within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondOfTrades {
    pub second: u64,
    pub first: u64,
    pub last: u64,
    pub lots: i128,
    pub tick_lots: i128,
}

impl ClosingInputs {
    /// Adds trade number `seq` if it belongs to continuous trading.
    pub fn add_trade(&mut self, seq: u64, now: VenueNanos, price: Ticks, lots: u64, kind: TradeKind) {
        let continuous = match kind {
            TradeKind::Continuous | TradeKind::Filter => true,
            TradeKind::Call(call) => call == Phase::Continuous,
            TradeKind::Cross => false,
        };
        if continuous {
            let lots = i128::from(lots);
            let tick_lots = lots * i128::from(price.0);
            self.trades.push(ContinuousTrade { seq, second: second(now), lots, tick_lots });
        }
    }

    /// Takes a busted trade out of the window. Price and lots are those of the operator's command.
    pub fn remove_trade(&mut self, seq: u64, price: Ticks, lots: u64) {
        if let Some(trade) = self.trades.iter_mut().find(|trade| trade.seq == seq) {
            trade.lots -= i128::from(lots);
            trade.tick_lots -= i128::from(lots) * i128::from(price.0);
        }
    }

    /// Returns the trades within the window before the newest trade, grouped by second.
    pub fn seconds(&self) -> Vec<SecondOfTrades> {
        let mut seconds: Vec<SecondOfTrades> = Vec::new();
        for trade in &self.trades {
            match seconds.last_mut() {
                Some(group) if group.second == trade.second && group.last + 1 == trade.seq => {
                    group.last = trade.seq;
                    group.lots += trade.lots;
                    group.tick_lots += trade.tick_lots;
                }
                _ => {
                    seconds.retain(|group| group.second + WINDOW_SECONDS >= trade.second);
                    let ContinuousTrade { seq, second, lots, tick_lots } = *trade;
                    seconds.push(SecondOfTrades { second, first: seq, last: seq, lots, tick_lots });
                }
            }
        }
        seconds
    }

    /// Returns the volume-weighted price of the ten minutes before continuous trading ended, with
    /// halves rounded up.
    pub fn vwap(&self) -> Option<Ticks> {
        let from = second(self.continuous_ended?).saturating_sub(WINDOW_SECONDS);
        let groups = self.seconds().into_iter().filter(|group| group.second >= from);
        let (lots, tick_lots) = groups.fold((0, 0), |sum, group| (sum.0 + group.lots, sum.1 + group.tick_lots));
        if lots <= 0 {
            return None;
        }
        let price = (2 * tick_lots + lots).div_euclid(2 * lots);
        let price = i64::try_from(price).ok().filter(|price| (1..=Ticks::MAX_PRICE.0).contains(price));
        price.map(Ticks)
    }

    /// Returns the price at which the closing price cross trades.
    pub fn cross_price(&self) -> Option<Ticks> {
        self.price.map(|(price, _)| price).or(self.previous)
    }

    /// Derives today's closing price from the first source that has one.
    pub fn derive(&mut self) -> Option<(Ticks, Derivation)> {
        let sources = [
            (self.closing_call, Derivation::ClosingAuction),
            (self.vwap(), Derivation::Vwap),
            (self.last_trade, Derivation::LastTrade),
            (self.previous, Derivation::PreviousClose),
        ];
        self.price = sources.into_iter().find_map(|(price, derivation)| Some((price?, derivation)));
        self.price
    }

    /// Keeps the closing price as the previous one and clears the rest.
    pub fn end_day(&mut self) {
        *self = ClosingInputs { previous: self.cross_price(), ..ClosingInputs::default() };
    }
}

pub fn second(at: VenueNanos) -> u64 {
    at.0 / 1_000_000_000
}
