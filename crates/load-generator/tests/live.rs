//! The load client against servers that behave as each test prescribes, correctly or not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pitwire_load_generator::{
    Address, Arrivals, ExpectedReplies, FaultyReaders, LoadPlan, LoadReport, MeasurementStart, RunControl, RunError,
    Traffic, run,
};
use pitwire_tls::{Tickets, Trust, client_config};
use pitwire_websocket::{Decoder, Deflater, IncomingMessage, MessageLimits, Opcode, accept_key, write_frame};

/// Handles one connection of a server: its number, from 0, and its open socket.
type ServerBehaviour = dyn Fn(u32, &mut TcpStream) + Send + Sync;

fn plan(port: u16, connections: u32, lasts_ms: u64) -> LoadPlan {
    let address = Address::parse(&format!("ws://127.0.0.1:{port}/x")).unwrap();
    let server = format!("127.0.0.1:{port}").parse().unwrap();
    LoadPlan {
        threads: 2,
        open_timeout: Duration::from_secs(60),
        max_opening: 8,
        ..LoadPlan::listening(address, server, connections, Duration::from_millis(lasts_ms))
    }
}

fn measure(plan: &LoadPlan) -> LoadReport {
    run(plan, &RunControl::default(), MeasurementStart::WhenOpen, |_| {}).unwrap()
}

/// Serves raw connections until the process ends.
fn raw(behave: impl Fn(u32, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let behave: Arc<ServerBehaviour> = Arc::new(behave);
    thread::spawn(move || {
        for (number, socket) in (0_u32..).zip(listener.incoming()) {
            let behave = Arc::clone(&behave);
            thread::spawn(move || behave(number, &mut socket.unwrap()));
        }
    });
    port
}

/// Serves WebSockets. `extra` holds more headers of the answer.
fn serve_with(extra: &'static str, behave: impl Fn(u32, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    raw(move |number, socket| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if socket.read(&mut byte).unwrap_or(0) == 0 {
                return;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = accept_key(key).unwrap();
        let answer = format!(
            "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{extra}\r\n"
        );
        socket.set_nodelay(true).unwrap();
        socket.write_all(answer.as_bytes()).unwrap();
        behave(number, socket);
    })
}

fn serve(behave: impl Fn(u32, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    serve_with("", behave)
}

fn frame(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, Opcode::Text, text.as_bytes());
    out
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn message(number: u64) -> Vec<u8> {
    frame(&format!(r#"{{"seq":{number},"ts_ns":{}}}"#, now_ns()))
}

/// Sends a message each ten milliseconds until the reader is gone. `make` returns the bytes of the
/// nth, from 1.
fn publish(socket: &mut TcpStream, mut make: impl FnMut(u64) -> Vec<u8>) {
    for number in 1.. {
        if socket.write_all(&make(number)).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Calls `handle` for each message of the client, until it disconnects.
fn receive(socket: &mut TcpStream, mut handle: impl FnMut(&mut TcpStream, &IncomingMessage<'_>)) {
    let (mut decoder, mut kept, mut buffer) = (Decoder::new(MessageLimits::default()), Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => kept.extend_from_slice(&buffer[..bytes]),
        }
        let mut at = 0;
        while let (used @ 1.., incoming) = decoder.decode(&kept[at..]).unwrap() {
            if let Some(incoming) = incoming {
                handle(socket, &incoming);
            }
            at += used;
        }
        kept.drain(..at);
    }
}

#[test]
fn lost_declared_and_duplicate_messages_are_counted_exactly() {
    let port = serve(|number, socket| {
        publish(socket, |at| match (number, at) {
            // Two are skipped.
            (1, 30 | 31) => Vec::new(),
            // One is sent twice.
            (2, 30) => [message(30), message(30)].concat(),
            // One is skipped, three are declared missing, and then the newest of them is sent after
            // all.
            (3, 29 | 31) => Vec::new(),
            (3, 30) => frame(r#"{"type":"gap","from":30,"to":32}"#),
            _ => message(at),
        });
    });
    let report = measure(&plan(port, 4, 1_000));
    let counters = &report.counters;
    assert_eq!((counters.opened, counters.failed, counters.ended_early, counters.malformed), (4, 0, 0, 0));
    assert_eq!((counters.lost, counters.duplicated, counters.conflated, counters.gap_notices), (3, 1, 2, 1));
    assert!(counters.deliveries > 4 * 10 && counters.late == 0 && report.latencies.count() > 0, "{counters:?}");
    // Each connection has separate numbers, so no spread is computed.
    assert!(report.spread_us().is_none());
}

#[test]
fn message_older_than_a_second_is_late() {
    let port = serve(|_, socket| {
        publish(socket, |at| frame(&format!(r#"{{"seq":{at},"ts_ns":{}}}"#, now_ns() - 1_200_000_000)));
    });
    let report = measure(&plan(port, 1, 2_000));
    let counters = &report.counters;
    assert!((1..counters.late).contains(&report.latencies.count()), "{counters:?}");
    // A message that was due before measuring began is late, but its latency is not recorded.
    let short = measure(&plan(port, 1, 500)).counters;
    assert!(short.late > 0 && short.late == short.deliveries, "{short:?}");
    assert_eq!(measure(&plan(port, 1, 500)).latencies.count(), 0);
}

#[test]
fn undelivered_message_is_late() {
    let began = Instant::now();
    let origin = now_ns();
    // Both receive the same stream; the second receives nothing after its first 0.9 s.
    let port = serve(move |number, socket| {
        let opened = Instant::now();
        let hundredths = || u64::try_from(began.elapsed().as_millis()).unwrap() / 10;
        let mut last = hundredths();
        loop {
            let at = hundredths();
            for number_now in last + 1..=at {
                let due = origin + u128::from(number_now) * 10_000_000;
                let text = frame(&format!(r#"{{"seq":{number_now},"ts_ns":{due}}}"#));
                if (number == 0 || opened.elapsed() < Duration::from_millis(900)) && socket.write_all(&text).is_err() {
                    return;
                }
            }
            last = at;
            thread::sleep(Duration::from_millis(5));
        }
    });
    let report = measure(&plan(port, 2, 3_000));
    let counters = &report.counters;
    assert!(counters.undelivered > 0 && counters.late >= counters.undelivered && counters.lost == 0, "{counters:?}");
    assert!(report.spread_us().is_some());
}

#[test]
fn echoes_are_matched_with_sent_messages() {
    let whole = Arc::new(AtomicU32::new(0));
    let dropped = Arc::clone(&whole);
    let port = serve(move |_, socket| {
        let mut count = 0;
        receive(socket, |socket, incoming| {
            if let IncomingMessage::Text(text) = incoming {
                count += 1;
                if count == 20 {
                    dropped.fetch_add(1, Ordering::Relaxed);
                } else {
                    socket.write_all(&frame(text)).unwrap();
                }
            }
        });
    });
    let arrivals = Some(Arrivals { per_s: 400.0, is_even: false });
    let plan = LoadPlan { traffic: Traffic::Echo { bytes: 40 }, arrivals, ..plan(port, 3, 1_000) };
    let report = measure(&plan);
    let counters = &report.counters;
    let left_out = u64::from(whole.load(Ordering::Relaxed));
    assert_eq!((counters.malformed, counters.duplicated, counters.unsent, left_out), (0, 0, 0, 3));
    assert_eq!((counters.lost, counters.deliveries), (3, counters.sent - 3));
    // Poisson: the mean is 400, the standard deviation 20. Only how many were due is asserted, no
    // timing.
    assert!((250..550).contains(&counters.sent), "{}", counters.sent);
}

#[test]
fn heartbeats_require_every_answer_whole() {
    let answer = |number: u32, beat: u32| -> Vec<usize> {
        match (number, beat) {
            (0, 3) => vec![5_000, 5_000],
            (1, 3) => vec![5_000, 4_999, 5_000],
            _ => vec![5_000; 3],
        }
    };
    let port = serve(move |number, socket| {
        let mut beat = 0;
        receive(socket, |socket, incoming| {
            if let IncomingMessage::Text(_) = incoming {
                beat += 1;
                for bytes in answer(number, beat) {
                    socket.write_all(&frame(&"x".repeat(bytes))).unwrap();
                }
            }
        });
    });
    let traffic = Traffic::Heartbeat {
        period: Duration::from_millis(100),
        expect: ExpectedReplies { messages: 3, bytes: 5_000 },
    };
    let report = measure(&LoadPlan { traffic, ..plan(port, 3, 1_000) });
    let counters = &report.counters;
    // Three connections with ten heartbeats each: all phases are within the first period.
    assert_eq!((counters.sent, counters.deliveries, counters.lost, counters.malformed), (30, 89, 1, 1));
    assert_eq!(counters.bytes, 89 * 5_000 - 1);
}

#[test]
fn fragments_pings_and_long_messages_survive_any_read_boundary() {
    let ponged = Arc::new(AtomicU32::new(0));
    let pong_count = Arc::clone(&ponged);
    let port = serve(move |_, socket| {
        let mut stream = Vec::new();
        for number in 1..=20_u32 {
            let text = format!(r#"{{"seq":{number},"pad":"{}"}}"#, "x".repeat(700 * number as usize));
            if number % 5 == 0 {
                let (front, back) = text.as_bytes().split_at(9);
                let mut front_frame = Vec::new();
                write_frame(&mut front_frame, Opcode::Text, front);
                front_frame[0] &= 0x7F;
                stream.extend(front_frame);
                write_frame(&mut stream, Opcode::Ping, b"in the middle");
                write_frame(&mut stream, Opcode::Continuation, back);
            } else {
                stream.extend(frame(&text));
            }
        }
        thread::sleep(Duration::from_millis(300));
        for piece in stream.chunks(1_337) {
            socket.write_all(piece).unwrap();
            socket.flush().unwrap();
        }
        receive(socket, |_, incoming| {
            if *incoming == IncomingMessage::Pong {
                pong_count.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    let report = measure(&plan(port, 2, 3_000));
    let counters = &report.counters;
    assert_eq!(
        (counters.deliveries, counters.lost, counters.unnumbered, counters.violations),
        (40, 0, 0, 0),
        "{report:?}"
    );
    assert_eq!(ponged.load(Ordering::Relaxed), 8);
}

#[test]
fn compressed_messages_are_inflated() {
    let port = serve_with(
        "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n",
        |_, socket| {
            let mut deflater = Deflater::new(1, 15);
            publish(socket, |number| {
                let text = format!(r#"{{"seq":{number},"ts_ns":{},"pad":"{}"}}"#, now_ns(), "x".repeat(6_000));
                let mut out = Vec::new();
                deflater.write_frame(&mut out, Opcode::Text, text.as_bytes());
                assert!(out[0] & 0x40 != 0 && out.len() < 1_000);
                out
            });
        },
    );
    let report = measure(&LoadPlan { deflate: true, ..plan(port, 2, 2_000) });
    let counters = &report.counters;
    assert!(counters.deliveries > 10 && counters.bytes > counters.deliveries * 6_000, "{counters:?}");
    assert_eq!((counters.lost, counters.unnumbered, counters.violations), (0, 0, 0));
}

#[test]
fn close_codes_violations_and_silent_ends_are_distinguished() {
    let all_are_there = Barrier::new(20);
    let port = serve(move |number, socket| {
        // Waits until all are open; the client reads the last answer a little later.
        all_are_there.wait();
        thread::sleep(Duration::from_millis(400));
        let bytes: Vec<u8> = match number {
            // 1013: the reader did not keep up.
            0 => vec![0x88, 2, 0x03, 0xF5],
            // A masked frame.
            1 => vec![0x81, 0x81, 0, 0, 0, 0, b'a'],
            2 => return,
            _ => message(1),
        };
        socket.write_all(&bytes).unwrap();
        // The end arrives together with the last message, or before it is read.
        if number > 3 {
            return;
        }
        receive(socket, |_, _| {});
    });
    let report = measure(&plan(port, 20, 3_000));
    assert_eq!((report.counters.ended_early, report.counters.violations, report.counters.failed), (19, 1, 0));
    assert_eq!(report.closes.into_iter().collect::<Vec<_>>(), [(1006, 18), (1013, 1)]);
    assert!(report.violations[0].contains("masked"));
}

#[test]
fn storm_cuts_all_connections_and_ends_when_all_are_back() {
    let opened = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&opened);
    let port = serve(move |_, socket| {
        count.fetch_add(1, Ordering::Relaxed);
        publish(socket, message);
    });
    let report = measure(&LoadPlan { storm: Some(Duration::from_millis(300)), ..plan(port, 12, 4_000) });
    assert_eq!((report.counters.opened, report.counters.ended_early, report.counters.lost), (24, 0, 0));
    assert_eq!(opened.load(Ordering::Relaxed), 24);
    assert!(report.storm_ns.is_some());
}

#[test]
fn slow_and_stopped_readers_are_not_healthy() {
    // Far more than two reads of 4 KiB per second.
    let port = serve(|_, socket| {
        publish(socket, |number| frame(&format!(r#"{{"seq":{number},"p":"{}"}}"#, "x".repeat(3_000))))
    });
    let faulty_readers = FaultyReaders { slow: 2_500, stopped: 2_500 };
    let report = measure(&LoadPlan { faulty_readers, ..plan(port, 4, 1_500) });
    let counters = &report.counters;
    assert_eq!((counters.opened, counters.failed, counters.lost, counters.silent), (4, 0, 0, 0));
    // Two healthy readers receive at least ten times as much as the slow one; the stopped one
    // receives nothing.
    assert!(counters.slow_deliveries > 0 && counters.deliveries > 20 * counters.slow_deliveries / 2, "{counters:?}");
}

#[test]
fn failure_to_open_has_one_line_with_the_reason() {
    let why = |plan: &LoadPlan| match run(plan, &RunControl::default(), MeasurementStart::WhenOpen, |_| {}) {
        Err(RunError::NothingOpened(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    };
    let says = |answer: &'static [u8]| {
        raw(move |_, socket| {
            let mut head = [0; 2_048];
            let _ = socket.read(&mut head);
            socket.write_all(answer).unwrap();
        })
    };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (port, expected) in [
        (closed, "refused"),
        (says(b"HTTP/1.1 404 Not Found\r\n\r\n"), "404 Not Found"),
        (says(b"HTTP/1.1 503 Full\r\nRetry-After: 1\r\n\r\n"), "503 Full"),
        (says(b"HTTP/1.1 200 OK\r\n\r\nhello"), "200 OK"),
        (says(b"SSH-2.0-x\r\n"), "not HTTP"),
        (says(b""), "closed the connection"),
    ] {
        assert!(why(&plan(port, 50, 100)).contains(expected), "{expected}: {}", why(&plan(port, 50, 100)));
    }
    let silent = raw(|_, _| thread::sleep(Duration::from_secs(60)));
    let open_timeout = Duration::from_millis(200);
    assert!(why(&LoadPlan { open_timeout, ..plan(silent, 5, 100) }).contains("did not answer"));
    // TLS to a port without TLS.
    let tls = Some(client_config(Trust::Anybody, Tickets::PerConnection).unwrap());
    let plain = says(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert!(why(&LoadPlan { tls, ..plan(plain, 5, 100) }).contains("TLS"));
}

#[test]
fn connections_use_several_source_addresses() {
    let addresses = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let seen = Arc::clone(&addresses);
    let port = serve(move |_, socket| {
        seen.lock().unwrap().insert(socket.peer_addr().unwrap().ip());
        publish(socket, message);
    });
    let report = measure(&LoadPlan { sources: 3, ..plan(port, 60, 200) });
    assert_eq!((report.counters.opened, report.counters.failed), (60, 0));
    let addresses: Vec<String> = addresses.lock().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
}
