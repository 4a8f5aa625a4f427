//! The venue's publisher: seals batches and publishes them on NATS.
//!
//! Does        Queues batches for a thread that adds the MAC and publishes them. Once a second it
//!             publishes a position message, so that gateways also detect a loss at the end.
//! Holds       1. [`VenuePublisher::send`] never blocks. A batch that does not fit is dropped and
//!                counted; gateways detect the gap and ask the venue for it.
//!             2. Memory is bounded: [`QUEUE_CAPACITY`] batches.
//! Leaves out  Durability. The caller passes only events that are already in the journal.
//! Start at    [`VenuePublisher::open`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pitwire_failure::Failure;
use pitwire_nats::{
    FirstConnection, NatsMessage, NatsOptions, NatsPublisher, Publication, Wildcards, check_address, check_subject,
};

use crate::protocol::{BusKey, MAC_BYTES, mark};

/// Capacity of the queue in batches.
const QUEUE_CAPACITY: usize = 1_024;
/// Largest message in bytes. A NATS server refuses messages above 1 MiB by default.
const MESSAGE_MAX: usize = (1 << 20) - 512;

/// Where and how the venue publishes.
#[derive(Clone, Debug)]
pub struct VenuePublication {
    /// `nats://HOST:PORT`, with `USER:PASSWORD@` if the server asks for it; `tls://` for TLS.
    pub url: String,
    pub subject: String,
    /// Start of the venue in milliseconds since 1970.
    pub epoch: u64,
    /// HTTP address of the venue, sent in position messages.
    pub venue_url: String,
    pub key: BusKey,
}

#[derive(Debug)]
struct PublicationState {
    /// Sequence of the next message, for position messages.
    next: AtomicU64,
    sent: AtomicU64,
    unsent: AtomicU64,
}

/// Publishes batches from the venue thread.
#[derive(Debug)]
pub struct VenuePublisher {
    batches: NatsPublisher<Arc<[u8]>>,
    state: Arc<PublicationState>,
}

impl VenuePublisher {
    /// Starts the publishing thread. The NATS server need not be up: the thread keeps trying.
    ///
    /// # Errors
    ///
    /// The address or the subject is invalid, or no thread can be started.
    pub fn open(publication: VenuePublication) -> Result<VenuePublisher, Failure> {
        check_address(&publication.url)?;
        check_subject(&publication.subject, Wildcards::Refused)?;
        let options = NatsOptions {
            name: "pitwire up",
            first_connection: FirstConnection::Background,
            subscription_capacity: QUEUE_CAPACITY,
        };
        let (next, sent, unsent) = (AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0));
        let state = Arc::new(PublicationState { next, sent, unsent });
        let url = publication.url.clone();
        let encoder = BatchSealer { publication, state: Arc::clone(&state) };
        let batches = NatsPublisher::open(&url, &options, "bus", QUEUE_CAPACITY, encoder)?;
        Ok(VenuePublisher { batches, state })
    }

    /// Queues a batch. `next` is the sequence of the first message after it.
    pub fn send(&self, batch: Arc<[u8]>, next: u64) {
        if self.batches.push(batch).is_err() {
            self.state.unsent.fetch_add(1, Ordering::Relaxed);
        }
        // After the batch is queued: see `Publication::positions`.
        self.state.next.store(next, Ordering::Release);
    }

    pub fn is_connected(&self) -> bool {
        self.batches.is_connected()
    }

    /// Returns the number of batches sent, and of those dropped.
    pub fn counts(&self) -> (u64, u64) {
        (self.state.sent.load(Ordering::Relaxed), self.state.unsent.load(Ordering::Relaxed))
    }
}

struct BatchSealer {
    publication: VenuePublication,
    state: Arc<PublicationState>,
}

impl BatchSealer {
    fn sealed(&self, mut content: Vec<u8>) -> NatsMessage {
        let VenuePublication { subject, key, .. } = &self.publication;
        key.seal(subject, &mut content);
        NatsMessage { subject: subject.clone(), headers: Vec::new(), payload: content }
    }
}

impl Publication for BatchSealer {
    type Batch = Arc<[u8]>;

    fn message(&self, batch: &mut Arc<[u8]>) -> Option<NatsMessage> {
        let mut content = Vec::with_capacity(batch.len() + MAC_BYTES);
        content.extend_from_slice(batch);
        Some(self.sealed(content)).filter(|message| message.payload.len() <= MESSAGE_MAX)
    }

    fn finished(&self, _batch: Arc<[u8]>, is_sent: bool) {
        let count = if is_sent { &self.state.sent } else { &self.state.unsent };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn positions(&self) -> Vec<NatsMessage> {
        let next = self.state.next.load(Ordering::Acquire);
        vec![self.sealed(mark(self.publication.epoch, next, &self.publication.venue_url))]
    }
}
