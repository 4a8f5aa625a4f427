//! The log of commands as a trait, so that it can be copied to another place later.

use std::{fmt, io};

use pitwire_model::{Seq, SequencedCommand};

/// Hash chain over all events of the engine up to some command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputHash(pub [u8; 32]);

/// An append-only log. Nothing counts until it is durable.
pub trait Log: Send {
    /// Adds the next command to the open group. Sequence numbers must be consecutive.
    ///
    /// # Errors
    /// Returns an error if an earlier write has failed or the log cannot be written.
    fn append(&mut self, entry: &SequencedCommand) -> Result<(), LogError>;
    /// Makes everything appended durable and returns its last number. `output` is the hash chain
    /// after the last command; it is stored with the group, so that a replay can compare it.
    ///
    /// # Errors
    /// Returns an error if the group cannot be written or synced. None of it may be acknowledged.
    fn commit(&mut self, output: OutputHash) -> Result<Seq, LogError>;
    /// The newest command that would survive a power cut.
    fn durable_position(&self) -> Seq;
    /// Calls `visit` with every durable command from `from` on, in order.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read or is damaged.
    fn follow_from(&self, from: Seq, visit: &mut dyn FnMut(SequencedCommand)) -> Result<(), LogError>;
}

/// A fatal error of the log: the venue must stop acknowledging and end.
#[derive(Debug)]
pub enum LogError {
    Io {
        doing: &'static str,
        file: String,
        source: io::Error,
    },
    /// A file, or the whole directory, was deleted or replaced while it was written.
    Displaced {
        file: String,
        source: io::Error,
    },
    /// The caller skipped or repeated a number. This defect is caught before it reaches the disk.
    OutOfSequence {
        expected: Seq,
        got: Seq,
    },
    /// The caller began a commit before it finished the last one, or finished another one. This
    /// defect is caught before anything is acknowledged.
    Unfinished,
    /// The engine panicked on a command, and the command could not be removed.
    Unquarantined {
        seq: Seq,
        why: String,
    },
    /// An earlier write or sync failed. The content of the disk is unknown until it is read again.
    Poisoned,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io { doing, file, source } => write!(f, "{doing} {file}: {source}"),
            LogError::Displaced { file, source } => {
                write!(f, "{file} is no longer in its place in the data directory: {source}")
            }
            LogError::OutOfSequence { expected, got } => write!(f, "log expected command {expected}, got {got}"),
            LogError::Unfinished => write!(f, "a commit began or ended while another one was not finished"),
            LogError::Unquarantined { seq, why } => {
                write!(f, "command {seq} made the engine fail and cannot be quarantined: {why}")
            }
            LogError::Poisoned => write!(f, "the journal failed earlier and takes nothing more; restart to recover"),
        }
    }
}

impl std::error::Error for LogError {}

impl LogError {
    /// The next step for the operator.
    pub const fn remedy(&self) -> &'static str {
        match self {
            LogError::Displaced { .. } => {
                "nothing was acknowledged since; put the directory back as it was, or restore a backup with pitwire \
                 restore, and start again"
            }
            _ => "look at the disk, then start again: nothing acknowledged is lost",
        }
    }
}

impl From<LogError> for pitwire_failure::Failure {
    fn from(error: LogError) -> Self {
        pitwire_failure::Failure::new(error.to_string()).remedy(error.remedy())
    }
}
