//! A subscription that is read with blocking calls.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::{Client, Subscriber};
use pitwire_failure::Failure;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;

use crate::connection::{FirstConnection, LinkState, NatsConnection, NatsOptions, connect};
use crate::reconnect_delay::ReconnectDelay;

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
pub enum ReceiveOutcome {
    /// At least one message was passed on.
    Messages,
    /// No message arrived in time.
    Timeout,
}

/// A subscription with its own connection.
pub struct NatsSubscription {
    url: String,
    subject: String,
    options: NatsOptions,
    link: LinkState,
    state: SubscriptionState,
    reopen_delay: ReconnectDelay,
}

enum SubscriptionState {
    Open(Box<OpenSubscription>),
    /// The client library has ended. It is started again at this time.
    Ended(Instant),
}

struct OpenSubscription {
    runtime: Runtime,
    /// Dropping the client would end the subscription.
    _client: Client,
    messages: Subscriber,
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
        let link = LinkState::default();
        let open = OpenSubscription::new(url, subject, options, link.clone())?;
        Ok(NatsSubscription {
            url: url.to_owned(),
            subject: subject.to_owned(),
            // A later connection must not end the program because the server is away.
            options: NatsOptions { first_connection: FirstConnection::Background, ..options.clone() },
            link,
            state: SubscriptionState::Open(Box::new(open)),
            reopen_delay: ReconnectDelay::default(),
        })
    }

    pub fn link(&self) -> LinkState {
        self.link.clone()
    }

    /// Waits for a message, up to `timeout`, then passes on all that have arrived, at most 1,024:
    /// subject and payload. Connects again, after a growing delay, if the client library has ended.
    pub fn receive(&mut self, timeout: Duration, pass_on: impl FnMut(&str, &[u8])) -> ReceiveOutcome {
        match &mut self.state {
            SubscriptionState::Open(open) => {
                if let Some(received) = open.receive(timeout, pass_on) {
                    return received;
                }
                tracing::warn!("the NATS client has ended; connecting again");
                self.link.set_up(false);
                self.state = SubscriptionState::Ended(Instant::now() + self.reopen_delay.next());
            }
            SubscriptionState::Ended(until) => {
                std::thread::sleep(timeout.min(until.saturating_duration_since(Instant::now())));
                if Instant::now() >= *until {
                    self.reopen();
                }
            }
        }
        ReceiveOutcome::Timeout
    }

    fn reopen(&mut self) {
        let opened = OpenSubscription::new(&self.url, &self.subject, &self.options, self.link.clone());
        self.state = match opened {
            Ok(open) => SubscriptionState::Open(Box::new(open)),
            Err(failure) => {
                tracing::warn!("{failure}");
                SubscriptionState::Ended(Instant::now() + self.reopen_delay.next())
            }
        };
    }
}

impl OpenSubscription {
    fn new(url: &str, subject: &str, options: &NatsOptions, link: LinkState) -> Result<Self, Failure> {
        let NatsConnection { runtime, client, .. } = connect(url, options, link)?;
        let is_required = options.first_connection == FirstConnection::Required;
        let subscribed = runtime.block_on(async {
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
        runtime.spawn(close_on_endless_message(client.clone()));
        Ok(OpenSubscription { runtime, _client: client, messages })
    }

    /// Returns `None` if the client library has ended.
    fn receive(&mut self, timeout: Duration, mut pass_on: impl FnMut(&str, &[u8])) -> Option<ReceiveOutcome> {
        let OpenSubscription { runtime, messages, .. } = self;
        runtime.block_on(async {
            let Ok(first) = tokio::time::timeout(timeout, messages.next()).await else {
                return Some(ReceiveOutcome::Timeout);
            };
            let first = first?;
            pass_on(&first.subject, &first.payload);
            for _ in 1..BATCH_MAX {
                let Ok(Some(next)) = tokio::time::timeout(Duration::ZERO, messages.next()).await else { break };
                pass_on(&next.subject, &next.payload);
            }
            Some(ReceiveOutcome::Messages)
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
