//! Open WebSockets whose sockets the application takes between two messages: over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pitwire_net::{
    Application, ConnectionId, Handoff, HttpRequest, HttpResponse, Limits, Notices, Server, SystemClock, Waker,
    stop_signals,
};

const PATIENCE: Duration = Duration::from_secs(60);

enum Order {
    Left(ConnectionId),
}

/// Echoes every text; hands off a connection that sends `go`.
struct Exchange {
    taken: Sender<(ConnectionId, Handoff)>,
    orders: Receiver<Order>,
    gone: Sender<ConnectionId>,
}

impl Application for Exchange {
    const STOPPING: &'static str = "the toy is stopping";

    fn request(&mut self, _: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        HttpResponse::text(404, "not here")
    }
    fn accepts_websocket(&self, _: &str) -> bool {
        true
    }
    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        notices.reply(id, text.as_bytes());
        if text == "go" {
            notices.hand_off(id);
        }
    }
    fn may_leave(&mut self, _: ConnectionId) -> bool {
        true
    }
    fn take_open(&mut self, id: ConnectionId, taken: Handoff) {
        self.taken.send((id, taken)).expect("the test waits for it");
    }
    fn disconnected(&mut self, id: ConnectionId, _: &mut Notices) {
        // The test may be over.
        self.gone.send(id).ok();
    }
    fn tick(&mut self, _: u64, notices: &mut Notices) {
        for order in self.orders.try_iter() {
            match order {
                Order::Left(id) => notices.closed_elsewhere(id),
            }
        }
    }
}

struct ServerFixture {
    address: SocketAddr,
    taken: Receiver<(ConnectionId, Handoff)>,
    orders: Sender<Order>,
    gone: Receiver<ConnectionId>,
    waker: Waker,
}

fn serve(limits: Limits) -> ServerFixture {
    let ((take, taken), (orders, ordered), (go, gone)) = (channel(), channel(), channel());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = Exchange { taken: take, orders: ordered, gone: go };
    let (waker, signals) = (Waker::default(), stop_signals().unwrap());
    let server = Server::new(app, listener, signals, SystemClock::start()).unwrap();
    let server = server.with_limits(limits).unwrap().with_waker(&waker).unwrap();
    let address = server.local_address().unwrap();
    thread::spawn(move || server.run());
    ServerFixture { address, taken, orders, gone, waker }
}

impl ServerFixture {
    fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
        self.waker.wake();
    }
}

/// The answer's first line.
fn shake(address: SocketAddr) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let line = String::from_utf8(head).unwrap();
    (stream, line.lines().next().unwrap_or_default().to_owned())
}

/// A text as a client sends it, with a key of zeros.
fn text(words: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | u8::try_from(words.len()).unwrap(), 0, 0, 0, 0];
    frame.extend_from_slice(words.as_bytes());
    frame
}

/// The next text, as a server sends it.
fn received(stream: &mut TcpStream) -> String {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[0], 0x81);
    let mut words = vec![0; usize::from(head[1])];
    stream.read_exact(&mut words).unwrap();
    String::from_utf8(words).unwrap()
}

#[test]
fn a_socket_is_handed_off_between_messages_once_everything_is_sent() {
    let served = serve(Limits::default());
    let (mut peer, line) = shake(served.address);
    assert!(line.contains("101"));
    // Behind `go` come a whole message and half of one: nothing is taken in the middle of a
    // message.
    let half = text("later");
    peer.write_all(&[text("go"), text("before"), half[..4].to_vec()].concat()).unwrap();
    assert_eq!([received(&mut peer), received(&mut peer)], ["go", "before"]);
    assert!(served.taken.recv_timeout(Duration::from_millis(100)).is_err(), "it owes the rest of a message");
    peer.write_all(&half[4..]).unwrap();
    assert_eq!(received(&mut peer), "later", "the loop has answered before it let go");
    let (id, Handoff { mut socket, session, handshake, rest }) = served.taken.recv_timeout(PATIENCE).unwrap();
    assert!(session.is_none() && handshake.is_empty() && rest.is_empty());

    // The loop does not read what the peer sends now.
    socket.set_nonblocking(false).unwrap();
    peer.write_all(&text("away")).unwrap();
    let mut seen = vec![0; text("away").len()];
    socket.read_exact(&mut seen).unwrap();
    assert_eq!(seen, text("away"));

    // It ends elsewhere: the application knows, and the loop does not report it.
    served.order(Order::Left(id));
    drop((peer, socket));
    assert!(served.gone.recv_timeout(Duration::from_millis(100)).is_err());
}

#[test]
fn a_handed_off_connection_counts_for_its_address_until_it_ends() {
    let served = serve(Limits { connections_per_address: Some(1), ..Limits::default() });
    let (mut peer, _) = shake(served.address);
    peer.write_all(&text("go")).unwrap();
    let (id, taken) = served.taken.recv_timeout(PATIENCE).unwrap();
    // The loop closes its descriptor in the same turn.
    assert!(shake(served.address).1.contains("429"), "there is one already");
    drop(taken);
    served.order(Order::Left(id));
    let deadline = std::time::Instant::now() + PATIENCE;
    while !shake(served.address).1.contains("101") {
        assert!(std::time::Instant::now() < deadline, "its place is free");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(served.gone.try_iter().all(|other| other != id), "who left elsewhere is not received of here");
}
