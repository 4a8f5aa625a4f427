//! A connection over a real pair of sockets: what it holds stays bounded.

use slab::Slab;

use super::*;
use crate::SystemClock;
use crate::doors::Doors;
use crate::http::{HttpRequest, HttpResponse};

/// Answers nothing and publishes nothing, but remembers whom it heard.
#[derive(Default)]
struct Mute {
    heard: Vec<u64>,
}

impl Application for Mute {
    const STOPPING: &'static str = "the toy is stopping";

    fn request(&mut self, _: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        HttpResponse::text(200, "")
    }
    fn accepts_websocket(&self, _: &str) -> bool {
        true
    }
    fn connected(&mut self, _: ConnectionId, _: Option<IpAddr>) {}
    fn text(&mut self, id: ConnectionId, _: &str, _: &mut Notices) {
        self.heard.push(id.0);
    }
    fn disconnected(&mut self, _: ConnectionId, _: &mut Notices) {}
    fn next_due_ns(&self) -> Option<u64> {
        None
    }
    fn tick(&mut self, _: u64, _: &mut Notices) {}
    fn commit(&mut self) -> io::Result<bool> {
        Ok(false)
    }
    fn for_each_subscriber(&self, _: impl FnMut(ConnectionId)) {}
    fn pump(&mut self, _: ConnectionId, _: &mut Vec<u8>, _: usize) -> Result<(), Closing> {
        Ok(())
    }
    fn stopping(&mut self, _: &mut Notices) {}
}

fn pair() -> (Connection, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_nonblocking(true).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut connection = Connection::new(ConnectionId(1), Link::plain(mio::net::TcpStream::from_std(ours)), None, 0);
    connection.protocol = Protocol::WebSocket(Box::new(Decoder::new(Limits::default().messages)));
    (connection, peer)
}

#[test]
fn input_is_bounded_however_much_is_sent() {
    let (mut connection, mut peer) = pair();
    let (clock, limits) = (SystemClock::start(), Limits::default());
    let doors = Doors::new("127.0.0.1:1".parse().unwrap(), &[]);
    let (mut notices, mut buffer, pongs) =
        (Notices::default(), [0; READ_BYTES], [0x8A, 0x80, 0, 0, 0, 0].repeat(20_000));
    let mut turn = Turn {
        app: &mut Mute::default(),
        notices: &mut notices,
        limits: &limits,
        doors: &doors,
        clock: &clock,
        buffer: &mut buffer,
        now: 0,
        until: 0,
        had_input: false,
    };
    for _ in 0..200 {
        drop(peer.write(&pongs));
        connection.readable = true;
        connection.read_and_act(&mut turn);
        assert!(connection.input.len() <= READ_BYTES + 16 * 1024, "{} bytes", connection.input.len());
    }
    // Nor is anything read while the answers to it would find no room.
    connection.has_left_over = false;
    connection.input.clear();
    connection.take(Kind::Answer, &vec![0; OUTBOX_BYTES], 0);
    connection.readable = true;
    connection.read_and_act(&mut turn);
    assert_eq!(connection.input.len(), 0, "read while its outbox is full");
    assert!(!connection.wants_turn());
}

#[test]
fn an_outbox_that_is_never_quite_empty_does_not_keep_what_was_written() {
    let (mut connection, mut peer) = pair();
    let (mut taken, clock) = (0, SystemClock::start());
    for turn in 0..2_000 {
        connection.take(Kind::Answer, &vec![0; 100_000], turn);
        connection.writable = true;
        connection.flush(&mut Mute::default(), &Sending { clock: &clock, now: turn, acted_ns: 0, committed_ns: 0 });
        // The peer keeps some megabytes behind.
        while turn > 200 && connection.pending() > OUTBOX_BYTES {
            taken += peer.read(&mut vec![0; 100_000]).unwrap_or(0);
            connection.writable = true;
            connection.flush(&mut Mute::default(), &Sending { clock: &clock, now: turn, acted_ns: 0, committed_ns: 0 });
            if connection.pending() == 0 {
                break;
            }
        }
    }
    assert!(taken > 100_000_000);
    assert!(connection.outbox.capacity() < 50_000_000, "{} bytes", connection.outbox.capacity());
}

/// Two connections on one list, and turns in which they are served.
struct Floor {
    connections: Slab<Connection>,
    peers: [std::net::TcpStream; 2],
    put_off: bool,
    listed: Vec<usize>,
    /// At which look into the sockets the second says something; it is not listed before.
    speaks_at: Option<usize>,
}

impl Floor {
    fn new() -> Self {
        let (mut connections, pairs) = (Slab::new(), [pair(), pair()]);
        let peers = pairs.map(|(mut connection, peer)| {
            connection.id = ConnectionId(connections.len() as u64);
            connections.insert(connection);
            peer
        });
        Floor { connections, peers, put_off: false, listed: vec![0, 1], speaks_at: None }
    }

    fn say(&mut self, who: usize, times: usize) {
        self.peers[who].write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x'].repeat(times)).unwrap();
        self.connections[who].readable = true;
    }

    /// Whom the application heard, in order.
    fn turn(&mut self, until: u64) -> Vec<u64> {
        let (clock, limits) = (SystemClock::start(), Limits::default());
        let doors = Doors::new("127.0.0.1:1".parse().unwrap(), &[]);
        let (mut app, mut notices, mut buffer) = (Mute::default(), Notices::default(), [0; READ_BYTES]);
        let mut turn = Turn {
            app: &mut app,
            notices: &mut notices,
            limits: &limits,
            doors: &doors,
            clock: &clock,
            buffer: &mut buffer,
            now: 0,
            until,
            had_input: false,
        };
        if turn.serve_each(&mut self.connections, &self.listed, &mut self.put_off) {
            let (peer, speaks_at, mut looks) = (&mut self.peers[1], self.speaks_at, 0);
            turn.serve_more(&mut self.connections, &mut self.listed, &mut |connections, listed| {
                looks += 1;
                let speaks = speaks_at == Some(looks);
                if speaks {
                    peer.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x']).unwrap();
                    connections[1].readable = true;
                    listed.push(1);
                }
                speaks
            });
        }
        for (_, connection) in &mut self.connections {
            connection.is_served = false;
            connection.frames = 0;
        }
        app.heard
    }
}

#[test]
fn whoever_asks_little_is_served_first_and_whoever_asks_a_lot_every_other_turn() {
    let mut floor = Floor::new();
    floor.say(0, 100);
    floor.say(1, 1);
    // Nobody has waited yet; the answer to the second leaves before the first goes on.
    assert_eq!(floor.turn(u64::MAX), [vec![0; FRAMES_AT_A_TIME], vec![1]].concat());
    floor.say(1, 1);
    let after = floor.turn(0);
    assert_eq!(after, [vec![1], vec![0; FRAMES_OF_A_FLOOD]].concat(), "put off once, not twice");
    floor.say(1, 1);
    assert_eq!(floor.turn(u64::MAX), [1]);
    // Alone, it goes on until it is time, and at least once when it is time already.
    assert_eq!(floor.turn(0), [0; FRAMES_OF_A_FLOOD]);
    assert_eq!(floor.turn(u64::MAX).len(), 100 - FRAMES_AT_A_TIME - 2 * FRAMES_OF_A_FLOOD);
}

#[test]
fn whoever_speaks_in_the_middle_of_a_flood_comes_next_and_ends_the_turn() {
    let mut floor = Floor::new();
    floor.listed = vec![0];
    floor.say(0, 100);
    floor.speaks_at = Some(3);
    let before = FRAMES_AT_A_TIME + 2 * FRAMES_OF_A_FLOOD;
    assert_eq!(floor.turn(u64::MAX), [vec![0; before], vec![1]].concat());
}

#[test]
fn two_who_ask_a_lot_take_turns() {
    let mut floor = Floor::new();
    floor.say(0, 40);
    floor.say(1, 40);
    let round = |frames| [vec![0; frames], vec![1; frames]].concat();
    let rest = round(FRAMES_OF_A_FLOOD).repeat((40 - FRAMES_AT_A_TIME) / FRAMES_OF_A_FLOOD);
    assert_eq!(floor.turn(u64::MAX), [round(FRAMES_AT_A_TIME), rest].concat());
}

#[test]
fn one_connection_has_so_many_frames_in_a_turn_and_no_more() {
    let mut floor = Floor::new();
    floor.say(0, 1_000);
    assert_eq!(floor.turn(u64::MAX).len(), FRAMES_PER_TURN);
    assert_eq!(floor.turn(u64::MAX).len(), FRAMES_PER_TURN);
}

#[test]
fn a_flood_that_has_been_acted_on_is_known_when_it_goes_on() {
    let mut floor = Floor::new();
    floor.say(0, 20);
    assert_eq!(floor.turn(u64::MAX), [0; 20]);
    floor.say(0, 20);
    floor.say(1, 1);
    assert_eq!(floor.turn(u64::MAX), [1], "it comes second though it was first on the list");
    assert_eq!(floor.turn(0), [0; FRAMES_OF_A_FLOOD], "and in small pieces from the first");
    assert_eq!(floor.turn(u64::MAX).len(), 20 - FRAMES_OF_A_FLOOD);
    // It asks little again: from the next time on it is one of those who do.
    floor.say(0, 1);
    assert_eq!(floor.turn(u64::MAX), [0]);
    floor.say(0, 1);
    floor.say(1, 1);
    assert_eq!(floor.turn(u64::MAX), [0, 1]);
}

#[test]
fn answers_that_are_held_back_keep_their_connection_on_the_list() {
    let (mut connection, mut peer) = pair();
    let clock = SystemClock::start();
    connection.readable = false;
    connection.take(Kind::Answer, b"answer", 0);
    connection.hold_back();
    assert!(connection.wants_turn(), "no event will remind of it");
    connection.flush(&mut Mute::default(), &Sending { clock: &clock, now: 0, acted_ns: 0, committed_ns: 0 });
    let mut got = [0; 16];
    assert_eq!((peer.read(&mut got).unwrap(), &got[..6], connection.wants_turn()), (6, &b"answer"[..], false));
}

#[test]
fn room_that_is_told_of_after_the_writing_is_used_in_the_next_turn() {
    const ANSWER: usize = 20_000_000;
    let (mut connection, mut peer) = pair();
    let (clock, mut poll, mut events) =
        (SystemClock::start(), mio::Poll::new().unwrap(), mio::Events::with_capacity(4));
    let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
    poll.registry().register(&mut connection.link.stream, mio::Token(0), interest).unwrap();
    connection.readable = false;
    connection.take(Kind::Answer, &vec![b'a'; ANSWER], 0);
    let (mut got, mut turns) = (0, 0);
    while got < ANSWER {
        connection.flush(&mut Mute::default(), &Sending { clock: &clock, now: 0, acted_ns: 0, committed_ns: 0 });
        assert!(!connection.wants_turn(), "it waits for its socket");
        got += peer.read(&mut vec![0; ANSWER]).unwrap_or(0);
        poll.poll(&mut events, Some(std::time::Duration::from_millis(1))).unwrap();
        events.iter().for_each(|event| connection.note(event));
        // Whenever there is room again it has been told, and by nothing else.
        assert_eq!(connection.wants_turn(), !events.is_empty());
        turns += 1;
    }
    assert!(turns > 1);
}
