//! The promises of the venue, and the findings that name a broken promise.

use std::fmt;

use pitwire_model::{Command, Event, Seq};

/// The first thing that was wrong, at which command, and the promise it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    pub seq: Seq,
    pub promise: Promise,
    pub sentence: String,
}

impl Offence {
    pub fn at(seq: Seq, fault: BrokenPromise) -> Offence {
        Offence { seq, promise: fault.promise, sentence: fault.sentence }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at command {}: {} ({})", self.seq, self.sentence, self.promise)
    }
}

impl std::error::Error for Offence {}

/// The venue's promises, by the ids of the reliability reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// No fill worse than the limit, the protection price, or what a hidden order gives.
    M1,
    /// Price, visible before hidden, then time.
    M2,
    /// No crossed visible book in continuous trading, and nothing executable left.
    M3,
    /// Conservation of lots, orders and money.
    M4,
    /// Types, times in force and sessions; immediate orders, minimum sizes, stops, expiries.
    M5,
    /// One price for a call, with the most volume and the right tie-breaks, shared as the rules say.
    M6,
    /// Every command ends within its bound.
    M7,
    /// Sessions follow each other as they were ordered; nothing executes in the wrong one, nor beyond a tolerance.
    M8,
    /// A log without holes, in which equal commands say equal things.
    M9,
    /// No number outside its range.
    M10,
    /// No trade inside a self-match group.
    M11,
    /// Exactly one answer to each request, and the due one.
    S1,
    /// Public numbers without gaps.
    F1,
    /// What is told of the public book is the public book.
    F2,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Inside the crate an offence is this; who observes adds where.
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

/// The finding for a command whose events do not answer it.
pub fn wrong_answer(command: &Command, events: &[Event]) -> BrokenPromise {
    let sentence = match events {
        [] => format!("nothing was said to {command:?}"),
        [event, ..] => format!("{event:?} (of {} events) is no answer to {command:?}", events.len()),
    };
    BrokenPromise { promise: Promise::S1, sentence }
}
pub(crate) use fail;
