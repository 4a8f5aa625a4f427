//! tokio-tungstenite: a task per connection, a broadcast channel, everything ready fed before one
//! flush.

use std::io;
use std::time::Instant;

use clap::Parser;
use futures_util::{SinkExt, StreamExt};
use pitwire_publication_peers::{Answer, Options, Pace, listen, say_ready};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// Messages that a slow reader may fall behind by before it misses some.
const BEHIND: usize = 1024;

type Publication = broadcast::Sender<Utf8Bytes>;

async fn feed(
    socket: &mut WebSocketStream<TcpStream>,
    publication: &mut broadcast::Receiver<Utf8Bytes>,
    first: Utf8Bytes,
) -> Result<(), Error> {
    socket.feed(Message::Text(first)).await?;
    while let Ok(next) = publication.try_recv() {
        socket.feed(Message::Text(next)).await?;
    }
    socket.flush().await
}

async fn serve(stream: TcpStream, publication: Publication, answer: Option<(Answer, Utf8Bytes)>) -> Result<(), Error> {
    // The read buffer is 128 KiB a connection unless told otherwise.
    let config = WebSocketConfig::default().read_buffer_size(4096);
    let mut socket = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await?;
    let mut messages = publication.subscribe();
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => feed(&mut socket, &mut messages, message).await?,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            },
            request = socket.next() => match request {
                Some(Ok(Message::Text(_))) => if let Some((answer, text)) = &answer {
                    for _ in 0..answer.messages {
                        socket.feed(Message::Text(text.clone())).await?;
                    }
                    socket.flush().await?;
                },
                Some(Ok(Message::Close(_))) | None => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
            },
        }
    }
}

async fn publish(mut pace: Pace, publication: Publication) {
    loop {
        tokio::time::sleep_until(pace.due().into()).await;
        while pace.due() <= Instant::now() {
            // A message without listeners is not an error.
            let _ = publication.send(pace.next_message().into());
        }
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let options = Options::parse();
    let listener = TcpListener::from_std(listen(options.listen)?)?;
    let (publication, _) = broadcast::channel(BEHIND);
    if let Some(rate) = options.synthetic {
        tokio::spawn(publish(Pace::new(rate, options.bytes), publication.clone()));
    }
    let answer = options.respond.map(|answer| (answer, Utf8Bytes::from("x".repeat(answer.bytes))));
    say_ready(options.ready_file.as_deref(), listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, publication.clone(), answer.clone()));
    }
}
