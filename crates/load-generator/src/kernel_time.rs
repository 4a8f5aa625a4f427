//! When bytes reached the socket, by the kernel's clock. Separates the server's latency from ours.
//!
//! Does        enables kernel receive timestamps, and reads them with the bytes.
//! Holds       the timestamp is that of the last bytes of a read.
//! Costs       a few hundred nanoseconds per read, so only a sample of the connections uses it.
//! Start at    [`enable`], [`receive`].

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// One connection in this many is sampled.
const SAMPLED_EVERY: u32 = 16;

/// Returns whether the connection in `slot` uses timestamps.
pub fn is_sampled(slot: u32) -> bool {
    slot.is_multiple_of(SAMPLED_EVERY)
}

/// Size of the control buffer in words: a header and a time, aligned as the kernel requires.
const CONTROL_WORDS: usize = 8;

fn size(bytes: usize) -> libc::socklen_t {
    // Sizes of types in this file: a few dozen bytes.
    libc::socklen_t::try_from(bytes).unwrap_or(0)
}

/// Asks the kernel for receive timestamps. If it refuses, reads have no timestamp.
pub fn enable(socket: &OwnedFd) {
    let on: libc::c_int = 1;
    // SAFETY: `on` lives through the call, and the given size is its size.
    let _ = unsafe {
        let value = std::ptr::from_ref(&on).cast();
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            value,
            size(size_of::<libc::c_int>()),
        )
    };
}

/// Receives bytes. Returns how many, and when the last of them arrived, in nanoseconds since 1970.
///
/// # Errors
/// Returns the error of `recvmsg`.
pub fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<(usize, Option<i64>), Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut slice = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the struct consists of numbers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: the message points to `into` and `control`, which live through the call and have the
    // given sizes.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let Ok(bytes) = usize::try_from(received) else {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    Ok((bytes, stamp(&message)))
}

fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled in `message`. Its control bytes are aligned and still alive.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            if ((*at).cmsg_level, (*at).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time = std::ptr::read_unaligned(libc::CMSG_DATA(at).cast::<libc::timespec>());
                return Some(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec));
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    fn now_ns() -> i64 {
        i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
    }

    #[test]
    fn timestamp_is_the_arrival_and_not_the_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mine = OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let mut theirs = listener.accept().unwrap().0;
        enable(&mine);
        let mut received = [0; 64];
        // The kernel starts to take timestamps shortly after the first request.
        for _ in 0..1_000 {
            let before_ns = now_ns();
            theirs.write_all(b"hello").unwrap();
            std::thread::sleep(Duration::from_millis(5));
            let (bytes, at_ns) = receive(&mine, &mut received).unwrap();
            assert_eq!(&received[..bytes], b"hello");
            if let Some(at_ns) = at_ns {
                assert!(at_ns >= before_ns && at_ns < now_ns() - 1_000_000, "{before_ns} {at_ns}");
                return;
            }
        }
        panic!("no timestamp in a thousand reads");
    }
}
