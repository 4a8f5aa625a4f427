//! Conversion between dates as text and venue days.
//!
//! Holds       the proleptic Gregorian calendar, without a clock and without time zones.

use crate::VenueDay;

const DAYS_OF_400_YEARS: i64 = 146_097;
/// Days from 1 March of year 0 to 1970-01-01. Years count from March, so that a leap day is the
/// last day of a year.
const MARCH_OF_YEAR_0: i64 = 719_468;
const LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn length(year: i64, month: usize) -> i64 {
    LENGTHS[month] + i64::from(month == 1 && is_leap(year))
}

/// Parses a date such as `2026-11-22`, from 1970 on. Returns `None` for any other text.
pub fn parse_date(text: &str) -> Option<VenueDay> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || !text.is_ascii() || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &text[from..to];
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let at = usize::try_from(month).ok()?.checked_sub(1).filter(|at| *at < 12)?;
    if year < 1970 || !(1..=length(year, at)).contains(&day) {
        return None;
    }
    let before: i64 = (0..at).map(|month| length(year, month)).sum();
    let years = year - 1970;
    let leaps = (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 - 477;
    u32::try_from(years * 365 + leaps + before + day - 1).ok().map(VenueDay)
}

pub fn format_date(day: VenueDay) -> String {
    let days = i64::from(day.0) + MARCH_OF_YEAR_0;
    let (era, of_era) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    // Corrects for leap days: one every 4 years, none every 100 years, one every 400 years.
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_convert_both_ways() {
        // Seconds since 1970 by `date -u -d DATE +%s`, divided by 86,400.
        for (text, days) in [
            ("1970-01-01", 0),
            ("1972-02-29", 789),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-01-05", 20_458),
            ("2026-11-22", 20_779),
            ("2100-02-28", 47_540),
            ("2100-03-01", 47_541),
        ] {
            assert_eq!(parse_date(text), Some(VenueDay(days)), "{text}");
            assert_eq!(format_date(VenueDay(days)), text);
        }
    }

    /// Commands may contain any day. The expected date is Python's datetime, 29,398 periods of 400
    /// years later.
    #[test]
    fn last_representable_day_has_a_date() {
        assert_eq!(format_date(VenueDay(u32::MAX)), "11761191-01-20");
        assert_eq!(parse_date("9999-12-31").map(format_date).as_deref(), Some("9999-12-31"));
    }

    #[test]
    fn every_day_of_two_centuries_comes_back() {
        for days in 0..75_000 {
            let text = format_date(VenueDay(days));
            assert_eq!(parse_date(&text), Some(VenueDay(days)), "{text}");
        }
    }

    #[test]
    fn invalid_date_is_refused() {
        for text in [
            "",
            "today",
            "2026-1-5",
            "2026-13-01",
            "2026-00-10",
            "2026-02-29",
            "2100-02-29",
            "2026-04-31",
            "2026-01-00",
            "1969-12-31",
            "2026/01/05",
            "+026-01-05",
            "2026-01-05T",
            "20260105",
            "é26-01-05",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}
