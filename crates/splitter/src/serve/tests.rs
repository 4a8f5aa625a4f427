//! The servers over loopback sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
/// The accept value of `UPGRADE`, from RFC 6455 section 1.3.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

fn servers() -> ShardServer {
    let any = Some("127.0.0.1:0".parse().unwrap());
    serve(&TransportOptions::new(4), Arc::new(SharedStats::default()), any, any).unwrap().1
}

/// Sends `request` and returns the head of the response.
fn head(address: Option<SocketAddr>, request: &str) -> String {
    let mut socket = TcpStream::connect(address.unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let (mut received, mut byte) = (Vec::new(), [0]);
    while !received.ends_with(b"\r\n\r\n") && socket.read_exact(&mut byte).is_ok() {
        received.push(byte[0]);
    }
    String::from_utf8(received).unwrap()
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{headers}\r\n")
}

#[test]
fn shards_are_served_to_programs_and_not_to_foreign_pages() {
    let servers = servers();
    let local = format!("Host: localhost\r\n{UPGRADE}");
    for (request, expected) in [
        (get("/shard/0", &local), "101"),
        (get("/shard/3?a=b", &local), "101"),
        (get("/shard/0", &format!("Host: [::1]:5\r\nOrigin: http://[::1]:5\r\n{UPGRADE}")), "101"),
        (get("/shard/4", &local), "404"),
        (get("/shard/0", "Host: localhost\r\n"), "404"),
        (get("/healthz", "Host: localhost\r\n"), "200"),
        (get("/shard/0", &format!("Host: evil.example\r\n{UPGRADE}")), "421"),
        (get("/shard/0", &format!("{local}Origin: http://evil.example\r\n")), "403"),
        (get("/shard/0", &format!("{local}Origin: null\r\n")), "403"),
        (get("/shard/0", &format!("{local}Origin: http://localhost\r\nOrigin: http://a\r\n")), "403"),
        (get("/healthz", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n"), "403"),
        (get("/shard/0", &local.replace("13", "8")), "426"),
        (get("/shard/0", &local.replace("==", "")), "400"),
        (get("/shard/0", UPGRADE), "400"),
        ("POST /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "405"),
        ("rubbish\r\n\r\n".into(), "400"),
    ] {
        let response = head(servers.shards(), &request);
        assert!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{request:?}: {response}");
        assert_eq!(response.contains(ACCEPT), expected == "101", "{response}");
    }
}

#[test]
fn metrics_are_served_to_our_own_host_names_only() {
    let servers = servers();
    for (request, expected) in [
        (get("/metrics", "Host: localhost:9\r\n"), "200"),
        (get("/metrics?a=b", ""), "200"),
        (get("/", "Host: localhost\r\n"), "404"),
        (get("/shard/0", &format!("Host: localhost\r\n{UPGRADE}")), "404"),
        (get("/metrics", "Host: localhost.evil.example\r\n"), "421"),
        (get("/metrics", "Host: 10.9.9.9\r\n"), "421"),
        (get("/metrics", "Host: localhost\r\nOrigin: http://evil.example\r\n"), "403"),
        ("GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".into(), "501"),
    ] {
        let response = head(servers.metrics(), &request);
        assert!(response.starts_with(&format!("HTTP/1.1 {expected} ")), "{request:?}: {response}");
    }
    let response = head(servers.metrics(), &get("/metrics", ""));
    assert!(response.contains("\r\nX-Content-Type-Options: nosniff\r\n"), "{response}");
    assert!(response.contains("\r\nCache-Control: no-store\r\n"), "{response}");
}

#[test]
fn messages_of_a_reader_are_ignored_and_pings_answered() {
    let servers = servers();
    let mut socket = TcpStream::connect(servers.shards().unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(get("/shard/1", &format!("Host: localhost\r\n{UPGRADE}")).as_bytes()).unwrap();
    // A text, a binary message and a ping, each of one byte with a mask of zeros.
    for opcode in [1, 2, 9] {
        socket.write_all(&[0x80 | opcode, 0x81, 0, 0, 0, 0, b'a']).unwrap();
    }
    let mut received = Vec::new();
    while !received.ends_with(&[0x8A, 1, b'a']) {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        received.push(byte[0]);
    }
    let frames = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(received[frames..], [0x8A, 1, b'a'], "nothing but the pong");
}
