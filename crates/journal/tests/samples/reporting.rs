//! Samples of records of trade reporting, by the names that the golden vectors use.

use pitwire_model::{
    AccountId, Command, Event, Label, Lots, OffBookTrade, Reject, ReportEnd, Seq, SequencedCommand, SessionReason,
    Side, Ticks, TradeReport, VenueNanos,
};

use super::{ACCOUNT, INSTRUMENT};

const OTHER: AccountId = AccountId(2);
const REPORT: Seq = Seq(77);
const TIME: VenueNanos = VenueNanos(1_000_000_000_000_000_000);

fn trade() -> Box<TradeReport> {
    Box::new(TradeReport {
        instrument: INSTRUMENT,
        account: ACCOUNT,
        counterparty: OTHER,
        side: Side::Sell,
        price: Ticks(101),
        lots: Lots(40),
        label: Label::new("block").unwrap(),
    })
}

pub fn commands() -> Vec<(&'static str, SequencedCommand)> {
    let (instrument, account, report, due) = (INSTRUMENT, OTHER, REPORT, TIME);
    let ends = Some(VenueNanos(TIME.0 + 5));
    let commands = [
        (
            "set_reporting",
            Command::SetReporting { instrument, open: true, reason: SessionReason::Scheduled, due, ends },
        ),
        (
            "set_reporting_shut",
            Command::SetReporting { instrument, open: false, reason: SessionReason::Missed, due, ends: None },
        ),
        ("report_trade", Command::ReportTrade(trade())),
        ("confirm_report", Command::AnswerReport { account, report, confirm: true }),
        ("decline_report", Command::AnswerReport { account, report, confirm: false }),
    ];
    let stamped =
        |(seq, (name, command))| (name, SequencedCommand { seq: Seq(seq), at: VenueNanos(1000 + seq), command });
    (1_u64..).zip(commands).map(stamped).collect()
}

pub fn events() -> Vec<(&'static str, Event)> {
    let (instrument, report) = (INSTRUMENT, REPORT);
    let (reason, ends) = (SessionReason::Scheduled, Some(TIME));
    let made = OffBookTrade {
        instrument,
        number: 3,
        price: Ticks(101),
        lots: Lots(40),
        report,
        buyer: OTHER,
        seller: ACCOUNT,
    };
    vec![
        ("reporting_changed", Event::ReportingChanged { instrument, open: true, reason, ends }),
        (
            "reporting_shut",
            Event::ReportingChanged { instrument, open: false, reason: SessionReason::Missed, ends: None },
        ),
        ("trade_reported", Event::TradeReported { report, trade: trade() }),
        (
            "report_ended",
            Event::ReportEnded { report, instrument, account: ACCOUNT, counterparty: OTHER, end: ReportEnd::Withdrawn },
        ),
        ("off_book_trade", Event::OffBookTrade(Box::new(made))),
        ("refused_reporting_closed", Event::CommandRefused { reason: Reject::ReportingClosed }),
    ]
}
