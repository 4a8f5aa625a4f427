//! A connection over a real pair of sockets: its memory stays bounded, and its turns are fair.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::time::Duration;

use super::input::{FRAMES_AT_A_TIME, FRAMES_OF_A_FLOOD};
use super::outbox::WRITE_BYTES;
use super::*;
use crate::SystemClock;
use crate::connection_table::ConnectionTable;
use crate::event_loop::{LoopKind, LoopOptions};
use crate::origin::OriginPolicy;
use crate::outbox_budget::OutboxBudget;
use crate::turn::TurnScheduler;

/// Answers nothing, but remembers which connections sent a text.
#[derive(Default)]
struct SilentApp {
    senders: Vec<u64>,
    /// Bytes that it publishes once.
    published: Vec<u8>,
    /// Number of calls of `answered` before it published.
    answered_before: usize,
    /// How long it works on one text of connection 0, in nanoseconds.
    works_ns: u64,
}

impl Application for SilentApp {
    const STOPPING: &'static str = "the test server is stopping";

    fn request(&mut self, _: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        HttpResponse::text(200, "")
    }
    fn accepts_websocket(&self, _: &str) -> bool {
        true
    }
    fn text(&mut self, id: ConnectionId, _: &str, _: &mut Notices) {
        self.senders.push(id.0);
        let clock = SystemClock::start();
        let began_ns = clock.monotonic_ns();
        while id.0 == 0 && clock.monotonic_ns() - began_ns < self.works_ns {}
    }
    fn pump(&mut self, _: ConnectionId, out: &mut Vec<u8>, _: usize) -> Result<(), CloseReason> {
        out.append(&mut self.published);
        Ok(())
    }
    fn answered(&mut self, _: &crate::ServerLatency) {
        self.answered_before += usize::from(!self.published.is_empty());
    }
}

/// The parts of a turn besides connections.
struct Bench {
    app: SilentApp,
    net: Box<dyn EventLoop>,
    notices: Notices,
    limits: Limits,
    budget: OutboxBudget,
    origins: OriginPolicy,
    clock: SystemClock,
}

impl Bench {
    fn new() -> Bench {
        let receive_bytes = u32::try_from(READ_BYTES).unwrap();
        Bench {
            app: SilentApp::default(),
            net: LoopKind::Epoll.open(LoopOptions { receive_bytes, detaches: true }).unwrap(),
            notices: Notices::default(),
            limits: Limits::default(),
            budget: OutboxBudget::new(&Limits::default()),
            origins: OriginPolicy::new("127.0.0.1".parse().unwrap(), &[]),
            clock: SystemClock::start(),
        }
    }

    /// An open WebSocket and its peer.
    fn pair(&mut self, id: u64) -> (Connection, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nonblocking(true).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let stream = Stream::plain(self.net.add_socket(ours.into()).unwrap());
        let meter = self.budget.meter();
        let mut connection = Connection::new(ConnectionId(id), stream, AdmissionClass::Refused, None, meter, 0);
        connection.protocol = Protocol::WebSocket(Box::new(Decoder::new(self.limits.messages)));
        (connection, peer)
    }

    /// Lets the loop notice arrived input.
    fn poll(&mut self) {
        self.net.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
    }

    fn context(&mut self, until: u64) -> TurnContext<'_, SilentApp> {
        TurnContext {
            app: &mut self.app,
            net: &mut *self.net,
            notices: &mut self.notices,
            limits: &self.limits,
            origins: &self.origins,
            clock: &self.clock,
            now: 0,
            until,
            had_input: false,
        }
    }

    fn read_and_act(&mut self, connection: &mut Connection) {
        self.poll();
        connection.note_readable();
        connection.read_and_act(&mut self.context(0));
    }

    fn flush(&mut self, connection: &mut Connection, now: u64) -> usize {
        let times = TurnTimes { clock: &self.clock, now, acted_ns: 0, committed_ns: 0 };
        connection.flush(&mut self.app, &mut *self.net, &times)
    }
}

#[test]
fn input_is_bounded_however_much_is_sent() {
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    let pongs = [0x8A, 0x80, 0, 0, 0, 0].repeat(20_000);
    for _ in 0..200 {
        drop(peer.write(&pongs));
        bench.read_and_act(&mut connection);
        let bytes = connection.input.bytes.len();
        assert!(bytes <= READ_BYTES + 16 * 1024, "{bytes} bytes");
    }
    // While the outbox has no room for answers, nothing is read.
    connection.input = Input::default();
    connection.take(NoticeKind::Answer, Cow::Borrowed(&vec![0; OUTBOX_BYTES]), 0);
    bench.read_and_act(&mut connection);
    assert_eq!(connection.input.bytes.len(), 0, "read while its outbox is full");
    connection.readiness.is_reported = false;
    assert!(!connection.wants_turn());
}

#[test]
fn written_bytes_leave_an_outbox_that_is_never_empty() {
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    let mut taken = 0;
    for turn in 0..2_000 {
        connection.take(NoticeKind::Answer, Cow::Borrowed(&vec![0; 100_000]), turn);
        connection.readiness.writable = true;
        bench.flush(&mut connection, turn);
        // The peer keeps some megabytes behind.
        while turn > 200 && connection.outbox.pending() > OUTBOX_BYTES {
            taken += peer.read(&mut vec![0; 100_000]).unwrap_or(0);
            connection.readiness.writable = true;
            bench.flush(&mut connection, turn);
            if connection.outbox.pending() == 0 {
                break;
            }
        }
    }
    assert!(taken > 100_000_000);
    let capacity = connection.outbox.bytes.capacity();
    assert!(capacity < 50_000_000, "{capacity} bytes");
}

/// Two connections on one list, and turns in which they are served.
struct TwoPeers {
    bench: Bench,
    table: ConnectionTable,
    peers: [TcpStream; 2],
    put_off: bool,
    /// At which look at the sockets the second peer sends something; it is not listed before.
    sends_at: Option<usize>,
}

impl TwoPeers {
    fn new() -> Self {
        let (mut bench, mut table) = (Bench::new(), ConnectionTable::default());
        let peers = [0, 1].map(|id| {
            let (connection, peer) = bench.pair(id);
            let at = table.insert(connection);
            table.listed.push(at);
            peer
        });
        TwoPeers { bench, table, peers, put_off: false, sends_at: None }
    }

    fn send(&mut self, peer: usize, times: usize) {
        self.peers[peer].write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x'].repeat(times)).unwrap();
        self.bench.poll();
        self.table.connections[peer].note_readable();
    }

    /// Serves one turn and returns the senders of the texts that the application got, in order.
    fn turn(&mut self, until: u64) -> Vec<u64> {
        let TwoPeers { bench, table, peers, put_off, sends_at } = self;
        let mut turn = bench.context(until);
        let mut scheduler = TurnScheduler { turn: &mut turn, table };
        if scheduler.serve_each(put_off) {
            let (peer, mut looks) = (&mut peers[1], 0);
            scheduler.serve_more(&mut |table, net| {
                looks += 1;
                let sends = *sends_at == Some(looks);
                if sends {
                    peer.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x']).unwrap();
                    net.wait(Some(Duration::ZERO), &mut Vec::new()).unwrap();
                    table.connections[1].note_readable();
                    table.listed.push(1);
                }
                sends
            });
        }
        for (_, connection) in &mut table.connections {
            connection.list_state = ListState::Listed;
            connection.share.frames = 0;
        }
        bench.notices = Notices::default();
        std::mem::take(&mut bench.app.senders)
    }
}

#[test]
fn a_connection_that_asks_little_is_served_first_and_a_flood_every_other_turn() {
    let mut two = TwoPeers::new();
    two.send(0, 100);
    two.send(1, 1);
    // Nothing has waited yet; the answer to the second leaves before the first goes on.
    assert_eq!(two.turn(u64::MAX), [vec![0; FRAMES_AT_A_TIME], vec![1]].concat());
    two.send(1, 1);
    let after = two.turn(0);
    assert_eq!(after, [vec![1], vec![0; FRAMES_OF_A_FLOOD]].concat(), "put off once, not twice");
    two.send(1, 1);
    assert_eq!(two.turn(u64::MAX), [1]);
    // Alone, it goes on until it is time, and at least once when it is time already.
    assert_eq!(two.turn(0), [0; FRAMES_OF_A_FLOOD]);
    assert_eq!(two.turn(u64::MAX).len(), 100 - FRAMES_AT_A_TIME - 2 * FRAMES_OF_A_FLOOD);
}

#[test]
fn new_input_counts_after_a_slow_request_and_not_in_a_flood() {
    let mut two = TwoPeers::new();
    two.bench.app.works_ns = SHARE_NS;
    two.send(0, 1);
    assert_eq!(two.turn(u64::MAX), [0]);
    let connection = &two.table.connections[0];
    assert!(connection.is_busy() && connection.may_ask());
    two.bench.app.works_ns = 0;
    two.send(0, FRAMES_AT_A_TIME + 1);
    assert_eq!(two.turn(u64::MAX).len(), FRAMES_AT_A_TIME + 1);
    assert!(!two.table.connections[0].may_ask());
}

/// A member whose requests are slow opens many connections. Each asks once.
#[test]
fn connections_of_a_payer_with_slow_requests_come_last() {
    let mut two = TwoPeers::new();
    let (mut other, _peer) = two.bench.pair(2);
    two.bench.budget.charge(two.table.connections[0].meter(), 7);
    two.bench.budget.charge(other.meter(), 7);
    two.bench.app.works_ns = SHARE_NS;
    two.send(0, 1);
    assert_eq!(two.turn(u64::MAX), [0]);
    assert!(other.comes_last() && !other.is_busy());
    two.bench.app.works_ns = 0;
    two.send(0, 1);
    assert_eq!(two.turn(u64::MAX), [0], "its own next request is quick");
    two.send(0, 1);
    two.send(1, 1);
    assert_eq!(two.turn(0)[0], 1, "the first of the turn");
    for _ in 0..2 {
        assert!(other.comes_last());
        two.bench.budget.forget_payers();
    }
    assert!(!other.comes_last());
}

#[test]
fn a_connection_that_waits_to_be_written_to_delays_no_request() {
    let mut two = TwoPeers::new();
    let waiting = &mut two.table.connections[0];
    waiting.readiness.readable = false;
    waiting.take(NoticeKind::Notice, Cow::Borrowed(b"notice"), 0);
    waiting.hold_back();
    two.send(1, 1);
    assert_eq!(two.turn(0), [1], "the time is over after the first connection");
    assert!(two.table.connections[0].is_held_back());
}

#[test]
fn input_in_the_middle_of_a_flood_comes_next_and_ends_the_turn() {
    let mut two = TwoPeers::new();
    two.table.listed = vec![0];
    two.send(0, 100);
    two.sends_at = Some(3);
    let before = FRAMES_AT_A_TIME + 2 * FRAMES_OF_A_FLOOD;
    assert_eq!(two.turn(u64::MAX), [vec![0; before], vec![1]].concat());
}

#[test]
fn two_floods_take_turns() {
    let mut two = TwoPeers::new();
    two.send(0, 40);
    two.send(1, 40);
    let round = |frames| [vec![0; frames], vec![1; frames]].concat();
    let rest = round(FRAMES_OF_A_FLOOD).repeat((40 - FRAMES_AT_A_TIME) / FRAMES_OF_A_FLOOD);
    assert_eq!(two.turn(u64::MAX), [round(FRAMES_AT_A_TIME), rest].concat());
}

#[test]
fn a_turn_acts_on_a_bounded_number_of_frames_of_one_connection() {
    let mut two = TwoPeers::new();
    two.send(0, 1_000);
    // A turn in which the machine stops this thread for a while may act on fewer.
    let turns: Vec<usize> = (0..100).map(|_| two.turn(u64::MAX).len()).collect();
    assert_eq!((turns.iter().sum(), turns.iter().max()), (1_000, Some(&FRAMES_PER_TURN)), "{turns:?}");
}

#[test]
fn flood_that_continues_keeps_its_count() {
    let mut two = TwoPeers::new();
    two.send(0, 20);
    assert_eq!(two.turn(u64::MAX), [0; 20]);
    two.send(0, 20);
    two.send(1, 1);
    assert_eq!(two.turn(u64::MAX), [1], "it comes second though it was first on the list");
    assert_eq!(two.turn(0), [0; FRAMES_OF_A_FLOOD], "and in small parts from the first");
    assert_eq!(two.turn(u64::MAX).len(), 20 - FRAMES_OF_A_FLOOD);
    // It asks little again: from the next time on it is served first.
    two.send(0, 1);
    assert_eq!(two.turn(u64::MAX), [0]);
    two.send(0, 1);
    two.send(1, 1);
    assert_eq!(two.turn(u64::MAX), [0, 1]);
}

#[test]
fn connection_with_delayed_answers_stays_on_the_list() {
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    connection.readiness.readable = false;
    connection.take(NoticeKind::Answer, Cow::Borrowed(b"answer"), 0);
    connection.hold_back();
    assert!(connection.wants_turn(), "no event will follow");
    bench.flush(&mut connection, 0);
    let mut got = [0; 16];
    assert_eq!((peer.read(&mut got).unwrap(), &got[..6], connection.wants_turn()), (6, &b"answer"[..], false));
}

#[test]
fn room_that_is_reported_after_the_writing_is_used_in_the_next_turn() {
    const ANSWER: usize = 20_000_000;
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    let mut events = Vec::new();
    connection.readiness.readable = false;
    connection.take(NoticeKind::Answer, Cow::Borrowed(&vec![b'a'; ANSWER]), 0);
    let (mut got, mut turns) = (0, 0);
    while got < ANSWER {
        while connection.is_held_back() || turns == 0 {
            bench.flush(&mut connection, 0);
            turns += 1;
        }
        assert!(!connection.wants_turn(), "it waits for its socket");
        got += peer.read(&mut vec![0; ANSWER]).unwrap_or(0);
        bench.net.wait(Some(Duration::from_millis(1)), &mut events).unwrap();
        for event in &events {
            match event {
                crate::event_loop::LoopEvent::Writable(_) => connection.note_writable(),
                other => panic!("{other:?}"),
            }
        }
        // Whenever there is room again it is reported, and by nothing else.
        assert_eq!(connection.wants_turn(), !events.is_empty());
        turns = 0;
    }
}

#[test]
fn a_turn_writes_a_bounded_number_of_bytes_to_a_connection() {
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    connection.readiness.readable = false;
    connection.take(NoticeKind::Answer, Cow::Borrowed(&vec![b'a'; WRITE_BYTES]), 0);
    connection.take(NoticeKind::Notice, Cow::Borrowed(&vec![b'n'; 2 * 1024 * 1024]), 0);
    let first = bench.flush(&mut connection, 0);
    assert_eq!((first, connection.wants_turn(), connection.stage), (WRITE_BYTES, true, ConnectionStage::Open));
    // The next turn continues. Notices that the venue holds back do not close the connection.
    connection.take(NoticeKind::Notice, Cow::Borrowed(b"n"), 1);
    let second = bench.flush(&mut connection, 1);
    assert!((1..=WRITE_BYTES).contains(&second) && connection.stage == ConnectionStage::Open, "{second} bytes");
    let mut got = vec![0; 4 * WRITE_BYTES];
    let mut read = 0;
    while read < first + second {
        read += peer.read(&mut got[read..]).unwrap_or(0);
    }
    let answer = got[..read].iter().take_while(|byte| **byte == b'a').count();
    assert_eq!((answer, read), (WRITE_BYTES, first + second));
}

#[test]
fn published_frames_leave_behind_an_answer_in_one_write() {
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    connection.readiness.readable = false;
    connection.take(NoticeKind::Answer, Cow::Borrowed(b"answer "), 0);
    (bench.app.published, connection.share.answers) = (b"frame".to_vec(), 1);
    assert_eq!((bench.flush(&mut connection, 0), bench.app.answered_before), (12, 0));
    let mut got = vec![0; 2 * WRITE_BYTES];
    assert_eq!((peer.read(&mut got).unwrap(), &got[..12]), (12, &b"answer frame"[..]));
    // Frames wait while a part of an answer is written, so that a slow peer gets no more of them.
    connection.take(NoticeKind::Answer, Cow::Borrowed(&vec![b'a'; WRITE_BYTES + 1]), 0);
    assert_eq!((bench.flush(&mut connection, 0), connection.is_held_back()), (WRITE_BYTES, true));
    (bench.app.published, connection.share.answers) = (b"frame".to_vec(), 1);
    assert_eq!((bench.flush(&mut connection, 0), bench.app.answered_before), (6, 1));
}

#[test]
fn slow_requests_of_a_connection_run_one_at_a_time_after_the_others() {
    let mut two = TwoPeers::new();
    two.bench.app.works_ns = SHARE_NS;
    two.send(0, 3);
    two.send(1, 1);
    assert_eq!(two.turn(u64::MAX), [0, 1], "one request used up the share");
    two.bench.app.works_ns = 0;
    two.send(1, 1);
    assert_eq!(two.turn(u64::MAX), [1, 0, 0], "the costly connection is busy, so the other comes first");
}

#[test]
fn an_answer_that_is_not_read_ends_the_connection() {
    const SECOND_NS: u64 = 1_000_000_000;
    let mut bench = Bench::new();
    let (mut connection, mut peer) = bench.pair(1);
    let limits = Limits { unread_ns: 30 * SECOND_NS, idle_ns: u64::MAX / 2, ..Limits::default() };
    connection.take(NoticeKind::Answer, Cow::Borrowed(&vec![0; 20_000_000]), SECOND_NS);
    bench.flush(&mut connection, SECOND_NS);
    connection.check_timeouts(&mut bench.notices, &limits, 31 * SECOND_NS);
    assert!(!connection.is_gone(), "the time is not over");
    // The peer reads enough: the time begins anew.
    let mut taken = 0;
    while taken < 2 * PUMP_BYTES {
        let before = connection.outbox.pending();
        let _ = peer.read(&mut vec![0; 4_000_000]);
        bench.poll();
        connection.note_writable();
        bench.flush(&mut connection, 20 * SECOND_NS);
        taken += before - connection.outbox.pending();
    }
    connection.check_timeouts(&mut bench.notices, &limits, 50 * SECOND_NS);
    assert!(!connection.is_gone() && connection.outbox.pending() > 0);
    connection.check_timeouts(&mut bench.notices, &limits, 50 * SECOND_NS + 1);
    assert!(connection.is_gone());
}

#[test]
fn notices_alone_have_no_deadline() {
    let mut bench = Bench::new();
    let (mut connection, _peer) = bench.pair(1);
    let limits = Limits { unread_ns: 1, idle_ns: u64::MAX / 2, ..Limits::default() };
    connection.readiness.writable = false;
    connection.take(NoticeKind::Notice, Cow::Borrowed(b"notice"), 0);
    connection.check_timeouts(&mut bench.notices, &limits, 100);
    assert!(!connection.is_gone(), "the limit of unread notices judges them");
}

#[test]
fn a_connection_waits_while_its_payer_has_too_many_unread_bytes() {
    let mut bench = Bench::new();
    let limits = Limits { outbox_bytes_per_payer: 100_000, ..Limits::default() };
    bench.budget = OutboxBudget::new(&limits);
    let [(mut unread, _silent), (mut asking, mut peer)] = [bench.pair(1), bench.pair(2)];
    for connection in [&mut unread, &mut asking] {
        connection.readiness.writable = false;
        bench.budget.charge(connection.meter(), 7);
    }
    unread.take(NoticeKind::Answer, Cow::Borrowed(&[0; 100_000]), 0);
    peer.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x']).unwrap();
    asking.take(NoticeKind::Answer, Cow::Borrowed(b"unread"), 0);
    bench.read_and_act(&mut asking);
    assert!(bench.app.senders.is_empty() && asking.input.bytes.is_empty());
    drop(unread);
    assert!(bench.budget.take_freed());
    bench.read_and_act(&mut asking);
    assert_eq!(bench.app.senders, [2]);
}
