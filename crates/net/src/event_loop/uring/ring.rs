//! The io_uring of one loop: requests to the kernel and its completions.
//!
//! Holds       1. everything that a request points to stays in place until the request completes;
//!             2. memory of an unfinished request is leaked rather than freed.
//! Start at    [`Ring::new`].

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use io_uring::types::{CancelBuilder, DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::process::{Resource, getrlimit};

use crate::event_loop::api::{BATCH_MAX, LoopOptions, PARTS_MAX};
use crate::event_loop::uring::buffers::{Buffers, GROUP};
use crate::event_loop::uring::completion::{Completion, UringRequest};

/// Requests that may wait to be submitted.
const REQUESTS: u32 = 1024;
/// Completions that may wait to be looked at. The kernel keeps more, at a price.
const COMPLETIONS: u32 = 8192;
/// `IORING_RECVSEND_POLL_FIRST`: wait for readiness before the first try.
const POLL_FIRST: u16 = 1;
/// `IORING_ENTER_GETEVENTS`: run deferred work of the kernel.
const GET_EVENTS: u32 = 1;
/// The kernel allows no larger table.
const FILES_MAX: u64 = 1 << 20;
/// How often a call that is refused for want of memory is repeated.
const TRIES: u32 = 1_000;

#[allow(clippy::cast_possible_truncation)]
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

/// Where the kernel writes the address of a peer.
#[repr(C)]
#[derive(Clone, Copy)]
struct PeerAddress {
    storage: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl PeerAddress {
    fn unknown() -> Self {
        // SAFETY: plain numbers, for which zero is valid and means no address family.
        PeerAddress { storage: unsafe { std::mem::zeroed() }, bytes: 0 }
    }

    fn ip(&self) -> Option<IpAddr> {
        let address: *const libc::sockaddr_storage = &raw const self.storage;
        match i32::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the kernel wrote an address of this family; the storage fits any family.
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

/// Message headers of one batch of sends, while the kernel reads them.
struct Headers {
    messages: Vec<libc::msghdr>,
    slices: Vec<libc::iovec>,
}

// SAFETY: the pointers are read only by the kernel and only during `Ring::submit`.
unsafe impl Send for Headers {}

/// See the module.
pub struct Ring {
    ring: IoUring,
    pub buffers: Buffers,
    headers: Headers,
    /// One for each request to accept. Boxes, because the kernel writes to them.
    #[allow(clippy::vec_box)]
    peers: Vec<Box<PeerAddress>>,
    /// Requests that have not completed, or not for the last time.
    unfinished: usize,
    /// A call failed for good: nothing more is submitted.
    is_broken: bool,
    /// Places in the table of files.
    pub files: usize,
}

fn open() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_cqsize(COMPLETIONS)
        .build(REQUESTS)
}

/// Checks whether this machine can have the loop. Old kernels cannot and containers often may not.
///
/// # Errors
/// Returns the reason.
pub fn check(options: LoopOptions) -> io::Result<()> {
    let ring = open()?;
    ring.submitter().register_files_sparse(1)?;
    Buffers::new(4096)?.register(&ring.submitter())?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if options.detaches && !probe.is_supported(opcode::FixedFdInstall::CODE) {
        return Err(io::Error::other("the kernel is older than Linux 6.8"));
    }
    Ok(())
}

impl Ring {
    /// Opens a ring whose table has room for as many sockets as the process may have files open;
    /// sockets in the table do not count as open files. `buffer_bytes` is the size of one buffer.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn new(buffer_bytes: u32) -> io::Result<Self> {
        let (ring, buffers) = (open()?, Buffers::new(buffer_bytes)?);
        let files = getrlimit(Resource::Nofile).current.unwrap_or(FILES_MAX).min(FILES_MAX);
        ring.submitter().register_files_sparse(u32::try_from(files).unwrap_or(u32::MAX))?;
        buffers.register(&ring.submitter())?;
        let headers =
            Headers { messages: Vec::with_capacity(BATCH_MAX), slices: Vec::with_capacity(BATCH_MAX * PARTS_MAX) };
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        Ok(Ring { ring, buffers, headers, peers: Vec::new(), unfinished: 0, is_broken: false, files })
    }

    fn push(&mut self, entry: squeue::Entry, request: UringRequest) {
        let entry = entry.user_data(request.pack());
        loop {
            // SAFETY: what each request points to stays in place until it completes: see the
            // callers.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.unfinished += 1;
                return;
            }
            // The queue is full: submit it. An error shows again when the loop waits.
            if self.submit().is_err() {
                return;
            }
        }
    }

    /// Makes room for one more request to accept, and returns its number.
    pub fn add_acceptor(&mut self) -> u32 {
        self.peers.push(Box::new(PeerAddress::unknown()));
        u32::try_from(self.peers.len() - 1).unwrap_or(u32::MAX)
    }

    /// Accepts one connection into the table.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, number: u32) {
        let Some(peer) = self.peers.get_mut(number as usize) else { return };
        peer.bytes = ADDRESS_BYTES;
        let entry = opcode::Accept::new(Fd(listener.as_raw_fd()), (&raw mut peer.storage).cast(), &raw mut peer.bytes)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(entry, UringRequest::Accept(number));
    }

    /// Returns the address of the peer, after the request to accept has completed.
    pub fn peer(&self, number: u32) -> Option<IpAddr> {
        self.peers.get(number as usize).and_then(|peer| peer.ip())
    }

    /// Reports each time the descriptor becomes readable.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, source: u32) {
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        self.push(entry, UringRequest::Wake(source));
    }

    /// Receives once, into a buffer of the ring. `is_first`: the peer may have sent something
    /// already, so try at once.
    pub fn receive(&mut self, token: u32, file: u32, is_first: bool) {
        let entry = opcode::Recv::new(Fixed(file), std::ptr::null_mut(), 0)
            .buf_group(GROUP)
            .ioprio(if is_first { 0 } else { POLL_FIRST })
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.push(entry, UringRequest::Receive(token));
    }

    /// Reports once when the socket takes more.
    pub fn poll_writable(&mut self, token: u32, file: u32) {
        self.push(opcode::PollAdd::new(Fixed(file), libc::POLLOUT as u32).build(), UringRequest::PollWritable(token));
    }

    /// Sends without waiting, as soon as the batch is submitted. `number` names the send.
    ///
    /// # Safety
    /// The parts must stay in place and unchanged until the send has completed. At most
    /// [`BATCH_MAX`] sends of at most [`PARTS_MAX`] parts may come between two calls of
    /// [`forget_headers`](Ring::forget_headers).
    pub unsafe fn send(&mut self, number: u32, file: u32, parts: &[&[u8]]) {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let entry = match parts {
            [one] => {
                let bytes = u32::try_from(one.len()).unwrap_or(u32::MAX);
                opcode::Send::new(Fixed(file), one.as_ptr(), bytes).flags(flags).build()
            }
            many => {
                let Headers { messages, slices } = &mut self.headers;
                let many = &many[..many.len().min(PARTS_MAX)];
                debug_assert!(messages.len() < BATCH_MAX, "a batch has at most {BATCH_MAX} sends");
                let start = slices.len();
                slices.extend(
                    many.iter()
                        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() }),
                );
                // SAFETY: plain numbers and pointers, for which zero is valid: no name, no control.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                // Neither list grows beyond its capacity, so nothing that is pointed to moves.
                message.msg_iov = slices[start..].as_mut_ptr();
                message.msg_iovlen = many.len();
                messages.push(message);
                let message = &raw const messages[messages.len() - 1];
                opcode::SendMsg::new(Fixed(file), message).flags(flags.cast_unsigned()).build()
            }
        };
        self.push(entry, UringRequest::Send(number));
    }

    /// Frees the message headers of a batch, all of whose sends have completed.
    pub fn forget_headers(&mut self) {
        self.headers.messages.clear();
        self.headers.slices.clear();
    }

    /// Tells the peer that nothing more will be sent. A kernel thread does this later, to whatever
    /// has the place in the table then: the place must not be reused before the completion.
    pub fn shutdown(&mut self, token: u32, file: u32) {
        self.push(opcode::Shutdown::new(Fixed(file), libc::SHUT_WR).build(), UringRequest::Shutdown(token));
    }

    /// Cancels a request by its number, which the kernel finds in a table; by its file the kernel
    /// would search all requests.
    pub fn cancel(&mut self, request: UringRequest) {
        self.push(opcode::AsyncCancel::new(request.pack()).build(), UringRequest::Ignored);
    }

    pub fn close(&mut self, file: u32, request: UringRequest) {
        self.push(opcode::Close::new(Fixed(file)).build(), request);
    }

    /// Copies a socket into the table; the caller may then close its descriptor. Other completions
    /// go to `others`.
    ///
    /// # Errors
    /// Fails if the table is full.
    pub fn install(&mut self, socket: &OwnedFd, others: &mut Vec<Completion>) -> io::Result<u32> {
        let mut place: RawFd = socket.as_raw_fd();
        // Offset -1 asks for any free place, which the kernel writes where the descriptor was.
        self.push(opcode::FilesUpdate::new((&raw mut place).cast_const(), 1).offset(-1).build(), UringRequest::Install);
        self.installed(others)?;
        // SAFETY: our variable, read anew because the kernel has written to it.
        let place = unsafe { std::ptr::read_volatile(&raw const place) };
        u32::try_from(place).map_err(io::Error::other)
    }

    /// Gives a socket of the table a descriptor of the process. Other completions go to `others`.
    ///
    /// # Errors
    /// Fails if the process is out of file descriptors.
    pub fn take_out(&mut self, file: u32, others: &mut Vec<Completion>) -> io::Result<OwnedFd> {
        self.push(opcode::FixedFdInstall::new(Fixed(file), 0).build(), UringRequest::Install);
        let descriptor = self.installed(others)?;
        // SAFETY: the kernel has just made it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Waits for the completion of the only [`UringRequest::Install`].
    fn installed(&mut self, others: &mut Vec<Completion>) -> io::Result<i32> {
        loop {
            self.submit()?;
            let mut installed = None;
            self.completions(|completion| match completion.request {
                UringRequest::Install => installed = Some(completion.result),
                _ => others.push(completion),
            });
            if let Some(result) = installed {
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
            self.wait(None)?;
        }
    }

    /// Submits the requests that wait. Sends have been tried when this returns.
    ///
    /// # Errors
    /// Fails if the kernel refuses the ring for good.
    pub fn submit(&mut self) -> io::Result<()> {
        let mut tries = 0;
        while !self.is_broken && !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // No memory, for the moment.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) && tries < TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                Err(error) => {
                    self.is_broken = true;
                    return Err(error);
                }
            }
        }
        if self.is_broken { Err(io::Error::other("io_uring has failed before")) } else { Ok(()) }
    }

    /// Submits and waits for a completion, at most for `wait_ns` nanoseconds; `None` waits without
    /// limit.
    ///
    /// # Errors
    /// Fails if the kernel refuses the ring for good.
    pub fn wait(&mut self, wait_ns: Option<u64>) -> io::Result<()> {
        self.submit()?;
        let waited = if wait_ns == Some(0) {
            if !self.ring.submission().taskrun() && !self.ring.submission().cq_overflow() {
                return Ok(());
            }
            // SAFETY: submits nothing and passes no pointer.
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GET_EVENTS, None) }
        } else {
            let time = wait_ns.map(|ns| {
                let rest = u32::try_from(ns % 1_000_000_000).unwrap_or(0);
                Timespec::new().sec(ns / 1_000_000_000).nsec(rest)
            });
            let mut arguments = SubmitArgs::new();
            if let Some(time) = &time {
                arguments = arguments.timespec(time);
            }
            self.ring.submitter().submit_with_args(1, &arguments)
        };
        match waited {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)) =>
            {
                Ok(())
            }
            Err(error) => {
                self.is_broken = true;
                Err(error)
            }
        }
    }

    /// Takes the completions that there are.
    pub fn completions(&mut self, mut take: impl FnMut(Completion)) {
        for entry in self.ring.completion() {
            self.unfinished -= usize::from(!cqueue::more(entry.flags()));
            take(Completion {
                request: UringRequest::unpack(entry.user_data()),
                result: entry.result(),
                buffer: cqueue::buffer_select(entry.flags()),
                has_more: cqueue::more(entry.flags()),
            });
        }
    }

    /// Waits until the kernel writes nowhere any more.
    fn quiet(&mut self) -> io::Result<()> {
        self.push(opcode::AsyncCancel2::new(CancelBuilder::any()).build(), UringRequest::Ignored);
        for _ in 0..TRIES {
            if self.unfinished == 0 {
                break;
            }
            self.wait(Some(1_000_000))?;
            self.completions(|_| {});
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Requests outlive the ring for a moment; their memory must outlive them.
        if self.is_broken || self.quiet().is_err() || self.unfinished > 0 {
            self.buffers.leak();
            std::mem::forget(std::mem::take(&mut self.peers));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_send_has_its_own_parts_at_any_queue_fill() {
        let mut ring = Ring::new(4096).unwrap();
        let messages: [[&[u8]; 2]; 3] = [[b"for ", b"one."], [b"for ", b"two."], [b"to the", b" third."]];
        let mut peers: Vec<_> = (0..messages.len())
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                theirs.set_nonblocking(true).unwrap();
                (ring.install(&OwnedFd::from(ours), &mut Vec::new()).unwrap(), theirs)
            })
            .collect();
        // The requests before the batch leave room for no entry, one, or two.
        for free in 0..messages.len() {
            while ring.ring.submission().len() + free < REQUESTS as usize {
                ring.push(opcode::Nop::new().build(), UringRequest::Ignored);
            }
            for (number, ((file, _), message)) in (0_u32..).zip(peers.iter().zip(&messages)) {
                // SAFETY: the parts are constants.
                unsafe { ring.send(number, *file, message) };
            }
            ring.submit().unwrap();
            ring.forget_headers();
            for ((_, theirs), message) in peers.iter_mut().zip(&messages) {
                let mut arrived = [0; 64];
                let bytes = theirs.read(&mut arrived).unwrap();
                assert_eq!(arrived[..bytes].escape_ascii().to_string(), message.concat().escape_ascii().to_string());
            }
            ring.completions(|_| {});
        }
    }
}
