//! Sockets of a client that has very many.
//!
//! Does        begin a connection from one of several addresses of 127.0.0.0/8, without waiting for it.
//! Holds       a port is chosen when the connection is made, not when the address is bound: each pair of addresses has
//!             all ports for itself.
//! Start at    [`begin`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_tcp_congestion, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with};

use crate::plan::Reader;

/// One address gives about 28,000 ports; some rest after use.
const CONNECTIONS_PER_SOURCE: u32 = 10_000;
/// What the kernel keeps for a reader that does not keep up: its server shall notice soon.
const FAULTY_BUFFER_BYTES: usize = 16 * 1024;

/// Where connections come from.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    /// None: the system chooses.
    count: Option<u32>,
}

impl Sources {
    /// `wanted` 0: as many as `connections` need.
    pub fn new(server: SocketAddr, connections: u32, wanted: u32) -> Self {
        let is_local = matches!(server.ip(), IpAddr::V4(ip) if ip.is_loopback());
        let needed = connections.div_ceil(CONNECTIONS_PER_SOURCE);
        let count = if wanted > 0 { wanted } else { needed };
        Sources { count: (is_local && count > 1).then_some(count) }
    }

    /// 127.0.0.1 for the first, and so on; never an address that ends in 0 or 255.
    fn of(self, number: u32) -> Option<SocketAddrV4> {
        let at = number % self.count?;
        let last = u8::try_from(at % 254 + 1).ok()?;
        let third = u8::try_from(at / 254 % 256).ok()?;
        let second = u8::try_from(at / 254 / 256 % 256).ok()?;
        Some(SocketAddrV4::new(Ipv4Addr::new(127, second, third, last), 0))
    }
}

/// Begins to connect; the socket is writable when it is done.
pub fn begin(server: SocketAddr, sources: Sources, number: u32, reader: Reader) -> io::Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // BBR is known to collapse where processors are contended; a kernel without cubic keeps what it has.
    let _ = set_tcp_congestion(&socket, "cubic");
    set_tcp_nodelay(&socket, true)?;
    if reader != Reader::Healthy {
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

/// Makes the open-file limit as high as it may be, and says how high that is.
pub fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Refused: the old limit stands, and is what is returned.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sources: Sources, numbers: &[u32]) -> Vec<String> {
        numbers.iter().map(|n| sources.of(*n).map_or("any".into(), |source| source.ip().to_string())).collect()
    }

    #[test]
    fn connections_are_dealt_over_addresses() {
        let server: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!(texts(Sources::new(server, 10_000, 0), &[0, 1]), ["any", "any"]);
        assert_eq!(
            texts(Sources::new(server, 20_001, 0), &[0, 1, 2, 3]),
            ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"]
        );
        let many = Sources::new(server, 1, 65_280);
        assert_eq!(texts(many, &[253, 254, 65_279]), ["127.0.0.254", "127.0.1.1", "127.1.1.2"]);
        let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert_eq!(texts(Sources::new(far, 100_000, 8), &[5]), ["any"]);
    }
}
