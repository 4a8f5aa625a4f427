//! The client against a venue that misbehaves on a script.

use std::time::Duration;

use pitwire_client::{
    BookEvent, BookSubscription, ConnectionState, Credentials, Error, Reconnect, Settings, SubscriptionEvent,
    VenueConnection,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::scripted_venue::{PATIENCE, Peer, listener, with_venue};

fn snapshot(change_id: u64) -> Value {
    json!({"type": "snapshot", "change_id": change_id, "bids": [["new", 10.5, 3]], "asks": [], "unknown": [1]})
}

fn change(previous: u64, change_id: u64, amount: u64) -> Value {
    json!({"type": "change", "prev_change_id": previous, "change_id": change_id,
           "bids": [["change", 10.5, amount]], "asks": []})
}

#[tokio::test]
async fn answers_out_of_order_twice_and_unasked_reach_the_right_calls() {
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let none = json!({});
        let (first, second) = tokio::join!(connection.call("a", &none), connection.call("b", &none));
        assert_eq!((first.unwrap().get(), second.unwrap().get()), ("1", "2.50"));
        assert_eq!(connection.call("c", &json!({})).await.unwrap().get(), "3");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        let (first, second) = (peer.call().await, peer.call().await);
        peer.send(json!({"id": 999, "result": "no call"})).await;
        peer.send(json!({"id": "text", "result": "no call"})).await;
        peer.send(json!({"jsonrpc": "2.0", "method": "news", "params": {"more": 1}})).await;
        let (a, b) = if first.method == "a" { (first, second) } else { (second, first) };
        peer.send_text(format!(r#"{{"id":{},"unknown":{{}},"result":2.50}}"#, b.id)).await;
        peer.answer(&b, json!("twice")).await;
        peer.answer(&a, json!(1)).await;
        let third = peer.expect("c").await;
        peer.answer(&a, json!("late")).await;
        peer.answer(&third, json!(3)).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn calls_that_wait_together_arrive_in_order_and_get_their_own_answers() {
    // More than one write sends.
    const CALLS: u64 = 200;
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let mut running = JoinSet::new();
        for number in 0..CALLS {
            let connection = connection.clone();
            running.spawn(async move { (number, connection.call("a", &json!({"number": number})).await.unwrap()) });
        }
        while let Some(done) = running.join_next().await {
            let (number, answer) = done.unwrap();
            assert_eq!(answer.get(), number.to_string());
        }
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        for number in 0..CALLS {
            let call = peer.call().await;
            assert_eq!(call.params["number"], number);
            peer.answer(&call, call.params["number"].clone()).await;
        }
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn death_between_call_and_answer_is_unanswered_and_a_later_call_uses_a_new_socket() {
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let error = connection.call("private/buy", &json!({})).await.unwrap_err();
        assert!(matches!(&error, Error::Unanswered { method, .. } if method == "private/buy"), "{error}");
        assert!(!error.had_no_effect());
        assert_eq!(connection.call("public/test", &json!({})).await.unwrap().get(), "7");
        assert_eq!(*connection.state().borrow(), ConnectionState::Ready { connections: 2 });
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.expect("private/buy").await;
        drop(peer);
        let mut peer = Peer::accept(&listener).await;
        let call = peer.expect("public/test").await;
        peer.answer(&call, json!(7)).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn html_ends_the_socket_and_leaves_the_call_unanswered() {
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(Settings { reconnect: Reconnect::Never, ..settings }).await.unwrap();
        let error = connection.call("private/buy", &json!({})).await.unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        // The connection has ended, so this call certainly has no effect.
        let mut state = connection.state();
        state.wait_for(|state| matches!(state, ConnectionState::Ended { .. })).await.unwrap();
        let error = connection.call("private/buy", &json!({})).await.unwrap_err();
        assert!(matches!(error, Error::NotSent { .. }) && error.had_no_effect(), "{error}");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.call().await;
        peer.send_text("<html><body>502</body></html>".into()).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn page_instead_of_a_websocket_is_a_failed_handshake() {
    let (listener, settings) = listener().await;
    let venue = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>").await.unwrap();
        stream
    };
    let (opened, _stream) = tokio::join!(VenueConnection::open(settings), venue);
    let error = opened.unwrap_err();
    assert!(matches!(&error, Error::Handshake { cause, .. } if cause.contains("200")), "{error}");
}

#[tokio::test]
async fn silent_venue_leaves_the_call_unanswered() {
    let (listener, settings) = listener().await;
    let settings = Settings { timeout: Duration::from_secs(2), ..settings };
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let error = connection.call("private/buy", &json!({})).await.unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.expect("private/buy").await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn silence_after_a_request_ends_the_socket() {
    let (listener, settings) = listener().await;
    let settings = Settings { timeout: Duration::from_secs(2), ..settings };
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let error = connection.call("private/buy", &json!({})).await.unwrap_err();
        assert!(!error.had_no_effect(), "{error}");
        let mut state = connection.state();
        let is_second = |state: &ConnectionState| *state == ConnectionState::Ready { connections: 2 };
        timeout(PATIENCE, state.wait_for(is_second)).await.unwrap().unwrap();
    };
    let venue = async {
        let mut silent = Peer::accept(&listener).await;
        silent.expect("private/buy").await;
        Peer::accept(&listener).await
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn call_without_a_connection_is_not_sent() {
    let (listener, settings) = listener().await;
    let settings = Settings { timeout: Duration::from_secs(2), ..settings };
    let connection = {
        let (connection, peer) = tokio::join!(VenueConnection::open(settings), Peer::accept(&listener));
        drop(peer);
        connection.unwrap()
    };
    drop(listener);
    connection.state().wait_for(|state| matches!(state, ConnectionState::Reconnecting { .. })).await.unwrap();
    let error = connection.call("private/buy", &json!({})).await.unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }), "{error}");
}

#[tokio::test]
async fn call_above_a_rate_limit_is_repeated_after_the_demanded_pause() {
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        assert_eq!(connection.call("private/buy", &json!({})).await.unwrap().get(), "1");
        let error = connection.call("private/buy", &json!({})).await.unwrap_err();
        // The demanded pause is longer than the timeout, so the refusal is final.
        assert!(matches!(&error, Error::Venue(refusal) if refusal.code == 10028), "{error}");
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        for wait_ms in [Some(5), None] {
            let call = peer.expect("private/buy").await;
            let data = json!({"reason": "limit", "retry_after_ms": wait_ms});
            let error = json!({"code": 10028, "message": "too_many_requests", "data": data});
            peer.send(json!({"id": call.id, "error": error})).await;
        }
        let call = peer.expect("private/buy").await;
        peer.answer(&call, json!(1)).await;
        let call = peer.expect("private/buy").await;
        let data = json!({"retry_after_ms": 3_600_000});
        peer.send(json!({"id": call.id, "error": {"code": 10028, "message": "", "data": data}})).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn test_request_of_the_venue_is_answered() {
    let (listener, settings) = listener().await;
    let settings = Settings { heartbeat: Some(Duration::from_secs(30)), ..settings };
    let (connection, mut peer) = tokio::join!(VenueConnection::open(settings), async {
        let mut peer = Peer::accept(&listener).await;
        let call = peer.expect("public/set_heartbeat").await;
        assert_eq!(call.params, json!({"interval": 30}));
        peer.answer(&call, json!("ok")).await;
        peer
    });
    let _connection = connection.unwrap();
    peer.send(json!({"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": "heartbeat"}})).await;
    peer.send(json!({"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": "test_request"}})).await;
    peer.expect("public/test").await;
}

#[tokio::test]
async fn signature_follows_the_clock_of_the_venue() {
    const AHEAD_US: i64 = 7_200_000_000;
    let (listener, settings) = listener().await;
    let settings = Settings { credentials: Some(Credentials::new("id", "secret")), ..settings };
    let (connection, peer) = tokio::join!(VenueConnection::open(settings), async {
        let mut peer = Peer::accept(&listener).await;
        let call = peer.expect("public/hello").await;
        let now_us =
            i64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros())
                .unwrap();
        peer.send(json!({"id": call.id, "result": {}, "usOut": now_us + AHEAD_US})).await;
        let call = peer.expect("public/auth").await;
        let ahead_ms = call.params["timestamp"].as_i64().unwrap() - now_us / 1000;
        let expected_ms = AHEAD_US / 1000;
        assert!((expected_ms - 1000..expected_ms + 30_000).contains(&ahead_ms), "{ahead_ms}");
        peer.answer(&call, json!({"access_token": "t"})).await;
        peer
    });
    let (_connection, _peer) = (connection.unwrap(), peer);
}

#[tokio::test]
async fn wrong_credentials_end_the_connection_without_further_attempts() {
    let (listener, settings) = listener().await;
    let settings = Settings { credentials: Some(Credentials::new("id", "secret")), ..settings };
    let (connection, peer) = tokio::join!(VenueConnection::open(settings), async {
        let mut peer = Peer::accept(&listener).await;
        for _ in 0..2 {
            let call = peer.call().await;
            peer.answer(&call, json!({})).await;
        }
        peer
    });
    let connection = connection.unwrap();
    drop(peer);
    let mut peer = Peer::accept(&listener).await;
    let call = peer.expect("public/hello").await;
    peer.answer(&call, json!({})).await;
    let call = peer.expect("public/auth").await;
    peer.send(json!({"id": call.id, "error": {"code": 13004, "message": "invalid_credentials"}})).await;
    let mut state = connection.state();
    let ended = state.wait_for(|state| matches!(state, ConnectionState::Ended { .. }));
    timeout(PATIENCE, ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn book_asks_for_a_snapshot_after_a_gap_and_after_a_new_connection() {
    const BOOK: &str = "book.X.100ms";
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let mut book = BookSubscription::open(&connection, BOOK).await.unwrap();
        let amount = |book: &BookSubscription| book.book().bids().next().map(|(_, amount)| amount.to_string());
        assert_eq!(book.next().await.unwrap(), BookEvent::Snapshot);
        assert_eq!(book.next().await.unwrap(), BookEvent::Changed);
        assert_eq!(amount(&book).as_deref(), Some("4"));
        assert!(matches!(book.next().await.unwrap(), BookEvent::Stale { reason } if reason.contains("gap")));
        assert_eq!(amount(&book), None);
        assert!(matches!(book.next().await.unwrap(), BookEvent::Stale { .. }), "the subscription begins again");
        assert_eq!(book.next().await.unwrap(), BookEvent::Snapshot);
        // The socket dies here.
        assert!(matches!(book.next().await.unwrap(), BookEvent::Stale { .. }));
        assert_eq!(book.next().await.unwrap(), BookEvent::Snapshot);
        assert_eq!(book.next().await.unwrap(), BookEvent::Changed);
        assert_eq!((amount(&book).as_deref(), book.book().change_id()), (Some("9"), Some(61)));
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        assert_eq!(peer.grant().await, json!([BOOK]));
        peer.notify(BOOK, snapshot(5)).await;
        peer.notify(BOOK, change(5, 8, 4)).await;
        peer.notify(BOOK, change(5, 8, 4)).await;
        peer.notify(BOOK, change(9, 12, 5)).await;
        // Late ones: the client waits for a snapshot and ignores them.
        peer.notify(BOOK, change(8, 9, 5)).await;
        peer.expect("public/unsubscribe").await;
        peer.notify(BOOK, change(12, 13, 6)).await;
        peer.grant().await;
        peer.notify(BOOK, snapshot(20)).await;
        drop(peer);
        let mut peer = Peer::accept(&listener).await;
        assert_eq!(peer.grant().await, json!([BOOK]));
        peer.notify(BOOK, snapshot(60)).await;
        peer.notify(BOOK, change(60, 61, 9)).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn book_asks_again_when_its_snapshot_or_its_request_is_lost() {
    const BOOK: &str = "book.X.100ms";
    let (listener, settings) = listener().await;
    let settings = Settings { timeout: Duration::from_secs(2), ..settings };
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let mut book = BookSubscription::open(&connection, BOOK).await.unwrap();
        // Short waits do not postpone the next request.
        loop {
            match timeout(Duration::from_millis(1), book.next()).await {
                Ok(event) if event.as_ref().unwrap() == &BookEvent::Snapshot => break,
                _ => {}
            }
        }
        assert_eq!(book.book().change_id(), Some(7));
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        // The snapshot is lost. The change cannot be used without it.
        peer.grant().await;
        peer.notify(BOOK, change(5, 6, 4)).await;
        // The next two requests have no answer.
        for method in ["public/unsubscribe", "public/subscribe"] {
            peer.expect(method).await;
        }
        peer.notify(BOOK, change(6, 7, 4)).await;
        peer.expect("public/unsubscribe").await;
        peer.grant().await;
        peer.notify(BOOK, snapshot(7)).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn slow_reader_loses_the_oldest_messages_and_gets_their_number() {
    const TRADES: &str = "trades.X.raw";
    const SENT: u64 = 1000;
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(Settings { queue_bytes: 4096, ..settings }).await.unwrap();
        let mut trades = connection.subscribe(TRADES).await.unwrap();
        assert!(matches!(connection.subscribe(TRADES).await, Err(Error::AlreadySubscribed { .. })));
        // The answer arrives after all messages, so the queue has overflowed.
        connection.call("after", &json!({})).await.unwrap();
        let SubscriptionEvent::Lost { messages } = trades.next().await else { panic!("nothing was lost") };
        let mut left = SENT - messages;
        assert!(messages > 0 && left > 0, "{messages}");
        for number in messages..SENT {
            let SubscriptionEvent::Notice(notice) = trades.next().await else { panic!("more was lost") };
            assert_eq!(notice.data.get(), number.to_string());
            left -= 1;
        }
        assert_eq!(left, 0);
        drop(trades);
        connection
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.grant().await;
        let call = peer.expect("after").await;
        for number in 0..SENT {
            peer.notify(TRADES, json!(number)).await;
        }
        peer.answer(&call, json!(1)).await;
        peer.expect("public/unsubscribe").await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn refused_channel_is_an_error() {
    let (listener, settings) = listener().await;
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let error = connection.subscribe("no.such").await.unwrap_err();
        assert!(matches!(&error, Error::NoChannel { channel } if channel == "no.such"), "{error}");
        // The name is free again.
        connection.subscribe("no.such").await.unwrap();
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        let call = peer.expect("public/subscribe").await;
        peer.answer(&call, json!([])).await;
        peer.grant().await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn lost_last_change_of_a_book_is_noticed_without_a_later_one() {
    const BOOK: &str = "book.X.100ms";
    let (listener, settings) = listener().await;
    let settings = Settings { check_interval: Some(Duration::from_millis(50)), ..settings };
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let mut book = BookSubscription::open(&connection, BOOK).await.unwrap();
        assert_eq!(book.next().await.unwrap(), BookEvent::Snapshot);
        assert!(book.message().unwrap().get().contains("\"change_id\":5"));
        assert!(matches!(book.next().await.unwrap(), BookEvent::Stale { reason } if reason.contains("did not arrive")));
        while book.next().await.unwrap() != BookEvent::Snapshot {}
        assert_eq!(book.book().change_id(), Some(7));
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.grant().await;
        peer.notify(BOOK, snapshot(5)).await;
        // The message of change 7 is lost.
        loop {
            let call = peer.call().await;
            if call.method != "public/get_order_book" {
                assert_eq!(call.method, "public/unsubscribe");
                break;
            }
            assert_eq!(call.params["instrument_name"], "X");
            peer.answer(&call, json!({"change_id": 7, "bids": [], "asks": []})).await;
        }
        peer.grant().await;
        peer.notify(BOOK, snapshot(7)).await;
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn socket_that_answers_nothing_is_replaced_although_its_channels_go_on() {
    const TRADES: &str = "trades.X.raw";
    let (listener, settings) = listener().await;
    let settings = Settings { timeout: Duration::from_secs(2), ..settings };
    let client = async {
        let connection = VenueConnection::open(settings).await.unwrap();
        let _trades = connection.subscribe(TRADES).await.unwrap();
        let none = json!({});
        let calls = tokio::join!(connection.call("a", &none), connection.call("b", &none), connection.call("c", &none));
        for answer in [calls.0, calls.1, calls.2] {
            assert!(matches!(answer, Err(Error::Unanswered { .. })), "{answer:?}");
        }
        let mut state = connection.state();
        let is_second = |state: &ConnectionState| *state == ConnectionState::Ready { connections: 2 };
        timeout(PATIENCE, state.wait_for(is_second)).await.unwrap().unwrap();
    };
    let venue = async {
        let mut peer = Peer::accept(&listener).await;
        peer.grant().await;
        peer.notify_until_closed(TRADES, json!(1)).await;
        let mut next = Peer::accept(&listener).await;
        next.grant().await;
        next
    };
    with_venue(client, venue).await;
}
