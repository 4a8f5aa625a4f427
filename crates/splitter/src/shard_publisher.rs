//! Shards on NATS, for workers on other machines.
//!
//! Does        batches each shard's records, numbers them, and publishes them on
//!             `<prefix>.<epoch>.<shard>` from its own thread.
//! Holds       1. nothing here blocks: what NATS does not accept in time is dropped and counted,
//!                and every consumer sees a jump in the numbers;
//!             2. memory is bounded: [`BATCHES`] batches of about [`BATCH_BYTES`];
//!             3. a record's number is its position in its shard since the start, whether it was
//!                sent or dropped.
//! Leaves out  guaranteed delivery: core NATS sends at most once. Consumers check epoch and numbers
//!             (`docs/splitter-formats.md`).
//! Start at    [`ShardPublisher::open`].

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

/// The records to publish, and their subjects.
#[derive(Clone, Debug)]
pub struct Publication {
    /// `nats://host:port`, optionally with `user:password@`; `tls://` for TLS.
    pub url: String,
    /// First part of every subject.
    pub prefix: String,
    /// When this splitter started, in nanoseconds since 1970. Numbers start again with a new epoch.
    pub epoch: u64,
    pub workers: u32,
}

/// The transport for `--publish`, in addition to the one for workers on this machine.
pub struct ShardPublisher {
    shards: Vec<PendingBatch>,
    batches: NatsPublisher<ShardBatch>,
    /// Number of each shard's next record, for the position messages.
    next: Arc<[AtomicU64]>,
    sent: Arc<AtomicU64>,
    dropped: u64,
    gaps: u64,
    is_dropping: bool,
    report: Option<TransportError>,
}

/// The records of a shard since its last batch.
#[derive(Default)]
struct PendingBatch {
    bytes: Vec<u8>,
    first: u64,
    records: u64,
    objects: u64,
}

struct ShardBatch {
    shard: usize,
    first: u64,
    records: u64,
    objects: u64,
    bytes: Vec<u8>,
}

impl ShardPublisher {
    /// Connects and starts the publishing thread.
    ///
    /// # Errors
    ///
    /// The address or the prefix is invalid, or the server does not answer. A server that goes away
    /// later is not an error: the client reconnects, and records are dropped meanwhile.
    pub fn open(publication: Publication) -> Result<ShardPublisher, TransportError> {
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
        Ok(ShardPublisher::new(workers, batches, next, sent))
    }

    fn new(
        workers: u32,
        batches: NatsPublisher<ShardBatch>,
        next: Arc<[AtomicU64]>,
        sent: Arc<AtomicU64>,
    ) -> ShardPublisher {
        ShardPublisher {
            shards: (0..workers).map(|_| PendingBatch { first: 1, ..PendingBatch::default() }).collect(),
            batches,
            next,
            sent,
            dropped: 0,
            gaps: 0,
            is_dropping: false,
            report: None,
        }
    }

    /// HOT. Adds a record to the batch of a shard, or drops it if NATS is too slow.
    fn stage(&mut self, worker: usize, record: &[u8], objects: u64) {
        let Some(shard) = self.shards.get_mut(worker) else { return };
        let is_full = self.batches.is_full();
        let too_long = record.len() + 4 + HEADERS_MAX > MESSAGE_MAX;
        if is_full || too_long {
            // Queues the batch before the drop, so that numbers stay in order.
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

    /// Queues a shard's batch for the thread, or drops it if the queue is full.
    fn send(&mut self, worker: usize) {
        let shard = &mut self.shards[worker];
        if shard.records == 0 {
            return;
        }
        let batch = ShardBatch {
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

impl Transport for ShardPublisher {
    fn send_objects(&mut self, text: &[u8], objects: &[Object]) {
        for object in objects {
            self.stage(object.worker as usize, &text[object.start as usize..object.end as usize], 1);
        }
    }

    fn send_note(&mut self, worker: u32, record: &[u8]) {
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

    /// Sends the remaining batches, within `patience`.
    fn finish(&mut self, patience: Duration) -> Result<TransportSummary, TransportError> {
        self.hand_over();
        let is_whole = self.batches.finish(patience);
        let summary = TransportSummary { totals: self.totals(), ..TransportSummary::default() };
        if is_whole {
            return Ok(summary);
        }
        Err(TransportError::new(
            format!("NATS did not take everything before the end; {} objects were sent", summary.totals.handed),
            "look at the NATS server; consumers see what they miss by its numbers",
        ))
    }
}

/// Encodes batches and position messages on the publishing thread.
struct BatchEncoder {
    epoch: u64,
    /// Subject of each shard.
    subjects: Vec<String>,
    next: Arc<[AtomicU64]>,
    sent: Arc<AtomicU64>,
}

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
    }
}

impl pitwire_nats::Publication for BatchEncoder {
    type Batch = ShardBatch;

    fn message(&self, batch: &mut ShardBatch) -> Option<NatsMessage> {
        let subject = self.subjects.get(batch.shard)?.clone();
        let headers = self.headers(batch.first, batch.records);
        Some(NatsMessage { subject, headers, payload: mem::take(&mut batch.bytes) })
    }

    fn finished(&self, batch: ShardBatch, is_sent: bool) {
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
}

#[cfg(test)]
mod tests;
