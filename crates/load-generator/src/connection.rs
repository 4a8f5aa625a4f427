//! The state of one connection, in as few bytes as possible.
//!
//! Does        holds what every connection needs; rare state is boxed and exists only while it is
//!             used.
//! Costs       64 bytes for a connection that only listens, besides the kernel's memory.
//! Start at    [`GeneratorConnection`].

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::frame_scanner::FrameScanner;
use crate::plan::ReaderKind;
use crate::sequence::SequenceTracker;
use crate::tls::TlsState;

/// DueTime time of a message that is not timed.
pub const UNTIMED: i64 = i64::MIN;
/// DueTime time of a message that is not counted, such as a gap notice.
pub const NOTICE: i64 = i64::MIN + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionPhase {
    /// Not opened yet, or closed.
    Closed,
    /// The TCP handshake is in progress.
    Connecting,
    /// The TLS or WebSocket handshake is in progress.
    Handshaking,
    Open,
}

#[derive(Debug)]
pub struct GeneratorConnection {
    pub socket: Option<OwnedFd>,
    /// Counts the sockets of this slot. Distinguishes events of this socket from events of an
    /// earlier one.
    pub generation: u32,
    pub frames: FrameScanner,
    pub sequence: SequenceTracker,
    /// When the message that is being read was due, by the monotonic clock; or [`UNTIMED`], or
    /// [`NOTICE`].
    pub due_ns: i64,
    /// Length of the message that is being read, in bytes.
    pub message_bytes: u32,
    pub phase: ConnectionPhase,
    pub reader: ReaderKind,
    pub extra: Option<Box<RareState>>,
}

const _: () = assert!(size_of::<GeneratorConnection>() <= 64);

/// State that few connections have at a time.
#[derive(Debug, Default)]
pub struct RareState {
    /// Received bytes of a frame or a handshake answer that is not complete.
    pub partial: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    pub unsent: Vec<u8>,
    /// Sent messages that await answers, in order.
    pub requests: VecDeque<PendingRequest>,
    /// Number of the next echo: how many were answered or given up.
    pub next_echo: u64,
    pub echoes_sent: u64,
    /// The first and the last number that the latest gap notice declared missing.
    pub gap: Option<(u64, u64)>,
    /// The received part of a fragmented message, and whether it is compressed.
    pub message: Vec<u8>,
    pub is_compressed: bool,
    pub tls: Option<Box<TlsState>>,
}

#[derive(Clone, Copy, Debug)]
pub struct PendingRequest {
    pub due_ns: i64,
    /// Answers that have not arrived.
    pub answers: u32,
}

impl RareState {
    pub fn is_in_gap(&self, number: u64) -> bool {
        self.gap.is_some_and(|(from, to)| (from..=to).contains(&number))
    }
}

impl GeneratorConnection {
    pub fn new(reader: ReaderKind) -> Self {
        GeneratorConnection {
            socket: None,
            generation: 0,
            frames: FrameScanner::default(),
            sequence: SequenceTracker::new(),
            due_ns: UNTIMED,
            message_bytes: 0,
            phase: ConnectionPhase::Closed,
            reader,
            extra: None,
        }
    }

    /// Closes the socket and forgets everything else. The next generation begins.
    pub fn reset(&mut self) {
        let next = self.generation.wrapping_add(1);
        *self = GeneratorConnection { generation: next, ..GeneratorConnection::new(self.reader) };
    }

    pub fn is_open(&self) -> bool {
        self.phase == ConnectionPhase::Open
    }

    pub fn is_opening(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Connecting | ConnectionPhase::Handshaking)
    }
}

/// Replaces the kept bytes of `one` with `rest`.
pub fn keep_partial(one: &mut GeneratorConnection, rest: &[u8]) {
    match &mut one.extra {
        // Frees the memory, because most of very many connections keep nothing most of the time.
        Some(extra) if rest.is_empty() => extra.partial = Vec::new(),
        Some(extra) => {
            extra.partial.clear();
            extra.partial.extend_from_slice(rest);
        }
        None if rest.is_empty() => {}
        None => one.extra.get_or_insert_default().partial.extend_from_slice(rest),
    }
}
