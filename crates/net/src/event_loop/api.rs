//! The trait of an event loop, and the types that it speaks in.
//!
//! Start at    [`EventLoop`].

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Connections that may wait in the kernel to be accepted. Sized so that a reconnect storm does
/// not fall into SYN retries.
pub const LISTEN_BACKLOG: i32 = 4096;

/// Most parts that one send takes; a caller sends the rest with the next one.
pub const PARTS_MAX: usize = 32;

/// Most sends that one batch takes.
pub const BATCH_MAX: usize = 256;

/// Names one socket of a loop. Tokens are small and dense, so they can index a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

impl Token {
    /// Returns the token as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names one listener of a loop, in the order in which the listeners were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub u32);

/// A report of a loop. Each event is reported once, when something changes (edge-triggered).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEvent {
    /// A listener may have connections: call [`EventLoop::accept`] until it returns `None`.
    Acceptable(ListenerId),
    /// A socket may have input, or its peer has closed, or it has failed: call
    /// [`EventLoop::receive`] until it returns [`ReceiveOutcome::Pending`].
    Readable(Token),
    /// A socket that took less than it was given takes more now.
    Writable(Token),
    /// The wake source with this number was signalled.
    Woken(u32),
}

/// Result of [`EventLoop::receive`].
#[derive(Debug, PartialEq, Eq)]
pub enum ReceiveOutcome<'a> {
    /// Bytes that arrived, in a buffer of the loop. Never empty.
    Bytes(&'a mut [u8]),
    /// Nothing has arrived. An [`LoopEvent::Readable`] will follow when something does.
    Pending,
    /// The peer has ended its side.
    Ended,
    /// The connection is broken.
    Failed,
}

/// Result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The socket took this many bytes. If that is less than was offered, an
    /// [`LoopEvent::Writable`] will follow.
    Bytes(usize),
    /// The socket takes nothing at present. An [`LoopEvent::Writable`] will follow.
    Blocked,
    /// The connection is broken.
    Failed,
}

/// One send of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchedSend<'a> {
    /// The socket to send to.
    pub token: Token,
    /// The bytes to send, in at most [`PARTS_MAX`] parts.
    pub parts: &'a [&'a [u8]],
}

/// A connection that was accepted.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedSocket {
    /// The new socket.
    pub token: Token,
    /// The address of the peer, if the kernel knows it.
    pub peer: Option<IpAddr>,
}

/// A socket that leaves its loop.
#[derive(Debug)]
pub struct DetachedSocket {
    /// The socket, non-blocking.
    pub socket: OwnedFd,
    /// Bytes that had arrived and that no [`EventLoop::receive`] returned.
    pub received: Vec<u8>,
}

/// How a loop is set up.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Most bytes that one [`EventLoop::receive`] returns.
    pub receive_bytes: u32,
    /// Whether sockets will leave the loop by [`EventLoop::duplicate`] or [`EventLoop::detach`].
    /// io_uring needs Linux 6.8 for that.
    pub detaches: bool,
}

/// Waits for sockets and moves their bytes, for one thread.
pub trait EventLoop {
    /// Returns which implementation this is.
    fn kind(&self) -> LoopKind;

    /// Returns how many sockets the loop can hold.
    fn capacity(&self) -> usize;

    /// Adds a listener. Its connections inherit its socket options.
    ///
    /// # Errors
    /// Fails if the kernel refuses to watch the listener.
    fn add_listener(&mut self, listener: TcpListener) -> io::Result<ListenerId>;

    /// Closes all listeners: from now on no connection is accepted.
    fn close_listeners(&mut self);

    /// Adds a descriptor: an eventfd, a pipe or a UDP socket. Its readability is reported as
    /// [`LoopEvent::Woken`] with number `source`.
    ///
    /// # Errors
    /// Fails if the kernel refuses to watch the descriptor.
    fn add_wake_source(&mut self, descriptor: OwnedFd, source: u32) -> io::Result<()>;

    /// Accepts the next connection of a listener, or returns `None` if none waits.
    ///
    /// # Errors
    /// Fails if the process or the loop has no room for a socket. No event will follow: the
    /// caller must call again later.
    fn accept(&mut self, listener: ListenerId) -> io::Result<Option<AcceptedSocket>>;

    /// Adds a connected socket.
    ///
    /// # Errors
    /// Fails if the loop has no room for a socket or the kernel refuses to watch it.
    fn add_socket(&mut self, socket: OwnedFd) -> io::Result<Token>;

    /// Returns arrived bytes.
    fn receive(&mut self, token: Token) -> ReceiveOutcome<'_>;

    /// Sends without waiting.
    fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome;

    /// Sends to many sockets without waiting, at most [`BATCH_MAX`] in one call. Puts one result
    /// for each send into `results`, which it empties first.
    fn send_batch(&mut self, batch: &[BatchedSend<'_>], results: &mut Vec<SendOutcome>);

    /// Tells the peer that nothing more will be sent.
    fn shutdown(&mut self, token: Token);

    /// Closes a socket. The kernel still sends the bytes that the socket took.
    fn close(&mut self, token: Token);

    /// Returns a second descriptor of a socket, for another thread. The caller closes the token
    /// afterwards, unless the other side refused the socket.
    ///
    /// # Errors
    /// Fails if the process is out of file descriptors.
    fn duplicate(&mut self, token: Token) -> io::Result<DetachedSocket>;

    /// Takes a socket out of the loop without closing it.
    ///
    /// # Errors
    /// Fails if the process is out of file descriptors. The socket then stays in the loop.
    fn detach(&mut self, token: Token) -> io::Result<DetachedSocket> {
        let detached = self.duplicate(token)?;
        self.close(token);
        Ok(detached)
    }

    /// Waits until something happens, at most for `timeout`, and puts the events into `events`,
    /// which it empties first. `None` waits without limit. May return early with no event.
    ///
    /// # Errors
    /// Fails if the kernel refuses to wait; the loop cannot go on then.
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<LoopEvent>) -> io::Result<()>;
}

/// Which implementation of [`EventLoop`] a thread uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopKind {
    /// Works on every Linux: one system call for each receive and each send.
    #[default]
    Epoll,
    /// Sends in batches and keeps sockets in a table of the loop, which does not count as open
    /// files of the process. Containers often forbid it.
    Uring,
}
