//! Trades made beside the book: reported by one party, confirmed by the other, in the hours of trade reporting.
//!
//! Holds       1. nothing moves before both parties have said so, and then once;
//!             2. the book, its trades' numbers, last price, references and closing price stay as they are.
//! Costs       a report: those that wait in its instrument; an answer: the instruments.
//! Start at    `Engine::report_trade`, then `Engine::answer_report`.

use std::collections::BTreeMap;

use pitwire_model::{
    AccountId, Event, InstrumentId, OffBookTrade, Phase, Reject, ReportEnd, Seq, SessionReason, Side, TradeReport,
    VenueNanos,
};

use crate::engine::{Engine, EventSink};
use crate::enter::{check_price, whole_lots};
use crate::image::ImageError;
use crate::market::Market;
use crate::settle::exchange;

/// Where trade reporting stands in an instrument. Part of every image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reporting {
    pub open: bool,
    /// When the hours that run are expected to end.
    pub ends: Option<VenueNanos>,
    /// Number of the last trade.
    pub trades: u64,
    /// Reports that wait for the other party.
    pub waiting: BTreeMap<Seq, TradeReport>,
}

impl Engine {
    pub(crate) fn set_reporting(
        &mut self,
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let market = self.standing_market(instrument)?;
        if market.special.reporting.open == open {
            return Err(Reject::SessionNotAllowed);
        }
        market.turn_reporting(open, reason, ends, out);
        Ok(())
    }

    pub(crate) fn report_trade(
        &mut self,
        number: Seq,
        report: &TradeReport,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        self.check_report(report)?;
        let waiting = &mut self.markets[report.instrument.0 as usize].special.reporting.waiting;
        waiting.insert(number, report.clone());
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
        // How the other party stands is not the reporter's to know: it is asked when it agrees.
        self.check_parties(&[report.account])?;
        let reporting = &market.special.reporting;
        if !reporting.open {
            return Err(Reject::ReportingClosed);
        }
        whole_lots(report.lots)?;
        check_price(Some(report.price))?;
        if report.account == report.counterparty {
            return Err(Reject::BadDefinition);
        }
        let own = reporting.waiting.values().filter(|waiting| waiting.account == report.account);
        if own.count() >= TradeReport::MOST_WAITING { Err(Reject::TooManyReports) } else { Ok(()) }
    }

    /// None of them is kept from trading.
    fn check_parties(&self, parties: &[AccountId]) -> Result<(), Reject> {
        for party in parties {
            let account = self.account(*party).ok_or(Reject::UnknownAccount)?;
            match () {
                () if account.is_closed() => return Err(Reject::AccountClosed),
                () if self.blocks.venue() || account.is_killed() => return Err(Reject::Killed),
                () if account.is_throttled() => return Err(Reject::ExecutionThrottle),
                () => {}
            }
        }
        Ok(())
    }

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
            self.markets[report.instrument.0 as usize].special.reporting.waiting.remove(&number);
            out.emit(ended(number, &report, end));
            return Ok(());
        }
        if is_reporter {
            return Err(Reject::OwnReport);
        }
        self.check_parties(&report.parties())?;
        self.check_report_funds(&report)?;
        self.make_off_book_trade(number, &report, out);
        Ok(())
    }

    fn check_report_funds(&self, report: &TradeReport) -> Result<(), Reject> {
        let market = self.market(report.instrument).ok_or(Reject::UnknownInstrument)?;
        let lots = whole_lots(report.lots)?;
        for (party, side) in report.parties().into_iter().zip([Side::Buy, Side::Sell]) {
            if self.account(party).is_some_and(|account| account.is_limited()) {
                self.check_trade_funds(market, party, side, report.price, lots)?;
            }
        }
        Ok(())
    }

    fn make_off_book_trade(&mut self, number: Seq, report: &TradeReport, out: &mut impl EventSink) {
        let instrument = report.instrument;
        let market = &mut self.markets[instrument.0 as usize];
        let reporting = &mut market.special.reporting;
        reporting.waiting.remove(&number);
        reporting.trades += 1;
        let of_trades = reporting.trades;
        let [buyer, seller] = report.parties();
        let lots = whole_lots(report.lots).unwrap_or(0);
        let parties = [(buyer.0 as usize, Side::Buy), (seller.0 as usize, Side::Sell)];
        exchange(&mut self.accounts, instrument, market.money, parties, report.price, lots);
        let (price, lots) = (report.price, report.lots);
        let trade = OffBookTrade { instrument, number: of_trades, price, lots, report: number, buyer, seller };
        out.emit(Event::OffBookTrade(Box::new(trade)));
    }

    /// A report that waits for the other party.
    pub fn report(&self, number: Seq) -> Option<&TradeReport> {
        self.markets.iter().find_map(|market| market.special.reporting.waiting.get(&number))
    }

    /// Those of an account, its own and those it is to confirm, by instrument and number.
    pub fn reports_of(&self, account: AccountId) -> impl Iterator<Item = (Seq, &TradeReport)> {
        let waiting = self.markets.iter().flat_map(|market| &market.special.reporting.waiting);
        waiting.filter(move |(_, report)| report.concerns(account)).map(|(number, report)| (*number, report))
    }

    pub(crate) fn check_reporting(&self, market: &Market, reporting: &Reporting) -> Result<(), ImageError> {
        let sound = |report: &TradeReport| {
            report.instrument == market.spec.id
                && report.account != report.counterparty
                && report.parties().into_iter().all(|party| self.account(party).is_some())
                && whole_lots(report.lots).is_ok()
                && check_price(Some(report.price)).is_ok()
        };
        let is_shut = !reporting.open && (!reporting.waiting.is_empty() || reporting.ends.is_some());
        let is_gone = market.phase == Phase::Deleted && reporting.open;
        if is_shut || is_gone || !reporting.waiting.values().all(sound) {
            return Err(ImageError("trade reporting as it cannot be"));
        }
        Ok(())
    }
}

impl Market {
    fn turn_reporting(
        &mut self,
        open: bool,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) {
        let instrument = self.spec.id;
        let reporting = &mut self.special.reporting;
        for (number, report) in std::mem::take(&mut reporting.waiting) {
            out.emit(ended(number, &report, ReportEnd::HoursEnded));
        }
        (reporting.open, reporting.ends) = (open, ends.filter(|_| open));
        out.emit(Event::ReportingChanged { instrument, open, reason, ends: reporting.ends });
    }

    /// The hours end with the day or the instrument, if they run.
    pub(crate) fn end_reporting(&mut self, reason: SessionReason, out: &mut impl EventSink) {
        if self.special.reporting.open {
            self.turn_reporting(false, reason, None, out);
        }
    }

    pub fn reporting(&self) -> &Reporting {
        &self.special.reporting
    }
}

fn ended(report: Seq, asked: &TradeReport, end: ReportEnd) -> Event {
    let TradeReport { instrument, account, counterparty, .. } = *asked;
    Event::ReportEnded { report, instrument, account, counterparty, end }
}
