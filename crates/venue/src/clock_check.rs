//! Compares the machine's clock with the log before a start.
//!
//! Holds       a wrong clock must not end sessions and expire orders, so a start on an implausible
//!             clock needs the operator's consent.

use jiff::Timestamp;
use pitwire_failure::Failure;
use pitwire_model::VenueNanos;

/// Most time between the last command and a start, in nanoseconds: one day.
const MOST_AHEAD_NS: u64 = 86_400_000_000_000;
/// Most time by which the clock may be behind the last command, in nanoseconds: one hour. A step of
/// the clock by an hour between two runs must not stop the second one.
const MOST_BEHIND_NS: u64 = 3_600_000_000_000;

/// How venue time relates to the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockRelation {
    /// Venue time is the machine's time.
    Follows,
    /// Venue time is scaled from the machine's time and may be ahead of it.
    Faster,
    /// Venue time is scaled from the machine's time and may be behind it.
    Slower,
}

/// Checks the machine's time `wall` against `last`, the time of the last command in the log.
///
/// # Errors
///
/// Returns a failure if the clock is more than a day ahead, or more than an hour behind.
pub fn check_clock(relation: ClockRelation, wall: VenueNanos, last: VenueNanos) -> Result<(), Failure> {
    use ClockRelation::{Faster, Follows, Slower};
    let (ahead_ns, behind_ns) = (wall.0.saturating_sub(last.0), last.0.saturating_sub(wall.0));
    let text = if matches!(relation, Follows | Faster) && ahead_ns > MOST_AHEAD_NS {
        format!("{} after", duration_text(ahead_ns))
    } else if matches!(relation, Follows | Slower) && behind_ns > MOST_BEHIND_NS {
        format!("{} before", duration_text(behind_ns))
    } else {
        return Ok(());
    };
    let (wall, last) = (utc_text(wall), utc_text(last));
    Err(Failure::new(format!("the machine's clock shows {wall}, {text} the last command of this directory ({last})"))
        .remedy(
            "correct the clock; or, if it is right, start with --accept-clock: venue time continues at the later of \
             the two, sessions in between count as missed, and orders that end in between expire",
        ))
}

fn utc_text(at: VenueNanos) -> String {
    let timestamp = Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or(Timestamp::MAX);
    timestamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats a duration in its two largest units, for example `3 days 4 hours`.
fn duration_text(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let units = [
        (seconds / 86_400, "day"),
        (seconds / 3_600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let shown = units.iter().skip_while(|(count, _)| *count == 0).take(2).filter(|(count, _)| *count > 0);
    shown
        .map(|(count, unit)| format!("{count} {unit}{}", if *count == 1 { "" } else { "s" }))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// 2026-11-23 12:00:00 UTC.
    const LAST: u64 = 1_795_435_200 * S;

    fn refusal(relation: ClockRelation, wall: u64) -> Option<String> {
        check_clock(relation, VenueNanos(wall), VenueNanos(LAST)).err().map(|failure| failure.to_string())
    }

    #[test]
    fn clock_may_be_a_day_ahead_and_an_hour_behind() {
        let is_refused = |relation, wall| refusal(relation, wall).is_some();
        for (wall, follows, faster, slower) in [
            (LAST + 86_400 * S, false, false, false),
            (LAST + 86_401 * S, true, true, false),
            (LAST - 3_600 * S, false, false, false),
            (LAST - 3_601 * S, true, false, true),
            (0, true, false, true),
            (u64::MAX, true, true, false),
        ] {
            assert_eq!(is_refused(ClockRelation::Follows, wall), follows, "{wall}");
            assert_eq!(is_refused(ClockRelation::Faster, wall), faster, "{wall}");
            assert_eq!(is_refused(ClockRelation::Slower, wall), slower, "{wall}");
        }
    }

    #[test]
    fn refusal_names_both_times_and_the_difference() {
        let text = refusal(ClockRelation::Follows, LAST + (2 * 86_400 + 3 * 3_600) * S).unwrap();
        let expected = "the machine's clock shows 2026-11-25 15:00:00 UTC, 2 days 3 hours after the last command of \
                        this directory (2026-11-23 12:00:00 UTC)";
        assert!(text.starts_with(expected), "{text}");
    }
}
