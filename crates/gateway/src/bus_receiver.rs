//! The gateway's subscription to NATS: a thread that passes on messages with a valid MAC.
//!
//! Holds       1. A message without the right MAC is counted and goes no further.
//!             2. The thread never waits for the event loop. What does not fit into the queue is
//!                dropped; the gateway detects the gap and asks the venue for it.
//! Start at    [`BusReceiver::open`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use pitwire_failure::Failure;
use pitwire_nats::{
    FirstConnection, LinkState, NatsOptions, NatsSubscription, ReceiveOutcome, Wildcards, check_address, check_subject,
};

use crate::protocol::{Batch, BusKey};
use crate::reminder::Reminder;

/// Capacity of the queue to the event loop, in batches.
const QUEUE_CAPACITY: usize = 1_024;
/// A venue publishes at least every second. Silence longer than this is logged.
const SILENCE: Duration = Duration::from_secs(5);

/// An event from the venue.
#[derive(Debug)]
pub enum BusEvent {
    /// A batch with the right MAC.
    Batch(Vec<u8>),
    /// A position message with the venue's HTTP address. It may be a recording: see
    /// [`crate::Node::may_follow`].
    Venue { epoch: u64, url: String },
}

#[derive(Debug, Default)]
struct BusCounters {
    forged: AtomicU64,
    dropped: AtomicU64,
}

/// The event loop's end of the queue.
#[derive(Debug)]
pub struct BusReceiver {
    events: Receiver<BusEvent>,
    link: LinkState,
    counters: Arc<BusCounters>,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

impl BusReceiver {
    /// Subscribes in the background and calls `wake` for each event. The NATS server need not be
    /// up.
    ///
    /// # Errors
    ///
    /// The address or the subject is invalid, or no thread can be started.
    pub fn open(url: &str, subject: &str, key: BusKey, wake: Wake) -> Result<BusReceiver, Failure> {
        check_address(url)?;
        check_subject(subject, Wildcards::Refused)?;
        let options = NatsOptions {
            name: "pitwire gateway",
            first_connection: FirstConnection::Background,
            subscription_capacity: QUEUE_CAPACITY,
        };
        let subscription = NatsSubscription::open(url, subject, &options)?;
        let (sender, events) = sync_channel(QUEUE_CAPACITY);
        let (link, counters) = (subscription.link(), Arc::new(BusCounters::default()));
        let mut verifier = MessageVerifier {
            subject: subject.to_owned(),
            key,
            events: sender,
            wake,
            counters: Arc::clone(&counters),
            venue: (0, String::new()),
            silence_reminder: Reminder::default(),
            forgery_reminder: Reminder::default(),
        };
        let thread = thread::Builder::new().name("bus".into()).spawn(move || verifier.run(subscription));
        thread.map_err(|error| {
            Failure::new(format!("cannot start a NATS thread: {error}")).remedy("allow more threads")
        })?;
        Ok(BusReceiver { events, link, counters })
    }

    /// Returns the oldest queued event.
    pub fn next(&self) -> Option<BusEvent> {
        self.events.try_recv().ok()
    }

    pub fn is_connected(&self) -> bool {
        self.link.is_up()
    }

    /// Returns the number of messages that the venue did not seal.
    pub fn forged(&self) -> u64 {
        self.counters.forged.load(Ordering::Relaxed)
    }

    /// Returns the number of events that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }
}

struct MessageVerifier {
    subject: String,
    key: BusKey,
    events: SyncSender<BusEvent>,
    wake: Wake,
    counters: Arc<BusCounters>,
    /// Epoch and HTTP address in the latest position message.
    venue: (u64, String),
    silence_reminder: Reminder,
    forgery_reminder: Reminder,
}

impl MessageVerifier {
    fn run(&mut self, mut subscription: NatsSubscription) {
        loop {
            match subscription.receive(SILENCE, |_, payload| self.message(payload)) {
                ReceiveOutcome::Messages => {}
                ReceiveOutcome::Timeout if self.silence_reminder.is_due() => tracing::warn!(
                    subject = self.subject,
                    "no messages from a venue; does it run with --publish to this NATS server and with the same \
                     --publish-subject?"
                ),
                ReceiveOutcome::Timeout => {}
            }
        }
    }

    fn message(&mut self, payload: &[u8]) {
        let Some(content) = self.key.open(&self.subject, payload) else {
            self.counters.forged.fetch_add(1, Ordering::Relaxed);
            if self.forgery_reminder.is_due() {
                tracing::warn!(
                    subject = self.subject,
                    "received messages that the bus key does not open; is --bus-key a copy of the venue's?"
                );
            }
            return;
        };
        self.silence_reminder = Reminder::default();
        let Some(batch) = Batch::parse(content) else {
            self.counters.forged.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let is_position = batch.count == 0;
        if is_position && (self.venue.0 != batch.epoch || self.venue.1 != batch.about) {
            self.venue = (batch.epoch, batch.about.to_owned());
            self.queue(BusEvent::Venue { epoch: batch.epoch, url: batch.about.to_owned() });
        }
        self.queue(BusEvent::Batch(content.to_vec()));
    }

    fn queue(&self, event: BusEvent) {
        if self.events.try_send(event).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
        (self.wake)();
    }
}
