//! Trades that are made outside the book and reported to the venue.

use crate::{AccountId, InstrumentId, Label, Lots, Seq, Side, Ticks};

/// A report of a trade by one of its parties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradeReport {
    pub instrument: InstrumentId,
    /// The reporting account.
    pub account: AccountId,
    /// The account that has to confirm.
    pub counterparty: AccountId,
    /// Side of the reporting account.
    pub side: Side,
    pub price: Ticks,
    pub lots: Lots,
    pub label: Label,
}

impl TradeReport {
    /// Largest number of reports of one account that may wait in one instrument.
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
    /// Number among the reported trades of the instrument, from 1.
    pub number: u64,
    pub price: Ticks,
    pub lots: Lots,
    pub report: Seq,
    pub buyer: AccountId,
    pub seller: AccountId,
}

/// Why a report ended without a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReportEnd {
    /// Declined by the counterparty.
    Declined = 0,
    /// Withdrawn by the reporter.
    Withdrawn = 1,
    /// The hours of trade reporting ended.
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
