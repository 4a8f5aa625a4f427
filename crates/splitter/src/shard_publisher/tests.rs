//! What batches contain, how they are numbered, and what happens when NATS does not take them.
//! Without a server.

use pitwire_nats::PendingBatches;

use super::*;

/// Returns a publisher without a thread or a server, and the batches that it queues.
fn bench(workers: u32) -> (ShardPublisher, PendingBatches<ShardBatch>) {
    let (batches, waiting) = NatsPublisher::without_thread(BATCHES);
    let next = (0..workers).map(|_| AtomicU64::new(1)).collect();
    (ShardPublisher::new(workers, batches, next, Arc::default()), waiting)
}

/// Sends one-letter objects, each to the worker with the given number.
fn deal(publisher: &mut ShardPublisher, text: &str, workers: &[u32]) {
    let objects = workers.iter().zip(0..).map(|(&worker, at)| Object { start: at, end: at + 1, worker });
    publisher.send_objects(text.as_bytes(), &objects.collect::<Vec<_>>());
}

fn brief(batch: &ShardBatch) -> (usize, u64, u64, Vec<u8>) {
    (batch.shard, batch.first, batch.records, batch.bytes.clone())
}

#[test]
fn records_are_batched_by_shard_and_numbered() {
    let (mut publisher, mut waiting) = bench(2);
    deal(&mut publisher, "abc", &[0, 1, 0]);
    publisher.send_note(1, b"gap");
    publisher.hand_over();
    deal(&mut publisher, "d", &[1]);
    publisher.hand_over();
    publisher.hand_over();
    assert_eq!(brief(&waiting.next_batch().unwrap()), (0, 1, 2, b"\x01\0\0\0a\x01\0\0\0c".to_vec()));
    assert_eq!(brief(&waiting.next_batch().unwrap()), (1, 1, 2, b"\x01\0\0\0b\x03\0\0\0gap".to_vec()));
    assert_eq!(brief(&waiting.next_batch().unwrap()), (1, 3, 1, b"\x01\0\0\0d".to_vec()));
    assert!(waiting.next_batch().is_none());
    assert_eq!(publisher.totals().gaps, 1);
}

#[test]
fn a_batch_is_queued_before_it_is_too_long() {
    let (mut publisher, mut waiting) = bench(1);
    let text = vec![b'x'; 1000];
    for _ in 0..200 {
        publisher.send_objects(&text, &[Object { start: 0, end: 1000, worker: 0 }]);
    }
    publisher.hand_over();
    let (mut next, mut batches) = (1, 0);
    while let Some(batch) = waiting.next_batch() {
        assert!(batch.bytes.len() <= BATCH_BYTES);
        assert_eq!(batch.first, next);
        next += batch.records;
        batches += 1;
    }
    assert_eq!((next, batches), (201, 4));
}

/// NATS stops, the splitter does not, and the numbers show the missing records.
#[test]
fn a_full_queue_drops_counts_and_leaves_a_gap_in_the_numbers() {
    let (mut publisher, mut waiting) = bench(1);
    for _ in 0..BATCHES + 10 {
        deal(&mut publisher, "ab", &[0, 0]);
        publisher.hand_over();
    }
    assert_eq!(publisher.totals().dropped, 20);
    assert!(publisher.report().unwrap().to_string().contains("dropped"));
    assert!(publisher.report().is_none(), "said once");
    let mut next = 1;
    while let Some(batch) = waiting.next_batch() {
        assert_eq!(batch.first, next);
        next += batch.records;
    }
    assert_eq!(next, 2 * BATCHES as u64 + 1);
    deal(&mut publisher, "z", &[0]);
    publisher.hand_over();
    assert_eq!(waiting.next_batch().unwrap().first, next + 20);
    assert_eq!(publisher.next[0].load(Ordering::Relaxed), next + 21);
}

/// Records staged before the queue is full are not overtaken by records dropped after it.
#[test]
fn a_full_queue_in_the_middle_of_a_batch_keeps_numbers_in_order() {
    let (mut publisher, mut waiting) = bench(2);
    deal(&mut publisher, "a", &[0]);
    for _ in 0..BATCHES {
        deal(&mut publisher, "b", &[1]);
        publisher.send(1);
    }
    deal(&mut publisher, "cd", &[0, 0]);
    waiting.next_batch().unwrap();
    deal(&mut publisher, "e", &[0]);
    publisher.hand_over();
    let mut of_0 = Vec::new();
    while let Some(batch) = waiting.next_batch() {
        if batch.shard == 0 {
            of_0.push((batch.first, batch.records));
        }
    }
    assert_eq!(of_0, [(4, 1)]);
    assert_eq!(publisher.totals().dropped, 3);
}

#[test]
fn an_object_longer_than_a_message_is_dropped_and_leaves_a_gap() {
    let (mut publisher, mut waiting) = bench(1);
    let text = vec![b'x'; MESSAGE_MAX];
    let length = u32::try_from(MESSAGE_MAX).unwrap();
    deal(&mut publisher, "a", &[0]);
    publisher.send_objects(&text, &[Object { start: 0, end: length, worker: 0 }]);
    deal(&mut publisher, "b", &[0]);
    publisher.hand_over();
    assert_eq!((waiting.next_batch().unwrap().first, waiting.next_batch().unwrap().first), (1, 3));
    assert_eq!(publisher.totals().dropped, 1);
    assert!(publisher.report().is_none());
}

#[test]
fn an_ended_thread_blocks_nothing() {
    let (mut publisher, waiting) = bench(1);
    drop(waiting);
    deal(&mut publisher, "ab", &[0, 0]);
    publisher.hand_over();
    assert_eq!(publisher.totals().dropped, 2);
    assert!(publisher.finish(Duration::from_millis(1)).is_err());
}

#[test]
fn invalid_addresses_and_prefixes_are_reported_without_passwords() {
    let open = |url: &str, prefix: &str| {
        let publication = Publication { url: url.into(), prefix: prefix.into(), epoch: 1, workers: 1 };
        ShardPublisher::open(publication).err().unwrap().to_string()
    };
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = open(&format!("nats://me:secret@{closed}"), "p");
    assert!(refused.contains(&closed.to_string()) && refused.contains("nats-server"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
    assert!(open("http://127.0.0.1:1", "p").contains("invalid NATS address"));
    assert!(open("nats://", "p").contains("NATS server"));
    for prefix in ["", "a..b", "a b", "a.*", ">", "a."] {
        assert!(open("nats://127.0.0.1:1", prefix).contains("subject"), "{prefix}");
    }
}
