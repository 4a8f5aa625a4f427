//! Bodies of commands about off-book trades. The layout is at the head of the parent module.

use pitwire_model::{AccountId, Command, InstrumentId, Lots, Seq, Ticks, TradeReport, VenueNanos};

use super::fields::{put_option_with, take_label, take_option_with, take_reason, take_side};
use crate::records::bytes::{DecodeError, Reader, Writer};

pub(super) fn put_body(w: &mut Writer<'_>, command: &Command) {
    match command {
        Command::SetReporting { instrument, open, reason, due, ends } => {
            w.put_u32(instrument.0);
            w.put_bool(*open);
            w.put_u8(*reason as u8);
            w.put_u64(due.0);
            put_option_with(w, *ends, |w, ends| w.put_u64(ends.0));
        }
        Command::ReportTrade(report) => put_report(w, report),
        Command::AnswerReport { account, report, confirm } => {
            w.put_u32(account.0);
            w.put_u64(report.0);
            w.put_bool(*confirm);
        }
        _ => {}
    }
}

pub(super) fn take_body(r: &mut Reader<'_>, kind: u8) -> Result<Command, DecodeError> {
    Ok(match kind {
        35 => Command::SetReporting {
            instrument: InstrumentId(r.take_u32()?),
            open: r.take_bool()?,
            reason: take_reason(r)?,
            due: VenueNanos(r.take_u64()?),
            ends: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        },
        36 => Command::ReportTrade(Box::new(take_report(r)?)),
        _ => Command::AnswerReport {
            account: AccountId(r.take_u32()?),
            report: Seq(r.take_u64()?),
            confirm: r.take_bool()?,
        },
    })
}

pub fn put_report(w: &mut Writer<'_>, report: &TradeReport) {
    w.put_u32(report.instrument.0);
    w.put_u32(report.account.0);
    w.put_u32(report.counterparty.0);
    w.put_u8(report.side as u8);
    w.put_i64(report.price.0);
    w.put_u64(report.lots.0);
    w.put_text(report.label.as_str());
}

/// Reads a trade report.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_report(r: &mut Reader<'_>) -> Result<TradeReport, DecodeError> {
    Ok(TradeReport {
        instrument: InstrumentId(r.take_u32()?),
        account: AccountId(r.take_u32()?),
        counterparty: AccountId(r.take_u32()?),
        side: take_side(r)?,
        price: Ticks(r.take_i64()?),
        lots: Lots(r.take_u64()?),
        label: take_label(r)?,
    })
}
