//! Delivery threads of a venue: started on first use, polled by the venue thread, stopped in the
//! background.
//!
//! Does        starts the threads, passes their connections' requests and disconnects to the venue
//!             thread, stops them on a separate thread.
//! Holds       1. delivery threads never wait for the venue thread: they queue events and wake it;
//!             2. the request queue is bounded, and a connection is not read while a request of it
//!                is unanswered.
//! Start at    [`DeliveryThreads::start`], [`DeliveryThreads::next_event`].

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use pitwire_net::{HttpResponse, Waker};
use pitwire_publisher::{
    ClientMessage, CloseCode, DeliveryHandler, LagAnswer, Options, OutboxReport, Publisher, Reply, Request, StreamId,
    SubscriberId, SubscriberLimits, SubscriberSetup, weight,
};
use tracing::error;

/// Capacity of the queue of requests that the venue thread has not read yet.
const REQUESTS_MAX: usize = 8_192;
/// Maximum requests handled in one turn of the venue thread, so that orders do not wait longer.
const REQUESTS_PER_TURN: usize = 32;
/// Maximum size of one request, and of all requests in one turn, in bytes. A request with 1,000
/// stream names needs less than half of it.
const REQUEST_BYTES: usize = 64 * 1024;
/// Maximum number of delivery threads. Each holds its own copy of every stream.
const MOST_THREADS: usize = 4;

pub struct DeliveryThreads {
    limits: SubscriberLimits,
    running: Option<Arc<Publisher>>,
    requests: Receiver<(SubscriberId, String)>,
    disconnects: Receiver<(u64, ThreadEvent)>,
    lagging: Receiver<LagReport>,
    outboxes: Receiver<OutboxReport>,
    /// Disconnects to report, each with the number of requests queued before it.
    pending_disconnects: VecDeque<(u64, ThreadEvent)>,
    /// Lagging subscribers to bring up to date, each at most once per stream.
    behind: VecDeque<LagReport>,
    /// Number of requests that the venue thread has taken from the queue.
    taken: u64,
    inbound: Arc<InboundQueue>,
    stop_thread: Option<JoinHandle<()>>,
}

/// The delivery threads' end of the queues to the venue thread.
struct InboundQueue {
    requests: SyncSender<(SubscriberId, String)>,
    /// Number of requests queued, including those about to be queued.
    queued: AtomicU64,
    disconnects: Sender<(u64, ThreadEvent)>,
    lagging: Sender<LagReport>,
    outboxes: Sender<OutboxReport>,
    waker: Waker,
}

impl DeliveryHandler for InboundQueue {
    /// Refuses connections: delivery threads only serve sockets that the venue thread hands off.
    fn open(&self, _: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        Err(HttpResponse::text(404, "connect to the venue's own port"))
    }

    fn received(&self, from: SubscriberId, message: ClientMessage<'_>, reply: &mut Reply) {
        match message {
            ClientMessage::Text(text) if text.len() > REQUEST_BYTES => {
                reply.close(CloseCode::TooBig, "a request is at most 64 KiB")
            }
            ClientMessage::Text(text) if self.enqueue(from, text) => {
                reply.wait();
                self.waker.wake();
            }
            ClientMessage::Text(_) => {
                reply.close(CloseCode::TryAgainLater, "too many requests: connect again in a moment")
            }
            ClientMessage::Binary(_) => reply.close(CloseCode::Unsupported, "send JSON as text frames"),
        }
    }

    fn behind(&self, who: SubscriberId, stream: StreamId, read: u64) {
        // The send fails only if the venue thread has ended; then the answer no longer matters.
        if self.lagging.send(LagReport { who, stream, read }).is_ok() {
            self.waker.wake();
        }
    }

    fn outbox_sent(&self, report: OutboxReport) {
        // The send fails only if the venue thread has ended.
        if self.outboxes.send(report).is_ok() {
            self.waker.wake();
        }
    }

    fn disconnected(&self, from: SubscriberId) {
        self.leaves(ThreadEvent::Left(from));
    }
}

impl InboundQueue {
    fn enqueue(&self, from: SubscriberId, text: &str) -> bool {
        // Count before sending, so that a disconnect that follows this request never carries a
        // lower count.
        self.queued.fetch_add(1, Ordering::SeqCst);
        let is_queued = self.requests.try_send((from, text.to_owned())).is_ok();
        if !is_queued {
            self.queued.fetch_sub(1, Ordering::SeqCst);
        }
        is_queued
    }

    fn leaves(&self, how: ThreadEvent) {
        // The send fails only if the venue thread has ended; then the disconnect no longer matters.
        if self.disconnects.send((self.queued.load(Ordering::SeqCst), how)).is_ok() {
            self.waker.wake();
        }
    }
}

/// A subscriber that has fallen behind on a stream with
/// [`LagPolicy::Ask`](pitwire_publisher::LagPolicy::Ask). The venue thread answers with
/// [`Order::LagAnswer`], unless the subscriber disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagReport {
    pub who: SubscriberId,
    pub stream: StreamId,
    /// The number of the last message that the subscriber received.
    pub read: u64,
}

/// Requests and bytes that the current turn of the venue thread may still handle.
pub struct TurnBudget {
    texts: usize,
    bytes: usize,
    has_begun: bool,
}

impl TurnBudget {
    /// Ends the turn: the requests that are left wait for the next one.
    pub fn spend(&mut self) {
        self.texts = 0;
    }
}

/// An event of a connection on a delivery thread. The disconnect comes after all requests of that
/// connection.
pub enum ThreadEvent {
    /// A request. Answer it with [`Order::Acknowledge`], otherwise the connection's input stays
    /// paused.
    Text(SubscriberId, String),
    Left(SubscriberId),
}

impl Default for TurnBudget {
    fn default() -> Self {
        TurnBudget { texts: REQUESTS_PER_TURN, bytes: REQUEST_BYTES, has_begun: false }
    }
}

/// A control message to the delivery threads, in order with the stream messages.
pub enum Order {
    Adopt(Box<AdoptedSocket>),
    Send(SubscriberId, Vec<u8>),
    Join(SubscriberId, StreamId),
    Leave(SubscriberId, StreamId),
    /// Starts a stream without subscribers: its next message follows this number.
    Begin(StreamId, u64),
    LagAnswer(LagReport, LagAnswer),
    Close(SubscriberId, CloseCode, String),
    /// Acknowledges a request of this many bytes whose answers have been sent: the next one may be
    /// read.
    Acknowledge(SubscriberId, usize),
}

/// A socket handed off to a delivery thread.
pub struct AdoptedSocket {
    pub socket: TcpStream,
    pub tls: Option<pitwire_net::Session>,
    pub tag: SubscriberId,
    /// Bytes read after the handshake.
    pub rest: Vec<u8>,
    /// The handshake response, if it has not been sent yet.
    pub hello: Vec<u8>,
    pub opening: SubscriberSetup,
}

impl Order {
    pub fn carry_out(self, delivery: &Publisher) {
        match self {
            Order::Adopt(adopted) => {
                let AdoptedSocket { socket, tls, tag, rest, hello, opening } = *adopted;
                delivery.adopt_open(socket, tls, tag, rest, hello, opening);
            }
            Order::Send(tag, payload) => delivery.send_text(tag, &payload),
            Order::Join(tag, ring) => delivery.join(tag, ring),
            Order::Leave(tag, ring) => delivery.leave(tag, ring),
            Order::Begin(ring, number) => delivery.restart(ring, number),
            Order::LagAnswer(LagReport { who, stream, read }, how) => delivery.go_on(who, stream, read, how),
            Order::Close(tag, code, reason) => delivery.close(tag, code, &reason),
            Order::Acknowledge(tag, bytes) => delivery.processed(tag, weight(bytes)),
        }
    }
}

impl DeliveryThreads {
    /// Creates the queues; no thread starts yet. `waker` wakes the venue thread, which calls
    /// [`Self::next_event`].
    pub fn new(limits: SubscriberLimits, waker: &Waker) -> DeliveryThreads {
        let ((request, requests), (disconnect, disconnects)) = (sync_channel(REQUESTS_MAX), channel());
        let ((lag, lagging), (outbox, outboxes)) = (channel(), channel());
        let inbound = InboundQueue {
            requests: request,
            queued: AtomicU64::new(0),
            disconnects: disconnect,
            lagging: lag,
            outboxes: outbox,
            waker: waker.clone(),
        };
        DeliveryThreads {
            limits,
            running: None,
            requests,
            disconnects,
            lagging,
            outboxes,
            pending_disconnects: VecDeque::new(),
            behind: VecDeque::new(),
            taken: 0,
            inbound: Arc::new(inbound),
            stop_thread: None,
        }
    }

    /// Returns the delivery threads and starts them on first use.
    ///
    /// # Errors
    /// A text for the client, if the threads cannot be started.
    pub fn start(&mut self) -> Result<Arc<Publisher>, String> {
        if let Some(delivery) = &self.running {
            return Ok(Arc::clone(delivery));
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let delivery = cores.saturating_sub(1).clamp(1, MOST_THREADS);
        let options = Options { threads: delivery, limits: self.limits.clone(), ..Options::default() };
        let handler: Arc<dyn DeliveryHandler> = Arc::clone(&self.inbound) as _;
        match Publisher::start(options, handler) {
            Ok(delivery) => Ok(Arc::clone(self.running.insert(Arc::new(delivery)))),
            Err(error) => {
                error!(%error, "cannot start the threads that serve streams");
                Err("streams cannot be served just now".into())
            }
        }
    }

    pub fn running(&self) -> Option<&Arc<Publisher>> {
        self.running.as_ref()
    }

    /// Returns the next event, or `None` if there is none or the turn's budget is spent. In the
    /// second case it wakes the venue thread, so that the next turn follows at once.
    pub fn next_event(&mut self, budget: &mut TurnBudget) -> Option<ThreadEvent> {
        if !std::mem::replace(&mut budget.has_begun, true) {
            // Requests sent before these disconnects are in the queue by now, so they can be
            // handled first.
            self.pending_disconnects.extend(self.disconnects.try_iter());
        }
        // All requests of this connection have been handled, so report its disconnect now. Requests
        // of other connections may still be waiting.
        if let Some((_, disconnect)) = self.pending_disconnects.pop_front_if(|(queued, _)| *queued <= self.taken) {
            return Some(disconnect);
        }
        if budget.texts == 0 || budget.bytes == 0 {
            self.inbound.waker.wake();
            return None;
        }
        match self.requests.try_recv() {
            Ok((tag, text)) => {
                self.taken += 1;
                budget.texts -= 1;
                budget.bytes = budget.bytes.saturating_sub(text.len());
                Some(ThreadEvent::Text(tag, text))
            }
            Err(_) => self.pending_disconnects.pop_front().map(|(_, disconnect)| disconnect),
        }
    }

    /// Returns the next report of an outbound queue.
    pub fn next_outbox(&mut self) -> Option<OutboxReport> {
        self.outboxes.try_recv().ok()
    }

    /// Returns the next lagging subscriber to bring up to date.
    pub fn next_behind(&mut self) -> Option<LagReport> {
        self.behind.extend(self.lagging.try_iter());
        self.behind.pop_front()
    }

    /// Returns a lagging subscriber to the front of the queue and wakes the venue thread for the
    /// next turn.
    pub fn put_off(&mut self, behind: LagReport) {
        self.behind.push_front(behind);
        self.inbound.waker.wake();
    }

    /// Closes all connections on a separate thread, because slow peers may delay it. Dropping
    /// `self` waits for it to finish.
    pub fn stop(&mut self, reason: &'static str) {
        let Some(delivery) = self.running.take() else { return };
        let stop = move || {
            if let Err(error) = delivery.stop(reason) {
                error!(%error, "a thread that served streams has failed");
            }
        };
        self.stop_thread = std::thread::Builder::new().name("delivery".into()).spawn(stop).ok();
    }
}

impl Drop for DeliveryThreads {
    fn drop(&mut self) {
        if let Some(thread) = self.stop_thread.take() {
            // The thread has logged its own errors.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the events of one turn: the connection number for a request, its negative for a
    /// disconnect.
    fn turn(delivery: &mut DeliveryThreads) -> Vec<i64> {
        let mut budget = TurnBudget::default();
        let number = |SubscriberId(id)| i64::try_from(id).unwrap();
        std::iter::from_fn(|| delivery.next_event(&mut budget))
            .map(|event| match event {
                ThreadEvent::Text(tag, _) => number(tag),
                ThreadEvent::Left(tag) => -number(tag),
            })
            .collect()
    }

    #[test]
    fn disconnect_follows_own_requests_only() {
        let mut delivery = DeliveryThreads::new(SubscriberLimits::default(), &Waker::default());
        let inbound = Arc::clone(&delivery.inbound);
        assert!((0..10).all(|_| inbound.enqueue(SubscriberId(1), "a") && inbound.enqueue(SubscriberId(2), "b")));
        inbound.leaves(ThreadEvent::Left(SubscriberId(1)));
        assert!((0..100).all(|_| inbound.enqueue(SubscriberId(2), "b")));
        let first = turn(&mut delivery);
        let at = first.iter().position(|number| *number == -1).expect("it has left");
        assert_eq!((at, first.iter().filter(|number| **number == 1).count()), (20, 10));
        assert_eq!(first.len(), REQUESTS_PER_TURN + 1);
        // A request that found the queue full does not delay a disconnect.
        while inbound.enqueue(SubscriberId(2), "b") {}
        inbound.leaves(ThreadEvent::Left(SubscriberId(3)));
        let rest: Vec<i64> = (0..REQUESTS_MAX / REQUESTS_PER_TURN + 2).flat_map(|_| turn(&mut delivery)).collect();
        assert_eq!((rest.len(), rest.last()), (REQUESTS_MAX + 1, Some(&-3)));
    }
}
