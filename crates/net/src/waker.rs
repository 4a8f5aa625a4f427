//! How another thread makes the loop take a turn.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use mio::{Registry, Token};

/// Wakes the loop that it was given to; until then, and after the loop's end, it does nothing. Copies wake the same loop.
#[derive(Clone, Default)]
pub struct Waker(Arc<OnceLock<mio::Waker>>);

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

impl Waker {
    /// The loop takes a turn soon, in which its application's `tick` is called. Never waits.
    pub fn wake(&self) {
        if let Some(waker) = self.0.get() {
            // An error means that the loop is gone, and then there is nothing to wake.
            drop(waker.wake());
        }
    }

    pub(crate) fn arm(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let waker = mio::Waker::new(registry, token)?;
        self.0.set(waker).map_err(|_| io::Error::other("a waker wakes one loop"))
    }
}
