//! The receive path: reads the socket, stamps messages and puts them into the ring.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use pitwire_websocket::{CloseCode, Decoder, IncomingMessage, MessageLimits, Opcode};

use crate::connect::{open, send};
use crate::event::{Counts, Envelope, Event, Item};
use crate::{CONNECT_FAILURE, DONE, PROTOCOL_ERROR, REMOTE_CLOSE, Settings, monotonic_ns};

const LIMITS: MessageLimits = MessageLimits { message_bytes: 16 << 20, fragments: 1 << 20 };
const GIVE_UP: Duration = Duration::from_secs(10);

/// Messages received so far, which the writer prints.
pub static RECEIVED: AtomicU64 = AtomicU64::new(0);

enum End {
    Stopped,
    Close(Option<u16>),
    Lost(io::Error),
    Protocol(&'static str),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Lost(error)
    }
}

pub struct Receiver<'a> {
    settings: &'a Settings,
    stop: &'a AtomicBool,
    ring: SyncSender<Item>,
    connection_id: i64,
    ring_waits: u64,
}

impl<'a> Receiver<'a> {
    pub fn new(settings: &'a Arc<Settings>, stop: &'a AtomicBool, ring: SyncSender<Item>) -> Self {
        Receiver { settings, stop, ring, connection_id: 0, ring_waits: 0 }
    }

    /// Receives until the feed or the run is over. Returns the exit code.
    pub fn run(&mut self) -> u8 {
        let mut connection = match open(self.settings) {
            Ok(connection) => connection,
            Err(error) => {
                eprintln!("cannot connect to {}: {error}", self.settings.url);
                return CONNECT_FAILURE;
            }
        };
        loop {
            self.connection_id += 1;
            self.put(Item::Open { connection_id: self.connection_id, at_ns: monotonic_ns() });
            let (socket, unread) = connection;
            let end = self.receive(socket, unread).err().unwrap_or(End::Stopped);
            let at_ns = monotonic_ns();
            let (reason, close_code, exit_code) = match end {
                End::Stopped | End::Close(Some(1000)) => return DONE,
                End::Close(code) => ("close", code, REMOTE_CLOSE),
                End::Lost(error) => {
                    eprintln!("connection {} is lost: {error}", self.connection_id);
                    ("lost", None, REMOTE_CLOSE)
                }
                End::Protocol(what) => {
                    eprintln!("connection {}: the server sent {what}", self.connection_id);
                    ("protocol", None, PROTOCOL_ERROR)
                }
            };
            self.put(Item::Gap { connection_id: self.connection_id, reason, close_code, at_ns });
            if !self.settings.reconnects {
                return exit_code;
            }
            match self.reopen() {
                Some(again) => connection = again,
                None if self.stop.load(Relaxed) => return DONE,
                None => return CONNECT_FAILURE,
            }
        }
    }

    /// Ends the ring. The writer stores what is in it.
    pub fn finish(self) -> Counts {
        Counts { received: RECEIVED.load(Relaxed), ring_waits: self.ring_waits, ended_ns: monotonic_ns() }
    }

    /// Tries again for ten seconds, at once and then every 50 to 200 ms.
    fn reopen(&mut self) -> Option<(TcpStream, Vec<u8>)> {
        let begun = Instant::now();
        while begun.elapsed() < GIVE_UP && !self.stop.load(Relaxed) {
            if let Ok(connection) = open(self.settings) {
                return Some(connection);
            }
            // The low digits of the clock are random enough to spread several connectors.
            std::thread::sleep(Duration::from_millis(50 + monotonic_ns().unsigned_abs() / 1_000 % 150));
        }
        None
    }

    fn receive(&mut self, mut socket: TcpStream, mut buffer: Vec<u8>) -> Result<(), End> {
        let mut decoder = Decoder::of_server(LIMITS);
        let mut end = buffer.len();
        buffer.resize(256 * 1024, 0);
        loop {
            let mut at = 0;
            while at < end {
                let (used, message) = match decoder.decode(&buffer[at..end]) {
                    Ok(decoded) => decoded,
                    Err(violation) => {
                        let _ = send(&mut socket, Opcode::Close, &(violation.code as u16).to_be_bytes());
                        return Err(End::Protocol(violation.reason));
                    }
                };
                match message {
                    Some(IncomingMessage::Text(text)) => self.take(text.as_bytes(), false),
                    Some(IncomingMessage::Binary(bytes)) => self.take(bytes, true),
                    Some(IncomingMessage::Ping(body)) => send(&mut socket, Opcode::Pong, body)?,
                    Some(IncomingMessage::Close(code)) => {
                        let answer = code.unwrap_or(CloseCode::Normal as u16);
                        let _ = send(&mut socket, Opcode::Close, &answer.to_be_bytes());
                        return Err(End::Close(code));
                    }
                    Some(IncomingMessage::Pong) | None => {}
                }
                at += used;
            }
            end = match socket.read(&mut buffer) {
                Ok(0) => return Err(End::Lost(ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => bytes,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
                Err(error) => return Err(error.into()),
            };
            if self.stop.load(Relaxed) {
                let _ = send(&mut socket, Opcode::Close, &(CloseCode::GoingAway as u16).to_be_bytes());
                return Err(End::Stopped);
            }
        }
    }

    fn take(&mut self, payload: &[u8], is_binary: bool) {
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
