//! A subscription that keeps a book and asks for a snapshot whenever the book cannot follow.

use std::time::Duration;

use tokio::time::sleep;

use crate::book::{BookUpdate, OrderBook};
use crate::pause::GrowingPause;
use crate::queue::SubscriptionEvent;
use crate::{Error, Subscription, VenueConnection};

/// What happened to a book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookEvent {
    /// The book is new and complete.
    Snapshot,
    Changed,
    /// The book is empty until the next [`BookEvent::Snapshot`]. The reason is for people.
    Stale {
        reason: String,
    },
}

/// A book that follows its channel over gaps and reconnections.
#[derive(Debug)]
pub struct BookSubscription {
    subscription: Subscription,
    book: OrderBook,
    /// Pause before the next request for a snapshot, so that a faulty venue gets few of them.
    pause: GrowingPause,
    pending_refresh: Option<Duration>,
}

impl BookSubscription {
    /// Subscribes to a book channel, such as `book.BTC_USDC.100ms`.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::subscribe`].
    pub async fn open(connection: &VenueConnection, channel: &str) -> Result<Self, Error> {
        let subscription = connection.subscribe(channel).await?;
        let pause = GrowingPause::new(Duration::from_millis(100), Duration::from_secs(10));
        Ok(BookSubscription { subscription, book: OrderBook::default(), pause, pending_refresh: None })
    }

    /// Returns the book. It is empty while it is stale.
    pub fn book(&self) -> &OrderBook {
        &self.book
    }

    /// Waits for the next change of the book.
    ///
    /// # Errors
    ///
    /// Fails if the subscription or the connection has ended.
    pub async fn next(&mut self) -> Result<BookEvent, Error> {
        loop {
            if let Some(pause) = self.pending_refresh {
                sleep(pause).await;
                self.pending_refresh = None;
                self.subscription.refresh().await?;
            }
            let reason = match self.subscription.next().await {
                SubscriptionEvent::Notice(notice) => match self.book.apply(&notice.data) {
                    Ok(BookUpdate::Snapshot) => return Ok(BookEvent::Snapshot),
                    Ok(BookUpdate::Changed) => {
                        self.pause.reset();
                        return Ok(BookEvent::Changed);
                    }
                    Ok(BookUpdate::Ignored) => continue,
                    Err(fault) => fault.to_string(),
                },
                // The venue sends a snapshot next.
                SubscriptionEvent::Restarted => {
                    self.book.clear();
                    return Ok(BookEvent::Stale { reason: "the subscription began again".into() });
                }
                SubscriptionEvent::Lost { messages } => {
                    self.book.clear();
                    format!("the reader was slow and lost {messages} messages")
                }
                SubscriptionEvent::Ended { reason } => {
                    return Err(Error::NotSent { method: self.subscription.channel().into(), cause: reason });
                }
            };
            self.pending_refresh = Some(self.pause.next());
            return Ok(BookEvent::Stale { reason });
        }
    }
}
