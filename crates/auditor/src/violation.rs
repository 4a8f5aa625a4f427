//! The promises of the venue, and the findings that name a broken promise.

use std::fmt;

use pitwire_model::{Command, Event, Seq};

/// The first broken promise of a run, the command that broke it, and the facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    pub seq: Seq,
    pub promise: Promise,
    pub sentence: String,
}

impl Offence {
    pub fn at(seq: Seq, finding: BrokenPromise) -> Offence {
        Offence { seq, promise: finding.promise, sentence: finding.sentence }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at command {}: {} ({})", self.seq, self.sentence, self.promise)
    }
}

impl std::error::Error for Offence {}

/// The promises of the venue. `docs/auditor.md` lists the checks of each promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// No fill is worse than the limit, the protection price, or the price of a hidden order.
    M1,
    /// Orders trade by price, visible before hidden, then by time.
    M2,
    /// Continuous trading leaves no crossed visible book and nothing executable.
    M3,
    /// Lots, orders and money are conserved.
    M4,
    /// Order types, times in force and sessions follow the tables. Immediate orders, minimum sizes,
    /// stops and expiries follow the rules.
    M5,
    /// A call has one price with the largest volume and the correct tie-breaks, allocated by the
    /// rules.
    M6,
    /// Every command ends within its bound.
    M7,
    /// Sessions change as commanded. Nothing trades in the wrong session or outside a tolerance.
    M8,
    /// The log has no gaps, and equal commands give equal events.
    M9,
    /// No number is outside its range.
    M10,
    /// No two orders of a self-match group trade with each other.
    M11,
    /// Each request has exactly one answer, the correct one.
    S1,
    /// Public numbers have no gaps.
    F1,
    /// The published book is the real visible book.
    F2,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A broken promise and the facts, without the command. [`Offence::at`] adds the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPromise {
    pub promise: Promise,
    pub sentence: String,
}

pub type CheckResult<T = ()> = Result<T, BrokenPromise>;

macro_rules! fail {
    ($promise:ident, $($text:tt)*) => {
        return Err($crate::violation::BrokenPromise { promise: $crate::violation::Promise::$promise, sentence: format!($($text)*) })
    };
}

/// Describes a command that its events do not answer.
pub fn wrong_answer(command: &Command, events: &[Event]) -> BrokenPromise {
    let sentence = match events {
        [] => format!("no event answers {command:?}"),
        [event, ..] => format!("{event:?} (of {} events) does not answer {command:?}", events.len()),
    };
    BrokenPromise { promise: Promise::S1, sentence }
}
pub(crate) use fail;
