//! The TLS listener: the same loop and application, with a rustls client over loopback sockets.

#[allow(dead_code, reason = "it uses a part")]
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pitwire_net::Limits;
use pitwire_tls::{Authority, issue_server_config};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use support::{PATIENCE, Venue, eventually};

/// The client's clock is the machine's.
fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Starts a venue with a TLS listener, and returns the trust of its clients.
fn venue(limits: Limits) -> (Venue, TlsEndpoint) {
    let authority = Authority::generate().unwrap();
    let config = issue_server_config(&authority.key, &["localhost".into(), "127.0.0.1".into()], now_s()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let (venue, address) = Venue::up_behind(limits, Some(config));
    let trust = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
    (venue, TlsEndpoint { address: address.unwrap(), trust })
}

struct TlsEndpoint {
    address: SocketAddr,
    trust: Arc<ClientConfig>,
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn connect(endpoint: &TlsEndpoint) -> Secure {
    let stream = TcpStream::connect(endpoint.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(&endpoint.trust), name).unwrap(), stream)
}

/// One answer: its head, and its body by content-length.
fn answer(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_owned));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

fn get(stream: &mut impl Write, target: &str) {
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    stream.flush().unwrap();
}

/// Larger than every buffer on the way, and many small ones behind one another.
#[test]
fn requests_of_every_size_are_answered() {
    let (venue, endpoint) = venue(Limits::default());
    let mut client = connect(&endpoint);
    for size in [0, 1, 16_384, 3_000_000, 17] {
        get(&mut client, &format!("/{size}?mark"));
        let (head, body) = answer(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body.len() == size.max(5) && body.starts_with(b"mark;"), "{size}: {}", body.len());
    }
    for n in 0..300 {
        get(&mut client, &format!("/0?{n}"));
    }
    for n in 0..300 {
        assert_eq!(answer(&mut client).1, format!("{n};").into_bytes());
    }
    // The plain listener stays plain.
    let mut plain = TcpStream::connect(venue.address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    get(&mut plain, "/0?plain");
    assert_eq!(answer(&mut plain).1, b"plain;");
}

/// A reader that has stopped for a while misses nothing: a piece that is sealed waits, and the rest
/// waits unsealed.
#[test]
fn bytes_that_wait_for_a_reader_arrive_whole() {
    let (_venue, endpoint) = venue(Limits::default());
    let mut client = connect(&endpoint);
    let count = 60;
    for n in 0..count {
        get(&mut client, &format!("/200000?{n}"));
    }
    std::thread::sleep(Duration::from_millis(300));
    for n in 0..count {
        let (_, body) = answer(&mut client);
        assert!(body.len() == 200_000 && body.starts_with(format!("{n};").as_bytes()), "{n}");
    }
}

#[test]
fn websocket_sends_and_receives() {
    let (venue, endpoint) = venue(Limits::default());
    let mut client = connect(&endpoint);
    client
        .write_all(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .unwrap();
    assert!(answer(&mut client).0.starts_with("HTTP/1.1 101 "));
    let frame = |text: &str| {
        let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        frame
    };
    // Each byte in a separate record.
    for text in ["hello", "publish:tape", "again"] {
        for byte in frame(text) {
            client.write_all(&[byte]).unwrap();
        }
    }
    client.flush().unwrap();
    let mut received = Vec::new();
    while received.len() < 4 {
        let mut header = [0; 2];
        client.read_exact(&mut header).unwrap();
        let mut body = vec![0; usize::from(header[1])];
        client.read_exact(&mut body).unwrap();
        received.push(String::from_utf8(body).unwrap());
    }
    received.sort();
    assert_eq!(received, ["again", "hello", "publish:tape", "tape"]);
    client.conn.send_close_notify();
    client.flush().unwrap();
    eventually("it is let go", || venue.disconnections() == 1);
}

#[test]
fn a_returning_client_resumes_its_session() {
    let (_venue, endpoint) = venue(Limits::default());
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut client = connect(&endpoint);
        get(&mut client, "/0?x");
        answer(&mut client);
        assert_eq!(client.conn.handshake_kind(), Some(expected));
    }
}

/// Plain HTTP, noise, silence and half a handshake end at the TLS listener without harm to others.
#[test]
fn noise_at_the_tls_listener_ends_without_harm_to_others() {
    let limits = Limits { unfinished_ns: 300_000_000, ..Limits::default() };
    let (_venue, endpoint) = venue(limits);
    let mut good = connect(&endpoint);
    get(&mut good, "/0?first");
    assert_eq!(answer(&mut good).1, b"first;");
    let mut bad: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(endpoint.address).unwrap()).collect();
    bad[0].write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    bad[1].write_all(&[0xff; 5_000]).unwrap();
    bad[2].write_all(&[0x16, 3, 1, 2, 0, 1, 0]).unwrap();
    for (at, stream) in bad.iter_mut().enumerate() {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut received = Vec::new();
        if let Err(error) = stream.read_to_end(&mut received) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{at}");
        }
        // Noise gets an alert; half a handshake gets nothing.
        assert!(received.is_empty() || received.first() == Some(&21), "{at}: {received:?}");
    }
    get(&mut good, "/0?good");
    assert_eq!(answer(&mut good).1, b"good;");
}

/// Half a millisecond of signing per handshake must not delay orders.
#[test]
fn handshakes_do_not_wait_for_the_loop_nor_it_for_them() {
    let (venue, endpoint) = venue(Limits::default());
    let mut others: Vec<Secure> = (0..20).map(|_| connect(&endpoint)).collect();
    venue.held(|| {
        for other in &mut others {
            while other.conn.is_handshaking() {
                other.conn.complete_io(&mut other.sock).unwrap();
            }
            get(other, "/0?other");
        }
    });
    for other in &mut others {
        assert_eq!(answer(other).1, b"other;");
    }
}

/// Both listeners share the limit per address, and an unfinished handshake gives its place back.
#[test]
fn connections_per_address_count_both_listeners() {
    let limits = Limits { connections_per_address: Some(2), ..Limits::default() };
    let (venue, endpoint) = venue(limits);
    // The time in which it is to finish, five seconds, is the time that the machine has for what
    // follows.
    let silent = TcpStream::connect(endpoint.address).unwrap();
    let mut good = connect(&endpoint);
    get(&mut good, "/0?good");
    assert_eq!(answer(&mut good).1, b"good;");
    // The TLS listener drops the third connection without a handshake; the plain one answers 429.
    let mut third = TcpStream::connect(endpoint.address).unwrap();
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(third.read(&mut [0; 16]), Ok(0)));
    let mut plain = TcpStream::connect(venue.address).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET /0?more HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(answer(&mut plain).0.starts_with("HTTP/1.1 429 "));
    let mut end = silent;
    end.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(end.read(&mut [0; 16]), Ok(0)), "it said nothing");
    drop(plain);
    let mut next = connect(&endpoint);
    get(&mut next, "/0?next");
    assert_eq!(answer(&mut next).1, b"next;");
}
