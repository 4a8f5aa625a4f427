//! Head, tail and the bell between one writer and one reader: who publishes, who sleeps, who is woken.
//!
//! Does        the orderings that make it right, once, over words that are atomics of std in a ring and loom's in the test.
//! Holds       the writer stores `head` and then looks at `sleeping`; the reader stores `sleeping` and then looks at
//!             `head`; a fence stands between on both sides, so at least one of them sees the other.
//! Leaves out  the system call: what `publish` answers and `arm` returns is for the caller's futex.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

use crate::layout::STATE_LIVE;

/// A word of 64 bits that both sides see.
pub(crate) trait Word64 {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    /// Of the same make as the words.
    fn fence(order: Ordering);
}

/// A word of 32 bits that both sides see.
pub(crate) trait Word32 {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
}

macro_rules! words {
    ($wide:ty, $narrow:ty, $fence:path) => {
        impl crate::bell::Word64 for $wide {
            fn load(&self, order: std::sync::atomic::Ordering) -> u64 {
                Self::load(self, order)
            }
            fn store(&self, value: u64, order: std::sync::atomic::Ordering) {
                Self::store(self, value, order);
            }
            fn fence(order: std::sync::atomic::Ordering) {
                $fence(order);
            }
        }
        impl crate::bell::Word32 for $narrow {
            fn load(&self, order: std::sync::atomic::Ordering) -> u32 {
                Self::load(self, order)
            }
            fn store(&self, value: u32, order: std::sync::atomic::Ordering) {
                Self::store(self, value, order);
            }
            fn fetch_add(&self, value: u32, order: std::sync::atomic::Ordering) -> u32 {
                Self::fetch_add(self, value, order)
            }
        }
    };
}

words!(std::sync::atomic::AtomicU64, std::sync::atomic::AtomicU32, std::sync::atomic::fence);

/// The words of a ring's header that change.
pub(crate) struct Words<'a, W64, W32> {
    pub head: &'a W64,
    pub bell: &'a W32,
    pub state: &'a W32,
    pub tail: &'a W64,
    pub sleeping: &'a W32,
}

impl<W64: Word64, W32: Word32> Words<'_, W64, W32> {
    /// Writer: everything before `head` may be read now. True: ring the bell's futex.
    pub fn publish(&self, head: u64) -> bool {
        self.head.store(head, Release);
        self.wakes()
    }

    /// Writer: there will be nothing more. True: ring the bell's futex.
    pub fn end(&self, state: u32) -> bool {
        self.state.store(state, Release);
        self.wakes()
    }

    /// At most one wake for one sleep: who clears `sleeping` owes it, and a reader that has armed anew meanwhile is woken
    /// for nothing.
    fn wakes(&self) -> bool {
        W64::fence(SeqCst);
        let owes = self.sleeping.load(Relaxed) != 0;
        if owes {
            self.sleeping.store(0, Relaxed);
            // Before the futex call: a reader that has not yet fallen asleep finds another value and stays awake.
            self.bell.fetch_add(1, Release);
        }
        owes
    }

    /// Reader, with everything before `position` read: what to wait on, or `None` when there is something to do.
    pub fn arm(&self, position: u64) -> Option<u32> {
        let rung = self.bell.load(Acquire);
        self.sleeping.store(1, Relaxed);
        W64::fence(SeqCst);
        if self.head.load(Acquire) != position || self.state.load(Acquire) != STATE_LIVE {
            self.disarm();
            return None;
        }
        Some(rung)
    }

    /// Reader: awake again, for whatever reason.
    pub fn disarm(&self) {
        self.sleeping.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests;
