//! Trades agreed beside the book (rulebook 23): a list of what waits, looked through at every question.

use pitwire_model::{
    AccountId, Command, Event, InstrumentId, OffBookTrade, Phase, Reject, ReportEnd, Seq, SessionReason, Side,
    TradeReport, VenueNanos,
};

use super::entering::{legal_lots, legal_price};
use super::{Account, ReferenceEngine};

/// The hours of an instrument; there are none between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hours {
    pub ends: Option<VenueNanos>,
}

impl ReferenceEngine {
    pub(super) fn run_reports(&mut self, number: Seq, command: &Command, out: &mut Vec<Event>) -> Result<(), Reject> {
        match command {
            Command::SetReporting { instrument, open, reason, ends, .. } => {
                let at = self.standing(*instrument)?;
                if self.markets[at].hours.is_some() == *open {
                    return Err(Reject::SessionNotAllowed);
                }
                if *open {
                    self.markets[at].hours = Some(Hours { ends: *ends });
                    let (instrument, reason, ends) = (*instrument, *reason, *ends);
                    out.push(Event::ReportingChanged { instrument, open: true, reason, ends });
                } else {
                    self.shut_reporting(*instrument, *reason, out);
                }
                Ok(())
            }
            Command::ReportTrade(trade) => self.report(number, trade, out),
            Command::AnswerReport { account, report, confirm: true } => self.confirm(*account, *report, out),
            Command::AnswerReport { account, report, confirm: false } => self.drop_report(*account, *report, out),
            other => unreachable!("{other:?} is dispatched elsewhere"),
        }
    }

    /// What waits in the instrument is over, and so are its hours, if it has any.
    pub(super) fn shut_reporting(&mut self, instrument: InstrumentId, reason: SessionReason, out: &mut Vec<Event>) {
        if self.markets[instrument.0 as usize].hours.take().is_none() {
            return;
        }
        let mut over: Vec<Seq> = Vec::new();
        for (number, trade) in &self.reports {
            if trade.instrument == instrument {
                over.push(*number);
            }
        }
        over.sort();
        for number in over {
            self.end_report(number, ReportEnd::HoursEnded, out);
        }
        out.push(Event::ReportingChanged { instrument, open: false, reason, ends: None });
    }

    fn end_report(&mut self, number: Seq, end: ReportEnd, out: &mut Vec<Event>) {
        let at = self.reports.iter().position(|(of, _)| *of == number).expect("the caller has seen it");
        let (report, TradeReport { instrument, account, counterparty, .. }) = self.reports.swap_remove(at);
        out.push(Event::ReportEnded { report, instrument, account, counterparty, end });
    }

    fn report(&mut self, number: Seq, trade: &TradeReport, out: &mut Vec<Event>) -> Result<(), Reject> {
        if self.market(trade.instrument).is_none() {
            return Err(Reject::UnknownInstrument);
        }
        if self.account(trade.account).is_none() || self.account(trade.counterparty).is_none() {
            return Err(Reject::UnknownAccount);
        }
        let market = &self.markets[self.standing(trade.instrument)?];
        debug_assert_ne!(market.phase, Phase::Deleted);
        self.may_settle([trade.account])?;
        if market.hours.is_none() {
            return Err(Reject::ReportingClosed);
        }
        if !legal_lots(trade.lots.0) {
            return Err(Reject::QuantityOutOfRange);
        }
        if !legal_price(trade.price) {
            return Err(Reject::PriceOutOfRange);
        }
        if trade.account == trade.counterparty {
            return Err(Reject::BadDefinition);
        }
        let mut waiting = 0;
        for (_, other) in &self.reports {
            waiting += usize::from((other.instrument, other.account) == (trade.instrument, trade.account));
        }
        if waiting == 16 {
            return Err(Reject::TooManyReports);
        }
        self.reports.push((number, trade.clone()));
        out.push(Event::TradeReported { report: number, trade: Box::new(trade.clone()) });
        Ok(())
    }

    fn may_settle(&self, parties: impl IntoIterator<Item = AccountId>) -> Result<(), Reject> {
        for account in parties {
            let Account { closed, killed, throttled, .. } = self.accounts[account.0 as usize];
            if closed {
                return Err(Reject::AccountClosed);
            }
            if killed || self.venue_killed {
                return Err(Reject::Killed);
            }
            if throttled {
                return Err(Reject::ExecutionThrottle);
            }
        }
        Ok(())
    }

    /// A report that an account has anything to do with.
    fn waiting_for(&self, account: AccountId, number: Seq) -> Result<TradeReport, Reject> {
        if self.account(account).is_none() {
            return Err(Reject::UnknownAccount);
        }
        let found = self.reports.iter().find(|(of, _)| *of == number).map(|(_, trade)| trade);
        match found {
            Some(trade) if [trade.account, trade.counterparty].contains(&account) => Ok(trade.clone()),
            _ => Err(Reject::UnknownReport),
        }
    }

    fn drop_report(&mut self, account: AccountId, number: Seq, out: &mut Vec<Event>) -> Result<(), Reject> {
        let trade = self.waiting_for(account, number)?;
        let end = if trade.counterparty == account { ReportEnd::Declined } else { ReportEnd::Withdrawn };
        self.end_report(number, end, out);
        Ok(())
    }

    fn confirm(&mut self, account: AccountId, number: Seq, out: &mut Vec<Event>) -> Result<(), Reject> {
        let trade = self.waiting_for(account, number)?;
        if trade.account == account {
            return Err(Reject::OwnReport);
        }
        self.may_settle(buyer_and_seller(&trade))?;
        let TradeReport { instrument, price, lots, .. } = trade;
        let [buyer, seller] = buyer_and_seller(&trade);
        for (party, side) in [(buyer, Side::Buy), (seller, Side::Sell)] {
            if !self.affords_trade(instrument, party, side, price, lots.0) {
                return Err(Reject::NotEnoughFunds);
            }
        }
        self.reports.retain(|(of, _)| *of != number);
        self.markets[instrument.0 as usize].off_book += 1;
        self.settle_money(instrument, [(seller, Side::Sell), (buyer, Side::Buy)], price, lots.0);
        let of_trades = self.markets[instrument.0 as usize].off_book;
        let made = OffBookTrade { instrument, number: of_trades, price, lots, report: number, buyer, seller };
        out.push(Event::OffBookTrade(Box::new(made)));
        Ok(())
    }
}

fn buyer_and_seller(trade: &TradeReport) -> [AccountId; 2] {
    if trade.side == Side::Buy { [trade.account, trade.counterparty] } else { [trade.counterparty, trade.account] }
}
