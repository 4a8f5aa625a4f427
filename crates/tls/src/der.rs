//! As much of a certificate as tells from when and until when it holds (RFC 5280, 4.1).

/// Seconds since 1970 at which a certificate begins and ceases to hold; `None` for what is no certificate.
pub fn validity(certificate: &[u8]) -> Option<(u64, u64)> {
    let (mut whole, _) = take(certificate, SEQUENCE)?;
    let mut signed = next(&mut whole, SEQUENCE)?;
    // The version is left out of the oldest kind.
    if signed.first() == Some(&VERSION) {
        next(&mut signed, VERSION)?;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        next(&mut signed, tag)?;
    }
    let mut validity = next(&mut signed, SEQUENCE)?;
    Some((time(&mut validity)?, time(&mut validity)?))
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The content of the value at the front, which has this tag, and what follows it.
fn take(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = input.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = if *length < 0x80 {
        (usize::from(*length), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(*length & 0x7f))?;
        let length =
            bytes.iter().try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))?;
        (length, rest)
    };
    rest.split_at_checked(length).filter(|_| *found == tag)
}

fn next<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (content, rest) = take(input, tag)?;
    *input = rest;
    Some(content)
}

/// `YYMMDDHHMMSSZ`, of 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time(input: &mut &[u8]) -> Option<u64> {
    let short = input.first() == Some(&UTC_TIME);
    let text = std::str::from_utf8(next(input, if short { UTC_TIME } else { GENERALIZED_TIME })?).ok()?;
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, rest) = digits.split_at_checked(if short { 2 } else { 4 })?;
    let year: u64 = year.parse().ok()?;
    let year = match short {
        true if year < 50 => 2000 + year,
        true => 1900 + year,
        false => year,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let seconds = part(4)? * 3_600 + part(6)? * 60 + part(8)?;
    days_before(year, part(0)?, part(2)?).map(|days| days * 86_400 + seconds)
}

/// From 1970 to a date; what lies before 1970 counts as 1970.
fn days_before(year: u64, month: u64, day: u64) -> Option<u64> {
    let month = usize::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let before: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let years = year.saturating_sub(1970) * 365 + leaps(year.max(1970) - 1) - leaps(1969);
    let leap_day = u64::from(is_leap && month > 2);
    Some(if year < 1970 { 0 } else { years + before.get(month - 1)? + leap_day + day.saturating_sub(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dates are those of `date -u -d @…`.
    #[test]
    fn times_of_both_kinds_are_read() {
        for (tag, text, expected) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "490101000000Z", Some(2_493_072_000)),
            (UTC_TIME, "500101000000Z", Some(0)),
            (GENERALIZED_TIME, "20000229235959Z", Some(951_868_799)),
            (GENERALIZED_TIME, "20261122150000Z", Some(1_795_359_600)),
            (GENERALIZED_TIME, "40960101000000Z", Some(67_090_118_400)),
            (GENERALIZED_TIME, "20261322150000Z", None),
            (GENERALIZED_TIME, "2026112215000Z", None),
            (UTC_TIME, "7001010000-1Z", None),
            (UTC_TIME, "700101000000", None),
        ] {
            let mut der = vec![tag, u8::try_from(text.len()).unwrap()];
            der.extend_from_slice(text.as_bytes());
            assert_eq!(time(&mut &der[..]), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_validity() {
        for noise in [&[][..], &[0x30], &[0x30, 0x80], &[0x30, 0x84, 255, 255, 255, 255], &[0x30, 2, 0x30, 0], &[0; 40]]
        {
            assert_eq!(validity(noise), None, "{noise:?}");
        }
    }
}
