//! A subscription that keeps a book and asks for a snapshot whenever the book cannot follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
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
/// A request, its answer or the snapshot may be lost without a cut. A complete book compares its
/// change id with the venue's at [`Settings::check_interval`](crate::Settings::check_interval),
/// because the last changes before a pause of the market may be lost, too.
#[derive(Debug)]
pub struct BookSubscription {
    subscription: Subscription,
    connection: VenueConnection,
    book: OrderBook,
    message: Option<Box<RawValue>>,
    /// Pause before the next request for a snapshot, so that a faulty venue gets few of them.
    pause: GrowingPause,
    /// Longest wait for a snapshot before the book asks for it again.
    patience: Duration,
    /// Time of the next request for a snapshot. `None` if the book is complete.
    refresh_at: Option<Instant>,
    check: Option<BookCheck>,
}

/// The comparison of a book with the venue's.
#[derive(Debug)]
struct BookCheck {
    instrument: String,
    interval: Duration,
    next_at: Instant,
    /// Change id that the venue named at the last check, or 0.
    venue_change_id: Arc<AtomicU64>,
}

#[derive(Deserialize)]
struct VenueBook {
    change_id: u64,
}

impl BookCheck {
    /// Returns `None` if checks are disabled, or if the channel omits changes of the book.
    fn new(connection: &VenueConnection, channel: &str) -> Option<Self> {
        let interval = connection.check_interval()?;
        let mut parts = channel.split('.').skip(1);
        let (instrument, _interval) = (parts.next()?, parts.next()?);
        // A channel with a depth or a grouping has more parts.
        if parts.next().is_some() {
            return None;
        }
        let venue_change_id = Arc::new(AtomicU64::new(0));
        Some(BookCheck { instrument: instrument.into(), interval, next_at: Instant::now() + interval, venue_change_id })
    }

    /// Forgets the last answer, because the book begins again.
    fn reset(&mut self) {
        self.venue_change_id.store(0, Ordering::Relaxed);
        self.next_at = Instant::now() + self.interval;
    }

    /// Returns whether the book lacks a change that the venue named one interval ago. Otherwise
    /// asks the venue for its present change.
    fn finds_gap(&mut self, connection: &VenueConnection, book: &OrderBook) -> bool {
        self.next_at = Instant::now() + self.interval;
        if book.change_id().is_some_and(|known| known < self.venue_change_id.load(Ordering::Relaxed)) {
            return true;
        }
        let (connection, answer) = (connection.clone(), Arc::clone(&self.venue_change_id));
        let params = json!({"instrument_name": self.instrument, "depth": 1});
        tokio::spawn(async move {
            // Without an answer the next check asks again.
            if let Ok(VenueBook { change_id }) = connection.query("public/get_order_book", &params).await {
                answer.store(change_id, Ordering::Relaxed);
            }
        });
        false
    }
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
            connection: connection.clone(),
            book: OrderBook::default(),
            message: None,
            pause: GrowingPause::new(Duration::from_millis(100), Duration::from_secs(10)),
            patience,
            refresh_at: Some(Instant::now() + patience),
            check: BookCheck::new(connection, channel),
        })
    }

    /// Returns the book. It is empty while it is stale.
    pub fn book(&self) -> &OrderBook {
        &self.book
    }

    /// Returns the venue's message behind the last [`BookEvent::Snapshot`] or
    /// [`BookEvent::Changed`].
    pub fn message(&self) -> Option<&RawValue> {
        self.message.as_deref()
    }

    /// Waits for the next change of the book. Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// Fails if the subscription or the connection has ended.
    pub async fn next(&mut self) -> Result<BookEvent, Error> {
        loop {
            let next = self.subscription.next();
            let event = match self.refresh_at.or(self.check.as_ref().map(|check| check.next_at)) {
                None => next.await,
                Some(at) => match timeout_at(at, next).await {
                    Ok(event) => event,
                    Err(_) if self.refresh_at.is_some() => {
                        self.request_snapshot().await?;
                        continue;
                    }
                    Err(_) => {
                        let Some(check) = &mut self.check else { continue };
                        if !check.finds_gap(&self.connection, &self.book) {
                            continue;
                        }
                        self.book.clear();
                        self.refresh_at = Some(Instant::now() + self.pause.next());
                        return Ok(BookEvent::Stale { reason: "the last changes of the book did not arrive".into() });
                    }
                },
            };
            let reason = match event {
                SubscriptionEvent::Notice(notice) => match self.book.apply(&notice.data) {
                    Ok(BookUpdate::Snapshot) => {
                        self.refresh_at = None;
                        self.message = Some(notice.data);
                        if let Some(check) = &mut self.check {
                            check.reset();
                        }
                        return Ok(BookEvent::Snapshot);
                    }
                    Ok(BookUpdate::Changed) => {
                        self.pause.reset();
                        self.message = Some(notice.data);
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
        let is_ready = matches!(*self.connection.state().borrow(), ConnectionState::Ready { .. });
        if is_ready {
            self.subscription.refresh().await?;
        }
        self.refresh_at = Some(Instant::now() + self.patience);
        Ok(())
    }
}
