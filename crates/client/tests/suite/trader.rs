//! Orders over a venue that dies between an order and its answer.

use std::future::Future;
use std::time::Duration;

use pitwire_client::{
    ConnectionState, Credentials, EntryState, Error, OrderRequest, OrderType, Settings, Side, Trader,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::scripted_venue::{Call, PATIENCE, Peer, listener};

const HOUR: Duration = Duration::from_secs(3600);
const CHANGES: &str = "user.changes.any.any.raw";

fn with_login(settings: Settings) -> Settings {
    Settings { credentials: Some(Credentials::new("id", "secret")), ..settings }
}

fn request() -> OrderRequest {
    let limit = OrderType::Limit { price: "10".parse().unwrap() };
    OrderRequest::new(Side::Buy, "X", "5".parse().unwrap(), limit)
}

fn order(label: &Value, state: &str, filled: u64, at_ms: u64) -> Value {
    json!({"order_id": "1", "instrument_name": "X", "direction": "buy", "order_state": state, "amount": 5,
           "filled_amount": filled, "label": label, "last_update_timestamp": at_ms, "price": "market_price"})
}

/// The account that the venue reports.
#[derive(Default)]
struct Account {
    history: Vec<Value>,
    order: Value,
    fills: Value,
}

/// Answers the trader's queries until a call for which `is_last` is true. Returns that call without
/// an answer.
async fn serve(peer: &mut Peer, account: &Account, is_last: impl Fn(&Call) -> bool) -> Call {
    loop {
        let call = peer.call().await;
        if is_last(&call) {
            return call;
        }
        let result = match call.method.as_str() {
            "public/hello" | "public/auth" => json!({}),
            "private/subscribe" => json!([CHANGES]),
            "private/get_open_orders" => json!([]),
            "private/get_positions" => json!([{"instrument_name": "P", "direction": "buy", "size": 3}]),
            "private/get_order_history_by_instrument" => json!(account.history),
            "private/get_order_state" => account.order.clone(),
            "private/get_user_trades_by_order" => account.fills.clone(),
            other => panic!("unexpected {other}"),
        };
        peer.answer(&call, result).await;
    }
}

/// Accepts the trader, waits for an order, and closes the socket without an answer. Returns the
/// order's label and the next connection.
async fn die_after_order(listener: &TcpListener) -> (Value, Peer) {
    let mut peer = Peer::accept(listener).await;
    let call = serve(&mut peer, &Account::default(), is_buy).await;
    assert!(call.params["valid_until"].as_i64().is_some());
    drop(peer);
    (call.params["label"].clone(), Peer::accept(listener).await)
}

fn is_buy(call: &Call) -> bool {
    call.method == "private/buy"
}

fn is_never(_: &Call) -> bool {
    false
}

/// Runs the client while the venue answers, until the client ends.
async fn until_done<R>(client: impl Future<Output = R>, venue: impl Future<Output = Call>) -> R {
    let work = async {
        tokio::select! {
            result = client => result,
            call = venue => panic!("unexpected {}", call.method),
        }
    };
    timeout(2 * PATIENCE, work).await.expect("client and venue wait for each other")
}

#[tokio::test]
async fn order_whose_socket_died_is_unknown_until_the_history_has_it() {
    let (listener, settings) = listener().await;
    let client = async {
        let trader = Trader::open(with_login(settings), HOUR).await.unwrap();
        let mut request = request();
        let error = trader.enter(&mut request).await.unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        let label = request.label.unwrap();
        assert_eq!(trader.resolve(&label).await, Some(EntryState::Entered { order_id: "1".into() }));
        assert_eq!(trader.order("1").unwrap().order_state, "cancelled");
        assert_eq!(trader.resolve("another").await, None);
    };
    let venue = async {
        let (label, mut peer) = die_after_order(&listener).await;
        let account = Account { history: vec![order(&label, "cancelled", 0, 9)], ..Account::default() };
        serve(&mut peer, &account, is_never).await
    };
    until_done(client, venue).await;
}

#[tokio::test]
async fn missing_order_stays_unknown_before_valid_until() {
    let (listener, settings) = listener().await;
    let client = async {
        let trader = Trader::open(with_login(settings), HOUR).await.unwrap();
        let mut request = request();
        trader.enter(&mut request).await.unwrap_err();
        (trader, request.label.unwrap())
    };
    let work = async {
        let ((trader, label), (_, mut peer)) = tokio::join!(client, die_after_order(&listener));
        let is_history = |call: &Call| call.method == "private/get_order_history_by_instrument";
        for _ in 0..3 {
            let call = serve(&mut peer, &Account::default(), is_history).await;
            peer.answer(&call, json!([])).await;
        }
        assert_eq!(trader.entry(&label), Some(EntryState::Unknown));
        // The order arrives after all, by a notice.
        let late = order(&json!(label), "open", 0, 9);
        peer.notify(CHANGES, json!({"instrument_name": "X", "orders": [late], "trades": []})).await;
        let account = Account::default();
        let resolved = until_done(trader.resolve(&label), serve(&mut peer, &account, is_never)).await;
        assert_eq!(resolved, Some(EntryState::Entered { order_id: "1".into() }));
    };
    timeout(2 * PATIENCE, work).await.unwrap();
}

#[tokio::test]
async fn missing_order_was_not_entered_once_valid_until_has_passed() {
    let (listener, settings) = listener().await;
    let client = async {
        let trader = Trader::open(with_login(settings), Duration::from_millis(1)).await.unwrap();
        let mut request = request();
        trader.enter(&mut request).await.unwrap_err();
        assert_eq!(trader.resolve(&request.label.unwrap()).await, Some(EntryState::NotEntered));
    };
    let venue = async {
        let (_, mut peer) = die_after_order(&listener).await;
        serve(&mut peer, &Account::default(), is_never).await
    };
    until_done(client, venue).await;
}

#[tokio::test]
async fn orders_fills_and_positions_are_rebuilt_after_a_reconnection() {
    let (listener, settings) = listener().await;
    let client = async {
        let trader = Trader::open(with_login(settings), HOUR).await.unwrap();
        let outcome = trader.enter(&mut request()).await.unwrap();
        assert_eq!(outcome.order.order_state, "open");
        let mut revision = trader.revision();
        while trader.order("1").is_none_or(|order| order.is_open()) || trader.fills("1").1 < 2 {
            revision.changed().await.unwrap();
        }
        assert_eq!((trader.fills("1").0.to_string(), trader.fills("1").1), ("5".into(), 2));
        assert!(trader.open_orders().is_empty());
        assert_eq!(trader.positions()[0].instrument_name, "P");
        assert_eq!(*trader.connection().state().borrow(), ConnectionState::Ready { connections: 2 });
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        let call = serve(&mut peer, &Account::default(), is_buy).await;
        let label = call.params["label"].clone();
        let fill = |id: &str, amount: u64| json!({"trade_id": id, "order_id": "1", "instrument_name": "X", "price": 10, "amount": amount});
        peer.answer(&call, json!({"order": order(&label, "open", 2, 1), "trades": [fill("t1", 2)]})).await;
        // The rest trades while the socket is dead.
        drop(peer);
        let mut peer = Peer::accept(&listener).await;
        let fills = json!([fill("t1", 2), fill("t2", 3)]);
        let account = Account { order: order(&label, "filled", 5, 2), fills, ..Account::default() };
        serve(&mut peer, &account, is_never).await
    };
    until_done(client, venue).await;
}

#[tokio::test]
async fn cancel_that_reports_an_open_order_is_checked() {
    let (listener, settings) = listener().await;
    let client = async {
        let trader = Trader::open(with_login(settings), HOUR).await.unwrap();
        trader.enter(&mut request()).await.unwrap();
        assert!(trader.cancel("1").await.unwrap().is_open());
        let mut revision = trader.revision();
        while trader.order("1").is_none_or(|order| order.is_open()) {
            revision.changed().await.unwrap();
        }
        assert_eq!(trader.order("1").unwrap().order_state, "cancelled");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        let call = serve(&mut peer, &Account::default(), is_buy).await;
        let label = call.params["label"].clone();
        let outcome = json!({"order": order(&label, "speed_bumped", 0, 1)});
        peer.answer(&call, outcome).await;
        let call = serve(&mut peer, &Account::default(), |call| call.method == "private/cancel").await;
        peer.answer(&call, order(&label, "untriggered", 0, 1)).await;
        let account = Account { order: order(&label, "cancelled", 0, 2), ..Account::default() };
        serve(&mut peer, &account, is_never).await
    };
    until_done(client, venue).await;
}

#[tokio::test]
async fn refused_order_frees_its_label() {
    let (listener, settings) = listener().await;
    let client = async {
        let trader = Trader::open(with_login(settings), HOUR).await.unwrap();
        let mut request = request();
        let error = trader.enter(&mut request).await.unwrap_err();
        assert!(error.had_no_effect(), "{error}");
        trader.enter(&mut request).await.unwrap();
        assert!(matches!(trader.enter(&mut request).await, Err(Error::LabelInUse { .. })));
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        let call = serve(&mut peer, &Account::default(), is_buy).await;
        peer.send(json!({"id": call.id, "error": {"code": 10009, "message": "not_enough_funds"}})).await;
        let call = serve(&mut peer, &Account::default(), is_buy).await;
        peer.answer(&call, json!({"order": order(&call.params["label"], "open", 0, 1)})).await;
        serve(&mut peer, &Account::default(), is_never).await
    };
    until_done(client, venue).await;
}

#[tokio::test]
async fn lost_report_is_found_by_the_next_check() {
    let (listener, settings) = listener().await;
    let settings = Settings { check_interval: Some(Duration::from_millis(50)), ..with_login(settings) };
    let client = async {
        let trader = Trader::open(settings, HOUR).await.unwrap();
        trader.enter(&mut request()).await.unwrap();
        let mut revision = trader.revision();
        while trader.order("1").is_none_or(|order| order.is_open()) || trader.fills("1").1 < 1 {
            revision.changed().await.unwrap();
        }
        assert_eq!(trader.fills("1").0.to_string(), "5");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        let call = serve(&mut peer, &Account::default(), is_buy).await;
        let label = call.params["label"].clone();
        peer.answer(&call, json!({"order": order(&label, "open", 0, 1)})).await;
        // The report of the fill is lost. The socket stays.
        let fills = json!([{"trade_id": "t1", "order_id": "1", "instrument_name": "X", "price": 10, "amount": 5}]);
        let account = Account { order: order(&label, "filled", 5, 2), fills, ..Account::default() };
        serve(&mut peer, &account, is_never).await
    };
    until_done(client, venue).await;
}
