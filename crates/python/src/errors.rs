//! Exceptions of `pitwire.errors`.

use pitwire_failure::Failure;
use pyo3::prelude::*;

/// Names of the exception types that native code raises.
#[derive(Clone, Copy, Debug)]
pub enum ErrorType {
    InvalidValue,
    UnknownName,
    VenueClosed,
    VenueBusy,
    VenueForked,
    DataDirectoryError,
    EventBufferFull,
    EngineFailed,
    Interrupted,
    ConnectionFailed,
    CallUnanswered,
    CallRefused,
    VenueFailed,
}

/// Creates an exception from its type, what is wrong, and the remedy.
pub fn error(py: Python<'_>, class: ErrorType, what: impl Into<String>, remedy: &str) -> PyErr {
    let create = || {
        let class = py.import("pitwire.errors")?.getattr(format!("{class:?}").as_str())?;
        class.call1((what.into(), remedy))
    };
    create().map_or_else(|error| error, PyErr::from_value)
}

pub fn invalid(py: Python<'_>, what: impl Into<String>, remedy: &str) -> PyErr {
    error(py, ErrorType::InvalidValue, what, remedy)
}

/// Creates an exception from a failure.
pub fn failed(py: Python<'_>, class: ErrorType, failure: Failure) -> PyErr {
    let (what, remedy) = failure.into_parts();
    error(py, class, what, remedy.as_deref().unwrap_or("close this venue and open another"))
}

/// Runs the signal handlers of the interpreter.
///
/// # Errors
///
/// Returns the exception of a handler. A `KeyboardInterrupt` becomes `Interrupted`, which is one.
pub fn check_signals(py: Python<'_>, doing: impl FnOnce() -> String) -> PyResult<()> {
    py.check_signals().map_err(|raised| {
        if raised.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
            let remedy = "the venue is intact and can be used further; repeat the call for the rest";
            return error(py, ErrorType::Interrupted, doing(), remedy);
        }
        raised
    })
}
