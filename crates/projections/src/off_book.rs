//! Off-book trades: the public record of each instrument, and the reports of each account.
//!
//! Holds       memory is bounded to [`OffBook::TRADES`] trades per instrument and [`REPORTS`]
//!             reports per account. Reports by others that came to nothing are dropped first,
//!             pending ones last, so that foreign reports cannot push out an account's own history.
//! Leaves out  which reports are pending: the engine knows them.

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{
    AccountId, Event, InstrumentId, Lots, OffBookTrade, ReportEnd, Seq, Ticks, TradeReport, VenueNanos,
};

/// Most reports per account.
pub const REPORTS: usize = 1_000;

/// The public data of a reported trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffBookPrint {
    pub number: u64,
    pub price: Ticks,
    pub lots: Lots,
    /// Time of confirmation.
    pub at: VenueNanos,
}

/// The public record of trade reporting in one instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffBook {
    pub open: bool,
    pub ends: Option<VenueNanos>,
    /// Oldest first.
    pub trades: VecDeque<OffBookPrint>,
    /// Volume of the venue day in lots. Below: turnover, the sum of price × lots, and the number of
    /// trades.
    pub volume: u64,
    pub turnover: u128,
    pub count: u64,
}

impl OffBook {
    pub const TRADES: usize = 1_000;

    fn traded(&mut self, trade: &OffBookTrade, at: VenueNanos) {
        let OffBookTrade { number, price, lots, .. } = *trade;
        if self.trades.len() == Self::TRADES {
            self.trades.pop_front();
        }
        self.trades.push_back(OffBookPrint { number, price, lots, at });
        self.volume = self.volume.saturating_add(lots.0);
        self.turnover = self.turnover.saturating_add(u128::from(price.0.unsigned_abs()) * u128::from(lots.0));
        self.count = self.count.saturating_add(1);
    }
}

/// The state of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportState {
    Waiting,
    /// Confirmed, with the number of the trade.
    Confirmed(u64),
    Ended(ReportEnd),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRecord {
    pub report: Seq,
    pub trade: TradeReport,
    pub state: ReportState,
    pub made: VenueNanos,
    pub updated: VenueNanos,
}

impl ReportRecord {
    /// Returns the priority to keep a report for a party. Reports with the lowest value are dropped
    /// first.
    fn worth(&self, party: AccountId) -> u8 {
        let is_own = self.trade.account == party;
        match self.state {
            ReportState::Ended(_) if !is_own => 0,
            ReportState::Ended(_) | ReportState::Confirmed(_) => 1,
            ReportState::Waiting => 2 + u8::from(is_own),
        }
    }
}

/// All remembered off-book trades and reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    pub markets: BTreeMap<InstrumentId, OffBook>,
    /// Accounts with limited credit only. Oldest first.
    pub accounts: BTreeMap<AccountId, VecDeque<ReportRecord>>,
}

impl Reports {
    pub(crate) fn observe(&mut self, event: &Event, at: VenueNanos) {
        match event {
            Event::ReportingChanged { instrument, open, ends, .. } => {
                let market = self.markets.entry(*instrument).or_default();
                (market.open, market.ends) = (*open, *ends);
            }
            Event::OffBookTrade(trade) => {
                self.markets.entry(trade.instrument).or_default().traded(trade, at);
                for account in [trade.buyer, trade.seller] {
                    self.turn(account, trade.report, ReportState::Confirmed(trade.number), at);
                }
            }
            Event::ReportEnded { report, account, counterparty, end, .. } => {
                for account in [account, counterparty] {
                    self.turn(*account, *report, ReportState::Ended(*end), at);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn reported(&mut self, account: AccountId, report: Seq, trade: &TradeReport, at: VenueNanos) {
        let kept = self.accounts.entry(account).or_default();
        if kept.len() >= REPORTS {
            let least = kept.iter().enumerate().min_by_key(|(at, record)| (record.worth(account), *at));
            if let Some((at, _)) = least {
                kept.remove(at);
            }
        }
        let state = ReportState::Waiting;
        kept.push_back(ReportRecord { report, trade: trade.clone(), state, made: at, updated: at });
    }

    fn turn(&mut self, account: AccountId, report: Seq, state: ReportState, at: VenueNanos) {
        let kept = self.accounts.get_mut(&account).into_iter().flatten();
        if let Some(record) = kept.into_iter().find(|record| record.report == report) {
            (record.state, record.updated) = (state, at);
        }
    }

    /// Resets the figures of the day. Instruments without hours and trades are forgotten.
    pub(crate) fn day_ended(&mut self) {
        for market in self.markets.values_mut() {
            (market.volume, market.turnover, market.count) = (0, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::{Label, Side};

    use super::*;

    const VICTIM: AccountId = AccountId(1);
    const STRANGER: AccountId = AccountId(2);
    const PARTNER: AccountId = AccountId(3);

    /// A stranger's 3,000 reports, all withdrawn, push out only each other.
    #[test]
    fn foreign_reports_do_not_push_out_an_accounts_history() {
        let mut reports = Reports::default();
        let at = VenueNanos(1);
        let trade = |account, counterparty| TradeReport {
            instrument: InstrumentId(0),
            account,
            counterparty,
            side: Side::Buy,
            price: Ticks(1),
            lots: Lots(1),
            label: Label::NONE,
        };
        reports.reported(VICTIM, Seq(1), &trade(VICTIM, PARTNER), at);
        reports.turn(VICTIM, Seq(1), ReportState::Ended(ReportEnd::Declined), at);
        reports.reported(VICTIM, Seq(2), &trade(PARTNER, VICTIM), at);
        reports.turn(VICTIM, Seq(2), ReportState::Confirmed(1), at);
        reports.reported(VICTIM, Seq(3), &trade(PARTNER, VICTIM), at);
        for number in 4..3_004 {
            reports.reported(VICTIM, Seq(number), &trade(STRANGER, VICTIM), at);
            reports.turn(VICTIM, Seq(number), ReportState::Ended(ReportEnd::Withdrawn), at);
        }
        let kept: Vec<u64> = reports.accounts[&VICTIM].iter().map(|record| record.report.0).collect();
        assert_eq!((kept.len(), &kept[..4], kept.last()), (REPORTS, &[1, 2, 3, 2_007][..], Some(&3_003)));
        // The account's own reports push out finished ones before pending ones.
        for number in 4_000..5_000 {
            reports.reported(VICTIM, Seq(number), &trade(VICTIM, PARTNER), at);
        }
        let kept: Vec<u64> = reports.accounts[&VICTIM].iter().map(|record| record.report.0).collect();
        assert_eq!((kept.len(), kept[0], kept[999]), (REPORTS, 4_000, 4_999));
    }
}
