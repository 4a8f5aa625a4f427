//! A subscription that is read with blocking calls.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Client, Subscriber};
use pitwire_failure::Failure;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;

use crate::connection::{FirstConnection, LinkState, NatsOptions, connect};

/// Most messages that one call of [`NatsSubscription::receive`] passes on.
const BATCH_MAX: usize = 1_024;

/// Largest message that a reader of a subscription should accept, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Largest unfinished message, in bytes: the most that a NATS server allows, and 1 MiB more. The
/// client library collects a message without a limit.
const UNFINISHED_BYTES_MAX: u64 = (64 << 20) + (1 << 20);
/// Interval of the check of unfinished messages.
const UNFINISHED_INTERVAL: Duration = Duration::from_millis(20);

/// How a call of [`NatsSubscription::receive`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one message was passed on.
    Messages,
    /// No message arrived in time.
    Timeout,
    /// No message will arrive any more.
    Closed,
}

/// A subscription with its own connection.
pub struct NatsSubscription {
    runtime: Runtime,
    /// Dropping the client would end the subscription.
    _client: Client,
    messages: Subscriber,
    link: LinkState,
}

impl NatsSubscription {
    /// Connects and subscribes. The caller has checked `subject`.
    ///
    /// With [`FirstConnection::Required`], the server knows of the subscription when this returns.
    ///
    /// # Errors
    ///
    /// The address is invalid, or a required server does not answer.
    pub fn open(url: &str, subject: &str, options: &NatsOptions) -> Result<Self, Failure> {
        let connection = connect(url, options)?;
        let client = connection.client;
        let is_required = options.first_connection == FirstConnection::Required;
        let subscribed = connection.runtime.block_on(async {
            let messages = client.subscribe(subject.to_owned()).await.map_err(|error| error.to_string())?;
            // A publisher that waits until we are ready publishes at once.
            if is_required {
                client.flush().await.map_err(|error| error.to_string())?;
            }
            Ok(messages)
        });
        let failed = |error: String| {
            Failure::new(format!("cannot subscribe to {subject}: {error}")).remedy("look at the NATS server's log")
        };
        let messages = subscribed.map_err(failed)?;
        connection.runtime.spawn(close_on_endless_message(client.clone()));
        Ok(NatsSubscription { runtime: connection.runtime, _client: client, messages, link: connection.link })
    }

    pub fn link(&self) -> LinkState {
        self.link.clone()
    }

    /// Waits for a message, up to `timeout`, then passes on all that have arrived, at most 1,024:
    /// subject and payload.
    pub fn receive(&mut self, timeout: Duration, mut pass_on: impl FnMut(&str, &[u8])) -> Received {
        let NatsSubscription { runtime, messages, .. } = self;
        runtime.block_on(async {
            let first = match tokio::time::timeout(timeout, messages.next()).await {
                Err(_) => return Received::Timeout,
                Ok(None) => return Received::Closed,
                Ok(Some(first)) => first,
            };
            pass_on(&first.subject, &first.payload);
            for _ in 1..BATCH_MAX {
                let Ok(Some(next)) = tokio::time::timeout(Duration::ZERO, messages.next()).await else { break };
                pass_on(&next.subject, &next.payload);
            }
            Received::Messages
        })
    }
}

/// Drops the connection when a server sends more bytes than any message may have without finishing
/// a message. Otherwise a hostile server could fill the memory.
async fn close_on_endless_message(client: Client) {
    let statistics = client.statistics();
    let (mut messages, mut bytes) = (0, 0);
    let mut interval = tokio::time::interval(UNFINISHED_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let now = (statistics.in_messages.load(Ordering::Relaxed), statistics.in_bytes.load(Ordering::Relaxed));
        if now.0 == messages && now.1 - bytes > UNFINISHED_BYTES_MAX {
            tracing::warn!("the NATS server sends a message without an end; reconnecting");
            if client.force_reconnect().await.is_err() {
                return;
            }
            bytes = now.1;
        } else if now.0 != messages {
            (messages, bytes) = now;
        }
    }
}
