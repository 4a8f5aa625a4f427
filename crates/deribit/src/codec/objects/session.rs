//! Sessions, auctions and statistics of the day. The dialect does not have them.
//!
//! Holds       every figure derives from public events and the visible book.

use pitwire_model::{Derivation, InstrumentSpec, Lots, Phase, SessionReason, Side, Ticks, VenueNanos};
use pitwire_projections::{Breach, Indicative, OffBook, SessionView, Uncross};

use super::off_book::{OffBookFacts, figures, worth};
use super::{amount, phase_state, price, side_name};
use crate::codec::json::Json;
use crate::codec::rules;

/// The content of `session.{instrument}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    pub phase: Phase,
    pub from: Phase,
    pub reason: SessionReason,
    pub since: VenueNanos,
    pub ends: Option<VenueNanos>,
    pub breach: Option<Breach>,
    pub closing: Option<(Ticks, Derivation)>,
    pub previous_close: Option<Ticks>,
}

impl SessionFacts {
    pub fn of(view: &SessionView) -> Self {
        let SessionView { phase, from, reason, since, ends, breach, closing, previous_close, .. } = *view;
        SessionFacts { phase, from, reason, since, ends, breach, closing, previous_close }
    }
}

/// Writes `session.{instrument}`.
pub fn session(j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos, facts: &SessionFacts) {
    j.object(|j| {
        j.key("timestamp").uint(at.as_millis());
        j.key("instrument_name").string(&spec.name);
        j.key("session").string(facts.phase.name());
        j.key("state").string(phase_state(facts.phase));
        j.key("previous_session").string(facts.from.name());
        j.key("reason").string(facts.reason.name());
        j.key("begins").uint(facts.since.as_millis());
        if let Some(ends) = facts.ends {
            j.key("ends").uint(ends.as_millis());
        }
        if let Some(row) = rules::session(facts.phase) {
            j.key("enter").bool(row.enter).key("amend").bool(row.amend).key("cancel").bool(row.cancel);
            j.key("match").string(&row.matching);
        }
        if let Some(breach) = facts.breach {
            j.key("breach").object(|j| {
                price(j, "price", spec, breach.price);
                price(j, "reference_price", spec, breach.reference);
                j.key("timestamp").uint(breach.at.as_millis());
            });
        }
        closing(j, spec, facts);
    });
}

/// Writes the closing price with its derivation, and the previous one.
fn closing(j: &mut Json<'_>, spec: &InstrumentSpec, view: &SessionFacts) {
    if let Some((closing, derivation)) = view.closing {
        price(j, "closing_price", spec, closing);
        j.key("closing_price_derivation").string(derivation.name());
    }
    if let Some(previous) = view.previous_close {
        price(j, "previous_close", spec, previous);
    }
}

/// Writes the session's fields of a ticker; nothing for a market without sessions.
pub(super) fn ticker_fields(j: &mut Json<'_>, spec: &InstrumentSpec, view: &SessionView) {
    if let Some(ends) = view.ends {
        j.key("session_ends").uint(ends.as_millis());
    }
    if let Some(indicative) = &view.indicative {
        indicative_fields(j, spec, indicative);
    }
    closing(j, spec, &SessionFacts::of(view));
}

fn indicative_fields(j: &mut Json<'_>, spec: &InstrumentSpec, indicative: &Indicative) {
    if let Some(at) = indicative.price {
        price(j, "indicative_price", spec, at);
    }
    amount(j, "indicative_volume", spec, indicative.volume);
    let signed = spec.lot.times(i128::from(indicative.imbalance));
    j.key("imbalance").decimal(signed);
    j.key("imbalance_side").string(indicative.heavy().map_or("none", side_name));
}

/// Cumulative amounts: `[price, amount at this price or better]`, best price first.
pub type Curve = Vec<(Ticks, u64)>;

/// Both curves of a call from the visible book. They start with the quantity that has no level:
/// market orders and the hidden part of icebergs. The indicative volume shows how much that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curves {
    pub buy: Curve,
    pub sell: Curve,
    pub beside_buy: u64,
    pub beside_sell: u64,
}

impl Curves {
    /// Sums levels, best first. `most` bounds each side.
    pub fn of(bids: &[(Ticks, Lots)], asks: &[(Ticks, Lots)], indicative: Option<&Indicative>, most: usize) -> Curves {
        let beside = |side: Side, levels: &[(Ticks, Lots)]| {
            let (indicative, at) = (indicative?, indicative?.price?);
            let accepts = |level: Ticks| if side == Side::Buy { level >= at } else { level <= at };
            let shown = levels.iter().take_while(|(level, _)| accepts(*level)).map(|(_, lots)| lots.0);
            Some(indicative.willing(side).saturating_sub(shown.fold(0, u64::saturating_add)))
        };
        let (beside_buy, beside_sell) = (beside(Side::Buy, bids).unwrap_or(0), beside(Side::Sell, asks).unwrap_or(0));
        let (buy, sell) = (summed(bids, beside_buy, most), summed(asks, beside_sell, most));
        Curves { buy, sell, beside_buy, beside_sell }
    }
}

fn summed(levels: &[(Ticks, Lots)], from: u64, most: usize) -> Curve {
    let mut total = from;
    let running = levels.iter().take(most).map(|(price, lots)| {
        total = total.saturating_add(lots.0);
        (*price, total)
    });
    running.collect()
}

/// The content of `auction.{instrument}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionFacts {
    pub phase: Phase,
    pub since: VenueNanos,
    pub ends: Option<VenueNanos>,
    pub indicative: Option<Indicative>,
    pub uncross: Option<Uncross>,
}

impl AuctionFacts {
    pub fn of(view: &SessionView) -> Self {
        let SessionView { phase, since, ends, indicative, uncross, .. } = *view;
        AuctionFacts { phase, since, ends, indicative, uncross }
    }

    /// Whether orders are collected for one price: in calls, and in continuous trading by batches.
    pub fn collects(&self) -> bool {
        self.phase.is_call() || self.indicative.is_some()
    }
}

/// Writes `auction.{instrument}` and `public/pitwire_get_auction`.
pub fn auction(j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos, facts: &AuctionFacts, curves: Option<&Curves>) {
    j.object(|j| {
        j.key("timestamp").uint(at.as_millis());
        j.key("instrument_name").string(&spec.name);
        j.key("session").string(facts.phase.name());
        j.key("type").string(if facts.collects() { "indicative" } else { "result" });
        if let Some(ends) = facts.ends {
            j.key("session_ends").uint(ends.as_millis());
        }
        if facts.collects() {
            indicative_fields(j, spec, &facts.indicative.unwrap_or_default());
        }
        if let Some(uncross) = &facts.uncross {
            j.key("uncross").object(|j| uncross_fields(j, spec, uncross));
        }
        if let Some(curves) = curves {
            j.key("curves").object(|j| curve_fields(j, spec, curves));
        }
    });
}

fn uncross_fields(j: &mut Json<'_>, spec: &InstrumentSpec, uncross: &Uncross) {
    j.key("session").string(uncross.call.name());
    price(j, "price", spec, uncross.price);
    amount(j, "volume", spec, uncross.volume);
    j.key("timestamp").uint(uncross.at.as_millis());
}

fn curve_fields(j: &mut Json<'_>, spec: &InstrumentSpec, curves: &Curves) {
    amount(j, "beside_buy", spec, Lots(curves.beside_buy));
    amount(j, "beside_sell", spec, Lots(curves.beside_sell));
    for (key, curve) in [("buy", &curves.buy), ("sell", &curves.sell)] {
        j.key(key).array(|j| {
            for (at, total) in curve {
                j.array(|j| {
                    j.decimal(spec.price(*at)).decimal(spec.amount(Lots(*total)));
                });
            }
        });
    }
}

/// Statistics of the current day, and the average price of each side of the book.
#[derive(Clone, Copy, Debug)]
pub struct StatisticsFacts<'a> {
    pub spec: &'a InstrumentSpec,
    pub at: VenueNanos,
    pub view: &'a SessionView,
    pub off_book: Option<&'a OffBook>,
    /// Sum of price × lots, and sum of lots, of the visible levels of each side.
    pub book: [(u128, u64); 2],
}

/// Writes `public/pitwire_get_statistics`.
pub fn statistics(j: &mut Json<'_>, facts: &StatisticsFacts<'_>) {
    let StatisticsFacts { spec, at, view, off_book, book } = *facts;
    let day = &view.day;
    j.object(|j| {
        j.key("timestamp").uint(at.as_millis());
        j.key("instrument_name").string(&spec.name);
        j.key("session").string(view.phase.name());
        if let Some((open, derivation)) = day.open() {
            price(j, "open", spec, open);
            j.key("open_derivation").string(derivation.name());
        }
        let prices = [("high", day.high()), ("low", day.low()), ("last", day.last()), ("vwap", day.vwap())];
        for (key, at) in prices {
            if let Some(at) = at {
                price(j, key, spec, at);
            }
        }
        amount(j, "volume", spec, Lots(day.volume));
        j.key("turnover").decimal(worth(spec, day.turnover));
        j.key("trades").uint(day.trades);
        if let Some((closing, derivation)) = view.closing {
            price(j, "close", spec, closing);
            j.key("close_derivation").string(derivation.name());
        }
        if let Some(previous) = view.previous_close {
            price(j, "previous_close", spec, previous);
        }
        for (key, (value, lots)) in [("bid_vwap", book[0]), ("ask_vwap", book[1])] {
            let average = value.checked_div(u128::from(lots)).and_then(|average| i64::try_from(average).ok());
            if let Some(average) = average {
                price(j, key, spec, Ticks(average));
            }
        }
        if off_book.is_some() {
            j.key("off_book").object(|j| figures(j, spec, &OffBookFacts::of(off_book)));
        }
    });
}
