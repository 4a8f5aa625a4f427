//! The letters of MITCH for sides, sessions, auctions and prices, and its texts for times.

use pitwire_model::{Derivation, Phase, SessionReason, Side, VenueDay, VenueNanos, format_date};

use crate::fields::{Alpha, Letter};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_SECONDS: u64 = 86_400;

pub(crate) fn side_letter(side: Side) -> Letter {
    Letter(if side == Side::Buy { b'B' } else { b'S' })
}

pub(crate) fn trading_status(phase: Phase) -> Letter {
    Letter(match phase {
        Phase::Closed => b'c',
        Phase::Continuous => b'T',
        Phase::Halted | Phase::HaltAndClose => b'H',
        Phase::Deleted => b'w',
        Phase::StartOfTrading => b'y',
        Phase::OpeningCall => b'a',
        Phase::FcoCall => b'p',
        Phase::VolatilityCall => b'e',
        Phase::IntradayCall => b'u',
        Phase::ClosingCall => b'd',
        Phase::ReopeningCall => b'f',
        Phase::ClosingPricePublication => b'z',
        Phase::ClosingPriceCross => b's',
        Phase::PostClose => b'b',
        Phase::Pause => b'l',
    })
}

/// Returns the letter of a call; `None` for other sessions.
pub(crate) fn auction_type(call: Phase) -> Option<Letter> {
    Some(Letter(match call {
        Phase::OpeningCall => b'O',
        Phase::ClosingCall => b'C',
        Phase::VolatilityCall => b'A',
        Phase::ReopeningCall => b'E',
        Phase::IntradayCall => b'K',
        Phase::FcoCall => b'L',
        _ => return None,
    }))
}

/// An operator's change counts as "shortened by market operations".
pub(crate) fn session_change_reason(reason: SessionReason) -> u8 {
    match reason {
        SessionReason::Scheduled | SessionReason::Missed => 0,
        SessionReason::Extended => 1,
        SessionReason::Operator => 2,
        SessionReason::Breaker => 5,
    }
}

pub(crate) fn derivation(derivation: Derivation) -> Letter {
    Letter(match derivation {
        Derivation::ClosingAuction => b'A',
        Derivation::LastTrade => b'D',
        Derivation::Manual => b'F',
        Derivation::Vwap => b'H',
        Derivation::PreviousClose => b'I',
    })
}

/// Returns the seconds since midnight UTC, and the nanoseconds within the second.
pub(crate) fn second_of_day(at: VenueNanos) -> (u32, u32) {
    let seconds = at.0 / SECOND_NS % DAY_SECONDS;
    (u32::try_from(seconds).unwrap_or(0), u32::try_from(at.0 % SECOND_NS).unwrap_or(0))
}

fn clock_text(at: VenueNanos) -> String {
    let (second, _) = second_of_day(at);
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// `HH:MM:SS.sss` UTC.
pub(crate) fn end_time(at: VenueNanos) -> Alpha<12> {
    Alpha::new(&format!("{}.{:03}", clock_text(at), at.as_millis() % 1_000))
}

/// `HH:MM:SS` UTC.
pub(crate) fn time_text(at: VenueNanos) -> Alpha<8> {
    Alpha::new(&clock_text(at))
}

/// `YYYYMMDD` UTC.
pub(crate) fn date_text(at: VenueNanos) -> Alpha<8> {
    let day = VenueDay(u32::try_from(at.0 / SECOND_NS / DAY_SECONDS).unwrap_or(0));
    Alpha::new(&format_date(day).replace('-', ""))
}
