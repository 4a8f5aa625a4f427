//! Dates and times of day as scenarios write them, as days and seconds. The venue's time zone is UTC here.

pub(crate) const SECONDS_A_DAY: u64 = 86_400;
const DAYS_BY_MONTH: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in_month(year: u32, month: u32) -> u32 {
    if month == 2 && is_leap(year) { 29 } else { DAYS_BY_MONTH[(month - 1) as usize] }
}

/// Days from 1970-01-01 to the first day of `year`.
fn days_before(year: u32) -> u32 {
    let leaps = |years: u32| years / 4 - years / 100 + years / 400;
    365 * (year - 1970) + leaps(year - 1) - leaps(1969)
}

/// Days since 1970 of `YYYY-MM-DD`, from 1970 to 9999; anything else is none.
pub fn day_of(text: &str) -> Option<u32> {
    let (year, month, day) = three_numbers(text, '-', [4, 2, 2])?;
    let exists =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    exists.then(|| days_before(year) + (1..month).map(|month| days_in_month(year, month)).sum::<u32>() + day - 1)
}

/// Seconds since midnight of `HH:MM:SS`.
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

/// `YYYY-MM-DD` of a number of days since 1970.
pub fn date_text(days: u32) -> String {
    // A year has at least 365 days, so this guess is never too early; it is too late by a few years at most.
    let mut year = 1970 + days / 365;
    while days_before(year) > days {
        year -= 1;
    }
    let (mut left, mut month) = (days - days_before(year), 1);
    while left >= days_in_month(year, month) {
        left -= days_in_month(year, month);
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

/// `HH:MM:SS` of nanoseconds since 1970, with the fraction of a second when there is one.
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
