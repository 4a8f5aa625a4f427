//! Where an audit that does not begin at the beginning begins, and what a snapshot is held against.

use pitwire_model::{
    AccountId, AccountSpec, Currency, InstrumentId, InstrumentSpec, Lots, OrderId, Phase, Seq, Side, Ticks, TradeSeq,
    VenueNanos,
};

use crate::book::Live;
use crate::ledger::Holding;
use crate::{Auditor, Judged, Offence, legal_lots, legal_price, offence};

/// The venue as a snapshot tells it, after the command numbered `seq`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub seq: Seq,
    pub at: VenueNanos,
    pub currencies: Vec<Currency>,
    pub markets: Vec<OpeningMarket>,
    pub accounts: Vec<OpeningAccount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningMarket {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    /// The last trade's number.
    pub trades: TradeSeq,
    /// Bids, then asks, each in priority order.
    pub orders: Vec<OpeningOrder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpeningOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub day: bool,
    pub price: Ticks,
    pub open: Lots,
    /// All that was asked for, what has traded included.
    pub ordered: Lots,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningAccount {
    pub spec: AccountSpec,
    /// Units owned, by currency.
    pub totals: Vec<i128>,
    /// Units that the account's open spot orders could cost, by currency.
    pub reserved: Vec<i128>,
    pub positions: Vec<(InstrumentId, OpeningPosition)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpeningPosition {
    pub lots: i64,
    pub entry_value: i128,
}

impl Auditor {
    /// An auditor that knows the past only from a snapshot. What the snapshot says is taken as true, unless it
    /// cannot be.
    pub fn resume(opening: Opening) -> Result<Self, Offence> {
        let seq = opening.seq;
        let mut auditor = Auditor::new();
        auditor.take_over(opening).map_err(|sentence| Offence { seq, sentence })?;
        Ok(auditor)
    }

    fn take_over(&mut self, opening: Opening) -> Judged {
        (self.seq, self.at) = (opening.seq, opening.at);
        for currency in &opening.currencies {
            self.add_currency(currency)?;
        }
        let reserved: Vec<_> = opening.accounts.iter().map(|account| account.reserved.clone()).collect();
        for account in opening.accounts {
            self.add_account(&account.spec)?;
            if account.totals.len() != self.names.currencies.len() {
                offence!("account {} has no balance for each currency", account.spec.id);
            }
            if let Some(holder) = self.ledger.accounts.last_mut() {
                holder.totals = account.totals;
                let held = |held: OpeningPosition| Holding { lots: held.lots, entry_value: held.entry_value };
                holder.positions = account.positions.into_iter().map(|(id, position)| (id, held(position))).collect();
            }
        }
        for market in opening.markets {
            self.add_market(&market.spec, market.phase, market.change_id, market.trades.0)?;
            for order in &market.orders {
                self.take_over_order(market.spec.id, order)?;
            }
        }
        if let Some(at) = self.ledger.accounts.iter().zip(&reserved).position(|(own, told)| own.reserved != *told) {
            offence!(
                "account {at} has set aside {:?}, and its orders {:?}",
                reserved[at],
                self.ledger.accounts[at].reserved
            );
        }
        self.ledger.open(&self.markets);
        Ok(())
    }

    fn take_over_order(&mut self, instrument: InstrumentId, order: &OpeningOrder) -> Judged {
        let OpeningOrder { id, account, side, day, price, open, ordered } = *order;
        let legal = legal_lots(open).and(legal_lots(ordered)).and(legal_price(price)).is_ok() && open <= ordered;
        if !legal || !self.ledger.knows(account) || self.orders.contains_key(&id) {
            offence!("order {id} cannot rest as the snapshot says");
        }
        let live = Live { id, account, instrument, side, day, price, open: open.0, ordered: ordered.0, arrival: 0 };
        let cost = self.cost(&live, live.open);
        self.ledger.set_aside(account, cost);
        self.rest(live);
        Ok(())
    }

    /// Holds a snapshot against everything that was observed so far. Positions that are flat may be left out.
    pub fn compare(&self, told: &Opening) -> Result<(), Offence> {
        self.compared(told).map_err(|sentence| Offence { seq: told.seq, sentence })
    }

    fn compared(&self, told: &Opening) -> Judged {
        if self.seq != told.seq {
            offence!("the snapshot is of command {} and command {} was seen last", told.seq, self.seq);
        }
        if told.currencies != self.names.currencies {
            offence!("the snapshot has other currencies");
        }
        if (told.markets.len(), told.accounts.len()) != (self.markets.len(), self.names.accounts.len()) {
            offence!("the snapshot has not as many instruments and accounts");
        }
        for (own, told) in self.markets.iter().zip(&told.markets) {
            let id = own.spec.id;
            if (&own.spec, own.phase, own.change_id, own.trades)
                != (&told.spec, told.phase, told.change_id, told.trades.0)
            {
                offence!("the snapshot tells instrument {id}, its phase or its counters otherwise");
            }
            let queues = [Side::Buy, Side::Sell].into_iter().flat_map(|side| own.book.orders(side));
            if !queues.map(|order| self.opening_order(order)).eq(told.orders.iter().copied().map(Some)) {
                offence!("the snapshot tells the orders of instrument {id} otherwise");
            }
        }
        for ((own, spec), told) in self.ledger.accounts.iter().zip(&self.names.accounts).zip(&told.accounts) {
            if *spec != told.spec || own.totals != told.totals {
                offence!("the snapshot tells account {} or what it owns otherwise", spec.id);
            }
            if own.reserved != told.reserved {
                offence!("the snapshot tells what account {} has set aside otherwise", spec.id);
            }
            let flat = |(_, held): &(InstrumentId, OpeningPosition)| *held != OpeningPosition::default();
            let held = own
                .positions
                .iter()
                .map(|(id, held)| (*id, OpeningPosition { lots: held.lots, entry_value: held.entry_value }));
            if !held.filter(flat).eq(told.positions.iter().copied().filter(flat)) {
                offence!("the snapshot tells the positions of account {} otherwise", spec.id);
            }
        }
        Ok(())
    }

    fn opening_order(&self, id: OrderId) -> Option<OpeningOrder> {
        let live = self.orders.get(&id)?;
        Some(OpeningOrder {
            id,
            account: live.account,
            side: live.side,
            day: live.day,
            price: live.price,
            open: Lots(live.open),
            ordered: Lots(live.ordered),
        })
    }
}
