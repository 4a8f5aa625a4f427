//! Errors of a flow that cannot start, with remedies.

use std::fmt;

use pitwire_model::{AccountId, InstrumentId};

/// Why a flow cannot start.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FlowError {
    /// Each event causes at least one more on average, so the rate would grow without bound.
    Unstable { radius: f64 },
    /// A parameter is out of range or not a number.
    BadParameter { name: String, value: String, expected: String },
    /// There are fewer house accounts than the flow needs.
    TooFewAccounts { found: usize, needed: usize },
    /// A house account does not exist.
    UnknownAccount { account: AccountId },
    /// A house account has limited credit and could run out of funds.
    LimitedCredit { account: AccountId },
    /// An instrument of the flow does not exist.
    UnknownInstrument { instrument: InstrumentId },
    /// An instrument has two flows.
    Repeated { instrument: InstrumentId },
}

impl FlowError {
    pub(crate) fn bad(name: impl Into<String>, value: impl ToString, expected: impl Into<String>) -> FlowError {
        FlowError::BadParameter { name: name.into(), value: value.to_string(), expected: expected.into() }
    }

    /// Returns the action that resolves the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unstable { .. } => "lower the jumps (alpha) or raise the decays (beta) until the radius is below 1",
            Self::BadParameter { .. } => "correct the value; docs/flow.md describes every parameter",
            Self::TooFewAccounts { .. } => "create more house accounts before the flow starts",
            Self::UnknownAccount { .. } => "create the account before the flow starts",
            Self::LimitedCredit { .. } => "create the house accounts with unlimited credit",
            Self::UnknownInstrument { .. } => "create the instrument before the flow starts",
            Self::Repeated { .. } => "name each instrument once",
        }
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstable { radius } => write!(f, "order flow is unstable: spectral radius {radius:.3}"),
            Self::BadParameter { name, value, expected } => {
                write!(f, "order flow parameter `{name}` is {value}, expected {expected}")
            }
            Self::TooFewAccounts { found, needed } => {
                write!(f, "order flow needs {needed} house accounts and has {found}")
            }
            Self::UnknownAccount { account } => write!(f, "house account {account} does not exist"),
            Self::LimitedCredit { account } => write!(f, "house account {account} has limited credit"),
            Self::UnknownInstrument { instrument } => write!(f, "instrument {instrument} does not exist"),
            Self::Repeated { instrument } => write!(f, "instrument {instrument} has two flows"),
        }
    }
}

impl std::error::Error for FlowError {}
