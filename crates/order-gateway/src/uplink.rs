//! A connection to the venue that many clients share.
//!
//! Does        number the requests, send waiting requests in one write, and pass each answer to
//!             its client.
//! Start at    [`Uplink::open`] and [`Uplink::forward`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use pitwire_relay::{Upstream, UpstreamSocket};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::outbox::Outbox;
use crate::request::{Request, answered, with_id};

/// Requests that wait to be sent. Above this bound the clients wait.
const WAITING_REQUESTS: usize = 4096;
/// Longest wait for the venue's handshake, and for an answer to a login.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer of the venue, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The receiver of an answer.
enum AnswerReceiver {
    /// The client and the id that it chose.
    Client(Outbox, Option<Box<RawValue>>),
    Gateway(oneshot::Sender<String>),
}

/// A shared connection. Clones use the same socket.
#[derive(Clone)]
pub(crate) struct Uplink {
    requests: mpsc::Sender<String>,
    pending: Arc<Mutex<HashMap<u64, AnswerReceiver>>>,
    next_id: Arc<AtomicU64>,
    /// Why the connection has ended.
    end: watch::Receiver<Option<String>>,
}

pub(crate) type Socket = WebSocketStream<UpstreamSocket>;

/// Opens a WebSocket to the venue.
///
/// # Errors
/// A text that says what failed.
pub(crate) async fn open_socket(venue: &Upstream, url: &str) -> Result<Socket, String> {
    let socket = venue.connect().await.map_err(|error| format!("cannot reach the venue: {error}"))?;
    let config =
        WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX)).max_frame_size(Some(MESSAGE_BYTES_MAX));
    match timeout(PATIENCE, client_async_with_config(url, socket, Some(config))).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(response))) => {
            Err(format!("the venue answers {} to the WebSocket handshake", response.status()))
        }
        Ok(Err(error)) => Err(format!("the venue opens no WebSocket: {error}")),
        Err(_) => Err("the venue does not answer the WebSocket handshake".into()),
    }
}

impl Uplink {
    /// Connects to the venue. A task owns the socket until the last clone is gone.
    ///
    /// # Errors
    /// A text that says what failed.
    pub async fn open(venue: &Upstream, url: &str) -> Result<Self, String> {
        let socket = open_socket(venue, url).await?;
        let (requests, waiting) = mpsc::channel(WAITING_REQUESTS);
        let (end, ended) = watch::channel(None);
        let pending = Arc::new(Mutex::new(HashMap::new()));
        let uplink =
            Uplink { requests, pending: Arc::clone(&pending), next_id: Arc::new(AtomicU64::new(1)), end: ended };
        tokio::spawn(async move {
            let cause = run(socket, waiting, &pending).await;
            end.send_replace(Some(cause));
            // The clients of these requests are closed, so that they ask for their orders.
            locked(&pending).clear();
        });
        Ok(uplink)
    }

    /// Sends a request of a client. Returns `false` if the connection has ended.
    pub async fn forward(&self, request: &Request<'_>, token: Option<&str>, outbox: &Outbox) -> bool {
        let id = request.id.map(RawValue::to_owned);
        self.send(request, token, AnswerReceiver::Client(outbox.clone(), id)).await
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&self, request: &Request<'_>) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        if !self.send(request, None, AnswerReceiver::Gateway(answer)).await {
            return None;
        }
        timeout(PATIENCE, answered).await.ok()?.ok()
    }

    async fn send(&self, request: &Request<'_>, token: Option<&str>, pending: AnswerReceiver) -> bool {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        locked(&self.pending).insert(id, pending);
        let text = request.forwarded(&id.to_string(), token);
        // The task clears the requests after it has ended, so this one is checked again.
        if self.requests.send(text).await.is_err() || self.end.borrow().is_some() {
            locked(&self.pending).remove(&id);
            return false;
        }
        true
    }

    /// Waits until the connection ends. Returns the cause.
    pub async fn ended(&mut self) -> String {
        match self.end.wait_for(Option::is_some).await {
            Ok(cause) => cause.clone().unwrap_or_default(),
            Err(_) => "its task ended".into(),
        }
    }
}

fn locked(pending: &Mutex<HashMap<u64, AnswerReceiver>>) -> MutexGuard<'_, HashMap<u64, AnswerReceiver>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the socket until it ends. Returns the cause.
async fn run(
    socket: Socket,
    mut waiting: mpsc::Receiver<String>,
    pending: &Mutex<HashMap<u64, AnswerReceiver>>,
) -> String {
    let (mut writer, mut reader) = socket.split();
    let write = async {
        loop {
            let Some(text) = waiting.recv().await else { return "the gateway stops".to_owned() };
            let mut next = Some(text);
            // Requests that wait together leave together.
            while let Some(text) = next {
                if let Err(error) = writer.feed(Message::text(text)).await {
                    return error.to_string();
                }
                next = waiting.try_recv().ok();
            }
            if let Err(error) = writer.flush().await {
                return error.to_string();
            }
        }
    };
    let read = async {
        loop {
            match reader.next().await {
                None | Some(Ok(Message::Close(_))) => return "the venue closed the connection".to_owned(),
                Some(Err(error)) => return error.to_string(),
                Some(Ok(Message::Text(text))) => deliver(&text, pending),
                Some(Ok(_)) => {}
            }
        }
    };
    tokio::select! {
        cause = write => cause,
        cause = read => cause,
    }
}

fn deliver(text: &str, pending: &Mutex<HashMap<u64, AnswerReceiver>>) {
    let Some(id) = answered(text) else { return };
    let receiver = locked(pending).remove(&id);
    match receiver {
        Some(AnswerReceiver::Client(outbox, id)) => match with_id(text, id.as_deref()) {
            Some(text) => outbox.push(text),
            None => outbox.end("the gateway cannot read the venue's answer"),
        },
        // The gateway has stopped waiting.
        Some(AnswerReceiver::Gateway(answer)) => drop(answer.send(text.to_owned())),
        None => {}
    }
}
