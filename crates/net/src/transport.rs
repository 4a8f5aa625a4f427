//! Byte streams that do not come from sockets, such as streams over shared memory.
//!
//! Does        serves the streams of a [`MessageTransport`] in the turns of an event loop, together
//!             with the loop's sockets.
//! Holds       1. every wait polls the transport, and a blocked thread polls it every
//!                [`POLL_INTERVAL`];
//!             2. the tokens of the transport come first, and those of the sockets follow.
//! Leaves out  how a transport moves bytes, and the messages in them.
//! Start at    [`TransportLoop::new`].

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::event_loop::{
    AcceptedSocket, BatchedSend, DetachedSocket, EventLoop, ListenerId, LoopEvent, LoopKind, ReceiveOutcome,
    SendOutcome, Token,
};

/// Longest time between two polls of the transport. A transport cannot wake a blocked thread.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// The listener that the new streams of a transport name.
pub const TRANSPORT_LISTENER: ListenerId = ListenerId(u32::MAX);

/// A source of byte streams that are not sockets. Its methods mean the same as those of
/// [`EventLoop`], and none of them blocks.
pub trait MessageTransport {
    /// Returns how many streams can be open at the same time. All tokens are smaller.
    fn capacity(&self) -> u32;

    /// Adds to `events` what has happened since the last call. The event of a new stream names the
    /// listener [`TRANSPORT_LISTENER`].
    fn poll(&mut self, events: &mut Vec<LoopEvent>);

    /// Returns the next new stream, if there is one.
    fn accept(&mut self) -> Option<Token>;

    /// Returns arrived bytes.
    fn receive(&mut self, token: Token) -> ReceiveOutcome<'_>;

    /// Sends as much as the stream takes.
    fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome;

    /// Tells the peer that nothing more will be sent.
    fn shutdown(&mut self, token: Token);

    /// Forgets a stream.
    fn close(&mut self, token: Token);
}

/// An event loop with the streams of a transport.
pub(crate) struct TransportLoop {
    sockets: Box<dyn EventLoop>,
    transport: Box<dyn MessageTransport>,
    /// Token of the first socket.
    first_socket: u32,
    /// Events of the transport. Empty between waits.
    found: Vec<LoopEvent>,
}

impl TransportLoop {
    /// Adds the streams of `transport` to `sockets`.
    pub fn new(sockets: Box<dyn EventLoop>, transport: Box<dyn MessageTransport>) -> TransportLoop {
        let first_socket = transport.capacity();
        TransportLoop { sockets, transport, first_socket, found: Vec::new() }
    }

    /// Returns the token of a socket in its own loop, or `None` for a stream of the transport.
    fn inner(&self, token: Token) -> Option<Token> {
        token.0.checked_sub(self.first_socket).map(Token)
    }

    fn outer(&self, token: Token) -> Token {
        Token(token.0 + self.first_socket)
    }
}

impl EventLoop for TransportLoop {
    fn kind(&self) -> LoopKind {
        self.sockets.kind()
    }

    fn capacity(&self) -> usize {
        self.sockets.capacity()
    }

    fn add_listener(&mut self, listener: TcpListener) -> io::Result<ListenerId> {
        self.sockets.add_listener(listener)
    }

    fn close_listeners(&mut self) {
        self.sockets.close_listeners();
    }

    fn add_wake_source(&mut self, descriptor: OwnedFd, source: u32) -> io::Result<()> {
        self.sockets.add_wake_source(descriptor, source)
    }

    fn accept(&mut self, listener: ListenerId) -> io::Result<Option<AcceptedSocket>> {
        if listener == TRANSPORT_LISTENER {
            return Ok(self.transport.accept().map(|token| AcceptedSocket { token, peer: None }));
        }
        let accepted = self.sockets.accept(listener)?;
        Ok(accepted.map(|socket| AcceptedSocket { token: self.outer(socket.token), ..socket }))
    }

    fn add_socket(&mut self, socket: OwnedFd) -> io::Result<Token> {
        let token = self.sockets.add_socket(socket)?;
        Ok(self.outer(token))
    }

    fn receive(&mut self, token: Token) -> ReceiveOutcome<'_> {
        match self.inner(token) {
            Some(socket) => self.sockets.receive(socket),
            None => self.transport.receive(token),
        }
    }

    fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome {
        match self.inner(token) {
            Some(socket) => self.sockets.send(socket, parts),
            None => self.transport.send(token, parts),
        }
    }

    fn send_batch(&mut self, batch: &[BatchedSend<'_>], results: &mut Vec<SendOutcome>) {
        results.clear();
        results.extend(batch.iter().map(|outgoing| self.send(outgoing.token, outgoing.parts)));
    }

    fn shutdown(&mut self, token: Token) {
        match self.inner(token) {
            Some(socket) => self.sockets.shutdown(socket),
            None => self.transport.shutdown(token),
        }
    }

    fn close(&mut self, token: Token) {
        match self.inner(token) {
            Some(socket) => self.sockets.close(socket),
            None => self.transport.close(token),
        }
    }

    fn duplicate(&mut self, token: Token) -> io::Result<DetachedSocket> {
        let socket = self.inner(token).ok_or(io::ErrorKind::Unsupported)?;
        self.sockets.duplicate(socket)
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<LoopEvent>) -> io::Result<()> {
        let start = Instant::now();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            self.transport.poll(&mut self.found);
            let longest = if self.found.is_empty() { POLL_INTERVAL } else { Duration::ZERO };
            self.sockets.wait(Some(left.map_or(longest, |left| left.min(longest))), events)?;
            let is_over = left.is_some_and(|left| left <= POLL_INTERVAL);
            if is_over || !events.is_empty() || !self.found.is_empty() {
                break;
            }
        }
        for event in &mut *events {
            if let LoopEvent::Readable(token) | LoopEvent::Writable(token) = event {
                token.0 += self.first_socket;
            }
        }
        events.append(&mut self.found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::rc::Rc;

    use super::*;
    use crate::event_loop::LoopOptions;

    /// One stream, whose peer is the test.
    #[derive(Default)]
    struct Pipe {
        input: Vec<u8>,
        output: Vec<u8>,
        events: VecDeque<LoopEvent>,
        is_new: bool,
        is_closed: bool,
    }

    struct PipeTransport(Rc<RefCell<Pipe>>, Vec<u8>);

    impl MessageTransport for PipeTransport {
        fn capacity(&self) -> u32 {
            3
        }

        fn poll(&mut self, events: &mut Vec<LoopEvent>) {
            events.extend(self.0.borrow_mut().events.drain(..));
        }

        fn accept(&mut self) -> Option<Token> {
            std::mem::take(&mut self.0.borrow_mut().is_new).then_some(Token(1))
        }

        fn receive(&mut self, token: Token) -> ReceiveOutcome<'_> {
            assert_eq!(token, Token(1));
            self.1 = std::mem::take(&mut self.0.borrow_mut().input);
            match &mut *self.1 {
                [] => ReceiveOutcome::Pending,
                bytes => ReceiveOutcome::Bytes(bytes),
            }
        }

        fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome {
            assert_eq!(token, Token(1));
            self.0.borrow_mut().output.extend(parts.concat());
            SendOutcome::Bytes(parts.concat().len())
        }

        fn shutdown(&mut self, _: Token) {}

        fn close(&mut self, _: Token) {
            self.0.borrow_mut().is_closed = true;
        }
    }

    fn read(net: &mut TransportLoop, token: Token) -> Vec<u8> {
        match net.receive(token) {
            ReceiveOutcome::Bytes(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn streams_and_sockets_share_a_loop_and_keep_their_bytes_apart() {
        let pipe = Rc::new(RefCell::new(Pipe { is_new: true, ..Pipe::default() }));
        let sockets = LoopKind::Epoll.open(LoopOptions { receive_bytes: 4096, detaches: true }).unwrap();
        let mut net = TransportLoop::new(sockets, Box::new(PipeTransport(Rc::clone(&pipe), Vec::new())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = net.add_socket(listener.accept().unwrap().0.into()).unwrap();
        let stream = net.accept(TRANSPORT_LISTENER).unwrap().unwrap().token;
        assert!(net.accept(TRANSPORT_LISTENER).unwrap().is_none());
        assert_ne!(socket, stream);

        // The loop ends only after the wait has reported both the socket and the stream.
        peer.write_all(b"by socket").unwrap();
        pipe.borrow_mut().input.extend(b"by pipe");
        pipe.borrow_mut().events.push_back(LoopEvent::Readable(Token(1)));
        let (mut events, mut seen) = (Vec::new(), Vec::new());
        while !(seen.contains(&LoopEvent::Readable(socket)) && seen.contains(&LoopEvent::Readable(stream))) {
            net.wait(None, &mut events).unwrap();
            seen.append(&mut events);
        }
        assert_eq!(read(&mut net, socket), b"by socket");
        assert_eq!(read(&mut net, stream), b"by pipe");

        assert_eq!(net.send(stream, &[b"to ", b"pipe"]), SendOutcome::Bytes(7));
        assert_eq!(net.send(socket, &[b"to socket"]), SendOutcome::Bytes(9));
        let mut answer = [0; 9];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!((&answer, &*pipe.borrow().output), (b"to socket", &b"to pipe"[..]));
        assert!(net.duplicate(stream).is_err());
        net.close(stream);
        assert!(pipe.borrow().is_closed);
        assert!(matches!(net.receive(socket), ReceiveOutcome::Pending));
    }

    /// Reports a new stream at the n-th poll.
    struct LateTransport(u32);

    impl MessageTransport for LateTransport {
        fn capacity(&self) -> u32 {
            1
        }

        fn poll(&mut self, events: &mut Vec<LoopEvent>) {
            self.0 -= 1;
            if self.0 == 0 {
                events.push(LoopEvent::Acceptable(TRANSPORT_LISTENER));
            }
        }

        fn accept(&mut self) -> Option<Token> {
            None
        }

        fn receive(&mut self, _: Token) -> ReceiveOutcome<'_> {
            ReceiveOutcome::Pending
        }

        fn send(&mut self, _: Token, _: &[&[u8]]) -> SendOutcome {
            SendOutcome::Blocked
        }

        fn shutdown(&mut self, _: Token) {}

        fn close(&mut self, _: Token) {}
    }

    #[test]
    fn wait_without_timeout_polls_the_transport_repeatedly() {
        let sockets = LoopKind::Epoll.open(LoopOptions { receive_bytes: 4096, detaches: true }).unwrap();
        let mut net = TransportLoop::new(sockets, Box::new(LateTransport(20)));
        let mut events = Vec::new();
        net.wait(Some(Duration::ZERO), &mut events).unwrap();
        assert_eq!(events, []);
        net.wait(None, &mut events).unwrap();
        assert_eq!(events, [LoopEvent::Acceptable(TRANSPORT_LISTENER)]);
    }
}
