//! The closing price, and the trades of the day that it is computed from.
//!
//! Does        sum the trades of the last ten minutes of continuous trading by second; compute the
//!             closing price.
//! Holds       1. a run sums consecutive trades of continuous trading in one second of venue time;
//!             2. no run is more than ten minutes older than the latest, so there are about 600 at
//!                most.
//! Leaves out  open, high, low and turnover of the day: the projections compute them.
//! Costs       adding the trades of a sweep: constant, without allocation while they fall into one
//!             second; the closing price and a bust: the number of runs.
//! Start at    [`ClosingPriceInputs::add_trades`], then [`ClosingPriceInputs::closing_price`].

use std::collections::VecDeque;

use pitwire_model::{Bust, Derivation, Ticks, TradeSeq, VenueNanos};

const SECOND_NS: u64 = 1_000_000_000;
/// Length of the period that the closing price averages, in seconds.
const WINDOW_SECONDS: u64 = 600;
/// Largest sum of one run. No second of trading reaches it, and sums over all runs still fit into
/// 128 bits.
const MOST_SUMMED: i128 = 1 << 100;
/// Largest number of runs in an image. A command starts at most one run.
const MOST_RUNS: usize = 1 << 20;

/// Consecutive trades within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeRun {
    /// Seconds since 1970.
    pub second: u64,
    pub first: TradeSeq,
    pub last: TradeSeq,
    /// Executed lots. Busts are deducted with the details that the operator supplied, so the sum
    /// may be negative.
    pub lots: i128,
    /// Σ price × lots.
    pub tick_lots: i128,
}

/// The trades of a day that determine the closing price. Part of every image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosingPriceInputs {
    /// Price of the latest trade of the day outside the closing price cross.
    pub last: Option<Ticks>,
    /// Price of the closing call of the day.
    pub closing_call: Option<Ticks>,
    /// When continuous trading last ended.
    pub ended: Option<VenueNanos>,
    /// Runs of trades, oldest first.
    pub runs: VecDeque<TradeRun>,
}

/// The trades of one order, filter or batch in continuous trading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TradeTotals {
    pub first: TradeSeq,
    pub last: TradeSeq,
    pub lots: u64,
    /// Σ price × lots. Fits: an order has fewer than 2^32 lots, a price fewer than 2^32 ticks.
    pub tick_lots: u64,
    /// Price of the last trade.
    pub price: Ticks,
}

impl ClosingPriceInputs {
    /// HOT. Adds at least one trade of continuous trading.
    #[inline]
    pub(crate) fn add_trades(&mut self, at: VenueNanos, traded: TradeTotals) {
        self.last = Some(traded.price);
        let second = at.0 / SECOND_NS;
        let (lots, tick_lots) = (i128::from(traded.lots), i128::from(traded.tick_lots));
        match self.runs.back_mut() {
            Some(run) if run.second == second && run.last.0 + 1 == traded.first.0 => {
                run.last = traded.last;
                run.lots += lots;
                run.tick_lots += tick_lots;
            }
            _ => self.start_run(TradeRun { second, first: traded.first, last: traded.last, lots, tick_lots }),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_run(&mut self, run: TradeRun) {
        while self.runs.front().is_some_and(|oldest| oldest.second + WINDOW_SECONDS < run.second) {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    /// Returns whether an engine whose latest trade is `trades` can have this state.
    pub(crate) fn is_valid(&self, trades: TradeSeq) -> bool {
        let is_price = |price: Ticks| (1..=Ticks::MAX_PRICE.0).contains(&price.0);
        let fits = |sum: i128| (-MOST_SUMMED..=MOST_SUMMED).contains(&sum);
        let mut before = TradeSeq::ZERO;
        let runs = self.runs.iter().all(|run| {
            let follows = before < run.first && run.first <= run.last && run.last <= trades;
            before = run.last;
            follows && fits(run.lots) && fits(run.tick_lots)
        });
        runs && self.runs.len() <= MOST_RUNS && [self.last, self.closing_call].into_iter().flatten().all(is_price)
    }

    /// Records the price of an uncross of a call, which is not continuous trading.
    pub(crate) fn set_last(&mut self, price: Ticks) {
        self.last = Some(price);
    }

    /// Deducts a busted trade from its run.
    pub(crate) fn remove_busted(&mut self, bust: &Bust) {
        let found = self.runs.iter_mut().find(|run| (run.first..=run.last).contains(&bust.trade_seq));
        if let Some(run) = found {
            let lots = i128::from(bust.lots.0);
            run.lots -= lots;
            run.tick_lots -= lots * i128::from(bust.price.0);
        }
    }

    /// Records the end of continuous trading.
    pub(crate) fn end_continuous(&mut self, now: VenueNanos) {
        self.ended = Some(now);
    }

    /// Returns the closing price and its derivation: the price of the closing call, the average of
    /// the last ten minutes, the last price, or the previous close, whichever exists first.
    pub(crate) fn closing_price(&self, previous: Option<Ticks>) -> Option<(Ticks, Derivation)> {
        let call = self.closing_call.map(|price| (price, Derivation::ClosingAuction));
        let vwap = || self.vwap().map(|price| (price, Derivation::Vwap));
        let last = || self.last.map(|price| (price, Derivation::LastTrade));
        call.or_else(vwap).or_else(last).or_else(|| previous.map(|price| (price, Derivation::PreviousClose)))
    }

    /// Returns the volume-weighted average price, rounded to the nearest tick, halves up.
    fn vwap(&self) -> Option<Ticks> {
        let first = (self.ended?.0 / SECOND_NS).saturating_sub(WINDOW_SECONDS);
        let counted = self.runs.iter().filter(|run| run.second >= first);
        let (lots, tick_lots) = counted.fold((0, 0), |sums, run| (sums.0 + run.lots, sums.1 + run.tick_lots));
        let price = (lots > 0).then(|| (2 * tick_lots + lots).div_euclid(2 * lots))?;
        let price = i64::try_from(price).ok()?;
        (1..=Ticks::MAX_PRICE.0).contains(&price).then_some(Ticks(price))
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::{AccountId, InstrumentId, Label, Lots};

    use super::*;

    fn at(second: u64, nanos: u64) -> VenueNanos {
        VenueNanos(second * SECOND_NS + nanos)
    }

    /// `trades` one after another from number `first` on, each (lots, price).
    fn traded(first: u64, trades: &[(u64, u64)]) -> TradeTotals {
        let last = first + trades.len() as u64 - 1;
        let tick_lots = trades.iter().map(|(lots, price)| lots * price).sum();
        let price = trades.last().map_or(0, |(_, price)| *price);
        TradeTotals {
            first: TradeSeq(first),
            last: TradeSeq(last),
            lots: trades.iter().map(|(lots, _)| lots).sum(),
            tick_lots,
            price: Ticks(i64::try_from(price).unwrap()),
        }
    }

    fn bust(trade: u64, lots: u64, price: i64) -> Bust {
        Bust {
            instrument: InstrumentId(0),
            trade_seq: TradeSeq(trade),
            price: Ticks(price),
            lots: Lots(lots),
            buyer: AccountId(0),
            seller: AccountId(1),
            reason: Label::NONE,
        }
    }

    const PREVIOUS: Option<Ticks> = Some(Ticks(95));

    fn closed(day: &ClosingPriceInputs) -> Option<(i64, Derivation)> {
        day.closing_price(PREVIOUS).map(|(price, derivation)| (price.0, derivation))
    }

    #[test]
    fn the_first_derivation_there_is() {
        let mut day = ClosingPriceInputs::default();
        assert_eq!(day.closing_price(None), None);
        assert_eq!(closed(&day), Some((95, Derivation::PreviousClose)));
        day.set_last(Ticks(98));
        assert_eq!(closed(&day), Some((98, Derivation::LastTrade)));
        day.add_trades(at(1_000, 0), traded(5, &[(100, 100), (300, 104)]));
        day.end_continuous(at(1_600, 999_999_999));
        // (10,000 + 31,200) / 400 = 103.
        assert_eq!(closed(&day), Some((103, Derivation::Vwap)));
        day.end_continuous(at(1_601, 0));
        assert_eq!(closed(&day), Some((104, Derivation::LastTrade)));
        day.closing_call = Some(Ticks(120));
        assert_eq!(closed(&day), Some((120, Derivation::ClosingAuction)));
    }

    #[test]
    fn average_rounds_halves_up() {
        for (trades, price) in [
            (&[(1, 100), (1, 101)][..], 101),
            (&[(3, 100), (1, 101)], 100),
            (&[(1, 100), (3, 101)], 101),
            (&[(3, 100), (2, 101)], 100),
            (&[(4_294_967_295, 4_294_967_295)], 4_294_967_295),
        ] {
            let mut day = ClosingPriceInputs::default();
            day.add_trades(at(7, 0), traded(1, trades));
            day.end_continuous(at(7, 0));
            assert_eq!(closed(&day), Some((price, Derivation::Vwap)), "{trades:?}");
        }
    }

    #[test]
    fn consecutive_trades_of_one_second_form_one_run() {
        let mut day = ClosingPriceInputs::default();
        day.add_trades(at(10, 0), traded(1, &[(1, 100)]));
        day.add_trades(at(10, 999_999_999), traded(2, &[(2, 200), (1, 300)]));
        // Trade number 4 belonged to an uncross.
        day.add_trades(at(10, 999_999_999), traded(5, &[(1, 400)]));
        day.add_trades(at(11, 0), traded(6, &[(1, 500)]));
        let runs: Vec<_> =
            day.runs.iter().map(|run| (run.second, run.first.0, run.last.0, run.lots, run.tick_lots)).collect();
        assert_eq!(runs, [(10, 1, 3, 4, 800), (10, 5, 5, 1, 400), (11, 6, 6, 1, 500)]);
        assert!(day.is_valid(TradeSeq(6)) && !day.is_valid(TradeSeq(5)));
        day.runs.swap(0, 1);
        assert!(!day.is_valid(TradeSeq(6)));
    }

    #[test]
    fn runs_outside_the_window_are_removed() {
        let mut day = ClosingPriceInputs::default();
        for second in 0..5_000 {
            day.add_trades(at(second, 0), traded(second + 1, &[(1, second + 1)]));
        }
        assert_eq!(day.runs.len(), 601);
        day.end_continuous(at(4_999, 0));
        // Seconds 4,399 to 4,999, priced one above: the mean is 4,700.
        assert_eq!(closed(&day), Some((4_700, Derivation::Vwap)));
    }

    #[test]
    fn bust_deducts_its_lots_from_its_run() {
        let mut day = ClosingPriceInputs::default();
        day.add_trades(at(10, 0), traded(1, &[(10, 100), (10, 110)]));
        day.add_trades(at(11, 0), traded(3, &[(10, 130)]));
        day.end_continuous(at(11, 0));
        day.remove_busted(&bust(2, 10, 110));
        assert_eq!(closed(&day), Some((115, Derivation::Vwap)));
        day.remove_busted(&bust(9, 10, 110));
        assert_eq!(closed(&day), Some((115, Derivation::Vwap)));
        day.remove_busted(&bust(3, 10, 130));
        assert_eq!(closed(&day), Some((100, Derivation::Vwap)));
        day.remove_busted(&bust(1, 10, 100));
        assert_eq!(
            closed(&day),
            Some((130, Derivation::LastTrade)),
            "the last price stays although its trade was busted"
        );
        // A bust with more lots than were traded leaves no average and causes no panic.
        day.remove_busted(&bust(1, u64::MAX, i64::MAX));
        assert_eq!(closed(&day), Some((130, Derivation::LastTrade)));
    }
}
