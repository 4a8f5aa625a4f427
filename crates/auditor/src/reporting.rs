//! Trades made beside the book (rulebook 23): reported, confirmed, and never without both parties.
//!
//! Holds       1. M4: what a confirmation moves is what was reported, once, and no report is confirmed by who made it;
//!             2. M8: nothing is reported outside the hours, and no report outlives them.

use std::collections::BTreeMap;

use pitwire_model::{
    AccountId, Command, Event, InstrumentId, OffBookTrade, Phase, Reject, ReportEnd, Seq, SessionReason, Side,
    TradeReport, VenueNanos,
};

use crate::fault::{Judged, offence};
use crate::turn::Turn;
use crate::{Auditor, Market, legal_lots, legal_price};

/// So many reports of one account wait in one instrument.
const MOST_WAITING: usize = 16;

/// Where trade reporting stands in an instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reporting {
    /// The hours run, and so long if that was told.
    pub hours: Option<Option<VenueNanos>>,
    /// Number of the last trade.
    pub trades: u64,
    pub waiting: BTreeMap<Seq, TradeReport>,
}

/// What is due to one command.
enum Due {
    Told(Vec<Event>),
    Refused(Reject),
    /// The trade, unless somebody's money is wanting.
    Trade(Seq, TradeReport),
}

impl Auditor {
    pub(crate) fn judge_reporting(&mut self, turn: &mut Turn<'_>, number: Seq, command: &Command) -> Judged {
        match self.report_due(number, command).unwrap_or_else(Due::Refused) {
            Due::Refused(reason) => self.expect(turn, &Event::CommandRefused { reason })?,
            Due::Told(events) => {
                for event in &events {
                    self.expect(turn, event)?;
                }
            }
            Due::Trade(report, trade) => self.judge_off_book_trade(turn, report, &trade)?,
        }
        self.nothing_follows(turn)
    }

    fn report_due(&mut self, number: Seq, command: &Command) -> Result<Due, Reject> {
        match command {
            Command::SetReporting { instrument, open, reason, ends, .. } => {
                let market = self.reportable(*instrument)?;
                if market.reporting.hours.is_some() == *open {
                    return Err(Reject::SessionNotAllowed);
                }
                if !*open {
                    return Ok(Due::Told(self.hours_end(*instrument, *reason)));
                }
                self.market_mut(*instrument).reporting.hours = Some(*ends);
                let (instrument, reason, ends) = (*instrument, *reason, *ends);
                Ok(Due::Told(vec![Event::ReportingChanged { instrument, open: true, reason, ends }]))
            }
            Command::ReportTrade(trade) => {
                self.may_report(trade)?;
                self.market_mut(trade.instrument).reporting.waiting.insert(number, (**trade).clone());
                Ok(Due::Told(vec![Event::TradeReported { report: number, trade: trade.clone() }]))
            }
            Command::AnswerReport { account, report, confirm } => self.answer_due(*account, *report, *confirm),
            _ => Ok(Due::Told(Vec::new())),
        }
    }

    fn reportable(&self, instrument: InstrumentId) -> Result<&Market, Reject> {
        let market = self.markets.get(instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted { Err(Reject::InstrumentDeleted) } else { Ok(market) }
    }

    fn may_report(&self, trade: &TradeReport) -> Result<(), Reject> {
        let market = self.markets.get(trade.instrument.0 as usize).ok_or(Reject::UnknownInstrument)?;
        if !(self.ledger.knows(trade.account) && self.ledger.knows(trade.counterparty)) {
            return Err(Reject::UnknownAccount);
        }
        self.reportable(trade.instrument)?;
        self.free_to_settle(&[trade.account])?;
        if market.reporting.hours.is_none() {
            return Err(Reject::ReportingClosed);
        }
        legal_lots(trade.lots)?;
        legal_price(trade.price)?;
        if trade.account == trade.counterparty {
            return Err(Reject::BadDefinition);
        }
        let mine = market.reporting.waiting.values().filter(|other| other.account == trade.account).count();
        if mine < MOST_WAITING { Ok(()) } else { Err(Reject::TooManyReports) }
    }

    /// None of them is kept from trading. A report comes from no session.
    fn free_to_settle(&self, parties: &[AccountId]) -> Result<(), Reject> {
        for party in parties {
            let standing = self.ledger.accounts[party.0 as usize].standing;
            let bars = [
                (standing.closed, Reject::AccountClosed),
                (standing.killed || self.venue_killed, Reject::Killed),
                (standing.throttled, Reject::ExecutionThrottle),
            ];
            if let Some((_, reason)) = bars.into_iter().find(|(is_barred, _)| *is_barred) {
                return Err(reason);
            }
        }
        Ok(())
    }

    fn answer_due(&mut self, account: AccountId, report: Seq, confirm: bool) -> Result<Due, Reject> {
        if !self.ledger.knows(account) {
            return Err(Reject::UnknownAccount);
        }
        let waiting = self.markets.iter().find_map(|market| market.reporting.waiting.get(&report));
        let trade = waiting.filter(|trade| account == trade.account || account == trade.counterparty);
        let trade = trade.ok_or(Reject::UnknownReport)?.clone();
        let is_own = account == trade.account;
        if confirm {
            if is_own {
                return Err(Reject::OwnReport);
            }
            let (buyer, seller) = match trade.side {
                Side::Buy => (trade.account, trade.counterparty),
                Side::Sell => (trade.counterparty, trade.account),
            };
            self.free_to_settle(&[buyer, seller])?;
            return Ok(Due::Trade(report, trade));
        }
        self.market_mut(trade.instrument).reporting.waiting.remove(&report);
        let end = if is_own { ReportEnd::Withdrawn } else { ReportEnd::Declined };
        Ok(Due::Told(vec![ended(report, &trade, end)]))
    }

    /// Told, and paid for by both; or refused for want of money that is wanting.
    fn judge_off_book_trade(&mut self, turn: &mut Turn<'_>, report: Seq, trade: &TradeReport) -> Judged {
        let TradeReport { instrument, price, lots, .. } = *trade;
        let (buyer, seller) = match trade.side {
            Side::Buy => (trade.account, trade.counterparty),
            Side::Sell => (trade.counterparty, trade.account),
        };
        let parties = [(buyer, Side::Buy), (seller, Side::Sell)];
        let market = self.market_of(instrument);
        let (terms, spec) = (market.terms, market.spec.clone());
        if let Some(Event::CommandRefused { reason: Reject::NotEnoughFunds }) = self.peek(turn)? {
            let could = |(party, side): &(AccountId, Side)| {
                !self.ledger.accounts[party.0 as usize].limited
                    || terms
                        .cost(*side, price, lots.0)
                        .is_some_and(|cost| self.ledger.could_spend(*party, cost, &self.markets))
            };
            if parties.iter().all(could) {
                offence!(S1, "report {report} was refused for want of money that both parties have");
            }
            turn.pass();
            return Ok(());
        }
        for (party, side) in parties {
            self.ledger.can_spend(party, terms.cost(side, price, lots.0))?;
        }
        let reporting = &mut self.market_mut(instrument).reporting;
        reporting.waiting.remove(&report);
        reporting.trades += 1;
        let number = reporting.trades;
        self.ledger.settle(&spec, &terms, parties, price, lots.0);
        let made = OffBookTrade { instrument, number, price, lots, report, buyer, seller };
        self.expect(turn, &Event::OffBookTrade(Box::new(made)))
    }

    /// What is said as the hours of an instrument end, if they run.
    fn hours_end(&mut self, instrument: InstrumentId, reason: SessionReason) -> Vec<Event> {
        let reporting = &mut self.market_mut(instrument).reporting;
        if reporting.hours.take().is_none() {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut reporting.waiting);
        let mut told: Vec<Event> =
            waiting.iter().map(|(report, trade)| ended(*report, trade, ReportEnd::HoursEnded)).collect();
        told.push(Event::ReportingChanged { instrument, open: false, reason, ends: None });
        told
    }

    pub(crate) fn see_hours_end(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        reason: SessionReason,
    ) -> Judged {
        for event in self.hours_end(instrument, reason) {
            self.expect(turn, &event)?;
        }
        Ok(())
    }
}

fn ended(report: Seq, trade: &TradeReport, end: ReportEnd) -> Event {
    let TradeReport { instrument, account, counterparty, .. } = *trade;
    Event::ReportEnded { report, instrument, account, counterparty, end }
}
