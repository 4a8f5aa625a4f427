//! Trades made beside the book: what the public has heard of an instrument's, and what became of an account's reports.
//!
//! Holds       an instrument's newest trades and an account's newest reports are kept, [`OffBook::TRADES`] and
//!             [`REPORTS`] of them; which reports wait, the engine knows. What others reported and nothing came of goes
//!             first, what waits last: nobody's history is lost to reports that it never agreed to.

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{
    AccountId, Event, InstrumentId, Lots, OffBookTrade, ReportEnd, Seq, Ticks, TradeReport, VenueNanos,
};

/// Of one account.
pub const REPORTS: usize = 1_000;

/// What everybody knows of a trade that was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffBookPrint {
    pub number: u64,
    pub price: Ticks,
    pub lots: Lots,
    /// When it was confirmed.
    pub at: VenueNanos,
}

/// Trade reporting of one instrument as the public knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffBook {
    pub open: bool,
    pub ends: Option<VenueNanos>,
    /// Oldest first.
    pub trades: VecDeque<OffBookPrint>,
    /// Of the venue day, in lots; Σ price × lots; and how many.
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

/// Where a report stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportState {
    Waiting,
    /// The trade's number.
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
    /// How long to keep it for a party, when there are too many.
    fn worth(&self, party: AccountId) -> u8 {
        let is_own = self.trade.account == party;
        match self.state {
            ReportState::Ended(_) if !is_own => 0,
            ReportState::Ended(_) | ReportState::Confirmed(_) => 1,
            ReportState::Waiting => 2 + u8::from(is_own),
        }
    }
}

/// All that is remembered of trades made beside books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    pub markets: BTreeMap<InstrumentId, OffBook>,
    /// Of accounts with limited credit, oldest first.
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

    /// The day's figures begin anew; instruments without hours and trades are not remembered at all.
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

    /// Three thousand reports, taken back at once, push out each other and nothing else.
    #[test]
    fn reports_of_a_stranger_push_out_no_history() {
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
        // Its own push out what is over before what waits.
        for number in 4_000..5_000 {
            reports.reported(VICTIM, Seq(number), &trade(VICTIM, PARTNER), at);
        }
        let kept: Vec<u64> = reports.accounts[&VICTIM].iter().map(|record| record.report.0).collect();
        assert_eq!((kept.len(), kept[0], kept[999]), (REPORTS, 4_000, 4_999));
    }
}
