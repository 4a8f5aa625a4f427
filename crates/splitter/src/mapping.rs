//! A file mapped into memory and shared with other processes.

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

// SAFETY: the mapping belongs to no thread. The ring's protocol says which side may touch what.
unsafe impl Send for Mapping {}

// SAFETY: as above; a shared reference gives address and length only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a file and touches all pages, so that no later access waits for
    /// them.
    pub fn of(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps the first `bytes` of a file for reading only.
    pub fn to_read(file: &File, bytes: usize) -> io::Result<Self> {
        Self::with(file, bytes, ProtFlags::READ)
    }

    fn with(file: &File, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses a new address, so nothing of ours is there.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED | MapFlags::POPULATE, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at no address"))?;
        Ok(Self { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `with` with this length, and no pointer into it is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the kernel maps whole pages and keeps them in place until `drop`.
unsafe impl Memory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
