//! The event loop on io_uring: sends go to the kernel in batches, and sockets live in a table of
//! the ring (direct descriptors), which does not count as open files of the process.
//!
//! Holds       1. a send is tried while it is submitted and never waits in the kernel, so the
//!                parts are read only during the call;
//!             2. a socket has at most one receive under way and one arrival in a shared buffer;
//!                bytes that are not read before the next wait are copied out of it;
//!             3. a token is free again when nothing is under way for its socket and the kernel
//!                has closed it.
//! Start at    [`UringLoop::wait`].

mod buffers;
mod completion;
mod ring;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use completion::{Completion, UringRequest};
use ring::Ring;
pub(super) use ring::check;
use slab::Slab;

use crate::event_loop::api::{
    AcceptedSocket, BATCH_MAX, BatchedSend, DetachedSocket, EventLoop, ListenerId, LoopEvent, LoopKind, LoopOptions,
    ReceiveOutcome, SendOutcome, Token,
};

/// Requests to accept that each listener has under way.
const ACCEPTORS: usize = 64;

/// How far the closing of a socket has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lifetime {
    #[default]
    Open,
    /// Closed by the caller; requests are still under way.
    Closing,
    /// The kernel has been asked to close it.
    Closed,
}

/// Why nothing more will be read from a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputEnd {
    Ended,
    Failed,
}

#[derive(Default)]
struct UringSocket {
    /// Its place in the table of the ring.
    file: u32,
    is_receiving: bool,
    is_polling_writable: bool,
    is_shutting_down: bool,
    /// The first receive tries the socket at once; later ones wait until it is readable.
    has_received: bool,
    /// A shared buffer that holds what arrived, and how many bytes.
    arrived: Option<(u16, usize)>,
    /// Bytes that arrived and were not read before the next wait.
    unread: Vec<u8>,
    end: Option<InputEnd>,
    lifetime: Lifetime,
}

impl UringSocket {
    fn is_quiet(&self) -> bool {
        !(self.is_receiving || self.is_polling_writable || self.is_shutting_down)
    }
}

struct RingListener {
    socket: TcpListener,
    /// Requests to accept that are not under way.
    idle: Vec<u32>,
    accepted: VecDeque<io::Result<(u32, Option<IpAddr>)>>,
}

/// See [`crate::event_loop`].
pub(super) struct UringLoop {
    ring: Ring,
    sockets: Slab<UringSocket>,
    listeners: Vec<Option<RingListener>>,
    wake_sources: Vec<(u32, OwnedFd)>,
    /// Events to report with the next wait.
    events: Vec<LoopEvent>,
    /// Sockets with something in a shared buffer.
    arrivals: Vec<u32>,
    /// Sockets whose receive found no shared buffer free.
    starved: Vec<u32>,
    /// The buffer that the last receive returned.
    lent: Option<u16>,
    /// The bytes of the last receive, if they were not in a shared buffer.
    copy: Vec<u8>,
    /// Results of the batch that is being sent.
    sent: Vec<Option<i32>>,
    /// The result of a batch of one send, kept for its memory.
    single_result: Vec<SendOutcome>,
    completions: Vec<Completion>,
}

impl UringLoop {
    /// Creates a loop without sockets.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel: io_uring is missing or forbidden, or memory may not be
    /// locked.
    pub fn new(options: LoopOptions) -> io::Result<Self> {
        Ok(UringLoop {
            ring: Ring::new(options.receive_bytes)?,
            single_result: Vec::new(),
            sockets: Slab::new(),
            listeners: Vec::new(),
            wake_sources: Vec::new(),
            events: Vec::new(),
            arrivals: Vec::new(),
            starved: Vec::new(),
            lent: None,
            copy: Vec::new(),
            sent: Vec::new(),
            completions: Vec::new(),
        })
    }

    fn insert(&mut self, file: u32) -> Token {
        let key = self.sockets.insert(UringSocket { file, ..UringSocket::default() });
        // The table of the ring has at most 2^20 places.
        Token(u32::try_from(key).unwrap_or(u32::MAX))
    }

    /// Takes the completions and notes their results.
    fn collect(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.completions(|completion| completions.push(completion));
        for completion in completions.drain(..) {
            self.note(completion);
        }
        self.completions = completions;
    }

    fn note(&mut self, completion: Completion) {
        let result = completion.result;
        match completion.request {
            UringRequest::Accept(number) => self.note_accept(number, result),
            UringRequest::Wake(source) => {
                self.events.push(LoopEvent::Woken(source));
                if !completion.has_more
                    && let Some((_, descriptor)) = self.wake_sources.iter().find(|(number, _)| *number == source)
                {
                    self.ring.watch(descriptor.as_fd(), source);
                }
            }
            UringRequest::Receive(token) => self.note_received(token, result, completion.buffer),
            UringRequest::Send(number) => {
                if let Some(sent) = self.sent.get_mut(number as usize) {
                    *sent = Some(result);
                }
            }
            UringRequest::PollWritable(token) => {
                let Some(socket) = self.sockets.get_mut(token as usize) else { return };
                socket.is_polling_writable = false;
                if socket.lifetime == Lifetime::Open && result != -libc::ECANCELED {
                    self.events.push(LoopEvent::Writable(Token(token)));
                }
                self.close_if_quiet(token);
            }
            UringRequest::Shutdown(token) => {
                let Some(socket) = self.sockets.get_mut(token as usize) else { return };
                socket.is_shutting_down = false;
                self.close_if_quiet(token);
            }
            UringRequest::Close(token) => {
                self.sockets.try_remove(token as usize);
            }
            UringRequest::Install | UringRequest::Ignored => {}
        }
    }

    fn note_accept(&mut self, number: u32, result: i32) {
        let index = number as usize / ACCEPTORS;
        let listener = self.listeners.get_mut(index).and_then(Option::as_mut);
        let Some(listener) = listener else {
            // The listener has been closed meanwhile.
            if let Ok(file) = u32::try_from(result) {
                self.ring.close(file, UringRequest::Ignored);
            }
            return;
        };
        listener.idle.push(number);
        let accepted = match (u32::try_from(result), -result) {
            (Ok(file), _) => Ok((file, self.ring.peer(number))),
            // A peer that gave up while it waited says nothing about the next one.
            (_, libc::EINTR | libc::EAGAIN | libc::ECONNABORTED | libc::EPROTO | libc::ECANCELED) => {
                let number = listener.idle.pop().unwrap_or(number);
                return self.ring.accept(listener.socket.as_fd(), number);
            }
            (_, error) => Err(io::Error::from_raw_os_error(error)),
        };
        listener.accepted.push_back(accepted);
        if listener.accepted.len() == 1 {
            self.events.push(LoopEvent::Acceptable(ListenerId(u32::try_from(index).unwrap_or(u32::MAX))));
        }
    }

    fn note_received(&mut self, token: u32, result: i32, buffer: Option<u16>) {
        let socket = self.sockets.get_mut(token as usize);
        let is_open = socket.as_ref().is_some_and(|socket| socket.lifetime == Lifetime::Open);
        let Some(socket) = socket.filter(|_| is_open) else {
            if let Some(buffer) = buffer {
                self.ring.buffers.give_back(buffer);
            }
            if let Some(socket) = self.sockets.get_mut(token as usize) {
                socket.is_receiving = false;
                self.close_if_quiet(token);
            }
            return;
        };
        socket.is_receiving = false;
        match (result, buffer) {
            (1.., Some(buffer)) => {
                socket.arrived = Some((buffer, usize::try_from(result).unwrap_or(0)));
                self.arrivals.push(token);
            }
            (_, Some(buffer)) => {
                // The end of the peer, for which the kernel took a buffer.
                self.ring.buffers.give_back(buffer);
                socket.end = Some(if result == 0 { InputEnd::Ended } else { InputEnd::Failed });
            }
            (0, None) => socket.end = Some(InputEnd::Ended),
            (error, None) => match -error {
                libc::ENOBUFS | libc::EINTR | libc::EAGAIN => return self.starved.push(token),
                // Cancelled by a detach; the caller asks again if that failed.
                libc::ECANCELED => {}
                _ => socket.end = Some(InputEnd::Failed),
            },
        }
        self.events.push(LoopEvent::Readable(Token(token)));
    }

    fn close_if_quiet(&mut self, token: u32) {
        let Some(socket) = self.sockets.get_mut(token as usize) else { return };
        if socket.lifetime == Lifetime::Closing && socket.is_quiet() {
            socket.lifetime = Lifetime::Closed;
            self.ring.close(socket.file, UringRequest::Close(token));
        }
    }

    /// Gives the shared buffers back: the lent one, and the unread ones.
    fn reclaim_buffers(&mut self) {
        if let Some(buffer) = self.lent.take() {
            self.ring.buffers.give_back(buffer);
        }
        for token in self.arrivals.drain(..) {
            if let Some(socket) = self.sockets.get_mut(token as usize)
                && let Some((buffer, bytes)) = socket.arrived.take()
            {
                socket.unread.extend_from_slice(self.ring.buffers.arrived(buffer, bytes));
                self.ring.buffers.give_back(buffer);
            }
        }
        for token in std::mem::take(&mut self.starved) {
            self.start_receive(token);
        }
    }

    fn start_receive(&mut self, token: u32) {
        if let Some(socket) = self.sockets.get_mut(token as usize)
            && socket.lifetime == Lifetime::Open
            && !socket.is_receiving
            && socket.end.is_none()
        {
            socket.is_receiving = true;
            let is_first = !std::mem::replace(&mut socket.has_received, true);
            self.ring.receive(token, socket.file, is_first);
        }
    }

    fn cancel_requests(&mut self, token: u32) {
        let Some(socket) = self.sockets.get(token as usize) else { return };
        let (is_receiving, is_polling) = (socket.is_receiving, socket.is_polling_writable);
        if is_receiving {
            self.ring.cancel(UringRequest::Receive(token));
        }
        if is_polling {
            self.ring.cancel(UringRequest::PollWritable(token));
        }
    }

    fn open_socket(&mut self, token: Token) -> Option<&mut UringSocket> {
        self.sockets.get_mut(token.index()).filter(|socket| socket.lifetime == Lifetime::Open)
    }

    /// Notes one result of a batch and waits for room if the socket did not take everything.
    fn finish_send(&mut self, token: Token, offered: usize, result: Option<i32>) -> SendOutcome {
        let sent = match result {
            Some(bytes @ 0..) => SendOutcome::Bytes(usize::try_from(bytes).unwrap_or(0)),
            Some(error) if error == -libc::EAGAIN || error == -libc::EINTR => SendOutcome::Blocked,
            Some(_) | None => SendOutcome::Failed,
        };
        let is_short =
            matches!(sent, SendOutcome::Blocked) || matches!(sent, SendOutcome::Bytes(bytes) if bytes < offered);
        if is_short
            && let Some(socket) = self.sockets.get_mut(token.index())
            && !std::mem::replace(&mut socket.is_polling_writable, true)
        {
            self.ring.poll_writable(token.0, socket.file);
        }
        sent
    }
}

impl EventLoop for UringLoop {
    fn kind(&self) -> LoopKind {
        LoopKind::Uring
    }

    fn capacity(&self) -> usize {
        self.ring.files.saturating_sub(ACCEPTORS * self.listeners.len())
    }

    fn add_listener(&mut self, socket: TcpListener) -> io::Result<ListenerId> {
        let number = u32::try_from(self.listeners.len()).map_err(io::Error::other)?;
        for _ in 0..ACCEPTORS {
            let acceptor = self.ring.add_acceptor();
            self.ring.accept(socket.as_fd(), acceptor);
        }
        self.listeners.push(Some(RingListener { socket, idle: Vec::new(), accepted: VecDeque::new() }));
        Ok(ListenerId(number))
    }

    fn close_listeners(&mut self) {
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            let Some(listener) = listener.take() else { continue };
            let first = u32::try_from(index * ACCEPTORS).unwrap_or(u32::MAX);
            for number in (first..).take(ACCEPTORS).filter(|number| !listener.idle.contains(number)) {
                self.ring.cancel(UringRequest::Accept(number));
            }
            for (file, _) in listener.accepted.into_iter().flatten() {
                self.ring.close(file, UringRequest::Ignored);
            }
        }
    }

    fn add_wake_source(&mut self, descriptor: OwnedFd, source: u32) -> io::Result<()> {
        self.ring.watch(descriptor.as_fd(), source);
        self.wake_sources.push((source, descriptor));
        Ok(())
    }

    fn accept(&mut self, listener: ListenerId) -> io::Result<Option<AcceptedSocket>> {
        let Some(Some(listener)) = self.listeners.get_mut(listener.0 as usize) else { return Ok(None) };
        match listener.accepted.pop_front() {
            Some(accepted) => {
                let (file, peer) = accepted?;
                Ok(Some(AcceptedSocket { token: self.insert(file), peer }))
            }
            None => {
                for number in listener.idle.drain(..) {
                    self.ring.accept(listener.socket.as_fd(), number);
                }
                Ok(None)
            }
        }
    }

    fn add_socket(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let mut others = std::mem::take(&mut self.completions);
        let installed = self.ring.install(&socket, &mut others);
        for completion in others.drain(..) {
            self.note(completion);
        }
        self.completions = others;
        Ok(self.insert(installed?))
    }

    fn receive(&mut self, token: Token) -> ReceiveOutcome<'_> {
        if let Some(buffer) = self.lent.take() {
            self.ring.buffers.give_back(buffer);
        }
        let Some(socket) = self.sockets.get_mut(token.index()).filter(|socket| socket.lifetime == Lifetime::Open)
        else {
            return ReceiveOutcome::Failed;
        };
        if !socket.unread.is_empty() {
            self.copy = std::mem::take(&mut socket.unread);
            return ReceiveOutcome::Bytes(&mut self.copy);
        }
        if let Some((buffer, bytes)) = socket.arrived.take() {
            self.lent = Some(buffer);
            return ReceiveOutcome::Bytes(self.ring.buffers.arrived(buffer, bytes));
        }
        match socket.end {
            Some(InputEnd::Ended) => ReceiveOutcome::Ended,
            Some(InputEnd::Failed) => ReceiveOutcome::Failed,
            None => {
                self.start_receive(token.0);
                ReceiveOutcome::Pending
            }
        }
    }

    fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome {
        let mut results = std::mem::take(&mut self.single_result);
        self.send_batch(&[BatchedSend { token, parts }], &mut results);
        let sent = results.first().copied().unwrap_or(SendOutcome::Failed);
        self.single_result = results;
        sent
    }

    fn send_batch(&mut self, batch: &[BatchedSend<'_>], results: &mut Vec<SendOutcome>) {
        results.clear();
        for batch in batch.chunks(BATCH_MAX) {
            self.sent.clear();
            self.sent.resize(batch.len(), None);
            for (number, outgoing) in (0_u32..).zip(batch) {
                match self.open_socket(outgoing.token).map(|socket| socket.file) {
                    // SAFETY: `batch` is borrowed until this function returns, which it does only
                    // when every send has completed or the ring is broken and reads nothing more.
                    Some(file) => unsafe { self.ring.send(number, file, outgoing.parts) },
                    None => self.sent[number as usize] = Some(-libc::EBADF),
                }
            }
            let mut submitted = self.ring.submit();
            self.collect();
            while submitted.is_ok() && self.sent.iter().any(Option::is_none) {
                submitted = self.ring.wait(None);
                self.collect();
            }
            self.ring.forget_headers();
            for (number, outgoing) in batch.iter().enumerate() {
                let offered = outgoing.parts.iter().map(|part| part.len()).sum();
                let sent = self.finish_send(outgoing.token, offered, self.sent[number]);
                results.push(sent);
            }
        }
    }

    fn shutdown(&mut self, token: Token) {
        let Some(socket) = self.open_socket(token) else { return };
        if !std::mem::replace(&mut socket.is_shutting_down, true) {
            let file = socket.file;
            self.ring.shutdown(token.0, file);
        }
    }

    fn close(&mut self, token: Token) {
        let Some(socket) = self.open_socket(token) else { return };
        socket.lifetime = Lifetime::Closing;
        socket.unread = Vec::new();
        if let Some((buffer, _)) = socket.arrived.take() {
            self.ring.buffers.give_back(buffer);
        }
        self.cancel_requests(token.0);
        self.close_if_quiet(token.0);
    }

    fn duplicate(&mut self, token: Token) -> io::Result<DetachedSocket> {
        let file = self.open_socket(token).ok_or(io::ErrorKind::NotFound)?.file;
        self.cancel_requests(token.0);
        while self.sockets.get(token.index()).is_some_and(|socket| !socket.is_quiet()) {
            self.ring.wait(None)?;
            self.collect();
        }
        let mut others = std::mem::take(&mut self.completions);
        let taken_out = self.ring.take_out(file, &mut others);
        for completion in others.drain(..) {
            self.note(completion);
        }
        self.completions = others;
        // The requests were cancelled: a caller that keeps the token has to begin them again.
        self.events.extend([LoopEvent::Readable(token), LoopEvent::Writable(token)]);
        let socket = taken_out?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let mut received = Vec::new();
        if let Some(entry) = self.open_socket(token) {
            received = std::mem::take(&mut entry.unread);
            if let Some((buffer, bytes)) = entry.arrived.take() {
                received.extend_from_slice(self.ring.buffers.arrived(buffer, bytes));
                self.ring.buffers.give_back(buffer);
            }
        }
        Ok(DetachedSocket { socket, received })
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<LoopEvent>) -> io::Result<()> {
        events.clear();
        self.reclaim_buffers();
        let timeout_ns = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let timeout_ns = if self.events.is_empty() { timeout_ns } else { Some(0) };
        self.ring.wait(timeout_ns)?;
        self.collect();
        events.append(&mut self.events);
        // A socket may have been closed after its event was noted.
        events.retain(|event| match event {
            LoopEvent::Readable(token) | LoopEvent::Writable(token) => {
                self.sockets.get(token.index()).is_some_and(|socket| socket.lifetime == Lifetime::Open)
            }
            _ => true,
        });
        Ok(())
    }
}
