//! What becomes of what a slow worker does not take.
//!
//! Does        read and write the policy's name.
//! Leaves out  doing it: see `channels`.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowWorkerPolicy {
    /// RetainedFrame in memory up to so many bytes a worker, then dropped.
    Spill { bytes: u64 },
    /// Waited for, by everybody.
    Block,
    /// One record a symbol stands for all of them.
    Conflate,
    /// Dropped.
    Drop,
    /// Dropped; a program that takes nothing at all is ended and started again.
    Restart,
}

impl Default for SlowWorkerPolicy {
    fn default() -> Self {
        Self::Spill { bytes: 64 << 20 }
    }
}

/// Not a policy.
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

/// Most that a worker's queue may hold: what fits an address space with a thousand workers.
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

/// `4096`, `64KiB`, `64MiB`, `2GiB`.
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
    fn names_and_amounts() {
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
    fn everything_else_is_named_and_refused() {
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
