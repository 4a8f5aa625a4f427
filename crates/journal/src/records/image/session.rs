//! The session, references and closing price of an instrument.

use pitwire_engine::rule_tables::TifSet;
use pitwire_engine::{ClosingPriceInputs, IndicativeUncross, SessionImage, TradeRun};
use pitwire_model::{Derivation, Phase, Ticks, TradeSeq, VenueNanos};

use super::fields::{put_all, put_option, take_all, take_option};
use crate::records::bytes::{DecodeError, Reader, Writer};
use crate::records::command::{put_option_with, take_code, take_option_with, take_phase, take_remaining};

pub(super) fn put_session(w: &mut Writer<'_>, session: &SessionImage) {
    put_option_with(w, session.ends, |w, ends| w.put_u64(ends.0));
    session.remaining.counts.iter().for_each(|count| w.put_u8(*count));
    w.put_bool(session.missed);
    put_option_with(w, session.continues, |w, phase: Phase| w.put_u8(phase as u8));
    put_option_with(w, session.unfinished, |w, kinds: TifSet| w.put_u16(kinds.0));
    put_price(w, session.static_reference);
    put_price(w, session.dynamic_reference);
    put_option_with(w, session.closing, |w, (price, derivation): (Ticks, Derivation)| {
        w.put_i64(price.0);
        w.put_u8(derivation as u8);
    });
    put_price(w, session.previous_close);
    put_price(w, session.uncross_price);
    put_price(w, session.indicated.price);
    w.put_u64(session.indicated.volume);
    w.put_i64(session.indicated.imbalance);
    put_day(w, &session.day);
    put_all(w, &session.older_than_batches, |w, count| w.put_u32(*count));
}

pub(super) fn take_session(r: &mut Reader<'_>) -> Result<SessionImage, DecodeError> {
    Ok(SessionImage {
        ends: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        remaining: take_remaining(r)?,
        missed: r.take_bool()?,
        continues: take_option_with(r, take_phase)?,
        unfinished: take_option_with(r, |r| r.take_u16().map(TifSet))?,
        static_reference: take_price(r)?,
        dynamic_reference: take_price(r)?,
        closing: take_option_with(r, |r| Ok((Ticks(r.take_i64()?), take_derivation(r)?)))?,
        previous_close: take_price(r)?,
        uncross_price: take_price(r)?,
        indicated: IndicativeUncross { price: take_price(r)?, volume: r.take_u64()?, imbalance: r.take_i64()? },
        day: take_day(r)?,
        older_than_batches: take_all(r, 4, |r| r.take_u32())?,
    })
}

fn put_day(w: &mut Writer<'_>, day: &ClosingPriceInputs) {
    put_price(w, day.last);
    put_price(w, day.closing_call);
    put_option_with(w, day.ended, |w, ended| w.put_u64(ended.0));
    w.put_count(day.runs.len());
    for run in &day.runs {
        w.put_u64(run.second);
        w.put_u64(run.first.0);
        w.put_u64(run.last.0);
        w.put_i128(run.lots);
        w.put_i128(run.tick_lots);
    }
}

fn take_day(r: &mut Reader<'_>) -> Result<ClosingPriceInputs, DecodeError> {
    let take_run = |r: &mut Reader<'_>| {
        Ok(TradeRun {
            second: r.take_u64()?,
            first: TradeSeq(r.take_u64()?),
            last: TradeSeq(r.take_u64()?),
            lots: r.take_i128()?,
            tick_lots: r.take_i128()?,
        })
    };
    Ok(ClosingPriceInputs {
        last: take_price(r)?,
        closing_call: take_price(r)?,
        ended: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        runs: take_all(r, 56, take_run)?.into(),
    })
}

fn take_derivation(r: &mut Reader<'_>) -> Result<Derivation, DecodeError> {
    take_code(r, "derivation", |code| Derivation::ALL.into_iter().find(|derivation| *derivation as u8 == code))
}

fn put_price(w: &mut Writer<'_>, price: Option<Ticks>) {
    put_option(w, price.map(|price| price.0));
}

fn take_price(r: &mut Reader<'_>) -> Result<Option<Ticks>, DecodeError> {
    Ok(take_option(r)?.map(Ticks))
}
