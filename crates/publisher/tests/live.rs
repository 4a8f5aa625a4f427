//! Tests over real sockets on loopback.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Reader, Stage, masked, number, spec};
use pitwire_publisher::{
    BatchingPolicy, Ingest, LagPolicy, Options, Publisher, StreamSpec, SubscriberId, SubscriberLimits, counted, weight,
};

#[test]
fn every_reader_gets_every_message_in_order() {
    for threads in [1, 3] {
        let mut stage = Stage::new(Options { threads, ..Options::default() }, &spec(LagPolicy::Close));
        let mut readers: Vec<Reader> = (0..50).map(|_| Reader::join(stage.address, "/")).collect();
        stage.wait_for_listeners(50);
        for size in [50, 200, 5_000] {
            for _ in 0..10 {
                stage.say("", size);
            }
            stage.send();
        }
        for reader in &mut readers {
            assert!((1..=30).all(|expected| reader.seq() == expected));
        }
        stage.publisher.stop("that was all").unwrap();
        assert!(readers.iter_mut().all(|reader| reader.close_code() == Some(1001)));
    }
}

#[test]
fn port_is_exclusive_and_every_thread_gets_connections() {
    let on = |address, threads| {
        let options = Options { listen: Some(address), threads, ..Options::default() };
        Publisher::start(options, std::sync::Arc::new(common::OneStreamHandler::default()))
    };
    let first = Stage::new(Options { threads: 3, ..Options::default() }, &spec(LagPolicy::Close));
    for threads in [1, 3] {
        let error = on(first.address, threads).err().expect("the port is taken");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{threads} threads: {error}");
    }
    // The kernel spreads connections over the three threads. The chance that one gets none of 150
    // is 1 in 10^26.
    let readers: Vec<Reader> = (0..150).map(|_| Reader::join(first.address, "/")).collect();
    let counts: Vec<u64> =
        first.publisher.statistics().all().iter().map(|thread| thread.connections.load(Ordering::Relaxed)).collect();
    assert!(counts.iter().all(|count| *count > 0) && counts.iter().sum::<u64>() == 150, "{counts:?}");
    drop(readers);
}

#[test]
fn request_that_ends_at_once_is_answered() {
    let stage = Stage::new(Options::default(), &spec(LagPolicy::Close));
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        stage.address
    );
    let request = [head.as_bytes(), &masked(0x89, b"early")].concat();
    for _ in 0..50 {
        let mut client = TcpStream::connect(stage.address).unwrap();
        client.write_all(&request).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", answer.escape_ascii());
        assert!(answer.ends_with(b"\x8a\x05early"), "{}", answer.escape_ascii());
    }
}

#[test]
fn stopped_reader_gets_gaps_and_others_miss_nothing() {
    let options = Options { send_buffer_bytes: 4096, ..Options::default() };
    let mut stage = Stage::new(options, &spec(LagPolicy::Conflate));
    let mut stopped = Reader::ask(stage.address, "/", Some(4096));
    let mut healthy = Reader::join(stage.address, "/");
    stage.wait_for_listeners(2);
    for n in 0..5_000 {
        stage.say(["a", "b", "c"][n % 3], 200);
        stage.send();
        assert_eq!(healthy.seq(), stage.seq);
    }
    // It reads again: pending messages, the gap notice, the newest of each key in the gap, then new
    // messages. It may fall behind again.
    let (mut next, mut gaps, mut missed) = (1, 0, 0);
    while next <= 5_000 {
        let text = stopped.text();
        if let Some(seq) = number(&text, "seq") {
            assert_eq!(seq, next, "nothing is missing that is not declared");
            next += 1;
            continue;
        }
        let (from, to) = (number(&text, "from").unwrap(), number(&text, "to").unwrap());
        assert_eq!(from, next);
        // Three keys take turns, so the newest of each are the last three.
        let newest = to.saturating_sub(2).max(from)..=to;
        newest.for_each(|expected| assert_eq!(stopped.seq(), expected));
        (next, gaps, missed) = (to + 1, gaps + 1, missed + (to - from));
    }
    assert!(gaps >= 1 && missed > 1_000, "{gaps} gaps of {missed} messages");
    stage.say("b", 200);
    stage.send();
    assert_eq!((stopped.seq(), healthy.seq()), (5_001, 5_001));
}

#[test]
fn slow_reader_of_deltas_is_closed_between_frames() {
    let options = Options { send_buffer_bytes: 4096, ..Options::default() };
    let mut stage = Stage::new(options, &spec(LagPolicy::Close));
    let mut stopped = Reader::ask(stage.address, "/", Some(4096));
    let mut healthy = Reader::join(stage.address, "/");
    stage.wait_for_listeners(2);
    for _ in 0..3_000 {
        stage.say("", 300);
        stage.send();
        assert_eq!(healthy.seq(), stage.seq);
    }
    let mut last = 0;
    let code = loop {
        match stopped.frame().expect("a close frame") {
            (1, payload) => {
                let seq = number(std::str::from_utf8(&payload).unwrap(), "seq").unwrap();
                assert_eq!(seq, last + 1);
                last = seq;
            }
            (8, payload) => break u16::from_be_bytes([payload[0], payload[1]]),
            _ => {}
        }
    };
    assert_eq!(code, 1013);
    assert!(last < 3_000);
}

#[test]
fn new_reader_gets_no_gap_and_no_duplicate() {
    let snapshot = StreamSpec { snapshot: true, ..spec(LagPolicy::Conflate) };
    let mut stage = Stage::new(Options::default(), &snapshot);
    for n in 0..100 {
        stage.say(["a", "b"][n % 2], 100);
    }
    stage.send();
    let address = stage.address;
    let joiners: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut numbers = Vec::new();
                for _ in 0..20 {
                    let mut reader = Reader::join(address, "/");
                    // First the newest of keys a and b, then every message.
                    numbers.push((0..20).map(|_| reader.seq()).collect::<Vec<u64>>());
                }
                numbers
            })
        })
        .collect();
    let mut joined = 0;
    let mut handles = joiners;
    while !handles.is_empty() {
        stage.say(["a", "b"][(stage.seq % 2) as usize], 100);
        stage.send();
        std::thread::sleep(Duration::from_micros(200));
        let (done, open): (Vec<_>, Vec<_>) = handles.into_iter().partition(std::thread::JoinHandle::is_finished);
        for handle in done {
            for numbers in handle.join().unwrap() {
                joined += 1;
                assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
            }
        }
        handles = open;
    }
    assert_eq!(joined, 160);
}

#[test]
fn resumed_reader_gets_missed_messages() {
    let mut stage = Stage::new(Options::default(), &spec(LagPolicy::Conflate));
    for _ in 0..100 {
        stage.say("", 100);
    }
    stage.send();
    // A reader that disconnects before its first message resumes with the number from the
    // handshake.
    let tag_of =
        |reader: &Reader| reader.head.lines().find_map(|line| Some(line.strip_prefix("Pitwire-Resume: ")?.to_owned()));
    let fresh = Reader::join(stage.address, "/");
    assert_eq!(tag_of(&fresh).as_deref(), Some("7:100"));
    let mut reader = Reader::join(stage.address, "/?from=7:97");
    assert_eq!(tag_of(&reader).as_deref(), Some("7:97"));
    assert_eq!([reader.seq(), reader.seq(), reader.seq()], [98, 99, 100]);
    // An up-to-date reader gets new messages only.
    let mut current = Reader::join(stage.address, "/?from=7:100");
    assert_eq!(tag_of(&current).as_deref(), Some("7:100"));
    for _ in 0..1_000 {
        stage.say("", 100);
        stage.send();
        assert_eq!(current.seq(), stage.seq);
    }
    // Messages that the ring has lost are declared, and the newest one follows.
    let mut late = Reader::join(stage.address, "/?from=7:100");
    assert_eq!(tag_of(&late).as_deref(), Some("7:100"));
    let gap = late.text();
    assert_eq!((number(&gap, "from"), number(&gap, "to")), (Some(101), Some(1_100)), "{gap}");
    assert_eq!(late.seq(), 1_100);
    // An epoch of another start, and a number that has not been published yet.
    for from in ["6:1099", "7:5000"] {
        let mut stranger = Reader::join(stage.address, &format!("/?from={from}"));
        assert_eq!(tag_of(&stranger).as_deref(), Some("7:1100"));
        assert_eq!(stranger.text(), r#"{"type":"snapshot","epoch":7,"seq":1100}"#);
        assert_eq!(stranger.seq(), 1_100);
    }
}

#[test]
fn symbol_filter_and_envelope_apply_per_reader() {
    let mut stage = Stage::new(Options::default(), &spec(LagPolicy::Conflate));
    let mut chosen = Reader::join(stage.address, "/?symbols=b,d");
    let mut enveloped = Reader::join(stage.address, "/?envelope=1");
    stage.wait_for_listeners(2);
    for n in 0..100 {
        stage.say(["a", "b", "c", "d", "e"][n % 5], 100);
        if n % 7 == 0 {
            stage.send();
        }
    }
    stage.send();
    let expected: Vec<u64> = (1..=100).filter(|seq| [2, 4].contains(&(seq % 5))).collect();
    assert_eq!((0..40).map(|_| chosen.seq()).collect::<Vec<u64>>(), expected);
    for seq in 1..=100 {
        let text = enveloped.text();
        let opening = format!(r#"{{"channel":"test","epoch":7,"seq":{seq},"data":{{"seq":{seq},"#);
        assert!(text.starts_with(&opening) && text.ends_with("\"}}"), "{text}");
    }
}

#[test]
fn echoes_pongs_and_prepared_answers_are_sent() {
    let answer = (0..3).map(|n| vec![b'0' + n; 50_000]).collect();
    let stage = Stage::new(Options { answer, ..Options::default() }, &spec(LagPolicy::Conflate));
    let mut reader = Reader::join(stage.address, "/");
    reader.say(1, b"hello");
    reader.say(2, &[0, 255]);
    reader.say(9, b"are you there");
    reader.say(9, &[7; 100]);
    assert_eq!(reader.frame(), Some((1, b"hello".to_vec())));
    assert_eq!(reader.frame(), Some((2, vec![0, 255])));
    let mut pongs = vec![reader.frame().unwrap(), reader.frame().unwrap()];
    pongs.sort_by_key(|(_, payload)| payload.len());
    assert_eq!(pongs, [(10, b"are you there".to_vec()), (10, vec![7; 100])]);
    reader.say(1, b"respond");
    reader.say(1, b"respond");
    for n in [0, 1, 2, 0, 1, 2] {
        assert_eq!(reader.frame(), Some((1, vec![b'0' + n; 50_000])));
    }
    reader.say(8, &[0x0F, 0xA0]);
    assert_eq!(reader.frame(), Some((8, vec![0x0F, 0xA0])), "its own code, 4000, comes back");
    assert_eq!(reader.frame(), None);
}

#[test]
fn client_that_sends_without_reading_is_paused() {
    let stage = Stage::new(Options { send_buffer_bytes: 4096, ..Options::default() }, &spec(LagPolicy::Conflate));
    let mut reader = Reader::ask(stage.address, "/", Some(4096));
    reader.socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let frame = masked(0x81, &[b'x'; 1_000]);
    let mut sent = 0;
    // Writes succeed until the kernel's buffers and ours are full.
    while sent < 100_000_000 && reader.socket.write_all(&frame).is_ok() {
        sent += frame.len();
    }
    assert!(sent < 50_000_000, "{sent} bytes went in and none came out");
    // Other clients are not affected.
    let mut other = Reader::join(stage.address, "/");
    other.say(1, b"hello");
    assert_eq!(other.text(), "hello");
}

#[test]
fn refusal_gets_a_response_and_violation_a_close_code() {
    let stage = Stage::new(Options::default(), &spec(LagPolicy::Conflate));
    assert!(Reader::ask(stage.address, "/nowhere", None).head.starts_with("HTTP/1.1 404"));
    for (bytes, code) in [
        (vec![0x81, 0x01, b'a'], 1002),
        (masked(0xC1, b"a"), 1002),
        (masked(0x81, &[0xFF]), 1007),
        (vec![0x82, 0xFF, 0, 0, 0, 0, 0x7F, 0, 0, 0, 0, 0, 0, 0], 1009),
    ] {
        let mut reader = Reader::join(stage.address, "/");
        reader.socket.write_all(&bytes).unwrap();
        assert_eq!(reader.close_code(), Some(code));
        assert_eq!(reader.frame(), None, "then the end");
    }
    // Frames that arrive together with the request are handled.
    let mut socket = std::net::TcpStream::connect(stage.address).unwrap();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        stage.address
    );
    socket.write_all(&[head.as_bytes(), &masked(0x81, b"early"), &masked(0x88, &[0x03, 0xE8])].concat()).unwrap();
    let mut all = Vec::new();
    socket.read_to_end(&mut all).unwrap();
    assert!(all.ends_with(b"\x81\x05early\x88\x02\x03\xE8"), "{}", String::from_utf8_lossy(&all));
}

#[test]
fn health_check_works_at_the_connection_limit() {
    let plain = |address, path: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    };
    for (most, per_address, status) in [(2, None, 503), (usize::MAX, Some(2), 429)] {
        let options = Options { connections_most: most, per_address, ..Options::default() };
        let stage = Stage::new(options, &spec(LagPolicy::Conflate));
        let readers: Vec<Reader> = (0..2).map(|_| Reader::join(stage.address, "/")).collect();
        let refused = counted(stage.publisher.statistics(), "refused_total");
        for _ in 0..10 {
            assert!(plain(stage.address, "/healthz").ends_with("\r\n\r\nwell\n"));
        }
        assert_eq!(counted(stage.publisher.statistics(), "refused_total"), refused, "no client was refused");
        let head = Reader::ask(stage.address, "/", None).head;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")) && head.contains("Retry-After: "), "{head}");
        assert_eq!(counted(stage.publisher.statistics(), "refused_total"), refused + 1);
        drop(readers);
    }
}

#[test]
fn silent_or_unfinished_client_is_closed() {
    let limits = SubscriberLimits { unfinished_ms: 300, ..SubscriberLimits::default() };
    let stage = Stage::new(Options { limits, ..Options::default() }, &spec(LagPolicy::Conflate));
    // A request that is never finished, and one that is never started.
    let mut slow = std::net::TcpStream::connect(stage.address).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: x").unwrap();
    let mut text = String::new();
    slow.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    let mut silent = std::net::TcpStream::connect(stage.address).unwrap();
    assert_eq!(silent.read(&mut [0; 10]).unwrap(), 0);
    // One client never answers a ping. The other answers for longer than the idle timeout.
    let limits = SubscriberLimits { unfinished_ms: 3_000, idle_ms: 3_000, ping_ms: 300, ..SubscriberLimits::default() };
    let stage = Stage::new(Options { limits, ..Options::default() }, &spec(LagPolicy::Conflate));
    let mut mute = Reader::join(stage.address, "/");
    let mut polite = Reader::join(stage.address, "/");
    let mut pings = 0;
    while pings < 12 {
        if let (9, payload) = polite.frame().unwrap() {
            polite.say(10, &payload);
            pings += 1;
        }
    }
    assert_eq!(mute.close_code(), Some(1008));
    // A message that is never finished.
    let mut half = Reader::join(stage.address, "/");
    half.socket.write_all(&masked(0x01, b"to be continued")).unwrap();
    assert_eq!(half.close_code(), Some(1008));
}

#[test]
fn request_timeout_starts_at_connection_after_an_idle_time() {
    let limits = SubscriberLimits { unfinished_ms: 5_000, ..SubscriberLimits::default() };
    let stage = Stage::new(Options { limits, ..Options::default() }, &spec(LagPolicy::Conflate));
    // Without connections the thread sleeps.
    std::thread::sleep(Duration::from_millis(5_600));
    let mut late = TcpStream::connect(stage.address).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    late.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    late.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 "), "dropped before it could ask");
}

#[test]
fn flooding_client_does_not_delay_others() {
    let mut stage = Stage::new(Options { threads: 1, ..Options::default() }, &spec(LagPolicy::Close));
    let mut reader = Reader::join(stage.address, "/");
    let mut flood = Reader::join(stage.address, "/").socket;
    stage.wait_for_listeners(2);
    let pongs = masked(0x8A, b"").repeat(100_000);
    let flooding = std::thread::spawn(move || while flood.write_all(&pongs).is_ok() {});
    // The socket of the flooding client is full by now, and stays full.
    std::thread::sleep(Duration::from_millis(300));
    for expected in 1..=20 {
        stage.say("k", 100);
        stage.send();
        assert_eq!(reader.seq(), expected);
    }
    drop(stage);
    flooding.join().unwrap();
}

/// Takes the waiting messages, answers them, and reports them as handled.
fn take_texts(stage: &Stage) -> Vec<(SubscriberId, String)> {
    let waiting = std::mem::take(&mut *stage.handler.waiting.lock().unwrap());
    for (tag, text) in &waiting {
        stage.publisher.send_text(*tag, text.as_bytes());
        stage.publisher.processed(*tag, weight(text.len()));
    }
    waiting
}

#[test]
fn client_with_unprocessed_messages_is_paused_without_loss() {
    let stage = Stage::new(Options::default(), &spec(LagPolicy::Conflate));
    let mut reader = Reader::join(stage.address, "/");
    let texts: Vec<String> = (0..1_000).map(|n| format!("later-{n}-{}", "x".repeat(n % 7 * 400))).collect();
    let frames: Vec<u8> = texts.iter().flat_map(|text| masked(0x81, text.as_bytes())).collect();
    let mut socket = reader.socket.try_clone().unwrap();
    let saying = std::thread::spawn(move || {
        socket.write_all(&frames).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let (mut received, mut other) = (Vec::new(), Reader::join(stage.address, "/"));
    while received.len() < texts.len() {
        other.say(1, b"still there");
        assert_eq!(other.text(), "still there");
        let waiting: u32 = stage.handler.waiting.lock().unwrap().iter().map(|(_, text)| weight(text.len())).sum();
        assert!(waiting < 64 + weight(3_000), "{waiting} wait");
        let acted_on = take_texts(&stage);
        // The last answers arrive although the client has shut its sending side.
        acted_on.iter().for_each(|(_, text)| assert_eq!(reader.text(), *text));
        received.extend(acted_on.into_iter().map(|(_, text)| text));
    }
    saying.join().unwrap();
    assert_eq!(received, texts);
    assert_eq!(reader.frame(), None);
}

fn say_to_all(stage: &mut Stage, readers: &mut [(Reader, u64)]) {
    for n in 0..20 {
        stage.say(["a", "b"][n % 2], 100);
        stage.send();
    }
    for (reader, step) in readers {
        let all = stage.seq - 19..=stage.seq;
        all.filter(|seq| seq % *step == 0).for_each(|seq| assert_eq!(reader.seq(), seq));
    }
}

#[test]
fn an_address_limit_counts_open_connections() {
    let options = Options { per_address: Some(4), ..Options::default() };
    let mut stage = Stage::new(options, &spec(LagPolicy::Close));
    let mut readers: Vec<(Reader, u64)> = (0..4).map(|_| (Reader::join(stage.address, "/"), 1)).collect();
    stage.wait_for_listeners(4);
    say_to_all(&mut stage, &mut readers);
    assert!(Reader::ask(stage.address, "/", None).head.starts_with("HTTP/1.1 429"));
    drop(readers.drain(..3));
    let began = std::time::Instant::now();
    while !Reader::ask(stage.address, "/", None).head.starts_with("HTTP/1.1 101") {
        assert!(began.elapsed() < common::PATIENCE, "closed connections still count");
        std::thread::sleep(Duration::from_millis(10));
    }
    stage.publisher.stop("that was all").unwrap();
    assert!(readers.iter_mut().all(|(reader, _)| reader.close_code() == Some(1001)));
}

#[test]
fn stopping_under_load_sends_every_reader_the_last_message_and_a_close_frame() {
    let options = Options { threads: 3, ..Options::default() };
    for round in 1..6 {
        let mut stage = Stage::new(options.clone(), &spec(LagPolicy::Close));
        let mut readers: Vec<(Reader, u64)> = (0..100).map(|_| (Reader::join(stage.address, "/"), 1)).collect();
        stage.wait_for_listeners(100);
        (0..round).for_each(|_| say_to_all(&mut stage, &mut readers));
        stage.say("a", 100);
        stage.send();
        let last = stage.seq;
        std::thread::scope(|scope| {
            let stopping = scope.spawn(|| stage.publisher.stop("that was all"));
            for (mut reader, _) in readers {
                assert_eq!(reader.seq(), last);
                assert_eq!(reader.close_code(), Some(1001));
            }
            stopping.join().unwrap().unwrap();
        });
    }
}

#[test]
fn throughput_batching_delivers_everything_in_fewer_sends() {
    let sends = |batching| {
        let options = Options { batching, ..Options::default() };
        let mut stage = Stage::new(options, &spec(LagPolicy::Close));
        let mut reader = Reader::join(stage.address, "/");
        stage.wait_for_listeners(1);
        for _ in 0..200 {
            stage.say("a", 100);
            stage.send();
            std::thread::sleep(Duration::from_micros(500));
        }
        (1..=200).for_each(|seq| assert_eq!(reader.seq(), seq));
        counted(stage.publisher.statistics(), "sends_total")
    };
    let (latency, throughput) = (sends(BatchingPolicy::Latency), sends(BatchingPolicy::Throughput));
    assert!(throughput * 3 < latency, "{throughput} and {latency} sends");
}

/// A batch is limited by messages too, because 100,000 small messages would not fit into a
/// half-empty queue.
#[test]
fn batch_is_published_at_its_message_limit() {
    let stage = Stage::new(Options::default(), &spec(LagPolicy::Close));
    let statistics = std::sync::Arc::clone(stage.publisher.statistics());
    let channels = vec![("test".into(), stage.stream)];
    let mut press = Ingest::new(std::sync::Arc::new(stage.publisher), channels, None);
    (0..4_096).for_each(|_| press.take(None, b"", false));
    let began = std::time::Instant::now();
    while counted(&statistics, "messages_total") < 4_096 {
        assert!(began.elapsed() < common::PATIENCE, "they wait for more");
        std::thread::yield_now();
    }
}
