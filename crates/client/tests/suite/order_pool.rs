//! A pool divides orders among its connections.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::future::join_all;
use pitwire_client::{ConnectionState, OrderPool, OrderRequest, OrderType, Reconnect, Routing, Settings, Side};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::scripted_venue::{PATIENCE, Peer, listener};

const SIZE: usize = 3;

fn order(instrument: &str, amount: usize) -> OrderRequest {
    let amount = amount.to_string().parse().unwrap();
    OrderRequest::new(Side::Buy, instrument, amount, OrderType::Market)
}

async fn open(listener: &TcpListener, settings: &Settings, routing: Routing) -> (OrderPool, Vec<Peer>) {
    let size = NonZeroUsize::new(SIZE).unwrap();
    let accept = async {
        let mut peers = Vec::new();
        for _ in 0..SIZE {
            peers.push(Peer::accept(listener).await);
        }
        peers
    };
    let (pool, peers) = timeout(PATIENCE, async { tokio::join!(OrderPool::open(settings, size, routing), accept) })
        .await
        .expect("pool and venue wait for each other");
    (pool.unwrap(), peers)
}

#[tokio::test]
async fn concurrent_orders_use_the_connection_with_the_fewest_pending_requests() {
    let (listener, settings) = listener().await;
    let (pool, mut peers) = open(&listener, &settings, Routing::FewestPending).await;
    let orders: Vec<OrderRequest> = (1..=2 * SIZE).map(|amount| order("X", amount)).collect();
    let entered = join_all(orders.iter().map(|order| pool.enter(order)));
    let venue = async {
        for peer in &mut peers {
            // Each connection gets two of the six orders before the first answer.
            let calls = [peer.expect("private/buy").await, peer.expect("private/buy").await];
            for call in calls {
                peer.answer(&call, call.params["amount"].clone()).await;
            }
        }
    };
    let (answers, ()) = timeout(PATIENCE, async { tokio::join!(entered, venue) }).await.unwrap();
    let answers: Vec<String> = answers.into_iter().map(|answer| answer.unwrap().get().to_owned()).collect();
    assert_eq!(answers, ["1", "2", "3", "4", "5", "6"], "each order gets the answer to itself");
    assert_eq!(pool.pending(), [0; SIZE]);
}

#[tokio::test]
async fn orders_of_one_instrument_use_one_connection_in_the_order_of_the_calls() {
    let (listener, settings) = listener().await;
    let (pool, peers) = open(&listener, &settings, Routing::ByInstrument).await;
    let orders: Vec<OrderRequest> = (1..=4).flat_map(|amount| [order("X", amount), order("Y", amount)]).collect();
    // Each connection records what it reads.
    let (records, mut received) = tokio::sync::mpsc::unbounded_channel();
    for (at, mut peer) in peers.into_iter().enumerate() {
        let records = records.clone();
        tokio::spawn(async move {
            loop {
                let call = peer.call().await;
                peer.answer(&call, json!(1)).await;
                records.send((at, call.params["instrument_name"].clone(), call.params["amount"].clone())).unwrap();
            }
        });
    }
    timeout(PATIENCE, join_all(orders.iter().map(|order| pool.enter(order)))).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..orders.len() {
        seen.push(timeout(PATIENCE, received.recv()).await.unwrap().unwrap());
    }
    for name in ["X", "Y"] {
        let of_name: Vec<_> = seen.iter().filter(|(_, instrument, _)| instrument == name).collect();
        assert!(of_name.iter().all(|(at, ..)| *at == of_name[0].0), "{name} uses one connection");
        let amounts: Vec<u64> = of_name.iter().map(|(.., amount)| amount.as_u64().unwrap()).collect();
        assert_eq!(amounts, [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn order_avoids_a_connection_that_reconnects() {
    let (listener, settings) = listener().await;
    let pause = Duration::from_secs(3600);
    let settings = Settings { reconnect: Reconnect::WithPauses { first: pause, longest: pause }, ..settings };
    let (pool, mut peers) = open(&listener, &settings, Routing::FewestPending).await;
    drop(peers.remove(0));
    let mut state = pool.connections().next().unwrap().state();
    let is_down = |state: &ConnectionState| matches!(state, ConnectionState::Reconnecting { .. });
    timeout(PATIENCE, state.wait_for(is_down)).await.unwrap().unwrap();
    let first = order("X", 1);
    let venue = async {
        let call = peers[0].expect("private/buy").await;
        peers[0].answer(&call, json!("entered")).await;
    };
    let (answer, ()) = timeout(PATIENCE, async { tokio::join!(pool.enter(&first), venue) }).await.unwrap();
    assert_eq!(answer.unwrap().get(), r#""entered""#);
}

#[tokio::test]
async fn traffic_counts_the_bytes_of_both_directions() {
    let (listener, settings) = listener().await;
    let (pool, mut peers) = open(&listener, &settings, Routing::FewestPending).await;
    let connection = pool.connections().next().unwrap();
    let before = connection.traffic();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"public/test","params":null}"#;
    let venue = async {
        let received = peers[0].expect("public/test").await;
        peers[0].answer(&received, json!({})).await;
    };
    let (answer, ()) =
        timeout(PATIENCE, async { tokio::join!(connection.call("public/test", &()), venue) }).await.unwrap();
    answer.unwrap();
    let after = connection.traffic();
    // A client's frame has a header of 2 bytes and a mask of 4 bytes, the venue's has no mask.
    assert_eq!(after.sent_bytes - before.sent_bytes, call.len() as u64 + 6);
    let answer = r#"{"id":1,"jsonrpc":"2.0","result":{}}"#;
    assert_eq!(after.received_bytes - before.received_bytes, answer.len() as u64 + 2);
}
