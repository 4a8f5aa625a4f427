//! Several connections for the orders of one login.
//!
//! Holds       1. [`Routing::ByInstrument`]: the requests of an instrument use one connection, so
//!                the venue reads them in the order of the calls;
//!             2. [`Routing::FewestPending`]: no request waits for a connection that reconnects,
//!                while another one is ready.
//! Leaves out  market data, which belongs on a connection apart; repeating a lost order.
//! Start at    [`OrderPool::open`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{ConnectionState, Error, OrderRequest, Settings, VenueConnection};

/// Rule that selects the connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The connection depends on the name of the instrument alone. The venue reads the requests of
    /// an instrument in the order of the calls. A failed connection delays its instruments.
    ByInstrument,
    /// The ready connection with the fewest pending requests. The venue may read two concurrent
    /// requests in either order. An edit or a cancel needs the answer to its order, so it always
    /// follows that order.
    FewestPending,
}

/// Connections with the same login, among which requests are divided.
#[derive(Debug)]
pub struct OrderPool {
    connections: Vec<PooledConnection>,
    routing: Routing,
}

#[derive(Debug)]
struct PooledConnection {
    connection: VenueConnection,
    pending: AtomicUsize,
}

/// Counts a request as pending until it is dropped.
struct PendingGuard<'a>(&'a AtomicUsize);

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OrderPool {
    /// Opens `size` connections one after another. Each reconnects by itself.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::open`], for the first connection that fails.
    pub async fn open(settings: &Settings, size: NonZeroUsize, routing: Routing) -> Result<Self, Error> {
        let mut connections = Vec::with_capacity(size.get());
        for _ in 0..size.get() {
            connections.push(VenueConnection::open(settings.clone()).await?);
        }
        Ok(OrderPool::of(connections, routing))
    }

    /// Makes a pool of open connections. They must belong to the same login.
    ///
    /// # Panics
    ///
    /// Panics if there is no connection.
    pub fn of(connections: Vec<VenueConnection>, routing: Routing) -> Self {
        assert!(!connections.is_empty(), "a pool needs a connection");
        let pooled = |connection| PooledConnection { connection, pending: AtomicUsize::new(0) };
        OrderPool { connections: connections.into_iter().map(pooled).collect(), routing }
    }

    /// Returns the connections in the order in which they were opened.
    pub fn connections(&self) -> impl Iterator<Item = &VenueConnection> {
        self.connections.iter().map(|pooled| &pooled.connection)
    }

    /// Returns the number of requests without an answer on each connection.
    pub fn pending(&self) -> Vec<usize> {
        self.connections.iter().map(|pooled| pooled.pending.load(Ordering::Relaxed)).collect()
    }

    /// Enters an order.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`].
    pub async fn enter(&self, order: &OrderRequest) -> Result<Box<RawValue>, Error> {
        self.call(&order.instrument, order.side.method(), &order.params()).await
    }

    /// Sends a request about an instrument, such as an edit or a cancel.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`].
    pub async fn call<P: Serialize + ?Sized>(
        &self,
        instrument: &str,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, Error> {
        let chosen = self.choose(instrument);
        chosen.pending.fetch_add(1, Ordering::Relaxed);
        let _guard = PendingGuard(&chosen.pending);
        chosen.connection.call(method, params).await
    }

    fn choose(&self, instrument: &str) -> &PooledConnection {
        match self.routing {
            Routing::ByInstrument => {
                // The hasher has fixed keys, so equal names give equal connections.
                let mut hasher = DefaultHasher::new();
                instrument.hash(&mut hasher);
                let count = self.connections.len() as u64;
                &self.connections[usize::try_from(hasher.finish() % count).unwrap_or(0)]
            }
            Routing::FewestPending => {
                let load = |pooled: &&PooledConnection| {
                    let is_ready = matches!(*pooled.connection.state().borrow(), ConnectionState::Ready { .. });
                    (!is_ready, pooled.pending.load(Ordering::Relaxed))
                };
                // There is at least one connection.
                self.connections.iter().min_by_key(load).unwrap_or(&self.connections[0])
            }
        }
    }
}
