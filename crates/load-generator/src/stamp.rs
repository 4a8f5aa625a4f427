//! When bytes came to a socket, by the kernel's clock: before that they were the server's, behind it they are ours.
//!
//! Does        have the kernel note it, and read it together with the bytes.
//! Holds       what it says is of the last bytes that a read brought: none of them came later.
//! Costs       a few hundred nanoseconds a read: a sample of the connections has it.
//! Start at    [`ask`], [`receive`].

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// One connection in so many.
pub const EVERY: u32 = 16;

/// Room for a header and a time, aligned as the kernel wants it.
const CONTROL_WORDS: usize = 8;

fn size(bytes: usize) -> libc::socklen_t {
    // Of types in this file: a few dozen bytes.
    libc::socklen_t::try_from(bytes).unwrap_or(0)
}

/// From now on the kernel notes when something comes. Where it cannot, nothing is known of that.
pub fn ask(socket: &OwnedFd) {
    let on: libc::c_int = 1;
    // SAFETY: `on` lives through the call, and its size is what is said.
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

/// Receives, and says how much, and when the last of it had come: nanoseconds since 1970.
pub fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<(usize, Option<i64>), Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut slice = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: plain numbers and pointers, for which zero is a value: no name.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: the message points to `into` and `control`, which live through the call and are as large as it says.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let Ok(bytes) = usize::try_from(received) else {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    Ok((bytes, stamp(&message)))
}

fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel has filled in `message`, whose control bytes are aligned and still there.
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
    fn what_waits_is_told_with_the_time_when_it_came() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let mine = OwnedFd::from(TcpStream::connect(door.local_addr().unwrap()).unwrap());
        let mut theirs = door.accept().unwrap().0;
        ask(&mine);
        let mut came = [0; 64];
        // The kernel begins to note times a moment after the first has asked it to.
        for _ in 0..1_000 {
            let before_ns = now_ns();
            theirs.write_all(b"hello").unwrap();
            std::thread::sleep(Duration::from_millis(5));
            let (bytes, at_ns) = receive(&mine, &mut came).unwrap();
            assert_eq!(&came[..bytes], b"hello");
            if let Some(at_ns) = at_ns {
                assert!(at_ns >= before_ns && at_ns < now_ns() - 1_000_000, "{before_ns} {at_ns}");
                return;
            }
        }
        panic!("no time in a thousand reads");
    }
}
