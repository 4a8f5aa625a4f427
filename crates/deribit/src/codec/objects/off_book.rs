//! Off-book trades. The dialect does not have them, so no client takes one for a trade of the book.

use pitwire_model::{AccountId, Decimal, InstrumentSpec, Lots, VenueNanos};
use pitwire_projections::{OffBook, OffBookPrint, ReportRecord, ReportState};

use super::{amount, price, side_name};
use crate::codec::json::Json;

/// The content of `off_book.{instrument}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffBookFacts {
    pub open: bool,
    pub ends: Option<VenueNanos>,
    /// Figures of the day: lots, the sum of price × lots, and the number of trades.
    pub volume: u64,
    pub turnover: u128,
    pub trades: u64,
    pub last: Option<OffBookPrint>,
}

impl OffBookFacts {
    pub fn of(view: Option<&OffBook>) -> Self {
        let Some(view) = view else { return Self::default() };
        OffBookFacts {
            open: view.open,
            ends: view.ends,
            volume: view.volume,
            turnover: view.turnover,
            trades: view.count,
            last: view.trades.back().copied(),
        }
    }
}

/// Writes `off_book.{instrument}`.
pub fn off_book(j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos, facts: &OffBookFacts) {
    j.object(|j| {
        off_book_fields(j, spec, at, facts);
        if let Some(last) = &facts.last {
            j.key("last_trade").object(|j| print(j, spec, last));
        }
    });
}

/// Writes `public/pitwire_get_off_book`: the same with the newest trades, newest first.
pub fn off_book_trades(j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos, view: Option<&OffBook>, most: usize) {
    j.object(|j| {
        off_book_fields(j, spec, at, &OffBookFacts::of(view));
        j.key("trades").array(|j| {
            let newest = view.into_iter().flat_map(|view| view.trades.iter().rev());
            newest.take(most).for_each(|trade| j.object(|j| print(j, spec, trade)).end());
        });
    });
}

fn off_book_fields(j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos, facts: &OffBookFacts) {
    j.key("timestamp").uint(at.as_millis());
    j.key("instrument_name").string(&spec.name);
    j.key("trade_reporting").string(if facts.open { "open" } else { "closed" });
    if let Some(ends) = facts.ends {
        j.key("ends").uint(ends.as_millis());
    }
    j.key("day").object(|j| figures(j, spec, facts));
}

/// Writes the figures of the day, also for `public/pitwire_get_statistics`.
pub(super) fn figures(j: &mut Json<'_>, spec: &InstrumentSpec, facts: &OffBookFacts) {
    amount(j, "volume", spec, Lots(facts.volume));
    j.key("turnover").decimal(worth(spec, facts.turnover));
    j.key("trades").uint(facts.trades);
}

/// Converts the sum of price × lots to the currency of the price.
pub(super) fn worth(spec: &InstrumentSpec, tick_lots: u128) -> Decimal {
    let value = spec.tick.times(i128::try_from(tick_lots).unwrap_or(i128::MAX));
    Decimal::new(value.mantissa.saturating_mul(spec.lot.mantissa), value.scale + spec.lot.scale)
}

fn print(j: &mut Json<'_>, spec: &InstrumentSpec, trade: &OffBookPrint) {
    j.key("off_book_seq").uint(trade.number);
    j.key("timestamp").uint(trade.at.as_millis());
    price(j, "price", spec, trade.price);
    amount(j, "amount", spec, trade.lots);
}

/// One report, seen by one of its two parties.
#[derive(Clone, Copy, Debug)]
pub struct ReportFacts<'a> {
    pub spec: &'a InstrumentSpec,
    pub record: &'a ReportRecord,
    pub viewer: AccountId,
    /// Name of the other party.
    pub counterparty: &'a str,
}

pub fn trade_report(j: &mut Json<'_>, facts: &ReportFacts<'_>) {
    let ReportFacts { spec, record, viewer, counterparty } = *facts;
    let trade = &record.trade;
    let is_own = trade.account == viewer;
    let side = if is_own { trade.side } else { trade.side.opposite() };
    j.object(|j| {
        j.key("report_id").string(&record.report.to_string());
        j.key("instrument_name").string(&spec.name);
        j.key("direction").string(side_name(side));
        price(j, "price", spec, trade.price);
        amount(j, "amount", spec, trade.lots);
        j.key("counterparty").string(counterparty);
        j.key("reported_by").string(if is_own { "self" } else { "counterparty" });
        if is_own && !trade.label.as_str().is_empty() {
            j.key("label").string(trade.label.as_str());
        }
        match record.state {
            ReportState::Waiting => j.key("report_state").string("waiting").end(),
            ReportState::Confirmed(number) => {
                j.key("report_state").string("confirmed").key("off_book_seq").uint(number).end();
            }
            ReportState::Ended(end) => j.key("report_state").string(end.name()).end(),
        }
        j.key("creation_timestamp").uint(record.made.as_millis());
        j.key("last_update_timestamp").uint(record.updated.as_millis());
    });
}
