//! A venue that follows the script of a test.

use std::future::Future;
use std::time::Duration;

use futures_util::SinkExt;
use pitwire_client::{Reconnect, Settings};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// Bound of every wait. A test that passes does not come near it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One accepted connection of the scripted venue.
pub struct Peer {
    socket: WebSocketStream<TcpStream>,
}

/// A call that the venue received.
pub struct Call {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

impl Peer {
    pub async fn accept(listener: &TcpListener) -> Peer {
        let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        Peer { socket: accept_async(stream).await.unwrap() }
    }

    pub async fn call(&mut self) -> Call {
        loop {
            let message =
                std::future::poll_fn(|cx| futures_util::Stream::poll_next(std::pin::Pin::new(&mut self.socket), cx));
            let message = timeout(PATIENCE, message).await.unwrap().expect("the client left").unwrap();
            if let Message::Text(text) = message {
                let call: Value = serde_json::from_str(&text).unwrap();
                let method = call["method"].as_str().unwrap().to_owned();
                return Call { id: call["id"].clone(), method, params: call["params"].clone() };
            }
        }
    }

    pub async fn expect(&mut self, method: &str) -> Call {
        let call = self.call().await;
        assert_eq!(call.method, method);
        call
    }

    pub async fn send(&mut self, message: Value) {
        self.send_text(message.to_string()).await;
    }

    pub async fn send_text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub async fn answer(&mut self, call: &Call, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": call.id, "result": result})).await;
    }

    pub async fn notify(&mut self, channel: &str, data: Value) {
        let params = json!({"channel": channel, "data": data});
        self.send(json!({"jsonrpc": "2.0", "method": "subscription", "params": params})).await;
    }

    /// Sends messages of a channel, and reads nothing, until the client closes the socket.
    pub async fn notify_until_closed(&mut self, channel: &str, data: Value) {
        let params = json!({"channel": channel, "data": data});
        let text = json!({"jsonrpc": "2.0", "method": "subscription", "params": params}).to_string();
        while self.socket.send(Message::text(text.clone())).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Answers the next call, which must subscribe, and grants everything.
    pub async fn grant(&mut self) -> Value {
        let call = self.expect("public/subscribe").await;
        let channels = call.params["channels"].clone();
        self.answer(&call, channels.clone()).await;
        channels
    }
}

pub async fn listener() -> (TcpListener, Settings) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws/api/v2", listener.local_addr().unwrap());
    let pause = Duration::from_millis(1);
    let settings = Settings {
        timeout: PATIENCE,
        heartbeat: None,
        check_interval: None,
        reconnect: Reconnect::WithPauses { first: pause, longest: pause },
        ..Settings::new(url)
    };
    (listener, settings)
}

/// Runs a client and a scripted venue together and returns what the client returns.
pub async fn with_venue<R>(client: impl Future<Output = R>, venue: impl Future<Output = Peer>) -> R {
    let work = async { tokio::join!(client, venue) };
    timeout(2 * PATIENCE, work).await.expect("client and venue wait for each other").0
}
