//! A subscription that keeps a book and asks for a snapshot whenever the book cannot follow.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::book::{BookUpdate, OrderBook};
use crate::pause::GrowingPause;
use crate::queue::SubscriptionEvent;
use crate::{ConnectionState, Error, Subscription, VenueConnection};

/// An event of a book.
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
///
/// While the book waits for a snapshot, it repeats the request after the connection's time limit.
/// A request, its answer or the snapshot may be lost without a cut.
#[derive(Debug)]
pub struct BookSubscription {
    subscription: Subscription,
    state: watch::Receiver<ConnectionState>,
    book: OrderBook,
    /// Pause before the next request for a snapshot, so that a faulty venue gets few of them.
    pause: GrowingPause,
    /// Longest wait for a snapshot before the book asks for it again.
    patience: Duration,
    /// Time of the next request for a snapshot. `None` if the book is complete.
    refresh_at: Option<Instant>,
}

impl BookSubscription {
    /// Subscribes to a book channel, such as `book.BTC_USDC.100ms`.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::subscribe`].
    pub async fn open(connection: &VenueConnection, channel: &str) -> Result<Self, Error> {
        let subscription = connection.subscribe(channel).await?;
        let patience = connection.timeout();
        Ok(BookSubscription {
            subscription,
            state: connection.state(),
            book: OrderBook::default(),
            pause: GrowingPause::new(Duration::from_millis(100), Duration::from_secs(10)),
            patience,
            refresh_at: Some(Instant::now() + patience),
        })
    }

    /// Returns the book. It is empty while it is stale.
    pub fn book(&self) -> &OrderBook {
        &self.book
    }

    /// Waits for the next change of the book. Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// Fails if the subscription or the connection has ended.
    pub async fn next(&mut self) -> Result<BookEvent, Error> {
        loop {
            let next = self.subscription.next();
            let event = match self.refresh_at {
                None => next.await,
                Some(at) => match timeout_at(at, next).await {
                    Ok(event) => event,
                    Err(_) => {
                        self.request_snapshot().await?;
                        continue;
                    }
                },
            };
            let reason = match event {
                SubscriptionEvent::Notice(notice) => match self.book.apply(&notice.data) {
                    Ok(BookUpdate::Snapshot) => {
                        self.refresh_at = None;
                        return Ok(BookEvent::Snapshot);
                    }
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
                    self.refresh_at = Some(Instant::now() + self.patience);
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
            self.refresh_at = Some(Instant::now() + self.pause.next());
            return Ok(BookEvent::Stale { reason });
        }
    }

    /// Asks for a snapshot. A connection that is being opened asks by itself, because it subscribes
    /// again.
    async fn request_snapshot(&mut self) -> Result<(), Error> {
        let is_ready = matches!(*self.state.borrow(), ConnectionState::Ready { .. });
        if is_ready {
            self.subscription.refresh().await?;
        }
        self.refresh_at = Some(Instant::now() + self.patience);
        Ok(())
    }
}
