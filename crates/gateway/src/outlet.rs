//! The venue's way to NATS: a thread that seals batches and sends them.
//!
//! Holds       1. whoever hands over a batch never waits: what does not fit is not sent, counted, and found missing by the
//!                gateways, who ask the venue for it;
//!             2. memory is bounded: [`WAITING`] batches;
//!             3. once a second it says how far the venue is, so that a loss at the end shows too.
//! Leaves out  what is durable: it is handed nothing else.
//! Start at    [`Outlet::open`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::protocol::{Key, MAC_BYTES, mark};
use async_nats::Client;
use tokio::sync::mpsc;

use crate::nats::{self, Failure};

/// Batches that wait for NATS.
const WAITING: usize = 1_024;
/// A server refuses longer messages, unless it is told otherwise.
const MESSAGE_MAX: usize = (1 << 20) - 512;
const MARK: Duration = Duration::from_secs(1);

/// What is sent where.
#[derive(Clone, Debug)]
pub struct Publication {
    /// `nats://host:port`, with `user:password@` if need be; `tls://` for TLS.
    pub url: String,
    pub subject: String,
    pub epoch: u64,
    /// Where the venue is reached over HTTP, for the marks.
    pub about: String,
    pub key: Key,
}

#[derive(Debug, Default)]
struct Shared {
    /// The sequence of the next message, for the marks.
    next: AtomicU64,
    is_connected: Arc<AtomicBool>,
    sent: AtomicU64,
    unsent: AtomicU64,
}

#[derive(Debug)]
pub struct Outlet {
    batches: mpsc::Sender<Arc<[u8]>>,
    shared: Arc<Shared>,
}

impl Outlet {
    /// NATS need not be there: it is tried until it is. An address that cannot be meant is an error.
    pub fn open(publication: Publication) -> Result<Outlet, Failure> {
        nats::check(&publication.url, &publication.subject)?;
        let (batches, waiting) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared { next: AtomicU64::new(1), ..Shared::default() });
        let sender = Sender { publication, waiting, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("bus".into()).spawn(move || sender.run());
        thread.map_err(|error| Failure::new(format!("no thread for the bus: {error}"), "allow more threads"))?;
        Ok(Outlet { batches, shared })
    }

    /// Sends a batch, after which `next` is the sequence of the message to come.
    pub fn send(&self, batch: Arc<[u8]>, next: u64) {
        if self.batches.try_send(batch).is_err() {
            self.shared.unsent.fetch_add(1, Ordering::Relaxed);
        }
        // After the batch is queued: see `Sender::mark`.
        self.shared.next.store(next, Ordering::Release);
    }

    pub fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Acquire)
    }

    /// Batches handed to NATS, and those that were not.
    pub fn counts(&self) -> (u64, u64) {
        (self.shared.sent.load(Ordering::Relaxed), self.shared.unsent.load(Ordering::Relaxed))
    }
}

struct Sender {
    publication: Publication,
    waiting: mpsc::Receiver<Arc<[u8]>>,
    shared: Arc<Shared>,
}

impl Sender {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.send_all()),
            Err(error) => tracing::error!(%error, "nothing is sent to NATS: no runtime; gateways ask the venue"),
        }
    }

    async fn send_all(mut self) {
        let connected = Arc::clone(&self.shared.is_connected);
        let client = match nats::connect(&self.publication.url, "pitwire up", connected).await {
            Ok(client) => client,
            Err(failure) => {
                tracing::error!(%failure, "nothing is sent to NATS; gateways ask the venue");
                return;
            }
        };
        let mut marks = tokio::time::interval(MARK);
        marks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                batch = self.waiting.recv() => match batch {
                    Some(batch) => self.send(&client, &batch).await,
                    None => break,
                },
                _ = marks.tick() => self.mark(&client).await,
            }
        }
        self.mark(&client).await;
        drop(client.flush().await);
    }

    async fn send(&self, client: &Client, batch: &[u8]) {
        let mut sealed = Vec::with_capacity(batch.len() + MAC_BYTES);
        sealed.extend_from_slice(batch);
        self.publication.key.seal(&self.publication.subject, &mut sealed);
        let is_sent = sealed.len() <= MESSAGE_MAX
            && client.publish(self.publication.subject.clone(), sealed.into()).await.is_ok();
        let count = if is_sent { &self.shared.sent } else { &self.shared.unsent };
        count.fetch_add(1, Ordering::Relaxed);
    }

    async fn mark(&self, client: &Client) {
        // First the number, then the queue: a batch is queued before its number shows, so with an empty queue everything
        // before this number has been sent or dropped. The other way round, a batch on its way would look like a loss.
        let next = self.shared.next.load(Ordering::Acquire);
        if !self.waiting.is_empty() || !self.shared.is_connected.load(Ordering::Acquire) {
            return;
        }
        let mut sealed = mark(self.publication.epoch, next, &self.publication.about);
        self.publication.key.seal(&self.publication.subject, &mut sealed);
        // A mark that is not sent is made up for by the next.
        drop(client.publish(self.publication.subject.clone(), sealed.into()).await);
    }
}
