//! A ring between two sides: every position of its end, full and empty, hostile headers, two
//! threads.

use pitwire_random::SplitMix64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pitwire_shard::layout::{self, footprint};
use pitwire_shard::{Consumer, HeapMemory, Memory, Producer, PutError, RingConfig, RingFault};

const CAPACITY: u64 = 4096;

fn ring(capacity: u64) -> (HeapMemory, Producer<HeapMemory>) {
    let memory = HeapMemory::for_ring(usize::try_from(capacity).unwrap());
    let shape = RingConfig { capacity, worker: 3, workers: 8, started_ns: 5 };
    let producer = Producer::create(memory.clone(), &shape).unwrap();
    (memory, producer)
}

fn put(producer: &mut Producer<HeapMemory>, record: &[u8]) -> Result<(), PutError> {
    producer.put(record, 0, record.len())
}

fn take(consumer: &mut Consumer<HeapMemory>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    consumer.take(|record| found.push(record.to_vec())).unwrap();
    found
}

fn set64(memory: &HeapMemory, at: usize, value: u64) {
    // SAFETY: aligned, within the memory, and accessed through atomics only.
    unsafe { AtomicU64::from_ptr(memory.base().as_ptr().add(at).cast()) }.store(value, Ordering::SeqCst);
}

fn get64(memory: &HeapMemory, at: usize) -> u64 {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(memory.base().as_ptr().add(at).cast()) }.load(Ordering::SeqCst)
}

fn set32(memory: &HeapMemory, at: usize, value: u32) {
    // SAFETY: as above.
    unsafe { AtomicU32::from_ptr(memory.base().as_ptr().add(at).cast()) }.store(value, Ordering::SeqCst);
}

/// Checks the table of docs/splitter-formats.md byte by byte.
#[test]
fn header_matches_its_documentation() {
    let (memory, mut producer) = ring(CAPACITY);
    put(&mut producer, b"{\"sym\":\"A\"}").unwrap();
    assert!(!producer.publish());
    // SAFETY: nothing writes at this time.
    let bytes = unsafe { std::slice::from_raw_parts(memory.base().as_ptr(), memory.bytes()) };
    assert_eq!(&bytes[0..8], b"PWRING01");
    assert_eq!(bytes[8..12], 1_u32.to_le_bytes());
    assert_eq!(bytes[12..16], 4096_u32.to_le_bytes());
    assert_eq!(bytes[16..24], 4096_u64.to_le_bytes());
    assert_eq!(bytes[24..28], 3_u32.to_le_bytes());
    assert_eq!(bytes[28..32], 8_u32.to_le_bytes());
    assert_eq!(bytes[32..40], 5_u64.to_le_bytes());
    assert_eq!(bytes[128..136], 16_u64.to_le_bytes(), "4 + 11, padded to 16");
    assert_eq!(bytes[256..264], 0_u64.to_le_bytes());
    assert_eq!(&bytes[4096..4111], b"\x0b\0\0\0{\"sym\":\"A\"}");
}

/// A record is read as it was written, whatever its position in the ring and its length.
#[test]
fn records_survive_every_position_of_the_end() {
    for first in (8..=1016).step_by(8) {
        for length in [0_usize, 1, 3, 4, 5, 11, 12, 13, 100, 500, 1020] {
            let (memory, mut producer) = ring(CAPACITY);
            let mut consumer = Consumer::open(memory).unwrap();
            // Moves the position to 3,072 + first: before the end by every multiple of 8.
            for filler in [1020, 1020, 1020, first - 4] {
                put(&mut producer, &vec![b'f'; filler]).unwrap();
                let _ = producer.publish();
                assert_eq!(take(&mut consumer).len(), 1);
            }
            let record: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            for _ in 0..3 {
                put(&mut producer, &record).unwrap();
            }
            let _ = producer.publish();
            assert_eq!(take(&mut consumer), vec![record.clone(); 3], "first {first} length {length}");
            assert_eq!(producer.unread_bytes(), 0);
        }
    }
}

#[test]
fn a_record_within_a_longer_text_is_copied_exactly() {
    let text: Vec<u8> = (0..=255).collect();
    for end in 0..=text.len() {
        for start in [0, 1, end / 2, end.saturating_sub(1)] {
            let start = start.min(end);
            let (memory, mut producer) = ring(CAPACITY);
            let mut consumer = Consumer::open(memory).unwrap();
            producer.put(&text, start, end).unwrap();
            producer.put(&text, 7, 9).unwrap();
            let _ = producer.publish();
            assert_eq!(take(&mut consumer), [text[start..end].to_vec(), vec![7, 8]]);
        }
    }
}

#[test]
fn a_range_outside_the_text_is_refused() {
    let (_, mut producer) = ring(CAPACITY);
    assert_eq!(producer.put(b"abc", 2, 1), Err(PutError::TooLong));
    assert_eq!(producer.put(b"abc", 0, 4), Err(PutError::TooLong));
    assert_eq!(producer.put(b"abc", usize::MAX, 4), Err(PutError::TooLong));
}

#[test]
fn unread_records_are_not_overwritten_and_space_is_released() {
    let (memory, mut producer) = ring(CAPACITY);
    let mut consumer = Consumer::open(memory).unwrap();
    let (mut sent, mut received) = (0_u64, 0_u64);
    let mut full = 0;
    for round in 0..5_000_u64 {
        let length = usize::try_from(8 + round * 37 % 700).unwrap();
        // More text follows the record, so that it is copied in fixed steps, which overshoot.
        let mut text = vec![b'.'; length + 64];
        text[..8].copy_from_slice(&sent.to_le_bytes());
        match producer.put(&text, 0, length) {
            Ok(()) => sent += 1,
            Err(PutError::Full) => {
                full += 1;
                let _ = producer.publish();
                consumer
                    .take(|record| {
                        assert_eq!(record[..8], received.to_le_bytes());
                        assert!(record[8..].iter().all(|byte| *byte == b'.'));
                        received += 1;
                    })
                    .unwrap();
            }
            Err(refused) => panic!("{refused:?}"),
        }
    }
    let _ = producer.publish();
    received += consumer.take(|_| ()).unwrap();
    assert_eq!(sent, received);
    assert!(full > 100, "the ring was never full");
}

#[test]
fn unpublished_records_are_invisible() {
    let (memory, mut producer) = ring(CAPACITY);
    let mut consumer = Consumer::open(memory).unwrap();
    put(&mut producer, b"one").unwrap();
    assert_eq!(take(&mut consumer), Vec::<Vec<u8>>::new());
    let _ = producer.publish();
    assert_eq!(take(&mut consumer), [b"one"]);
}

#[test]
fn a_record_above_a_quarter_of_the_ring_never_fits() {
    let (_, mut producer) = ring(CAPACITY);
    assert_eq!(put(&mut producer, &[b'x'; 1021]), Err(PutError::TooLong));
    assert_eq!(put(&mut producer, &[b'x'; 1020]), Ok(()));
}

#[test]
fn unread_records_are_counted_across_the_end() {
    let (memory, mut producer) = ring(CAPACITY);
    let mut consumer = Consumer::open(memory).unwrap();
    for _ in 0..3 {
        put(&mut producer, &[b'x'; 1000]).unwrap();
        let _ = producer.publish();
        take(&mut consumer);
    }
    for _ in 0..3 {
        put(&mut producer, &[b'y'; 900]).unwrap();
    }
    assert_eq!(producer.unread_records(), 3);
}

#[test]
fn a_sleeping_reader_is_woken_once() {
    let (memory, mut producer) = ring(CAPACITY);
    let consumer = Consumer::open(memory).unwrap();
    let before = consumer.arm().expect("nothing to do");
    put(&mut producer, b"x").unwrap();
    assert!(producer.publish(), "a sleeper");
    assert_ne!(consumer.bell().load(Ordering::SeqCst), before);
    put(&mut producer, b"y").unwrap();
    assert!(!producer.publish(), "already rung");
    consumer.disarm();
    assert_eq!(consumer.arm(), None, "there is something to do");
}

#[test]
fn the_end_wakes_the_reader_and_is_visible() {
    let (memory, mut producer) = ring(CAPACITY);
    let mut consumer = Consumer::open(memory).unwrap();
    assert!(consumer.arm().is_some());
    put(&mut producer, b"last").unwrap();
    assert!(producer.end());
    assert!(consumer.is_ended());
    assert_eq!(take(&mut consumer), [b"last"]);
    assert_eq!(consumer.arm(), None);
}

#[test]
fn a_worker_that_writes_nonsense_harms_only_itself() {
    for tail in [1 << 40, u64::MAX, 4096] {
        let (memory, mut producer) = ring(CAPACITY);
        for _ in 0..3 {
            put(&mut producer, &[b'x'; 1000]).unwrap();
        }
        let _ = producer.publish();
        set64(&memory, layout::AT_TAIL, tail);
        put(&mut producer, &[b'x'; 1020]).unwrap();
        assert_eq!(put(&mut producer, &[b'x'; 1020]), Err(PutError::Broken), "tail {tail}");
        assert_eq!(producer.unread_records(), 1, "what was published may have been read");
    }
}

/// Creates a ring that refers to an area in which each byte is the low byte of its offset.
fn referring(area_bytes: usize) -> (HeapMemory, HeapMemory, Producer<HeapMemory>) {
    let (memory, area) = (HeapMemory::for_ring(4096), HeapMemory::for_ring(area_bytes - 4096));
    let shape = RingConfig { capacity: CAPACITY, worker: 3, workers: 8, started_ns: 5 };
    let producer = Producer::create_referring(memory.clone(), &shape, "beside", area_bytes as u64).unwrap();
    // SAFETY: the memory is not shared yet.
    let bytes = unsafe { std::slice::from_raw_parts_mut(area.base().as_ptr(), area.bytes()) };
    (0_u8..=255).cycle().zip(bytes).for_each(|(value, byte)| *byte = value);
    (memory, area, producer)
}

/// Checks the second table of docs/splitter-formats.md byte by byte: references between other
/// records.
#[test]
fn references_match_their_documentation() {
    let (memory, area, mut producer) = referring(8192);
    producer.put_reference(0x1234, 3).unwrap();
    put(&mut producer, b"own").unwrap();
    producer.put_reference(8190, 2).unwrap();
    assert_eq!((producer.unread_records(), producer.head()), (3, 24));
    let _ = producer.publish();
    // SAFETY: nothing writes at this time.
    let bytes = unsafe { std::slice::from_raw_parts(memory.base().as_ptr(), memory.bytes()) };
    assert_eq!(&bytes[0..12], b"PWRING01\x02\0\0\0");
    assert_eq!(bytes[40..48], 8192_u64.to_le_bytes());
    assert_eq!(&bytes[512..519], b"beside\0");
    assert_eq!(&bytes[4096..4104], b"\x03\0\0\x80\x34\x12\0\0");
    assert_eq!(&bytes[4104..4111], b"\x03\0\0\0own");
    assert_eq!(pitwire_shard::area_name(&memory), Ok(Some("beside".into())));
    let mut consumer = Consumer::open_with(memory, Some(area)).unwrap();
    let mut found = Vec::new();
    assert_eq!(consumer.take(|record| found.push(record.to_vec())), Ok(3));
    assert_eq!(found, [vec![0x34, 0x35, 0x36], b"own".to_vec(), vec![0xFE, 0xFF]]);
    assert!(producer.has_taken(24) && !producer.has_taken(25));
}

fn low(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

/// Mixes references with records at every position of the end, and never exceeds the ring.
#[test]
fn references_and_records_keep_their_order_across_the_end() {
    let (memory, area, mut producer) = referring(65_536);
    let mut consumer = Consumer::open_with(memory, Some(area)).unwrap();
    let (mut put_in, mut taken) = (0_u32, 0_u32);
    for round in 0..if cfg!(miri) { 20_u32 } else { 2_000 } {
        loop {
            let own = vec![low(put_in); (put_in % 97) as usize];
            let refused = if put_in.is_multiple_of(5) {
                put(&mut producer, &own)
            } else {
                producer.put_reference(put_in % 65_000, 1 + put_in as usize % 7)
            };
            match refused {
                Ok(()) => put_in += 1,
                Err(refused) => break assert_eq!(refused, PutError::Full),
            }
            if put_in.is_multiple_of(1 + round % 61) {
                break;
            }
        }
        let _ = producer.publish();
        let each = |record: &[u8]| {
            let (first, length) = match taken.is_multiple_of(5) {
                true => (low(taken), (taken % 97) as usize),
                false => (low(taken % 65_000), 1 + taken as usize % 7),
            };
            assert_eq!(record.len(), length, "record {taken}");
            assert!(record.first().is_none_or(|byte| *byte == first), "record {taken}");
            taken += 1;
        };
        if round % 3 == 0 {
            consumer.take(each).unwrap();
        }
        assert!(producer.unread_bytes() <= CAPACITY);
    }
    assert!(taken > if cfg!(miri) { 20 } else { 20_000 });
}

#[test]
fn a_reference_is_refused_like_a_record() {
    let (_, _, mut producer) = referring(8192);
    assert_eq!(producer.put_reference(0, 1021), Err(PutError::TooLong));
    for _ in 0..512 {
        producer.put_reference(0, 1020).unwrap();
    }
    assert_eq!(producer.put_reference(0, 0), Err(PutError::Full));
    assert_eq!(put(&mut producer, b""), Err(PutError::Full));
    assert_eq!(producer.unread_records(), 512);
}

#[test]
fn rings_and_areas_that_do_not_match_are_faults() {
    let (memory, area, _) = referring(8192);
    assert_eq!(Consumer::open(memory.clone()).err(), Some(RingFault::Version { found: 2 }));
    let short = HeapMemory::for_ring(0);
    assert_eq!(Consumer::open_with(memory.clone(), Some(short)).err(), Some(RingFault::Layout));
    let (plain, _) = ring(CAPACITY);
    assert_eq!(pitwire_shard::area_name(&plain), Ok(None));
    assert_eq!(Consumer::open_with(plain, Some(area)).err(), Some(RingFault::Version { found: 1 }));
    assert_eq!(pitwire_shard::area_name(&HeapMemory::for_ring(0)), Err(RingFault::NotARing));
    for name in [&b"../../etc/x\0"[..], b"..\0", b"\0", b"\xFF\xFE\0"] {
        // SAFETY: within the header.
        unsafe {
            let at = memory.base().as_ptr().add(layout::AT_AREA_NAME);
            std::ptr::copy_nonoverlapping(name.as_ptr(), at, name.len());
        }
        assert_eq!(pitwire_shard::area_name(&memory), Err(RingFault::Layout), "{name:?}");
    }
    set32(&memory, layout::AT_VERSION, 3);
    assert_eq!(pitwire_shard::area_name(&memory), Err(RingFault::Version { found: 3 }));
}

#[test]
fn a_reference_outside_the_area_is_a_fault() {
    for (offset, length) in [(8191, 2), (8192, 1), (u32::MAX, 1), (0, 8193), (u32::MAX, 0x7FFF_FFFE)] {
        let (memory, area, _) = referring(8192);
        let mut consumer = Consumer::open_with(memory.clone(), Some(area)).unwrap();
        set32(&memory, 4096, length | layout::REFERENCE);
        set32(&memory, 4100, offset);
        set64(&memory, layout::AT_HEAD, 8);
        assert_eq!(
            consumer.take(|_| ()),
            Err(RingFault::Length { found: length, at: 0 }),
            "{length} bytes at {offset}"
        );
    }
}

#[test]
fn hostile_headers_are_faults() {
    type Change = fn(&HeapMemory);
    let changes: [(Change, RingFault); 9] = [
        (|memory| set64(memory, layout::AT_MAGIC, 0), RingFault::NotARing),
        (|memory| set32(memory, layout::AT_VERSION, 2), RingFault::Version { found: 2 }),
        (|memory| set32(memory, layout::AT_RECORDS_AT, 64), RingFault::Layout),
        (|memory| set64(memory, layout::AT_CAPACITY, 8192), RingFault::Layout),
        (|memory| set64(memory, layout::AT_CAPACITY, 0), RingFault::Layout),
        (|memory| set64(memory, layout::AT_CAPACITY, 1 << 63), RingFault::Layout),
        (|memory| set64(memory, layout::AT_HEAD, 5000), RingFault::Positions { head: 5000, tail: 0 }),
        (|memory| set64(memory, layout::AT_HEAD, 12), RingFault::Positions { head: 12, tail: 0 }),
        (|memory| set64(memory, layout::AT_TAIL, 8), RingFault::Positions { head: 0, tail: 8 }),
    ];
    for (change, expected) in changes {
        let (memory, _) = ring(CAPACITY);
        change(&memory);
        assert_eq!(Consumer::open(memory).err(), Some(expected));
    }
    assert_eq!(Consumer::open(HeapMemory::for_ring(0)).err(), Some(RingFault::NotARing));
}

#[test]
fn hostile_lengths_are_faults() {
    // (bytes published, length found) at position 0 of an empty ring.
    for (head, length) in [(8, 5), (8, 1 << 20), (4096, 1021), (8, u32::MAX), (4088, u32::MAX), (16, 0xFFFF_FFF8)] {
        let (memory, _) = ring(CAPACITY);
        let mut consumer = Consumer::open(memory.clone()).unwrap();
        set32(&memory, 4096, length);
        set64(&memory, layout::AT_HEAD, head);
        assert_eq!(
            consumer.take(|_| ()),
            Err(RingFault::Length { found: length, at: 0 }),
            "head {head} length {length}"
        );
    }
}

/// Any bytes in the ring give records or a fault, and never an access outside. Miri checks it.
#[test]
fn random_bytes_are_handled() {
    let mut random = SplitMix64::new(1);
    for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
        let (memory, _) = ring(CAPACITY);
        let mut consumer = Consumer::open(memory.clone()).unwrap();
        for at in (4096..8192).step_by(4) {
            let noise = random.next();
            let value = if noise.is_multiple_of(3) { u32::MAX } else { u32::try_from(noise >> 8 & 0x1FF).unwrap() };
            set32(&memory, at, value);
        }
        set64(&memory, layout::AT_HEAD, random.below(513) * 8);
        let _ = consumer.take(|record| assert!(record.len() <= 1020));
        assert!(get64(&memory, layout::AT_TAIL) <= CAPACITY);
    }
}

#[test]
fn two_threads_see_the_same_stream() {
    let records: u64 = if cfg!(miri) { 300 } else { 300_000 };
    let (memory, mut producer) = ring(CAPACITY);
    let mut consumer = Consumer::open(memory).unwrap();
    let reader = std::thread::spawn(move || {
        let mut expected = 0_u64;
        loop {
            let ended = consumer.is_ended();
            consumer
                .take(|record| {
                    assert_eq!(record[..8], expected.to_le_bytes());
                    assert_eq!(record.len() as u64, 8 + expected % 90);
                    assert!(record[8..].iter().all(|byte| u64::from(*byte) == expected % 251));
                    expected += 1;
                })
                .unwrap();
            if ended {
                return expected;
            }
            std::thread::yield_now();
        }
    });
    for number in 0..records {
        let mut record = number.to_le_bytes().to_vec();
        record.resize(usize::try_from(8 + number % 90).unwrap(), u8::try_from(number % 251).unwrap());
        while put(&mut producer, &record) == Err(PutError::Full) {
            let _ = producer.publish();
            std::thread::yield_now();
        }
        if number % 7 == 0 {
            let _ = producer.publish();
        }
    }
    let _ = producer.end();
    assert_eq!(reader.join().unwrap(), records);
}

#[test]
fn footprint_rounds_up_to_the_alignment() {
    for (length, bytes) in [(0, 8), (4, 8), (5, 16), (12, 16), (13, 24), (99, 104)] {
        assert_eq!(footprint(length), bytes);
    }
}
