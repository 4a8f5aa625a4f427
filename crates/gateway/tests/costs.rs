//! Measures the cost of a message: `cargo test --release -p pitwire-gateway --test costs --
//! --ignored --nocapture`. It asserts nothing about time.

use std::time::Instant as Clock;

use pitwire_gateway::protocol::{BatchWriter, BusKey, Reply, ReplyOutcome};
use pitwire_gateway::{ClientSink, GatewayTime, Node, VenueQuestion};
use pitwire_websocket::{CloseCode, Opcode, write_frame};

struct DeafClients;

impl ClientSink for DeafClients {
    fn reply(&mut self, _: u64, _: &[u8]) {}
    fn notify(&mut self, _: u64, _: &[u8]) {}
    fn close(&mut self, _: u64, _: CloseCode, _: &str) {}
}

const MESSAGES: u64 = 1_000_000;
const READERS: u64 = 100;

#[allow(clippy::cast_precision_loss)]
fn ns_each(began: Clock, count: u64) -> f64 {
    began.elapsed().as_secs_f64() * 1e9 / count as f64
}

#[test]
// Asserts nothing but prints costs, for `cargo test -p pitwire-gateway --test costs -- --ignored`.
#[ignore = "a benchmark that prints nanoseconds per message; it has no result to check"]
fn a_message_of_200_bytes() {
    let key = BusKey::new([7; 32]);
    for in_a_batch in [1, 10, 100] {
        let began = Clock::now();
        let batches: Vec<Vec<u8>> = (0..MESSAGES / in_a_batch)
            .map(|batch| {
                let first = batch * in_a_batch + 1;
                let mut writer = BatchWriter::new(1, first);
                for n in 0..in_a_batch {
                    let put = |out: &mut Vec<u8>| {
                        write_frame(out, Opcode::Text, &[b'x'; 200]);
                        Ok::<(), ()>(())
                    };
                    writer.push(first + n - 1, "book.NPN_ZAR.100ms", put).unwrap();
                }
                writer.finish()
            })
            .collect();
        let numbering = ns_each(began, MESSAGES);
        let began = Clock::now();
        let sealed: Vec<Vec<u8>> = batches
            .into_iter()
            .map(|mut batch| {
                key.seal("pitwire.public", &mut batch);
                batch
            })
            .collect();
        let sealing = ns_each(began, MESSAGES);
        let began = Clock::now();
        let opened: Vec<Vec<u8>> =
            sealed.iter().map(|sealed| key.open("pitwire.public", sealed).unwrap().to_vec()).collect();
        let opening = ns_each(began, MESSAGES);
        drop(sealed);
        let (taking, pumping) = at_a_gateway(opened);
        println!(
            "{in_a_batch:>3} a batch: number {numbering:.0} ns, seal {sealing:.0} ns, check {opening:.0} ns, keep {taking:.0} ns a message; \
             to a reader {pumping:.0} ns"
        );
    }
}

/// Returns the nanoseconds to receive a message, and to copy it to one reader.
#[allow(clippy::cast_precision_loss)]
fn at_a_gateway(batches: Vec<Vec<u8>>) -> (f64, f64) {
    let mut node = Node::new("1", 64 << 20);
    let now = GatewayTime { steady_ns: 1, wall_us: 1 };
    let answer =
        |node: &mut Node, ask: VenueQuestion, reply: Reply| node.answered(&ask, Ok(reply), now, &mut DeafClients);
    while let Some(ask) = node.next_question(now.steady_ns) {
        answer(&mut node, ask, Reply { epoch: 1, oldest: 1, names: vec!["NPN_ZAR".into()], ..Reply::default() });
    }
    let channel = "book.NPN_ZAR.100ms";
    for id in 0..READERS {
        node.connected(id);
        node.opened(id, &format!("/ws/api/v2?channels={channel}"), now, &mut DeafClients);
    }
    while let Some(ask) = node.next_question(now.steady_ns) {
        let reply =
            Reply { epoch: 1, oldest: 1, outcome: ReplyOutcome::Done, channel: channel.into(), ..Reply::default() };
        answer(&mut node, ask, reply);
    }
    let (mut taking, mut pumping, mut out) = (0.0, 0.0, Vec::new());
    let mut copied = 0;
    for turn in batches.chunks(100) {
        let began = Clock::now();
        for batch in turn {
            node.subscriptions.batch(batch.clone(), &mut DeafClients);
        }
        taking += began.elapsed().as_secs_f64();
        let began = Clock::now();
        for id in 0..READERS {
            out.clear();
            node.subscriptions.read(id, &mut out, usize::MAX).unwrap();
            copied += out.len() as u64 / 204;
        }
        pumping += began.elapsed().as_secs_f64();
    }
    assert_eq!(copied, MESSAGES * READERS);
    (taking * 1e9 / MESSAGES as f64, pumping * 1e9 / copied as f64)
}
