//! Shards on NATS: what workers on other machines subscribe to.
//!
//! Does        batch each shard's records, number them, and publish them on `<prefix>.<epoch>.<shard>` from a thread of its own.
//! Holds       1. nothing here waits: what NATS does not take in time is dropped, counted, and visible to every consumer as a
//!                jump in the numbers;
//!             2. memory is bounded: [`BATCHES`] batches of about [`BATCH_BYTES`];
//!             3. a record's number is its place in its shard since the start, whether it was sent or dropped.
//! Leaves out  delivery: core NATS sends at most once. Consumers look at epoch and numbers (`docs/splitter.md`).
//! Start at    [`Publisher::open`].

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, HeaderMap};
use pitwire_feed::Object;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::transport::{Failure, Summary, Totals, Transport};

/// A batch is handed over when it has so many bytes, or when a read has been dealt.
const BATCH_BYTES: usize = 64 << 10;
/// Batches that wait for NATS: 16 MiB.
const BATCHES: usize = 256;
/// A server refuses more than this as one message, unless told otherwise.
const MESSAGE_MAX: usize = 1 << 20;
const HEADERS_MAX: usize = 256;
const CONNECT: Duration = Duration::from_secs(5);
/// How often a consumer is told how far its shard is, so that a loss at the end shows too.
const MARK: Duration = Duration::from_secs(1);
/// Messages that the client may hold beside the batches here.
const CLIENT_CAPACITY: usize = 16;
const REMEDY_REACH: &str = "start nats-server there, or correct --publish (for example nats://127.0.0.1:4222)";

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
pub struct Publisher {
    shards: Vec<Staged>,
    batches: Option<mpsc::Sender<Batch>>,
    /// The number that each shard's next record gets, for the marks.
    next: Arc<[AtomicU64]>,
    sent: Arc<AtomicU64>,
    dropped: u64,
    gaps: u64,
    is_dropping: bool,
    report: Option<Failure>,
    lost: Arc<AtomicBool>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// What has been dealt to a shard since its last batch.
#[derive(Default)]
struct Staged {
    bytes: Vec<u8>,
    first: u64,
    records: u64,
    objects: u64,
}

struct Batch {
    shard: usize,
    first: u64,
    records: u64,
    objects: u64,
    bytes: Vec<u8>,
}

impl Publisher {
    /// Connects; a server that is not there now is an error, one that goes away later is not.
    pub fn open(publication: Publication) -> Result<Publisher, Failure> {
        check_prefix(&publication.prefix)?;
        let workers = publication.workers as usize;
        let next: Arc<[AtomicU64]> = (0..workers).map(|_| AtomicU64::new(1)).collect();
        let (sent, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (batches, waiting) = mpsc::channel(BATCHES);
        let (ready, is_ready) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let worker =
            Worker { publication, waiting, next: Arc::clone(&next), sent: Arc::clone(&sent), lost: Arc::clone(&lost) };
        let thread = thread::Builder::new().name("publish".into()).spawn(move || {
            worker.run(|told| {
                // Whoever opened us waits for this.
                let _ = ready.send(told);
            });
            let _ = end.send(());
        });
        let thread =
            thread.map_err(|error| Failure::new(format!("no thread for --publish: {error}"), "allow more threads"))?;
        let told = is_ready
            .recv_timeout(2 * CONNECT)
            .unwrap_or_else(|_| Err(Failure::new("NATS did not answer in time".to_string(), REMEDY_REACH)));
        told?;
        let staged = |_| Staged { first: 1, ..Staged::default() };
        Ok(Publisher {
            shards: (0..workers).map(staged).collect(),
            batches: Some(batches),
            next,
            sent,
            dropped: 0,
            gaps: 0,
            is_dropping: false,
            report: None,
            lost,
            ended,
            thread: Some(thread),
        })
    }

    /// HOT.
    fn stage(&mut self, worker: usize, record: &[u8], objects: u64) {
        let Some(shard) = self.shards.get_mut(worker) else { return };
        let is_full = self.batches.as_ref().is_none_or(|batches| batches.capacity() == 0);
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
        let batch = Batch {
            shard: worker,
            first: shard.first,
            records: shard.records,
            objects: shard.objects,
            bytes: mem::replace(&mut shard.bytes, Vec::with_capacity(BATCH_BYTES)),
        };
        shard.first += shard.records;
        (shard.records, shard.objects) = (0, 0);
        let next = shard.first;
        let refused = match &self.batches {
            Some(batches) => batches.try_send(batch).err(),
            None => Some(TrySendError::Closed(batch)),
        };
        self.next[worker].store(next, Ordering::Release);
        match refused {
            None => {}
            Some(TrySendError::Full(batch) | TrySendError::Closed(batch)) => {
                self.dropped += batch.objects;
                self.begin_dropping();
            }
        }
    }

    fn begin_dropping(&mut self) {
        if !mem::replace(&mut self.is_dropping, true) {
            self.report = Some(Failure::new(
                "NATS does not take what is published, so it is dropped there; workers here are not affected",
                "look at the NATS server and the way to it; consumers see what they miss by its numbers",
            ));
        }
    }
}

impl Transport for Publisher {
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

    fn totals(&self) -> Totals {
        Totals {
            handed: self.sent.load(Ordering::Relaxed),
            gaps: self.gaps,
            dropped: self.dropped,
            ..Totals::default()
        }
    }

    fn report(&mut self) -> Option<Failure> {
        self.report.take()
    }

    /// Sends what is left, for so long at most.
    fn finish(&mut self, patience: Duration) -> Result<Summary, Failure> {
        self.hand_over();
        self.batches = None;
        let told = self.ended.recv_timeout(patience);
        if !matches!(told, Err(RecvTimeoutError::Timeout))
            && let Some(thread) = self.thread.take()
        {
            // It has said that it ends, or it panicked: then what it had is lost, as counted below.
            let _ = thread.join();
        }
        let summary = Summary { totals: self.totals(), ..Summary::default() };
        let is_whole = told.is_ok() && !self.lost.load(Ordering::Relaxed);
        if is_whole {
            return Ok(summary);
        }
        Err(Failure::new(
            format!("NATS did not take everything before the end; {} objects were sent", summary.totals.handed),
            "look at the NATS server; consumers see what they miss by its numbers",
        ))
    }
}

/// A subject's part: no spaces, no wildcards, no empty tokens.
fn check_prefix(prefix: &str) -> Result<(), Failure> {
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if prefix.split('.').all(is_token) {
        return Ok(());
    }
    let what = format!("{prefix:?} is no first part of a NATS subject");
    Err(Failure::new(what, "use letters, digits, - and _, in parts joined by dots, for example pitwire.trades"))
}

/// The thread: its runtime serves one connection and nothing else.
struct Worker {
    publication: Publication,
    waiting: mpsc::Receiver<Batch>,
    next: Arc<[AtomicU64]>,
    sent: Arc<AtomicU64>,
    lost: Arc<AtomicBool>,
}

impl Worker {
    fn run(self, ready: impl FnOnce(Result<(), Failure>)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.publish(ready)),
            Err(error) => {
                ready(Err(Failure::new(format!("no runtime for --publish: {error}"), "allow more open files")))
            }
        }
    }

    async fn publish(mut self, ready: impl FnOnce(Result<(), Failure>)) {
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
    }

    async fn send(&self, client: &Client, subjects: &[String], batch: Batch) {
        let headers = self.headers(batch.first, batch.records);
        let published = client.publish_with_headers(subjects[batch.shard].clone(), headers, batch.bytes.into()).await;
        match published {
            Ok(()) => _ = self.sent.fetch_add(batch.objects, Ordering::Relaxed),
            Err(error) => {
                self.lost.store(true, Ordering::Relaxed);
                tracing::warn!("publish: a batch of shard {} was not sent: {error}", batch.shard);
            }
        }
    }

    /// An empty message with the number to come: a consumer that has not seen the one before has missed something.
    async fn mark(&self, client: &Client, subjects: &[String]) {
        // First the numbers, then the queue: a batch is queued before its number shows, so with an empty queue every
        // number seen here has been sent or dropped. The other way round, a batch on its way would look like a loss.
        let next: Vec<u64> = self.next.iter().map(|next| next.load(Ordering::Acquire)).collect();
        if !self.waiting.is_empty() {
            return;
        }
        for (subject, next) in subjects.iter().zip(next) {
            let headers = self.headers(next, 0);
            if client.publish_with_headers(subject.clone(), headers, Vec::new().into()).await.is_err() {
                self.lost.store(true, Ordering::Relaxed);
            }
        }
    }

    fn headers(&self, first: u64, records: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("Pitwire-Epoch", self.publication.epoch.to_string());
        headers.insert("Pitwire-First", first.to_string());
        headers.insert("Pitwire-Count", records.to_string());
        headers
    }
}

async fn connect(url: &str) -> Result<Client, Failure> {
    let told = |what: String| Failure::new(what, REMEDY_REACH);
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
}

#[cfg(test)]
mod tests;
