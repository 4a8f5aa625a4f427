//! Channels of a venue of the JSON-RPC dialect, through the client library.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pitwire_client::{
    BookEvent, BookSubscription, ConnectionState, Error, Settings, Subscription, SubscriptionEvent, VenueConnection,
};
use tokio::sync::mpsc::Sender;
use tracing::{info, warn};

use crate::serving::channel::is_book_of_changes;
use crate::serving::feed_event::FeedEvent;

/// Subscribes to all channels, and follows them in tasks of their own.
///
/// # Errors
/// The venue cannot be reached, or refuses the login or a channel.
pub(crate) async fn follow(
    settings: Settings,
    channels: &[String],
    events: &Sender<FeedEvent>,
    is_connected: Arc<AtomicBool>,
) -> Result<(), Error> {
    let connection = VenueConnection::open(settings).await?;
    for (number, name) in channels.iter().enumerate() {
        if is_book_of_changes(name) {
            let book = BookSubscription::open(&connection, name).await?;
            tokio::spawn(follow_book(book, number, events.clone()));
        } else {
            let subscription = connection.subscribe(name).await?;
            tokio::spawn(follow_messages(subscription, number, events.clone()));
        }
    }
    let mut state = connection.state();
    tokio::spawn(async move {
        while state.changed().await.is_ok() {
            let was_ready = is_connected.load(Ordering::Relaxed);
            let is_ready = match &*state.borrow_and_update() {
                ConnectionState::Ready { .. } => true,
                ConnectionState::Reconnecting { cause } | ConnectionState::Ended { cause } => {
                    if was_ready {
                        warn!(cause, "the connection to the venue has ended");
                    }
                    false
                }
            };
            if is_ready && !was_ready {
                info!("connected to the venue again");
            }
            is_connected.store(is_ready, Ordering::Relaxed);
        }
    });
    Ok(())
}

async fn follow_messages(mut subscription: Subscription, channel: usize, events: Sender<FeedEvent>) {
    loop {
        let event = match subscription.next().await {
            SubscriptionEvent::Notice(notice) => FeedEvent::Update { channel, data: notice.data },
            SubscriptionEvent::Lost { messages } => {
                FeedEvent::Gap { channel, reason: format!("the relay was slow and lost {messages} messages") }
            }
            SubscriptionEvent::Restarted => {
                FeedEvent::Gap { channel, reason: "the connection to the venue was interrupted".into() }
            }
            SubscriptionEvent::Ended { reason } => FeedEvent::Ended { reason },
        };
        let is_end = matches!(event, FeedEvent::Ended { .. });
        // A closed queue is the end of the relay.
        if events.send(event).await.is_err() || is_end {
            return;
        }
    }
}

/// As [`follow_messages`], for a book. It asks for a new snapshot after a gap.
async fn follow_book(mut book: BookSubscription, channel: usize, events: Sender<FeedEvent>) {
    loop {
        let event = match book.next().await {
            Ok(BookEvent::Snapshot | BookEvent::Changed) => match book.message() {
                Some(data) => FeedEvent::Update { channel, data: data.to_owned() },
                None => continue,
            },
            Ok(BookEvent::Stale { reason }) => FeedEvent::Gap { channel, reason },
            Err(error) => FeedEvent::Ended { reason: error.to_string() },
        };
        let is_end = matches!(event, FeedEvent::Ended { .. });
        if events.send(event).await.is_err() || is_end {
            return;
        }
    }
}
