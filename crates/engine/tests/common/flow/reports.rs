//! Off-book trades: reporting hours, reports, and answers by the right and the wrong accounts.

use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Label, Seq, SessionReason, Side, TradeReport, VenueNanos,
};

use super::{Flow, Kind};
use crate::common::SplitMix64;
use crate::common::world::{ACCOUNTS, INSTRUMENTS};

/// The account of all reports, for seeds that use one account only.
pub(super) fn one(rng: &mut SplitMix64) -> Option<(AccountId, InstrumentId)> {
    rng.one_in(3).then(|| (AccountId(rng.below_u32(ACCOUNTS)), InstrumentId(rng.below_u32(INSTRUMENTS))))
}

impl Flow {
    pub(super) fn report(&mut self, kind: Kind) -> Command {
        match kind {
            Kind::SetReporting => {
                let instrument = self.reporter.map_or_else(|| self.instrument(), |(_, instrument)| instrument);
                let ends = self.rng.one_in(2).then(|| VenueNanos(self.at.0 + 1_000_000));
                let reason = self.rng.pick(&[SessionReason::Scheduled, SessionReason::Missed]);
                Command::SetReporting { instrument, open: !self.rng.one_in(4), reason, due: self.at, ends }
            }
            Kind::Report => Command::ReportTrade(Box::new(self.trade_report())),
            _ => self.answer(),
        }
    }

    fn trade_report(&mut self) -> TradeReport {
        let (account, instrument) = match self.reporter.filter(|_| !self.rng.one_in(8)) {
            Some(always) => always,
            None => (self.account(), self.instrument()),
        };
        TradeReport {
            instrument,
            account,
            counterparty: self.account(),
            side: self.rng.pick(&[Side::Buy, Side::Sell]),
            price: self.price(instrument),
            lots: self.lots(),
            label: Label::new("block").unwrap_or_default(),
        }
    }

    /// Mostly answers a waiting report, mostly by its counterparty.
    fn answer(&mut self) -> Command {
        let (report, reporter, asked) = match self.rng.below(20) {
            0 => (Seq(self.rng.below(100)), self.account(), self.account()),
            _ if self.reports.is_empty() => (Seq(1), self.account(), self.account()),
            _ => self.rng.pick(&self.reports),
        };
        let account = match self.rng.below(12) {
            0 => self.account(),
            1 | 2 => reporter,
            _ => asked,
        };
        Command::AnswerReport { account, report, confirm: !self.rng.one_in(4) }
    }

    pub(super) fn learn_report(&mut self, event: &Event) {
        match event {
            Event::TradeReported { report, trade } => {
                self.reports.push((*report, trade.account, trade.counterparty));
            }
            Event::ReportEnded { report, .. } => self.reports.retain(|(waiting, ..)| waiting != report),
            Event::OffBookTrade(trade) => self.reports.retain(|(waiting, ..)| *waiting != trade.report),
            _ => {}
        }
    }
}
