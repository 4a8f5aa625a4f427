//! The state of trade reporting in one instrument.

use std::collections::BTreeMap;

use pitwire_model::{AccountId, Event, InstrumentId, ReportEnd, Seq, SessionReason, TradeReport, VenueNanos};

use crate::event_sink::EventSink;
use crate::order_checks::{check_price, lots_u32};

/// Trade reporting of one instrument. Part of every image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reporting {
    /// Whether the reporting hours are open.
    pub open: bool,
    /// When the current reporting hours are expected to end.
    pub ends: Option<VenueNanos>,
    /// Number of the last reported trade.
    pub trades: u64,
    /// Reports that wait for confirmation by the counterparty.
    pub waiting: BTreeMap<Seq, TradeReport>,
}

impl Reporting {
    /// Opens or closes the reporting hours. Every waiting report ends.
    pub(crate) fn set_open(
        &mut self,
        instrument: InstrumentId,
        open: bool,
        reason: SessionReason,
        ends: Option<VenueNanos>,
        out: &mut impl EventSink,
    ) {
        for (number, report) in std::mem::take(&mut self.waiting) {
            out.emit(report_ended(number, &report, ReportEnd::HoursEnded));
        }
        (self.open, self.ends) = (open, ends.filter(|_| open));
        out.emit(Event::ReportingChanged { instrument, open, reason, ends: self.ends });
    }

    /// Closes the reporting hours if they are open.
    pub(crate) fn close(&mut self, instrument: InstrumentId, reason: SessionReason, out: &mut impl EventSink) {
        if self.open {
            self.set_open(instrument, false, reason, None, out);
        }
    }

    /// Returns whether an engine with this many accounts can have had this state.
    pub(crate) fn is_valid(&self, instrument: InstrumentId, accounts: usize) -> bool {
        let is_valid_report = |report: &TradeReport| {
            report.instrument == instrument
                && report.account != report.counterparty
                && report.parties().into_iter().all(|party| (party.0 as usize) < accounts)
                && lots_u32(report.lots).is_ok()
                && check_price(Some(report.price)).is_ok()
        };
        let has_rest_of_hours = !self.open && (!self.waiting.is_empty() || self.ends.is_some());
        !has_rest_of_hours && self.waiting.values().all(is_valid_report)
    }

    /// Returns the number of waiting reports that `account` has made.
    pub(crate) fn waiting_reports_by(&self, account: AccountId) -> usize {
        self.waiting.values().filter(|report| report.account == account).count()
    }
}

pub(crate) fn report_ended(number: Seq, report: &TradeReport, end: ReportEnd) -> Event {
    let TradeReport { instrument, account, counterparty, .. } = *report;
    Event::ReportEnded { report: number, instrument, account, counterparty, end }
}
