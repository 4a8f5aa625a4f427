//! State derived from events for queries: trades and candles by instrument, orders and fills by
//! account.
//!
//! Does        turn commands and their events into what clients query later.
//! Holds       1. projections depend on commands and events only, so a replay gives the same state;
//!             2. memory is bounded: see the limits at [`Tape`] and [`AccountBook`].
//! Leaves out  the live book, balances and positions, which the engine has itself.
//! Costs       constant time per event; a query costs what it returns.
//! Start at    [`Views::observe`].

mod account;
mod day;
mod facts;
mod image;
mod off_book;
mod session;
mod signatures;
mod tape;

use std::collections::{BTreeMap, BTreeSet};

pub use account::{AccountBook, Liquidity, OrderRecord, OrderState, Place, UserTrade, parts};
pub use day::{AtPrice, Day, OpeningDerivation};
pub use facts::MarketFacts;
pub use image::{AccountBookImage, TapeImage, ViewsImage};
pub use off_book::{OffBook, OffBookPrint, REPORTS, ReportRecord, ReportState, Reports};
use pitwire_model::{AccountId, Command, Credit, Event, InstrumentId, OrderId, Seq, SequencedCommand, VenueNanos};
pub use session::{Breach, Indicative, SessionView, Uncross};
pub use signatures::SpentSignatures;
pub use tape::{Candle, LOTS_PER_TICK_ONE, MINUTE_MS, PublicTrade, Stats, Tape, TickDirection};

#[derive(Debug, Default)]
pub struct Views {
    /// Indexed by instrument number.
    tapes: Vec<Tape>,
    /// Same length as `tapes`.
    sessions: Vec<SessionView>,
    /// Accounts with limited credit only. House accounts send no queries, and their volume would
    /// fill the memory.
    accounts: BTreeMap<AccountId, AccountBook>,
    reports: Reports,
    signatures: SpentSignatures,
}

/// A change of one account that its sessions must hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Order {
        account: AccountId,
        order: OrderId,
    },
    /// A stop order was elected. It is reported separately, whatever happens to the order
    /// afterwards.
    Elected {
        account: AccountId,
        order: OrderId,
    },
    /// The newest trade in the account's book.
    Trade {
        account: AccountId,
        instrument: InstrumentId,
    },
    /// The balances of an account changed without an order or trade: a deposit or a bust.
    Balance {
        account: AccountId,
    },
    /// A trade report by the account, or one that it must answer.
    Report {
        account: AccountId,
        report: Seq,
    },
    /// The value of positions in this instrument has changed.
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

    /// Returns the public state of an instrument's session and day.
    pub fn session(&self, instrument: InstrumentId) -> Option<&SessionView> {
        self.sessions.get(instrument.0 as usize)
    }

    /// Returns the public record of an instrument's off-book trades, or `None` if there is none.
    pub fn off_book(&self, instrument: InstrumentId) -> Option<&OffBook> {
        self.reports.markets.get(&instrument)
    }

    /// Returns an account's newest reports, made by it or addressed to it, oldest first.
    pub fn reports(&self, account: AccountId) -> impl DoubleEndedIterator<Item = &ReportRecord> {
        self.reports.accounts.get(&account).into_iter().flatten()
    }

    /// Returns the signatures that were used lately.
    pub fn signatures(&self) -> &SpentSignatures {
        &self.signatures
    }

    pub fn account(&self, account: AccountId) -> Option<&AccountBook> {
        self.accounts.get(&account)
    }

    /// Takes in one command and its events. Appends what accounts must hear of to `changes`, in
    /// order.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event], changes: &mut Vec<Change>) {
        if let Command::SpendSignature(spent) = stamped.command {
            self.signatures.spend(spent);
        }
        let before = changes.len();
        for event in events {
            self.observe_event(stamped, event, changes);
        }
        keep_last(changes, before);
    }

    fn observe_event(&mut self, stamped: &SequencedCommand, event: &Event, changes: &mut Vec<Change>) {
        let at = stamped.at;
        match event {
            Event::InstrumentAdded(spec) => {
                self.tapes.push(Tape::new(spec));
                self.sessions.push(SessionView::default());
            }
            Event::PhaseChanged { instrument, .. }
            | Event::SessionChanged { instrument, .. }
            | Event::Indicative { instrument, .. }
            | Event::Uncrossed { instrument, .. }
            | Event::Breached { instrument, .. }
            | Event::ClosingPriceSet { instrument, .. } => {
                if let Some(session) = self.sessions.get_mut(instrument.0 as usize) {
                    session.observe(event, at);
                }
            }
            Event::DayEnded => {
                self.sessions.iter_mut().for_each(SessionView::day_ended);
                self.reports.day_ended();
            }
            Event::ReportingChanged { .. }
            | Event::TradeReported { .. }
            | Event::ReportEnded { .. }
            | Event::OffBookTrade(_) => self.reported(event, at, changes),
            Event::AccountAdded(spec) if spec.credit == Credit::Limited => {
                self.accounts.insert(spec.id, AccountBook::default());
            }
            Event::IndexSampled { instrument, index, mark } => {
                if let Some(tape) = self.tapes.get_mut(instrument.0 as usize) {
                    tape.sampled(*index, *mark);
                }
                changes.push(Change::Revalued { instrument: *instrument });
            }
            Event::Accepted { order, account, order_type, lots, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                let Command::Enter(entered) = &stamped.command else { return };
                book.entered(entered, *order_type, *lots, at);
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Amended { order, account, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                // A command that changes positions amends reduce-only orders, too.
                let post_only = match &stamped.command {
                    Command::Amend(amend) if amend.order == *order => Some(amend.post_only),
                    _ => None,
                };
                book.amended(event, post_only, at);
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Cancelled { order, account, reason, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                book.cancelled(*order, *reason, at);
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Parked { order, account, .. } => self.placed(*account, *order, Place::Parked, at, changes),
            Event::Injected { order, account, .. } => self.placed(*account, *order, Place::Active, at, changes),
            Event::Triggered { order, account, last, .. } => {
                let Some(book) = self.accounts.get_mut(account) else { return };
                book.elected(*order, *last, at);
                changes.push(Change::Elected { account: *account, order: *order });
                changes.push(Change::Order { account: *account, order: *order });
            }
            Event::Deposited { account, .. } | Event::CreditLineSet { account, .. }
                if self.accounts.contains_key(account) =>
            {
                changes.push(Change::Balance { account: *account });
            }
            Event::TradeBusted(bust) => {
                let at = bust.instrument.0 as usize;
                if let (Some(tape), Some(session)) = (self.tapes.get_mut(at), self.sessions.get_mut(at)) {
                    tape.bust(bust.trade_seq);
                    session.day.busted(bust.trade_seq, tape);
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

    fn reported(&mut self, event: &Event, at: VenueNanos, changes: &mut Vec<Change>) {
        let (report, parties) = match event {
            Event::TradeReported { report, trade } => (*report, [trade.account, trade.counterparty]),
            Event::ReportEnded { report, account, counterparty, .. } => (*report, [*account, *counterparty]),
            Event::OffBookTrade(trade) => (trade.report, [trade.buyer, trade.seller]),
            _ => return self.reports.observe(event, at),
        };
        let known = parties.into_iter().filter(|party| self.accounts.contains_key(party));
        for account in known {
            if let Event::TradeReported { trade, .. } = event {
                self.reports.reported(account, report, trade, at);
            }
            changes.push(Change::Report { account, report });
            if matches!(event, Event::OffBookTrade(_)) {
                changes.push(Change::Balance { account });
            }
        }
        self.reports.observe(event, at);
    }

    fn placed(&mut self, account: AccountId, order: OrderId, place: Place, at: VenueNanos, changes: &mut Vec<Change>) {
        let Some(book) = self.accounts.get_mut(&account) else { return };
        book.placed(order, place, at);
        changes.push(Change::Order { account, order });
    }

    fn traded(&mut self, stamped: &SequencedCommand, event: &Event, changes: &mut Vec<Change>) {
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
            kind,
            ..
        } = event
        else {
            return;
        };
        let Some(tape) = self.tapes.get_mut(instrument.0 as usize) else { return };
        let parties = (*taker_account, *maker_account);
        let trade = tape.traded((*trade_seq, *price, *lots), *taker_side, *kind, stamped.at, parties);
        if let Some(session) = self.sessions.get_mut(instrument.0 as usize) {
            session.day.traded(*trade_seq, *price, *lots, *kind);
        }
        let self_trade = maker_account == taker_account;
        // The taker comes first, because its client waits for the answer.
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

/// Keeps only the last of several changes to one order in one command.
fn keep_last(changes: &mut Vec<Change>, from: usize) {
    if changes.len() - from < 2 {
        return;
    }
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Change> = changes
        .drain(from..)
        .rev()
        .filter(|change| match change {
            Change::Order { order, .. } => seen.insert(*order),
            Change::Elected { .. }
            | Change::Trade { .. }
            | Change::Balance { .. }
            | Change::Report { .. }
            | Change::Revalued { .. } => true,
        })
        .collect();
    kept.reverse();
    changes.append(&mut kept);
}
