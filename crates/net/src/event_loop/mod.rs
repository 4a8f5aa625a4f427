//! One event loop with two implementations: epoll and io_uring.
//!
//! Does        accepts connections, receives, sends and waits, for any number of listeners and
//!             sockets on one thread.
//! Holds       1. a send is tried at once and never waits: bytes that the socket refuses stay
//!                with the caller, and [`LoopEvent::Writable`] says when there is room again;
//!             2. a socket is read only when the caller asks for it, so a caller that stops
//!                asking makes the peer stop sending;
//!             3. after [`EventLoop::close`] no event names the token until it is given to
//!                another socket.
//! Leaves out  TLS, which `Stream` puts above either loop, and protocols.
//! Start at    [`EventLoop`], then [`LoopKind::best`].

mod api;
mod epoll;
mod select;
mod uring;

pub use api::{
    AcceptedSocket, BATCH_MAX, BatchedSend, DetachedSocket, EventLoop, LISTEN_BACKLOG, ListenerId, LoopEvent, LoopKind,
    LoopOptions, PARTS_MAX, ReceiveOutcome, SendOutcome, Token,
};

#[cfg(test)]
mod tests;
