//! Trades made outside the book: one party reports, the counterparty confirms, in the reporting
//! hours.
//!
//! Holds       1. money moves only after both parties have agreed, and exactly once;
//!             2. a reported trade changes neither the book nor the trade numbers, last price,
//!                references and closing price of the book.
//! Costs       a report: the waiting reports of its instrument; an answer: the number of
//!             instruments.
//! Start at    [`Engine::report_trade`], then [`Engine::answer_report`].

use pitwire_model::{
    AccountId, Event, InstrumentId, OffBookTrade, Phase, Reject, ReportEnd, Seq, SessionReason, Side, TradeReport,
    VenueNanos,
};

use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::order_checks::{check_price, lots_u32};
use crate::reporting::report_ended;
use crate::settlement::settle_trade;

impl Engine {
    pub(crate) fn set_reporting(
        &mut self,
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let reporting = &mut self.existing_market(instrument)?.reporting;
        if reporting.open == open {
            return Err(Reject::SessionNotAllowed);
        }
        reporting.set_open(instrument, open, reason, ends, out);
        Ok(())
    }

    /// Records a report. Its number is the sequence number of the command.
    pub(crate) fn report_trade(
        &mut self,
        number: Seq,
        report: &TradeReport,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.check_report(report)?;
        self.markets[report.instrument.0 as usize].reporting.waiting.insert(number, report.clone());
        out.emit(Event::TradeReported { report: number, trade: Box::new(report.clone()) });
        Ok(())
    }

    fn check_report(&self, report: &TradeReport) -> Result<(), Reject> {
        let market = self.market(report.instrument).ok_or(Reject::UnknownInstrument)?;
        for account in [report.account, report.counterparty] {
            self.account(account).ok_or(Reject::UnknownAccount)?;
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
        let account = self.account(party).ok_or(Reject::UnknownAccount)?;
        match () {
            () if account.is_closed() => Err(Reject::AccountClosed),
            () if self.blocks.venue() || account.is_killed() => Err(Reject::Killed),
            () if account.is_throttled() => Err(Reject::ExecutionThrottle),
            () => Ok(()),
        }
    }

    /// Confirms, declines or withdraws a report.
    pub(crate) fn answer_report(
        &mut self,
        account: AccountId,
        number: Seq,
        confirm: bool,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.account(account).ok_or(Reject::UnknownAccount)?;
        let report = self.report(number).filter(|report| report.concerns(account)).ok_or(Reject::UnknownReport)?;
        let report = report.clone();
        let is_reporter = account == report.account;
        if !confirm {
            let end = if account == report.account { ReportEnd::Withdrawn } else { ReportEnd::Declined };
            self.markets[report.instrument.0 as usize].reporting.waiting.remove(&number);
            out.emit(report_ended(number, &report, end));
            return Ok(());
        }
        if is_reporter {
            return Err(Reject::OwnReport);
        }
        for party in report.parties() {
            self.check_report_party(party)?;
        }
        self.check_report_funds(&report)?;
        self.settle_report(number, &report, out);
        Ok(())
    }

    fn check_report_funds(&self, report: &TradeReport) -> Result<(), Reject> {
        let market = self.market(report.instrument).ok_or(Reject::UnknownInstrument)?;
        let lots = lots_u32(report.lots)?;
        for (party, side) in report.parties().into_iter().zip([Side::Buy, Side::Sell]) {
            if self.account(party).is_some_and(|account| account.is_limited()) {
                self.funds().check_trade(market, party, side, report.price, lots)?;
            }
        }
        Ok(())
    }

    fn settle_report(&mut self, number: Seq, report: &TradeReport, out: &mut impl EventSink) {
        let instrument = report.instrument;
        let market = &mut self.markets[instrument.0 as usize];
        market.reporting.waiting.remove(&number);
        market.reporting.trades += 1;
        let trade_number = market.reporting.trades;
        let [buyer, seller] = report.parties();
        let lots = lots_u32(report.lots).unwrap_or(0);
        let parties = [(buyer.0 as usize, Side::Buy), (seller.0 as usize, Side::Sell)];
        settle_trade(&mut self.accounts, instrument, market.settlement, parties, report.price, lots);
        let (price, lots) = (report.price, report.lots);
        let trade = OffBookTrade { instrument, number: trade_number, price, lots, report: number, buyer, seller };
        out.emit(Event::OffBookTrade(Box::new(trade)));
    }

    /// Returns a report that waits for confirmation.
    pub fn report(&self, number: Seq) -> Option<&TradeReport> {
        self.markets.iter().find_map(|market| market.reporting.waiting.get(&number))
    }

    /// Waiting reports that `account` has made or has to confirm, by instrument and number.
    pub fn reports_of(&self, account: AccountId) -> impl Iterator<Item = (Seq, &TradeReport)> {
        let waiting = self.markets.iter().flat_map(|market| &market.reporting.waiting);
        waiting.filter(move |(_, report)| report.concerns(account)).map(|(number, report)| (*number, report))
    }
}
