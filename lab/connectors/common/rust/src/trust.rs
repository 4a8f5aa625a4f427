//! Blocking connections, plain or with TLS.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Settings;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A TCP connection, or TLS on one.
pub enum VenueSocket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl VenueSocket {
    /// The socket, for its options.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            VenueSocket::Plain(socket) => socket,
            VenueSocket::Tls(session) => &session.sock,
        }
    }
}

impl Read for VenueSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            VenueSocket::Plain(socket) => socket.read(buffer),
            VenueSocket::Tls(session) => session.read(buffer),
        }
    }
}

impl Write for VenueSocket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            VenueSocket::Plain(socket) => socket.write(buffer),
            VenueSocket::Tls(session) => session.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            VenueSocket::Plain(socket) => socket.flush(),
            VenueSocket::Tls(session) => session.flush(),
        }
    }
}

/// Opens a connection without delay of small packets. Reads time out after five seconds.
///
/// # Errors
/// If the host cannot be reached, or if it is not trusted.
pub fn connect(settings: &Settings, host: &str, port: u16, is_secure: bool) -> Result<VenueSocket, Box<dyn Error>> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(socket) => return secured(settings, socket, host, is_secure),
            Err(error) => failure = error,
        }
    }
    Err(failure.into())
}

fn secured(
    settings: &Settings,
    mut socket: TcpStream,
    host: &str,
    is_secure: bool,
) -> Result<VenueSocket, Box<dyn Error>> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(CONNECT_PATIENCE))?;
    if !is_secure {
        return Ok(VenueSocket::Plain(socket));
    }
    let name = ServerName::try_from(host.to_owned())?;
    let mut session = ClientConnection::new(tls_config(settings)?, name)?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    Ok(VenueSocket::Tls(Box::new(StreamOwned::new(session, socket))))
}

/// Trusts the certificates of `LAB_CA`, or those of the system.
///
/// # Errors
/// If the file cannot be read, or has a certificate that is not valid.
pub fn tls_config(settings: &Settings) -> Result<Arc<ClientConfig>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    if settings.ca.is_empty() {
        for certificate in rustls_native_certs::load_native_certs().certs {
            roots.add(certificate)?;
        }
    } else {
        for certificate in CertificateDer::pem_reader_iter(BufReader::new(File::open(&settings.ca)?)) {
            roots.add(certificate?)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
