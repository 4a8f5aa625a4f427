//! Tests of readers whose sockets accept nothing for a while.

use super::*;

#[test]
fn latest_policy_sends_a_message_once() {
    let mut world = World::new(1);
    let floor = &mut world.floor;
    (floor.settings.limits.lag_ms, floor.settings.limits.ping_ms) = (1_000, 0);
    floor.set_now(0);
    let reader = come(floor, "/2");
    take_all(floor, reader);
    floor.append(StreamId(2), b"k", 1, false, b"one");
    assert_eq!(floor.prepare(reader), Next::Send);
    floor.sent(reader, 2);
    floor.blocked(reader);
    floor.set_now(2_000_000_000);
    floor.writable(reader);
    assert_eq!(floor.prepare(reader), Next::Send);
    let rest: Vec<u8> = floor.gather(reader).as_slice().concat();
    floor.sent(reader, rest.len());
    assert_eq!((rest.as_slice(), take_all(floor, reader)), (&b"one"[..], String::new()));
}

/// Small messages fill the ring's index before they fill its bytes.
#[test]
fn reader_overrun_by_small_messages_gets_a_gap_notice() {
    let mut world = World::new(1);
    let floor = &mut world.floor;
    let reader = come(floor, "/0");
    take_all(floor, reader);
    floor.append(StreamId(0), b"k", 1, false, b"x");
    assert_eq!(floor.prepare(reader), Next::Send);
    // Two of the frame's three bytes are sent.
    floor.sent(reader, 2);
    floor.blocked(reader);
    for seq in 2..=1_000 {
        floor.append(StreamId(0), b"k", seq, false, b"y");
        floor.due(&mut Vec::new(), PassKind::First);
    }
    floor.writable(reader);
    let rest: Vec<u8> = floor.gather(reader).as_slice().concat();
    assert_eq!(rest, b"x");
    floor.sent(reader, 1);
    let got = take_all(floor, reader);
    let from = number(&got, "from").unwrap();
    let before = "y|".repeat(usize::try_from(from).unwrap() - 2);
    assert!(got.starts_with(&format!(r#"{before}{{"type":"gap","from":{from},"to":"#)), "{got}");
    let (notice, behind) = got[before.len()..].split_once('|').unwrap();
    let to = number(notice, "to").unwrap();
    // The newest message of the key in the gap, then all messages after the gap.
    assert_eq!(behind, "y|".repeat(1_000 - usize::try_from(to).unwrap()) + "y");
}

#[test]
fn latest_policy_skips_to_a_message_and_not_to_a_ping() {
    let mut world = World::new(1);
    let floor = &mut world.floor;
    (floor.settings.limits.lag_ms, floor.settings.limits.ping_ms) = (1_000, 1_500);
    floor.set_now(0);
    let reader = come(floor, "/2");
    take_all(floor, reader);
    floor.blocked(reader);
    floor.append(StreamId(2), b"k", 1, false, b"one");
    floor.append(StreamId(2), b"k", 2, false, b"two");
    floor.set_now(1_600_000_000);
    floor.set_now(2_000_000_000);
    assert_eq!(take_all(floor, reader), "two|");
}

/// A reader may be half a ring behind, and a pass begins at a quarter of a ring at the latest.
#[test]
fn reader_up_to_date_at_pass_start_is_not_slow() {
    let inbox = crate::inbox::Inbox::new(1 << 20);
    let mut world = World::new(1);
    let floor = &mut world.floor;
    let reader = come(floor, "/1");
    take_all(floor, reader);
    let (payload, stream) = (format!("k{}", "x".repeat(100)), StreamId(1));
    for seq in 1..=300 {
        let message = crate::inbox::QueuedMessage { stream, seq, start: 0, key_len: 1, len: 100, is_binary: false };
        inbox.put(&[message], payload.as_bytes());
    }
    let (mut got, mut due) = (0, Vec::new());
    while got < 300 {
        floor.take(&inbox);
        floor.due(&mut due, PassKind::First);
        // Take in messages before the turn of the reader.
        (0..5).for_each(|_| _ = floor.take_meanwhile(&inbox));
        let text = take_all(floor, reader);
        assert!(text.split('|').all(|message| message.len() == 100), "{text}");
        got += text.split('|').count();
    }
}

#[test]
fn reader_resuming_within_a_shed_range_gets_its_rest() {
    let inbox = crate::inbox::Inbox::new(64);
    let mut world = World::new(1);
    let floor = &mut world.floor;
    for stream in [0, 1] {
        put(&inbox, StreamId(stream), 1, "aaaaaaaaaaaaaaaaaaa");
        put(&inbox, StreamId(stream), 20, "abcabcabc");
        assert!(!floor.take(&inbox));
    }
    // Messages 20 to 28 were shed, and 26 to 28 are kept. A reader at 22 lacks 23 to 25 for good. A
    // reader at 25 lacks nothing.
    let mut resume = |stream, seq| {
        let slot = come(floor, &format!("/{stream}?from=1:{seq}"));
        let received = take_all(floor, slot);
        floor.leave(slot);
        received
    };
    assert_eq!(resume(0, 19), r#"{"type":"gap","from":20,"to":28}|a26|b27|c28"#);
    assert_eq!(resume(0, 20), r#"{"type":"gap","from":21,"to":28}|a26|b27|c28"#);
    assert_eq!(resume(0, 24), r#"{"type":"gap","from":25,"to":28}|a26|b27|c28"#);
    assert_eq!(resume(0, 25), "a26|b27|c28");
    assert_eq!(resume(0, 28), "");
    // The hole is forgotten once the ring has overwritten all of it.
    (29..2_000).for_each(|seq| floor.append(StreamId(0), b"k", seq, false, b"x"));
    floor.due(&mut Vec::new(), PassKind::First);
    put(&inbox, StreamId(0), 2_000, "aaaaaaaaaaaaaaaaaaa");
    put(&inbox, StreamId(0), 2_019, "aaaaaaaaa");
    assert!(!floor.take(&inbox));
    assert_eq!(floor.streams[0].missing_behind(22), None);
    assert_eq!(floor.streams[0].missing_behind(2_020), Some((2_021, 2_027)));
}
