//! Trades made beside the book and reported to it.

use crate::{AccountId, InstrumentId, Label, Lots, Seq, Side, Ticks};

/// What one party says of a trade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradeReport {
    pub instrument: InstrumentId,
    /// Who reports.
    pub account: AccountId,
    /// Who has to confirm.
    pub counterparty: AccountId,
    /// The reporter's.
    pub side: Side,
    pub price: Ticks,
    pub lots: Lots,
    pub label: Label,
}

impl TradeReport {
    /// So many reports of one account may wait in one instrument.
    pub const MOST_WAITING: usize = 16;

    /// Buyer, then seller.
    pub const fn parties(&self) -> [AccountId; 2] {
        match self.side {
            Side::Buy => [self.account, self.counterparty],
            Side::Sell => [self.counterparty, self.account],
        }
    }

    pub fn concerns(&self, account: AccountId) -> bool {
        self.account == account || self.counterparty == account
    }
}

/// A trade that both parties have confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffBookTrade {
    pub instrument: InstrumentId,
    /// Counted apart from the trades of the book, from 1.
    pub number: u64,
    pub price: Ticks,
    pub lots: Lots,
    pub report: Seq,
    pub buyer: AccountId,
    pub seller: AccountId,
}

/// Why no trade came of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReportEnd {
    /// By the other party.
    Declined = 0,
    /// By who reported.
    Withdrawn = 1,
    /// The hours of trade reporting ended first.
    HoursEnded = 2,
}

impl ReportEnd {
    pub const ALL: [ReportEnd; 3] = [ReportEnd::Declined, ReportEnd::Withdrawn, ReportEnd::HoursEnded];

    pub const fn name(self) -> &'static str {
        match self {
            ReportEnd::Declined => "declined",
            ReportEnd::Withdrawn => "withdrawn",
            ReportEnd::HoursEnded => "hours_ended",
        }
    }
}
