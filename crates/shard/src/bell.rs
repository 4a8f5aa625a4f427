//! Synchronisation of one writer and one reader: head, tail, and the bell that wakes a sleeping
//! reader.
//!
//! Does        implements the memory orderings once, over words that are std atomics in a ring and
//!             loom atomics in the test.
//! Holds       the writer stores `head` and then loads `sleeping`; the reader stores `sleeping` and
//!             then loads `head`. A fence between the two on both sides ensures that at least one
//!             of them sees the other's store.
//! Leaves out  the futex system call: the caller makes it, as `publish` and `arm` tell it to.

use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::{AT_BELL, AT_HEAD, AT_SLEEPING, AT_STATE, AT_TAIL, STATE_LIVE};
use crate::memory::{Memory, word32, word64};

/// A 64-bit word that both sides see.
pub(crate) trait Word64 {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    /// A fence of the same kind as the words: std or loom.
    fn fence(order: Ordering);
}

/// A 32-bit word that both sides see.
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

/// The words of a ring's header that change. `bell` is the futex word.
pub(crate) struct RingWords<'a, W64, W32> {
    pub head: &'a W64,
    pub bell: &'a W32,
    pub state: &'a W32,
    pub tail: &'a W64,
    pub sleeping: &'a W32,
}

impl<'a> RingWords<'a, AtomicU64, AtomicU32> {
    /// Returns the words of a ring.
    pub fn of(memory: &'a impl Memory) -> Self {
        RingWords {
            head: word64(memory, AT_HEAD),
            bell: word32(memory, AT_BELL),
            state: word32(memory, AT_STATE),
            tail: word64(memory, AT_TAIL),
            sleeping: word32(memory, AT_SLEEPING),
        }
    }
}

impl<W64: Word64, W32: Word32> RingWords<'_, W64, W32> {
    /// Writer: publishes everything before `head`. Returns whether the caller must wake the futex
    /// on `bell`.
    pub fn publish(&self, head: u64) -> bool {
        self.head.store(head, Release);
        self.wakes()
    }

    /// Writer: publishes the final state. Returns whether the caller must wake the futex on `bell`.
    pub fn end(&self, state: u32) -> bool {
        self.state.store(state, Release);
        self.wakes()
    }

    /// Wakes at most once per sleep: the side that clears `sleeping` makes the call. A reader that
    /// armed again in the meantime is woken without need.
    fn wakes(&self) -> bool {
        W64::fence(SeqCst);
        let owes = self.sleeping.load(Relaxed) != 0;
        if owes {
            self.sleeping.store(0, Relaxed);
            // Before the futex call, so that a reader that is not asleep yet sees another value and
            // stays awake.
            self.bell.fetch_add(1, Release);
        }
        owes
    }

    /// Reader, after reading everything before `position`: returns the value to wait on, or `None`
    /// if there is work.
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

    /// Reader: clears `sleeping` after a wait, however it ended.
    pub fn disarm(&self) {
        self.sleeping.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests;
