//! A file in memory, shared with who else maps it.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use pitwire_shard::Memory;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: shared memory is no thread's own; who may touch what says the ring's protocol.
unsafe impl Send for Mapping {}

// SAFETY: as above; all that a shared one gives is its address and its length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The first `bytes` of a file that has so many; all of them are touched now, so that no later access waits for it.
    pub fn of(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same, of which nothing may be written.
    pub fn to_read(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with(file, bytes, ProtFlags::READ)
    }

    fn with(file: &File, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new place that the kernel chooses; nothing of ours lies there.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED | MapFlags::POPULATE, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at no address"))?;
        Ok(Self { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, and nobody has it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the kernel maps whole pages, and keeps them where they are until `drop`.
unsafe impl Memory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
