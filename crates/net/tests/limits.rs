//! The limits of a server, with short times: hosts, connections per address, timeouts.

#[allow(dead_code)]
mod support;

use std::time::{Duration, Instant};

use pitwire_net::Limits;
use support::{ServerFrame, UPGRADE, Venue, eventually, frame, request, text};

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn a_websocket_is_closed_when_no_frame_has_come_for_too_long_and_a_ping_is_a_frame() {
    let venue = Venue::up_with(Limits { idle_ns: 4 * SECOND_NS, ..Limits::default() });
    let (mut silent, mut pinging, mut http) = (venue.websocket(), venue.websocket(), venue.client());
    http.get("/0");
    http.response();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(7) {
        pinging.send(&frame(0x89, b"p"));
        assert_eq!(pinging.got(), ServerFrame::Pong(b"p".to_vec()));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(silent.rest(), [ServerFrame::Close(1008, "nothing received for too long".into())]);
    pinging.ask("still here");
    // What holds for WebSockets does not end an HTTP connection that is kept alive.
    http.get("/0?on");
    assert_eq!(http.response().1, b"on;");
}

#[test]
fn sending_to_a_silent_peer_does_not_keep_it_open() {
    let venue = Venue::up_with(Limits { idle_ns: 2 * SECOND_NS, ..Limits::default() });
    let (mut silent, mut speaker) = (venue.websocket(), venue.client());
    let started = Instant::now();
    let mut sent = 0;
    while started.elapsed() < Duration::from_secs(4) {
        speaker.get("/tell:1");
        speaker.response();
        sent += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    let rest = silent.rest();
    assert_eq!(rest.last(), Some(&ServerFrame::Close(1008, "nothing received for too long".into())));
    assert!(rest.len() < sent, "it received everything");
}

#[test]
fn an_http_connection_is_kept_alive_for_its_time_and_no_longer() {
    let venue = Venue::up_with(Limits { keep_alive_ns: 2 * SECOND_NS, ..Limits::default() });
    let (mut http, mut websocket) = (venue.client(), venue.websocket());
    let started = Instant::now();
    http.get("/0?one");
    assert_eq!(http.response().1, b"one;");
    assert_eq!(http.maybe_response(), None);
    assert!(started.elapsed() > Duration::from_millis(1_500));
    websocket.ask("still here");
}

#[test]
fn an_unfinished_handshake_times_out() {
    let venue = Venue::up_with(Limits { unfinished_ns: SECOND_NS, ..Limits::default() });
    let (mut half, mut fragments, mut other) = (venue.client(), venue.websocket(), venue.websocket());
    half.send(&UPGRADE[..30]);
    fragments.send(&frame(0x01, b"begun"));
    assert_eq!(half.maybe_response(), None);
    assert_eq!(fragments.rest(), [ServerFrame::Close(1008, "not finished within 1 s".into())]);
    other.ask("still here");
}

#[test]
fn connections_per_address_are_limited() {
    let venue = Venue::up_with(Limits { connections_per_address: Some(3), ..Limits::default() });
    let mut inside = [venue.websocket(), venue.websocket(), venue.websocket()];
    for _ in 0..3 {
        let mut one_too_many = venue.client();
        // It has asked already when it is refused: the answer must get to it all the same.
        one_too_many.send(UPGRADE);
        assert_eq!(one_too_many.response(), (429, b"too many connections\n".to_vec()));
        assert_eq!(one_too_many.maybe_response(), None);
    }
    for client in &mut inside {
        client.ask("still here");
    }
    let [mut first, _second, _third] = inside;
    first.send(&frame(0x88, &[]));
    assert_eq!(first.rest(), [ServerFrame::Close(1000, String::new())]);
    drop(first);
    eventually("there is room for one again", || {
        let mut next = venue.client();
        next.send(UPGRADE);
        next.response().0 == 101
    });
}

#[test]
fn a_connection_beyond_the_limit_may_ask_once_for_the_state() {
    let venue = Venue::up_with(Limits { connections_per_address: Some(1), ..Limits::default() });
    let mut inside = venue.websocket();
    let mut asks = venue.client();
    asks.send([request("/7?well"), request("/7?again")].concat().as_bytes());
    assert_eq!(asks.response(), (200, b"well;..".to_vec()));
    assert_eq!(asks.maybe_response(), None, "once");
    let mut asks = venue.client();
    asks.send([request("/0?else"), request("/7?well")].concat().as_bytes());
    assert_eq!(asks.response().0, 429);
    assert_eq!(asks.maybe_response(), None);
    // Silent connections beyond the limit are bounded: further ones are refused as they come.
    let silent: Vec<_> = (0..32).map(|_| venue.client()).collect();
    let mut refused = venue.client();
    assert_eq!(refused.response().0, 429);
    drop(silent);
    eventually("they have gone", || {
        let mut asks = venue.client();
        asks.get("/7?well");
        asks.response().0 == 200
    });
    inside.ask("still here");
}

#[test]
fn without_a_limit_one_address_may_have_many() {
    let venue = Venue::up();
    let mut clients: Vec<_> = (0..100).map(|_| venue.websocket()).collect();
    clients[99].say("hello");
    assert_eq!(clients[99].got(), text("hello"));
}

#[test]
fn foreign_pages_and_unknown_hosts_are_refused() {
    let venue = Venue::up_with(Limits { hosts: vec!["venue.example".into()], ..Limits::default() });
    let upgrade = String::from_utf8(UPGRADE.to_vec()).unwrap();
    for (change, status) in [
        ("Host: localhost", 101),
        ("Host: venue.example", 101),
        ("Host: test.deribit.com", 421),
        ("Host: evil.example", 421),
        ("Host: localhost\r\nOrigin: http://evil.example", 403),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", 403),
        ("Host: localhost\r\nOrigin: http://localhost", 101),
    ] {
        let mut client = venue.client();
        client.send(upgrade.replace("Host: localhost", change).as_bytes());
        assert_eq!(client.response().0, status, "{change}");
    }
    let mut http = venue.client();
    http.send(request("/0?no").replace("localhost", "evil.example").as_bytes());
    assert_eq!(http.response().0, 421);
}
