//! What the threads of a run and whoever leads it tell one another.
//!
//! Start at    [`Control`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::refusal::Refusal;

/// Not known yet.
pub const NEVER: i64 = i64::MAX;

#[derive(Debug)]
pub struct Control {
    pub opened: AtomicU64,
    pub failed: AtomicU64,
    pub deliveries: AtomicU64,
    pub late: AtomicU64,
    pub lost: AtomicU64,
    /// By the monotonic clock: when measuring begins.
    start_ns: AtomicI64,
    stop: AtomicBool,
    /// Why there is no point in going on.
    hopeless: Mutex<Option<Refusal>>,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            deliveries: AtomicU64::new(0),
            late: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            start_ns: AtomicI64::new(NEVER),
            stop: AtomicBool::new(false),
            hopeless: Mutex::new(None),
        }
    }
}

impl Control {
    pub fn start_at(&self, ns: i64) {
        self.start_ns.store(ns, Ordering::Release);
    }

    pub fn start_ns(&self) -> i64 {
        self.start_ns.load(Ordering::Acquire)
    }

    /// Ends the run before its time; what was measured until then is reported.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub fn give_up(&self, refusal: Refusal) {
        if let Ok(mut hopeless) = self.hopeless.lock() {
            hopeless.get_or_insert(refusal);
        }
        self.stop();
    }

    pub fn hopeless(&self) -> Option<Refusal> {
        self.hopeless.lock().ok().and_then(|hopeless| hopeless.clone())
    }
}
