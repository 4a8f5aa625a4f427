//! One instrument's public history: trades, one-minute candles, and the statistics of the last 24
//! hours.

use std::collections::VecDeque;

use pitwire_model::{AccountId, InstrumentSpec, Lots, Side, Ticks, TradeKind, TradeSeq, VenueNanos};

pub const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// Relation of a trade's price to the one before, in the dialect's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TickDirection {
    Plus = 0,
    #[default]
    ZeroPlus = 1,
    Minus = 2,
    ZeroMinus = 3,
}

impl TickDirection {
    pub const ALL: [TickDirection; 4] =
        [TickDirection::Plus, TickDirection::ZeroPlus, TickDirection::Minus, TickDirection::ZeroMinus];

    fn after(self, before: Ticks, now: Ticks) -> Self {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => TickDirection::Plus,
            std::cmp::Ordering::Less => TickDirection::Minus,
            std::cmp::Ordering::Equal => match self {
                TickDirection::Plus | TickDirection::ZeroPlus => TickDirection::ZeroPlus,
                TickDirection::Minus | TickDirection::ZeroMinus => TickDirection::ZeroMinus,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicTrade {
    pub seq: TradeSeq,
    pub price: Ticks,
    pub lots: Lots,
    pub taker_side: Side,
    pub kind: TradeKind,
    pub at: VenueNanos,
    pub direction: TickDirection,
    pub index: Ticks,
    pub mark: Ticks,
    /// Cancelled by an operator. Candles and statistics keep its effect.
    pub busted: bool,
}

/// A minute with at least one trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candle {
    pub start_ms: u64,
    pub open: Ticks,
    pub high: Ticks,
    pub low: Ticks,
    pub close: Ticks,
    pub lots: u64,
    /// Sum of price × lots.
    pub tick_lots: u128,
    /// Sum of lots / price, in units of 10⁻¹⁸ lots per tick, each rounded down. The volume of an
    /// inverse contract in base currency is computed from it.
    pub lots_per_tick: u128,
}

/// One lot per tick, in the unit of [`Candle::lots_per_tick`].
pub const LOTS_PER_TICK_ONE: u128 = 1_000_000_000_000_000_000;

impl Candle {
    /// Returns a candle without trades.
    pub fn flat(start_ms: u64, price: Ticks) -> Self {
        Candle { start_ms, open: price, high: price, low: price, close: price, lots: 0, tick_lots: 0, lots_per_tick: 0 }
    }

    /// Returns an empty candle for the minute of a trade, unless `newest` is of that minute. It
    /// begins at the trade's price, or at the last close if the trade makes no price.
    pub fn begin(newest: Option<&Candle>, trade: &PublicTrade) -> Option<Self> {
        let start_ms = trade.at.as_millis() / MINUTE_MS * MINUTE_MS;
        if newest.is_some_and(|newest| newest.start_ms >= start_ms) {
            return None;
        }
        let close = newest.filter(|_| trade.kind == TradeKind::Cross).map(|newest| newest.close);
        Some(Candle::flat(start_ms, close.unwrap_or(trade.price)))
    }

    /// Adds a trade. A trade of the closing price cross makes no price and counts in volume only.
    pub fn add(&mut self, trade: &PublicTrade) {
        let (price, lots) = (trade.price, trade.lots);
        if trade.kind != TradeKind::Cross {
            self.high = self.high.max(price);
            self.low = self.low.min(price);
            self.close = price;
        }
        self.lots = self.lots.saturating_add(lots.0);
        let tick_lots = u128::from(price.0.unsigned_abs()) * u128::from(lots.0);
        self.tick_lots = self.tick_lots.saturating_add(tick_lots);
        let scaled = u128::from(lots.0) * LOTS_PER_TICK_ONE;
        let quotient = scaled.checked_div(u128::from(price.0.unsigned_abs())).unwrap_or(0);
        self.lots_per_tick = self.lots_per_tick.saturating_add(quotient);
    }

    pub fn absorb(&mut self, later: &Candle) {
        self.high = self.high.max(later.high);
        self.low = self.low.min(later.low);
        self.close = later.close;
        self.lots = self.lots.saturating_add(later.lots);
        self.tick_lots = self.tick_lots.saturating_add(later.tick_lots);
        self.lots_per_tick = self.lots_per_tick.saturating_add(later.lots_per_tick);
    }
}

/// Statistics of the last 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub open: Ticks,
    pub high: Ticks,
    pub low: Ticks,
    pub last: Ticks,
    pub lots: u64,
    pub tick_lots: u128,
    /// As [`Candle::lots_per_tick`].
    pub lots_per_tick: u128,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tape {
    pub(crate) trades: VecDeque<PublicTrade>,
    /// Buyer and seller of each trade. Not public.
    pub(crate) parties: VecDeque<(AccountId, AccountId)>,
    pub(crate) candles: VecDeque<Candle>,
    pub(crate) direction: TickDirection,
    pub(crate) index: Ticks,
    /// Sampled mark price of a perpetual. Other instruments use the last trade price.
    pub(crate) mark: Option<Ticks>,
}

impl Tape {
    pub const TRADES: usize = 10_000;
    /// Most one-minute candles: two days.
    pub const CANDLES: usize = 2_880;

    pub(crate) fn new(spec: &InstrumentSpec) -> Self {
        Tape {
            trades: VecDeque::new(),
            parties: VecDeque::new(),
            candles: VecDeque::new(),
            direction: TickDirection::default(),
            index: spec.start_price,
            mark: None,
        }
    }

    pub(crate) fn sampled(&mut self, index: Ticks, mark: Ticks) {
        self.index = index;
        self.mark = Some(mark);
    }

    pub(crate) fn traded(
        &mut self,
        (seq, price, lots): (TradeSeq, Ticks, Lots),
        taker_side: Side,
        kind: TradeKind,
        at: VenueNanos,
        (taker, maker): (AccountId, AccountId),
    ) -> PublicTrade {
        let before = self.trades.back().map_or(price, |trade| trade.price);
        self.direction = self.direction.after(before, price);
        let trade = PublicTrade {
            seq,
            price,
            lots,
            taker_side,
            kind,
            at,
            direction: self.direction,
            index: self.index,
            mark: self.mark.unwrap_or(price),
            busted: false,
        };
        push_capped(&mut self.trades, trade, Self::TRADES);
        let parties = if taker_side == Side::Buy { (taker, maker) } else { (maker, taker) };
        push_capped(&mut self.parties, parties, Self::TRADES);
        if let Some(candle) = Candle::begin(self.candles.back(), &trade) {
            push_capped(&mut self.candles, candle, Self::CANDLES);
        }
        if let Some(candle) = self.candles.back_mut() {
            candle.add(&trade);
        }
        trade
    }

    /// Returns the remembered trades, oldest first.
    pub fn trades(&self) -> &VecDeque<PublicTrade> {
        &self.trades
    }

    /// Returns the index of a remembered trade. Trade numbers have no gaps, so it follows from the
    /// newest number.
    fn place(&self, seq: TradeSeq) -> Option<usize> {
        let newest = self.trades.back()?.seq.0;
        let back = usize::try_from(newest.checked_sub(seq.0)?).ok()?;
        (self.trades.len() - 1).checked_sub(back)
    }

    pub fn trade(&self, seq: TradeSeq) -> Option<&PublicTrade> {
        self.trades.get(self.place(seq)?)
    }

    /// Returns buyer and seller of a remembered trade.
    pub fn parties(&self, seq: TradeSeq) -> Option<(AccountId, AccountId)> {
        self.parties.get(self.place(seq)?).copied()
    }

    pub(crate) fn bust(&mut self, seq: TradeSeq) {
        if let Some(place) = self.place(seq) {
            self.trades[place].busted = true;
        }
    }

    pub fn index(&self) -> Ticks {
        self.index
    }

    pub fn stats(&self, now: VenueNanos) -> Option<Stats> {
        let since = now.as_millis().saturating_sub(DAY_MS);
        let mut candles = self.candles.iter().skip_while(|candle| candle.start_ms < since);
        let mut day = *candles.next()?;
        candles.for_each(|candle| day.absorb(candle));
        Some(Stats {
            open: day.open,
            high: day.high,
            low: day.low,
            last: day.close,
            lots: day.lots,
            tick_lots: day.tick_lots,
            lots_per_tick: day.lots_per_tick,
        })
    }

    /// Returns candles of `minutes` minutes that start within the range, at most the newest `most`.
    /// A candle without trades repeats the last close.
    pub fn candles(&self, from_ms: u64, to_ms: u64, minutes: u64, most: usize) -> Vec<Candle> {
        let width = minutes.max(1) * MINUTE_MS;
        let first = from_ms / width * width;
        let Some(oldest) = self.candles.front() else { return Vec::new() };
        let first = first.max(oldest.start_ms / width * width);
        let first = first.max((to_ms / width * width).saturating_sub(width * (most as u64 - 1)));
        let mut close = None;
        let mut source = self.candles.iter().peekable();
        while let Some(candle) = source.next_if(|candle| candle.start_ms < first) {
            close = Some(candle.close);
        }
        let mut out = Vec::new();
        let mut start = first;
        while start <= to_ms {
            let mut bucket = None::<Candle>;
            while let Some(candle) = source.next_if(|candle| candle.start_ms < start + width) {
                match &mut bucket {
                    Some(bucket) => bucket.absorb(candle),
                    None => bucket = Some(Candle { start_ms: start, ..*candle }),
                }
            }
            let bucket = bucket.or(close.map(|close| Candle::flat(start, close)));
            if let Some(bucket) = bucket {
                close = Some(bucket.close);
                out.push(bucket);
            }
            start += width;
        }
        out
    }
}

pub(crate) fn push_capped<T>(queue: &mut VecDeque<T>, item: T, cap: usize) {
    if queue.len() == cap {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(trades: &[(u64, i64, u64)]) -> Tape {
        let mut tape = Tape {
            trades: VecDeque::new(),
            parties: VecDeque::new(),
            candles: VecDeque::new(),
            direction: TickDirection::default(),
            index: Ticks(100),
            mark: None,
        };
        for (seq, (second, price, lots)) in (1..).zip(trades) {
            let at = VenueNanos(second * 1_000_000_000);
            let what = (TradeSeq(seq), Ticks(*price), Lots(*lots));
            tape.traded(what, Side::Buy, TradeKind::Continuous, at, (AccountId(1), AccountId(2)));
        }
        tape
    }

    #[test]
    fn tick_directions_follow_the_last_different_price() {
        let tape = tape(&[(0, 10, 1), (1, 11, 1), (2, 11, 1), (3, 9, 1), (4, 9, 1)]);
        let got: Vec<u8> = tape.trades().iter().map(|trade| trade.direction as u8).collect();
        assert_eq!(got, [1, 0, 1, 2, 3]);
    }

    #[test]
    fn trade_is_found_by_number_while_it_is_remembered() {
        let many: Vec<_> = (0..Tape::TRADES as u64 + 5).map(|n| (n, 10, n + 1)).collect();
        let mut tape = tape(&many);
        assert_eq!((tape.trade(TradeSeq(5)), tape.trade(TradeSeq(0))), (None, None));
        assert_eq!(tape.trade(TradeSeq(6)).map(|trade| trade.lots), Some(Lots(6)));
        assert_eq!(tape.parties(TradeSeq(6)), Some((AccountId(1), AccountId(2))));
        let newest = TradeSeq(many.len() as u64);
        assert_eq!(tape.trade(TradeSeq(newest.0 + 1)), None);
        tape.bust(newest);
        assert!(tape.trade(newest).is_some_and(|trade| trade.busted));
    }

    #[test]
    fn candles_without_trades_repeat_the_last_close() {
        let tape = tape(&[(0, 10, 1), (30, 12, 2), (59, 11, 3), (185, 20, 4)]);
        let got: Vec<_> = tape
            .candles(0, 239_000, 1, 100)
            .iter()
            .map(|c| (c.start_ms / 1000, c.open.0, c.high.0, c.low.0, c.close.0, c.lots))
            .collect();
        assert_eq!(
            got,
            [(0, 10, 12, 10, 11, 6), (60, 11, 11, 11, 11, 0), (120, 11, 11, 11, 11, 0), (180, 20, 20, 20, 20, 4)]
        );
        let three: Vec<_> =
            tape.candles(0, 239_000, 3, 100).iter().map(|c| (c.start_ms / 1000, c.close.0, c.lots)).collect();
        assert_eq!(three, [(0, 11, 6), (180, 20, 4)]);
        assert_eq!(tape.candles(0, 239_000, 1, 2).len(), 2);
    }

    #[test]
    fn statistics_drop_trades_older_than_a_day() {
        let tape = tape(&[(0, 10, 1), (90_000, 30, 2), (90_061, 20, 1)]);
        let stats = tape.stats(VenueNanos(90_100 * 1_000_000_000)).unwrap();
        assert_eq!((stats.open, stats.high, stats.low, stats.last), (Ticks(30), Ticks(30), Ticks(20), Ticks(20)));
        assert_eq!((stats.lots, stats.tick_lots), (3, 80));
        // 2 / 30 + 1 / 20, each rounded down.
        assert_eq!(stats.lots_per_tick, 66_666_666_666_666_666 + 50_000_000_000_000_000);
    }
}
