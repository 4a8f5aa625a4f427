//! What has happened, kept for questions: trades and candles by instrument, orders and fills by account.
//!
//! Does        turn commands and their events into what clients ask about later.
//! Holds       1. a function of commands and events alone: a replay gives the same views;
//!             2. memory is bounded: see the caps at [`Tape`] and [`AccountBook`].
//! Leaves out  the live book, balances and positions, which the engine answers itself.
//! Costs       constant per event; questions cost what they return.
//! Start at    [`Views::observe`].

mod account;
mod facts;
mod image;
mod tape;

use std::collections::{BTreeMap, BTreeSet};

pub use account::{AccountBook, Liquidity, OrderRecord, OrderState, UserTrade};
pub use facts::MarketFacts;
pub use image::{AccountBookImage, TapeImage, ViewsImage};
use pitwire_model::{AccountId, Command, Credit, Event, InstrumentId, OrderId, Stamped};
pub use tape::{Candle, PublicTrade, Stats, Tape, TickDirection};

#[derive(Debug, Default)]
pub struct Views {
    /// By instrument; instruments are dense.
    tapes: Vec<Tape>,
    /// Accounts with limited credit only: house accounts ask no questions and would drown the others.
    accounts: BTreeMap<AccountId, AccountBook>,
}

/// What one command changed for one account, so that it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Order {
        account: AccountId,
        order: OrderId,
    },
    /// The newest trade of the account's book.
    Trade {
        account: AccountId,
        instrument: InstrumentId,
    },
    /// The balances of an account that is in neither of the above: a deposit, a bust.
    Balance {
        account: AccountId,
    },
    /// Positions in this instrument are worth something else now.
    Revalued {
        instrument: InstrumentId,
    },
}

impl Views {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn tape(&self, instrument: InstrumentId) -> Option<&Tape> {
        self.tapes.get(instrument.0 as usize)
    }

    pub fn account(&self, account: AccountId) -> Option<&AccountBook> {
        self.accounts.get(&account)
    }

    /// Takes in one command and what it caused. `changes` gets what accounts may want to hear, in order.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event], changes: &mut Vec<Change>) {
        let before = changes.len();
        for event in events {
            self.observe_event(stamped, event, changes);
        }
        keep_last(changes, before);
    }

    fn observe_event(&mut self, stamped: &Stamped, event: &Event, changes: &mut Vec<Change>) {
        let at = stamped.at;
        match event {
            Event::InstrumentAdded(spec) => self.tapes.push(Tape::new(spec)),
            Event::AccountAdded(spec) if spec.credit == Credit::Limited => {
                self.accounts.insert(spec.id, AccountBook::default());
            }
            Event::IndexSampled { instrument, index, mark } => {
                if let Some(tape) = self.tapes.get_mut(instrument.0 as usize) {
                    tape.sampled(*index, *mark);
                }
                changes.push(Change::Revalued { instrument: *instrument });
            }
            Event::Accepted { order, account, order_type, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                let Command::Enter(entered) = &stamped.command else { return };
                book.entered(entered, order_type.limit_price().unwrap_or_default(), at);
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Amended { order, account, price, lots, kept_priority, display, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                let Command::Amend(amend) = &stamped.command else { return };
                book.amended(amend, (*price, *lots, *display), *kept_priority, at);
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Cancelled { order, account, reason, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                book.cancelled(*order, *reason, at);
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Deposited { account, .. } | Event::CreditLineSet { account, .. }
                if self.accounts.contains_key(account) =>
            {
                changes.push(Change::Balance { account: *account });
            }
            Event::TradeBusted(bust) => {
                if let Some(tape) = self.tapes.get_mut(bust.instrument.0 as usize) {
                    tape.bust(bust.trade_seq);
                }
                for account in [bust.buyer, bust.seller] {
                    if let Some(book) = self.accounts.get_mut(&account) {
                        book.busted(bust.instrument, bust.trade_seq);
                    }
                }
                let known = [bust.buyer, bust.seller].into_iter().filter(|account| self.accounts.contains_key(account));
                changes.extend(known.map(|account| Change::Balance { account }));
            }
            Event::Trade { .. } => self.traded(stamped, event, changes),
            _ => {}
        }
    }

    fn traded(&mut self, stamped: &Stamped, event: &Event, changes: &mut Vec<Change>) {
        let Event::Trade {
            instrument,
            trade_seq,
            price,
            lots,
            taker_side,
            maker,
            maker_account,
            taker,
            taker_account,
            ..
        } = event
        else {
            return;
        };
        let Some(tape) = self.tapes.get_mut(instrument.0 as usize) else { return };
        let trade = tape.traded(*trade_seq, *price, *lots, *taker_side, stamped.at, (*taker_account, *maker_account));
        let self_trade = maker_account == taker_account;
        // The taker hears first: it is the one that is waiting.
        for (account, order, liquidity) in
            [(taker_account, taker, Liquidity::Taker), (maker_account, maker, Liquidity::Maker)]
        {
            let Some(book) = self.accounts.get_mut(account) else { continue };
            book.filled(*order, *instrument, trade, liquidity, self_trade);
            changes.push(Change::Trade { account: *account, instrument: *instrument });
            changes.push(Change::Order { account: *account, order: *order });
        }
    }
}

/// An order that changed several times in one command is told once, as it stands at the end.
fn keep_last(changes: &mut Vec<Change>, from: usize) {
    if changes.len() - from < 2 {
        return;
    }
    let mut told = BTreeSet::new();
    let mut kept: Vec<Change> = changes
        .drain(from..)
        .rev()
        .filter(|change| match change {
            Change::Order { order, .. } => told.insert(*order),
            Change::Trade { .. } | Change::Balance { .. } | Change::Revalued { .. } => true,
        })
        .collect();
    kept.reverse();
    changes.append(&mut kept);
}
