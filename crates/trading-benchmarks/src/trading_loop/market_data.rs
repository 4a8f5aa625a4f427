//! Messages of a book channel, recorded while the book changes.
//!
//! Start at    [`record`].

use std::time::{Duration, Instant};

use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::{Error, OrderBook, OrderOutcome, OrderPool, OrderRequest, SubscriptionEvent, VenueConnection};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::wire::parse;

/// Longest wait for changes that others cause.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// After the last own order, the recording ends when the book does not change for this long.
const QUIET: Duration = Duration::from_millis(200);
/// Own orders that change the book. Each enters and leaves it.
const ORDERS: usize = 500;
/// Most messages of a recording.
const MESSAGES_MAX: usize = 2 * ORDERS + 1;

/// A snapshot and the changes that follow it.
pub struct BookRecording {
    pub channel: String,
    pub messages: Vec<Box<RawValue>>,
    /// From the receipt of a message to the changed book.
    pub latencies: Latencies,
}

/// Records a book. With `orders` it changes the book itself. Returns `None` if the book does not
/// change.
///
/// # Errors
///
/// Fails if the venue refuses the channel or an order, or if the connection ends.
pub async fn record(
    data: &VenueConnection,
    instrument: &str,
    orders: Option<(&OrderPool, &OrderRequest)>,
) -> Result<Option<BookRecording>, Error> {
    // Raw channels need a login.
    let interval = if orders.is_some() { "raw" } else { "100ms" };
    let channel = format!("book.{instrument}.{interval}");
    let mut subscription = data.subscribe(&channel).await?;
    let (mut book, mut latencies, mut messages) = (OrderBook::default(), Latencies::new(), Vec::new());
    let listen = async {
        while messages.len() < MESSAGES_MAX {
            let quiet = if orders.is_some() { QUIET } else { LONGEST_WAIT };
            let Ok(event) = timeout(quiet, subscription.next()).await else { break };
            let SubscriptionEvent::Notice(notice) = event else {
                return Err(Error::Lost { cause: format!("the subscription of {channel} was interrupted") });
            };
            book.apply(&notice.data).map_err(|fault| Error::Garbled { what: fault.to_string() })?;
            if !messages.is_empty() {
                latencies.record(nanoseconds(Instant::now() - notice.received_at));
            }
            messages.push(notice.data);
        }
        Ok(())
    };
    let change = async {
        let Some((pool, order)) = orders else { return Ok(()) };
        for _ in 0..ORDERS {
            let outcome: OrderOutcome = parse(&pool.enter(order).await?)?;
            let params = json!({"order_id": outcome.order.order_id});
            pool.call(&order.instrument, "private/cancel", &params).await?;
        }
        Ok(())
    };
    tokio::try_join!(listen, change)?;
    Ok((messages.len() > 1).then_some(BookRecording { channel, messages, latencies }))
}
