//! Hostile clients of the recovery port.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use pitwire_engine::Engine;
use pitwire_model::VenueNanos;
use pitwire_order_feed::{
    GlimpseLogin, GlimpsePacket, Letter, LoginRequest, LogoutRequest, MitchEncode, MitchMessage, OrderDelete,
    ReplayRequest, ReplayResponse, SnapshotRequest, Unit, UnitWriter,
};
use pitwire_order_feed_network::{FeedAddresses, FeedEncoding, FeedReader, OrderFeed, ReaderOptions, RecoveryPort};

/// Bound of every wait. A test that passes does not come near it.
const PATIENCE: Duration = Duration::from_secs(60);

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn start() -> OrderFeed {
    start_with(TcpListener::bind(local(0)).unwrap().into())
}

fn start_with(recovery: RecoveryPort) -> OrderFeed {
    // Nothing listens there.
    let lines = vec![local(9)];
    OrderFeed::start(FeedAddresses { lines, recovery }, &Engine::new(), VenueNanos(0)).unwrap()
}

fn counter(feed: &OrderFeed, name: &str) -> u64 {
    let mut text = String::new();
    feed.render(&mut text);
    let name = format!("pitwire_order_feed_{name} ");
    text.lines()
        .find_map(|line| line.strip_prefix(&name))
        .unwrap_or_else(|| panic!("{name} in {text}"))
        .parse()
        .unwrap()
}

fn unit_of(message: &impl MitchEncode) -> Vec<u8> {
    let mut encoded = Vec::new();
    message.encode(&mut encoded);
    let (mut writer, mut bytes) = (UnitWriter::unnumbered(), Vec::new());
    writer.add(&encoded, |_, _| {});
    writer.finish(|_, unit| bytes.extend_from_slice(unit));
    bytes
}

fn connect(feed: &OrderFeed) -> TcpStream {
    let socket = TcpStream::connect(feed.recovery_address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn log_in(feed: &OrderFeed) -> TcpStream {
    let mut socket = connect(feed);
    socket.write_all(&unit_of(&LoginRequest::default())).unwrap();
    assert!(
        matches!(read(&mut socket)[..], [MitchMessage::LoginResponse(response)] if response.status == Letter(b'A'))
    );
    socket
}

/// Reads one unit.
fn read(socket: &mut TcpStream) -> Vec<MitchMessage> {
    let mut unit = vec![0; 8];
    socket.read_exact(&mut unit).unwrap();
    unit.resize(usize::from(u16::from_le_bytes([unit[0], unit[1]])), 0);
    socket.read_exact(&mut unit[8..]).unwrap();
    Unit::read(&unit).unwrap().messages().map(Result::unwrap).collect()
}

/// Waits until the venue closes the connection.
fn read_end(mut socket: TcpStream) {
    let mut rest = Vec::new();
    // A reset also ends the connection.
    drop(socket.read_to_end(&mut rest));
    assert_eq!(rest, b"", "no answer");
}

#[test]
fn bytes_that_are_no_request_end_the_connection() {
    let feed = start();
    let request = unit_of(&SnapshotRequest::default());
    let two = [request.as_slice(), &request[8..]].concat();
    let requests: [(&str, Vec<u8>); 7] = [
        ("a length of 0", vec![0; 8]),
        ("a length of 65,535", vec![255; 8]),
        ("no message", vec![8, 0, 0, b'P', 0, 0, 0, 0]),
        ("two messages", [&u16::try_from(two.len()).unwrap().to_le_bytes(), &two[2..]].concat()),
        ("a message of an unknown type", vec![11, 0, 1, b'P', 0, 0, 0, 0, 3, 0, 0xFF]),
        ("a message with another length", vec![12, 0, 1, b'P', 0, 0, 0, 0, 4, 0, 5, 0]),
        ("a message of the feed", unit_of(&OrderDelete { nanosecond: 0, order_id: 1 })),
    ];
    for (what, bytes) in &requests {
        println!("{what}");
        let mut socket = log_in(&feed);
        socket.write_all(bytes).unwrap();
        read_end(socket);
    }
    let mut without_login = connect(&feed);
    without_login.write_all(&request).unwrap();
    read_end(without_login);
    // Another connection is served afterwards, so the counter is up to date.
    let mut good = log_in(&feed);
    good.write_all(&unit_of(&LogoutRequest {})).unwrap();
    read_end(good);
    assert_eq!(counter(&feed, "invalid_total"), 8);
}

#[test]
fn snapshots_above_the_limit_are_refused_by_name_and_counted() {
    let feed = start();
    let mut socket = log_in(&feed);
    let request = unit_of(&SnapshotRequest::default());
    socket.write_all(&request.repeat(30)).unwrap();
    let mut statuses = Vec::new();
    while statuses.len() < 30 {
        for message in read(&mut socket) {
            if let MitchMessage::SnapshotResponse(response) = message {
                statuses.push(response.status.0);
            }
        }
    }
    assert_eq!(statuses[..20], [b'A'; 20]);
    let refused = statuses.iter().filter(|status| **status == b'b').count();
    assert!(refused >= 5, "{statuses:?}");
    assert_eq!(counter(&feed, "limited_total"), refused as u64);
    assert_eq!(counter(&feed, "snapshots_total"), 30 - refused as u64);
}

#[test]
fn a_replay_outside_the_buffer_names_the_oldest_message() {
    let feed = start();
    let mut socket = log_in(&feed);
    for (first_message, count) in [(0, 1), (1, 1), (7, u16::MAX), (u32::MAX, 1), (1, 0)] {
        let request = ReplayRequest { market_data_group: Letter(b'P'), first_message, count };
        socket.write_all(&unit_of(&request)).unwrap();
        let answer = read(&mut socket);
        let expected =
            ReplayResponse { first_message: 1, count: 0, status: Letter(b'O'), market_data_group: Letter(b'P') };
        assert_eq!(answer, [expected.into()], "an empty venue has sent nothing: {request:?}");
    }
}

#[test]
fn an_address_has_at_most_32_connections() {
    let feed = start();
    let open: Vec<TcpStream> = (0..32).map(|_| log_in(&feed)).collect();
    let mut refused = connect(&feed);
    // The venue may have closed the connection already.
    drop(refused.write_all(&unit_of(&LoginRequest::default())));
    read_end(refused);
    assert_eq!(counter(&feed, "refused_connections_total"), 1);
    drop(open);
    let (lines, recovery) = (vec![local(0)], feed.recovery_address());
    let options = ReaderOptions { lines, recovery, encoding: FeedEncoding::Mitch, source: None, interface: None };
    // The places of the closed connections become free.
    while FeedReader::join(options.clone()).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a login of GLIMPSE and reads all packets of the answer.
fn glimpse(feed: &OrderFeed, login: &[u8]) -> Vec<GlimpsePacket> {
    let mut socket = connect(feed);
    socket.write_all(login).unwrap();
    let (mut answer, mut packets) = (Vec::new(), Vec::new());
    // A reset also ends the connection.
    drop(socket.read_to_end(&mut answer));
    let mut rest = answer.as_slice();
    while let [high, low, packet_type, after @ ..] = rest {
        let (content, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])) - 1);
        packets.push(GlimpsePacket::decode(*packet_type, content).unwrap());
        rest = after;
    }
    packets
}

const REJECTED: GlimpsePacket = GlimpsePacket::LoginRejected { reason: b'S' };

#[test]
fn a_snapshot_of_itch_is_for_the_current_session_only() {
    let feed = start_with(RecoveryPort::open_itch(local(0)).unwrap());
    let login = GlimpseLogin::default().packet();
    let answer = glimpse(&feed, &login);
    let [GlimpsePacket::LoginAccepted { session }, end, GlimpsePacket::EndOfSession] = answer[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(end, GlimpsePacket::Snapshot { next_number: 1 }, "an empty venue has sent nothing");
    assert_eq!(glimpse(&feed, &GlimpseLogin { session }.packet()), answer);
    assert_eq!(glimpse(&feed, &GlimpseLogin { session: *b"0000000001" }.packet()), [REJECTED]);
    let wrong_type = [&login[..2], b"R", &login[3..]].concat();
    let mut too_long = login.clone();
    too_long[1] += 1;
    for bytes in [wrong_type, too_long, unit_of(&LoginRequest::default()), vec![0; 49]] {
        assert!(glimpse(&feed, &bytes).is_empty(), "{bytes:?}");
    }
    // A heartbeat before the answer is read does not discard it.
    assert_eq!(glimpse(&feed, &[&login[..], b"\0\x01R"].concat()), answer);
    assert_eq!(counter(&feed, "invalid_total"), 5);
}

#[test]
fn snapshots_of_itch_above_the_limit_are_rejected_and_counted() {
    let feed = start_with(RecoveryPort::open_itch(local(0)).unwrap());
    let login = GlimpseLogin::default().packet();
    let mut served = 0;
    while glimpse(&feed, &login) != [REJECTED] {
        served += 1;
        assert!(served < 1_000, "two snapshots a second are allowed");
    }
    assert!(served >= 20, "{served}");
    assert_eq!(counter(&feed, "limited_total"), 1);
    assert_eq!(counter(&feed, "snapshots_total"), served);
}
