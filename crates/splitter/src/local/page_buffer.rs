//! Memory of one's own whose pages may be lent to the kernel.
//!
//! Why         an allocator would hand the memory out again while a pipe still holds its pages. What is unmapped is nobody's:
//!             whoever reads it from the pipe finds what was lent.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

pub(super) struct PageBuffer {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is this value's alone.
unsafe impl Send for PageBuffer {}

impl PageBuffer {
    /// Zeros; a page is taken when it is first written to. Huge ones for what is `ready`, if there are any: over pipes a trade costs a quarter less
    /// when 4 KiB need not be looked up each time, at 2 MiB a channel. The first `ready` bytes are taken, in huge pages, now: the
    /// kernel may have to make room for those.
    pub fn new(bytes: usize, ready: usize) -> Result<Self, Errno> {
        // SAFETY: a new place that the kernel chooses; nothing of ours lies there.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        if ready > 0 {
            // SAFETY: a hint about what was mapped just now; without it all is as right.
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
        // SAFETY: mapped by `new` with this length, and nobody has it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
