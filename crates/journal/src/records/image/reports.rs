//! Off-book trades in the projections. The part is present only if there are any, or if used
//! signatures follow.
//!
//! Layout      markets (instrument u32, open u8, ends option u64, trades (number u64, price i64,
//!             lots u64, at u64), volume u64,
//!             turnover u128, count u64), then accounts (account u32, reports (report u64, trade,
//!             state u8 (0 waiting;
//!             1 confirmed, number u64; 2 declined 3 withdrawn 4 hours ended), made u64, updated
//!             u64)).

use std::collections::BTreeMap;

use pitwire_model::{AccountId, InstrumentId, Lots, ReportEnd, Seq, Ticks, VenueNanos};
use pitwire_projections::{OffBook, OffBookPrint, ReportRecord, ReportState, Reports};

use super::fields::{put_all, take_all};
use crate::records::bytes::{DecodeError, Reader, Writer};
use crate::records::command::{put_option_with, put_report, take_option_with, take_report};

/// Writes nothing if there are no reports and nothing follows them, so that such snapshots keep
/// their older bytes.
pub(super) fn put(w: &mut Writer<'_>, reports: &Reports, is_last: bool) {
    if is_last && *reports == Reports::default() {
        return;
    }
    let markets: Vec<_> = reports.markets.iter().collect();
    put_all(w, &markets, |w, (instrument, market)| {
        w.put_u32(instrument.0);
        put_market(w, market);
    });
    let accounts: Vec<_> = reports.accounts.iter().collect();
    put_all(w, &accounts, |w, (account, records)| {
        w.put_u32(account.0);
        let records: Vec<_> = records.iter().collect();
        put_all(w, &records, |w, record| put_record(w, record));
    });
}

pub(super) fn take(r: &mut Reader<'_>) -> Result<Reports, DecodeError> {
    if r.remaining() == 0 {
        return Ok(Reports::default());
    }
    let at = r.position();
    let markets = take_all(r, 42, |r| Ok((InstrumentId(r.take_u32()?), take_market(r)?)))?;
    let accounts = take_all(r, 8, |r| Ok((AccountId(r.take_u32()?), take_all(r, 56, take_record)?.into())))?;
    // Each state has one encoding: ascending, without repetition, without empty entries.
    let ascends = markets.is_sorted_by(|(one, _), (next, _)| one < next)
        && accounts.is_sorted_by(|(one, _), (next, _)| one < next);
    let is_needless = markets.is_empty() && accounts.is_empty() && r.remaining() == 0;
    if !ascends || is_needless {
        return Err(DecodeError::BadValue { what: "order of reports", at });
    }
    let (markets, accounts): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (markets.into_iter().collect(), accounts.into_iter().collect());
    Ok(Reports { markets, accounts })
}

fn put_market(w: &mut Writer<'_>, market: &OffBook) {
    w.put_bool(market.open);
    put_option_with(w, market.ends, |w, ends| w.put_u64(ends.0));
    let trades: Vec<_> = market.trades.iter().collect();
    put_all(w, &trades, |w, trade| {
        w.put_u64(trade.number);
        w.put_i64(trade.price.0);
        w.put_u64(trade.lots.0);
        w.put_u64(trade.at.0);
    });
    w.put_u64(market.volume);
    w.put_u128(market.turnover);
    w.put_u64(market.count);
}

fn take_market(r: &mut Reader<'_>) -> Result<OffBook, DecodeError> {
    Ok(OffBook {
        open: r.take_bool()?,
        ends: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        trades: take_all(r, 32, |r| {
            Ok(OffBookPrint {
                number: r.take_u64()?,
                price: Ticks(r.take_i64()?),
                lots: Lots(r.take_u64()?),
                at: VenueNanos(r.take_u64()?),
            })
        })?
        .into(),
        volume: r.take_u64()?,
        turnover: r.take_u128()?,
        count: r.take_u64()?,
    })
}

fn put_record(w: &mut Writer<'_>, record: &ReportRecord) {
    w.put_u64(record.report.0);
    put_report(w, &record.trade);
    match record.state {
        ReportState::Waiting => w.put_u8(0),
        ReportState::Confirmed(number) => {
            w.put_u8(1);
            w.put_u64(number);
        }
        ReportState::Ended(end) => w.put_u8(2 + end as u8),
    }
    w.put_u64(record.made.0);
    w.put_u64(record.updated.0);
}

fn take_record(r: &mut Reader<'_>) -> Result<ReportRecord, DecodeError> {
    Ok(ReportRecord {
        report: Seq(r.take_u64()?),
        trade: take_report(r)?,
        state: take_state(r)?,
        made: VenueNanos(r.take_u64()?),
        updated: VenueNanos(r.take_u64()?),
    })
}

fn take_state(r: &mut Reader<'_>) -> Result<ReportState, DecodeError> {
    let at = r.position();
    let tag = r.take_u8()?;
    let end = || ReportEnd::ALL.into_iter().find(|end| 2 + *end as u8 == tag);
    match tag {
        0 => Ok(ReportState::Waiting),
        1 => Ok(ReportState::Confirmed(r.take_u64()?)),
        _ => end().map(ReportState::Ended).ok_or(DecodeError::UnknownTag { what: "report state", tag: tag.into(), at }),
    }
}
