//! The trades of late, so that a bust can be held against what it takes back.
//!
//! Holds       the newest [`Tape::REMEMBERED`] trades of the venue: an older one is busted at the operator's word.

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{AccountId, Bust, InstrumentId, Lots, Ticks, TradeSeq};

#[derive(Debug, Default)]
pub struct Tape {
    trades: BTreeMap<(InstrumentId, TradeSeq), Traded>,
    order: VecDeque<(InstrumentId, TradeSeq)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traded {
    pub price: Ticks,
    pub lots: Lots,
    pub buyer: AccountId,
    pub seller: AccountId,
}

impl Tape {
    pub const REMEMBERED: usize = 100_000;

    pub fn remember(&mut self, instrument: InstrumentId, number: TradeSeq, traded: Traded) {
        if self.order.len() == Self::REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.trades.remove(&oldest);
        }
        self.order.push_back((instrument, number));
        self.trades.insert((instrument, number), traded);
    }

    /// The trade that a bust names, if it was not so.
    pub fn otherwise(&self, bust: &Bust) -> Option<Traded> {
        let told = Traded { price: bust.price, lots: bust.lots, buyer: bust.buyer, seller: bust.seller };
        self.trades.get(&(bust.instrument, bust.trade_seq)).copied().filter(|traded| *traded != told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_trades_are_forgotten() {
        let mut tape = Tape::default();
        let traded = Traded { price: Ticks(1), lots: Lots(1), buyer: AccountId(0), seller: AccountId(1) };
        for number in 1..=Tape::REMEMBERED as u64 + 1 {
            tape.remember(InstrumentId(0), TradeSeq(number), traded);
        }
        assert_eq!((tape.trades.len(), tape.order.len()), (Tape::REMEMBERED, Tape::REMEMBERED));
        let bust = |number| Bust {
            instrument: InstrumentId(0),
            trade_seq: TradeSeq(number),
            price: Ticks(2),
            lots: Lots(1),
            buyer: AccountId(0),
            seller: AccountId(1),
            reason: pitwire_model::Label::NONE,
        };
        assert_eq!((tape.otherwise(&bust(1)), tape.otherwise(&bust(2))), (None, Some(traded)));
    }
}
