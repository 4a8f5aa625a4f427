//! Bodies of commands about sessions. The layout is at the head of the parent module.

use pitwire_model::{
    Allocation, Command, InstrumentId, Lots, RemainingSessions, Ticks, Tolerance, TradingRules, VenueDay, VenueNanos,
};

use super::fields::{put_option_with, take_code, take_label, take_option_with, take_phase, take_reason};
use crate::records::bytes::{DecodeError, Reader, Writer};

pub(super) fn put_body(w: &mut Writer<'_>, command: &Command) {
    match command {
        Command::ChangeSession { instrument, to, reason, due, ends } => {
            w.put_u32(instrument.0);
            w.put_u8(*to as u8);
            w.put_u8(*reason as u8);
            w.put_u64(due.0);
            put_option_with(w, *ends, |w, ends| w.put_u64(ends.0));
        }
        Command::ExtendSession { instrument, ends } => {
            w.put_u32(instrument.0);
            w.put_u64(ends.0);
        }
        Command::SetRemaining { instrument, remaining } => {
            w.put_u32(instrument.0);
            remaining.counts.iter().for_each(|count| w.put_u8(*count));
        }
        Command::BeginDay { day, closes } => {
            w.put_u32(day.0);
            w.put_u64(closes.0);
        }
        Command::FilterHidden { instrument } | Command::RunBatch { instrument } => w.put_u32(instrument.0),
        Command::SetTradingRules { instrument, rules } => {
            w.put_u32(instrument.0);
            put_rules(w, rules);
        }
        Command::SetClosingPrice { instrument, price } => {
            w.put_u32(instrument.0);
            w.put_i64(price.0);
        }
        _ => {}
    }
}

pub(super) fn take_body(r: &mut Reader<'_>, kind: u8) -> Result<Command, DecodeError> {
    if kind == 29 {
        return Ok(Command::BeginDay { day: VenueDay(r.take_u32()?), closes: VenueNanos(r.take_u64()?) });
    }
    if kind == 30 {
        return Ok(Command::PassTime);
    }
    let instrument = InstrumentId(r.take_u32()?);
    Ok(match kind {
        26 => Command::ChangeSession {
            instrument,
            to: take_phase(r)?,
            reason: take_reason(r)?,
            due: VenueNanos(r.take_u64()?),
            ends: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        },
        27 => Command::ExtendSession { instrument, ends: VenueNanos(r.take_u64()?) },
        28 => Command::SetRemaining { instrument, remaining: take_remaining(r)? },
        31 => Command::FilterHidden { instrument },
        32 => Command::RunBatch { instrument },
        33 => Command::SetTradingRules { instrument, rules: Box::new(take_rules(r)?) },
        34 => Command::SetClosingPrice { instrument, price: Ticks(r.take_i64()?) },
        _ => return Err(DecodeError::UnknownTag { what: "command kind", tag: u32::from(kind), at: 4 }),
    })
}

/// Reads the sessions that are still to come.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_remaining(r: &mut Reader<'_>) -> Result<RemainingSessions, DecodeError> {
    let mut remaining = RemainingSessions::default();
    for count in &mut remaining.counts {
        *count = r.take_u8()?;
    }
    Ok(remaining)
}

/// Bit of the allocation. It says that a smallest display other than the default follows. Journals
/// of earlier builds never set it.
const DISPLAY_SHARE_FOLLOWS: u8 = 0x80;

/// Smallest display, in percent, of rules that do not store one.
const DEFAULT_MIN_DISPLAY_PCT: u32 = 1;

pub fn put_rules(w: &mut Writer<'_>, rules: &TradingRules) {
    w.put_text(rules.segment.as_str());
    put_option_with(w, rules.minimum_reserve, |w, lots| w.put_u64(lots.0));
    w.put_i64(rules.improvement.0);
    put_option_with(w, rules.band_pct, |w, percent| w.put_u32(percent));
    for tolerance in &rules.tolerances {
        put_option_with(w, tolerance.static_bps, |w, bps| w.put_u32(bps));
        put_option_with(w, tolerance.dynamic_bps, |w, bps| w.put_u32(bps));
    }
    let has_display_share = rules.min_display_pct != DEFAULT_MIN_DISPLAY_PCT;
    w.put_u8(rules.allocation as u8 | if has_display_share { DISPLAY_SHARE_FOLLOWS } else { 0 });
    if has_display_share {
        w.put_u32(rules.min_display_pct);
    }
    w.put_u64(rules.volatility_call_ns);
    w.put_u64(rules.batch_interval_ns);
}

/// Reads trading rules.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_rules(r: &mut Reader<'_>) -> Result<TradingRules, DecodeError> {
    let mut rules = TradingRules {
        segment: take_label(r)?,
        minimum_reserve: take_option_with(r, |r| r.take_u64().map(Lots))?,
        improvement: Ticks(r.take_i64()?),
        band_pct: take_option_with(r, Reader::take_u32)?,
        min_display_pct: DEFAULT_MIN_DISPLAY_PCT,
        ..TradingRules::default()
    };
    for tolerance in &mut rules.tolerances {
        *tolerance = Tolerance {
            static_bps: take_option_with(r, Reader::take_u32)?,
            dynamic_bps: take_option_with(r, Reader::take_u32)?,
        };
    }
    let (allocation, has_display_share) = take_code(r, "allocation", |code| {
        let (bits, has_display_share) = (code & !DISPLAY_SHARE_FOLLOWS, code & DISPLAY_SHARE_FOLLOWS != 0);
        let allocation = Allocation::ALL.into_iter().find(|allocation| *allocation as u8 == bits)?;
        Some((allocation, has_display_share))
    })?;
    rules.allocation = allocation;
    if has_display_share {
        rules.min_display_pct = r.take_u32()?;
    }
    rules.volatility_call_ns = r.take_u64()?;
    rules.batch_interval_ns = r.take_u64()?;
    Ok(rules)
}
