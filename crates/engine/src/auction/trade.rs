//! Two live orders trade at a price that is neither's own (rulebook 8.2, 11.4, 12).
//!
//! Holds       1. what one account gains another loses; what a party had set aside for these lots is free again;
//!             2. the earlier order is the maker.
//! Costs       constant.
//! Start at    `Engine::trade`.

use pitwire_model::{AccountId, Event, InstrumentId, Lots, OrderId, Side, Ticks, TradeKind};

use crate::book::Slot;
use crate::engine::{Engine, EventSink};
use crate::settle::{exchange, reserve};

/// A live order that trades, wherever it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct TradeParty {
    pub slot: Slot,
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// At what it has set aside what it could cost; zero where nothing says.
    pub limit: Ticks,
    /// What it has open in all; goes down as it trades.
    pub open: u32,
    pub time: u64,
    /// Something is set aside for it: all but an order that comes in.
    pub reserves: bool,
}

/// What becomes of two parties.
pub(super) struct PartyTrade<'a> {
    pub instrument: InstrumentId,
    pub kind: TradeKind,
    pub price: Ticks,
    pub lots: u32,
    pub maker: &'a mut TradeParty,
    pub taker: &'a mut TradeParty,
}

impl Engine {
    /// The order at a slot of an instrument.
    pub(super) fn party(&self, instrument: InstrumentId, slot: Slot) -> Option<TradeParty> {
        let market = &self.markets[instrument.0 as usize];
        if slot.is_kept() {
            let order = market.special.get(slot)?;
            let (limit, time) = (order.reserve_price(), order.origin.time);
            let (id, account, side, open) = (order.id, order.account, order.side, order.open);
            return Some(TradeParty { slot, id, account, side, limit, open, time, reserves: true });
        }
        let (order, time) = (market.book.get(slot), market.book.origin(slot).time);
        let (id, account, side, open) = (order.id, order.owner.account(), order.owner.side(), order.total_open());
        Some(TradeParty { slot, id, account, side, limit: order.price, open, time, reserves: true })
    }

    /// One trade; says so. Whoever calls counts it for the throttles: something may have to be said before.
    pub(super) fn trade(&mut self, deal: PartyTrade<'_>, out: &mut impl EventSink) {
        let PartyTrade { instrument, kind, price, lots, maker, taker } = deal;
        let Engine { accounts, markets, .. } = self;
        let market = &mut markets[instrument.0 as usize];
        let money = market.money;
        for party in [&mut *maker, &mut *taker] {
            party.open -= lots;
            if party.reserves {
                let holder = &mut accounts[party.account.0 as usize];
                reserve(holder, money, instrument, party.side, party.limit, -i128::from(lots));
            }
        }
        let parties = [&*taker, &*maker].map(|party| (party.account.0 as usize, party.side));
        exchange(accounts, instrument, money, parties, price, lots);
        market.trades.0 += 1;
        out.emit(Event::Trade {
            instrument,
            trade_seq: market.trades,
            price,
            lots: Lots(u64::from(lots)),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(u64::from(maker.open)),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(u64::from(taker.open)),
            kind,
        });
    }

    /// Counts a trade for both accounts' throttles, the maker's first.
    pub(super) fn count_trade(&mut self, maker: AccountId, taker: AccountId, out: &mut impl EventSink) {
        let now = self.now;
        for account in [maker, taker] {
            let holder = &mut self.accounts[account.0 as usize];
            if holder.counted && holder.count_execution(now) {
                out.emit(Event::ThrottleTripped { account });
            }
        }
    }
}
