//! WsTransport on NATS: what workers on other machines subscribe to.
//!
//! Does        batch each shard's records, number them, and publish them on `<prefix>.<epoch>.<shard>` from a thread of its own.
//! Holds       1. nothing here waits: what NATS does not take in time is dropped, counted, and visible to every consumer as a
//!                jump in the numbers;
//!             2. memory is bounded: [`BATCHES`] batches of about [`BATCH_BYTES`];
//!             3. a record's number is its place in its shard since the start, whether it was sent or dropped.
//! Leaves out  delivery: core NATS sends at most once. Consumers look at epoch and numbers (`docs/splitter.md`).
//! Start at    [`NatsPublisher::open`].

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pitwire_feed::Object;
use pitwire_nats::{FirstConnection, NatsMessage, NatsOptions, NatsPublisher, Wildcards, check_subject};

use crate::transport::{Transport, TransportSummary, TransportTotals};
use crate::transport_error::TransportError;

/// Size in bytes above which a batch is queued. A batch is also queued at the end of each read.
const BATCH_BYTES: usize = 64 << 10;
/// Capacity of the queue in batches: 16 MiB.
const BATCHES: usize = 256;
/// Largest message in bytes that a NATS server takes by default.
const MESSAGE_MAX: usize = 1 << 20;
/// Room for the headers in a message, in bytes.
const HEADERS_MAX: usize = 256;
/// Messages that a client library may hold for subscriptions. A publisher has none.
const NO_SUBSCRIPTIONS: usize = 1;

/// What to publish where.
#[derive(Clone, Debug)]
pub struct Publication {
    /// `nats://host:port`, with `user:password@` if need be; `tls://` for TLS.
    pub url: String,
    /// First part of every subject.
    pub prefix: String,
    /// Start of this splitter, nanoseconds since 1970: numbers begin again with it.
    pub epoch: u64,
    pub workers: u32,
}

/// The sink for `--publish`, beside the transport that serves workers here.
<<<<<<< HEAD:crates/splitter/src/publish.rs
pub struct Publisher {
    shards: Vec<Staged>,
    batches: NatsPublisher<Batch>,
    /// Number of each shard's next record, for the position messages.
=======
pub struct NatsPublisher {
    shards: Vec<ShardBatch>,
    batches: Option<mpsc::Sender<NatsBatch>>,
    /// The number that each shard's next record gets, for the marks.
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
    next: Arc<[AtomicU64]>,
    sent: Arc<AtomicU64>,
    dropped: u64,
    gaps: u64,
    is_dropping: bool,
<<<<<<< HEAD:crates/splitter/src/publish.rs
    report: Option<Failure>,
=======
    report: Option<TransportError>,
    lost: Arc<AtomicBool>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
}

/// What has been dealt to a shard since its last batch.
#[derive(Default)]
struct ShardBatch {
    bytes: Vec<u8>,
    first: u64,
    records: u64,
    objects: u64,
}

struct NatsBatch {
    shard: usize,
    first: u64,
    records: u64,
    objects: u64,
    bytes: Vec<u8>,
}

<<<<<<< HEAD:crates/splitter/src/publish.rs
impl Publisher {
    /// Connects and starts the publishing thread.
    ///
    /// # Errors
    ///
    /// The address or the prefix is invalid, or the server does not answer. A server that goes away
    /// later is no error: the client reconnects, and records are dropped meanwhile.
    pub fn open(publication: Publication) -> Result<Publisher, Failure> {
        check_subject(&publication.prefix, Wildcards::Refused)?;
        let next: Arc<[AtomicU64]> = (0..publication.workers).map(|_| AtomicU64::new(1)).collect();
        let sent = Arc::new(AtomicU64::new(0));
        let options = NatsOptions {
            name: "pitwire split",
            first_connection: FirstConnection::Required,
            subscription_capacity: NO_SUBSCRIPTIONS,
        };
        let (url, workers) = (publication.url.clone(), publication.workers);
        let encoder = BatchEncoder::new(&publication, Arc::clone(&next), Arc::clone(&sent));
        let batches = NatsPublisher::open(&url, &options, "publish", BATCHES, encoder)?;
        Ok(Publisher::new(workers, batches, next, sent))
    }

    fn new(workers: u32, batches: NatsPublisher<Batch>, next: Arc<[AtomicU64]>, sent: Arc<AtomicU64>) -> Publisher {
        Publisher {
            shards: (0..workers).map(|_| Staged { first: 1, ..Staged::default() }).collect(),
            batches,
=======
impl NatsPublisher {
    /// Connects; a server that is not there now is an error, one that goes away later is not.
    pub fn open(publication: Publication) -> Result<NatsPublisher, TransportError> {
        check_prefix(&publication.prefix)?;
        let workers = publication.workers as usize;
        let next: Arc<[AtomicU64]> = (0..workers).map(|_| AtomicU64::new(1)).collect();
        let (sent, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (batches, waiting) = mpsc::channel(BATCHES);
        let (ready, is_ready) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let worker = PublishTask {
            publication,
            waiting,
            next: Arc::clone(&next),
            sent: Arc::clone(&sent),
            lost: Arc::clone(&lost),
        };
        let thread = thread::Builder::new().name("publish".into()).spawn(move || {
            worker.run(|told| {
                // Whoever opened us waits for this.
                let _ = ready.send(told);
            });
            let _ = end.send(());
        });
        let thread = thread
            .map_err(|error| TransportError::new(format!("no thread for --publish: {error}"), "allow more threads"))?;
        let told = is_ready
            .recv_timeout(2 * CONNECT)
            .unwrap_or_else(|_| Err(TransportError::new("NATS did not answer in time".to_string(), REMEDY_REACH)));
        told?;
        let staged = |_| ShardBatch { first: 1, ..ShardBatch::default() };
        Ok(NatsPublisher {
            shards: (0..workers).map(staged).collect(),
            batches: Some(batches),
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
            next,
            sent,
            dropped: 0,
            gaps: 0,
            is_dropping: false,
            report: None,
        }
    }

    /// HOT.
    fn stage(&mut self, worker: usize, record: &[u8], objects: u64) {
        let Some(shard) = self.shards.get_mut(worker) else { return };
        let is_full = self.batches.is_full();
        let too_long = record.len() + 4 + HEADERS_MAX > MESSAGE_MAX;
        if is_full || too_long {
            // Not copied at all: a batch that holds something already goes on its way first, so numbers stay in order.
            self.send(worker);
            let shard = &mut self.shards[worker];
            shard.first += 1;
            self.dropped += objects;
            self.next[worker].store(shard.first, Ordering::Release);
            if is_full {
                self.begin_dropping();
            }
            return;
        }
        if !shard.bytes.is_empty() && shard.bytes.len() + 4 + record.len() > BATCH_BYTES {
            self.send(worker);
        }
        let shard = &mut self.shards[worker];
        // Checked above: far below 2^32.
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        shard.bytes.extend_from_slice(&length.to_le_bytes());
        shard.bytes.extend_from_slice(record);
        shard.records += 1;
        shard.objects += objects;
    }

    /// Hands a shard's batch to the thread, or drops it.
    fn send(&mut self, worker: usize) {
        let shard = &mut self.shards[worker];
        if shard.records == 0 {
            return;
        }
        let batch = NatsBatch {
            shard: worker,
            first: shard.first,
            records: shard.records,
            objects: shard.objects,
            bytes: mem::replace(&mut shard.bytes, Vec::with_capacity(BATCH_BYTES)),
        };
        shard.first += shard.records;
        (shard.records, shard.objects) = (0, 0);
        let next = shard.first;
        let pushed = self.batches.push(batch);
        self.next[worker].store(next, Ordering::Release);
        if let Err(batch) = pushed {
            self.dropped += batch.objects;
            self.begin_dropping();
        }
    }

    fn begin_dropping(&mut self) {
        if !mem::replace(&mut self.is_dropping, true) {
            self.report = Some(TransportError::new(
                "NATS does not take what is published, so it is dropped there; workers here are not affected",
                "look at the NATS server and the way to it; consumers see what they miss by its numbers",
            ));
        }
    }
}

impl Transport for NatsPublisher {
    fn deal(&mut self, text: &[u8], objects: &[Object]) {
        for object in objects {
            self.stage(object.worker as usize, &text[object.start as usize..object.end as usize], 1);
        }
    }

    fn note(&mut self, worker: u32, record: &[u8]) {
        self.gaps += 1;
        self.stage(worker as usize, record, 0);
    }

    fn hand_over(&mut self) {
        for worker in 0..self.shards.len() {
            self.send(worker);
        }
    }

    fn totals(&self) -> TransportTotals {
        TransportTotals {
            handed: self.sent.load(Ordering::Relaxed),
            gaps: self.gaps,
            dropped: self.dropped,
            ..TransportTotals::default()
        }
    }

    fn report(&mut self) -> Option<TransportError> {
        self.report.take()
    }

    /// Sends what is left, for so long at most.
    fn finish(&mut self, patience: Duration) -> Result<TransportSummary, TransportError> {
        self.hand_over();
<<<<<<< HEAD:crates/splitter/src/publish.rs
        let is_whole = self.batches.finish(patience);
        let summary = Summary { totals: self.totals(), ..Summary::default() };
=======
        self.batches = None;
        let told = self.ended.recv_timeout(patience);
        if !matches!(told, Err(RecvTimeoutError::Timeout))
            && let Some(thread) = self.thread.take()
        {
            // It has said that it ends, or it panicked: then what it had is lost, as counted below.
            let _ = thread.join();
        }
        let summary = TransportSummary { totals: self.totals(), ..TransportSummary::default() };
        let is_whole = told.is_ok() && !self.lost.load(Ordering::Relaxed);
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
        if is_whole {
            return Ok(summary);
        }
        Err(TransportError::new(
            format!("NATS did not take everything before the end; {} objects were sent", summary.totals.handed),
            "look at the NATS server; consumers see what they miss by its numbers",
        ))
    }
}

<<<<<<< HEAD:crates/splitter/src/publish.rs
impl From<pitwire_failure::Failure> for Failure {
    fn from(failure: pitwire_failure::Failure) -> Self {
        let (what, remedy) = failure.into_parts();
        Failure::new(what, remedy.unwrap_or_default())
    }
}

/// Encodes batches and position messages on the publishing thread.
struct BatchEncoder {
    epoch: u64,
    /// Subject of each shard.
    subjects: Vec<String>,
=======
/// A subject's part: no spaces, no wildcards, no empty tokens.
fn check_prefix(prefix: &str) -> Result<(), TransportError> {
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if prefix.split('.').all(is_token) {
        return Ok(());
    }
    let what = format!("{prefix:?} is no first part of a NATS subject");
    Err(TransportError::new(what, "use letters, digits, - and _, in parts joined by dots, for example pitwire.trades"))
}

/// The thread: its runtime serves one connection and nothing else.
struct PublishTask {
    publication: Publication,
    waiting: mpsc::Receiver<NatsBatch>,
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
    next: Arc<[AtomicU64]>,
    sent: Arc<AtomicU64>,
}

<<<<<<< HEAD:crates/splitter/src/publish.rs
impl BatchEncoder {
    fn new(publication: &Publication, next: Arc<[AtomicU64]>, sent: Arc<AtomicU64>) -> Self {
        let Publication { prefix, epoch, workers, .. } = publication;
        let subjects = (0..*workers).map(|shard| format!("{prefix}.{epoch}.{shard}")).collect();
        BatchEncoder { epoch: *epoch, subjects, next, sent }
    }

    fn headers(&self, first: u64, records: u64) -> Vec<(&'static str, String)> {
        vec![
            ("Pitwire-Epoch", self.epoch.to_string()),
            ("Pitwire-First", first.to_string()),
            ("Pitwire-Count", records.to_string()),
        ]
=======
impl PublishTask {
    fn run(self, ready: impl FnOnce(Result<(), TransportError>)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.publish(ready)),
            Err(error) => {
                ready(Err(TransportError::new(format!("no runtime for --publish: {error}"), "allow more open files")))
            }
        }
    }

    async fn publish(mut self, ready: impl FnOnce(Result<(), TransportError>)) {
        let client = match connect(&self.publication.url).await {
            Ok(client) => client,
            Err(failure) => return ready(Err(failure)),
        };
        ready(Ok(()));
        let subjects: Vec<String> = (0..self.publication.workers)
            .map(|shard| format!("{}.{}.{shard}", self.publication.prefix, self.publication.epoch))
            .collect();
        let mut marks = tokio::time::interval(MARK);
        marks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                batch = self.waiting.recv() => match batch {
                    Some(batch) => self.send(&client, &subjects, batch).await,
                    None => break,
                },
                _ = marks.tick() => self.mark(&client, &subjects).await,
            }
        }
        self.mark(&client, &subjects).await;
        if client.flush().await.is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
    }
}

<<<<<<< HEAD:crates/splitter/src/publish.rs
impl pitwire_nats::Publication for BatchEncoder {
    type Batch = Batch;

    fn message(&self, batch: &mut Batch) -> Option<NatsMessage> {
        let subject = self.subjects.get(batch.shard)?.clone();
=======
    async fn send(&self, client: &Client, subjects: &[String], batch: NatsBatch) {
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
        let headers = self.headers(batch.first, batch.records);
        Some(NatsMessage { subject, headers, payload: mem::take(&mut batch.bytes) })
    }

    fn finished(&self, batch: Batch, is_sent: bool) {
        if is_sent {
            self.sent.fetch_add(batch.objects, Ordering::Relaxed);
        }
    }

    /// Returns one empty message per shard with the number of its next record. A consumer that has
    /// not received the record before it has missed something.
    fn positions(&self) -> Vec<NatsMessage> {
        let position = |(subject, next): (&String, &AtomicU64)| NatsMessage {
            subject: subject.clone(),
            headers: self.headers(next.load(Ordering::Acquire), 0),
            payload: Vec::new(),
        };
        self.subjects.iter().zip(self.next.iter()).map(position).collect()
    }
<<<<<<< HEAD:crates/splitter/src/publish.rs
=======

    fn headers(&self, first: u64, records: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("Pitwire-Epoch", self.publication.epoch.to_string());
        headers.insert("Pitwire-First", first.to_string());
        headers.insert("Pitwire-Count", records.to_string());
        headers
    }
}

async fn connect(url: &str) -> Result<Client, TransportError> {
    let told = |what: String| TransportError::new(what, REMEDY_REACH);
    if !["nats://", "tls://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(told(format!("--publish {} is no NATS address", without_password(url))));
    }
    let options = ConnectOptions::new()
        .name("pitwire split")
        .connection_timeout(CONNECT)
        .client_capacity(CLIENT_CAPACITY)
        .event_callback(|event| async move {
            match event {
                Event::Connected => tracing::info!("publish: connected to NATS"),
                Event::Disconnected => tracing::warn!("publish: NATS is away; trying again"),
                other => tracing::warn!("publish: NATS says: {other}"),
            }
        });
    let connected = tokio::time::timeout(CONNECT, options.connect(url)).await;
    match connected {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(told(format!("cannot publish to {}: {error}", without_password(url)))),
        Err(_) => Err(told(format!("{} does not answer as a NATS server", without_password(url)))),
    }
}

/// A message must not show a password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    rest.rsplit_once('@').map_or_else(|| url.to_string(), |(_, host)| format!("{scheme}://…@{host}"))
>>>>>>> 17a3fd9 (splitter, feed, shard, load-generator: field vocabulary):crates/splitter/src/nats_publisher.rs
}

#[cfg(test)]
mod tests;
