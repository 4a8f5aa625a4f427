//! The session and the day of an instrument, as the projections know them.

use std::collections::BTreeMap;

use pitwire_model::{Derivation, Lots, SessionReason, Ticks, TradeKind, TradeSeq, VenueNanos};
use pitwire_projections::{AtPrice, Breach, Day, Indicative, OpeningDerivation, SessionView, Uncross};

use super::fields::{put_all, take_all};
use crate::records::bytes::{DecodeError, Reader, Writer};
use crate::records::command::{put_option_with, take_code, take_option_with, take_phase};

/// Fewest bytes that [`put`] writes, for an unknown session.
pub(super) const SMALLEST: usize = 56;

pub(super) fn put(w: &mut Writer<'_>, view: &SessionView) {
    w.put_u8(view.phase as u8);
    w.put_u8(view.from as u8);
    w.put_u8(view.reason as u8);
    w.put_u64(view.since.0);
    put_option_with(w, view.ends, |w, ends| w.put_u64(ends.0));
    put_option_with(w, view.indicative, |w, indicative| {
        put_option_with(w, indicative.price, |w, price| w.put_i64(price.0));
        w.put_u64(indicative.volume.0);
        w.put_i64(indicative.imbalance);
    });
    put_option_with(w, view.uncross, |w, uncross| {
        w.put_u8(uncross.call as u8);
        w.put_i64(uncross.price.0);
        w.put_u64(uncross.volume.0);
        w.put_u64(uncross.at.0);
    });
    put_option_with(w, view.breach, |w, breach| {
        w.put_i64(breach.price.0);
        w.put_i64(breach.reference.0);
        w.put_u64(breach.at.0);
    });
    put_option_with(w, view.closing, |w, (price, derivation)| {
        w.put_i64(price.0);
        w.put_u8(derivation as u8);
    });
    put_option_with(w, view.previous_close, |w, price| w.put_i64(price.0));
    put_day(w, &view.day);
}

pub(super) fn take(r: &mut Reader<'_>) -> Result<SessionView, DecodeError> {
    Ok(SessionView {
        phase: take_phase(r)?,
        from: take_phase(r)?,
        reason: take_code(r, "session reason", |code| SessionReason::ALL.get(usize::from(code)).copied())?,
        since: VenueNanos(r.take_u64()?),
        ends: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        indicative: take_option_with(r, |r| {
            Ok(Indicative {
                price: take_option_with(r, |r| r.take_i64().map(Ticks))?,
                volume: Lots(r.take_u64()?),
                imbalance: r.take_i64()?,
            })
        })?,
        uncross: take_option_with(r, |r| {
            Ok(Uncross {
                call: take_phase(r)?,
                price: Ticks(r.take_i64()?),
                volume: Lots(r.take_u64()?),
                at: VenueNanos(r.take_u64()?),
            })
        })?,
        breach: take_option_with(r, |r| {
            Ok(Breach { price: Ticks(r.take_i64()?), reference: Ticks(r.take_i64()?), at: VenueNanos(r.take_u64()?) })
        })?,
        closing: take_option_with(r, |r| Ok((Ticks(r.take_i64()?), take_derivation(r)?)))?,
        previous_close: take_option_with(r, |r| r.take_i64().map(Ticks))?,
        day: take_day(r)?,
    })
}

fn take_derivation(r: &mut Reader<'_>) -> Result<Derivation, DecodeError> {
    take_code(r, "derivation", |code| Derivation::ALL.get(usize::from(code)).copied())
}

fn put_day(w: &mut Writer<'_>, day: &Day) {
    w.put_u64(day.volume);
    w.put_u128(day.turnover);
    w.put_u64(day.trades);
    let rows: Vec<_> = day.by_price.iter().collect();
    put_all(w, &rows, |w, (price, there)| {
        w.put_i64(price.0);
        w.put_u64(there.lots);
        w.put_u64(there.trades);
    });
    put_option_with(w, day.first, |w, (seq, price, opening)| {
        w.put_u64(seq.0);
        w.put_i64(price.0);
        w.put_u8(opening as u8);
    });
    put_option_with(w, day.last, |w, (seq, price)| {
        w.put_u64(seq.0);
        w.put_i64(price.0);
    });
    put_option_with(w, day.since, |w, seq| w.put_u64(seq.0));
}

fn take_day(r: &mut Reader<'_>) -> Result<Day, DecodeError> {
    Ok(Day {
        volume: r.take_u64()?,
        turnover: r.take_u128()?,
        trades: r.take_u64()?,
        by_price: take_prices(r)?,
        first: take_option_with(r, |r| {
            let (seq, price) = (TradeSeq(r.take_u64()?), Ticks(r.take_i64()?));
            let opening = take_code(r, "opening", |code| match code {
                0 => Some(OpeningDerivation::OpeningAuction),
                1 => Some(OpeningDerivation::FirstTrade),
                _ => None,
            })?;
            Ok((seq, price, opening))
        })?,
        last: take_option_with(r, |r| Ok((TradeSeq(r.take_u64()?), Ticks(r.take_i64()?))))?,
        since: take_option_with(r, |r| r.take_u64().map(TradeSeq))?,
    })
}

fn take_prices(r: &mut Reader<'_>) -> Result<BTreeMap<Ticks, AtPrice>, DecodeError> {
    let at = r.position();
    let rows = take_all(r, 24, |r| Ok((Ticks(r.take_i64()?), AtPrice { lots: r.take_u64()?, trades: r.take_u64()? })))?;
    // Each state has one encoding: ascending, each price once.
    if !rows.is_sorted_by(|(one, _), (next, _)| one < next) {
        return Err(DecodeError::BadValue { what: "prices of a day out of order", at });
    }
    Ok(rows.into_iter().collect())
}

/// Writes continuous as 0, filter as 1, call as 2 with its phase, cross as 3.
pub(super) fn put_trade_kind(w: &mut Writer<'_>, kind: TradeKind) {
    match kind {
        TradeKind::Continuous => w.put_u8(0),
        TradeKind::Filter => w.put_u8(1),
        TradeKind::Call(call) => {
            w.put_u8(2);
            w.put_u8(call as u8);
        }
        TradeKind::Cross => w.put_u8(3),
    }
}

pub(super) fn take_trade_kind(r: &mut Reader<'_>) -> Result<TradeKind, DecodeError> {
    let at = r.position();
    Ok(match r.take_u8()? {
        0 => TradeKind::Continuous,
        1 => TradeKind::Filter,
        2 => TradeKind::Call(take_phase(r)?),
        3 => TradeKind::Cross,
        tag => return Err(DecodeError::UnknownTag { what: "trade kind", tag: u32::from(tag), at }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_as_small_as_it_says() {
        let mut out = Vec::new();
        put(&mut Writer::new(&mut out), &SessionView::default());
        assert_eq!(out.len(), SMALLEST);
    }
}
