//! Byte stream under the WebSocket: TCP, with TLS for `wss://`.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use pitwire_tls::{Tickets, TlsStream, Trust, client_config};

use crate::Error;

/// The bytes of one connection to a venue.
pub(crate) enum VenueStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl VenueStream {
    /// Connects to a venue.
    ///
    /// # Errors
    /// Fails if the venue cannot be reached within `patience` or is not trusted.
    pub(crate) fn open(
        host: &str,
        port: u16,
        is_secure: bool,
        authority: Option<&Path>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let address = format!("{host}:{port}");
        let unreachable = |error: io::Error| Error::Unreachable { address: address.clone(), cause: error.to_string() };
        let socket = connect(host, port, patience).map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        socket.set_read_timeout(Some(patience)).map_err(unreachable)?;
        socket.set_write_timeout(Some(patience)).map_err(unreachable)?;
        if !is_secure {
            return Ok(VenueStream::Plain(socket));
        }
        let untrusted = |cause: String| Error::Tls { address: address.clone(), cause };
        let config = client_config(authority.map_or(Trust::System, Trust::File), Tickets::Few).map_err(untrusted)?;
        let stream = TlsStream::connect(socket, &config, host).map_err(|error| untrusted(error.to_string()))?;
        Ok(VenueStream::Tls(Box::new(stream)))
    }

    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            VenueStream::Plain(socket) => socket.set_read_timeout(patience),
            VenueStream::Tls(stream) => stream.get_ref().set_read_timeout(patience),
        }
    }
}

/// Connects to the first address of the host that accepts.
fn connect(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Read for VenueStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            VenueStream::Plain(socket) => socket.read(into),
            VenueStream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for VenueStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            VenueStream::Plain(socket) => socket.write(bytes),
            VenueStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            VenueStream::Plain(socket) => socket.flush(),
            VenueStream::Tls(stream) => stream.flush(),
        }
    }
}
