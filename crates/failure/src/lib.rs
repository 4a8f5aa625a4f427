//! The error that a command reports to its user: what is wrong, what to do, and the exit code.
//!
//! Does        carry one sentence, an optional remedy and whether the command line itself was
//!             wrong; bound the files that arguments name, and show addresses without passwords.
//! Leaves out  causes and backtraces: the text is for the user of a command.
//! Start at    [`Failure`].

mod argument;

use std::fmt;

pub use argument::{read_bytes, read_text, without_password};

/// Error numbers of Linux for "too many open files", of this process and of the whole system.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// An error with the action that resolves it.
///
/// ```
/// use pitwire_failure::Failure;
/// let failure = Failure::new("port 8080 is taken").remedy("choose another port with --http");
/// assert_eq!(failure.to_string(), "port 8080 is taken (choose another port with --http)");
/// assert_eq!(failure.exit_code(), 1);
/// ```
#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: Option<String>,
    exit_code: u8,
}

impl Failure {
    /// Creates a failure of the operation itself, with exit code 1.
    pub fn new(what: impl Into<String>) -> Self {
        Failure { what: what.into(), remedy: None, exit_code: 1 }
    }

    /// Creates a failure caused by wrong arguments, with exit code 2.
    pub fn usage(what: impl Into<String>) -> Self {
        Failure { what: what.into(), remedy: None, exit_code: 2 }
    }

    /// Returns the exit code of the process: 2 for wrong arguments, 1 for a failed operation, or
    /// the code of [`Failure::with_exit_code`].
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Sets an exit code that only one command has, for a result that scripts must distinguish.
    #[must_use]
    pub fn with_exit_code(mut self, exit_code: u8) -> Self {
        self.exit_code = exit_code;
        self
    }

    /// Returns what is wrong, and the action that resolves it.
    pub fn into_parts(self) -> (String, Option<String>) {
        (self.what, self.remedy)
    }

    /// Sets the action that resolves the failure. It is printed in parentheses.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let failure = Failure::new(error.to_string());
        match more_files(&error) {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    }
}

/// Returns the remedy for an error that means "too many open files", or `None` for any other error.
pub fn more_files(error: &std::io::Error) -> Option<&'static str> {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE)).then_some("allow more of them: ulimit -n 20000")
}
