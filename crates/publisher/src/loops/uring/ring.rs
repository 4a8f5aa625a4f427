//! The ring of one hall: its table of files, what is asked of the kernel, and what the kernel says.
//!
//! Start at    [`Ring::new`].

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use io_uring::types::{CancelBuilder, DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::process::{Resource, getrlimit};

use crate::delivery_core::{PIECES, Pieces};
use crate::loops::uring::buffers::{Buffers, GROUP};

/// Sends that are handed over in one call.
pub const BATCH: usize = 256;
/// Requests that may wait to be handed over.
const REQUESTS: u32 = 1024;
/// Answers that may wait to be looked at; more are kept by the kernel, at a price.
const ANSWERS: u32 = 8192;
/// `IORING_RECVSEND_POLL_FIRST`.
const POLL_FIRST: u16 = 1;
/// The kernel allows no larger table.
const FILES_MOST: u64 = 1 << 20;

#[allow(clippy::cast_possible_truncation)]
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
/// How often a call is made again, and a quiet moment waited for.
const TRIES: u32 = 1_000;

/// What an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Somebody has come: the number of the request.
    Door(u32),
    Bell,
    /// Of a slot.
    Receive(u32),
    Send(u32),
    Writable(u32),
    Shut(u32),
    Close(u32),
    /// Nobody waits for it.
    Nothing,
    /// A socket from elsewhere has its place in the table.
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
    /// As a system call's: below zero an error's number.
    pub result: i32,
    /// Of what has arrived.
    pub buffer: Option<u16>,
    /// There will be more answers to the same request.
    pub goes_on: bool,
}

/// Where the kernel writes who has come.
#[repr(C)]
#[derive(Clone, Copy)]
struct Caller {
    address: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl Caller {
    fn unknown() -> Self {
        // SAFETY: plain numbers, for which zero is a value: no family.
        Caller { address: unsafe { std::mem::zeroed() }, bytes: 0 }
    }

    fn ip(&self) -> Option<std::net::IpAddr> {
        let address: *const libc::sockaddr_storage = &raw const self.address;
        match i32::from(self.address.ss_family) {
            libc::AF_INET => {
                // SAFETY: the kernel wrote an address of this family; the storage is large enough
                // for any.
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

/// Room for the pieces of a batch of sends, while the kernel reads where they are.
struct Letters {
    messages: Vec<libc::msghdr>,
    slices: Vec<libc::iovec>,
}

pub struct Ring {
    ring: IoUring,
    pub buffers: Buffers,
    letters: Letters,
    /// Of those who are waited for. They stay where they are.
    callers: Box<[Caller]>,
    /// Requests that are not answered yet, or not for the last time.
    asked: usize,
    /// Places in the table of files.
    pub files: usize,
}

/// How many files one ring's table may hold here: as many as the process may have open, and they do
/// not count as that.
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

/// Why this machine cannot have a loop on io_uring, if it cannot: old kernels lack it, and
/// containers often forbid it.
pub fn check() -> io::Result<()> {
    let ring = ring()?;
    ring.submitter().register_files_sparse(1)?;
    Buffers::new()?.register(&ring.submitter())
}

impl Ring {
    /// `doors`: how many may be waited for at a time.
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
            // SAFETY: what each request points to stays in place until it is answered: see those
            // who ask.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.asked += 1;
                return;
            }
            // The queue is full: hand over what is in it. An error shows again when the loop waits.
            if self.submit().is_err() {
                return;
            }
        }
    }

    /// Who comes next gets a place in the table.
    pub fn accept(&mut self, door: BorrowedFd<'_>, number: u32) {
        let Some(caller) = self.callers.get_mut(number as usize) else { return };
        caller.bytes = ADDRESS_BYTES;
        let entry = opcode::Accept::new(Fd(door.as_raw_fd()), (&raw mut caller.address).cast(), &raw mut caller.bytes)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(&entry, Asked::Door(number));
    }

    /// Who came, after the answer.
    pub fn caller(&self, number: u32) -> Option<std::net::IpAddr> {
        self.callers.get(number as usize).and_then(Caller::ip)
    }

    /// Nobody is waited for any more.
    pub fn close_doors(&mut self) {
        for number in (0_u32..).take(self.callers.len()) {
            self.push(&opcode::AsyncCancel::new(Asked::Door(number).pack()).build(), Asked::Nothing);
        }
    }

    pub fn listen_for_bell(&mut self, bell: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(Fd(bell.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        self.push(&entry, Asked::Bell);
    }

    /// `is_new`: the peer may have sent something already. Later that is so seldom that it is not
    /// tried at once.
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

    /// Sends without waiting, when the batch is handed over: until then the pieces must stay as
    /// they are.
    ///
    /// # Safety
    /// Nothing that the pieces are of may change or move before the next [`submit`](Self::submit);
    /// of [`BATCH`] sends at most may be asked for before that.
    pub unsafe fn send(&mut self, slot: u32, file: u32, pieces: &Pieces<'_>) {
        // Handing over frees the letters: it must not come between a letter and the request that
        // points to it.
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
                // SAFETY: plain numbers and pointers, for which zero is a value: no name, no
                // control.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                // Neither list grows beyond what was reserved: what is pointed to does not move.
                message.msg_iov = slices[start..].as_mut_ptr();
                message.msg_iovlen = many.len();
                messages.push(message);
                let message = &raw const messages[messages.len() - 1];
                opcode::SendMsg::new(Fixed(file), message).flags(flags.cast_unsigned()).build()
            }
        };
        self.push(&entry, Asked::Send(slot));
    }

    /// Nothing more will be sent. This is done some time later by a thread of the kernel's, to
    /// whatever has the place then: it must not be given to another before the answer.
    pub fn shut(&mut self, slot: u32, file: u32) {
        self.push(&opcode::Shutdown::new(Fixed(file), libc::SHUT_WR).build(), Asked::Shut(slot));
    }

    /// What was asked is answered now. By its number, which the kernel finds in a table: for a file
    /// it would go through all that everybody waits for.
    pub fn cancel(&mut self, asked: Asked) {
        self.push(&opcode::AsyncCancel::new(asked.pack()).build(), Asked::Nothing);
    }

    pub fn close(&mut self, file: u32, asked: Asked) {
        self.push(&opcode::Close::new(Fixed(file)).build(), asked);
    }

    /// Gives an open socket a place in the table; it may then be closed here. What else is answered
    /// meanwhile goes to `others`.
    pub fn install(&mut self, socket: &OwnedFd, others: &mut Vec<Answered>) -> io::Result<u32> {
        let mut place: RawFd = socket.as_raw_fd();
        // An offset of -1 asks for any free place, which is written where the descriptor was.
        let entry = opcode::FilesUpdate::new((&raw mut place).cast_const(), 1).offset(-1).build();
        self.push(&entry, Asked::Install);
        self.installed(others)?;
        // SAFETY: ours; read anew because the kernel has written to it behind the compiler's back.
        let place = unsafe { std::ptr::read_volatile(&raw const place) };
        u32::try_from(place).map_err(io::Error::other)
    }

    /// Waits for the answer to the one [`Asked::Install`] that there is.
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

    /// Hands over what has been asked for. Sends have been tried when this returns, and are
    /// answered.
    pub fn submit(&mut self) -> io::Result<()> {
        let mut tries = 0;
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR)) => {}
                // No memory, for the moment.
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

    /// Waits until the kernel writes nowhere any more.
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

    /// Hands over, and waits for an answer, or for so long; `None` for as long as it takes.
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

    /// What the kernel has answered.
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
        // Requests outlive the ring for a moment; what they write to must outlive them.
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
    fn each_is_sent_its_own_pieces_however_full_the_queue_was() {
        let mut ring = Ring::new(0).unwrap();
        let letters: [[&[u8]; 2]; 3] = [[b"for ", b"one."], [b"for ", b"two."], [b"to the", b" third."]];
        let mut peers: Vec<_> = (0..letters.len())
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                theirs.set_nonblocking(true).unwrap();
                (ring.install(&OwnedFd::from(ours), &mut Vec::new()).unwrap(), theirs)
            })
            .collect();
        // What was asked for before the batch leaves no place, one, or two.
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
