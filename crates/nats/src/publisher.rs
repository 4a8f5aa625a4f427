//! A publisher: a thread that turns queued batches into NATS messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::{Client, HeaderMap, PublishErrorKind};
use pitwire_failure::Failure;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::connection::{FirstConnection, LinkState, NatsConnection, NatsOptions, connect};
use crate::reconnect_delay::ReconnectDelay;

/// Interval of position messages. They show subscribers a loss at the end of the stream.
const POSITION_INTERVAL: Duration = Duration::from_secs(1);

/// One message to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsMessage {
    pub subject: String,
    pub headers: Vec<(&'static str, String)>,
    pub payload: Vec<u8>,
}

/// Encodes the messages of a publishing thread. The thread owns it.
pub trait Publication: Send + 'static {
    type Batch: Send + 'static;

    /// Returns the message of a batch, or `None` for a batch that NATS would not take.
    fn message(&self, batch: &mut Self::Batch) -> Option<NatsMessage>;

    /// Called once for each batch: `is_sent` is false if it was not handed to NATS.
    fn finished(&self, batch: Self::Batch, is_sent: bool);

    /// Returns messages that say how far each subject is.
    ///
    /// The caller sends them only if the queue is empty after this call. A batch is queued before
    /// its number is published to this function, so every number it reads has then been sent or
    /// dropped. In the opposite order a batch that is still queued would look like a loss.
    fn positions(&self) -> Vec<NatsMessage>;
}

/// The sending end of a bounded queue of batches, and the thread that publishes them.
///
/// Dropping it lets the thread publish the queued batches and end.
#[derive(Debug)]
pub struct NatsPublisher<B> {
    /// `None` after [`NatsPublisher::finish`].
    batches: Option<mpsc::Sender<B>>,
    link: LinkState,
    has_lost: Arc<AtomicBool>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// The receiving end of a publisher without a thread.
#[derive(Debug)]
pub struct PendingBatches<B> {
    batches: mpsc::Receiver<B>,
    /// Keeps the publisher from taking its thread for ended.
    _end: SyncSender<()>,
}

impl<B> PendingBatches<B> {
    /// Returns the oldest queued batch.
    pub fn next_batch(&mut self) -> Option<B> {
        self.batches.try_recv().ok()
    }
}

impl<B> NatsPublisher<B> {
    /// Connects and starts the thread, named `thread_name`. `capacity` is in batches.
    ///
    /// # Errors
    ///
    /// The address is invalid, a required server does not answer, or no thread can be started.
    pub fn open<P>(
        url: &str,
        options: &NatsOptions,
        thread_name: &str,
        capacity: usize,
        publication: P,
    ) -> Result<Self, Failure>
    where
        P: Publication<Batch = B>,
        B: Send + 'static,
    {
        let connection = connect(url, options, LinkState::default())?;
        let (mut publisher, pending) = Self::without_thread(capacity);
        publisher.link = connection.link.clone();
        let PendingBatches { batches, _end: end } = pending;
        let worker = Worker {
            url: url.to_owned(),
            options: options.clone(),
            connection,
            publication,
            batches,
            has_lost: Arc::clone(&publisher.has_lost),
        };
        let thread = thread::Builder::new().name(thread_name.to_owned()).spawn(move || {
            worker.run();
            // The publisher may have been dropped.
            let _ = end.send(());
        });
        let failed = |error| Failure::new(format!("cannot start a NATS thread: {error}")).remedy("allow more threads");
        publisher.thread = Some(thread.map_err(failed)?);
        Ok(publisher)
    }

    /// Returns a publisher whose batches are read by the caller, for tests without a server.
    pub fn without_thread(capacity: usize) -> (Self, PendingBatches<B>) {
        let (sender, batches) = mpsc::channel(capacity);
        let (end, ended) = sync_channel(1);
        let publisher = NatsPublisher {
            batches: Some(sender),
            link: LinkState::default(),
            has_lost: Arc::default(),
            ended,
            thread: None,
        };
        (publisher, PendingBatches { batches, _end: end })
    }

    pub fn is_connected(&self) -> bool {
        self.link.is_up()
    }

    /// Whether [`NatsPublisher::push`] would refuse a batch.
    pub fn is_full(&self) -> bool {
        self.batches.as_ref().is_none_or(|batches| batches.capacity() == 0)
    }

    /// Queues a batch. Never blocks.
    ///
    /// # Errors
    ///
    /// Returns the batch if the queue is full or the thread has ended.
    pub fn push(&self, batch: B) -> Result<(), B> {
        let Some(batches) = &self.batches else { return Err(batch) };
        batches.try_send(batch).map_err(|refused| match refused {
            TrySendError::Full(batch) | TrySendError::Closed(batch) => batch,
        })
    }

    /// Closes the queue and waits until the server has everything, up to `timeout`.
    ///
    /// Returns whether nothing was lost.
    pub fn finish(&mut self, timeout: Duration) -> bool {
        self.batches = None;
        let ended = self.ended.recv_timeout(timeout);
        if !matches!(ended, Err(RecvTimeoutError::Timeout))
            && let Some(thread) = self.thread.take()
        {
            // It has ended or panicked. After a panic `ended` is an error, so the loss is reported.
            let _ = thread.join();
        }
        ended.is_ok() && !self.has_lost.load(Ordering::Relaxed)
    }
}

struct Worker<P: Publication> {
    url: String,
    options: NatsOptions,
    connection: NatsConnection,
    publication: P,
    batches: mpsc::Receiver<P::Batch>,
    has_lost: Arc<AtomicBool>,
}

/// Why [`Sender::serve`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServeEnd {
    /// The queue is closed and empty.
    Finished,
    /// The client library has ended.
    ClientEnded,
}

impl<P: Publication> Worker<P> {
    fn run(self) {
        let Worker { url, options, connection, publication, mut batches, has_lost } = self;
        let NatsConnection { mut runtime, client, link } = connection;
        // A later connection must not end the thread because the server is away.
        let options = NatsOptions { first_connection: FirstConnection::Background, ..options };
        let delay = ReconnectDelay::default();
        let mut sender = Sender { client, link, publication, has_lost };
        while runtime.block_on(sender.serve(&mut batches)) == ServeEnd::ClientEnded {
            tracing::warn!("the NATS client has ended; connecting again");
            sender.link.set_up(false);
            thread::sleep(delay.next());
            match connect(&url, &options, sender.link.clone()) {
                Ok(connection) => (runtime, sender.client) = (connection.runtime, connection.client),
                Err(failure) => tracing::warn!("{failure}"),
            }
        }
    }
}

struct Sender<P: Publication> {
    client: Client,
    link: LinkState,
    publication: P,
    has_lost: Arc<AtomicBool>,
}

impl<P: Publication> Sender<P> {
    async fn serve(&self, batches: &mut mpsc::Receiver<P::Batch>) -> ServeEnd {
        let mut interval = tokio::time::interval(POSITION_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let sent = tokio::select! {
                biased;
                batch = batches.recv() => match batch {
                    Some(batch) => self.send_batch(batch).await,
                    None => break,
                },
                _ = interval.tick() => self.send_positions(batches).await,
            };
            if sent.is_err() {
                return ServeEnd::ClientEnded;
            }
        }
        if self.send_positions(batches).await.is_err() || self.client.flush().await.is_err() {
            self.has_lost.store(true, Ordering::Relaxed);
        }
        ServeEnd::Finished
    }

    async fn send_batch(&self, mut batch: P::Batch) -> Result<(), EndedClient> {
        let sent = match self.publication.message(&mut batch) {
            Some(message) => self.publish(message).await,
            None => Ok(false),
        };
        self.publication.finished(batch, matches!(sent, Ok(true)));
        sent.map(drop)
    }

    async fn send_positions(&self, batches: &mpsc::Receiver<P::Batch>) -> Result<(), EndedClient> {
        let messages = self.publication.positions();
        // Without a connection the client would block as soon as its own queue is full.
        if !batches.is_empty() || !self.link.is_up() {
            return Ok(());
        }
        for message in messages {
            self.publish(message).await?;
        }
        Ok(())
    }

    /// Returns whether the message was handed to NATS.
    async fn publish(&self, message: NatsMessage) -> Result<bool, EndedClient> {
        let NatsMessage { subject, headers, payload } = message;
        let published = if headers.is_empty() {
            self.client.publish(subject, payload.into()).await
        } else {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(name, value);
            }
            self.client.publish_with_headers(subject, map, payload.into()).await
        };
        let Err(error) = published else { return Ok(true) };
        self.has_lost.store(true, Ordering::Relaxed);
        tracing::warn!("a message was not published on NATS: {error}");
        if error.kind() == PublishErrorKind::Send { Err(EndedClient) } else { Ok(false) }
    }
}

/// The client library has ended, and takes no message any more.
struct EndedClient;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_returns_the_batch() {
        let (publisher, mut pending) = NatsPublisher::without_thread(2);
        assert_eq!((publisher.push(1), publisher.push(2), publisher.push(3)), (Ok(()), Ok(()), Err(3)));
        assert!(publisher.is_full());
        assert_eq!(pending.next_batch(), Some(1));
        assert_eq!(publisher.push(4), Ok(()));
        drop(pending);
        assert_eq!(publisher.push(5), Err(5));
    }

    #[test]
    fn finish_reports_batches_that_no_thread_took() {
        let (mut publisher, _pending) = NatsPublisher::without_thread(1);
        assert_eq!(publisher.push(1), Ok(()));
        assert!(!publisher.finish(Duration::from_millis(1)));
        assert_eq!(publisher.push(2), Err(2));
    }
}
