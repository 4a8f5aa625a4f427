//! Pipelines of calls against a venue that follows a script.

use std::time::Duration;

use pitwire_client::{CallPipeline, Error, PipelinedAnswer, Reconnect, Settings, VenueConnection};
use serde_json::json;

use crate::scripted_venue::{Peer, listener, with_venue};

async fn send(calls: &mut CallPipeline, number: u64) {
    calls.send(number, "private/buy", &json!({"number": number})).await.unwrap();
}

async fn answer(calls: &mut CallPipeline) -> PipelinedAnswer {
    calls.next().await.expect("a call waits for its answer")
}

#[tokio::test]
async fn every_call_gets_its_own_answer_in_the_order_of_the_venue() {
    // More than one write sends, and more than the connection queues.
    const CALLS: u64 = 2_000;
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let mut calls = connection.pipeline();
        for number in 0..CALLS {
            send(&mut calls, number).await;
        }
        for number in 0..CALLS {
            // The venue swaps the answers to two calls.
            let expected = number ^ 1;
            let PipelinedAnswer { number, result } = answer(&mut calls).await;
            assert_eq!((number, result.unwrap().get()), (expected, expected.to_string().as_str()));
        }
        assert_eq!(calls.pending(), 0);
        assert!(calls.next().await.is_none() && calls.try_next().is_none());
        // A plain call over the same connection does not disturb the pipeline.
        assert_eq!(connection.call("public/test", &json!({})).await.unwrap().get(), "7");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        for _ in 0..CALLS / 2 {
            let (first, second) = (peer.expect("private/buy").await, peer.expect("private/buy").await);
            peer.answer(&second, second.params["number"].clone()).await;
            peer.answer(&first, first.params["number"].clone()).await;
        }
        let call = peer.expect("public/test").await;
        peer.answer(&call, json!(7)).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn connection_that_polls_its_socket_leaves_the_thread_to_other_tasks() {
    let (listener, settings) = listener().await;
    let client = async {
        let settings = Settings { spin: Duration::from_secs(3600), ..settings };
        let connection = VenueConnection::open(settings).await.unwrap();
        // Venue and timers are on the same thread.
        for number in 0..3 {
            let answer = connection.call("public/test", &json!({})).await.unwrap();
            assert_eq!(answer.get(), number.to_string());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut state = connection.state();
        drop(connection);
        while state.changed().await.is_ok() {}
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        for number in 0..3 {
            let call = peer.expect("public/test").await;
            peer.answer(&call, json!(number)).await;
        }
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn end_of_the_connection_answers_sent_and_unsent_calls() {
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(Settings { reconnect: Reconnect::Never, ..settings }).await.unwrap();
        let mut calls = connection.pipeline();
        send(&mut calls, 1).await;
        let sent = answer(&mut calls).await;
        assert!(matches!(&sent.result, Err(Error::Unanswered { method, .. }) if method == "private/buy"), "{sent:?}");
        send(&mut calls, 2).await;
        let unsent = answer(&mut calls).await;
        assert!(unsent.number == 2 && unsent.result.is_err_and(|error| error.had_no_effect()));
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.expect("private/buy").await;
        peer.send_text("<html>".into()).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn overdue_call_is_unanswered() {
    let (listener, settings) = listener().await;
    let client = async {
        let settings = Settings { timeout: Duration::from_secs(2), reconnect: Reconnect::Never, ..settings };
        let mut calls = VenueConnection::open(settings).await.unwrap().pipeline();
        send(&mut calls, 1).await;
        send(&mut calls, 2).await;
        let mut first = answer(&mut calls).await;
        if first.number == 2 {
            first = answer(&mut calls).await;
        }
        assert!(first.number == 1 && matches!(first.result, Err(Error::Unanswered { .. })), "{first:?}");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.expect("private/buy").await;
        let second = peer.expect("private/buy").await;
        peer.answer(&second, json!("answered")).await;
        peer
    };
    with_venue(client, venue).await;
}
