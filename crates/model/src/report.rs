//! Trades that are made outside the book and reported to the venue.

use crate::coded_enum::coded_enum;
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

coded_enum! {
    /// Why a report ended without a trade.
    ReportEnd {
        /// Declined by the counterparty.
        Declined = 0, "declined";
        /// Withdrawn by the reporter.
        Withdrawn = 1, "withdrawn";
        /// The hours of trade reporting ended.
        HoursEnded = 2, "hours_ended";
    }
}
