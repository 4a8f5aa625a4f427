//! Calls that are sent one after another without waiting for the answers in between.
//!
//! Holds       1. Every call that was sent has exactly one answer, even if the connection ends.
//!             2. A call needs no timer, no task and no lock.
//! Leaves out  repeating a call that the venue refuses because of a rate limit.
//! Start at    [`VenueConnection::pipeline`].

use serde::Serialize;
use tokio::sync::mpsc;

use crate::command::{AnswerSink, ConnectionCommand, PipelineSink, PipelinedAnswer, QueuedCall};
use crate::message::raw;
use crate::{Error, VenueConnection};

/// Calls over one connection, and the queue of their answers.
///
/// Calls that are sent together leave in one write. The answers come in the order in which the
/// venue sends them. The queue of answers grows with the calls, so the caller bounds its memory by
/// the number of calls without an answer, [`CallPipeline::pending`].
///
/// ```no_run
/// use pitwire_client::{Settings, VenueConnection};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), pitwire_client::Error> {
/// let connection = VenueConnection::open(Settings::new("ws://127.0.0.1:8080/ws/api/v2")).await?;
/// let mut calls = connection.pipeline();
/// for number in 0..100 {
///     calls.send(number, "public/test", &json!({})).await?;
/// }
/// while let Some(answer) = calls.next().await {
///     println!("{}: {:?}", answer.number, answer.result);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CallPipeline {
    connection: VenueConnection,
    sender: mpsc::UnboundedSender<PipelinedAnswer>,
    answers: mpsc::UnboundedReceiver<PipelinedAnswer>,
    pending: usize,
}

impl VenueConnection {
    /// Returns a pipeline of calls over this connection. Other handles can be used meanwhile.
    pub fn pipeline(&self) -> CallPipeline {
        let (sender, answers) = mpsc::unbounded_channel();
        CallPipeline { connection: self.clone(), sender, answers, pending: 0 }
    }
}

impl CallPipeline {
    /// Sends a call, with a number for its answer. Waits while the connection has too many calls
    /// that it has not sent. If the connection has ended, the answer says so.
    ///
    /// # Errors
    ///
    /// Fails if the parameters cannot be written as JSON. The call then has no answer.
    pub async fn send<P: Serialize + ?Sized>(
        &mut self,
        number: u64,
        method: &'static str,
        params: &P,
    ) -> Result<(), Error> {
        let params = raw(params).map_err(|error| Error::Garbled { what: error.to_string() })?;
        let sink = PipelineSink::new(number, method, self.sender.clone());
        let call = QueuedCall { agent: None, method: method.into(), params, answer: AnswerSink::Pipeline(sink) };
        self.pending += 1;
        // The sink of a call that is dropped answers it.
        drop(self.connection.commands().send(ConnectionCommand::Call(call)).await);
        Ok(())
    }

    /// Returns the number of calls without an answer.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Waits for the next answer. Returns `None` if every call has been answered. Dropping the
    /// future loses no answer.
    pub async fn next(&mut self) -> Option<PipelinedAnswer> {
        if self.pending == 0 {
            return None;
        }
        let answer = self.answers.recv().await?;
        self.pending -= 1;
        Some(answer)
    }

    /// Returns the next answer if it has arrived.
    pub fn try_next(&mut self) -> Option<PipelinedAnswer> {
        let answer = self.answers.try_recv().ok()?;
        self.pending -= 1;
        Some(answer)
    }
}
