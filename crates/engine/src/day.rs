//! What of a day's trading the closing price is made from.
//!
//! Does        keep the trades of the last ten minutes of continuous trading, second by second; say the closing price.
//! Holds       1. a run counts trades that follow one another, made in one second of venue time in continuous trading;
//!             2. no run is more than ten minutes older than the latest: there are some 600 at most, however many trades.
//! Leaves out  open, high, low and turnover of the day: the views have them from the tape, busted trades taken out.
//! Costs       counting a sweep's trades: constant, and nothing is allocated while they fall into one second; the closing
//!             price, a bust: the runs.
//! Start at    [`Day::count`], then [`Day::close`].

use std::collections::VecDeque;

use pitwire_model::{Bust, Derivation, Event, InstrumentId, Phase, Side, Ticks, TradeSeq, VenueNanos};

use crate::engine::{Engine, EventSink};
use crate::market::Market;

const SECOND_NS: u64 = 1_000_000_000;
/// How far back the closing price looks.
const WINDOW_SECONDS: u64 = 600;
/// Far more than can be traded in a second; sums over a window still fit.
const MOST_SUMMED: i128 = 1 << 100;
/// No command begins more than one run, and images are no larger than this.
const MOST_RUNS: usize = 1 << 20;

/// Trades that followed one another within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeRun {
    /// Since 1970.
    pub second: u64,
    pub first: TradeSeq,
    pub last: TradeSeq,
    /// Busts are taken out as they were told, so that a false one may leave less than nothing.
    pub lots: i128,
    /// Σ price × lots.
    pub tick_lots: i128,
}

/// Part of every image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosingPriceInputs {
    /// Price of the day's latest trade outside the closing price cross.
    pub last: Option<Ticks>,
    /// Price of the day's closing call.
    pub closing_call: Option<Ticks>,
    /// When continuous trading last ended.
    pub ended: Option<VenueNanos>,
    /// Oldest first.
    pub runs: VecDeque<TradeRun>,
}

/// What one aggression, filter or batch has traded in continuous trading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TradeTotals {
    pub first: TradeSeq,
    pub last: TradeSeq,
    pub lots: u64,
    /// Σ price × lots. An order has fewer than 2^32 lots and a price fewer than 2^32 ticks.
    pub tick_lots: u64,
    /// Of the last trade.
    pub price: Ticks,
}

impl ClosingPriceInputs {
    /// HOT. Trades of continuous trading; at least one.
    #[inline]
    pub(crate) fn count(&mut self, at: VenueNanos, traded: TradeTotals) {
        self.last = Some(traded.price);
        let second = at.0 / SECOND_NS;
        let (lots, tick_lots) = (i128::from(traded.lots), i128::from(traded.tick_lots));
        match self.runs.back_mut() {
            Some(run) if run.second == second && run.last.0 + 1 == traded.first.0 => {
                run.last = traded.last;
                run.lots += lots;
                run.tick_lots += tick_lots;
            }
            _ => self.begin(TradeRun { second, first: traded.first, last: traded.last, lots, tick_lots }),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self, run: TradeRun) {
        while self.runs.front().is_some_and(|oldest| oldest.second + WINDOW_SECONDS < run.second) {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    /// Whether an engine whose latest trade is `trades` can have come to this.
    pub(crate) fn is_sound(&self, trades: TradeSeq) -> bool {
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

    /// An uncross of a call, which is no continuous trading.
    pub(crate) fn uncrossed(&mut self, price: Ticks) {
        self.last = Some(price);
    }

    pub(crate) fn bust(&mut self, bust: &Bust) {
        let found = self.runs.iter_mut().find(|run| (run.first..=run.last).contains(&bust.trade_seq));
        if let Some(run) = found {
            let lots = i128::from(bust.lots.0);
            run.lots -= lots;
            run.tick_lots -= lots * i128::from(bust.price.0);
        }
    }

    /// The session ceases to be continuous.
    pub(crate) fn end_continuous(&mut self, now: VenueNanos) {
        self.ended = Some(now);
    }

    /// The closing price and where it comes from: the first there is.
    pub(crate) fn close(&self, previous: Option<Ticks>) -> Option<(Ticks, Derivation)> {
        let call = self.closing_call.map(|price| (price, Derivation::ClosingAuction));
        let vwap = || self.vwap().map(|price| (price, Derivation::Vwap));
        let last = || self.last.map(|price| (price, Derivation::LastTrade));
        call.or_else(vwap).or_else(last).or_else(|| previous.map(|price| (price, Derivation::PreviousClose)))
    }

    /// To the nearest tick, halves up.
    fn vwap(&self) -> Option<Ticks> {
        let first = (self.ended?.0 / SECOND_NS).saturating_sub(WINDOW_SECONDS);
        let counted = self.runs.iter().filter(|run| run.second >= first);
        let (lots, tick_lots) = counted.fold((0, 0), |sums, run| (sums.0 + run.lots, sums.1 + run.tick_lots));
        let price = (lots > 0).then(|| (2 * tick_lots + lots).div_euclid(2 * lots))?;
        let price = i64::try_from(price).ok()?;
        (1..=Ticks::MAX_PRICE.0).contains(&price).then_some(Ticks(price))
    }
}

impl Engine {
    /// The closing price is worked out, and told if there is one.
    pub(crate) fn publish_close(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let market = &mut self.markets[instrument.0 as usize];
        market.special.closing = market.day.close(market.special.previous_close);
        if let Some((price, derivation)) = market.special.closing {
            out.emit(Event::ClosingPriceSet { instrument, price, derivation });
        }
    }
}

impl Market {
    /// A call has ended at `price`. A volatility call that went on from the closing call is the closing call.
    pub(crate) fn call_ended(&mut self, call: Phase, price: Option<Ticks>) {
        if call == Phase::ClosingCall || self.special.continues == Some(Phase::ClosingCall) {
            self.day.closing_call = price.or(self.day.closing_call);
        }
    }

    /// The day's numbers begin anew.
    pub(crate) fn day_ended(&mut self) {
        self.day = ClosingPriceInputs::default();
    }

    /// What the visible orders of a side are priced at on average, rounded down.
    pub fn book_vwap(&self, side: Side) -> Option<Ticks> {
        let sums = self.book.levels(side).fold((0_i128, 0_i128), |(lots, tick_lots), (price, there)| {
            let there = i128::from(there.0);
            (lots + there, tick_lots + there * i128::from(price.0))
        });
        i64::try_from(sums.1.checked_div(sums.0)?).ok().map(Ticks)
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::{AccountId, Label, Lots};

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
        day.close(PREVIOUS).map(|(price, derivation)| (price.0, derivation))
    }

    #[test]
    fn the_first_derivation_there_is() {
        let mut day = ClosingPriceInputs::default();
        assert_eq!(day.close(None), None);
        assert_eq!(closed(&day), Some((95, Derivation::PreviousClose)));
        day.uncrossed(Ticks(98));
        assert_eq!(closed(&day), Some((98, Derivation::LastTrade)));
        day.count(at(1_000, 0), traded(5, &[(100, 100), (300, 104)]));
        day.end_continuous(at(1_600, 999_999_999));
        // (10,000 + 31,200) / 400 = 103.
        assert_eq!(closed(&day), Some((103, Derivation::Vwap)));
        day.end_continuous(at(1_601, 0));
        assert_eq!(closed(&day), Some((104, Derivation::LastTrade)));
        day.closing_call = Some(Ticks(120));
        assert_eq!(closed(&day), Some((120, Derivation::ClosingAuction)));
    }

    #[test]
    fn halves_round_up_and_less_rounds_down() {
        for (trades, price) in [
            (&[(1, 100), (1, 101)][..], 101),
            (&[(3, 100), (1, 101)], 100),
            (&[(1, 100), (3, 101)], 101),
            (&[(3, 100), (2, 101)], 100),
            (&[(4_294_967_295, 4_294_967_295)], 4_294_967_295),
        ] {
            let mut day = ClosingPriceInputs::default();
            day.count(at(7, 0), traded(1, trades));
            day.end_continuous(at(7, 0));
            assert_eq!(closed(&day), Some((price, Derivation::Vwap)), "{trades:?}");
        }
    }

    #[test]
    fn trades_of_one_second_that_follow_one_another_are_one_run() {
        let mut day = ClosingPriceInputs::default();
        day.count(at(10, 0), traded(1, &[(1, 100)]));
        day.count(at(10, 999_999_999), traded(2, &[(2, 200), (1, 300)]));
        // Number 4 was an uncross's.
        day.count(at(10, 999_999_999), traded(5, &[(1, 400)]));
        day.count(at(11, 0), traded(6, &[(1, 500)]));
        let runs: Vec<_> =
            day.runs.iter().map(|run| (run.second, run.first.0, run.last.0, run.lots, run.tick_lots)).collect();
        assert_eq!(runs, [(10, 1, 3, 4, 800), (10, 5, 5, 1, 400), (11, 6, 6, 1, 500)]);
        assert!(day.is_sound(TradeSeq(6)) && !day.is_sound(TradeSeq(5)));
        day.runs.swap(0, 1);
        assert!(!day.is_sound(TradeSeq(6)));
    }

    #[test]
    fn what_can_never_count_again_is_forgotten() {
        let mut day = ClosingPriceInputs::default();
        for second in 0..5_000 {
            day.count(at(second, 0), traded(second + 1, &[(1, second + 1)]));
        }
        assert_eq!(day.runs.len(), 601);
        day.end_continuous(at(4_999, 0));
        // Seconds 4,399 to 4,999, priced one above: the mean is 4,700.
        assert_eq!(closed(&day), Some((4_700, Derivation::Vwap)));
    }

    #[test]
    fn a_bust_takes_its_lots_out_of_its_run() {
        let mut day = ClosingPriceInputs::default();
        day.count(at(10, 0), traded(1, &[(10, 100), (10, 110)]));
        day.count(at(11, 0), traded(3, &[(10, 130)]));
        day.end_continuous(at(11, 0));
        day.bust(&bust(2, 10, 110));
        assert_eq!(closed(&day), Some((115, Derivation::Vwap)));
        day.bust(&bust(9, 10, 110));
        assert_eq!(closed(&day), Some((115, Derivation::Vwap)));
        day.bust(&bust(3, 10, 130));
        assert_eq!(closed(&day), Some((100, Derivation::Vwap)));
        day.bust(&bust(1, 10, 100));
        assert_eq!(closed(&day), Some((130, Derivation::LastTrade)), "the last trade stays, busted or not");
        // A bust that says what was never traded leaves no price at all, and no panic.
        day.bust(&bust(1, u64::MAX, i64::MAX));
        assert_eq!(closed(&day), Some((130, Derivation::LastTrade)));
    }
}
