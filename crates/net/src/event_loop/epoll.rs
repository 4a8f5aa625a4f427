//! The event loop on epoll, edge-triggered: one system call for each receive and each send.
//!
//! Holds       1. readiness is reported once, and remembered here until it is used up;
//!             2. a short read means that the socket is empty, which saves the call that would
//!                say so, unless the end of the peer is known to follow.
//! Start at    [`EpollLoop::receive`].

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, acceptfrom_with, recv, send, sendmsg,
};
use slab::Slab;

use crate::event_loop::api::{
    AcceptedSocket, BatchedSend, DetachedSocket, EventLoop, ListenerId, LoopEvent, LoopKind, LoopOptions, PARTS_MAX,
    ReceiveOutcome, SendOutcome, Token,
};

/// Events taken from the kernel with one call.
const EVENTS: usize = 1024;
/// The unit in which the kernel counts the timeout of `epoll_wait`.
const EPOLL_UNIT: Duration = Duration::from_millis(1);

/// The upper half of an event's data is one of these kinds; the lower half is a number.
const SOCKET: u64 = 0;
const LISTENER: u64 = 1;
const WAKE_SOURCE: u64 = 2;

struct EpollSocket {
    descriptor: OwnedFd,
    /// There may be something to read.
    is_readable: bool,
    /// The peer's end was reported, perhaps together with its last bytes.
    is_ending: bool,
}

/// See [`crate::event_loop`].
pub(super) struct EpollLoop {
    epoll: OwnedFd,
    sockets: Slab<EpollSocket>,
    listeners: Vec<TcpListener>,
    wake_sources: Vec<OwnedFd>,
    buffer: Box<[u8]>,
    kernel_events: Vec<epoll::Event>,
}

impl EpollLoop {
    /// Creates a loop without sockets.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel, such as too many open files.
    pub fn new(options: LoopOptions) -> io::Result<Self> {
        Ok(EpollLoop {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sockets: Slab::new(),
            listeners: Vec::new(),
            wake_sources: Vec::new(),
            buffer: vec![0; options.receive_bytes as usize].into(),
            kernel_events: Vec::with_capacity(EVENTS),
        })
    }

    fn watch(&self, descriptor: BorrowedFd<'_>, kind: u64, number: u32, flags: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(kind << 32 | u64::from(number));
        Ok(epoll::add(&self.epoll, descriptor, data, flags | epoll::EventFlags::ET)?)
    }
}

impl EventLoop for EpollLoop {
    fn kind(&self) -> LoopKind {
        LoopKind::Epoll
    }

    fn capacity(&self) -> usize {
        usize::MAX
    }

    fn add_listener(&mut self, listener: TcpListener) -> io::Result<ListenerId> {
        listener.set_nonblocking(true)?;
        let number = u32::try_from(self.listeners.len()).map_err(io::Error::other)?;
        self.watch(listener.as_fd(), LISTENER, number, epoll::EventFlags::IN)?;
        self.listeners.push(listener);
        Ok(ListenerId(number))
    }

    fn close_listeners(&mut self) {
        self.listeners.clear();
    }

    fn add_wake_source(&mut self, descriptor: OwnedFd, source: u32) -> io::Result<()> {
        self.watch(descriptor.as_fd(), WAKE_SOURCE, source, epoll::EventFlags::IN)?;
        self.wake_sources.push(descriptor);
        Ok(())
    }

    fn accept(&mut self, listener: ListenerId) -> io::Result<Option<AcceptedSocket>> {
        let Some(listener) = self.listeners.get(listener.0 as usize) else { return Ok(None) };
        loop {
            return match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).map(|peer| peer.ip());
                    Ok(Some(AcceptedSocket { token: self.add_socket(socket)?, peer }))
                }
                Err(Errno::AGAIN) => Ok(None),
                // A peer that gave up while it waited says nothing about the next one.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    fn add_socket(&mut self, socket: OwnedFd) -> io::Result<Token> {
        use epoll::EventFlags as Flags;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let entry = self.sockets.vacant_entry();
        let token = u32::try_from(entry.key()).map_err(io::Error::other)?;
        // The peer has often sent something already: the first receive tries the socket.
        entry.insert(EpollSocket { descriptor: socket, is_readable: true, is_ending: false });
        let socket = &self.sockets[token as usize].descriptor;
        if let Err(error) = self.watch(socket.as_fd(), SOCKET, token, Flags::IN | Flags::OUT | Flags::RDHUP) {
            self.sockets.remove(token as usize);
            return Err(error);
        }
        Ok(Token(token))
    }

    fn receive(&mut self, token: Token) -> ReceiveOutcome<'_> {
        let Some(socket) = self.sockets.get_mut(token.index()) else { return ReceiveOutcome::Failed };
        if !socket.is_readable {
            return ReceiveOutcome::Pending;
        }
        let received = loop {
            match recv(&socket.descriptor, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        match received {
            // The socket stays readable, so that a second call reports the end again.
            Ok((0, _)) => ReceiveOutcome::Ended,
            Ok((bytes, _)) => {
                socket.is_readable = socket.is_ending || bytes == self.buffer.len();
                ReceiveOutcome::Bytes(&mut self.buffer[..bytes])
            }
            Err(Errno::AGAIN) => {
                socket.is_readable = false;
                ReceiveOutcome::Pending
            }
            Err(_) => {
                socket.is_readable = false;
                ReceiveOutcome::Failed
            }
        }
    }

    fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome {
        let Some(socket) = self.sockets.get(token.index()) else { return SendOutcome::Failed };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let sent = match parts {
                [one] => send(&socket.descriptor, one, flags),
                many => {
                    let mut slices = [IoSlice::new(&[]); PARTS_MAX];
                    let count = many.len().min(PARTS_MAX);
                    slices.iter_mut().zip(many).for_each(|(slice, part)| *slice = IoSlice::new(part));
                    sendmsg(&socket.descriptor, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
                }
            };
            return match sent {
                Ok(bytes) => SendOutcome::Bytes(bytes),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => SendOutcome::Blocked,
                Err(_) => SendOutcome::Failed,
            };
        }
    }

    fn send_batch(&mut self, batch: &[BatchedSend<'_>], results: &mut Vec<SendOutcome>) {
        results.clear();
        for outgoing in batch {
            let sent = self.send(outgoing.token, outgoing.parts);
            results.push(sent);
        }
    }

    fn shutdown(&mut self, token: Token) {
        if let Some(socket) = self.sockets.get(token.index()) {
            // A socket that is gone already needs no notice.
            let _ = rustix::net::shutdown(&socket.descriptor, Shutdown::Write);
        }
    }

    fn close(&mut self, token: Token) {
        if let Some(socket) = self.sockets.try_remove(token.index()) {
            // A duplicate may keep the socket open, and with it the watch. It cannot fail
            // otherwise.
            let _ = epoll::delete(&self.epoll, &socket.descriptor);
        }
    }

    fn duplicate(&mut self, token: Token) -> io::Result<DetachedSocket> {
        let socket = self.sockets.get(token.index()).ok_or(io::ErrorKind::NotFound)?;
        Ok(DetachedSocket { socket: socket.descriptor.try_clone()?, received: Vec::new() })
    }

    fn wait(&mut self, mut timeout: Option<Duration>, events: &mut Vec<LoopEvent>) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        events.clear();
        self.kernel_events.clear();
        if let Some(short) = timeout.filter(is_short) {
            // `epoll_wait` would round it up to a millisecond; `poll` counts in nanoseconds.
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec(short))) {
                Ok(_) => timeout = Some(Duration::ZERO),
                Err(Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(&mut self.kernel_events), timeout.map(timespec).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &self.kernel_events {
            let (data, flags) = (event.data.u64(), event.flags);
            let number = u32::try_from(data & u64::from(u32::MAX)).unwrap_or(u32::MAX);
            match data >> 32 {
                LISTENER => events.push(LoopEvent::Acceptable(ListenerId(number))),
                WAKE_SOURCE => events.push(LoopEvent::Woken(number)),
                _ => {
                    let Some(socket) = self.sockets.get_mut(number as usize) else { continue };
                    let ending = Flags::RDHUP | Flags::HUP | Flags::ERR;
                    socket.is_ending |= flags.intersects(ending);
                    if flags.intersects(Flags::IN | ending) {
                        socket.is_readable = true;
                        events.push(LoopEvent::Readable(Token(number)));
                    }
                    if flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR) {
                        events.push(LoopEvent::Writable(Token(number)));
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_short(timeout: &Duration) -> bool {
    !timeout.is_zero() && *timeout < EPOLL_UNIT
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
