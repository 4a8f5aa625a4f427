//! Sockets of a client with very many connections.
//!
//! Does        connects without blocking, from one of several addresses of 127.0.0.0/8.
//! Holds       the kernel chooses a port at connect, not at bind, so each pair of addresses has all
//!             ports.
//! Start at    [`connect_nonblocking`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_tcp_congestion, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with};

use crate::plan::ReaderKind;

/// Connections per source address. One address has about 28,000 ports, and some rest after use.
const CONNECTIONS_PER_SOURCE: u32 = 10_000;
/// Kernel receive buffer of a slow or stopped reader. Small, so that the server notices soon.
const FAULTY_BUFFER_BYTES: usize = 16 * 1024;

/// The addresses that connections come from.
#[derive(Clone, Copy, Debug)]
pub struct SourceAddresses {
    /// `None` lets the system choose.
    count: Option<u32>,
}

impl SourceAddresses {
    /// If `wanted` is 0, uses as many addresses as `connections` require.
    pub fn new(server: SocketAddr, connections: u32, wanted: u32) -> Self {
        let is_local = matches!(server.ip(), IpAddr::V4(ip) if ip.is_loopback());
        let needed = connections.div_ceil(CONNECTIONS_PER_SOURCE);
        let count = if wanted > 0 { wanted } else { needed };
        SourceAddresses { count: (is_local && count > 1).then_some(count) }
    }

    /// Returns 127.0.0.1 for the first, and so on. Skips addresses that end in 0 or 255.
    fn of(self, number: u32) -> Option<SocketAddrV4> {
        let at = number % self.count?;
        let last = u8::try_from(at % 254 + 1).ok()?;
        let third = u8::try_from(at / 254 % 256).ok()?;
        let second = u8::try_from(at / 254 / 256 % 256).ok()?;
        Some(SocketAddrV4::new(Ipv4Addr::new(127, second, third, last), 0))
    }
}

/// Starts to connect. The socket is writable when the connection is established or has failed.
///
/// # Errors
/// The errors of the system calls, except `INPROGRESS`, which is success.
pub fn connect_nonblocking(
    server: SocketAddr,
    sources: SourceAddresses,
    number: u32,
    reader: ReaderKind,
) -> io::Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // BBR collapses if processors are contended. A kernel without cubic keeps its default.
    let _ = set_tcp_congestion(&socket, "cubic");
    set_tcp_nodelay(&socket, true)?;
    if reader != ReaderKind::Healthy {
        set_socket_recv_buffer_size(&socket, FAULTY_BUFFER_BYTES)?;
    }
    if let Some(source) = sources.of(number) {
        choose_port_late(&socket)?;
        bind(&socket, &source)?;
    }
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn choose_port_late(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let bytes = libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(io::Error::other)?;
    // SAFETY: `on` lives through the call, and `bytes` is its size.
    let done = unsafe {
        let value = std::ptr::from_ref(&on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, value, bytes)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Raises the open-file limit as far as allowed and returns it.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If the kernel refuses, the old limit is returned.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sources: SourceAddresses, numbers: &[u32]) -> Vec<String> {
        numbers.iter().map(|n| sources.of(*n).map_or("any".into(), |source| source.ip().to_string())).collect()
    }

    #[test]
    fn connections_are_spread_over_source_addresses() {
        let server: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!(texts(SourceAddresses::new(server, 10_000, 0), &[0, 1]), ["any", "any"]);
        assert_eq!(
            texts(SourceAddresses::new(server, 20_001, 0), &[0, 1, 2, 3]),
            ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"]
        );
        let many = SourceAddresses::new(server, 1, 65_280);
        assert_eq!(texts(many, &[253, 254, 65_279]), ["127.0.0.254", "127.0.1.1", "127.1.1.2"]);
        let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert_eq!(texts(SourceAddresses::new(far, 100_000, 8), &[5]), ["any"]);
    }
}
