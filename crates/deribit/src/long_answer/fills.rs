//! Lists of fills.

use std::ops::{Range, RangeInclusive};

use pitwire_engine::Engine;
use pitwire_model::{AccountId, OrderId};
use pitwire_projections::{AccountBook, UserTrade};

use super::charge;
use crate::Venue;
use crate::codec::{Json, objects};
use crate::order_filter::InstrumentFilter;

/// Which fills of an account a list has.
#[derive(Debug)]
pub(crate) struct FillFilter {
    pub instruments: InstrumentFilter,
    /// `None` covers every order.
    pub order: Option<OrderId>,
    pub times_ms: RangeInclusive<u64>,
    /// Numbers of the trades in their instrument.
    pub trades: RangeInclusive<u64>,
}

impl FillFilter {
    pub fn of_order(order: OrderId) -> Self {
        FillFilter { order: Some(order), ..Self::default() }
    }

    fn covers(&self, engine: &Engine, fill: &UserTrade) -> bool {
        self.order.is_none_or(|order| fill.order == order)
            && self.times_ms.contains(&fill.trade.at.as_millis())
            && self.trades.contains(&fill.trade.seq.0)
            && self.instruments.covers(engine, fill.instrument)
    }
}

impl Default for FillFilter {
    fn default() -> Self {
        let all = 0..=u64::MAX;
        FillFilter { instruments: InstrumentFilter::default(), order: None, times_ms: all.clone(), trades: all }
    }
}

/// A list of fills. The caller writes what comes before the first one.
#[derive(Debug)]
pub(crate) struct FillList {
    /// Numbers of the fills that are not visited.
    numbers: Range<u64>,
    is_descending: bool,
    filter: FillFilter,
    /// Most fills to write.
    left: usize,
    /// The text behind the fills: the second one if there are more than the list may have.
    endings: [&'static str; 2],
    /// The fills are those of a request that has changed the market.
    pub is_outcome: bool,
    has_written: bool,
    /// Fills visited since the budget was last charged.
    visited: usize,
}

impl FillList {
    /// A list of all fills that `filter` covers, oldest first.
    pub fn new(book: Option<&AccountBook>, filter: FillFilter, endings: [&'static str; 2]) -> Self {
        FillList {
            numbers: book.map_or(0..0, AccountBook::trade_numbers),
            is_descending: false,
            filter,
            left: usize::MAX,
            endings,
            is_outcome: false,
            has_written: false,
            visited: 0,
        }
    }

    /// Lists the newest fill first if `is_descending`.
    #[must_use]
    pub fn descending(self, is_descending: bool) -> Self {
        FillList { is_descending, ..self }
    }

    /// Lists at most `count` fills.
    #[must_use]
    pub fn at_most(self, count: usize) -> Self {
        FillList { left: count, ..self }
    }

    /// Lists only the fills of a request: the newest `count` of the account.
    #[must_use]
    pub fn of_outcome(mut self, count: usize) -> Self {
        self.numbers.start = self.numbers.start.max(self.numbers.end.saturating_sub(count as u64));
        FillList { is_outcome: true, ..self }
    }

    /// Writes the next fills. Returns whether the list is complete.
    pub fn write(&mut self, (venue, account): (&dyn Venue, AccountId), budget: &mut usize, out: &mut Vec<u8>) -> bool {
        let (engine, book) = (venue.engine(), venue.views().account(account));
        while *budget > 0 {
            let number = if self.is_descending { self.numbers.next_back() } else { self.numbers.next() };
            let Some(number) = number else {
                out.extend_from_slice(self.endings[0].as_bytes());
                return true;
            };
            let fill = book.and_then(|book| book.trade(number)).filter(|fill| self.filter.covers(engine, fill));
            let found = fill.and_then(|fill| Some((fill, engine.market(fill.instrument)?)));
            if let Some((fill, market)) = found {
                if self.left == 0 {
                    out.extend_from_slice(self.endings[1].as_bytes());
                    return true;
                }
                self.left -= 1;
                if std::mem::replace(&mut self.has_written, true) {
                    out.push(b',');
                }
                objects::user_trade(&mut Json::new(out), &market.spec, fill, engine.currencies());
            }
            charge(budget, &mut self.visited, found.is_some());
        }
        false
    }
}
