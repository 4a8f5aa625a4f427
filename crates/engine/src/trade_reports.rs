//! Trades made outside the book: one party reports, the counterparty confirms, in the reporting
//! hours.
//!
//! Holds       1. money moves only after both parties have agreed, and exactly once;
//!             2. a reported trade changes neither the book nor the trade numbers, last price,
//!                references and closing price of the book.
//! Costs       a report: the waiting reports of its instrument; an answer: the number of
//!             instruments.
//! Start at    [`TradeReports::report`], then [`TradeReports::answer`].

use pitwire_model::{
    AccountId, Event, InstrumentId, OffBookTrade, Phase, Reject, ReportEnd, Seq, SessionReason, Side, TradeReport,
    VenueNanos,
};

use crate::account_table::AccountTable;
use crate::blocks::TradingBlocks;
use crate::event_sink::EventSink;
use crate::funds::Funds;
use crate::market_table::MarketTable;
use crate::order_checks::{check_price, lots_u32};
use crate::reporting::report_ended;
use crate::settlement::settle_trade;

/// Trade reporting of the venue, with what settles a reported trade.
pub(crate) struct TradeReports<'a> {
    pub markets: &'a mut MarketTable,
    pub accounts: &'a mut AccountTable,
    pub blocks: &'a TradingBlocks,
}

impl TradeReports<'_> {
    /// Opens or closes the reporting hours of an instrument.
    ///
    /// # Errors
    ///
    /// Returns `SessionNotAllowed` if nothing would change, or the reason why the instrument cannot
    /// be used.
    pub fn set_hours(
        &mut self,
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let reporting = &mut self.markets.existing(instrument)?.reporting;
        if reporting.open == open {
            return Err(Reject::SessionNotAllowed);
        }
        reporting.set_open(instrument, open, reason, ends, out);
        Ok(())
    }

    /// Records a report. Its number is the sequence number of the command.
    ///
    /// # Errors
    ///
    /// Returns the reason of the first check that fails.
    pub fn report(&mut self, number: Seq, report: &TradeReport, out: &mut impl EventSink) -> Result<(), Reject> {
        self.check_report(report)?;
        self.markets.existing(report.instrument)?.reporting.waiting.insert(number, report.clone());
        out.emit(Event::TradeReported { report: number, trade: Box::new(report.clone()) });
        Ok(())
    }

    fn check_report(&self, report: &TradeReport) -> Result<(), Reject> {
        let market = self.markets.get(report.instrument).ok_or(Reject::UnknownInstrument)?;
        for account in [report.account, report.counterparty] {
            self.accounts.get(account).ok_or(Reject::UnknownAccount)?;
        }
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        // The reporter must not learn whether the counterparty is blocked. The answer checks that.
        self.check_report_party(report.account)?;
        if !market.reporting.open {
            return Err(Reject::ReportingClosed);
        }
        lots_u32(report.lots)?;
        check_price(Some(report.price))?;
        if report.account == report.counterparty {
            return Err(Reject::BadDefinition);
        }
        if market.reporting.waiting_reports_by(report.account) >= TradeReport::MOST_WAITING {
            return Err(Reject::TooManyReports);
        }
        Ok(())
    }

    /// Checks that an account may trade. Kills of sessions do not count, because a report belongs
    /// to none.
    fn check_report_party(&self, party: AccountId) -> Result<(), Reject> {
        let account = self.accounts.get(party).ok_or(Reject::UnknownAccount)?;
        match () {
            () if account.is_closed() => Err(Reject::AccountClosed),
            () if self.blocks.venue() || account.is_killed() => Err(Reject::Killed),
            () if account.is_throttled() => Err(Reject::ExecutionThrottle),
            () => Ok(()),
        }
    }

    /// Confirms, declines or withdraws a report. Returns the trade that a confirmation makes.
    ///
    /// # Errors
    ///
    /// Returns the reason of the first check that fails. A refused confirmation leaves the report
    /// waiting.
    pub fn answer(
        &mut self,
        account: AccountId,
        number: Seq,
        confirm: bool,
        out: &mut impl EventSink,
    ) -> Result<Option<OffBookTrade>, Reject> {
        self.accounts.get(account).ok_or(Reject::UnknownAccount)?;
        let report =
            self.markets.report(number).filter(|report| report.concerns(account)).ok_or(Reject::UnknownReport)?;
        let report = report.clone();
        let is_reporter = account == report.account;
        if !confirm {
            let end = if account == report.account { ReportEnd::Withdrawn } else { ReportEnd::Declined };
            self.markets.existing(report.instrument)?.reporting.waiting.remove(&number);
            out.emit(report_ended(number, &report, end));
            return Ok(None);
        }
        if is_reporter {
            return Err(Reject::OwnReport);
        }
        for party in report.parties() {
            self.check_report_party(party)?;
        }
        self.check_report_funds(&report)?;
        self.settle(number, &report, out)
    }

    fn check_report_funds(&self, report: &TradeReport) -> Result<(), Reject> {
        let market = self.markets.get(report.instrument).ok_or(Reject::UnknownInstrument)?;
        let lots = lots_u32(report.lots)?;
        let funds = Funds { accounts: self.accounts.as_slice(), markets: self.markets.as_slice() };
        for (party, side) in report.parties().into_iter().zip([Side::Buy, Side::Sell]) {
            if self.accounts.get(party).is_some_and(|account| account.is_limited()) {
                funds.check_trade(market, party, side, report.price, lots)?;
            }
        }
        Ok(())
    }

    fn settle(
        &mut self,
        number: Seq,
        report: &TradeReport,
        out: &mut impl EventSink,
    ) -> Result<Option<OffBookTrade>, Reject> {
        let instrument = report.instrument;
        let market = self.markets.existing(instrument)?;
        market.reporting.waiting.remove(&number);
        market.reporting.trades += 1;
        let trade_number = market.reporting.trades;
        let [buyer, seller] = report.parties();
        let lots = lots_u32(report.lots)?;
        let parties = [(buyer.0 as usize, Side::Buy), (seller.0 as usize, Side::Sell)];
        settle_trade(self.accounts.as_mut_slice(), instrument, market.settlement, parties, report.price, lots);
        let (price, lots) = (report.price, report.lots);
        let trade = OffBookTrade { instrument, number: trade_number, price, lots, report: number, buyer, seller };
        out.emit(Event::OffBookTrade(Box::new(trade)));
        Ok(Some(trade))
    }
}
