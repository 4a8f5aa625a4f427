//! Sockets that leave the loop with their handshake, over real sockets.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pitwire_net::{
    Application, ConnectionId, Handoff, HttpRequest, HttpResponse, Notices, Server, SystemClock, stop_signals,
};
use pitwire_tls::{Authority, issue_server_config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Gives away what comes to `/away`, but for `?no`.
struct HandoffApplication {
    taken: Sender<(String, Handoff)>,
}

impl Application for HandoffApplication {
    const STOPPING: &'static str = "the toy is stopping";

    fn request(&mut self, _: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        HttpResponse::text(200, "asked")
    }
    fn accepts_websocket(&self, _: &str) -> bool {
        false
    }
    fn takes_over(&self, request: &HttpRequest<'_>) -> bool {
        request.path() == "/away"
    }
    fn take_over(&mut self, request: &HttpRequest<'_>, taken: &mut Option<Handoff>) -> Result<(), HttpResponse> {
        if request.query() == "no" {
            return Err(HttpResponse::text(400, "not this one"));
        }
        let taken = taken.take().expect("it is handed over once");
        self.taken.send((request.target.to_owned(), taken)).map_err(|_| HttpResponse::text(503, "the receiver is gone"))
    }
    fn connected(&mut self, _: ConnectionId, _: Option<IpAddr>) {
        panic!("it has left the loop");
    }
}

fn serve() -> (std::net::SocketAddr, Receiver<(String, Handoff)>) {
    let (taken, received) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server =
        Server::new(HandoffApplication { taken }, listener, stop_signals().unwrap(), SystemClock::start()).unwrap();
    let address = server.local_address().unwrap();
    thread::spawn(move || server.run());
    (address, received)
}

fn handshake(target: &str, more: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{more}\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

fn connect(address: std::net::SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

#[test]
fn a_socket_leaves_with_its_handshake_and_the_bytes_behind_it() {
    let (address, received) = serve();
    let mut peer = connect(address, &(handshake("/away?x=1", "") + "behind"));
    let (target, Handoff { mut socket, session, handshake, rest }) =
        received.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(session.is_none(), "it is plain");
    assert_eq!((target.as_str(), rest.as_slice()), ("/away?x=1", b"behind".as_slice()));
    assert!(handshake.starts_with(b"HTTP/1.1 101 ") && handshake.ends_with(b"\r\n\r\n"));
    // The loop has let go of it, and it still speaks both ways.
    socket.set_nonblocking(false).unwrap();
    socket.write_all(b"hello").unwrap();
    let mut five = [0; 5];
    peer.read_exact(&mut five).unwrap();
    peer.write_all(b"world").unwrap();
    assert_eq!(&five, b"hello");
    socket.read_exact(&mut five).unwrap();
    assert_eq!(&five, b"world");
}

#[test]
fn a_refused_handshake_is_answered_also_for_a_foreign_page() {
    let (address, received) = serve();
    let mut answers = Vec::new();
    for (target, more) in [("/away?no", ""), ("/away", "Origin: http://evil.example\r\n")] {
        let mut text = String::new();
        connect(address, &handshake(target, more)).read_to_string(&mut text).unwrap_or(0);
        answers.push(text.split(' ').nth(1).unwrap_or_default().to_owned());
    }
    assert_eq!(answers, ["400", "403"]);
    assert!(received.try_recv().is_err());
}

/// Over TLS, in small records and more than one read takes: some records are decrypted before the
/// handoff, some are not.
#[test]
fn bytes_behind_a_tls_handshake_are_not_lost() {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let authority = Authority::generate().unwrap();
    let config = issue_server_config(&authority.key, &["localhost".into()], now_s).unwrap();
    let (taken, received) = channel();
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let listener_socket = listener();
    let address = listener_socket.local_addr().unwrap();
    let server =
        Server::new(HandoffApplication { taken }, listener(), stop_signals().unwrap(), SystemClock::start()).unwrap();
    let server = server.with_tls(listener_socket, config).unwrap();
    thread::spawn(move || server.run());

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let trust = builder.with_root_certificates(roots).with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(trust), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut stream).unwrap();
    }
    let behind: Vec<u8> = (0_u8..=250).cycle().take(40_000).collect();
    client.writer().write_all(handshake("/away", "").as_bytes()).unwrap();
    for record in behind.chunks(1_000) {
        client.writer().write_all(record).unwrap();
    }
    while client.wants_write() {
        client.write_tls(&mut stream).unwrap();
    }

    let (_, Handoff { mut socket, session, rest: mut came, .. }) =
        received.recv_timeout(Duration::from_secs(60)).unwrap();
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut session, mut cipher, mut out) = (session.unwrap(), [0; 4_096], Vec::new());
    while came.len() < behind.len() {
        let bytes = socket.read(&mut cipher).unwrap();
        session.receive(&mut cipher[..bytes], &mut came, &mut out).unwrap();
    }
    assert!(came == behind);
}
