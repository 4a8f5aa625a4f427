//! Clients over the wire against a fresh venue: accounts, instruments, connections and the run.
//!
//! Start at    [`WireLoad::run`].

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::orders::Latencies;
use pitwire_client::{BookSubscription, Credentials, Error, Reconnect, Settings, VenueConnection};
use pitwire_failure::Failure;
use pitwire_order_flow::{Kernel, PaperClient, ParameterSet, Proposal, SEEDS};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::order_source::OrderSource;
use super::plan::{HawkesRow, RowPlan};
use super::wire_client::{ClientFigures, WireClient};
use crate::client_threads::ClientThreads;

/// Operator of the demo market.
const OPERATOR: &str = "demo-operator";
/// Balances of a client, which no run uses up.
const BALANCE: &str = "1000000000000000";
const OPEN_ORDERS_MAX: u32 = 2_000_000;
/// Time between the creation of the clients and the first due order.
const LEAD: Duration = Duration::from_millis(50);

/// One row over the wire.
pub struct WireLoad {
    pub plan: RowPlan,
    pub seed: u64,
    /// Orders per second over all clients. Without it each client waits for its market data.
    pub rate: Option<NonZeroU64>,
    /// Counts orders.
    pub progress: Arc<BenchProgress>,
}

#[derive(Deserialize)]
struct NewCredentials {
    client_id: String,
    client_secret: String,
}

/// Settings without timers: no heartbeats, and no comparison of books with the venue's.
fn settings(url: &str, credentials: Credentials) -> Settings {
    Settings {
        credentials: Some(credentials),
        reconnect: Reconnect::Never,
        heartbeat: None,
        check_interval: None,
        ..Settings::new(url)
    }
}

fn stock_name(stock: usize) -> String {
    format!("STOCK{stock}")
}

impl WireLoad {
    /// Creates instruments and accounts, connects the clients, and runs them.
    ///
    /// # Errors
    ///
    /// Fails if the venue refuses the setup or stops to answer.
    pub async fn run(&self, threads: &ClientThreads, url: &str) -> Result<HawkesRow, Failure> {
        // In mode `pipelined` the orders have fixed times, so they are drawn before the first one.
        let orders = match self.rate {
            Some(_) => OrderSource::new(self.plan, self.seed)?.make_in_turns(self.plan.orders_per_client)?,
            None => Vec::new(),
        };
        let secret = format!("{OPERATOR}-secret");
        let operator = VenueConnection::open(settings(url, Credentials::new(OPERATOR, secret))).await?;
        for stock in 0..self.plan.stocks {
            let params = json!({
                "base_currency": stock_name(stock), "quote_currency": "ZAR", "tick_size": "0.01",
                "lot_size": "1", "start_price": "250.45",
            });
            operator.call("private/pitwire_create_instrument", &params).await?;
        }
        let mut clients = Vec::new();
        for number in 0..self.plan.clients {
            let stock = stock_name(number % self.plan.stocks);
            let credentials = create_account(&operator, &format!("client-{number}"), &stock).await?;
            let settings = settings(url, credentials);
            let orders = threads.open(settings.clone()).await?;
            let data = threads.open(settings).await?;
            let instrument = format!("{stock}_ZAR");
            let book = BookSubscription::open(&data, &format!("book.{instrument}.raw")).await?;
            let flow = PaperClient::new(&Kernel::published(ParameterSet::AsLoaded), self.seed, number as u64)
                .map_err(|error| Failure::new(error.to_string()))?;
            let mut client = WireClient { orders, book, flow, instrument, progress: Arc::clone(&self.progress) };
            if number < self.plan.stocks {
                client.enter_seeds(&SEEDS).await?;
            }
            clients.push(client);
        }
        Ok(self.measure(clients, orders).await?)
    }

    async fn measure(&self, clients: Vec<WireClient>, orders: Vec<Vec<Proposal>>) -> Result<HawkesRow, Error> {
        let (count, number_of_clients) = (self.plan.orders_per_client, clients.len() as u64);
        let mut running = JoinSet::new();
        let started = self.rate.map_or_else(Instant::now, |_| Instant::now() + LEAD);
        let mut orders = orders.into_iter();
        for (number, client) in (0..).zip(clients) {
            match self.rate {
                None => running.spawn(client.run_paper(count)),
                Some(rate) => {
                    // The clients take turns, so that the orders of all have equal distances.
                    let start = started + Duration::from_nanos(number * 1_000_000_000 / rate.get());
                    let own = NonZeroU64::new(rate.get() / number_of_clients).unwrap_or(NonZeroU64::MIN);
                    let orders = orders.next().unwrap_or_default();
                    running.spawn(async move { client.run_pipelined(&orders, own, start).await })
                }
            };
        }
        let (mut latencies, mut orders, mut refused, mut ended_at) = (Latencies::new(), 0, 0, started);
        while let Some(done) = running.join_next().await {
            let figures: ClientFigures = done.map_err(|error| Error::Lost { cause: error.to_string() })??;
            latencies.add(&figures.latencies);
            orders += figures.orders;
            refused += figures.refused;
            ended_at = ended_at.max(figures.ended_at);
        }
        let seconds = (ended_at - started).as_secs_f64();
        Ok(HawkesRow { plan: self.plan, orders, refused, seconds, latencies })
    }
}

/// Creates an account whose orders may trade with each other, and returns its login.
async fn create_account(operator: &VenueConnection, name: &str, stock: &str) -> Result<Credentials, Error> {
    let params = json!({"name": name, "max_open_orders": OPEN_ORDERS_MAX, "self_match": "none"});
    let created: NewCredentials = operator.query("private/pitwire_create_account", &params).await?;
    for currency in ["ZAR", stock] {
        let params = json!({"name": name, "currency": currency, "amount": BALANCE});
        operator.call("private/pitwire_deposit", &params).await?;
    }
    Ok(Credentials::new(created.client_id, created.client_secret))
}
