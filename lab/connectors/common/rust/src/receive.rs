//! The receive path: stamps messages, puts them into the ring, and reconnects.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use crate::event::{Counts, Envelope, Event, Item};
use crate::{CONNECT_FAILURE, DONE, Library, PROTOCOL_ERROR, REMOTE_CLOSE, Settings, monotonic_ns};

const GIVE_UP: Duration = Duration::from_secs(10);

/// Messages received so far, which the writer prints.
pub static RECEIVED: AtomicU64 = AtomicU64::new(0);

/// Why a connection ended.
pub enum End {
    Stopped,
    /// The server sent a close frame, with or without a code.
    Close(Option<u16>),
    Lost(String),
    /// The server violated the protocol.
    Protocol(String),
}

/// Takes the messages of one run.
pub struct Take<'a> {
    settings: &'a Settings,
    stop: &'a AtomicBool,
    ring: SyncSender<Item>,
    connection_id: i64,
    ring_waits: u64,
}

impl<'a> Take<'a> {
    pub(crate) fn new(settings: &'a Settings, stop: &'a AtomicBool, ring: SyncSender<Item>) -> Self {
        Take { settings, stop, ring, connection_id: 0, ring_waits: 0 }
    }

    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Stamps a message that is whole, and puts it into the ring.
    pub fn message(&mut self, payload: &[u8], is_binary: bool) {
        if self.settings.busy_wait_ns > 0 {
            let until_ns = monotonic_ns() + self.settings.busy_wait_ns;
            while monotonic_ns() < until_ns {
                std::hint::spin_loop();
            }
        }
        let received_ns = monotonic_ns();
        let envelope = if self.settings.has_envelope && !is_binary { Envelope::read(payload) } else { None };
        RECEIVED.fetch_add(1, Relaxed);
        self.put(Item::Event(Event {
            connection_id: self.connection_id,
            envelope,
            received_ns,
            length_bytes: payload.len(),
            is_binary,
            body: self.settings.keeps_payload.then(|| payload.to_vec()),
        }));
    }

    fn put(&mut self, item: Item) {
        if let Err(TrySendError::Full(item)) = self.ring.try_send(item) {
            self.ring_waits += 1;
            // The writer is gone only after an error, which it reports.
            let _ = self.ring.send(item);
        }
    }
}

pub struct Receiver<'a, L> {
    library: L,
    settings: &'a Settings,
    take: Take<'a>,
}

impl<'a, L: Library> Receiver<'a, L> {
    pub fn new(library: L, settings: &'a Settings, take: Take<'a>) -> Self {
        Receiver { library, settings, take }
    }

    /// Receives until the feed or the run is over. Returns the exit code.
    pub fn run(&mut self) -> u8 {
        let mut connection = match self.library.open(self.settings) {
            Ok(connection) => connection,
            Err(error) => {
                eprintln!("cannot connect to {}: {error}", self.settings.url);
                return CONNECT_FAILURE;
            }
        };
        loop {
            self.take.connection_id += 1;
            let connection_id = self.take.connection_id;
            self.take.put(Item::Open { connection_id, at_ns: monotonic_ns() });
            let end = self.library.receive(connection, &mut self.take);
            let at_ns = monotonic_ns();
            let (reason, close_code, exit_code) = match end {
                End::Stopped | End::Close(Some(1000)) => return DONE,
                End::Close(code) => ("close", code, REMOTE_CLOSE),
                End::Lost(what) => {
                    eprintln!("connection {connection_id} is lost: {what}");
                    ("lost", None, REMOTE_CLOSE)
                }
                End::Protocol(what) => {
                    eprintln!("connection {connection_id}: the server violated the protocol: {what}");
                    ("protocol", None, PROTOCOL_ERROR)
                }
            };
            self.take.put(Item::Gap { connection_id, reason, close_code, at_ns });
            if !self.settings.reconnects {
                return exit_code;
            }
            match self.reopen() {
                Some(again) => connection = again,
                None if self.take.is_stopped() => return DONE,
                None => return CONNECT_FAILURE,
            }
        }
    }

    /// Ends the ring. The writer stores what is in it.
    pub fn finish(self) -> Counts {
        Counts { received: RECEIVED.load(Relaxed), ring_waits: self.take.ring_waits, ended_ns: monotonic_ns() }
    }

    /// Tries again for ten seconds, at once and then every 50 to 200 ms.
    fn reopen(&mut self) -> Option<L::Connection> {
        let begun = Instant::now();
        while begun.elapsed() < GIVE_UP && !self.take.is_stopped() {
            if let Ok(connection) = self.library.open(self.settings) {
                return Some(connection);
            }
            // The low digits of the clock are random enough to spread several connectors.
            std::thread::sleep(Duration::from_millis(50 + monotonic_ns().unsigned_abs() / 1_000 % 150));
        }
        None
    }
}
