//! The range of commands to export, found from two times.

use std::str::FromStr;

use jiff::Timestamp;
use pitwire_failure::Failure;
use pitwire_journal::{Recovery, Storage};
use pitwire_model::{Seq, VenueNanos};

/// A time in the two forms that users write: RFC 3339, or nanoseconds of venue time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunTime(pub VenueNanos);

impl FromStr for RunTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither a time such as 2026-01-05T09:00:00Z nor nanoseconds since 1970");
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(|nanos| RunTime(VenueNanos(nanos))).map_err(|_| wrong());
        }
        let at: Timestamp = text.parse().map_err(|_| wrong())?;
        u64::try_from(at.as_nanosecond()).map(|nanos| RunTime(VenueNanos(nanos))).map_err(|_| wrong())
    }
}

/// The commands `first..=last`, or none if `commands` is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRange {
    pub first: Seq,
    pub last: Seq,
    pub commands: u64,
}

impl CommandRange {
    /// Finds the commands at or after `from` and before `to`. Venue time never decreases, so they
    /// are contiguous.
    ///
    /// # Errors
    ///
    /// Returns a failure if the journal cannot be read.
    pub fn find(
        recovery: &Recovery,
        storage: &dyn Storage,
        from: Option<RunTime>,
        to: Option<RunTime>,
    ) -> Result<Self, Failure> {
        let (mut before, mut last) = (recovery.base(), recovery.last);
        if from.is_some() || to.is_some() {
            last = before;
            for group in recovery.tail(storage)? {
                for stamped in &group?.commands {
                    let is_early = from.is_some_and(|from| stamped.at < from.0);
                    let is_late = to.is_some_and(|to| stamped.at >= to.0);
                    if is_early {
                        before = stamped.seq;
                    } else if !is_late {
                        last = stamped.seq;
                    }
                }
            }
            last = last.max(before);
        }
        let first = before.next();
        Ok(CommandRange { first, last, commands: last.0.saturating_add(1).saturating_sub(first.0) })
    }

    /// Returns whether the range contains a command.
    pub fn contains(&self, seq: Seq) -> bool {
        self.first <= seq && seq <= self.last
    }

    /// Returns whether the range begins with the state after this command.
    pub fn begins_after(&self, seq: Seq) -> bool {
        seq.next() == self.first
    }
}

/// Formats a time as CoinTossX does: UTC, to the millisecond.
pub fn date_time(at: VenueNanos) -> String {
    let Ok(at) = Timestamp::from_nanosecond(i128::from(at.0)) else { return String::new() };
    let at = jiff::tz::Offset::UTC.to_datetime(at);
    let (date, time, millis) = (at.date(), at.time(), at.time().subsec_nanosecond() / 1_000_000);
    let (year, month, day) = (date.year(), date.month(), date.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_time_forms_are_accepted_and_one_is_written() {
        // The first order of the paper, in UTC, in another zone, and in nanoseconds.
        let paper = 1_606_030_988_231_000_000;
        for text in ["2020-11-22T07:43:08.231Z", "2020-11-22T09:43:08.231+02:00", "1606030988231000000"] {
            assert_eq!(text.parse(), Ok(RunTime(VenueNanos(paper))), "{text}");
        }
        assert_eq!(date_time(VenueNanos(paper + 999_999)), "2020-11-22 07:43:08.231");
        assert_eq!(date_time(VenueNanos(0)), "1970-01-01 00:00:00.000");
        for text in ["", "yesterday", "2020-11-22", "-5", "1960-01-01T00:00:00Z", "99999999999999999999"] {
            assert!(text.parse::<RunTime>().is_err(), "{text}");
        }
    }
}
