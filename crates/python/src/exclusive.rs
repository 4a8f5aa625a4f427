//! A value that one thread of one process uses at a time, until it is closed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Mutex, PoisonError, TryLockError};

use pyo3::prelude::*;

use crate::errors::{ErrorType, error};

enum Content<T> {
    Open(T),
    Closed,
    /// A panic may have left the value half changed.
    Failed,
}

pub struct Exclusive<T> {
    content: Mutex<Content<T>>,
    process: u32,
}

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Self {
        Exclusive { content: Mutex::new(Content::Open(value)), process: process::id() }
    }

    /// Calls `f` with the value.
    ///
    /// # Errors
    ///
    /// Raises `VenueForked` in a forked process, `VenueBusy` while another thread uses the value,
    /// `VenueClosed` after [`Exclusive::take`], and `EngineFailed` after a panic of `f`.
    pub fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        self.with_content(py, |content| match content {
            Content::Open(value) => {
                let called = catch_unwind(AssertUnwindSafe(|| f(value)));
                called.unwrap_or_else(|_| {
                    *content = Content::Failed;
                    Err(engine_failed(py))
                })
            }
            Content::Closed => {
                Err(error(py, ErrorType::VenueClosed, "this venue is closed", "create or connect another venue"))
            }
            Content::Failed => Err(engine_failed(py)),
        })
    }

    /// Takes the value out. Returns `None` if it is closed already.
    ///
    /// # Errors
    ///
    /// Raises `VenueForked` and `VenueBusy` as [`Exclusive::with`].
    pub fn take(&self, py: Python<'_>) -> PyResult<Option<T>> {
        self.with_content(py, |content| match std::mem::replace(content, Content::Closed) {
            Content::Open(value) => Ok(Some(value)),
            Content::Closed | Content::Failed => Ok(None),
        })
    }

    /// Whether the value can still be used.
    pub fn is_open(&self) -> bool {
        match self.content.try_lock() {
            Ok(content) => matches!(*content, Content::Open(_)),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    fn with_content<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Content<T>) -> PyResult<R>) -> PyResult<R> {
        if process::id() != self.process {
            let what = format!("this venue belongs to process {}, and this is a fork of it", self.process);
            return Err(error(py, ErrorType::VenueForked, what, "create the venue in the process that uses it"));
        }
        let mut content = match self.content.try_lock() {
            Ok(content) => content,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => {
                let remedy = "give each thread a venue of its own, or guard the calls with a lock";
                return Err(error(py, ErrorType::VenueBusy, "another thread is using this venue", remedy));
            }
        };
        f(&mut content)
    }
}

fn engine_failed(py: Python<'_>) -> PyErr {
    let remedy = "create another venue, and report the commands before this call as a defect of Pitwire";
    error(py, ErrorType::EngineFailed, "the engine panicked, so the state of this venue is unknown", remedy)
}
