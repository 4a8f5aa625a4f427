//! The rate and the message sizes of a served feed, as text.
//!
//! Start at    [`Rate`], [`parse_sizes`].

use std::str::FromStr;

use crate::framing::{MOST_TRADES, MessageSizes};
use crate::pace::{MIDDAY_BURST, OPEN_CLOSE, Pace, Profile};

const MOST_PER_S: u64 = 1_000_000_000;

/// The rate at which a feed is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    Max,
    Even(u64),
    OpenClose,
    MiddayBurst,
    /// Times of the recording, with the speed in thousandths.
    Recorded(u64),
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "give max, trades a second from 1 to {MOST_PER_S}, open-close, midday-burst, original, or x and a number from 0.001 to 1000"
            )
        };
        match text {
            "max" => Ok(Rate::Max),
            "open-close" => Ok(Rate::OpenClose),
            "midday-burst" => Ok(Rate::MiddayBurst),
            "original" => Ok(Rate::Recorded(1_000)),
            _ => match text.strip_prefix('x') {
                Some(times) => thousandths(times).filter(|speed| (1..=1_000_000).contains(speed)).map(Rate::Recorded),
                None => text.parse().ok().filter(|rate| (1..=MOST_PER_S).contains(rate)).map(Rate::Even),
            }
            .ok_or_else(wrong),
        }
    }
}

impl Rate {
    /// Returns the pace of a stream at this rate.
    pub fn pace(self) -> Pace {
        match self {
            Rate::Max => Pace::Max,
            Rate::Even(per_s) => Pace::Even { per_s },
            Rate::OpenClose => Pace::Profile(Profile::new(OPEN_CLOSE)),
            Rate::MiddayBurst => Pace::Profile(Profile::new(MIDDAY_BURST)),
            Rate::Recorded(speed_milli) => Pace::Recorded { speed_milli },
        }
    }
}

/// Parses a decimal with at most three decimals, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part)
}

/// Parses message sizes: a number of trades, a range A-B, or `cutoff:` and microseconds.
///
/// # Errors
///
/// Returns what to write instead.
pub fn parse_sizes(text: &str) -> Result<MessageSizes, String> {
    let count = |text: &str| text.parse::<u64>().ok().filter(|count| (1..=MOST_TRADES).contains(count));
    let sizes = if let Some(us) = text.strip_prefix("cutoff:") {
        let us = us.parse::<u64>().ok().filter(|us| (1..=10_000_000).contains(us));
        us.map(|us| MessageSizes::Cutoff { ns: us * 1_000 })
    } else if let Some((least, most)) = text.split_once('-') {
        match (count(least), count(most)) {
            (Some(least), Some(most)) if least <= most => Some(MessageSizes::Between { least, most }),
            _ => None,
        }
    } else {
        count(text).map(|count| MessageSizes::Between { least: count, most: count })
    };
    sizes.ok_or_else(|| {
        format!("give a number from 1 to {MOST_TRADES}, two of them as A-B, or cutoff: and microseconds up to 10000000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_accepts_the_documented_values() {
        for (text, rate) in [
            ("max", Some(Rate::Max)),
            ("1", Some(Rate::Even(1))),
            ("26000000", Some(Rate::Even(26_000_000))),
            ("open-close", Some(Rate::OpenClose)),
            ("midday-burst", Some(Rate::MiddayBurst)),
            ("original", Some(Rate::Recorded(1_000))),
            ("x2.5", Some(Rate::Recorded(2_500))),
            ("x0.001", Some(Rate::Recorded(1))),
            ("x1000", Some(Rate::Recorded(1_000_000))),
            ("0", None),
            ("-1", None),
            ("1000000001", None),
            ("x", None),
            ("x0", None),
            ("x0.0001", None),
            ("x-2", None),
            ("x1001", None),
            ("x.5", None),
            ("xNaN", None),
            ("Max", None),
            ("", None),
            ("1e6", None),
        ] {
            assert_eq!(text.parse().ok(), rate, "{text}");
        }
    }

    #[test]
    fn frame_trades_accepts_the_documented_values() {
        for (text, expected) in [
            ("128", Some(MessageSizes::Between { least: 128, most: 128 })),
            ("1-300", Some(MessageSizes::Between { least: 1, most: 300 })),
            ("cutoff:500", Some(MessageSizes::Cutoff { ns: 500_000 })),
            ("0", None),
            ("5-4", None),
            ("0-4", None),
            ("100001", None),
            ("cutoff:0", None),
            ("cutoff:", None),
            ("cutoff:-1", None),
            ("a-b", None),
            ("", None),
        ] {
            assert_eq!(parse_sizes(text).ok(), expected, "{text}");
        }
    }
}
