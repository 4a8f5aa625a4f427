//! Commands from the handles of a connection to its task.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::Error;
use crate::queue::NoticeQueue;

/// Result of a call: the venue's JSON unchanged.
pub(crate) type CallResult = Result<Box<RawValue>, Error>;

const WAITING: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

/// How far a call has come. The caller may give it up only before the task begins to send it.
/// So a call that timed out is either never sent, or reported as unanswered.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallProgress(Arc<AtomicU8>);

impl CallProgress {
    /// Marks the call as sent. Returns false if the caller has given it up.
    pub fn begin_sending(&self) -> bool {
        self.0.compare_exchange(WAITING, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives the call up. Returns false if it may have been sent.
    pub fn abandon(&self) -> bool {
        self.0.compare_exchange(WAITING, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The answer to a call of a pipeline.
#[derive(Debug)]
pub struct PipelinedAnswer {
    /// The number that the caller gave to the call.
    pub number: u64,
    /// The result as of `VenueConnection::call`, without a repetition after a rate limit.
    pub result: Result<Box<RawValue>, Error>,
}

pub(crate) struct QueuedCall {
    /// Index of the agent whose access token the call carries.
    pub agent: Option<usize>,
    pub method: Cow<'static, str>,
    pub params: Box<RawValue>,
    pub answer: AnswerSink,
}

/// The receiver of an answer.
pub(crate) enum AnswerSink {
    /// A caller that waits for this answer alone, and may give the call up before it is sent.
    Caller {
        progress: CallProgress,
        answer: oneshot::Sender<CallResult>,
    },
    Pipeline(PipelineSink),
}

impl AnswerSink {
    /// Marks the call as sent. Returns false if the caller has given it up.
    pub fn begin_sending(&self) -> bool {
        match self {
            AnswerSink::Caller { progress, .. } => progress.begin_sending(),
            AnswerSink::Pipeline(_) => true,
        }
    }

    pub fn send(self, result: CallResult) {
        match self {
            // The caller may have stopped waiting.
            AnswerSink::Caller { answer, .. } => drop(answer.send(result)),
            AnswerSink::Pipeline(mut sink) => sink.send(result),
        }
    }
}

/// Takes the answer to one call. If it is dropped before, the call was not sent.
pub(crate) struct PipelineSink {
    number: u64,
    method: &'static str,
    answers: mpsc::UnboundedSender<PipelinedAnswer>,
    is_answered: bool,
}

impl PipelineSink {
    pub fn new(number: u64, method: &'static str, answers: mpsc::UnboundedSender<PipelinedAnswer>) -> Self {
        PipelineSink { number, method, answers, is_answered: false }
    }

    pub fn send(&mut self, result: CallResult) {
        self.is_answered = true;
        // The caller may have dropped the pipeline.
        drop(self.answers.send(PipelinedAnswer { number: self.number, result }));
    }
}

impl Drop for PipelineSink {
    fn drop(&mut self) {
        if !self.is_answered {
            let cause = "the connection has ended".to_owned();
            self.send(Err(Error::NotSent { method: self.method.to_owned(), cause }));
        }
    }
}

pub(crate) enum ConnectionCommand {
    Call(QueuedCall),
    Subscribe {
        channel: String,
        queue: Arc<NoticeQueue>,
        answer: oneshot::Sender<Result<(), Error>>,
    },
    Unsubscribe {
        channel: String,
    },
    /// Unsubscribes and subscribes, so that the venue sends a new snapshot.
    Refresh {
        channel: String,
    },
}
