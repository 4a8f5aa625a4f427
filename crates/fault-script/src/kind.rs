//! The faults, and the programs that inject them.
//!
//! Start at    [`FaultKind`] and [`Injector::kinds`].

use serde::{Deserialize, Serialize};

/// What happens to a message or to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The message leaves later. At a relay, later messages wait for it.
    Delay,
    /// Nothing leaves for a time, from this message on.
    Stall,
    Drop,
    /// The message leaves twice.
    Duplicate,
    /// Later messages overtake it.
    Reorder,
    /// Half of its bytes leave, and then the connection is reset.
    Cut,
    /// The connection is reset instead of sending the message.
    Reset,
    /// The connection is closed with a close frame: by a relay instead of sending the message, by a
    /// feed after sending it.
    Close,
    /// The message and all later ones of its direction are dropped. The connection stays open.
    Silence,
    /// The connection is reset as soon as it is accepted.
    Refuse,
    /// Text that is not JSON leaves instead of the message.
    Rubbish,
    /// A text frame that is not UTF-8 leaves instead of the message.
    BadFrame,
    /// The message leaves without its envelope.
    OmitTime,
}

impl FaultKind {
    pub const COUNT: usize = FaultKind::OmitTime as usize + 1;

    /// Returns the name in scripts, summaries and the truth log.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Delay => "delay",
            FaultKind::Stall => "stall",
            FaultKind::Drop => "drop",
            FaultKind::Duplicate => "duplicate",
            FaultKind::Reorder => "reorder",
            FaultKind::Cut => "cut",
            FaultKind::Reset => "reset",
            FaultKind::Close => "close",
            FaultKind::Silence => "silence",
            FaultKind::Refuse => "refuse",
            FaultKind::Rubbish => "rubbish",
            FaultKind::BadFrame => "bad-frame",
            FaultKind::OmitTime => "omit-time",
        }
    }
}

/// The program that injects the faults of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Injector {
    /// The live feed of `pitwire tape`, whose messages have one direction.
    #[default]
    Feed,
    /// `pitwire relay`.
    Relay,
}

impl Injector {
    /// Returns the faults that it injects. Its parser refuses the others.
    pub fn kinds(self) -> &'static [FaultKind] {
        match self {
            Injector::Feed => &[
                FaultKind::Delay,
                FaultKind::Stall,
                FaultKind::Drop,
                FaultKind::Duplicate,
                FaultKind::Close,
                FaultKind::Reset,
                FaultKind::Rubbish,
                FaultKind::BadFrame,
                FaultKind::OmitTime,
                FaultKind::Silence,
            ],
            // Random scripts depend on this order.
            Injector::Relay => &[
                FaultKind::Delay,
                FaultKind::Drop,
                FaultKind::Duplicate,
                FaultKind::Reorder,
                FaultKind::Cut,
                FaultKind::Reset,
                FaultKind::Close,
                FaultKind::Silence,
                FaultKind::Refuse,
            ],
        }
    }
}
