//! Answers and traffic of a pool of connections.

use std::future::Future;
use std::time::Instant;

use pitwire_client::{Error, OrderPool, VenueConnection};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::cost::{AllocationCounter, Cost, CostMeter};

/// Parses the result of a call.
///
/// # Errors
///
/// Returns [`Error::Garbled`] if the result has another form.
pub fn parse<T: DeserializeOwned>(answer: &RawValue) -> Result<T, Error> {
    serde_json::from_str(answer.get()).map_err(|error| Error::Garbled { what: error.to_string() })
}

/// Returns the bytes that an operation sends and receives.
///
/// # Errors
///
/// Returns the error of the operation.
pub async fn probe(
    pool: &OrderPool,
    operation: impl Future<Output = Result<Instant, Error>>,
) -> Result<(usize, usize), Error> {
    let before = traffic(pool);
    operation.await?;
    let after = traffic(pool);
    let bytes = |after: u64, before: u64| usize::try_from(after - before).unwrap_or(usize::MAX);
    Ok((bytes(after.0, before.0), bytes(after.1, before.1)))
}

/// Returns the bytes that all connections of a pool have sent and received.
fn traffic(pool: &OrderPool) -> (u64, u64) {
    pool.connections()
        .map(VenueConnection::traffic)
        .fold((0, 0), |(sent, received), traffic| (sent + traffic.sent_bytes, received + traffic.received_bytes))
}

/// Measures the cost of operations with their bytes.
pub struct TrafficMeter<'a> {
    pool: &'a OrderPool,
    before: (u64, u64),
    meter: CostMeter,
}

impl<'a> TrafficMeter<'a> {
    pub fn start(pool: &'a OrderPool, counter: AllocationCounter) -> Self {
        TrafficMeter { pool, before: traffic(pool), meter: CostMeter::start(counter) }
    }

    pub fn stop(self, operations: u64) -> Cost {
        let cost = self.meter.stop(operations);
        let (sent, received) = traffic(self.pool);
        Cost { sent_bytes: sent - self.before.0, received_bytes: received - self.before.1, ..cost }
    }
}
