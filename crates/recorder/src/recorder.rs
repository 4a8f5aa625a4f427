//! A client that records what a feed sends, and when.
//!
//! Does        connects (ws, wss), logs in, and writes every message with its arrival time until
//!             the feed ends, a limit is reached or `stop` is requested.
//! Holds       the file is complete when this returns. If the process is killed, at most about the
//!             last second is missing.
//! Start at    [`record`].

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pitwire_tls::{Tickets, Trust, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::Uri;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::recording::{MESSAGE_MOST, RecordingWriter};

const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which `stop` is checked.
const GLANCE: Duration = Duration::from_millis(100);

pub struct RecordOptions {
    pub url: String,
    /// Authorities to trust in addition to the system's.
    pub ca: Option<PathBuf>,
    /// Text messages sent first.
    pub greetings: Vec<String>,
    pub messages: Option<u64>,
    pub time: Option<Duration>,
}

pub struct RecordSummary {
    pub messages: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Why recording ended, unless by a close, a limit or `stop`.
    pub failure: Option<String>,
}

trait ReadWrite: io::Read + io::Write {}
impl<T: io::Read + io::Write> ReadWrite for T {}

/// Records into `file` until the end, or until `stop` returns true.
///
/// # Errors
/// The feed cannot be reached, or the file cannot be written.
pub fn record(wanted: &RecordOptions, file: File, stop: &dyn Fn() -> bool) -> Result<RecordSummary, String> {
    let mut socket = connect(wanted)?;
    let started = Instant::now();
    let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos);
    let writing = |error: io::Error| format!("cannot write the recording: {error}");
    let mut writer = RecordingWriter::new(BufWriter::new(file), wall_ns, &wanted.url).map_err(writing)?;
    for greeting in &wanted.greetings {
        socket.send(Message::text(greeting.as_str())).map_err(|error| format!("cannot log in: {error}"))?;
    }
    let mut failure = None;
    while !stop()
        && wanted.messages.is_none_or(|most| writer.messages() < most)
        && wanted.time.is_none_or(|most| started.elapsed() < most)
    {
        let message = socket.read();
        let ns = nanos(started.elapsed());
        match message {
            Ok(Message::Text(text)) => writer.add(ns, false, text.as_bytes()).map_err(writing)?,
            Ok(Message::Binary(bytes)) => writer.add(ns, true, &bytes).map_err(writing)?,
            // Pings are answered at the next read or write.
            Ok(_) => {}
            Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(Error::ConnectionClosed) => break,
            Err(error) => {
                failure = Some(format!("the feed broke off: {error}"));
                break;
            }
        }
        writer.tick(ns).map_err(writing)?;
    }
    // The feed may already be gone.
    let _ = socket.close(None);
    let _ = socket.flush();
    let (messages, seconds) = (writer.messages(), started.elapsed().as_secs_f64());
    let file = writer.finish().map_err(writing)?.into_inner().map_err(|error| writing(error.into_error()))?;
    file.sync_all().map_err(writing)?;
    let bytes = file.metadata().map_err(writing)?.len();
    Ok(RecordSummary { messages, bytes, seconds, failure })
}

fn connect(wanted: &RecordOptions) -> Result<WebSocket<Box<dyn ReadWrite>>, String> {
    let uri: Uri = wanted.url.parse().map_err(|error| format!("{} is no URL: {error}", wanted.url))?;
    let (host, is_tls) = match (uri.host(), uri.scheme_str()) {
        (Some(host), Some("ws")) => (host, false),
        (Some(host), Some("wss")) => (host, true),
        _ => return Err(format!("{} is no feed: give ws://HOST:PORT/… or wss://…", wanted.url)),
    };
    let host = host.trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let socket = reach(host, port)?;
    let timeouts = socket.set_read_timeout(Some(CONNECT_PATIENCE)).and_then(|()| socket.set_nodelay(true));
    timeouts.map_err(|error| error.to_string())?;
    let handle = socket.try_clone().map_err(|error| error.to_string())?;
    let stream: Box<dyn ReadWrite> = if is_tls { Box::new(secured(wanted, host, socket)?) } else { Box::new(socket) };
    let request = wanted.url.as_str().into_client_request().map_err(|error| error.to_string())?;
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_MOST)).max_frame_size(Some(MESSAGE_MOST));
    let (socket, _) = tungstenite::client::client_with_config(request, stream, Some(config))
        .map_err(|error| format!("no WebSocket at {}: {error}", wanted.url))?;
    handle.set_read_timeout(Some(GLANCE)).map_err(|error| error.to_string())?;
    Ok(socket)
}

fn reach(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| format!("cannot find {host}: {error}"))?;
    let mut last = format!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = format!("cannot reach {address}: {error}"),
        }
    }
    Err(last)
}

fn secured(
    wanted: &RecordOptions,
    host: &str,
    socket: TcpStream,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let trust = wanted.ca.as_deref().map_or(Trust::System, Trust::SystemAnd);
    let config = client_config(trust, Tickets::Few)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
    let session = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    Ok(StreamOwned::new(session, socket))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
