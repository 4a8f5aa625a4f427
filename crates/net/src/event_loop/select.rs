//! Which implementation of the event loop this machine offers.
//!
//! Start at    [`LoopKind::best`].

use std::io;

use crate::event_loop::api::{EventLoop, LoopKind, LoopOptions};
use crate::event_loop::epoll::EpollLoop;
use crate::event_loop::uring::{UringLoop, check};

impl LoopKind {
    /// Returns io_uring if this machine offers it, else epoll and the reason.
    pub fn best(options: LoopOptions) -> (LoopKind, Option<io::Error>) {
        match LoopKind::Uring.check(options) {
            Ok(()) => (LoopKind::Uring, None),
            Err(error) => (LoopKind::Epoll, Some(error)),
        }
    }

    /// Checks whether this machine offers the implementation with these options.
    ///
    /// # Errors
    /// Returns the kernel's reason.
    pub fn check(self, options: LoopOptions) -> io::Result<()> {
        match self {
            LoopKind::Epoll => Ok(()),
            // The kernel interrupts the thread that opened a ring when it tears the ring down.
            LoopKind::Uring => std::thread::spawn(move || check(options))
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the check of io_uring panicked"))),
        }
    }

    /// Opens a loop. Only the thread that opens it may use it.
    ///
    /// # Errors
    /// Fails if the kernel refuses the loop.
    pub fn open(self, options: LoopOptions) -> io::Result<Box<dyn EventLoop>> {
        Ok(match self {
            LoopKind::Epoll => Box::new(EpollLoop::new(options)?),
            LoopKind::Uring => Box::new(UringLoop::new(options)?),
        })
    }
}
