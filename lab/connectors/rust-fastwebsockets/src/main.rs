//! A connector of the latency laboratory with fastwebsockets.

use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use fastwebsockets::{FragmentCollector, Frame, OpCode, WebSocketError, handshake};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lab_connector::rustls::pki_types::ServerName;
use lab_connector::{End, Library, MESSAGE_MOST, Settings, Take, run, tls_config};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{interval, timeout};
use tokio_rustls::TlsConnector;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
const STOP_CHECK: Duration = Duration::from_millis(50);
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const INVALID_TEXT: u16 = 1007;

struct FastWebSockets(Runtime);

type Socket = FragmentCollector<TokioIo<Upgraded>>;

impl Library for FastWebSockets {
    const NAME: &'static str = "fastwebsockets";
    const VERSION: &'static str = "0.10.0";
    type Connection = Socket;

    fn open(&mut self, settings: &Settings) -> Result<Socket, Box<dyn Error>> {
        self.0.block_on(async { timeout(CONNECT_PATIENCE, open(settings)).await? })
    }

    fn receive(&mut self, mut socket: Socket, take: &mut Take<'_>) -> End {
        self.0.block_on(async {
            let (end, code) = receive(&mut socket, take).await;
            if let Some(code) = code {
                let _ = timeout(CLOSE_PATIENCE, socket.write_frame(Frame::close(code, b""))).await;
            }
            end
        })
    }
}

async fn open(settings: &Settings) -> Result<Socket, Box<dyn Error>> {
    let url: Uri = settings.url.parse()?;
    let is_secure = url.scheme_str() == Some("wss");
    let host = url.host().ok_or("the URL has no host")?;
    let port = url.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let mut socket = if is_secure {
        let name = ServerName::try_from(host.to_owned())?;
        upgrade(&url, TlsConnector::from(tls_config(settings)?).connect(name, stream).await?).await?
    } else {
        upgrade(&url, stream).await?
    };
    if !settings.subscribe.is_empty() {
        socket.write_frame(Frame::text(settings.subscribe.as_bytes().into())).await?;
    }
    Ok(socket)
}

async fn upgrade<S>(url: &Uri, stream: S) -> Result<Socket, Box<dyn Error>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let request = Request::builder()
        .uri(url.path_and_query().map_or("/", |target| target.as_str()))
        .header(HOST, url.authority().map_or("", |authority| authority.as_str()))
        .header(UPGRADE, "websocket")
        .header(CONNECTION, "upgrade")
        .header("Sec-WebSocket-Key", handshake::generate_key())
        .header("Sec-WebSocket-Version", "13")
        .body(Empty::<Bytes>::new())?;
    let (mut socket, _) = handshake::client(&TokioExecutor::new(), request, stream).await?;
    // The library also refuses a message whose size is exactly the limit.
    socket.set_max_message_size(MESSAGE_MOST + 1);
    Ok(FragmentCollector::new(socket))
}

/// Returns why the connection ended, and the code of the close frame to send.
async fn receive(socket: &mut Socket, take: &mut Take<'_>) -> (End, Option<u16>) {
    let mut check = interval(STOP_CHECK);
    loop {
        // Dropping the future of a read loses the bytes that it has taken from the stream.
        let mut reading = pin!(socket.read_frame());
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                _ = check.tick() => {
                    if take.is_stopped() {
                        return (End::Stopped, Some(GOING_AWAY));
                    }
                }
            }
        };
        match read {
            Ok(frame) => match frame.opcode {
                OpCode::Text => take.message(&frame.payload, false),
                OpCode::Binary => take.message(&frame.payload, true),
                // The library has already answered the close frame.
                OpCode::Close => {
                    let code = frame.payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    return (End::Close(code), None);
                }
                OpCode::Ping | OpCode::Pong | OpCode::Continuation => {}
            },
            Err(WebSocketError::UnexpectedEOF) => return (End::Lost("end of stream".into()), None),
            Err(error @ (WebSocketError::IoError(_) | WebSocketError::HTTPError(_))) => {
                return (End::Lost(error.to_string()), None);
            }
            Err(error) => {
                let is_text = matches!(error, WebSocketError::InvalidUTF8);
                return (End::Protocol(error.to_string()), Some(if is_text { INVALID_TEXT } else { PROTOCOL_ERROR }));
            }
        }
    }
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    run(FastWebSockets(runtime.expect("a single-threaded runtime starts")))
}
