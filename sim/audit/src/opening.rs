//! Where an audit that does not begin at the beginning begins, and what a snapshot is held against.

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, InstrumentId, InstrumentSpec, Lots, MatchGroup, OrderId, Phase, Seq,
    SessionId, Side, Ticks, TradeSeq, VenueNanos,
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
    pub venue_killed: bool,
    /// Ascending.
    pub killed_sessions: Vec<SessionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningMarket {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    /// The last trade's number.
    pub trades: TradeSeq,
    /// The last trade's price, by which a collar is reckoned.
    pub last: Option<Ticks>,
    /// Trades taken back, ascending.
    pub busted: Vec<TradeSeq>,
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
    /// Shown and hidden together.
    pub open: Lots,
    pub shown: Lots,
    /// The peak of an iceberg.
    pub display: Option<Lots>,
    /// All that was asked for, what has traded included.
    pub ordered: Lots,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningAccount {
    pub spec: AccountSpec,
    /// Units owned, by currency.
    pub totals: Vec<i128>,
    /// Units that the account's open spot orders could cost, by currency.
    pub reserved: Vec<i128>,
    /// Lines above zero.
    pub credit: Vec<(CurrencyId, i128)>,
    pub positions: Vec<(InstrumentId, OpeningPosition)>,
    pub standing: OpeningStanding,
}

/// What an operator or the throttle has made of an account.
pub type OpeningStanding = crate::ledger::Standing;

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
        self.venue_killed = opening.venue_killed;
        self.killed_sessions = opening.killed_sessions.into_iter().collect();
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
                holder.standing = account.standing;
                for (currency, units) in account.credit {
                    match holder.credit.get_mut(currency.0 as usize) {
                        Some(line) => *line = units,
                        None => offence!("account {} has credit in currency {currency}", account.spec.id),
                    }
                }
                let held = |held: OpeningPosition| Holding { lots: held.lots, entry_value: held.entry_value };
                holder.positions = account.positions.into_iter().map(|(id, position)| (id, held(position))).collect();
            }
        }
        for market in opening.markets {
            self.add_market(&market.spec, market.phase, market.change_id, market.trades.0)?;
            if let Some(own) = self.markets.last_mut() {
                own.last = market.last;
                own.busted = market.busted.into_iter().collect();
            }
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
        let OpeningOrder { id, account, side, day, price, open, shown, display, ordered, .. } = *order;
        let legal = legal_lots(shown).and(legal_lots(ordered)).and(legal_price(price)).is_ok()
            && open <= ordered
            && display.map_or(shown == open, |display| shown <= display.min(open));
        if !legal || !self.ledger.knows(account) || self.orders.contains_key(&id) {
            offence!("order {id} cannot rest as the snapshot says");
        }
        let live = Live {
            id,
            account,
            instrument,
            side,
            day,
            price,
            open: open.0,
            shown: shown.0,
            peak: display,
            ordered: ordered.0,
            arrival: 0,
            group: order.group,
            session: order.session,
            cancel_on_disconnect: order.cancel_on_disconnect,
        };
        let cost = self.cost(&live, live.open);
        self.ledger.set_aside(account, cost);
        self.rest_as_it_is(live);
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
        if told.venue_killed != self.venue_killed || !self.killed_sessions.iter().eq(&told.killed_sessions) {
            offence!("the snapshot tells otherwise what is killed");
        }
        if (told.markets.len(), told.accounts.len()) != (self.markets.len(), self.names.accounts.len()) {
            offence!("the snapshot has not as many instruments and accounts");
        }
        for (own, told) in self.markets.iter().zip(&told.markets) {
            let id = own.spec.id;
            if (&own.spec, own.phase, own.change_id, own.trades, own.last)
                != (&told.spec, told.phase, told.change_id, told.trades.0, told.last)
            {
                offence!("the snapshot tells instrument {id}, its phase or its counters otherwise");
            }
            if !own.busted.iter().eq(&told.busted) {
                offence!("the snapshot tells the busted trades of instrument {id} otherwise");
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
            let lines = (0..).map(CurrencyId).zip(own.credit.iter().copied()).filter(|(_, units)| *units != 0);
            if own.standing != told.standing || !lines.eq(told.credit.iter().copied()) {
                offence!("the snapshot tells the standing or the credit of account {} otherwise", spec.id);
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
            shown: Lots(live.shown),
            display: live.peak,
            group: live.group,
            session: live.session,
            cancel_on_disconnect: live.cancel_on_disconnect,
            ordered: Lots(live.ordered),
        })
    }
}
