//! A server whose text makes the client library panic: async-nats 0.51 fails at a bare `-ERR`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use pitwire_nats::{FirstConnection, NatsMessage, NatsOptions, NatsPublisher, NatsSubscription, Publication};

const PATIENCE: Duration = Duration::from_secs(30);
const OPTIONS: NatsOptions =
    NatsOptions { name: "test", first_connection: FirstConnection::Required, subscription_capacity: 16 };
const INFO: &str = r#"{"server_id":"X","server_name":"x","version":"2.10.0","go":"go1","host":"127.0.0.1","port":1,"headers":true,"max_payload":1048576,"proto":1}"#;

/// Greets each client, answers its pings and ends its first connection with a bare `-ERR`. Sends a
/// number for each connection, and the number again when the client has published on it.
fn hostile_server() -> (String, Receiver<(usize, bool)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let (sender, arrivals) = channel();
    thread::spawn(move || {
        for (number, socket) in listener.incoming().map_while(Result::ok).enumerate() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut writer = socket.try_clone().unwrap();
                write!(writer, "INFO {INFO}\r\n").unwrap();
                let mut pings = 0;
                for line in BufReader::new(socket).lines().map_while(Result::ok) {
                    if line.starts_with("PING") {
                        pings += 1;
                        let _ = write!(writer, "PONG\r\n");
                        if pings == 1 {
                            let _ = sender.send((number, false));
                        }
                        if number == 0 && pings == 2 {
                            let _ = write!(writer, "-ERR\r\n");
                        }
                    }
                    if line.starts_with("PUB ") {
                        let _ = sender.send((number, true));
                        if number == 0 {
                            let _ = write!(writer, "-ERR\r\n");
                        }
                    }
                }
            });
        }
    });
    (url, arrivals)
}

struct Positions;

impl Publication for Positions {
    type Batch = ();

    fn message(&self, _: &mut ()) -> Option<NatsMessage> {
        Some(NatsMessage { subject: "a".into(), headers: Vec::new(), payload: b"x".to_vec() })
    }

    fn finished(&self, (): (), _: bool) {}

    fn positions(&self) -> Vec<NatsMessage> {
        Vec::new()
    }
}

#[test]
fn subscription_connects_again_when_the_library_fails() {
    let (url, arrivals) = hostile_server();
    let mut subscription = NatsSubscription::open(&url, "a", &OPTIONS).unwrap();
    assert_eq!(arrivals.recv_timeout(PATIENCE), Ok((0, false)));
    let second = (0..600).find_map(|_| {
        subscription.receive(Duration::from_millis(50), |_, _| {});
        arrivals.try_recv().ok()
    });
    assert_eq!(second, Some((1, false)));
}

#[test]
fn publisher_connects_again_when_the_library_fails() {
    let (url, arrivals) = hostile_server();
    let publisher = NatsPublisher::open(&url, &OPTIONS, "test", 16, Positions).unwrap();
    let is_published_again = (0..600).any(|_| {
        let _ = publisher.push(());
        arrivals.recv_timeout(Duration::from_millis(50)) == Ok((1, true))
    });
    assert!(is_published_again);
}
