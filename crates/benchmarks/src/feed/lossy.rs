//! A reader behind two lines that lose datagrams.
//!
//! Holds       the sender waits for the reader. So the lines lose only the chosen share, and the
//!             datagrams that the system drops.
//! Start at    [`measure`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pitwire_failure::Failure;
use pitwire_model::VenueNanos;
use pitwire_order_feed_network::{
    FeedAddresses, FeedEncoding, FeedMessage, FeedReader, OrderFeed, ReaderCounts, ReaderOptions,
};
use pitwire_random::SplitMix64;

use super::{FeedRecording, defined_engine};

/// Messages that the reader may be behind before the sender waits.
const LEAD: u64 = 4_000;
/// Commands in one release of the feed.
const COMMANDS_PER_RELEASE: usize = 64;
/// Longest wait for the reader without progress.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_micros(50);

/// Figures of a run.
pub struct LossyRun {
    pub seconds: f64,
    /// Messages that the reader delivered, each once and in order.
    pub messages: u64,
    /// Datagrams that the lines lost.
    pub lost: [u64; 2],
    pub counts: ReaderCounts,
}

/// Sends a recording over two lines that lose `lost_percent` of their datagrams, and reads it.
///
/// # Errors
///
/// Fails if a socket fails, if the reader makes no progress, or if its book differs from the
/// encoded one.
pub fn measure(recording: &FeedRecording, lost_percent: u64, seed: u64) -> Result<LossyRun, Failure> {
    let ports = [0, 1].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let [a, b] = ports;
    let (a, b) = (a?, b?);
    let lines = vec![a.local_addr()?, b.local_addr()?];
    let recovery = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut engine = defined_engine();
    let mut feed = OrderFeed::start(FeedAddresses { lines, recovery: recovery.into() }, &engine, VenueNanos(0))?;
    let recovery = feed.recovery_address();
    let lines = vec![(Ipv4Addr::LOCALHOST, 0).into(); 2];
    let options = ReaderOptions { lines, recovery, encoding: FeedEncoding::Mitch, source: None, interface: None };
    let mut reader = FeedReader::join(options).map_err(|error| Failure::new(error.to_string()))?;
    let targets = reader.addresses().to_vec();
    let mut relays = Vec::new();
    for ((socket, target), line) in [a, b].into_iter().zip(targets).zip(0..) {
        relays.push(LossyRelay::start(socket, target, lost_percent, seed + line)?);
    }
    let read = Arc::new(AtomicU64::new(reader.next_number()));
    let end = Arc::new(AtomicU64::new(u64::MAX));
    let (progress, last) = (Arc::clone(&read), Arc::clone(&end));
    let started = Instant::now();
    let reading = thread::spawn(move || {
        let (mut expected, mut in_order) = (reader.next_number(), true);
        let mut moved_at = Instant::now();
        while reader.next_number() < last.load(Ordering::Relaxed) && moved_at.elapsed() < PATIENCE {
            let mut visit = |number, _: &FeedMessage| {
                in_order &= number == expected;
                expected = number + 1;
            };
            // A later poll joins again.
            drop(reader.poll(Duration::from_millis(1), &mut visit));
            if progress.swap(reader.next_number(), Ordering::Relaxed) != reader.next_number() {
                moved_at = Instant::now();
            }
        }
        (reader, in_order)
    });
    let mut events = Vec::new();
    for part in recording.commands.chunks(COMMANDS_PER_RELEASE) {
        for stamped in part {
            events.clear();
            engine.apply(stamped, &mut events);
            feed.observe(stamped.at, &events, &engine);
        }
        feed.release(&engine, VenueNanos(0));
        while !reading.is_finished()
            && (feed.queued_bytes() > 0 || feed.sent_messages() > read.load(Ordering::Relaxed) + LEAD)
        {
            thread::sleep(PAUSE);
        }
    }
    end.store(feed.sent_messages() + 1, Ordering::Relaxed);
    let (reader, in_order) = reading.join().map_err(|_| Failure::new("the reader panicked"))?;
    let seconds = started.elapsed().as_secs_f64();
    let counts = reader.counts();
    let is_whole = in_order && reader.next_number() == feed.sent_messages() + 1 && counts.snapshots == 1;
    if !is_whole || reader.books().checksum(0) != recording.checksum {
        return Err(Failure::new(format!(
            "the reader has {} of {} messages, and another book: {counts:?}",
            reader.next_number() - 1,
            feed.sent_messages()
        )));
    }
    let lost = [0, 1].map(|line| relays.get(line).map_or(0, LossyRelay::lost));
    Ok(LossyRun { seconds, messages: counts.messages, lost, counts })
}

/// Forwards datagrams to a reader and loses some of them.
struct LossyRelay {
    stops: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl LossyRelay {
    fn start(socket: UdpSocket, target: SocketAddr, lost_percent: u64, seed: u64) -> io::Result<LossyRelay> {
        socket.set_read_timeout(Some(Duration::from_millis(10)))?;
        let (stops, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, count) = (Arc::clone(&stops), Arc::clone(&lost));
        let thread = thread::spawn(move || {
            let (mut random, mut buffer) = (SplitMix64::new(seed), [0; 2_048]);
            while !stop.load(Ordering::Relaxed) {
                let Ok(length) = socket.recv(&mut buffer) else { continue };
                if random.remainder(100) < lost_percent {
                    count.fetch_add(1, Ordering::Relaxed);
                } else {
                    // A datagram that the system drops is requested again.
                    drop(socket.send_to(buffer.get(..length).unwrap_or_default(), target));
                }
            }
        });
        Ok(LossyRelay { stops, lost, thread: Some(thread) })
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for LossyRelay {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
