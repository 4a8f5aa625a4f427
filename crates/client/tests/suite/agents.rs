//! Many agents on one connection, against a scripted venue.

use pitwire_client::{Credentials, Error, Settings, SubscriptionEvent, VenueConnection};
use serde_json::json;
use tokio::net::TcpListener;

use crate::scripted_venue::{Peer, listener, with_venue};

const CHANNEL: &str = "user.changes.any.any.raw";

async fn two_agents() -> (TcpListener, Settings) {
    let (listener, settings) = listener().await;
    let agents = vec![Credentials::new("alice", "secret-a"), Credentials::new("bob", "secret-b")];
    (listener, Settings { agents, ..settings })
}

/// Logs in both agents, with tokens that end with `turn`, and grants their subscriptions.
async fn admit(listener: &TcpListener, turn: u32) -> Peer {
    let mut peer = Peer::accept(listener).await;
    let hello = peer.expect("public/hello").await;
    peer.answer(&hello, json!({})).await;
    for name in ["alice", "bob"] {
        let login = peer.expect("public/auth").await;
        assert_eq!((&login.params["client_id"], &login.params["scope"]), (&json!(name), &json!("expires:604800")));
        assert_eq!(login.params["client_secret"], json!(null), "the secret is not sent");
        peer.answer(&login, json!({"access_token": format!("{name}\"{turn}")})).await;
    }
    for name in ["alice", "bob"] {
        let subscribe = peer.expect("private/subscribe").await;
        assert_eq!(subscribe.params, json!({"access_token": format!("{name}\"{turn}"), "channels": [CHANNEL]}));
        peer.answer(&subscribe, json!([CHANNEL])).await;
    }
    peer
}

#[tokio::test]
async fn each_call_carries_the_token_of_its_agent() {
    let (listener, settings) = two_agents().await;
    let client = async {
        let (connection, _notices) = VenueConnection::open_for_agents(settings).await.unwrap();
        connection.call_as(Some(1), "private/buy", &json!({"amount": 1})).await.unwrap();
        connection.call_as(Some(0), "private/get_open_orders", &json!({})).await.unwrap();
        connection.call("public/test", &json!({"x": 1})).await.unwrap();
        for (agent, params) in [(2, json!({})), (0, json!([1]))] {
            let refused = connection.call_as(Some(agent), "private/buy", &params).await.unwrap_err();
            assert!(matches!(refused, Error::NotSent { .. }), "{refused}");
        }
        let refused = connection.subscribe("user.orders.any.any.raw").await.unwrap_err();
        assert!(matches!(refused, Error::AlreadySubscribed { .. }), "{refused}");
    };
    let venue = async {
        let mut peer = admit(&listener, 1).await;
        for (method, params) in [
            ("private/buy", json!({"access_token": "bob\"1", "amount": 1})),
            ("private/get_open_orders", json!({"access_token": "alice\"1"})),
            ("public/test", json!({"x": 1})),
        ] {
            let call = peer.expect(method).await;
            assert_eq!(call.params, params);
            peer.answer(&call, json!("ok")).await;
        }
        peer
    };
    with_venue(client, venue).await;
}

#[tokio::test]
async fn after_a_cut_all_agents_log_in_and_subscribe_again() {
    let (listener, settings) = two_agents().await;
    let client = async {
        let (connection, mut notices) = VenueConnection::open_for_agents(settings).await.unwrap();
        assert!(matches!(notices.next().await, SubscriptionEvent::Notice(notice) if notice.data.get() == "1"));
        assert!(matches!(notices.next().await, SubscriptionEvent::Restarted));
        assert!(matches!(notices.next().await, SubscriptionEvent::Notice(notice) if notice.data.get() == "2"));
        connection.call_as(Some(0), "private/cancel_all", &json!({})).await.unwrap();
    };
    let venue = async {
        let mut peer = admit(&listener, 1).await;
        peer.notify(CHANNEL, json!(1)).await;
        drop(peer);
        let mut peer = admit(&listener, 2).await;
        peer.notify(CHANNEL, json!(2)).await;
        let call = peer.expect("private/cancel_all").await;
        assert_eq!(call.params, json!({"access_token": "alice\"2"}));
        peer.answer(&call, json!(0)).await;
        peer
    };
    with_venue(client, venue).await;
}
