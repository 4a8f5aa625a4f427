//! Byte streams that the application opens, over loopback sockets.

#[allow(dead_code, reason = "it uses a part")]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use pitwire_net::event_loop::LoopKind;
use support::{Client, PATIENCE, Venue, eventually};

/// Makes the venue connect, and returns the peer's end.
fn dialled(venue: &Venue, client: &mut Client) -> BufReader<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    client.ask(&format!("dial:{}", listener.local_addr().unwrap().port()));
    let (peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.set_write_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(venue.disconnections(), 0);
    let mut peer = BufReader::new(peer);
    let mut line = String::new();
    peer.read_line(&mut line).unwrap();
    assert_eq!(line, "hello\n", "bytes wait until the peer has accepted");
    peer
}

#[test]
fn outgoing_stream_is_served_until_its_peer_ends_it() {
    let venue = Venue::up_on(LoopKind::Epoll);
    let mut client = venue.websocket();
    let mut peer = dialled(&venue, &mut client);
    peer.get_mut().write_all(b"a line\n").unwrap();
    let mut line = String::new();
    peer.read_line(&mut line).unwrap();
    assert_eq!(line, "a line\n");
    drop(peer);
    eventually("the application learns of the end", || venue.disconnections() == 1);
    client.ask("still served");
}

#[test]
fn refused_connection_ends_like_any_other() {
    let venue = Venue::up_on(LoopKind::Epoll);
    let mut client = venue.websocket();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    client.ask(&format!("dial:{port}"));
    eventually("the application learns of the refusal", || venue.disconnections() == 1);
    client.ask("still served");
}

#[test]
fn outgoing_stream_is_read_while_its_own_bytes_wait() {
    let venue = Venue::up_on(LoopKind::Epoll);
    let mut client = venue.websocket();
    let mut peer = dialled(&venue, &mut client);
    // More than both kernel buffers hold: a server that waited for its peer would wait forever.
    let lines = [b"x".repeat(1023).as_slice(), b"\n"].concat().repeat(32 * 1024);
    peer.get_mut().write_all(&lines).unwrap();
    let mut echoed = vec![0; lines.len()];
    peer.read_exact(&mut echoed).unwrap();
    assert!(echoed == lines);
}
