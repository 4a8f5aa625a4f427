//! Byte stream under the WebSocket: TCP, with TLS for `wss://`.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use pitwire_tls::{Tickets, Trust, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::Error;

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
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
            return Ok(Stream::Plain(socket));
        }
        let untrusted = |cause: String| Error::Tls { address: address.clone(), cause };
        let config = client_config(authority.map_or(Trust::System, Trust::File), Tickets::Few).map_err(untrusted)?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| untrusted(error.to_string()))?;
        let client = ClientConnection::new(config, name).map_err(|error| untrusted(error.to_string()))?;
        let mut stream = StreamOwned::new(client, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| untrusted(error.to_string()))?;
        }
        Ok(Stream::Tls(Box::new(stream)))
    }

    pub(crate) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.set_read_timeout(patience),
            Stream::Tls(stream) => stream.sock.set_read_timeout(patience),
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

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
