//! Off-book trades (rulebook 23) in a scenario: runs the steps that report them and collects their
//! results.
//!
//! Leaves out  scenarios without off-book trades and without funds: their outcome omits these
//!             fields.

use pitwire_engine::EngineImage;
use pitwire_model::{
    AccountId, Command, CurrencyId, Event, Label, Lots, OffBookTrade, Seq, SessionReason, Ticks, TradeReport,
};

use crate::off_book_state::{Holding, OffBookOutcome, OffBookRow, named};
use crate::outcome::StepEvent;
use crate::play::{CommandSubject, Machine, Stage, Witness};
use crate::script::{Report, ReportAnswer, Scenario, Step};

impl Scenario {
    pub(crate) fn reports_trades(&self) -> bool {
        let reports = |step: &Step| matches!(step, Step::Reporting { .. } | Step::Report(_) | Step::Answer(_));
        !self.setup.funds.is_empty() || self.steps.iter().any(reports)
    }
}

impl Step {
    /// Returns the accounts that a step names, in the form of [`named`].
    pub(crate) fn parties(&self) -> Vec<String> {
        match self {
            Step::Report(report) => vec![named(&report.by), named(&report.with)],
            Step::Answer(answer) => vec![named(&answer.by)],
            _ => Vec::new(),
        }
    }
}

impl<M: Machine, W: Witness> Stage<'_, M, W> {
    pub(crate) fn turn_reporting(&mut self, open: bool) -> Vec<StepEvent> {
        let (instrument, reason, due, ends) = (self.market(), SessionReason::Scheduled, self.now(), None);
        self.run(Command::SetReporting { instrument, open, reason, due, ends }, CommandSubject::WITHOUT_ORDER)
    }

    pub(crate) fn report(&mut self, report: &Report) -> Vec<StepEvent> {
        let number = self.seq.next();
        self.reports.numbers.insert(report.id.clone(), number);
        self.reports.names.insert(number, report.id.clone());
        let trade = TradeReport {
            instrument: self.market(),
            account: self.party(&report.by),
            counterparty: self.party(&report.with),
            side: report.side,
            price: Ticks(report.price),
            lots: Lots(report.qty),
            label: Label::default(),
        };
        self.run(Command::ReportTrade(Box::new(trade)), CommandSubject { id: &report.id, cell: None })
    }

    pub(crate) fn answer(&mut self, answer: &ReportAnswer) -> Vec<StepEvent> {
        // An unknown name gets a report number that does not exist, so that the engine refuses the
        // answer.
        let report = self.reports.numbers.get(&answer.id).copied().unwrap_or(Seq(u64::MAX));
        let (account, confirm) = (self.party(&answer.by), answer.confirm);
        self.run(Command::AnswerReport { account, report, confirm }, CommandSubject { id: &answer.id, cell: None })
    }

    fn party(&self, account: &str) -> AccountId {
        self.accounts.get(&named(account)).copied().unwrap_or_default()
    }

    fn called(&self, account: AccountId) -> String {
        let found = self.accounts.iter().find(|(_, id)| **id == account);
        found.map_or_else(|| format!("account {account}"), |(name, _)| name.trim_start_matches("named ").to_owned())
    }

    fn report_named(&self, number: Seq) -> String {
        self.reports.names.get(&number).cloned().unwrap_or_else(|| format!("report {number}"))
    }

    pub(crate) fn translate_off_book(&mut self, event: &Event) -> Option<StepEvent> {
        Some(match event {
            Event::ReportingChanged { open, .. } => StepEvent::Reporting { open: *open },
            Event::TradeReported { report, .. } => StepEvent::Reported { id: self.report_named(*report) },
            Event::ReportEnded { report, end, .. } => {
                StepEvent::ReportEnded { id: self.report_named(*report), reason: end.name() }
            }
            Event::OffBookTrade(trade) => {
                let row = self.off_book_row(trade);
                self.reports.off_book.push(row.clone());
                StepEvent::OffBookTrade(row)
            }
            _ => return None,
        })
    }

    fn off_book_row(&self, trade: &OffBookTrade) -> OffBookRow {
        OffBookRow {
            id: self.report_named(trade.report),
            buy: self.called(trade.buyer),
            sell: self.called(trade.seller),
            qty: trade.lots.0,
            price: trade.price.0,
            number: trade.number,
        }
    }

    pub(crate) fn off_book_outcome(&self, image: &EngineImage) -> OffBookOutcome {
        let market = image.markets.get(self.market().0 as usize);
        let waiting = market.into_iter().flat_map(|market| market.reporting.waiting.keys());
        let holdings = self.accounts.iter().filter_map(|(name, id)| {
            let account = image.accounts.get(id.0 as usize)?;
            let total = |currency: CurrencyId| {
                let units = account.balances.get(currency.0 as usize).map_or(0, |balance| balance.total);
                i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
            };
            let holding = Holding { goods: total(CurrencyId(0)), money: total(CurrencyId(1)) };
            Some((name.strip_prefix("named ")?.to_owned(), holding))
        });
        OffBookOutcome {
            off_book: self.reports.off_book.clone(),
            waiting: waiting.map(|number| self.report_named(*number)).collect(),
            last_price: market.and_then(|market| market.last).map(Ticks::get),
            holdings: holdings.collect(),
        }
    }
}
