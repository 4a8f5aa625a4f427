//! Buffers that the kernel takes one from when something has arrived: none is bound to a connection
//! that is silent.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// How many may hold what has arrived and is not yet looked at; a power of two.
const COUNT: u16 = 256;
/// Most of one arrival: more comes in the next.
const BYTES: u32 = 4096;
pub const GROUP: u16 = 0;

/// Zeroed pages of our own: the kernel writes into them while we hold no reference there.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping, at an address of the kernel's choice.
        let start =
            unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages { start, bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: the mapping is ours and whole; whoever knew of it is gone (see `Buffers`).
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Must outlive the requests of the ring it is registered with.
pub struct Buffers {
    entries: Pages,
    memory: Pages,
    tail: u16,
}

impl Buffers {
    pub fn new() -> io::Result<Self> {
        let entries = Pages::new(usize::from(COUNT) * size_of::<BufRingEntry>())?;
        let mut buffers = Buffers { entries, memory: Pages::new(usize::from(COUNT) * BYTES as usize)?, tail: 0 };
        (0..COUNT).for_each(|id| buffers.offer(id));
        buffers.publish();
        Ok(buffers)
    }

    pub fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: page-aligned memory for `COUNT` entries that outlives the ring.
        unsafe { submitter.register_buf_ring_with_flags(self.entries.start.as_ptr() as u64, COUNT, GROUP, 0) }
    }

    /// What arrived in buffer `id`; the kernel has handed it over until
    /// [`give_back`](Buffers::give_back).
    pub fn arrived(&self, id: u16, bytes: usize) -> &[u8] {
        if id >= COUNT {
            return &[];
        }
        // SAFETY: within the mapping, and the kernel does not write to a buffer it has handed over.
        unsafe {
            let start = self.memory.start.as_ptr().add(usize::from(id) * BYTES as usize);
            std::slice::from_raw_parts(start, bytes.min(BYTES as usize))
        }
    }

    pub fn give_back(&mut self, id: u16) {
        if id < COUNT {
            self.offer(id);
            self.publish();
        }
    }

    /// The memory is never given back.
    pub fn leak(&mut self) {
        (self.entries.bytes, self.memory.bytes) = (0, 0);
    }

    fn offer(&mut self, id: u16) {
        let at = usize::from(self.tail & (COUNT - 1));
        // SAFETY: `at` is within the `COUNT` entries; the kernel reads only entries before the
        // tail.
        unsafe {
            let entry = &mut *self.entries.start.as_ptr().cast::<BufRingEntry>().add(at);
            entry.set_addr(self.memory.start.as_ptr().add(usize::from(id) * BYTES as usize) as u64);
            entry.set_len(BYTES);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry; the kernel reads it, we alone write it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.start.as_ptr().cast::<BufRingEntry>());
            (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}
