//! What was wrong: the promise that was broken, and a sentence with its numbers.

use std::fmt;

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
pub struct Fault {
    pub promise: Promise,
    pub sentence: String,
}

pub type Judged<T = ()> = Result<T, Fault>;

macro_rules! offence {
    ($promise:ident, $($text:tt)*) => {
        return Err($crate::fault::Fault { promise: $crate::fault::Promise::$promise, sentence: format!($($text)*) })
    };
}
pub(crate) use offence;
