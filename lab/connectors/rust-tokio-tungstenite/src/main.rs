//! A connector of the latency laboratory with tokio-tungstenite.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use lab_connector::{End, Library, Settings, Take, run, tls_config};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Error as Failure;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);
const STOP_CHECK: Duration = Duration::from_millis(50);

struct TokioTungstenite(Runtime);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl Library for TokioTungstenite {
    const NAME: &'static str = "tokio-tungstenite";
    const VERSION: &'static str = "0.30.0";
    type Connection = Socket;

    fn open(&mut self, settings: &Settings) -> Result<Socket, Box<dyn Error>> {
        let connector = if settings.url.starts_with("wss:") { Some(tls_config(settings)?) } else { None };
        self.0.block_on(async {
            let connector = connector.map(Connector::Rustls);
            // The limits of the library are 64 MiB for a message and 16 MiB for a frame.
            let opening = connect_async_tls_with_config(&settings.url, None, true, connector);
            let (mut socket, _) = timeout(CONNECT_PATIENCE, opening).await??;
            if !settings.subscribe.is_empty() {
                socket.send(Message::text(settings.subscribe.clone())).await?;
            }
            Ok(socket)
        })
    }

    fn receive(&mut self, mut socket: Socket, take: &mut Take<'_>) -> End {
        self.0.block_on(async {
            let end = receive(&mut socket, take).await;
            let code = match end {
                End::Stopped => CloseCode::Away,
                End::Protocol(_) => CloseCode::Protocol,
                End::Close(_) | End::Lost(_) => CloseCode::Normal,
            };
            // After a close frame of the server, this sends the answer.
            let frame = CloseFrame { code, reason: "".into() };
            let _ = timeout(CLOSE_PATIENCE, socket.close(Some(frame))).await;
            end
        })
    }
}

async fn receive(socket: &mut Socket, take: &mut Take<'_>) -> End {
    let mut check = interval(STOP_CHECK);
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            _ = check.tick() => {
                if take.is_stopped() {
                    return End::Stopped;
                }
                continue;
            }
        };
        match message {
            Some(Ok(Message::Text(text))) => take.message(text.as_bytes(), false),
            Some(Ok(Message::Binary(bytes))) => take.message(&bytes, true),
            Some(Ok(Message::Close(frame))) => return End::Close(frame.map(|frame| frame.code.into())),
            Some(Ok(_)) => {}
            Some(Err(Failure::Protocol(ProtocolError::ResetWithoutClosingHandshake))) | None => {
                return End::Lost("end of stream".into());
            }
            Some(Err(error @ (Failure::Protocol(_) | Failure::Utf8(_) | Failure::Capacity(_)))) => {
                return End::Protocol(error.to_string());
            }
            Some(Err(error)) => return End::Lost(error.to_string()),
        }
    }
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    run(TokioTungstenite(runtime.expect("a single-threaded runtime starts")))
}
