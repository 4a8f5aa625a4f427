//! State shared between the threads of a run and their caller.
//!
//! Start at    [`RunControl`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::open_failure::OpenFailure;

/// A time that is not known yet.
pub const NEVER: i64 = i64::MAX;

#[derive(Debug)]
pub struct RunControl {
    pub opened: AtomicU64,
    pub failed: AtomicU64,
    pub deliveries: AtomicU64,
    pub late: AtomicU64,
    pub lost: AtomicU64,
    /// When measuring begins, by the monotonic clock; [`NEVER`] until that is known.
    start_ns: AtomicI64,
    stop: AtomicBool,
    /// Why the run ended before any connection opened.
    fatal_failure: Mutex<Option<OpenFailure>>,
}

impl Default for RunControl {
    fn default() -> Self {
        RunControl {
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            deliveries: AtomicU64::new(0),
            late: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            start_ns: AtomicI64::new(NEVER),
            stop: AtomicBool::new(false),
            fatal_failure: Mutex::new(None),
        }
    }
}

impl RunControl {
    pub fn set_start_ns(&self, ns: i64) {
        self.start_ns.store(ns, Ordering::Release);
    }

    pub fn start_ns(&self) -> i64 {
        self.start_ns.load(Ordering::Acquire)
    }

    /// Ends the run early. The report covers the time until then.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub fn fail(&self, refusal: OpenFailure) {
        if let Ok(mut fatal_failure) = self.fatal_failure.lock() {
            fatal_failure.get_or_insert(refusal);
        }
        self.stop();
    }

    pub fn fatal_failure(&self) -> Option<OpenFailure> {
        self.fatal_failure.lock().ok().and_then(|fatal_failure| fatal_failure.clone())
    }
}
