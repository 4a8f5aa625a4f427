//! Streams of a venue of the Binance form.
//!
//! Does        opens `/stream?streams=…`, finds the stream of each message, and connects again.
//! Start at    [`follow`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use pitwire_failure::Failure;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tracing::warn;

use crate::serving::feed_event::FeedEvent;
use crate::upstream::{Upstream, UpstreamSocket};

/// A connection without a message or a ping for this long counts as dead. Binance pings every 20 s.
const SILENCE: Duration = Duration::from_secs(90);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct CombinedMessage<'a> {
    stream: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// The numbers of a message, by which a missing one is noticed.
#[derive(Deserialize)]
struct Numbers {
    /// First and last change of a depth update.
    #[serde(rename = "U")]
    first_change: Option<u64>,
    #[serde(rename = "u")]
    last_change: Option<u64>,
}

/// One stream of the connection.
struct FollowedStream {
    channel: usize,
    /// Last change of a stream of depth changes.
    last_change: Option<u64>,
}

type Socket = WebSocketStream<UpstreamSocket>;

/// Opens the streams, and follows them in a task of their own.
///
/// # Errors
/// The venue cannot be reached, or refuses the streams.
pub(crate) async fn follow(
    upstream: Upstream,
    channels: &[String],
    events: Sender<FeedEvent>,
    is_connected: Arc<AtomicBool>,
) -> Result<(), Failure> {
    let request = request(&upstream, channels);
    let socket = open(&upstream, &request).await?;
    let mut streams: BTreeMap<String, FollowedStream> = BTreeMap::new();
    for (channel, name) in channels.iter().enumerate() {
        streams.insert(name.clone(), FollowedStream { channel, last_change: None });
    }
    tokio::spawn(async move {
        let mut socket = socket;
        loop {
            let cause = serve(&mut socket, &mut streams, &events).await;
            is_connected.store(false, Ordering::Relaxed);
            let Some(opened) = open_again(&upstream, &request, &cause, &events).await else { return };
            socket = opened;
            is_connected.store(true, Ordering::Relaxed);
            for stream in streams.values_mut() {
                stream.last_change = None;
                let reason = format!("the connection to the venue was interrupted: {cause}");
                if events.send(FeedEvent::Gap { channel: stream.channel, reason }).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok(())
}

fn request(upstream: &Upstream, channels: &[String]) -> String {
    let address = upstream.address();
    let scheme = if address.is_secure { "wss" } else { "ws" };
    format!("{scheme}://{}/stream?streams={}", address.authority, channels.join("/"))
}

async fn open(upstream: &Upstream, request: &str) -> Result<Socket, Failure> {
    let unreachable = |error: std::io::Error| {
        Failure::new(format!("cannot reach {}: {error}", upstream.address().authority))
            .remedy("check the URL of the venue")
    };
    let socket = upstream.connect().await.map_err(unreachable)?;
    let refused = |cause: String| {
        Failure::new(format!("{request} does not open a WebSocket: {cause}")).remedy("check the names of the channels")
    };
    match timeout(Duration::from_secs(10), client_async(request, socket)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(response))) => Err(refused(format!("it answers {}", response.status()))),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(_) => Err(refused("no answer in 10 s".into())),
    }
}

/// Connects again after growing pauses. Returns `None` if the relay ends.
async fn open_again(upstream: &Upstream, request: &str, cause: &str, events: &Sender<FeedEvent>) -> Option<Socket> {
    warn!(cause, "the connection to the venue has ended; connecting again");
    let mut pause = SHORTEST_PAUSE;
    while !events.is_closed() {
        sleep(pause).await;
        match open(upstream, request).await {
            Ok(socket) => return Some(socket),
            Err(failure) => warn!(%failure, "the venue does not return yet"),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    None
}

/// Passes messages on until the connection fails. Returns the cause.
async fn serve(
    socket: &mut Socket,
    streams: &mut BTreeMap<String, FollowedStream>,
    events: &Sender<FeedEvent>,
) -> String {
    loop {
        let message = match timeout(SILENCE, socket.next()).await {
            Err(_) => return format!("silent for {} s", SILENCE.as_secs()),
            Ok(None | Some(Ok(Message::Close(_)))) => return "closed by the venue".into(),
            Ok(Some(Err(error))) => return error.to_string(),
            Ok(Some(Ok(Message::Text(text)))) => text,
            Ok(Some(Ok(_))) => {
                // The pong waits to be sent.
                if let Err(error) = socket.flush().await {
                    return error.to_string();
                }
                continue;
            }
        };
        let Ok(CombinedMessage { stream, data }) = serde_json::from_str(&message) else { continue };
        let Some(stream) = streams.get_mut(stream) else { continue };
        if let Some(reason) = stream.gap_before(data)
            && events.send(FeedEvent::Gap { channel: stream.channel, reason }).await.is_err()
        {
            return "the relay ends".into();
        }
        if events.send(FeedEvent::Update { channel: stream.channel, data: data.to_owned() }).await.is_err() {
            return "the relay ends".into();
        }
    }
}

impl FollowedStream {
    /// Returns what is missing between the last depth change and this message.
    fn gap_before(&mut self, data: &RawValue) -> Option<String> {
        let Ok(Numbers { first_change: Some(first), last_change: Some(last) }) = serde_json::from_str(data.get())
        else {
            return None;
        };
        let before = self.last_change.replace(last)?;
        (first > before + 1).then(|| format!("the changes {} to {} are missing", before + 1, first - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_depth_changes_are_noticed() {
        let mut stream = FollowedStream { channel: 0, last_change: None };
        let mut gap = |text: &str| stream.gap_before(&RawValue::from_string(text.into()).unwrap());
        assert_eq!(gap(r#"{"e":"depthUpdate","U":5,"u":7}"#), None);
        assert_eq!(gap(r#"{"e":"depthUpdate","U":8,"u":8}"#), None);
        assert_eq!(gap(r#"{"e":"depthUpdate","U":11,"u":12}"#).as_deref(), Some("the changes 9 to 10 are missing"));
        // A best price has one number alone.
        assert_eq!(gap(r#"{"u":40,"s":"X","b":"1"}"#), None);
    }
}
