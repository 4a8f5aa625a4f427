//! The io_uring instance of one delivery thread: its file table, requests and completions.
//!
//! Start at    [`Ring::new`].

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use io_uring::types::{CancelBuilder, DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::process::{Resource, getrlimit};

use crate::delivery_core::{PIECES, Pieces};
use crate::loops::uring::buffers::{Buffers, GROUP};

/// Most sends in one submission.
pub const BATCH: usize = 256;
/// Submission queue size in requests.
const REQUESTS: u32 = 1024;
/// Completion queue size. The kernel stores further completions, at a cost.
const ANSWERS: u32 = 8192;
/// `IORING_RECVSEND_POLL_FIRST`.
const POLL_FIRST: u16 = 1;
/// Largest file table that the kernel allows.
const FILES_MOST: u64 = 1 << 20;

#[allow(clippy::cast_possible_truncation)]
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
/// Most attempts to submit, and to wait for pending requests.
const TRIES: u32 = 1_000;

/// The request that a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An accept request, by its number.
    Door(u32),
    Bell,
    /// A receive request for a slot.
    Receive(u32),
    Send(u32),
    Writable(u32),
    Shut(u32),
    Close(u32),
    /// A request whose completion is ignored.
    Nothing,
    /// Installs a socket into the file table.
    Install,
}

impl Asked {
    fn pack(self) -> u64 {
        let (kind, number) = match self {
            Asked::Door(number) => (0_u64, number),
            Asked::Bell => (1, 0),
            Asked::Receive(slot) => (2, slot),
            Asked::Send(slot) => (3, slot),
            Asked::Writable(slot) => (4, slot),
            Asked::Close(slot) => (5, slot),
            Asked::Nothing => (6, 0),
            Asked::Install => (7, 0),
            Asked::Shut(slot) => (8, slot),
        };
        kind << 32 | u64::from(number)
    }

    #[allow(clippy::cast_possible_truncation)]
    fn unpack(data: u64) -> Self {
        let number = data as u32;
        match data >> 32 {
            0 => Asked::Door(number),
            1 => Asked::Bell,
            2 => Asked::Receive(number),
            3 => Asked::Send(number),
            4 => Asked::Writable(number),
            5 => Asked::Close(number),
            7 => Asked::Install,
            8 => Asked::Shut(number),
            _ => Asked::Nothing,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub asked: Asked,
    /// Result as of a system call: a negative value is an error number.
    pub result: i32,
    /// Number of the buffer with the received bytes.
    pub buffer: Option<u16>,
    /// Whether more completions of the same request will follow.
    pub goes_on: bool,
}

/// Storage where the kernel writes a client's address.
#[repr(C)]
#[derive(Clone, Copy)]
struct Caller {
    address: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl Caller {
    fn unknown() -> Self {
        // SAFETY: the fields are integers, for which zero is valid. It means no address family.
        Caller { address: unsafe { std::mem::zeroed() }, bytes: 0 }
    }

    fn ip(&self) -> Option<std::net::IpAddr> {
        let address: *const libc::sockaddr_storage = &raw const self.address;
        match i32::from(self.address.ss_family) {
            libc::AF_INET => {
                // SAFETY: the kernel wrote an address of this family, and the storage fits every
                // family.
                let ip = unsafe { (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr };
                Some(std::net::Ipv4Addr::from(u32::from_be(ip)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let ip = unsafe { (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr };
                Some(std::net::Ipv6Addr::from(ip).into())
            }
            _ => None,
        }
    }
}

/// Message headers of a batch of sends, which the kernel reads at submission.
struct Letters {
    messages: Vec<libc::msghdr>,
    slices: Vec<libc::iovec>,
}

pub struct Ring {
    ring: IoUring,
    pub buffers: Buffers,
    letters: Letters,
    /// Client addresses of the accept requests. Their memory must not move.
    callers: Box<[Caller]>,
    /// Requests without their last completion.
    asked: usize,
    /// Number of entries in the file table.
    pub files: usize,
}

/// Returns the largest file table of one ring: the limit on open files, which its entries do not
/// count towards.
pub fn table_size() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(FILES_MOST).min(FILES_MOST)
}

fn ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(ANSWERS)
        .build(REQUESTS)
}

/// Checks that this machine supports the io_uring loop. Old kernels lack it, and containers often
/// forbid it.
///
/// # Errors
/// The error of the first call that failed.
pub fn check() -> io::Result<()> {
    let ring = ring()?;
    ring.submitter().register_files_sparse(1)?;
    Buffers::new()?.register(&ring.submitter())
}

impl Ring {
    /// Creates a ring with `doors` accept requests.
    pub fn new(doors: usize) -> io::Result<Self> {
        let (ring, buffers, files) = (ring()?, Buffers::new()?, table_size());
        ring.submitter().register_files_sparse(u32::try_from(files).unwrap_or(u32::MAX))?;
        buffers.register(&ring.submitter())?;
        let letters = Letters { messages: Vec::with_capacity(BATCH), slices: Vec::with_capacity(BATCH * PIECES) };
        let callers = vec![Caller::unknown(); doors].into();
        Ok(Ring { ring, buffers, letters, callers, asked: 0, files: usize::try_from(files).unwrap_or(usize::MAX) })
    }

    fn push(&mut self, entry: &squeue::Entry, asked: Asked) {
        let entry = entry.clone().user_data(asked.pack());
        loop {
            // SAFETY: the memory that a request points to stays in place until its completion: see
            // the callers.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.asked += 1;
                return;
            }
            // The queue is full, so submit it. An error occurs again when the loop waits.
            if self.submit().is_err() {
                return;
            }
        }
    }

    /// Requests to accept the next connection into the file table.
    pub fn accept(&mut self, door: BorrowedFd<'_>, number: u32) {
        let Some(caller) = self.callers.get_mut(number as usize) else { return };
        caller.bytes = ADDRESS_BYTES;
        let entry = opcode::Accept::new(Fd(door.as_raw_fd()), (&raw mut caller.address).cast(), &raw mut caller.bytes)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(&entry, Asked::Door(number));
    }

    /// Returns the client's address, once accept request `number` is complete.
    pub fn caller(&self, number: u32) -> Option<std::net::IpAddr> {
        self.callers.get(number as usize).and_then(Caller::ip)
    }

    /// Cancels all accept requests.
    pub fn close_doors(&mut self) {
        for number in (0_u32..).take(self.callers.len()) {
            self.push(&opcode::AsyncCancel::new(Asked::Door(number).pack()).build(), Asked::Nothing);
        }
    }

    pub fn listen_for_bell(&mut self, bell: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(Fd(bell.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        self.push(&entry, Asked::Bell);
    }

    /// Requests to receive bytes. `is_new` says that the peer may have sent some already. On an
    /// older connection that is rare, so the kernel first waits for readiness.
    pub fn receive(&mut self, slot: u32, file: u32, is_new: bool) {
        let entry = opcode::Recv::new(Fixed(file), std::ptr::null_mut(), 0)
            .buf_group(GROUP)
            .ioprio(if is_new { 0 } else { POLL_FIRST })
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.push(&entry, Asked::Receive(slot));
    }

    pub fn tell_writable(&mut self, slot: u32, file: u32) {
        let entry = opcode::PollAdd::new(Fixed(file), libc::POLLOUT as u32).build();
        self.push(&entry, Asked::Writable(slot));
    }

    /// Prepares a send that happens without waiting at the next submission.
    ///
    /// # Safety
    /// The memory of `pieces` must not change or move before the next [`submit`](Self::submit). At
    /// most [`BATCH`] sends may be prepared before that.
    pub unsafe fn send(&mut self, slot: u32, file: u32, pieces: &Pieces<'_>) {
        // A submission clears the message headers, so it must not happen between a header and its
        // request.
        if self.ring.submission().is_full() && self.submit().is_err() {
            return;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let entry = match pieces.as_slice() {
            [one] => {
                let bytes = u32::try_from(one.len()).unwrap_or(u32::MAX);
                opcode::Send::new(Fixed(file), one.as_ptr(), bytes).flags(flags).build()
            }
            many => {
                let Letters { messages, slices } = &mut self.letters;
                let start = slices.len();
                if messages.len() >= BATCH || start + many.len() > BATCH * PIECES {
                    return;
                }
                slices.extend(
                    many.iter()
                        .map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() }),
                );
                // SAFETY: the fields are integers and pointers, for which zero is valid. It means
                // no address and no control data.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                // Neither list grows beyond its reserved capacity, so the pointers stay valid.
                message.msg_iov = slices[start..].as_mut_ptr();
                message.msg_iovlen = many.len();
                messages.push(message);
                let message = &raw const messages[messages.len() - 1];
                opcode::SendMsg::new(Fixed(file), message).flags(flags.cast_unsigned()).build()
            }
        };
        self.push(&entry, Asked::Send(slot));
    }

    /// Requests to shut the sending side. A kernel thread does this later, to the socket that then
    /// has index `file`. The index must not be reused before the completion.
    pub fn shut(&mut self, slot: u32, file: u32) {
        self.push(&opcode::Shutdown::new(Fixed(file), libc::SHUT_WR).build(), Asked::Shut(slot));
    }

    /// Cancels a request. It is found by its number, which is a table lookup. A search by file
    /// would visit all pending requests.
    pub fn cancel(&mut self, asked: Asked) {
        self.push(&opcode::AsyncCancel::new(asked.pack()).build(), Asked::Nothing);
    }

    pub fn close(&mut self, file: u32, asked: Asked) {
        self.push(&opcode::Close::new(Fixed(file)).build(), asked);
    }

    /// Installs an open socket into the file table and returns its index. The caller may then close
    /// `socket`. Other completions that arrive in the meantime are appended to `others`.
    pub fn install(&mut self, socket: &OwnedFd, others: &mut Vec<Answered>) -> io::Result<u32> {
        let mut place: RawFd = socket.as_raw_fd();
        // An offset of -1 selects a free index, which the kernel writes over the descriptor.
        let entry = opcode::FilesUpdate::new((&raw mut place).cast_const(), 1).offset(-1).build();
        self.push(&entry, Asked::Install);
        self.installed(others)?;
        // SAFETY: `place` is ours. The volatile read is needed because the kernel wrote to it.
        let place = unsafe { std::ptr::read_volatile(&raw const place) };
        u32::try_from(place).map_err(io::Error::other)
    }

    /// Waits for the completion of the only [`Asked::Install`] request.
    fn installed(&mut self, others: &mut Vec<Answered>) -> io::Result<i32> {
        loop {
            self.ring.submitter().submit_and_wait(1)?;
            let mut answered = None;
            self.answers(|answer| match answer.asked {
                Asked::Install => answered = Some(answer.result),
                _ => others.push(answer),
            });
            if let Some(result) = answered {
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
        }
    }

    /// Submits the prepared requests. On return, all sends have been tried and have completions.
    pub fn submit(&mut self) -> io::Result<()> {
        let mut tries = 0;
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR)) => {}
                // The kernel is out of memory for the moment.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) && tries < TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
        }
        self.letters.messages.clear();
        self.letters.slices.clear();
        Ok(())
    }

    /// Waits until no request is pending, so that the kernel no longer writes to our memory.
    fn quiet(&mut self) -> io::Result<()> {
        self.push(&opcode::AsyncCancel2::new(CancelBuilder::any()).build(), Asked::Nothing);
        for _ in 0..TRIES {
            if self.asked == 0 {
                break;
            }
            self.wait(Some(1_000_000))?;
            self.answers(|_| {});
        }
        Ok(())
    }

    /// Submits the prepared requests and waits for a completion, for at most `wait_ns` nanoseconds.
    /// `None` means no limit.
    pub fn wait(&mut self, wait_ns: Option<u64>) -> io::Result<()> {
        self.submit()?;
        let time;
        let mut arguments = SubmitArgs::new();
        if let Some(ns) = wait_ns {
            let nanoseconds = u32::try_from(ns % 1_000_000_000).unwrap_or(0);
            time = Timespec::new().sec(ns / 1_000_000_000).nsec(nanoseconds);
            arguments = arguments.timespec(&time);
        }
        let want = usize::from(wait_ns != Some(0));
        match self.ring.submitter().submit_with_args(want, &arguments) {
            Ok(_) => {}
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Passes all completions to `hear`.
    pub fn answers(&mut self, mut hear: impl FnMut(Answered)) {
        for entry in self.ring.completion() {
            self.asked -= usize::from(!cqueue::more(entry.flags()));
            hear(Answered {
                asked: Asked::unpack(entry.user_data()),
                result: entry.result(),
                buffer: cqueue::buffer_select(entry.flags()),
                goes_on: cqueue::more(entry.flags()),
            });
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Requests may outlive the ring for a moment, so the memory that they write to must too.
        if self.quiet().is_err() || self.asked > 0 {
            self.buffers.leak();
            std::mem::forget(std::mem::take(&mut self.callers));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_send_has_its_own_pieces_at_any_queue_fill() {
        let mut ring = Ring::new(0).unwrap();
        let letters: [[&[u8]; 2]; 3] = [[b"for ", b"one."], [b"for ", b"two."], [b"to the", b" third."]];
        let mut peers: Vec<_> = (0..letters.len())
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                theirs.set_nonblocking(true).unwrap();
                (ring.install(&OwnedFd::from(ours), &mut Vec::new()).unwrap(), theirs)
            })
            .collect();
        // The requests before the batch leave no entry, one, or two.
        for free in 0..letters.len() {
            while ring.ring.submission().len() + free < REQUESTS as usize {
                ring.push(&opcode::Nop::new().build(), Asked::Nothing);
            }
            for (slot, ((file, _), letter)) in (0_u32..).zip(peers.iter().zip(&letters)) {
                // SAFETY: the pieces are constants.
                unsafe { ring.send(slot, *file, &Pieces::of(letter)) };
            }
            ring.submit().unwrap();
            for ((_, theirs), letter) in peers.iter_mut().zip(&letters) {
                let mut came = [0; 64];
                let bytes = theirs.read(&mut came).unwrap();
                assert_eq!(came[..bytes].escape_ascii().to_string(), letter.concat().escape_ascii().to_string());
            }
            ring.answers(|_| {});
        }
    }
}
