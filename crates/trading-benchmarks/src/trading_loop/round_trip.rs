//! The way from a book change to a fill: one account offers, and the other one takes the offer as
//! soon as its market data shows it.
//!
//! Start at    [`RoundTrip::measure`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::{
    Error, OrderBook, OrderOutcome, OrderPool, OrderRequest, Settings, Side, Subscription, SubscriptionEvent,
    TimeInForce, Value, VenueConnection,
};
use tokio::time::timeout;

use super::market::QuietMarket;
use super::offers::OfferThread;
use super::wire::{parse, probe};
use crate::pacing::{DueTimes, Pacing};

/// The connections and orders of the loop.
pub struct RoundTrip {
    offers: OfferThread,
    pool: Arc<OrderPool>,
    take: OrderRequest,
    changes: Subscription,
    book: OrderBook,
    price: Value,
    timeout: Duration,
}

impl RoundTrip {
    /// Subscribes to the book, and opens a connection for the second account.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::open`] and [`VenueConnection::subscribe`].
    pub async fn open(
        data: &VenueConnection,
        maker: Settings,
        pool: Arc<OrderPool>,
        market: &QuietMarket,
    ) -> Result<Self, Error> {
        let timeout = maker.timeout;
        let changes = data.subscribe(&format!("book.{}.raw", market.instrument)).await?;
        let price = &market.trade_price;
        let offers = OfferThread::start(maker, market.order(Side::Sell, price, None)).await?;
        let mut take = market.order(Side::Buy, price, None);
        take.time_in_force = Some(TimeInForce::ImmediateOrCancel);
        let price = Value::parse(price.as_str())
            .ok_or_else(|| Error::Garbled { what: format!("{price} has more than 18 decimals") })?;
        let mut trip = RoundTrip { offers, pool, take, changes, book: OrderBook::default(), price, timeout };
        next_change(&mut trip.changes, &mut trip.book).await?;
        Ok(trip)
    }

    pub fn pool(&self) -> Arc<OrderPool> {
        Arc::clone(&self.pool)
    }

    /// Trades once, and returns the bytes of the order that takes and of its answer.
    ///
    /// # Errors
    ///
    /// As [`RoundTrip::measure`].
    pub async fn probe(&mut self) -> Result<(usize, usize), Error> {
        let pool = Arc::clone(&self.pool);
        let once = async { self.trade().await.map(|(_, filled)| filled) };
        probe(&pool, once).await
    }

    /// Trades `count` times, one trade after another. In a closed loop a latency counts from the
    /// receipt of the book change. In an open loop it counts from the time at which the offer was
    /// due.
    ///
    /// # Errors
    ///
    /// Fails if a request fails, if no book change arrives in time, or if the order does not trade.
    pub async fn measure(&mut self, pacing: Pacing, count: u64) -> Result<Latencies, Error> {
        let mut latencies = Latencies::new();
        match pacing {
            Pacing::Closed => {
                for _ in 0..count {
                    let (changed, filled) = self.trade().await?;
                    latencies.record(nanoseconds(filled - changed));
                }
            }
            Pacing::Open { rate } => {
                let mut due_times = DueTimes::new(rate, count, Instant::now())?;
                while let Some(due) = due_times.next().await? {
                    let (_, filled) = self.trade().await?;
                    latencies.record(nanoseconds(filled - due));
                }
            }
        }
        Ok(latencies)
    }

    /// Trades once. Returns the receipt of the book change and of the fill.
    async fn trade(&mut self) -> Result<(Instant, Instant), Error> {
        let patience = self.timeout;
        let silent =
            || Error::Unanswered { method: "the book change".into(), cause: format!("nothing in {patience:?}") };
        self.offers.offer();
        timeout(patience, self.take_and_finish()).await.map_err(|_| silent())?
    }

    /// Takes the offer, and waits for the end of the trade: its book change, and the answer to the
    /// offer.
    async fn take_and_finish(&mut self) -> Result<(Instant, Instant), Error> {
        let mut is_answered = false;
        let changed = loop {
            let received_at = tokio::select! {
                received_at = next_change(&mut self.changes, &mut self.book) => received_at?,
                // It arrives before the fill only if the book does not change for a long time.
                answer = self.offers.answer(), if !is_answered => {
                    answer?;
                    is_answered = true;
                    continue;
                }
            };
            if self.has_offer() {
                break received_at;
            }
        };
        let answer = self.pool.enter(&self.take).await?;
        let outcome: OrderOutcome = parse(&answer)?;
        let filled = Instant::now();
        self.offers.filled();
        if outcome.trades.is_empty() {
            return Err(Error::Garbled { what: format!("order {} did not trade", outcome.order.order_id) });
        }
        while self.has_offer() {
            next_change(&mut self.changes, &mut self.book).await?;
        }
        if !is_answered {
            self.offers.answer().await?;
        }
        Ok((changed, filled))
    }

    fn has_offer(&self) -> bool {
        self.book.asks().next().is_some_and(|(price, _)| price <= self.price)
    }
}

/// Waits for a message of the book, applies it, and returns the time of its receipt.
async fn next_change(changes: &mut Subscription, book: &mut OrderBook) -> Result<Instant, Error> {
    match changes.next().await {
        SubscriptionEvent::Notice(notice) => {
            book.apply(&notice.data).map_err(|fault| Error::Garbled { what: fault.to_string() })?;
            Ok(notice.received_at)
        }
        SubscriptionEvent::Lost { .. } => Err(Error::Lost { cause: "the book subscription lost messages".into() }),
        SubscriptionEvent::Restarted => Err(Error::Lost { cause: "the book subscription began again".into() }),
        SubscriptionEvent::Ended { reason } => Err(Error::Lost { cause: reason }),
    }
}
