//! The arbiter with lost, repeated, reordered and late units.

use pitwire_order_feed::{Letter, MitchEncode, MoldWriter, OrderDelete, UnitWriter, itch};
use pitwire_random::SplitMix64;

use super::*;

#[derive(Default)]
struct MessageLog(Vec<(u64, u64)>);

impl Deliver for MessageLog {
    fn deliver(&mut self, number: u64, message: &FeedMessage) {
        let order_id = match message {
            FeedMessage::Mitch(MitchMessage::OrderDelete(delete)) => delete.order_id,
            FeedMessage::Itch(ItchMessage::OrderDelete(delete)) => delete.order_reference.0,
            other => panic!("{other:?}"),
        };
        self.0.push((number, order_id));
    }
}

/// Units of random sizes with `messages` messages. The order id of each message is its number.
fn units(messages: u64, random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let (mut writer, mut units) = (UnitWriter::default(), Vec::new());
    for order_id in 1..=messages {
        let mut message = Vec::new();
        OrderDelete { nanosecond: 0, order_id }.encode(&mut message);
        writer.add(&message, |_, unit| units.push(unit.to_vec()));
        if random.next().is_multiple_of(4) {
            writer.finish(|_, unit| units.push(unit.to_vec()));
        }
    }
    writer.finish(|_, unit| units.push(unit.to_vec()));
    units.push(writer.heartbeat());
    units
}

/// Returns the units of one line: some are lost, some repeated, some out of order.
fn line(units: &[Vec<u8>], random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let mut line = Vec::new();
    for unit in units {
        match random.next() % 10 {
            0 => {}
            1 => line.extend([unit.clone(), unit.clone()]),
            _ => line.push(unit.clone()),
        }
    }
    for at in 1..line.len() {
        if random.next().is_multiple_of(10) {
            line.swap(at - 1, at);
        }
    }
    line
}

#[test]
fn each_message_is_delivered_once_and_in_order() {
    for seed in 0..50 {
        let mut random = SplitMix64::new(seed);
        let units = units(500, &mut random);
        let lines = [line(&units, &mut random), line(&units, &mut random)];
        let (mut arbiter, mut delivered, mut now) =
            (LineArbiter::new(FeedEncoding::Mitch, 2), MessageLog::default(), 0);
        let mut places = [0, 0];
        while places != [lines[0].len(), lines[1].len()] || arbiter.gap(now).is_some() {
            now += 1_000_000;
            let line = usize::from(random.next() % 2 == 1);
            if let Some(unit) = lines[line].get(places[line]) {
                places[line] += 1;
                arbiter.receive(line, now, unit, &mut delivered);
            }
            if let Some((first, count)) = arbiter.gap(now) {
                // The venue replays whole units.
                for unit in &units {
                    let header = Unit::read(unit).unwrap().header;
                    let begin = u64::from(header.sequence_number);
                    if begin < first + count && begin + u64::from(header.message_count) > first {
                        arbiter.replay(now, unit, &mut delivered);
                    }
                }
            }
        }
        let expected: Vec<(u64, u64)> = (1..=500).map(|number| (number, number)).collect();
        // A lost last unit shows only in a heartbeat, which both lines may have lost.
        assert!(delivered.0.len() >= 450 && expected.starts_with(&delivered.0), "seed {seed}: {:?}", delivered.0);
        assert_eq!(arbiter.waiting_bytes, 0, "seed {seed}");
    }
}

#[test]
fn a_snapshot_may_end_in_the_middle_of_a_unit() {
    let mut writer = UnitWriter::default();
    for order_id in 1..=3 {
        let mut message = Vec::new();
        OrderDelete { nanosecond: 0, order_id }.encode(&mut message);
        writer.add(&message, |_, _| {});
    }
    let (mut arbiter, mut delivered) = (LineArbiter::new(FeedEncoding::Mitch, 1), MessageLog::default());
    arbiter.join(1);
    writer.finish(|_, unit| arbiter.receive(0, 0, unit, &mut delivered));
    assert_eq!(delivered.0, [(2, 2), (3, 3)]);
}

#[test]
fn a_heartbeat_shows_that_the_last_unit_is_missing() {
    let mut random = SplitMix64::new(1);
    let units = units(3, &mut random);
    let mut arbiter = LineArbiter::new(FeedEncoding::Mitch, 1);
    arbiter.receive(0, 0, units.last().unwrap(), &mut MessageLog::default());
    assert_eq!(arbiter.gap(GAP_PATIENCE_NS - 1), None, "the other line may have it");
    assert_eq!(arbiter.gap(GAP_PATIENCE_NS), Some((1, 3)));
}

#[test]
fn units_that_wait_have_a_bound() {
    let (mut arbiter, mut writer) = (LineArbiter::new(FeedEncoding::Mitch, 1), UnitWriter::default());
    let mut message = Vec::new();
    OrderDelete { nanosecond: 0, order_id: 1 }.encode(&mut message);
    let mut is_first = true;
    let mut delivered = MessageLog::default();
    while arbiter.counts.dropped == 0 {
        writer.add(&message, |_, unit| {
            if !std::mem::replace(&mut is_first, false) {
                arbiter.receive(0, 0, unit, &mut delivered);
            }
        });
    }
    assert!(arbiter.waiting_bytes <= MAX_WAITING_BYTES && delivered.0.is_empty());
}

#[test]
fn the_delay_of_the_second_line_is_measured_once_for_each_unit() {
    let units = units(1, &mut SplitMix64::new(1));
    let mut arbiter = LineArbiter::new(FeedEncoding::Mitch, 2);
    let mut delivered = MessageLog::default();
    for (line, at_ns) in [(1, 100), (0, 350), (0, 900), (1, 900)] {
        arbiter.receive(line, at_ns, &units[0], &mut delivered);
    }
    assert_eq!((arbiter.delays.len(), arbiter.delays.max()), (1, 250));
    assert_eq!((arbiter.line(0).first, arbiter.line(1).first), (0, 1));
    assert_eq!((arbiter.line(0).repeated, arbiter.line(1).repeated, arbiter.counts.duplicates), (1, 1, 3));
}

#[test]
fn an_unknown_message_keeps_its_number_and_a_wrong_count_refuses_the_unit() {
    let mut message = Vec::new();
    OrderDelete { nanosecond: 0, order_id: 2 }.encode(&mut message);
    let (mut writer, mut unit) = (UnitWriter::default(), Vec::new());
    writer.add(&[4, 0, 0xFE, 0], |_, _| {});
    writer.add(&message, |_, _| {});
    writer.finish(|_, bytes| unit.extend_from_slice(bytes));
    let (mut arbiter, mut delivered) = (LineArbiter::new(FeedEncoding::Mitch, 1), MessageLog::default());
    for (at, byte) in [(2, 1), (2, 3), (3, b'Q')] {
        let mut wrong = unit.clone();
        wrong[at] = byte;
        arbiter.receive(0, 0, &wrong, &mut delivered);
    }
    assert_eq!((arbiter.line(0).invalid, arbiter.next_number()), (3, 1));
    arbiter.receive(0, 0, &unit, &mut delivered);
    assert_eq!(delivered.0, [(2, 2)]);
    assert_eq!(Unit::read(&unit).unwrap().header.market_data_group, Letter(b'P'));
}

/// A packet with deletions of these orders. The order id of each message is its number.
fn packet(first: u64, count: u64) -> Vec<u8> {
    let (mut writer, mut packet) = (MoldWriter::new(*b"0000000001"), Vec::new());
    for order in 1..first + count {
        if order == first {
            writer.finish(|_, _| {});
        }
        let order_reference = itch::BigEndian(order);
        let mut message = Vec::new();
        ItchMessage::from(itch::OrderDelete { order_reference, ..Default::default() }).encode(&mut message);
        writer.add(&message, |_, _| {});
    }
    writer.finish(|_, bytes| packet.extend_from_slice(bytes));
    packet
}

#[test]
fn packets_of_itch_fill_the_gap_of_each_other() {
    let (mut arbiter, mut delivered) = (LineArbiter::new(FeedEncoding::Itch, 2), MessageLog::default());
    arbiter.receive(0, 0, &packet(1, 3), &mut delivered);
    arbiter.receive(0, 0, &packet(6, 2), &mut delivered);
    assert_eq!((arbiter.missing(), arbiter.gap(GAP_PATIENCE_NS - 1)), (Some((4, 2)), None));
    arbiter.replay(1, &packet(4, 1), &mut delivered);
    assert_eq!(arbiter.missing(), Some((5, 1)));
    arbiter.receive(1, 2, &packet(5, 2), &mut delivered);
    let mut heartbeat = MoldWriter::new(*b"0000000001").heartbeat();
    heartbeat[17] = 9;
    arbiter.receive(1, 2, &heartbeat, &mut delivered);
    assert_eq!(delivered.0, (1..=7).map(|number| (number, number)).collect::<Vec<_>>());
    assert_eq!((arbiter.missing(), arbiter.line(1).heartbeats), (Some((8, 1)), 1));
}

#[test]
fn packets_of_itch_with_impossible_numbers_are_invalid() {
    let (mut arbiter, mut delivered) = (LineArbiter::new(FeedEncoding::Itch, 1), MessageLog::default());
    let valid = packet(1, 2);
    for number in [0, u64::MAX] {
        let mut forged = valid.clone();
        forged[10..18].copy_from_slice(&u64::to_be_bytes(number));
        arbiter.receive(0, 0, &forged, &mut delivered);
    }
    // A request has no messages.
    arbiter.receive(0, 0, &valid[..20], &mut delivered);
    arbiter.receive(0, 0, &valid[..valid.len() - 1], &mut delivered);
    assert_eq!((arbiter.line(0).invalid, delivered.0.len(), arbiter.next_number()), (4, 0, 1));
}
