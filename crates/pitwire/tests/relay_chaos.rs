//! The client library behind the relay with random fault scripts: in the end its books and orders
//! equal those of the venue, and no order is lost or doubled.
//!
//! `CHAOS_SCRIPTS` is the number of scripts, `CHAOS_SEED` the first one, `CHAOS_LANES` the number
//! of venues that share them.

mod venue_process;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pitwire_client::{
    BookSubscription, Credentials, EntryState, Order, OrderBook, OrderRequest, OrderType, Position, Reconnect,
    Settings, Side, Trader, Value, VenueConnection,
};
use pitwire_random::SplitMix64;
use pitwire_relay::{FaultProxy, FaultScript, Injector, Upstream};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use venue_process::{PATIENCE, Venue};

const INSTRUMENT: &str = "BTC-PERPETUAL";
/// Actions of the client and of the other trader in one script.
const ACTIONS: u64 = 25;
/// Time in which the venue must read an order.
const VALIDITY: Duration = Duration::from_millis(500);

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn direct(venue: &Venue, name: &str) -> Settings {
    let credentials = Some(Credentials::new(name, format!("{name}-secret")));
    Settings { credentials, timeout: PATIENCE, ..Settings::new(format!("ws://{}/ws/api/v2", venue.address)) }
}

fn behind_relay(proxy: &FaultProxy) -> Settings {
    let (first, longest) = (Duration::from_millis(5), Duration::from_millis(50));
    Settings {
        credentials: Some(Credentials::new("demo-a", "demo-a-secret")),
        timeout: Duration::from_secs(1),
        check_interval: Some(Duration::from_millis(250)),
        reconnect: Reconnect::WithPauses { first, longest },
        ..Settings::new(format!("ws://{}/ws/api/v2", proxy.address()))
    }
}

/// Pause between attempts. The faults make attempts fail.
const PAUSE: Duration = Duration::from_millis(5);

async fn open_trader(settings: &Settings) -> Trader {
    loop {
        if let Ok(trader) = Trader::open(settings.clone(), VALIDITY).await {
            return trader;
        }
        sleep(PAUSE).await;
    }
}

/// Follows a book behind the relay, and publishes each state.
async fn follow_book(settings: Settings, channel: &'static str, state: Arc<Mutex<OrderBook>>) {
    let connection = loop {
        if let Ok(connection) = VenueConnection::open(settings.clone()).await {
            break connection;
        }
        sleep(PAUSE).await;
    };
    loop {
        if let Ok(mut book) = BookSubscription::open(&connection, channel).await {
            while book.next().await.is_ok() {
                *state.lock().unwrap() = book.book().clone();
            }
            state.lock().unwrap().clear();
        }
        sleep(PAUSE).await;
    }
}

/// A price of the tick 0.5 around 60,000. Orders at the same few prices meet.
fn price(random: &mut SplitMix64) -> String {
    (59_995 + random.below(10)).to_string()
}

fn order(random: &mut SplitMix64) -> OrderRequest {
    let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
    let amount = (10 * random.between(1, 5)).to_string().parse().unwrap();
    let limit = OrderType::Limit { price: price(random).parse().unwrap() };
    OrderRequest::new(side, INSTRUMENT, amount, limit)
}

/// Trades behind the relay. Returns the labels of the orders.
async fn trade(trader: &Trader, other: &VenueConnection, random: &mut SplitMix64, prefix: &str) -> Vec<String> {
    let mut labels = Vec::new();
    for action in 0..ACTIONS {
        let open = trader.open_orders();
        let chosen = (!open.is_empty()).then(|| &open[random.index(open.len())]);
        match (random.below(6), chosen) {
            (0 | 1, _) => drop(other.enter(&order(random)).await),
            (2, Some(order)) => drop(trader.cancel(&order.order_id).await),
            (3, Some(order)) => {
                let amount = (order.filled_amount.to_f64() + 10.0).to_string().parse().unwrap();
                drop(trader.edit(&order.order_id, &amount, &price(random).parse().unwrap()).await);
            }
            _ => {
                let label = format!("{prefix}-{action}");
                // The number recognises a request that the relay doubles.
                let mut named = order(random);
                named.label = Some(label.clone());
                named.client_order_id = Some(label.clone());
                drop(trader.enter(&mut named).await);
                labels.push(label);
            }
        }
    }
    labels
}

#[derive(Deserialize)]
struct VenueBook {
    change_id: u64,
    bids: Vec<(Value, Value)>,
    asks: Vec<(Value, Value)>,
}

/// The truth, over a connection without faults.
struct Truth {
    book: VenueBook,
    open: BTreeMap<String, Order>,
    positions: Vec<Position>,
    /// Orders by label, open and closed.
    labels: BTreeMap<String, Vec<Order>>,
}

impl Truth {
    async fn ask(observer: &VenueConnection) -> Truth {
        let params = json!({"instrument_name": INSTRUMENT, "depth": 10_000});
        let book = observer.query("public/get_order_book", &params).await.unwrap();
        let open: Vec<Order> = observer.query("private/get_open_orders", &json!({})).await.unwrap();
        let positions: Vec<Position> = observer.query("private/get_positions", &json!({})).await.unwrap();
        let params = json!({"instrument_name": INSTRUMENT, "count": 1000, "include_unfilled": true});
        let closed: Vec<Order> = observer.query("private/get_order_history_by_instrument", &params).await.unwrap();
        let mut labels: BTreeMap<String, Vec<Order>> = BTreeMap::new();
        for order in open.iter().chain(&closed) {
            labels.entry(order.label.clone()).or_default().push(order.clone());
        }
        let open = open.into_iter().map(|order| (order.order_id.clone(), order)).collect();
        let positions = positions.into_iter().filter(|position| !position.size.is_zero()).collect();
        Truth { book, open, positions, labels }
    }

    /// Returns the first difference between the client and the venue.
    fn difference(&self, trader: &Trader, book: &OrderBook, labels: &[String]) -> Option<String> {
        let open: BTreeMap<String, Order> =
            trader.open_orders().into_iter().map(|order| (order.order_id.clone(), order)).collect();
        if open != self.open {
            return Some(format!("open orders: {open:?}, at the venue {:?}", self.open));
        }
        if trader.positions() != self.positions {
            return Some(format!("positions: {:?}, at the venue {:?}", trader.positions(), self.positions));
        }
        for label in labels {
            let orders = self.labels.get(label).map_or(&[][..], Vec::as_slice);
            let entered = match trader.entry(label) {
                Some(EntryState::Entered { order_id }) => Some(order_id),
                None | Some(EntryState::NotEntered) => None,
                Some(open) => return Some(format!("{label} is {open:?}")),
            };
            let ids: Vec<&String> = orders.iter().map(|order| &order.order_id).collect();
            if ids != entered.iter().collect::<Vec<_>>() {
                return Some(format!("{label} is {entered:?}, at the venue {ids:?}"));
            }
            for order in orders {
                let known = trader.order(&order.order_id);
                if known.as_ref() != Some(order) {
                    return Some(format!("order {known:?}, at the venue {order:?}"));
                }
                let (filled, _) = trader.fills(&order.order_id);
                if filled != order.filled_amount {
                    return Some(format!("fills of {filled}, at the venue {}", order.filled_amount));
                }
            }
        }
        let levels = (book.bids().collect::<Vec<_>>(), book.asks().collect::<Vec<_>>());
        if (&levels.0, &levels.1) != (&self.book.bids, &self.book.asks) {
            return Some(format!(
                "the book of change {:?}: {levels:?}, at the venue {}: {:?} {:?}",
                book.change_id(),
                self.book.change_id,
                self.book.bids,
                self.book.asks
            ));
        }
        None
    }
}

/// Runs one script. Returns the number of its faults.
async fn run_script(venue: &Venue, observer: &VenueConnection, other: &VenueConnection, seed: u64) -> u64 {
    let script = FaultScript::random(seed);
    let text = script.to_string();
    let upstream = Upstream::parse(&format!("ws://{}/", venue.address), None).unwrap();
    let proxy = FaultProxy::start(TcpListener::bind("127.0.0.1:0").unwrap(), upstream, script, &[]).unwrap();
    let channel = if seed.is_multiple_of(2) { "book.BTC-PERPETUAL.raw" } else { "book.BTC-PERPETUAL.100ms" };
    let book = Arc::new(Mutex::new(OrderBook::default()));
    let follower = tokio::spawn(follow_book(behind_relay(&proxy), channel, Arc::clone(&book)));
    let trader = open_trader(&behind_relay(&proxy)).await;
    let mut random = SplitMix64::new(seed);
    let labels = trade(&trader, other, &mut random, &format!("s{seed}")).await;
    // Nothing tells the client: it must notice by itself what it missed.
    proxy.heal();
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Requests that the relay has delayed may still reach the venue.
        let truth = Truth::ask(observer).await;
        let book = book.lock().unwrap().clone();
        let Some(difference) = truth.difference(&trader, &book, &labels) else { break };
        assert!(Instant::now() < deadline, "CHAOS_SEED={seed}: {difference}\n{text}");
        sleep(Duration::from_millis(30)).await;
    }
    follower.abort();
    for connection in [observer, other] {
        connection.call("private/cancel_all", &json!({})).await.unwrap();
    }
    Injector::Relay.kinds().iter().map(|kind| proxy.counts().faults(*kind)).sum()
}

#[test]
fn books_and_orders_equal_the_venue_after_random_fault_scripts() {
    let (count, first) = (variable("CHAOS_SCRIPTS", 8), variable("CHAOS_SEED", 1));
    let next = AtomicU64::new(first);
    let faults = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for lane in 0..variable("CHAOS_LANES", 2) {
            let (next, faults) = (&next, &faults);
            scope.spawn(move || {
                let venue = Venue::start(&format!("chaos-{lane}"), "memory");
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let observer = VenueConnection::open(direct(&venue, "demo-a")).await.unwrap();
                    let other = VenueConnection::open(direct(&venue, "demo-b")).await.unwrap();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= first + count {
                            return;
                        }
                        faults.fetch_add(run_script(&venue, &observer, &other, seed).await, Ordering::Relaxed);
                        println!("script {seed}: equal");
                    }
                });
            });
        }
    });
    let faults = faults.into_inner();
    println!("{count} scripts, {faults} faults");
    assert!(faults > count, "the scripts injected {faults} faults only");
}
