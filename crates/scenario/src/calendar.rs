//! Converts the dates and times of day in scenarios to days and seconds. The venue's time zone is
//! UTC here.

use pitwire_model::{VenueDay, format_date, parse_date};

pub(crate) const SECONDS_A_DAY: u64 = 86_400;

/// Parses `YYYY-MM-DD` into days since 1970. Returns `None` for any other text and for years
/// outside 1970 to 9999.
pub fn day_of(text: &str) -> Option<u32> {
    parse_date(text).map(|day| day.0)
}

/// Parses `HH:MM:SS` into seconds since midnight.
pub(crate) fn seconds_of(text: &str) -> Option<u32> {
    let (hours, minutes, seconds) = three_numbers(text, ':', [2, 2, 2])?;
    (hours < 24 && minutes < 60 && seconds < 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

fn three_numbers(text: &str, between: char, digits: [usize; 3]) -> Option<(u32, u32, u32)> {
    let mut parts = text.split(between);
    let mut number = |width: usize| {
        let part = parts.next()?;
        (part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let found = (number(digits[0])?, number(digits[1])?, number(digits[2])?);
    parts.next().is_none().then_some(found)
}

/// Formats a number of days since 1970 as `YYYY-MM-DD`.
pub fn date_text(days: u32) -> String {
    format_date(VenueDay(days))
}

/// Formats nanoseconds since 1970 as `HH:MM:SS`, with nine decimals if there is a fraction of a
/// second.
pub fn time_text(nanos: u64) -> String {
    let (seconds, fraction) = (nanos / 1_000_000_000 % SECONDS_A_DAY, nanos % 1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:09}") };
    format!("{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_since_1970_and_back() {
        // Counted by hand from 2000-01-01 = 10957 and checked against a calendar.
        for (text, days) in [
            ("1970-01-01", 0),
            ("1972-02-29", 789),
            ("2000-01-01", 10_957),
            ("2000-03-01", 11_017),
            ("2026-01-05", 20_458),
            ("2100-03-01", 47_541),
        ] {
            assert_eq!(day_of(text), Some(days), "{text}");
            assert_eq!(date_text(days), text);
        }
        for text in
            ["2026-02-29", "2100-02-29", "2026-13-01", "2026-00-10", "2026-1-5", "1969-12-31", "", "2026-01-05-1"]
        {
            assert_eq!(day_of(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_seconds_since_midnight() {
        for (text, seconds) in [("00:00:00", 0), ("09:00:00", 32_400), ("23:59:59", 86_399)] {
            assert_eq!(seconds_of(text), Some(seconds));
            assert_eq!(time_text(u64::from(seconds) * 1_000_000_000), text);
        }
        for text in ["24:00:00", "9:00:00", "09:60:00", "09:00", "09:00:0a", "09:00:00:00", "+9:00:00"] {
            assert_eq!(seconds_of(text), None, "{text}");
        }
        assert_eq!(time_text(1_500_000_000), "00:00:01.500000000");
    }
}
