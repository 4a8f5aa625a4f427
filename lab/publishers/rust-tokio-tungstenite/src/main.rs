//! tokio-tungstenite: one task per connection. In the test fan-out all tasks read one broadcast
//! channel. All ready messages are fed before one flush.

use std::env;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// Number of messages that a slow subscriber may be behind before it misses some.
const MAX_BEHIND: usize = 1024;

type Publication = broadcast::Sender<Utf8Bytes>;
type Socket = WebSocketStream<TcpStream>;

#[derive(Clone)]
enum Test {
    Echo,
    Heartbeat { messages: usize, reply: Utf8Bytes },
    FanOut(Publication),
}

fn number(name: &str) -> usize {
    let text = env::var(name).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("invalid {name} {text:?}: expected a whole number"))
}

async fn publish(mut messages: broadcast::Receiver<Utf8Bytes>, socket: &mut Socket) -> Result<(), Error> {
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => {
                    socket.feed(Message::Text(message)).await?;
                    while let Ok(next) = messages.try_recv() {
                        socket.feed(Message::Text(next)).await?;
                    }
                    socket.flush().await?;
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            },
            request = socket.next() => match request {
                Some(Ok(Message::Close(_))) | None => return Ok(()),
                Some(request) => drop(request?),
            },
        }
    }
}

async fn serve(stream: TcpStream, test: Test) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    // The default read buffer takes 128 KiB per connection.
    let config = WebSocketConfig::default().read_buffer_size(4096);
    let mut socket = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await?;
    if let Test::FanOut(publication) = &test {
        return publish(publication.subscribe(), &mut socket).await;
    }
    while let Some(message) = socket.next().await {
        let message = message?;
        match &test {
            Test::Echo if message.is_text() => socket.send(message).await?,
            Test::Heartbeat { messages, reply } if message.is_text() => {
                for _ in 0..*messages {
                    socket.feed(Message::Text(reply.clone())).await?;
                }
                socket.flush().await?;
            }
            _ => {}
        }
    }
    Ok(())
}

async fn generate(rate: f64, bytes: usize, publication: Publication) {
    let start = Instant::now();
    let start_realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for sequence in 1_u64.. {
        #[allow(clippy::cast_precision_loss)]
        let due = Duration::from_secs_f64(sequence as f64 / rate);
        tokio::time::sleep_until((start + due).into()).await;
        let due_ns = (start_realtime + due).as_nanos();
        let head = format!(r#"{{"seq":{sequence},"ts_ns":{due_ns},"pad":""#);
        let pad = bytes.saturating_sub(head.len() + 2);
        // A message without subscribers is not an error.
        let _ = publication.send(format!("{head}{:x<pad$}\"}}", "").into());
    }
}

fn write_ready_file(address: impl std::fmt::Display) -> io::Result<()> {
    let path = env::var("LAB_READY_FILE").unwrap_or_default();
    let unfinished = format!("{path}.unfinished");
    std::fs::write(&unfinished, format!(r#"{{"http":"{address}"}}"#))?;
    std::fs::rename(unfinished, path)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let name = env::var("LAB_TEST").unwrap_or_default();
    let test = match name.as_str() {
        "echo" => Test::Echo,
        "heartbeat" => {
            Test::Heartbeat { messages: number("LAB_MESSAGES"), reply: "x".repeat(number("LAB_BYTES")).into() }
        }
        "fan-out" => Test::FanOut(broadcast::channel(MAX_BEHIND).0),
        _ => {
            eprintln!("invalid LAB_TEST {name:?}: expected echo, heartbeat or fan-out");
            std::process::exit(2);
        }
    };
    if let Test::FanOut(publication) = &test {
        #[allow(clippy::cast_precision_loss)]
        let rate = number("LAB_RATE") as f64;
        tokio::spawn(generate(rate, number("LAB_BYTES"), publication.clone()));
    }
    let host = env::var("LAB_HOST").unwrap_or_default();
    let listener = TcpListener::bind(format!("{host}:{}", number("LAB_PORT"))).await?;
    write_ready_file(listener.local_addr()?)?;
    loop {
        // A failed accept, for example without free file descriptors, must not end the others.
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, test.clone()))),
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}
