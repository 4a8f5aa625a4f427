//! Private memory whose pages may be lent to the kernel.
//!
//! Why         an allocator would reuse the memory while a pipe still holds its pages. Pages that
//! are unmapped stay intact
//!             until they have been read from the pipe.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

pub(super) struct PageBuffer {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for PageBuffer {}

impl PageBuffer {
    /// Maps zeroed memory. If `ready` is not 0, requests huge pages, and touches the first `ready`
    /// bytes now because the kernel may have to make room for them. Over pipes a trade then costs a
    /// quarter less, for 2 MiB a channel.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(bytes: usize, ready: usize) -> Result<Self, Errno> {
        // SAFETY: the kernel chooses a new address, so nothing of ours is there.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        if ready > 0 {
            // SAFETY: a hint about memory that was just mapped. It may be refused without harm.
            let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
        }
        let mut pages = Self { base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, bytes };
        pages[..ready.min(bytes)].fill(0);
        Ok(pages)
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped with this length until `drop`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the kernel reads lent pages and never writes them.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no pointer into it is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
