//! How another thread wakes an event loop.
//!
//! Start at    [`Waker::wake`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes the loop that it was given to. Copies wake the same loop. Until it is given to a loop,
/// and after the end of that loop, it does nothing.
#[derive(Clone, Debug, Default)]
pub struct Waker(Arc<OnceLock<OwnedFd>>);

impl Waker {
    /// Makes the loop take a turn soon. Never waits.
    pub fn wake(&self) {
        if let Some(descriptor) = self.0.get() {
            // It fails only when the counter is full, and then the loop has been woken.
            let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Returns the descriptor that a loop has to watch. A wake-up before the loop watches it is
    /// not lost.
    ///
    /// # Errors
    /// Fails if the waker belongs to another loop or the process is out of file descriptors.
    pub fn wake_source(&self) -> io::Result<OwnedFd> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let watched = descriptor.try_clone()?;
        self.0.set(descriptor).map_err(|_| io::Error::other("a waker can wake only one loop"))?;
        Ok(watched)
    }
}
