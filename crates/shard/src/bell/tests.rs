//! All interleavings of one writer and one reader that sleeps, explored with loom.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64};

use super::RingWords;
use crate::layout::{STATE_ENDED, STATE_LIVE};

words!(AtomicU64, AtomicU32, loom::sync::atomic::fence);

const SLOTS: u64 = 2;

/// A ring of two numbers on loom's words.
struct Ring {
    slots: [UnsafeCell<u64>; 2],
    head: AtomicU64,
    bell: AtomicU32,
    state: AtomicU32,
    tail: AtomicU64,
    sleeping: AtomicU32,
}

// SAFETY: loom itself reports two sides in one slot. The test exists to find that.
unsafe impl Sync for Ring {}
// SAFETY: as above.
unsafe impl Send for Ring {}

impl Ring {
    fn new() -> Self {
        Self {
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
            head: AtomicU64::new(0),
            bell: AtomicU32::new(0),
            state: AtomicU32::new(STATE_LIVE),
            tail: AtomicU64::new(0),
            sleeping: AtomicU32::new(0),
        }
    }

    fn words(&self) -> RingWords<'_, AtomicU64, AtomicU32> {
        RingWords { head: &self.head, bell: &self.bell, state: &self.state, tail: &self.tail, sleeping: &self.sleeping }
    }

    /// Sleeps until the bell changes, which models a futex that the writer wakes on every change. A
    /// bell that never changes again is an endless loop, and loom reports it.
    fn futex_wait(&self, expected: u32) {
        while self.bell.load(Acquire) == expected {
            loom::thread::yield_now();
        }
    }

    fn write(&self, numbers: u64) {
        for number in 0..numbers {
            while number - self.tail.load(Acquire) >= SLOTS {
                loom::thread::yield_now();
            }
            let slot = usize::try_from(number % SLOTS).unwrap();
            // SAFETY: the slot is free, by the tail that was just loaded.
            self.slots[slot].with_mut(|slot| unsafe { *slot = number + 100 });
            let rung = self.bell.load(Relaxed);
            let wakes = self.words().publish(number + 1);
            assert_eq!(wakes, self.bell.load(Relaxed) != rung);
        }
        let _ = self.words().end(STATE_ENDED);
    }

    fn read(&self) -> Vec<u64> {
        let mut found = Vec::new();
        let mut position = 0;
        loop {
            let ended = self.state.load(Acquire) != STATE_LIVE;
            let head = self.head.load(Acquire);
            while position < head {
                let slot = usize::try_from(position % SLOTS).unwrap();
                // SAFETY: the slot is published, by the head that was just loaded.
                found.push(self.slots[slot].with(|slot| unsafe { *slot }));
                position += 1;
                self.tail.store(position, Release);
            }
            if ended {
                return found;
            }
            if let Some(expected) = self.words().arm(position) {
                self.futex_wait(expected);
                self.words().disarm();
            }
        }
    }
}

#[test]
fn every_interleaving_delivers_and_wakes() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ring = Arc::new(Ring::new());
        let writer = {
            let ring = Arc::clone(&ring);
            loom::thread::spawn(move || ring.write(3))
        };
        let found = ring.read();
        writer.join().unwrap();
        assert_eq!(found, [100, 101, 102]);
        assert_eq!(ring.sleeping.load(Relaxed), 0);
    });
}
