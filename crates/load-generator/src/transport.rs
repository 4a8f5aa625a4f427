//! Moves bytes between a connection and its socket.
//!
//! Does        receives into one buffer shared by all connections of a worker; encrypts, sends, and
//!             keeps the bytes that the socket does not accept.
//! Leaves out  decryption and frames: see `worker` and `messages`.
//! Start at    [`SharedBuffers::receive`], [`send`].

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send as send_bytes};

use crate::connection::{ConnectionPhase, GeneratorConnection};
use crate::kernel_time;
use crate::plan::ReaderKind;
use crate::poller::{HANGUP, Poller, READABLE};

const BUFFER_BYTES: usize = 256 * 1024;

/// The result of one read.
#[derive(Clone, Copy, Debug)]
pub struct ReadResult {
    /// Bytes of the connection at the front of the buffer: those kept from earlier reads, and the
    /// new ones.
    pub total_bytes: usize,
    /// 0 if the server closed the connection.
    pub new_bytes: usize,
    /// The read filled its space, so the socket may hold more.
    pub may_have_more: bool,
    /// When the last byte reached the socket, in nanoseconds since 1970; `None` if the kernel does
    /// not say.
    pub arrival_ns: Option<i64>,
}

/// Buffers that all connections of a worker share.
#[derive(Debug)]
pub struct SharedBuffers {
    /// Received bytes.
    pub received: Vec<u8>,
    /// Decrypted bytes.
    pub plain: Vec<u8>,
    /// The frame that is being sent.
    pub frame: Vec<u8>,
}

impl SharedBuffers {
    pub fn new() -> Self {
        SharedBuffers { received: vec![0; BUFFER_BYTES], plain: Vec::new(), frame: Vec::new() }
    }

    /// HOT. Reads once, at most `max_bytes`. Puts the new bytes behind the bytes left over from
    /// earlier reads; with TLS at the front, because the bytes left over are decrypted.
    ///
    /// # Errors
    /// Returns the error of the socket, or `AGAIN` without a socket.
    pub fn receive(&mut self, one: &GeneratorConnection, slot: u32, max_bytes: usize) -> Result<ReadResult, Errno> {
        let Some(socket) = &one.socket else { return Err(Errno::AGAIN) };
        let partial: &[u8] = match &one.extra {
            Some(extra) if extra.tls.is_none() => &extra.partial,
            _ => &[],
        };
        let kept = partial.len();
        if kept + BUFFER_BYTES / 2 > self.received.len() {
            self.received.resize(kept + BUFFER_BYTES, 0);
        }
        self.received[..kept].copy_from_slice(partial);
        let until = kept.saturating_add(max_bytes).min(self.received.len());
        let into = &mut self.received[kept..until];
        let (new_bytes, arrival_ns) = match one.is_open() && kernel_time::is_sampled(slot) {
            true => kernel_time::receive(socket, into)?,
            false => (recv(socket, into, RecvFlags::empty())?.1, None),
        };
        let total_bytes = kept + new_bytes;
        Ok(ReadResult { total_bytes, new_bytes, may_have_more: total_bytes == until, arrival_ns })
    }
}

/// The events that a connection waits for while it has nothing to send.
fn interest(one: &GeneratorConnection) -> EventFlags {
    let reads = one.reader == ReaderKind::Healthy || one.phase != ConnectionPhase::Open;
    if reads { READABLE } else { HANGUP }
}

/// Sends `plain`, encrypted if the connection uses TLS. With TLS, also sends the records of the
/// protocol itself. Keeps the bytes that the socket does not accept. The next read reports a socket
/// error.
pub fn send(one: &mut GeneratorConnection, slot: u32, poller: &Poller, plain: &[u8]) {
    let mut records = Vec::new();
    let bytes = match one.extra.as_mut().and_then(|extra| extra.tls.as_mut()) {
        Some(session) => match session.send(plain, &mut records) {
            Ok(()) => records.as_slice(),
            Err(_) => return,
        },
        None => plain,
    };
    let waits = one.extra.as_ref().is_some_and(|extra| !extra.unsent.is_empty());
    let sent = match &one.socket {
        Some(socket) if !waits && !bytes.is_empty() => send_bytes(socket, bytes, SendFlags::NOSIGNAL).unwrap_or(0),
        _ => 0,
    };
    let rest = bytes.get(sent..).unwrap_or_default();
    if rest.is_empty() {
        return;
    }
    one.extra.get_or_insert_default().unsent.extend_from_slice(rest);
    if !waits && let Some(socket) = &one.socket {
        poller.modify(socket, slot, one.generation, interest(one) | EventFlags::OUT);
    }
}

/// Sends the bytes that the socket did not accept before.
pub fn flush(one: &mut GeneratorConnection, slot: u32, poller: &Poller) {
    let flags = interest(one);
    let (Some(socket), Some(extra)) = (&one.socket, &mut one.extra) else { return };
    let sent = send_bytes(socket, &extra.unsent, SendFlags::NOSIGNAL).unwrap_or(0);
    extra.unsent.drain(..sent);
    if extra.unsent.is_empty() {
        poller.modify(socket, slot, one.generation, flags);
    }
}
