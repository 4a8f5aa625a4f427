//! The address of a venue, and connections to it.
//!
//! Start at    [`Upstream::parse`] and [`Upstream::connect`].

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pitwire_failure::{Failure, without_password};
use pitwire_tls::{ClientConfig, Tickets, Trust, client_config};
use pitwire_websocket::Address;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// Longest wait for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A venue that the relay stands in front of.
#[derive(Clone)]
pub struct Upstream {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
}

/// Bytes in both directions, plain or encrypted.
pub enum UpstreamSocket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Upstream {
    /// Parses a URL that begins with `ws://` or `wss://`. For `wss://`, `authority` is a PEM file
    /// of the certificate authorities to trust instead of the system's.
    ///
    /// # Errors
    /// The URL is malformed, or the file cannot be used.
    pub fn parse(url: &str, authority: Option<&Path>) -> Result<Self, Failure> {
        let address = Address::parse(url).map_err(|error| {
            Failure::usage(format!("{:?} is not a WebSocket's address: {error}", without_password(url)))
                .remedy("write ws://HOST:PORT/PATH, or wss:// for TLS")
        })?;
        let trust = authority.map_or(Trust::System, Trust::File);
        let tls = address.is_secure.then(|| client_config(trust, Tickets::Few)).transpose().map_err(|error| {
            Failure::new(format!("no trusted connection to {url}: {error}"))
                .remedy("give the venue's own authority with --ca FILE")
        })?;
        Ok(Upstream { address, tls })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the TLS configuration of a `wss://` address.
    pub fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// Connects, and with `wss://` performs the TLS handshake.
    ///
    /// # Errors
    /// The venue cannot be reached or is not trusted.
    pub async fn connect(&self) -> io::Result<UpstreamSocket> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the venue does not answer");
        let connect = async {
            let socket = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
            socket.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return Ok(UpstreamSocket::Plain(socket)) };
            let name = ServerName::try_from(self.address.host.clone()).map_err(io::Error::other)?;
            let secured = TlsConnector::from(Arc::clone(tls)).connect(name, socket).await?;
            Ok(UpstreamSocket::Tls(Box::new(secured)))
        };
        timeout(CONNECT_PATIENCE, connect).await.map_err(late)?
    }
}

impl AsyncRead for UpstreamSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            UpstreamSocket::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            UpstreamSocket::Tls(socket) => Pin::new(socket).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for UpstreamSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            UpstreamSocket::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            UpstreamSocket::Tls(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            UpstreamSocket::Plain(socket) => Pin::new(socket).poll_flush(cx),
            UpstreamSocket::Tls(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            UpstreamSocket::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            UpstreamSocket::Tls(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}
