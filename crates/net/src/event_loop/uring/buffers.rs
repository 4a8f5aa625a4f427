//! Receive buffers that the kernel picks when input arrives, so that a silent connection holds
//! none.
//!
//! Start at    [`Buffers::new`].

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Number of buffers, and so of unread arrivals. A power of two.
const COUNT: u16 = 256;
/// The number under which the kernel knows the buffers.
pub const GROUP: u16 = 0;

/// Zeroed private pages. The kernel writes into them while no reference to them exists.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Pages {}

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
        // SAFETY: the mapping is whole and ours, and the kernel no longer knows it: see `Buffers`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The buffers of one ring. They must outlive the requests of that ring.
pub struct Buffers {
    entries: Pages,
    memory: Pages,
    buffer_bytes: u32,
    tail: u16,
}

impl Buffers {
    /// Makes the buffers; `buffer_bytes` is the size of one.
    ///
    /// # Errors
    /// Fails if the process is out of memory.
    pub fn new(buffer_bytes: u32) -> io::Result<Self> {
        let entries = Pages::new(usize::from(COUNT) * size_of::<BufRingEntry>())?;
        let memory = Pages::new(usize::from(COUNT) * buffer_bytes as usize)?;
        let mut buffers = Buffers { entries, memory, buffer_bytes, tail: 0 };
        (0..COUNT).for_each(|id| buffers.offer(id));
        buffers.publish();
        Ok(buffers)
    }

    /// Tells the kernel about the buffers.
    ///
    /// # Errors
    /// Fails if the kernel does not offer provided buffers.
    pub fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: page-aligned memory for `COUNT` entries that outlives the ring.
        unsafe { submitter.register_buf_ring_with_flags(self.entries.start.as_ptr() as u64, COUNT, GROUP, 0) }
    }

    /// Returns what arrived in buffer `id`, which the kernel does not touch until
    /// [`give_back`](Buffers::give_back).
    pub fn arrived(&mut self, id: u16, bytes: usize) -> &mut [u8] {
        if id >= COUNT {
            return &mut [];
        }
        // SAFETY: within the mapping; the kernel does not touch a buffer that it has handed over,
        // and `&mut self` keeps every other reference away.
        unsafe {
            let start = self.memory.start.as_ptr().add(usize::from(id) * self.buffer_bytes as usize);
            std::slice::from_raw_parts_mut(start, bytes.min(self.buffer_bytes as usize))
        }
    }

    /// Lets the kernel use buffer `id` again.
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
        // SAFETY: `at` is within the `COUNT` entries; the kernel reads only entries before the
        // tail.
        unsafe {
            let entry = &mut *self.entries.start.as_ptr().cast::<BufRingEntry>().add(at);
            entry.set_addr(self.memory.start.as_ptr().add(usize::from(id) * self.buffer_bytes as usize) as u64);
            entry.set_len(self.buffer_bytes);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry; the kernel reads it and only we write it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.start.as_ptr().cast::<BufRingEntry>());
            (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}
