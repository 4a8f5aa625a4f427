//! Tests of readers whose sockets accept nothing for a while.

use super::*;

#[test]
fn latest_policy_sends_a_message_once() {
    let mut world = World::new(1);
    let core = &mut world.core;
    (core.fanout.context.limits.lag_ms, core.fanout.context.limits.ping_ms) = (1_000, 0);
    core.set_now(0);
    let reader = come(core, "/2");
    take_all(core, reader);
    core.fanout.append(StreamId(2), b"k", 1, false, b"one");
    assert_eq!(core.prepare(reader), Next::Send);
    core.sent(reader, 2);
    core.blocked(reader);
    core.set_now(2_000_000_000);
    core.writable(reader);
    assert_eq!(core.prepare(reader), Next::Send);
    let rest: Vec<u8> = core.gather(reader).as_slice().concat();
    core.sent(reader, rest.len());
    assert_eq!((rest.as_slice(), take_all(core, reader)), (&b"one"[..], String::new()));
}

/// Small messages fill the ring's index before they fill its bytes.
#[test]
fn reader_overrun_by_small_messages_gets_a_gap_notice() {
    let mut world = World::new(1);
    let core = &mut world.core;
    let reader = come(core, "/0");
    take_all(core, reader);
    core.fanout.append(StreamId(0), b"k", 1, false, b"x");
    assert_eq!(core.prepare(reader), Next::Send);
    // Two of the frame's three bytes are sent.
    core.sent(reader, 2);
    core.blocked(reader);
    for seq in 2..=1_000 {
        core.fanout.append(StreamId(0), b"k", seq, false, b"y");
        core.due(&mut Vec::new(), PassKind::First);
    }
    core.writable(reader);
    let rest: Vec<u8> = core.gather(reader).as_slice().concat();
    assert_eq!(rest, b"x");
    core.sent(reader, 1);
    let got = take_all(core, reader);
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
    let core = &mut world.core;
    (core.fanout.context.limits.lag_ms, core.fanout.context.limits.ping_ms) = (1_000, 1_500);
    core.set_now(0);
    let reader = come(core, "/2");
    take_all(core, reader);
    core.blocked(reader);
    core.fanout.append(StreamId(2), b"k", 1, false, b"one");
    core.fanout.append(StreamId(2), b"k", 2, false, b"two");
    core.set_now(1_600_000_000);
    core.set_now(2_000_000_000);
    assert_eq!(take_all(core, reader), "two|");
}

/// A reader may be half a ring behind, and a pass begins at a quarter of a ring at the latest.
#[test]
fn reader_up_to_date_at_pass_start_is_not_slow() {
    let inbox = crate::inbox::Inbox::new(1 << 20);
    let mut world = World::new(1);
    let core = &mut world.core;
    let reader = come(core, "/1");
    take_all(core, reader);
    let (payload, stream) = (format!("k{}", "x".repeat(100)), StreamId(1));
    for seq in 1..=300 {
        let message = crate::inbox::QueuedMessage { stream, seq, start: 0, key_len: 1, len: 100, is_binary: false };
        inbox.put(&[message], payload.as_bytes());
    }
    let (mut got, mut due) = (0, Vec::new());
    while got < 300 {
        core.take(&inbox);
        core.due(&mut due, PassKind::First);
        // Take in messages before the turn of the reader.
        (0..5).for_each(|_| _ = core.take_meanwhile(&inbox));
        let text = take_all(core, reader);
        assert!(text.split('|').all(|message| message.len() == 100), "{text}");
        got += text.split('|').count();
    }
}

#[test]
fn reader_resuming_within_a_shed_range_gets_its_rest() {
    let inbox = crate::inbox::Inbox::new(64);
    let mut world = World::new(1);
    let core = &mut world.core;
    for stream in [0, 1] {
        put(&inbox, StreamId(stream), 1, "aaaaaaaaaaaaaaaaaaa");
        put(&inbox, StreamId(stream), 20, "abcabcabc");
        assert!(!core.take(&inbox));
    }
    // Messages 20 to 28 were shed, and 26 to 28 are kept. A reader at 22 lacks 23 to 25 for good. A
    // reader at 25 lacks nothing.
    let mut resume = |stream, seq| {
        let slot = come(core, &format!("/{stream}?from=1:{seq}"));
        let received = take_all(core, slot);
        core.remove(slot);
        received
    };
    assert_eq!(resume(0, 19), r#"{"type":"gap","from":20,"to":28}|a26|b27|c28"#);
    assert_eq!(resume(0, 20), r#"{"type":"gap","from":21,"to":28}|a26|b27|c28"#);
    assert_eq!(resume(0, 24), r#"{"type":"gap","from":25,"to":28}|a26|b27|c28"#);
    assert_eq!(resume(0, 25), "a26|b27|c28");
    assert_eq!(resume(0, 28), "");
    // The hole is forgotten once the ring has overwritten all of it.
    (29..2_000).for_each(|seq| core.fanout.append(StreamId(0), b"k", seq, false, b"x"));
    core.due(&mut Vec::new(), PassKind::First);
    put(&inbox, StreamId(0), 2_000, "aaaaaaaaaaaaaaaaaaa");
    put(&inbox, StreamId(0), 2_019, "aaaaaaaaa");
    assert!(!core.take(&inbox));
    assert_eq!(core.fanout.streams.get(0).unwrap().missing_behind(22), None);
    assert_eq!(core.fanout.streams.get(0).unwrap().missing_behind(2_020), Some((2_021, 2_027)));
}

/// Returns a subscriber that has received everything, and its id.
fn caught_up(core: &mut DeliveryCore) -> (u32, SubscriberId) {
    let reader = come(core, "/1");
    take_all(core, reader);
    (reader, core.fanout.subscribers.get(reader).unwrap().id)
}

#[test]
fn no_frame_follows_a_close_frame() {
    let mut world = World::new(1);
    let core = &mut world.core;
    let (reader, tag) = caught_up(core);
    let send =
        |core: &mut DeliveryCore| core.control(ControlMessage::Frames { to: tag, frames: vec![0x81, 2, b'h', b'i'] });
    send(core);
    core.close(reader, CloseCode::TryAgainLater, "");
    // Its socket accepts nothing while more frames are sent to it.
    core.blocked(reader);
    send(core);
    send(core);
    assert_eq!(opcodes(core, reader), [1, 8]);
}

#[test]
fn outbound_limit_applies_to_unsolicited_frames_only() {
    let mut world = World::new(1);
    let core = &mut world.core;
    let (reader, tag) = caught_up(core);
    let frames = [&[0x82, 126, 0xC3, 0x50][..], &[0; 50_000]].concat();
    core.blocked(reader);
    core.fanout.subscribers.get_mut(reader).unwrap().input.waiting_weight = 20;
    for _ in 0..20 {
        core.control(ControlMessage::Frames { to: tag, frames: frames.clone() });
    }
    core.control(ControlMessage::Processed { to: tag, weight: 20 });
    assert_eq!(opcodes(core, reader), [2; 20]);
    core.blocked(reader);
    for _ in 0..20 {
        core.control(ControlMessage::Frames { to: tag, frames: frames.clone() });
    }
    // Frames up to 256 KiB, and the frame that exceeded the limit.
    assert_eq!(opcodes(core, reader), [2, 2, 2, 2, 2, 2, 8]);
}
