//! The trading loop of a client at any venue of the dialect: orders, messages, market data, and the
//! way from a book change to a fill.
//!
//! Holds       each measurement over the wire stands beside a TCP ping-pong of the same sizes in
//!             the same rounds, on loopback.
//! Start at    [`LoopBenchmark::run`].

mod market;
mod market_data;
mod offers;
mod replay;
mod report;
mod round_trip;
mod wire;

use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::orders::Latencies;
use pitwire_benchmarks::orders::echo::Echo;
use pitwire_client::{
    Cancel, Credentials, Error, Number, OrderOutcome, OrderPool, OrderRequest, Routing, Settings, Side, VenueConnection,
};
use pitwire_failure::Failure;
use serde_json::json;

use crate::client_threads::{ClientThreads, ThreadModel};
use crate::cost::{AllocationCounter, Cost, CostMeter};
use crate::pacing::{Pacing, measure};
use market::QuietMarket;
pub use report::{LoopReport, Measurement};
use round_trip::RoundTrip;
use wire::{TrafficMeter, parse, probe};

/// Orders that rest at the same time. A venue limits the open orders of an account.
const RESTING_ORDERS_MAX: u64 = 500;
/// Connections that are opened in one round. Each leaves a closed socket behind for a minute.
const NEW_CONNECTIONS_MAX: u64 = 500;
/// Label of the orders that rest, by which they are cancelled.
const LABEL: &str = "pitwire-bench-loop";

/// What to measure.
pub struct LoopBenchmark {
    /// Venue and login. Without a login only public methods are measured.
    pub settings: Settings,
    /// Login of the account that trades with the first one. Without it the loop is left out.
    pub maker: Option<Credentials>,
    pub instrument: String,
    /// Price of the orders that rest; by default half of the market price.
    pub price: Option<Number>,
    pub threads: ThreadModel,
    pub workers: usize,
    /// Connections for orders.
    pub connections: NonZeroUsize,
    pub pacing: Pacing,
    /// Operations of each measurement over all rounds.
    pub count: u64,
    pub rounds: u64,
    /// Book updates that are replayed.
    pub updates: u64,
    /// Command of the TCP echo process.
    pub echo: Command,
    pub counter: AllocationCounter,
    /// Counts rounds over all measurements. The replay of updates counts as one round.
    pub progress: Arc<BenchProgress>,
}

/// A measurement over the wire, before its rounds.
struct WireMeasurement {
    latencies: Latencies,
    yardstick: Latencies,
    cost: Cost,
    /// Bytes of one request and its answer, with framing.
    sizes: (usize, usize),
}

impl WireMeasurement {
    fn new(sizes: (usize, usize)) -> Self {
        WireMeasurement { latencies: Latencies::new(), yardstick: Latencies::new(), cost: Cost::default(), sizes }
    }

    fn ping_pong(&mut self, echo: &Echo, count: u64) -> Result<(), Failure> {
        let (request, answer) = self.sizes;
        self.yardstick.add(&echo.ping_pong(request, answer, u32::try_from(count).unwrap_or(u32::MAX))?);
        Ok(())
    }

    fn finish(self, name: &'static str) -> Measurement {
        let WireMeasurement { latencies, yardstick, cost, sizes } = self;
        Measurement { name, latencies, yardstick: Some(yardstick), sizes: Some(sizes), cost: Some(cost) }
    }
}

impl LoopBenchmark {
    /// Runs all measurements.
    ///
    /// # Errors
    ///
    /// Fails if the venue cannot be reached, refuses the login or an order, or does not answer.
    pub fn run(mut self) -> Result<LoopReport, Failure> {
        (self.counter.start)();
        let echo = Echo::start(std::mem::replace(&mut self.echo, Command::new("")), None)?;
        let threads = ClientThreads::new(self.threads, self.workers)?;
        threads.run(self.measure(&threads, &echo))
    }

    async fn measure(&self, threads: &ClientThreads, echo: &Echo) -> Result<LoopReport, Failure> {
        let mut connections = Vec::new();
        for _ in 0..self.connections.get() {
            connections.push(threads.open(self.settings.clone()).await?);
        }
        let pool = Arc::new(OrderPool::of(connections, Routing::FewestPending));
        let data = threads.open(self.settings.clone()).await?;
        let market = QuietMarket::find(&data, &self.instrument, self.price.as_ref()).await?;
        let has_login = self.settings.credentials.is_some();
        let has_loop = has_login && self.maker.is_some();
        self.progress.plan(self.rounds * (2 + u64::from(has_login) + u64::from(has_loop)) + 1);
        let mut measurements = Vec::new();
        let propagation = self.propagation(&pool, echo).await?;
        measurements.push(propagation.finish("propagation"));
        let mut left_out = Vec::new();
        let resting = market.order(Side::Buy, &market.resting_price, Some(LABEL));
        if has_login {
            let orders = self.orders(&pool, &resting, echo).await;
            // Orders that a failed measurement leaves behind.
            let cancelled = cancel_resting(&pool, &self.instrument).await;
            measurements.push(orders?.finish("order placement"));
            cancelled?;
        } else {
            left_out.push("order placement and trading loop: no credentials (PITWIRE_CLIENT_ID or a file)");
        }
        if let (true, Some(maker)) = (has_login, &self.maker) {
            let maker = Settings { credentials: Some(maker.clone()), ..self.settings.clone() };
            let data = threads.open(self.settings.clone()).await?;
            let mut trips = RoundTrip::open(&data, maker, Arc::clone(&pool), &market).await?;
            measurements.push(self.round_trips(&mut trips, echo).await?.finish("trading loop"));
        } else if has_login {
            left_out.push("trading loop: no second account (--maker-credentials FILE)");
        }
        let orders = has_login.then_some((&*pool, &resting));
        measurements.push(self.new_connections().await?);
        let recording = market_data::record(&data, &self.instrument, orders).await?;
        match recording {
            Some(recording) => {
                let updates = replay::replay(&recording, self.updates, self.counter).await?;
                let plain = |name, latencies| Measurement { name, latencies, yardstick: None, sizes: None, cost: None };
                measurements.push(plain("book change to applied", recording.latencies));
                let cost = Some(updates.cost);
                measurements.push(Measurement { cost, ..plain("book update", updates.latencies) });
                return Ok(self.report(measurements, left_out, Some(updates.updates_per_second)));
            }
            None => left_out.push("market data: the book did not change within 10 s"),
        }
        Ok(self.report(measurements, left_out, None))
    }

    fn report(
        &self,
        measurements: Vec<Measurement>,
        left_out: Vec<&'static str>,
        updates_per_second: Option<f64>,
    ) -> LoopReport {
        LoopReport {
            url: self.settings.url.clone(),
            instrument: self.instrument.clone(),
            threads: self.threads.name(),
            connections: self.connections.get(),
            pacing: self.pacing,
            measurements,
            left_out,
            updates_per_second,
        }
    }

    /// Returns the operations of one round.
    fn round_count(&self) -> u64 {
        self.count.div_ceil(self.rounds)
    }

    /// Measures `public/test`.
    async fn propagation(&self, pool: &Arc<OrderPool>, echo: &Echo) -> Result<WireMeasurement, Failure> {
        let test = || {
            let pool = Arc::clone(pool);
            let instrument = self.instrument.clone();
            async move {
                pool.call(&instrument, "public/test", &json!({})).await?;
                Ok(Instant::now())
            }
        };
        let sizes = probe(pool, test()).await?;
        let mut measured = WireMeasurement::new(sizes);
        for _ in 0..self.rounds {
            measured.ping_pong(echo, self.round_count())?;
            let meter = TrafficMeter::start(pool, self.counter);
            measured.latencies.add(&measure(self.pacing, self.round_count(), test).await?);
            measured.cost.add(meter.stop(self.round_count()));
            self.progress.add(1);
        }
        Ok(measured)
    }

    /// Measures `public/test` over a connection that is opened for it: the cost of a client that
    /// keeps no connection. It is a closed loop without a login.
    async fn new_connections(&self) -> Result<Measurement, Failure> {
        let settings = Settings { credentials: None, ..self.settings.clone() };
        let test = || {
            let settings = settings.clone();
            async move {
                let connection = VenueConnection::open(settings).await?;
                connection.call("public/test", &json!({})).await?;
                Ok(Instant::now())
            }
        };
        let count = self.round_count().min(NEW_CONNECTIONS_MAX);
        let (mut latencies, mut cost) = (Latencies::new(), Cost::default());
        for _ in 0..self.rounds {
            let meter = CostMeter::start(self.counter);
            latencies.add(&measure(Pacing::Closed, count, test).await?);
            cost.add(meter.stop(count));
            self.progress.add(1);
        }
        Ok(Measurement { name: "new connection", latencies, yardstick: None, sizes: None, cost: Some(cost) })
    }

    /// Measures orders that rest. In a closed loop they are cancelled between the timed parts. In
    /// an open loop each is cancelled after its answer, and the cost includes the cancel.
    async fn orders(
        &self,
        pool: &Arc<OrderPool>,
        order: &OrderRequest,
        echo: &Echo,
    ) -> Result<WireMeasurement, Failure> {
        let must_cancel = self.pacing != Pacing::Closed;
        let enter = || {
            let (pool, order) = (Arc::clone(pool), order.clone());
            async move {
                let answer = pool.enter(&order).await?;
                let answered = Instant::now();
                if must_cancel {
                    let outcome: OrderOutcome = parse(&answer)?;
                    let params = json!({"order_id": outcome.order.order_id});
                    pool.call(&order.instrument, "private/cancel", &params).await?;
                }
                Ok(answered)
            }
        };
        let one = {
            let (pool, order) = (Arc::clone(pool), order.clone());
            async move { pool.enter(&order).await.map(|_| Instant::now()) }
        };
        let mut measured = WireMeasurement::new(probe(pool, one).await?);
        cancel_resting(pool, &self.instrument).await?;
        for _ in 0..self.rounds {
            measured.ping_pong(echo, self.round_count())?;
            let mut left = self.round_count();
            while left > 0 {
                let count = if must_cancel { left } else { left.min(RESTING_ORDERS_MAX) };
                left -= count;
                let meter = TrafficMeter::start(pool, self.counter);
                measured.latencies.add(&measure(self.pacing, count, enter).await?);
                measured.cost.add(meter.stop(count));
                cancel_resting(pool, &self.instrument).await?;
            }
            self.progress.add(1);
        }
        Ok(measured)
    }

    async fn round_trips(&self, trips: &mut RoundTrip, echo: &Echo) -> Result<WireMeasurement, Failure> {
        let sizes = trips.probe().await?;
        let mut measured = WireMeasurement::new(sizes);
        for _ in 0..self.rounds {
            measured.ping_pong(echo, self.round_count())?;
            let pool = trips.pool();
            let meter = TrafficMeter::start(&pool, self.counter);
            measured.latencies.add(&trips.measure(self.pacing, self.round_count()).await?);
            measured.cost.add(meter.stop(self.round_count()));
            self.progress.add(1);
        }
        Ok(measured)
    }
}

async fn cancel_resting(pool: &OrderPool, instrument: &str) -> Result<(), Error> {
    let (method, params) = Cancel::Label(LABEL).request();
    pool.call(instrument, method, &params).await.map(drop)
}
