//! The venue's side: encodes events on the venue thread and hands messages to the feed thread.
//!
//! Holds       1. [`OrderFeed::observe`] and [`OrderFeed::release`] never wait;
//!             2. no message leaves before [`OrderFeed::release`], which follows the commit;
//!             3. at most [`MAX_QUEUED_BYTES`] wait, plus one restart. Above it, messages are
//!                dropped; once the queue is empty, the feed sends the state of all books again.
//! Start at    [`OrderFeed::start`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use pitwire_engine::Engine;
use pitwire_model::{Event, VenueNanos};
use pitwire_net::Waker;
use pitwire_order_feed::OrderFeedEncoder;
use tracing::warn;

use crate::counters::{FeedCounters, count};
use crate::feed_thread::{self, FeedAddresses};

/// Most bytes of messages that wait for the feed thread.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// The feed of a venue. Dropping it sends the messages that wait, and ends its thread.
pub struct OrderFeed {
    encoder: OrderFeedEncoder,
    /// Messages since the last release.
    messages: Vec<u8>,
    /// Whether messages were dropped. The encoder then pauses until the queue is empty.
    is_behind: bool,
    queue: Option<Sender<Vec<u8>>>,
    /// Wakes the feed thread.
    waker: Waker,
    max_queued_bytes: usize,
    counters: Arc<FeedCounters>,
    recovery: SocketAddr,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl OrderFeed {
    /// Starts the feed thread and sends the state of all books. `at` is venue time.
    ///
    /// # Errors
    ///
    /// Fails if a UDP socket cannot be opened or the thread cannot start.
    pub fn start(addresses: FeedAddresses, engine: &Engine, at: VenueNanos) -> io::Result<OrderFeed> {
        let recovery = addresses.recovery.local_addr()?;
        let counters = Arc::new(FeedCounters::default());
        let encoding = addresses.recovery.encoding();
        let (waker, (queue, batches)) = (Waker::default(), channel());
        let thread = feed_thread::spawn(addresses, batches, &waker, Arc::clone(&counters))?;
        for market in engine.markets().iter().filter(|market| !encoding.includes(&market.spec)) {
            warn!(
                instrument = %market.spec.name,
                tick = %market.spec.tick,
                "the order feed leaves an instrument out: its prices need too many decimals"
            );
        }
        let mut messages = Vec::new();
        let encoder = OrderFeedEncoder::start_for(encoding, engine, at, &mut messages);
        let mut feed = OrderFeed {
            encoder,
            messages,
            is_behind: false,
            queue: Some(queue),
            waker,
            max_queued_bytes: MAX_QUEUED_BYTES,
            counters,
            recovery,
            thread: Some(thread),
        };
        feed.hand_over();
        Ok(feed)
    }

    /// Returns the address of the recovery port.
    pub fn recovery_address(&self) -> SocketAddr {
        self.recovery
    }

    /// HOT. Takes the events of one command. `engine` is the state after it.
    pub fn observe(&mut self, at: VenueNanos, events: &[Event], engine: &Engine) {
        if !self.is_behind {
            self.encoder.observe(at, events, engine, &mut self.messages);
        }
    }

    /// Hands the messages of committed commands to the feed thread.
    pub fn release(&mut self, engine: &Engine, at: VenueNanos) {
        let queued = self.counters.queued_bytes.load(Ordering::Relaxed);
        if self.is_behind {
            if queued > 0 {
                return;
            }
            self.is_behind = false;
            self.encoder.restart(engine, at, &mut self.messages);
        } else if queued > 0 && queued.saturating_add(self.messages.len()) > self.max_queued_bytes {
            warn!(queued, "the feed thread is behind: dropping messages of the order feed until it has caught up");
            count(&self.counters.restarts);
            self.is_behind = true;
            self.messages = Vec::new();
            return;
        }
        self.hand_over();
    }

    fn hand_over(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let messages = std::mem::take(&mut self.messages);
        self.counters.queued_bytes.fetch_add(messages.len(), Ordering::Relaxed);
        match self.queue.as_ref().map(|queue| queue.send(messages)) {
            Some(Ok(())) => self.waker.wake(),
            Some(Err(_)) => {
                warn!("the feed thread has ended: the order feed stops");
                self.queue = None;
            }
            None => {}
        }
    }

    /// Whether [`OrderFeed::release`] must be called again although nothing happens in the venue.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Returns the bytes of messages that wait for the feed thread.
    pub fn queued_bytes(&self) -> usize {
        self.counters.queued_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of messages that were sent.
    pub fn sent_messages(&self) -> u64 {
        self.counters.messages.load(Ordering::Relaxed)
    }

    /// Appends the counters in the text format of Prometheus.
    pub fn render(&self, out: &mut String) {
        self.counters.render(out);
    }
}

impl Drop for OrderFeed {
    fn drop(&mut self) {
        self.queue = None;
        self.waker.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the feed thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pitwire_fixtures::{add_currencies, open_market, share};
    use pitwire_model::{Command, Decimal, InstrumentSpec, Phase, Seq, SequencedCommand};
    use pitwire_order_feed::{MitchMessage, UnitMessages};

    use super::*;

    fn apply(engine: &mut Engine, commands: impl IntoIterator<Item = Command>) -> Vec<Event> {
        let mut events = Vec::new();
        for (seq, command) in (1..).zip(commands) {
            engine.apply(&SequencedCommand { seq: Seq(seq), at: VenueNanos(seq), command }, &mut events);
        }
        events
    }

    fn names(batch: &[u8]) -> Vec<&'static str> {
        UnitMessages::of(batch).map(|message| message.as_ref().map_or("?", MitchMessage::name)).collect()
    }

    #[test]
    fn a_full_queue_drops_messages_and_then_gets_the_whole_state() {
        let (queue, batches) = channel();
        let counters = Arc::new(FeedCounters::default());
        let mut engine = Engine::new();
        let mut feed = OrderFeed {
            encoder: OrderFeedEncoder::default(),
            messages: Vec::new(),
            is_behind: false,
            queue: Some(queue),
            waker: Waker::default(),
            max_queued_bytes: 10,
            counters: Arc::clone(&counters),
            recovery: ([127, 0, 0, 1], 1).into(),
            thread: None,
        };
        let at = VenueNanos(5);
        let day = [Event::DayEnded];
        feed.observe(at, &day, &engine);
        feed.release(&engine, at);
        let batch = batches.try_recv().unwrap();
        assert_eq!(names(&batch), ["Time", "System Event"], "an empty queue takes a batch of any size");
        // The feed thread has not finished the first batch.
        feed.observe(at, &day, &engine);
        feed.release(&engine, at);
        assert!(feed.is_behind());
        apply(&mut engine, open_market(share()));
        feed.observe(at, &day, &engine);
        feed.release(&engine, at);
        assert!(batches.try_recv().is_err());
        counters.queued_bytes.store(0, Ordering::Relaxed);
        feed.release(&engine, at);
        let names = names(&batches.try_recv().unwrap());
        assert_eq!(names, ["Time", "Symbol Directory", "Symbol Status", "Order Book Clear"]);
        assert!(!feed.is_behind());
        assert_eq!(counters.restarts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_instrument_with_finer_ticks_than_the_format_is_left_out() {
        let spec = InstrumentSpec { tick: Decimal::new(1, 9), lot: Decimal::new(10, 0), ..share() };
        assert!(OrderFeedEncoder::includes(&share()) && !OrderFeedEncoder::includes(&spec));
        let instrument = spec.id;
        let open = Command::SetPhase { instrument, phase: Phase::Continuous };
        let mut engine = Engine::new();
        let mut messages = Vec::new();
        let mut encoder = OrderFeedEncoder::start(&engine, VenueNanos(1), &mut messages);
        let commands = add_currencies(["NPN", "ZAR"], 8).chain([Command::AddInstrument(Box::new(spec)), open]);
        let events = apply(&mut engine, commands);
        assert!(events.iter().any(|event| matches!(event, Event::PhaseChanged { .. })), "{events:?}");
        encoder.observe(VenueNanos(9), &events, &engine, &mut messages);
        encoder.restart(&engine, VenueNanos(9), &mut messages);
        assert_eq!(names(&messages), [""; 0]);
    }
}
