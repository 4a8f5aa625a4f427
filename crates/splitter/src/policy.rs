//! Policies for objects that a slow worker does not take.
//!
//! Does        parses and prints the policy.
//! Leaves out  applying it: see `local` and `ws_transport`.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowWorkerPolicy {
    /// Keeps up to this many bytes per worker in memory, then drops.
    Spill { bytes: u64 },
    /// Waits for the worker, and so delays all others.
    Block,
    /// Replaces the objects of a symbol with one summary record.
    Conflate,
    /// Drops.
    Drop,
    /// Drops, and restarts a program that reads nothing at all.
    Restart,
}

impl Default for SlowWorkerPolicy {
    fn default() -> Self {
        Self::Spill { bytes: 64 << 20 }
    }
}

/// The text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPolicy {
    pub text: String,
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "no policy for slow workers: {:?}; use spill:BYTES (as spill:64MiB), block, conflate, drop or restart",
            self.text
        )
    }
}

impl std::error::Error for InvalidPolicy {}

/// Largest queue per worker, in bytes. A thousand of them fit an address space.
const SPILL_MAX: u64 = 1 << 36;

impl FromStr for SlowWorkerPolicy {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidPolicy> {
        let spill =
            |text: &str| Some(Self::Spill { bytes: bytes(text).filter(|bytes| (1..=SPILL_MAX).contains(bytes))? });
        match text.split_once(':') {
            Some(("spill", amount)) => spill(amount),
            Some(_) => None,
            None => match text {
                "spill" => Some(Self::default()),
                "block" => Some(Self::Block),
                "conflate" => Some(Self::Conflate),
                "drop" => Some(Self::Drop),
                "restart" => Some(Self::Restart),
                _ => None,
            },
        }
        .ok_or_else(|| InvalidPolicy { text: text.to_owned() })
    }
}

impl fmt::Display for SlowWorkerPolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spill { bytes } => write!(out, "spill:{bytes}"),
            Self::Block => out.write_str("block"),
            Self::Conflate => out.write_str("conflate"),
            Self::Drop => out.write_str("drop"),
            Self::Restart => out.write_str("restart"),
        }
    }
}

/// Parses `4096`, `64KiB`, `64MiB` or `2GiB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_parsed_and_printed() {
        for (text, policy) in [
            ("spill:64MiB", SlowWorkerPolicy::Spill { bytes: 67_108_864 }),
            ("spill:1", SlowWorkerPolicy::Spill { bytes: 1 }),
            ("spill:4KiB", SlowWorkerPolicy::Spill { bytes: 4096 }),
            ("spill:2GiB", SlowWorkerPolicy::Spill { bytes: 2_147_483_648 }),
            ("spill", SlowWorkerPolicy::Spill { bytes: 67_108_864 }),
            ("block", SlowWorkerPolicy::Block),
            ("conflate", SlowWorkerPolicy::Conflate),
            ("drop", SlowWorkerPolicy::Drop),
            ("restart", SlowWorkerPolicy::Restart),
        ] {
            assert_eq!(text.parse(), Ok(policy), "{text}");
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn invalid_policies_are_refused_with_their_text() {
        for text in [
            "",
            "spill:",
            "spill:0",
            "spill:-1",
            "spill:64MB",
            "spill:99999999999GiB",
            "spill:1GiBx",
            "Drop",
            "block:1",
        ] {
            assert_eq!(text.parse::<SlowWorkerPolicy>(), Err(InvalidPolicy { text: text.into() }));
        }
        assert!("dorp".parse::<SlowWorkerPolicy>().unwrap_err().to_string().contains("\"dorp\"; use spill:BYTES"));
    }
}
