//! The client library against the real venue, over a proxy that cuts connections and outlives the
//! venue.

mod venue_process;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pitwire_client::{
    BookEvent, BookSubscription, ConnectionState, Credentials, EntryState, Number, Order, OrderRequest, OrderType,
    Settings, Side, Trader, VenueConnection,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use venue_process::{PATIENCE, Venue};

/// Forwards bytes to the venue. It can cut all connections, and drop the venue's answers before.
struct Proxy {
    address: String,
    venue: watch::Sender<String>,
    cuts: watch::Sender<u64>,
    drops_answers: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(venue: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let venue = watch::Sender::new(venue);
        let cuts = watch::Sender::new(0);
        let drops_answers = Arc::new(AtomicBool::new(false));
        let (target, signal, drops) = (venue.subscribe(), cuts.clone(), Arc::clone(&drops_answers));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let venue = target.borrow().clone();
                let Ok(server) = TcpStream::connect(&venue).await else { continue };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let (mut cut, drops) = (signal.subscribe(), Arc::clone(&drops));
                cut.borrow_and_update();
                tokio::spawn(async move {
                    let requests = tokio::io::copy(&mut from_client, &mut to_server);
                    let answers = async {
                        let mut buffer = vec![0; 65536];
                        loop {
                            let count = from_server.read(&mut buffer).await.unwrap_or(0);
                            if count == 0 {
                                return;
                            }
                            if !drops.load(Ordering::SeqCst) && to_client.write_all(&buffer[..count]).await.is_err() {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        _ = requests => {}
                        () = answers => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Proxy { address, venue, cuts, drops_answers }
    }

    fn settings(&self, name: &str) -> Settings {
        let credentials = Some(Credentials::new(name, format!("{name}-secret")));
        Settings { credentials, timeout: PATIENCE, ..Settings::new(format!("ws://{}/ws/api/v2", self.address)) }
    }

    fn cut(&self) {
        self.drops_answers.store(false, Ordering::SeqCst);
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

/// Settings of a connection without the proxy.
fn direct(venue: &Venue, name: &str) -> Settings {
    let credentials = Some(Credentials::new(name, format!("{name}-secret")));
    Settings { credentials, ..Settings::new(format!("ws://{}/ws/api/v2", venue.address)) }
}

fn number(text: &str) -> Number {
    text.parse().unwrap()
}

fn limit(side: Side, amount: &str, price: &str) -> OrderRequest {
    OrderRequest::new(side, "BTC_USDC", number(amount), OrderType::Limit { price: number(price) })
}

async fn reconnected(connection: &VenueConnection, connections: u64) {
    let mut state = connection.state();
    let ready = ConnectionState::Ready { connections };
    timeout(PATIENCE, state.wait_for(|state| *state == ready)).await.unwrap().unwrap();
}

/// Enters an order whose answer the proxy drops, waits until the venue has two open orders, and
/// then calls `cut`. Returns the label of the order.
async fn enter_without_answer(proxy: &Proxy, observer: Settings, trader: &Trader, cut: impl FnOnce()) -> String {
    proxy.drops_answers.store(true, Ordering::SeqCst);
    let mut request = limit(Side::Buy, "0.25", "42000");
    let observer = VenueConnection::open(observer).await.unwrap();
    let (answer, ()) = tokio::join!(trader.enter(&mut request), async {
        let has_arrived = async {
            while observer.query::<_, Vec<Value>>("private/get_open_orders", &json!({})).await.unwrap().len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, has_arrived).await.unwrap();
        cut();
    });
    assert!(!answer.unwrap_err().had_no_effect());
    request.label.unwrap()
}

/// Waits until it is certain that the order was entered, and returns its id.
async fn entered(trader: &Trader, label: &str) -> String {
    match timeout(PATIENCE, trader.resolve(label)).await.unwrap() {
        Some(EntryState::Entered { order_id }) => order_id,
        other => panic!("{other:?}"),
    }
}

async fn wait_for_fills(trader: &Trader, order_id: &str, amount: &str) {
    let mut revision = trader.revision();
    let has_fills = async {
        while trader.fills(order_id).0.to_string() != amount {
            revision.changed().await.unwrap();
        }
    };
    timeout(PATIENCE, has_fills).await.unwrap();
}

/// Follows a book until it has the venue's last change, and returns the number of its bids. Its
/// levels must be those of the venue.
async fn follow_to_the_end(book: &mut BookSubscription, venue: &VenueConnection) -> usize {
    let params = json!({"instrument_name": "BTC_USDC", "depth": 10_000});
    let expected: Value = venue.query("public/get_order_book", &params).await.unwrap();
    let is_equal = async {
        while book.book().change_id() != expected["change_id"].as_u64() {
            let event: BookEvent = book.next().await.unwrap();
            assert!(!matches!(event, BookEvent::Stale { reason } if reason.contains("gap")));
        }
    };
    timeout(PATIENCE, is_equal).await.unwrap();
    let side = |name: &str| -> Vec<(f64, f64)> {
        let levels = expected[name].as_array().unwrap();
        levels.iter().map(|level| (level[0].as_f64().unwrap(), level[1].as_f64().unwrap())).collect()
    };
    let bids: Vec<(f64, f64)> = book.book().bids().map(|(price, amount)| (price.to_f64(), amount.to_f64())).collect();
    let asks: Vec<(f64, f64)> = book.book().asks().map(|(price, amount)| (price.to_f64(), amount.to_f64())).collect();
    assert_eq!((&bids, asks), (&side("bids"), side("asks")));
    bids.len()
}

#[tokio::test]
async fn order_whose_answer_is_cut_off_is_found_once() {
    let venue = Venue::start("order", "memory");
    let proxy = Proxy::start(venue.address.clone()).await;
    let trader = Trader::open(proxy.settings("demo-a"), PATIENCE).await.unwrap();
    let first = trader.enter(&mut limit(Side::Buy, "0.5", "41000")).await.unwrap();
    // The venue executes the order, and its answer never arrives.
    let label = enter_without_answer(&proxy, direct(&venue, "demo-a"), &trader, || proxy.cut()).await;
    let order_id = entered(&trader, &label).await;
    assert_ne!(order_id, first.order.order_id);
    assert_eq!(trader.open_orders().len(), 2, "no order is lost or doubled");
    // The first order trades while the trader is cut off again.
    let other = VenueConnection::open(direct(&venue, "demo-b")).await.unwrap();
    proxy.cut();
    other.enter(&limit(Side::Sell, "0.3", "41500")).await.unwrap();
    reconnected(trader.connection(), 3).await;
    wait_for_fills(&trader, &order_id, "0.25").await;
    assert_eq!(trader.order(&order_id).unwrap().order_state, "filled");
    let cancelled = trader.cancel(&first.order.order_id).await.unwrap();
    assert_eq!(cancelled.order_state, "cancelled");
    assert!(trader.open_orders().is_empty());
}

#[tokio::test]
async fn book_equals_the_book_of_the_venue_after_cuts() {
    let venue = Venue::start("book", "memory");
    let proxy = Proxy::start(venue.address.clone()).await;
    let data = VenueConnection::open(proxy.settings("demo-a")).await.unwrap();
    let orders = VenueConnection::open(proxy.settings("demo-b")).await.unwrap();
    let mut book = BookSubscription::open(&data, "book.BTC_USDC.raw").await.unwrap();
    for (connections, price) in [(2, "40000"), (3, "40001"), (4, "40002")] {
        orders.enter(&limit(Side::Buy, "0.1", price)).await.unwrap();
        proxy.cut();
        reconnected(&orders, connections).await;
        orders.enter(&limit(Side::Sell, "0.1", &format!("7{price}"))).await.unwrap();
    }
    assert_eq!(follow_to_the_end(&mut book, &orders).await, 3);
}

#[tokio::test]
async fn client_resumes_at_a_venue_that_was_killed_and_started_again() {
    let mut venue = Venue::start("restart", "disk");
    let proxy = Proxy::start(venue.address.clone()).await;
    let trader = Trader::open(proxy.settings("demo-a"), PATIENCE).await.unwrap();
    let data = VenueConnection::open(proxy.settings("demo-b")).await.unwrap();
    let mut book = BookSubscription::open(&data, "book.BTC_USDC.raw").await.unwrap();
    let first = trader.enter(&mut limit(Side::Buy, "0.5", "41000")).await.unwrap();
    // The venue dies with an order that it has executed and not answered.
    let observer = direct(&venue, "demo-a");
    let label = enter_without_answer(&proxy, observer, &trader, || {
        venue.kill();
        proxy.cut();
    })
    .await;
    venue.start_again();
    proxy.venue.send_replace(venue.address.clone());
    let order_id = entered(&trader, &label).await;
    assert_ne!(order_id, first.order.order_id);
    reconnected(&data, 2).await;
    data.enter(&limit(Side::Sell, "0.3", "41500")).await.unwrap();
    wait_for_fills(&trader, &order_id, "0.25").await;
    assert_eq!(follow_to_the_end(&mut book, &data).await, 1);
    let observer = VenueConnection::open(direct(&venue, "demo-a")).await.unwrap();
    let open: Vec<Order> = observer.query("private/get_open_orders", &json!({})).await.unwrap();
    assert_eq!(open, trader.open_orders(), "no order is lost or doubled");
    assert_eq!(open.len(), 1);
}
