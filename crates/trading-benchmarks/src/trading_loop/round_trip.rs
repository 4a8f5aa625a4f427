//! The way from a book change to a fill: one account offers, and the other one takes the offer as
//! soon as its market data shows it.
//!
//! Start at    [`RoundTrip::measure`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::{
    Error, OrderBook, OrderOutcome, OrderPool, OrderRequest, Side, Subscription, SubscriptionEvent, TimeInForce, Value,
    VenueConnection,
};
use tokio::time::timeout;

use super::market::QuietMarket;
use super::wire::{parse, probe};
use crate::pacing::{DueTimes, Pacing};

/// The connections and orders of the loop.
pub struct RoundTrip {
    maker: VenueConnection,
    offer: OrderRequest,
    pool: Arc<OrderPool>,
    take: OrderRequest,
    changes: Subscription,
    book: OrderBook,
    price: Value,
    timeout: Duration,
}

impl RoundTrip {
    /// Subscribes to the book.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::subscribe`].
    pub async fn open(
        data: &VenueConnection,
        maker: VenueConnection,
        pool: Arc<OrderPool>,
        market: &QuietMarket,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let changes = data.subscribe(&format!("book.{}.raw", market.instrument)).await?;
        let price = &market.trade_price;
        let offer = market.order(Side::Sell, price, None);
        let mut take = market.order(Side::Buy, price, None);
        take.time_in_force = Some(TimeInForce::ImmediateOrCancel);
        let price = Value::parse(price.as_str())
            .ok_or_else(|| Error::Garbled { what: format!("{price} has more than 18 decimals") })?;
        let mut trip = RoundTrip { maker, offer, pool, take, changes, book: OrderBook::default(), price, timeout };
        trip.next_change().await?;
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
        let (maker, offer) = (self.maker.clone(), self.offer.clone());
        let patience = self.timeout;
        let silent =
            || Error::Unanswered { method: "the book change".into(), cause: format!("nothing in {patience:?}") };
        let take = async {
            let changed = loop {
                let received_at = self.next_change().await?;
                if self.has_offer() {
                    break received_at;
                }
            };
            let answer = self.pool.enter(&self.take).await?;
            let outcome: OrderOutcome = parse(&answer)?;
            let filled = Instant::now();
            if outcome.trades.is_empty() {
                return Err(Error::Garbled { what: format!("order {} did not trade", outcome.order.order_id) });
            }
            while self.has_offer() {
                self.next_change().await?;
            }
            Ok((changed, filled))
        };
        let both = async { tokio::try_join!(maker.enter(&offer), take) };
        let (_, times) = timeout(patience, both).await.map_err(|_| silent())??;
        Ok(times)
    }

    fn has_offer(&self) -> bool {
        self.book.asks().next().is_some_and(|(price, _)| price <= self.price)
    }

    /// Waits for a message of the book, applies it, and returns the time of its receipt.
    async fn next_change(&mut self) -> Result<Instant, Error> {
        match self.changes.next().await {
            SubscriptionEvent::Notice(notice) => {
                self.book.apply(&notice.data).map_err(|fault| Error::Garbled { what: fault.to_string() })?;
                Ok(notice.received_at)
            }
            SubscriptionEvent::Lost { .. } => Err(Error::Lost { cause: "the book subscription lost messages".into() }),
            SubscriptionEvent::Restarted => Err(Error::Lost { cause: "the book subscription began again".into() }),
            SubscriptionEvent::Ended { reason } => Err(Error::Lost { cause: reason }),
        }
    }
}
