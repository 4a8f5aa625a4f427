//! The WebSocket of a connection: TCP, with TLS for `wss://`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use pitwire_failure::without_password;
use pitwire_tls::{Tickets, Trust, client_config};

use crate::{Error, Settings};

/// Largest answer of a venue in bytes: about two million orders. The library's default for a frame,
/// 16 MiB, is too small for all orders of a large account.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Largest read in bytes. It is small because the library fills its buffer with zeros before each
/// read, even if there is nothing to read.
const READ_BYTES: usize = 16 * 1024;

/// A stream of bytes in both directions, plain or encrypted.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Bytes of all sockets that a connection has used, including the framing of WebSocket and TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// Counters behind [`Traffic`].
#[derive(Debug, Default)]
pub(crate) struct TrafficCounters {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl TrafficCounters {
    pub fn traffic(&self) -> Traffic {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic { sent_bytes: load(&self.sent_bytes), received_bytes: load(&self.received_bytes) }
    }
}

/// A TCP stream that counts its bytes.
struct CountedStream {
    stream: TcpStream,
    counters: Arc<TrafficCounters>,
}

impl AsyncRead for CountedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = (buffer.filled().len() - before) as u64;
        self.counters.received_bytes.fetch_add(read, Ordering::Relaxed);
        done
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = done {
            self.counters.sent_bytes.fetch_add(written as u64, Ordering::Relaxed);
        }
        done
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pub(crate) type Socket = WebSocketStream<Box<dyn ByteStream>>;

/// Connects to the venue and opens the WebSocket.
pub(crate) async fn open(settings: &Settings, counters: &Arc<TrafficCounters>) -> Result<Socket, Error> {
    let (host, port, is_secure) = parse_url(&settings.url)?;
    let address = format!("{host}:{port}");
    let patience = settings.timeout;
    let silent = || format!("no answer in {patience:?}");
    let unreachable = |cause: String| Error::Unreachable { address: address.clone(), cause };
    let connected = timeout(patience, TcpStream::connect((host.as_str(), port))).await;
    let tcp = connected.map_err(|_| unreachable(silent()))?.map_err(|error| unreachable(error.to_string()))?;
    tcp.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
    let tcp = CountedStream { stream: tcp, counters: Arc::clone(counters) };
    let transport: Box<dyn ByteStream> = if is_secure {
        let untrusted = |cause: String| Error::Tls { address: address.clone(), cause };
        let trust = settings.authority.as_deref().map_or(Trust::System, Trust::File);
        let connector = TlsConnector::from(client_config(trust, Tickets::Few).map_err(untrusted)?);
        let name = ServerName::try_from(host.clone()).map_err(|error| untrusted(error.to_string()))?;
        let secured = timeout(patience, connector.connect(name, tcp)).await;
        Box::new(secured.map_err(|_| untrusted(silent()))?.map_err(|error| untrusted(error.to_string()))?)
    } else {
        Box::new(tcp)
    };
    let refused = |cause: String| Error::Handshake { url: settings.url.clone(), cause };
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let opened = timeout(patience, client_async_with_config(&settings.url, transport, Some(config))).await;
    match opened.map_err(|_| refused(silent()))? {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => Err(refused(format!("it answers {}", response.status()))),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Splits a URL into host, port and whether it uses TLS.
fn parse_url(url: &str) -> Result<(String, u16, bool), Error> {
    let wrong = |what| Error::Url { url: without_password(url), what };
    let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
    let is_secure = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err(wrong("it begins with neither ws:// nor wss://")),
    };
    // The parser drops a port that does not fit in 16 bits. Refuse it instead of using the scheme's
    // default.
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(wrong("it carries a user and a password, which are not sent"));
    }
    let behind_host = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    if uri.port_u16().is_none() && behind_host.contains(':') {
        return Err(wrong("its port is not a number below 65536"));
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((host, uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }), is_secure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_gives_host_port_and_tls() {
        let parsed = |url| parse_url(url).ok();
        assert_eq!(parsed("ws://127.0.0.1:8080/ws/api/v2"), Some(("127.0.0.1".into(), 8080, false)));
        assert_eq!(parsed("wss://example.org/ws/api/v2"), Some(("example.org".into(), 443, true)));
        assert_eq!(parsed("ws://[::1]:9/x"), Some(("::1".into(), 9, false)));
        for url in ["", "http://a/", "127.0.0.1:80", "ws://", "ws://a:99999/", "ws:///x", "ws://me:secret@a/"] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }
}
