//! Commands from the handles of a connection to its task.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::Error;
use crate::pipeline::PipelineSink;
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
