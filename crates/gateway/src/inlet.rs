//! The gateway's ear on NATS: a thread that lets through what the venue sealed.
//!
//! Holds       1. nothing without the right MAC gets further than here, and it is counted;
//!             2. the loop that is told is never waited for: what does not fit is dropped, found missing, and asked for.
//! Start at    [`Inlet::open`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::protocol::{Batch, Key};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

use crate::nats::{self, Failure};
use crate::reminder::Reminder;

/// Batches that wait for the loop.
const WAITING: usize = 1_024;
/// A venue says something every second.
const SILENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub enum News {
    /// A batch with the right MAC.
    Batch(Vec<u8>),
    /// A mark says where this start of the venue is. It may be a recording: see [`crate::Node::may_follow`].
    Venue { epoch: u64, url: String },
}

#[derive(Debug, Default)]
struct Shared {
    is_connected: Arc<AtomicBool>,
    forged: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug)]
pub struct Inlet {
    news: Receiver<News>,
    shared: Arc<Shared>,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

impl Inlet {
    /// NATS need not be there: it is tried until it is. `wake` is called when there is news.
    pub fn open(url: &str, subject: &str, key: Key, wake: Wake) -> Result<Inlet, Failure> {
        nats::check(url, subject)?;
        let (sender, news) = sync_channel(WAITING);
        let shared = Arc::new(Shared::default());
        let listener = Listener {
            url: url.to_owned(),
            subject: subject.to_owned(),
            key,
            news: sender,
            wake,
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new().name("bus".into()).spawn(move || listener.run());
        thread.map_err(|error| Failure::new(format!("no thread for the bus: {error}"), "allow more threads"))?;
        Ok(Inlet { news, shared })
    }

    /// What has come, if anything has.
    pub fn next(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    pub fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Acquire)
    }

    /// Messages that were not the venue's.
    pub fn forged(&self) -> u64 {
        self.shared.forged.load(Ordering::Relaxed)
    }

    /// Batches for which the loop had no room.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

struct Listener {
    url: String,
    subject: String,
    key: Key,
    news: SyncSender<News>,
    wake: Wake,
    shared: Arc<Shared>,
}

impl Listener {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.listen()),
            Err(error) => tracing::error!(%error, "nothing is heard from NATS: no runtime"),
        }
    }

    async fn listen(self) {
        let connected = Arc::clone(&self.shared.is_connected);
        let client = match nats::connect(&self.url, "pitwire gateway", connected).await {
            Ok(client) => client,
            Err(failure) => {
                tracing::error!(%failure, "nothing is heard from NATS");
                return;
            }
        };
        let mut messages = match client.subscribe(self.subject.clone()).await {
            Ok(messages) => messages,
            Err(error) => {
                tracing::error!(%error, "nothing is heard from NATS");
                return;
            }
        };
        let mut venue = (0, String::new());
        let (mut of_silence, mut of_strangers) = (Reminder::default(), Reminder::default());
        loop {
            let message = match timeout(SILENCE, messages.next()).await {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(_) => {
                    if of_silence.is_due() {
                        tracing::warn!(
                            subject = self.subject,
                            "nothing is heard from a venue; does it run with --publish to this NATS server, and with the \
                             same --publish-subject?"
                        );
                    }
                    continue;
                }
            };
            let Some(content) = self.key.open(&self.subject, &message.payload) else {
                self.shared.forged.fetch_add(1, Ordering::Relaxed);
                if of_strangers.is_due() {
                    tracing::warn!(
                        subject = self.subject,
                        "messages come that the bus key does not open; is --bus-key a copy of the venue's?"
                    );
                }
                continue;
            };
            of_silence = Reminder::default();
            let Some(batch) = Batch::parse(content) else {
                self.shared.forged.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if batch.count == 0 && (venue.0 != batch.epoch || venue.1 != batch.about) {
                venue = (batch.epoch, batch.about.to_owned());
                self.tell(News::Venue { epoch: batch.epoch, url: venue.1.clone() });
            }
            self.tell(News::Batch(content.to_vec()));
        }
    }

    fn tell(&self, news: News) {
        if self.news.try_send(news).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        (self.wake)();
    }
}
