//! One instrument's trading day: open, high, low, last, volume, turnover and trade count.

use std::collections::BTreeMap;

use pitwire_model::{Lots, Phase, Ticks, TradeKind, TradeSeq};

use crate::tape::Tape;

/// How the opening price was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpeningDerivation {
    OpeningAuction = 0,
    FirstTrade = 1,
}

impl OpeningDerivation {
    pub const fn name(self) -> &'static str {
        match self {
            OpeningDerivation::OpeningAuction => "opening_auction",
            OpeningDerivation::FirstTrade => "first_trade",
        }
    }
}

/// The trades at one price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtPrice {
    pub lots: u64,
    pub trades: u64,
}

/// Statistics since the day began. Trades of the closing price cross count in volume, turnover and
/// number only. A busted trade is removed from all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Day {
    pub volume: u64,
    /// Sum of price × lots.
    pub turnover: u128,
    pub trades: u64,
    /// The trades that make prices, by price. High and low stay exact when a trade is busted.
    pub by_price: BTreeMap<Ticks, AtPrice>,
    /// The first and the last of these trades.
    pub first: Option<(TradeSeq, Ticks, OpeningDerivation)>,
    pub last: Option<(TradeSeq, Ticks)>,
    /// The first trade of the day. Earlier trades on the tape belong to earlier days.
    pub since: Option<TradeSeq>,
}

impl Day {
    pub fn open(&self) -> Option<(Ticks, OpeningDerivation)> {
        self.first.map(|(_, price, opening)| (price, opening))
    }

    pub fn high(&self) -> Option<Ticks> {
        self.by_price.last_key_value().map(|(price, _)| *price)
    }

    pub fn low(&self) -> Option<Ticks> {
        self.by_price.first_key_value().map(|(price, _)| *price)
    }

    pub fn last(&self) -> Option<Ticks> {
        self.last.map(|(_, price)| price)
    }

    /// Returns turnover divided by volume, rounded down.
    pub fn vwap(&self) -> Option<Ticks> {
        let average = self.turnover.checked_div(u128::from(self.volume))?;
        i64::try_from(average).ok().map(Ticks)
    }

    pub(crate) fn traded(&mut self, seq: TradeSeq, price: Ticks, lots: Lots, kind: TradeKind) {
        self.volume = self.volume.saturating_add(lots.0);
        self.turnover = self.turnover.saturating_add(value(price, lots));
        self.trades = self.trades.saturating_add(1);
        self.since.get_or_insert(seq);
        if !makes_prices(kind) {
            return;
        }
        let there = self.by_price.entry(price).or_default();
        there.lots = there.lots.saturating_add(lots.0);
        there.trades = there.trades.saturating_add(1);
        self.first.get_or_insert((seq, price, opening(kind)));
        self.last = Some((seq, price));
    }

    /// Removes a busted trade that the tape still contains. A trade of an earlier day changes
    /// nothing.
    pub(crate) fn busted(&mut self, seq: TradeSeq, tape: &Tape) {
        let Some(trade) = tape.trade(seq).filter(|_| self.since.is_some_and(|since| since <= seq)) else { return };
        self.volume = self.volume.saturating_sub(trade.lots.0);
        self.turnover = self.turnover.saturating_sub(value(trade.price, trade.lots));
        self.trades = self.trades.saturating_sub(1);
        if !makes_prices(trade.kind) {
            return;
        }
        if let Some(there) = self.by_price.get_mut(&trade.price) {
            there.lots = there.lots.saturating_sub(trade.lots.0);
            there.trades = there.trades.saturating_sub(1);
            if there.trades == 0 {
                self.by_price.remove(&trade.price);
            }
        }
        let since = self.since.unwrap_or(seq);
        let mut left = tape
            .trades()
            .iter()
            .filter(|other| other.seq >= since && other.seq != seq && !other.busted && makes_prices(other.kind));
        if self.first.is_some_and(|(first, ..)| first == seq) {
            self.first = left.clone().next().map(|other| (other.seq, other.price, opening(other.kind)));
        }
        if self.last.is_some_and(|(last, _)| last == seq) {
            self.last = left.next_back().map(|other| (other.seq, other.price));
        }
    }
}

fn makes_prices(kind: TradeKind) -> bool {
    kind != TradeKind::Cross
}

fn opening(kind: TradeKind) -> OpeningDerivation {
    if kind == TradeKind::Call(Phase::OpeningCall) {
        OpeningDerivation::OpeningAuction
    } else {
        OpeningDerivation::FirstTrade
    }
}

fn value(price: Ticks, lots: Lots) -> u128 {
    u128::from(price.0.unsigned_abs()) * u128::from(lots.0)
}
