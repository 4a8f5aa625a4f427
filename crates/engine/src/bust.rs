//! A trade taken back: money and goods return, orders do not.
//!
//! Holds       1. what a bust moves adds up to nothing over all accounts;
//!             2. no trade is taken back twice. Its details are the caller's: the engine keeps no trades.

use pitwire_model::{Bust, Event, Lots, Reject, Side, Ticks};

use crate::engine::{Engine, EventSink};
use crate::settle::exchange;

impl Engine {
    pub(crate) fn bust_trade(&mut self, bust: &Bust, out: &mut impl EventSink) -> Result<(), Reject> {
        let lots = self.check_bust(bust)?;
        let market = &mut self.markets[bust.instrument.0 as usize];
        market.busted.insert(bust.trade_seq);
        market.day.bust(bust);
        let (buyer, seller) = (bust.buyer.0 as usize, bust.seller.0 as usize);
        let sale = [(buyer, Side::Sell), (seller, Side::Buy)];
        exchange(&mut self.accounts, bust.instrument, market.money, sale, bust.price, lots);
        out.emit(Event::TradeBusted(Box::new(bust.clone())));
        Ok(())
    }

    fn check_bust(&self, bust: &Bust) -> Result<u32, Reject> {
        let market = self.market(bust.instrument).ok_or(Reject::UnknownInstrument)?;
        for account in [bust.buyer, bust.seller] {
            self.account(account).ok_or(Reject::UnknownAccount)?;
        }
        if !(1..=market.trades.0).contains(&bust.trade_seq.0) {
            return Err(Reject::UnknownTrade);
        }
        if market.busted.contains(&bust.trade_seq) {
            return Err(Reject::AlreadyBusted);
        }
        let priced = (1..=Ticks::MAX_PRICE.0).contains(&bust.price.0);
        let lots = u32::try_from(bust.lots.0).ok().filter(|_| priced && bust.lots > Lots::ZERO);
        lots.ok_or(Reject::BadDefinition)
    }
}
