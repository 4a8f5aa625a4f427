//! The server over real sockets: commit before sending, order, bounds and ends.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use support::{Client, PATIENCE, ServerFrame, UPGRADE, Venue, eventually, frame, request, text, texts};

/// Time in which something that must not happen would have.
const A_WHILE: Duration = Duration::from_millis(150);

// --- nothing leaves before the commit ---

#[test]
fn nothing_leaves_before_the_commit_has_returned() {
    let venue = Venue::up();
    let (mut one, mut other, mut http) = (venue.websocket(), venue.websocket(), venue.client());
    let mut fresh = venue.client();
    http.get("/0?warm");
    http.response();
    // All of it in one turn: replies, a pong, notices and publications to others, responses, a
    // handshake.
    venue.held(|| {
        one.send(&[texts(["hold", "tell:5", "publish:tape"]), frame(0x89, b"p")].concat());
        http.get("/0?answer");
        fresh.send(UPGRADE);
    });
    venue.is_held();
    std::thread::sleep(A_WHILE);
    for client in [&mut one, &mut other, &mut http, &mut fresh] {
        assert!(!client.has_news());
    }
    venue.release();
    let pong = ServerFrame::Pong(b"p".to_vec());
    for expected in [text("hold"), text("tell:5"), text("publish:tape"), pong, text("tape")] {
        assert_eq!(one.got(), expected);
    }
    assert_eq!([other.got(), other.got()], [text("nnnnn"), text("tape")]);
    assert_eq!(http.response(), (200, b"answer;".to_vec()));
    assert_eq!(fresh.response().0, 101);
}

#[test]
fn byte_stream_gets_its_answers_after_the_commit_and_its_end_after_them() {
    let venue = Venue::up();
    let mut stream = TcpStream::connect(venue.streams).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"one\ntw").unwrap();
    let mut first = [0; 4];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"one\n");
    stream.write_all(b"o\nhold\nlater\nafter\n").unwrap();
    venue.is_held();
    std::thread::sleep(A_WHILE);
    stream.set_nonblocking(true).unwrap();
    assert!(stream.read(&mut first).is_err(), "the commit has not returned");
    stream.set_nonblocking(false).unwrap();
    venue.release();
    stream.write_all(b"end\nunread\n").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(String::from_utf8(rest).unwrap(), "two\nhold\nlater\nafter\n");
    drop(stream);
    eventually("the stream ends", || venue.disconnections() == 1);
}

#[test]
fn early_publications_do_not_wait_for_the_commit_and_everything_else_does() {
    let venue = Venue::up();
    let (mut one, mut watcher, mut reader) = (venue.websocket(), venue.websocket(), venue.websocket());
    watcher.ask("watch");
    one.ask("early");
    // In one turn, and its commit is held as well.
    venue.held(|| one.send(&texts(["hold", "feed:5", "publish:tape"])));
    venue.is_held();
    assert_eq!(reader.got(), text("tape"), "while the commit is under way");
    std::thread::sleep(A_WHILE);
    assert!(!one.has_news() && !watcher.has_news());
    venue.release();
    for expected in ["hold", "feed:5", "publish:tape", "tape"] {
        assert_eq!(one.got(), text(expected));
    }
    assert_eq!([watcher.got(), watcher.got()], [text("nnnnn"), text("tape")]);
    one.ask("still served");
    assert!(!reader.has_news(), "one message only");
}

#[test]
fn after_a_failed_commit_nothing_is_sent_and_the_loop_ends() {
    let mut venue = Venue::up();
    let (mut one, mut other, mut http) = (venue.websocket(), venue.websocket(), venue.client());
    http.get("/0");
    http.response();
    venue.held(|| {
        one.send(&texts(["fail", "tell:5", "publish:tape"]));
        http.get("/0");
    });
    assert_eq!(venue.ended().unwrap_err().to_string(), "the disk said no");
    assert_eq!(one.rest(), []);
    assert_eq!(other.rest(), []);
    assert_eq!(http.maybe_response(), None);
}

// --- order ---

#[test]
fn pipelined_requests_are_answered_in_order() {
    let venue = Venue::up();
    let mut client = venue.websocket();
    let questions: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    client.send(&texts(&questions));
    for question in &questions {
        assert_eq!(client.got(), text(question));
    }
    let mut http = venue.client();
    http.send((0..500).map(|n| request(&format!("/0?{n}"))).collect::<String>().as_bytes());
    for n in 0..500 {
        assert_eq!(http.response(), (200, format!("{n};").into_bytes()));
    }
}

#[test]
fn replies_notices_pongs_and_the_end_keep_their_order() {
    let venue = Venue::up();
    let mut client = venue.websocket();
    client.send(&[texts(["mix"]), frame(0x89, b"p"), texts(["mix", "logout", "never"])].concat());
    let mix = || [text("notice 1"), text("reply 1"), text("notice 2"), text("mix")].into_iter();
    let end = [text("logout"), ServerFrame::Close(1000, "logged out".into())];
    let expected: Vec<ServerFrame> = mix().chain([ServerFrame::Pong(b"p".to_vec())]).chain(mix()).chain(end).collect();
    assert_eq!(client.rest(), expected);
    assert_eq!(venue.seen.texts.load(SeqCst), 3, "acted on a message that cannot be answered");
}

#[test]
fn publications_reach_silent_subscribers() {
    let venue = Venue::up();
    let mut listeners: Vec<_> = (0..20).map(|_| venue.websocket()).collect();
    let mut speaker = venue.client();
    speaker.get("/publish:first");
    speaker.response();
    speaker.get("/publish:overrun");
    speaker.response();
    for listener in &mut listeners {
        assert_eq!(listener.rest(), [text("first"), ServerFrame::Close(1013, "overrun".into())]);
    }
}

#[test]
fn a_request_waits_for_a_part_of_the_writing_to_others_only() {
    const LISTENERS: usize = 60;
    let venue = Venue::up();
    let mut listeners: Vec<_> = (0..LISTENERS).map(|_| venue.websocket()).collect();
    let mut asker = venue.websocket();
    listeners[0].send(&texts(["publish:tape", "hold"]));
    // It asks while the publication is committed, and its own commit is held, too.
    venue.is_held();
    asker.say("hold");
    asker.wait_until_delivered();
    venue.release();
    venue.is_held();
    let reached = listeners.iter_mut().map(|listener| usize::from(listener.has_news())).sum::<usize>();
    assert!(reached < LISTENERS / 2, "{reached} of {LISTENERS} connections were written to before");
    venue.release();
    for listener in &mut listeners[1..] {
        assert_eq!(listener.got(), text("tape"));
    }
    let mut all = [asker.got(), asker.got()];
    all.sort_by_key(|frame| *frame == text("tape"));
    assert_eq!(all, [text("hold"), text("tape")]);
}

// --- one client's excess is its own ---

/// A client that pipelines `total` big requests and reads nothing yet.
struct Flood {
    bytes: Vec<u8>,
    total: usize,
    answer: usize,
}

/// Bytes of answers that exceed the socket buffers of the kernel.
const AMPLE: usize = 24 * 1024 * 1024;

#[test]
fn a_client_that_asks_and_does_not_read_is_paused_and_loses_nothing() {
    let venue = Venue::up();
    let http = Flood { bytes: request("/237000").repeat(300).into_bytes(), total: 300, answer: 237_000 };
    let websocket = Flood { bytes: texts(vec!["big:1000000"; 100]), total: 100, answer: 1_000_000 };
    let (mut one, mut two, mut other) = (venue.client(), venue.websocket(), venue.websocket());
    one.send(&http.bytes);
    two.send(&websocket.bytes);
    venue.settles();
    let held = venue.seen.requests.load(SeqCst) * http.answer + venue.seen.texts.load(SeqCst) * websocket.answer;
    assert!(held < AMPLE, "{held} bytes were answered to clients that read none");
    // Waiting for them costs nothing, and others are served.
    let before = venue.turns();
    std::thread::sleep(Duration::from_millis(300));
    assert!(venue.turns() - before < 20, "{} turns while everyone waits", venue.turns() - before);
    other.ask("hello");
    for _ in 0..http.total {
        assert_eq!(one.response().1.len(), http.answer);
    }
    for _ in 0..websocket.total {
        assert!(matches!(two.got(), ServerFrame::Text(body) if body.len() == websocket.answer));
    }
    // After it has read its answers it goes on as before.
    one.get("/0?on");
    assert_eq!(one.response().1, b"on;");
    two.ask("on");
}

#[test]
fn one_connection_gets_a_share_of_a_turn_not_all_of_it() {
    let venue = Venue::up();
    let (mut busy, mut other) = (venue.websocket(), venue.websocket());
    venue.held(|| busy.send(&texts(vec!["x"; 20_000])));
    other.ask("hello");
    for _ in 0..20_000 {
        assert_eq!(busy.got(), text("x"));
    }
    let most = venue.seen.most_texts_in_a_turn.load(SeqCst);
    assert!(most <= 256, "{most} messages of one connection in one turn");
}

#[test]
fn a_flood_beside_a_small_client_is_answered_in_full_and_in_order() {
    let venue = Venue::up();
    let (mut busy, mut other) = (venue.websocket(), venue.websocket());
    let questions: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let (flood, after) = questions.split_at(10_000);
    busy.send(&texts(flood));
    for n in 0..300 {
        other.ask(&n.to_string());
    }
    busy.send(&texts(after));
    for question in &questions {
        assert_eq!(busy.got(), text(question));
    }
}

#[test]
fn a_slow_reader_does_not_stop_the_others() {
    let venue = Venue::up();
    let (mut slow, mut other) = (venue.websocket(), venue.websocket());
    slow.send(&texts(vec!["big:4000000"; 10]));
    for n in 0..200 {
        other.ask(&n.to_string());
    }
    for _ in 0..10 {
        assert!(matches!(slow.got(), ServerFrame::Text(body) if body.len() == 4_000_000));
    }
}

#[test]
fn waiting_for_nothing_costs_no_turns() {
    let venue = Venue::up();
    let mut clients: Vec<_> = (0..50).map(|_| venue.websocket()).collect();
    clients[7].ask("hello");
    venue.settles();
    let before = venue.turns();
    std::thread::sleep(Duration::from_millis(300));
    assert!(venue.turns() - before < 10, "{} turns", venue.turns() - before);
}

// --- notices ---

#[test]
fn a_burst_of_notices_does_not_close_the_connection_that_reads_them() {
    let venue = Venue::up();
    let mut client = venue.websocket();
    // What cancelling everything does, and more than the kernel takes at once.
    client.say("burst:8000:4000");
    for _ in 0..8_000 {
        assert!(matches!(client.got(), ServerFrame::Text(body) if body.len() == 4_000));
    }
    assert_eq!(client.got(), text("burst:8000:4000"));
    client.ask("still here");
}

#[test]
fn answers_that_wait_do_not_count_as_notices_that_are_not_read() {
    let venue = Venue::up();
    let (mut client, mut other) = (venue.websocket(), venue.websocket());
    client.say("big:30000000");
    eventually("the answer is on its way", || client.has_news());
    other.ask("tell:10");
    assert!(matches!(client.got(), ServerFrame::Text(body) if body.len() == 30_000_000));
    assert_eq!(client.got(), text("nnnnnnnnnn"));
    client.ask("still here");
}

#[test]
fn a_connection_that_does_not_read_its_notices_is_closed_with_a_reason() {
    let venue = Venue::up();
    let (mut deaf, mut other) = (venue.websocket(), venue.websocket());
    for _ in 0..400 {
        other.ask("tell:100000");
    }
    let all = deaf.rest();
    let Some((ServerFrame::Close(code, reason), notices)) = all.split_last() else { panic!("{} messages", all.len()) };
    assert_eq!((*code, reason.as_str()), (1013, "too slow: notices are not being read"));
    assert!(notices.len() < AMPLE / 100_000, "{} notices were kept for it", notices.len());
    other.ask("still here");
}

#[test]
fn notices_of_a_disconnection_are_delivered_at_once() {
    let venue = Venue::up();
    let mut stays = venue.websocket();
    stays.ask("watch");
    let started = Instant::now();
    for _ in 0..20 {
        drop(venue.websocket());
        assert_eq!(stays.got(), text("a client left"));
    }
    // The sweep would have picked it up, once a second: in some twenty.
    assert!(started.elapsed() < Duration::from_secs(12));
}

// --- time ---

#[test]
fn only_a_peer_that_owes_the_rest_of_a_message_is_timed_out() {
    let venue = Venue::up();
    let whole = frame(0x81, b"whole");
    let (front, back) = whole.split_at(4);
    let (mut busy, mut pinging, mut held) = (venue.websocket(), venue.websocket(), venue.websocket());
    let (mut owing, mut silent, mut fragments) = (venue.websocket(), venue.client(), venue.websocket());
    let mut stalled = venue.websocket();
    // Between the two halves it gets a notice that fills its outbox, so the second is not read.
    stalled.ask("watch");
    stalled.send(front);
    let mut feeder = venue.client();
    feeder.get("/feed:30000000");
    feeder.response();
    // What others do must not count against it on a slow machine.
    feeder.get("/forget");
    feeder.response();
    stalled.send(back);
    // Answers fill the outbox; the last question waits in two halves.
    held.send(&[texts(vec!["big:1000000"; 30]), front.to_vec()].concat());
    owing.send(front);
    fragments.send(&frame(0x01, b"begun"));
    busy.send(front);
    let ping = frame(0x89, b"p");
    pinging.send(&ping[..3]);
    let started = Instant::now();
    let (mut sent, mut last_received, mut fragments) = (0, None, Some(fragments));
    while started.elapsed() < Duration::from_millis(7_500) {
        std::thread::sleep(Duration::from_millis(100));
        // There is always half a message when the loop looks.
        busy.send(&[back, front].concat());
        pinging.send(&[&ping[3..], &ping[..3]].concat());
        // Pings in between do not make up for a message that never ends.
        if sent < 45 {
            fragments.as_mut().unwrap().send(&ping);
        } else if let Some(mut fragments) = fragments.take() {
            last_received = Some(std::thread::spawn(move || (fragments.rest().pop(), started.elapsed())));
        }
        sent += 1;
    }
    let too_late = || ServerFrame::Close(1008, "not finished within 5 s".into());
    let (last, when) = last_received.unwrap().join().unwrap();
    assert_eq!(last, Some(too_late()));
    assert!(when < Duration::from_secs(9), "the pings bought it time");
    assert_eq!(owing.rest(), [too_late()]);
    assert_eq!(silent.maybe_response(), None);
    for _ in 0..sent {
        assert_eq!(busy.got(), text("whole"));
        assert_eq!(pinging.got(), ServerFrame::Pong(b"p".to_vec()));
    }
    busy.send(back);
    assert_eq!(busy.got(), text("whole"));
    for _ in 0..30 {
        assert!(matches!(held.got(), ServerFrame::Text(body) if body.len() == 1_000_000));
    }
    held.send(back);
    assert_eq!(held.got(), text("whole"));
    assert!(matches!(stalled.got(), ServerFrame::Text(body) if body.len() == 30_000_000));
    assert_eq!(stalled.got(), text("whole"));
}

// --- ends ---

#[test]
fn an_end_together_with_the_last_request_is_seen_and_the_request_answered() {
    let venue = Venue::up();
    let (mut http, mut websocket) = (venue.client(), venue.websocket());
    http.get("/0");
    http.response();
    venue.settles();
    // While the loop is busy, data and the end become one event.
    venue.held(|| {
        http.send((0..100).map(|n| request(&format!("/100000?{n}"))).collect::<String>().as_bytes());
        http.half_close();
        websocket.send(&texts(["one", "two"]));
        websocket.half_close();
    });
    for n in 0..100 {
        let (_, body) = http.response();
        assert!(body.starts_with(format!("{n};").as_bytes()) && body.len() == 100_000);
    }
    assert_eq!(http.maybe_response(), None);
    assert_eq!(websocket.rest(), [text("one"), text("two")]);
    eventually("the application learns of it", || venue.disconnections() == 1);
    std::thread::sleep(A_WHILE);
    assert_eq!(venue.disconnections(), 1);
}

#[test]
fn every_websocket_is_disconnected_exactly_once_however_it_ends() {
    let mut venue = Venue::up();
    let mut clients: Vec<_> = (0..8).map(|_| venue.websocket()).collect();
    clients[0].half_close();
    clients[1].say("logout");
    clients[2].send(&frame(0x88, &[]));
    clients[3].send(&frame(0x82, b"binary"));
    clients[4].send(&[0x81, 0x01, b'a']);
    // Ends while answers are on their way that it does not read.
    clients[5].send(&texts(vec!["big:1000000"; 20]));
    eventually("answers are on their way", || clients[5].has_news());
    for client in &mut clients[1..5] {
        client.rest();
    }
    clients.truncate(5);
    clients.clear();
    eventually("all are gone", || venue.disconnections() == 8);
    let mut plain = venue.client();
    plain.get("/0");
    plain.response();
    let last = venue.websocket();
    venue.ask_to_stop();
    venue.ended().unwrap();
    let mut ids = venue.seen.disconnected.lock().unwrap().clone();
    assert_eq!(ids.len(), 9);
    ids.dedup();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 9);
    assert_eq!(venue.seen.connected.load(SeqCst), 9);
    drop(last);
}

#[test]
fn valid_requests_are_answered_before_the_close_they_came_with() {
    let code = |code: u16| frame(0x88, &[&code.to_be_bytes()[..], b"bye"].concat());
    let table: [(&str, Vec<u8>, u16); 7] = [
        ("a close with a code", code(3001), 3001),
        ("a close going away", code(1001), 1001),
        ("a close without a code", frame(0x88, &[]), 1000),
        ("binary", frame(0x82, b"x"), 1003),
        ("unmasked", vec![0x81, 0x01, b'a'], 1002),
        ("bad text", frame(0x81, &[0xFF]), 1007),
        ("oversize", [frame(0x81, &[b'x'; 40_000]), vec![0; 300_000]].concat(), 1009),
    ];
    let venue = Venue::up();
    for (name, end, expected) in table {
        let mut client = venue.websocket();
        let never = if expected == 1009 { Vec::new() } else { texts(["never"]) };
        client.send(&[texts(["one", "two"]), end, never].concat());
        let got = client.rest();
        assert_eq!(got[..2], [text("one"), text("two")], "{name}");
        assert!(matches!(&got[2..], [ServerFrame::Close(code, _)] if *code == expected), "{name}: {:?}", &got[2..]);
    }
    let mut http = venue.client();
    http.send(format!("{}nonsense\r\n\r\n", request("/0?one")).as_bytes());
    assert_eq!(http.response(), (200, b"one;".to_vec()));
    assert_eq!(http.response().0, 400);
    assert_eq!(http.maybe_response(), None);
}

#[test]
fn written_bytes_arrive_although_the_peer_sent_more_than_was_read() {
    let venue = Venue::up();
    let mut client = venue.websocket();
    client.send(&[texts(["big:8000000"]), frame(0x88, &3001_u16.to_be_bytes())].concat());
    client.send_until_stuck(&vec![0; 1_000_000]);
    assert!(matches!(client.got(), ServerFrame::Text(body) if body.len() == 8_000_000));
    assert_eq!(client.rest(), [ServerFrame::Close(3001, String::new())]);
}

// --- stopping ---

#[test]
fn stopping_gives_a_reason_and_does_not_spin_for_slow_readers() {
    let mut venue = Venue::up();
    let (mut reads, mut deaf, mut idle) = (venue.websocket(), venue.websocket(), venue.client());
    idle.get("/0");
    idle.response();
    deaf.send(&texts(vec!["big:1000000"; 30]));
    venue.settles();
    venue.seen.always_due_when_stopping.store(true, SeqCst);
    let before = venue.turns();
    venue.ask_to_stop();
    assert_eq!(reads.rest(), [ServerFrame::Close(1001, "the toy is stopping".into())]);
    assert_eq!(idle.maybe_response(), None);
    venue.ended().unwrap();
    assert!(venue.turns() - before < 50, "{} turns while stopping", venue.turns() - before);
}

#[test]
fn stopping_does_not_wait_for_connections_that_have_their_close_frame() {
    let started = Instant::now();
    for _ in 0..4 {
        let mut venue = Venue::up();
        let _open = [venue.client(), venue.websocket()];
        venue.ask_to_stop();
        venue.ended().unwrap();
    }
    // Two seconds each, if it waited.
    assert!(started.elapsed() < Duration::from_secs(7));
}

/// A hundred connections that come at once are all accepted, and open ones are served in between.
#[test]
fn connections_that_come_at_once_are_accepted_over_several_turns() {
    let venue = Venue::up();
    let many: Vec<_> = venue.held(|| (0..100).map(|_| venue.client()).collect());
    // Also the connection that held the loop.
    eventually("all have been let in", || venue.seen.came.load(SeqCst) == many.len() + 1);
    let most = venue.seen.most_came_in_a_turn.load(SeqCst);
    assert!(most <= 16, "{most} in one turn");
}

#[test]
fn a_session_waits_for_a_few_other_connections_only() {
    let venue = Venue::up();
    let mut session = venue.websocket();
    let mut many: Vec<_> = (0..200).map(|_| venue.client()).collect();
    for one in &mut many {
        one.get("/0");
        assert_eq!(one.response().0, 200);
    }
    let before = venue.seen.requests.load(SeqCst) + 1;
    venue.held(|| {
        many.iter_mut().for_each(|one| one.get("/0"));
        // Behind all of them; their responses are held with its own answer.
        session.send(&texts(["hold"]));
        many.iter().chain([&session]).for_each(Client::wait_until_delivered);
    });
    venue.is_held();
    let served = venue.seen.requests.load(SeqCst) - before;
    // The rule is one turn of 16. A busy kernel may report the bytes of the session some turns
    // late.
    assert!(served <= 100, "{served} of 200 were served first");
    venue.release();
    assert_eq!(session.got(), text("hold"));
    for one in &mut many {
        assert_eq!(one.response().0, 200, "they are all served by and by");
    }
}

#[test]
fn connection_that_sends_more_queues_behind_the_waiting_ones() {
    let venue = Venue::up();
    let mut busy: Vec<_> = (0..16).map(|_| venue.client()).collect();
    let mut last = venue.client();
    for one in busy.iter_mut().chain([&mut last]) {
        one.get("/0");
        assert_eq!(one.response().0, 200);
    }
    let before = venue.seen.requests.load(SeqCst) + 1;
    venue.held(|| {
        for one in &mut busy {
            one.send(request("/0").repeat(1_000).as_bytes());
        }
        last.get("/hold");
        busy.iter().chain([&last]).for_each(Client::wait_until_delivered);
    });
    venue.is_held();
    let served = venue.seen.requests.load(SeqCst) - before;
    // Each of them has had one read, which brings about 128 requests, or two.
    assert!(served < 4_200, "{served} of 16,000 were served first");
    venue.release();
    assert_eq!(last.response().0, 200);
}
