//! One connection, in as few bytes as can be.
//!
//! Does        the state of a connection; what is rare is kept apart, and only while there is any.
//! Costs       64 bytes a connection that listens, beside the kernel's.
//! Start at    [`Connection`].

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::frames::Frames;
use crate::gauge::UNTIMED;
use crate::plan::Reader;
use crate::sequence::Sequence;
use crate::tls::Session;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not begun, or not any more.
    Absent,
    Connecting,
    /// Both handshakes.
    Opening,
    Open,
}

#[derive(Debug)]
pub struct Connection {
    pub socket: Option<OwnedFd>,
    /// Tells an event of this connection from one of its predecessor in the same place.
    pub generation: u32,
    pub frames: Frames,
    pub sequence: Sequence,
    /// Of the message whose beginning has been seen, and its length.
    pub due_ns: i64,
    pub bytes: u32,
    pub phase: Phase,
    pub reader: Reader,
    pub extra: Option<Box<Extra>>,
}

const _: () = assert!(size_of::<Connection>() <= 64);

/// What few connections have at a time.
#[derive(Debug, Default)]
pub struct Extra {
    /// Received, and not understood before more has come.
    pub kept: Vec<u8>,
    /// Not taken by the socket yet.
    pub unsent: Vec<u8>,
    /// Messages of ours that wait for answers, in order.
    pub asked: VecDeque<Asked>,
    /// How many of ours were answered or given up: the number of the next echo.
    pub echoed: u64,
    pub echo_sent: u64,
    /// What was declared missing last.
    pub gap: Option<(u64, u64)>,
    /// A fragmented message as far as it has come, and whether it is compressed.
    pub message: Vec<u8>,
    pub is_compressed: bool,
    pub tls: Option<Box<Session>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub due_ns: i64,
    pub answers: u32,
}

impl Extra {
    pub fn is_in_gap(&self, number: u64) -> bool {
        self.gap.is_some_and(|(from, to)| (from..=to).contains(&number))
    }
}

impl Connection {
    pub fn new(reader: Reader) -> Self {
        Connection {
            socket: None,
            generation: 0,
            frames: Frames::default(),
            sequence: Sequence::new(),
            due_ns: UNTIMED,
            bytes: 0,
            phase: Phase::Absent,
            reader,
            extra: None,
        }
    }

    /// Forgets everything but its place.
    pub fn reset(&mut self) {
        let next = self.generation.wrapping_add(1);
        *self = Connection { generation: next, ..Connection::new(self.reader) };
    }

    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }
}
