//! Sockets that this process connects, without waiting.
//!
//! Start at    [`connect`].

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

/// Starts a connection to `address`. The socket is writable when the peer has accepted.
///
/// # Errors
/// Fails if the process has no room for a socket, or the network refuses the address at once.
pub(crate) fn connect(address: SocketAddr) -> io::Result<Socket> {
    let socket = open(address)?;
    start(&socket, address)?;
    Ok(socket)
}

/// Opens a non-blocking socket for the protocol of `address`.
///
/// # Errors
/// Fails if the process has no room for a socket.
pub(crate) fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Small frames of ours (a pong, a subscription) must not wait for each other.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Starts to connect a non-blocking socket.
///
/// # Errors
/// Fails if the network refuses the address at once.
pub(crate) fn start(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(()),
    }
}
