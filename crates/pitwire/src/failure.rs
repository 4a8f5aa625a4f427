//! What a subcommand says when it cannot go on: what is wrong, and what to do.

use std::fmt;

#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: Option<String>,
    is_usage: bool,
}

impl Failure {
    pub fn new(what: impl Into<String>) -> Self {
        Failure { what: what.into(), remedy: None, is_usage: false }
    }

    /// The call itself was wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Failure { what: what.into(), remedy: None, is_usage: true }
    }

    pub fn exit_code(&self) -> u8 {
        if self.is_usage { 2 } else { 1 }
    }

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

impl From<pitwire_journal::OpenError> for Failure {
    fn from(error: pitwire_journal::OpenError) -> Self {
        Failure::new(error.to_string()).remedy(error.remedy())
    }
}

impl From<pitwire_journal::LogError> for Failure {
    fn from(error: pitwire_journal::LogError) -> Self {
        Failure::new(error.to_string()).remedy("look at the disk, then start again: nothing acknowledged is lost")
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let failure = Failure::new(error.to_string());
        match more_files(&error) {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    }
}

/// What helps against an error, if it is that no more files may be open.
pub fn more_files(error: &std::io::Error) -> Option<&'static str> {
    use rustix::io::Errno;
    let is_it = [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    is_it.then_some("allow more of them: ulimit -n 20000")
}
