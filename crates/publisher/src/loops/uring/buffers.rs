//! Receive buffers that the kernel selects when bytes arrive. A silent connection has none.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Number of buffers, a power of two.
const COUNT: u16 = 256;
/// Size of a buffer in bytes. Longer input arrives in several completions.
const BYTES: u32 = 4096;
pub const GROUP: u16 = 0;

/// Zeroed memory pages. The kernel writes to them while we hold no reference into them.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: this is a new private mapping at an address that the kernel chooses.
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
        // SAFETY: this is our whole mapping, and the ring that used it is closed (see `Buffers`).
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The buffers of one ring. They must outlive its requests.
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
        // SAFETY: the memory is page-aligned, has room for `COUNT` entries and outlives the ring.
        unsafe { submitter.register_buf_ring_with_flags(self.entries.start.as_ptr() as u64, COUNT, GROUP, 0) }
    }

    /// Returns the bytes in buffer `id`. They stay valid until [`give_back`](Buffers::give_back).
    pub fn arrived(&self, id: u16, bytes: usize) -> &[u8] {
        if id >= COUNT {
            return &[];
        }
        // SAFETY: the range is within the mapping, and the kernel does not write to a buffer that
        // it has passed to us.
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

    /// Never unmaps the memory, because the kernel may still write to it.
    pub fn leak(&mut self) {
        (self.entries.bytes, self.memory.bytes) = (0, 0);
    }

    fn offer(&mut self, id: u16) {
        let at = usize::from(self.tail & (COUNT - 1));
        // SAFETY: `at` is below `COUNT`, and the kernel reads only entries before the tail.
        unsafe {
            let entry = &mut *self.entries.start.as_ptr().cast::<BufRingEntry>().add(at);
            entry.set_addr(self.memory.start.as_ptr().add(usize::from(id) * BYTES as usize) as u64);
            entry.set_len(BYTES);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail is in the first entry. Only this thread writes it, and the kernel reads
        // it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.start.as_ptr().cast::<BufRingEntry>());
            (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}
