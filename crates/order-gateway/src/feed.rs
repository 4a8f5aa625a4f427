//! The connection of one client for its channels and its heartbeat.
//!
//! Does        passes requests to the venue and everything back, unchanged.
//! Start at    [`Feed::open`].

use futures_util::{SinkExt, StreamExt};
use pitwire_relay::Upstream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use crate::outbox::Outbox;
use crate::uplink::{Socket, open_socket};

/// Requests that wait to be sent. Above this bound the client waits.
const WAITING_REQUESTS: usize = 64;

pub(crate) struct Feed {
    requests: mpsc::Sender<String>,
    task: JoinHandle<()>,
}

impl Feed {
    /// Connects to the venue.
    ///
    /// # Errors
    /// A text that says what failed.
    pub async fn open(venue: &Upstream, url: &str, outbox: Outbox) -> Result<Self, String> {
        let socket = open_socket(venue, url).await?;
        let (requests, waiting) = mpsc::channel(WAITING_REQUESTS);
        Ok(Feed { requests, task: tokio::spawn(run(socket, waiting, outbox)) })
    }

    /// Sends a request. If the connection has ended, so does the client's.
    pub async fn send(&self, text: String) {
        drop(self.requests.send(text).await);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(socket: Socket, mut waiting: mpsc::Receiver<String>, outbox: Outbox) {
    let (mut writer, mut reader) = socket.split();
    loop {
        tokio::select! {
            text = waiting.recv() => match text {
                Some(text) => {
                    if writer.send(Message::text(text)).await.is_err() {
                        break;
                    }
                }
                None => return,
            },
            message = reader.next() => match message {
                Some(Ok(Message::Text(text))) => outbox.push(text.to_string()),
                None | Some(Err(_) | Ok(Message::Close(_))) => break,
                Some(Ok(_)) => {
                    // The pong waits to be sent.
                    if writer.flush().await.is_err() {
                        break;
                    }
                }
            },
        }
    }
    outbox.end("the venue closed the connection of the channels");
}
