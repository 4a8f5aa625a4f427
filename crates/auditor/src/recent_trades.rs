//! The newest trades, to check a bust against the trade that it reverses.
//!
//! Holds       the newest [`RecentTrades::CAPACITY`] trades of the venue. A bust of an older trade
//!             is accepted as the operator states it.

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{AccountId, Bust, InstrumentId, Lots, Ticks, TradeSeq};

#[derive(Debug, Default)]
pub struct RecentTrades {
    trades: BTreeMap<(InstrumentId, TradeSeq), RecentTrade>,
    order: VecDeque<(InstrumentId, TradeSeq)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentTrade {
    pub price: Ticks,
    pub lots: Lots,
    pub buyer: AccountId,
    pub seller: AccountId,
}

impl RecentTrades {
    pub const CAPACITY: usize = 100_000;

    pub fn add(&mut self, instrument: InstrumentId, number: TradeSeq, traded: RecentTrade) {
        if self.order.len() == Self::CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.trades.remove(&oldest);
        }
        self.order.push_back((instrument, number));
        self.trades.insert((instrument, number), traded);
    }

    /// Returns the recorded trade if a bust describes it differently.
    pub fn contradicts(&self, bust: &Bust) -> Option<RecentTrade> {
        let actual = RecentTrade { price: bust.price, lots: bust.lots, buyer: bust.buyer, seller: bust.seller };
        self.trades.get(&(bust.instrument, bust.trade_seq)).copied().filter(|traded| *traded != actual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_trade_leaves_when_capacity_is_reached() {
        let mut tape = RecentTrades::default();
        let traded = RecentTrade { price: Ticks(1), lots: Lots(1), buyer: AccountId(0), seller: AccountId(1) };
        for number in 1..=RecentTrades::CAPACITY as u64 + 1 {
            tape.add(InstrumentId(0), TradeSeq(number), traded);
        }
        assert_eq!((tape.trades.len(), tape.order.len()), (RecentTrades::CAPACITY, RecentTrades::CAPACITY));
        let bust = |number| Bust {
            instrument: InstrumentId(0),
            trade_seq: TradeSeq(number),
            price: Ticks(2),
            lots: Lots(1),
            buyer: AccountId(0),
            seller: AccountId(1),
            reason: pitwire_model::Label::NONE,
        };
        assert_eq!((tape.contradicts(&bust(1)), tape.contradicts(&bust(2))), (None, Some(traded)));
    }
}
